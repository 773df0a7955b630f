//! A set of vector instructions as a value.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// The environment variable by which a user forces a backend: its value is one of the names that
/// [`Backend::from_setting`] reads.
pub const ENVIRONMENT_VARIABLE: &str = "IBID_SIMD";

/// The name that stands for [`Backend::best`] in a setting.
const AUTOMATIC: &str = "auto";

/// Every set this crate knows, slowest first: the order of [`Backend::available`].
const KNOWN: [Isa; 4] = [Isa::Scalar, Isa::Sse41, Isa::Avx2, Isa::Avx512];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Isa {
    Scalar,
    Sse41,
    Avx2,
    Avx512,
}

impl Isa {
    const fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Sse41 => "sse41",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    /// Whether this CPU (and its operating system) runs the instructions.
    #[cfg(target_arch = "x86_64")]
    fn is_present(self) -> bool {
        use std::arch::is_x86_feature_detected as has;
        match self {
            Isa::Scalar => true,
            Isa::Sse41 => has!("sse4.1") && has!("popcnt"),
            Isa::Avx2 => has!("avx2") && bit_fields_are_present(),
            // 512 bits of bytes need BW; plain AVX-512F compares nothing narrower than 32 bits.
            Isa::Avx512 => has!("avx512f") && has!("avx512bw") && bit_fields_are_present(),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_present(self) -> bool {
        self == Isa::Scalar
    }
}

/// What a kernel does with the masks that its wide compares give: count, find, deposit, extract.
#[cfg(target_arch = "x86_64")]
fn bit_fields_are_present() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("popcnt") && has!("bmi1") && has!("bmi2")
}

/// A set of vector instructions that this CPU has. The only way to get one is to find it here.
///
/// | name | instructions |
/// |---|---|
/// | `scalar` | none; on every machine |
/// | `sse41` | SSE4.1, POPCNT |
/// | `avx2` | AVX2, POPCNT, BMI1, BMI2 |
/// | `avx512` | AVX-512 F and BW, POPCNT, BMI1, BMI2 |
///
/// ```
/// let names: Vec<_> = ibid_simd::Backend::available().map(|backend| backend.name()).collect();
/// assert_eq!(names[0], "scalar");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Backend(Isa);

impl Backend {
    /// The backend without vector instructions, present everywhere.
    #[must_use]
    pub const fn scalar() -> Backend {
        Backend(Isa::Scalar)
    }

    /// Every backend that this machine runs, slowest first; the first is [`Backend::scalar`].
    pub fn available() -> impl Iterator<Item = Backend> {
        KNOWN.into_iter().filter(|isa| isa.is_present()).map(Backend)
    }

    /// The fastest backend of this machine. Looked up once for a process.
    #[must_use]
    pub fn best() -> Backend {
        static BEST: OnceLock<Backend> = OnceLock::new();
        *BEST.get_or_init(|| Backend::available().last().unwrap_or(Backend::scalar()))
    }

    /// The name by which [`Backend::from_name`] finds it again; it never changes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name()
    }

    /// The backend of that exact name (lower case).
    ///
    /// # Errors
    /// [`BackendError::Unknown`] when no backend has that name, [`BackendError::Missing`] when this
    /// CPU lacks its instructions.
    pub fn from_name(name: &str) -> Result<Backend, BackendError> {
        let Some(isa) = KNOWN.into_iter().find(|isa| isa.name() == name) else {
            return Err(BackendError::Unknown { found: name.to_owned() });
        };
        if isa.is_present() {
            Ok(Backend(isa))
        } else {
            Err(BackendError::Missing { name: isa.name() })
        }
    }

    /// What a value of [`ENVIRONMENT_VARIABLE`] asks for: nothing, an empty value or `auto` means
    /// [`Backend::best`], anything else is a name. Case and surrounding blanks do not matter.
    ///
    /// The environment itself is not read here, so that the rule can be tested and a program
    /// decides once, at its start.
    ///
    /// ```
    /// use ibid_simd::{Backend, ENVIRONMENT_VARIABLE};
    ///
    /// let asked = std::env::var(ENVIRONMENT_VARIABLE).ok();
    /// let backend = Backend::from_setting(asked.as_deref());
    /// assert_eq!(Backend::from_setting(Some(" Auto ")), Ok(Backend::best()));
    /// # let _ = backend;
    /// ```
    ///
    /// # Errors
    /// As for [`Backend::from_name`]: a wish that cannot be met is never replaced in silence.
    pub fn from_setting(value: Option<&str>) -> Result<Backend, BackendError> {
        let wanted = value.unwrap_or(AUTOMATIC).trim().to_ascii_lowercase();
        if wanted.is_empty() || wanted == AUTOMATIC {
            Ok(Backend::best())
        } else {
            Backend::from_name(&wanted)
        }
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Backend({})", self.name())
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl FromStr for Backend {
    type Err = BackendError;

    fn from_str(name: &str) -> Result<Backend, BackendError> {
        Backend::from_name(name)
    }
}

/// Why a name gives no backend.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendError {
    /// No backend has this name.
    Unknown {
        /// The name asked for.
        found: String,
    },
    /// The name is known; the CPU does not have the instructions.
    Missing {
        /// The name asked for.
        name: &'static str,
    },
}

impl fmt::Display for BackendError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackendError::Unknown { found } => {
                write!(out, "no vector backend is called {found:?}: expected {AUTOMATIC}")?;
                KNOWN.iter().try_for_each(|isa| write!(out, ", {}", isa.name()))
            }
            BackendError::Missing { name } => {
                write!(
                    out,
                    "this CPU does not have the instructions of the vector backend {name}: it has"
                )?;
                Backend::available().try_for_each(|backend| write!(out, " {backend}"))
            }
        }
    }
}

impl std::error::Error for BackendError {}
