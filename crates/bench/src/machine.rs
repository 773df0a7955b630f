//! The machine of a measurement.

/// The properties of a machine that speeds depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The name of the processor; empty if unknown.
    pub cpu: String,
    /// Threads that can run at once.
    pub threads: usize,
}

impl Machine {
    /// Returns the machine that this runs on.
    #[must_use]
    pub fn here() -> Machine {
        let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Machine {
            cpu: model_name(&cpus).unwrap_or_default().to_owned(),
            threads: std::thread::available_parallelism().map_or(1, Into::into),
        }
    }
}

fn model_name(cpus: &str) -> Option<&str> {
    let line = cpus.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named_by_the_kernel() {
        let text = "processor\t: 0\nmodel name\t: Imaginary (R) 9000\nmodel name\t: other\n";
        assert_eq!(model_name(text), Some("Imaginary (R) 9000"));
        assert_eq!(model_name("processor: 0\n"), None);
    }
}
