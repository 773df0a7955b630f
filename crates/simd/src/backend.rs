//! A set of vector instructions as a value.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use crate::Kernel;
#[cfg(target_arch = "aarch64")]
use crate::neon;
#[cfg(target_arch = "x86_64")]
use crate::x86;

/// The environment variable by which a user forces a backend: its value is one of the names that
/// [`Backend::from_setting`] reads.
pub const ENVIRONMENT_VARIABLE: &str = "IBID_SIMD";

/// The name that stands for [`Backend::best`] in a setting.
const AUTOMATIC: &str = "auto";

/// The sets from which the fastest is chosen, slowest first: the order of [`Backend::available`].
const RANKED: [Isa; 5] = [Isa::Scalar, Isa::Neon, Isa::Sse41, Isa::Avx2, Isa::Avx512];
/// Every set that has a name, whether or not it competes to be the fastest.
const KNOWN: [Isa; 6] = [
    Isa::Scalar,
    Isa::Neon,
    Isa::Sse41,
    Isa::Avx2,
    Isa::Avx512,
    Isa::Avx512Gather,
];

/// Whether the CPU and its operating system support a feature: detected at run time with `std`,
/// else taken from the compiler's target features.
#[cfg(all(target_arch = "x86_64", feature = "std"))]
macro_rules! has {
    ($feature:tt) => {
        std::arch::is_x86_feature_detected!($feature)
    };
}
#[cfg(all(target_arch = "x86_64", not(feature = "std")))]
macro_rules! has {
    ($feature:tt) => {
        cfg!(target_feature = $feature)
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Isa {
    Scalar,
    Neon,
    Sse41,
    Avx2,
    Avx512,
    Avx512Gather,
}

impl Isa {
    const fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Neon => "neon",
            Isa::Sse41 => "sse41",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Avx512Gather => "avx512-gather",
        }
    }

    /// Whether this CPU and its operating system run the instructions.
    #[cfg(target_arch = "x86_64")]
    fn is_present(self) -> bool {
        match self {
            Isa::Scalar => true,
            Isa::Neon => false,
            Isa::Sse41 => [has!("sse4.1"), has!("popcnt")] == [true; 2],
            Isa::Avx2 => has!("avx2") && bit_fields_are_present(),
            // 512 bits of bytes need BW; plain AVX-512F compares nothing narrower than 32 bits.
            Isa::Avx512 | Isa::Avx512Gather => {
                [has!("avx512f"), has!("avx512bw")] == [true; 2] && bit_fields_are_present()
            }
        }
    }

    /// Every target of 64-bit ARM has NEON unless the compiler is told otherwise.
    #[cfg(target_arch = "aarch64")]
    fn is_present(self) -> bool {
        self == Isa::Scalar || self == Isa::Neon && cfg!(target_feature = "neon")
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn is_present(self) -> bool {
        self == Isa::Scalar
    }
}

/// Whether the CPU has the instructions that kernels use on masks: count, find, deposit, extract.
#[cfg(target_arch = "x86_64")]
fn bit_fields_are_present() -> bool {
    [has!("popcnt"), has!("bmi1"), has!("bmi2")] == [true; 3]
}

/// A set of vector instructions that this CPU has: a value exists only if they were found on it.
///
/// | name | instructions |
/// |---|---|
/// | `scalar` | none; on every machine |
/// | `neon` | NEON, on 64-bit ARM |
/// | `sse41` | SSE4.1, POPCNT |
/// | `avx2` | AVX2, POPCNT, BMI1, BMI2 |
/// | `avx512` | AVX-512 F and BW, POPCNT, BMI1, BMI2 |
/// | `avx512-gather` | those of `avx512`, and its gathers, which `avx512` does not use |
///
/// Gathers were not faster on any CPU measured so far. `avx512-gather` exists to measure them: you
/// get it only by its name, never from [`Backend::best`] or [`Backend::available`].
///
/// ```
/// let names: Vec<_> = ibid_simd::Backend::available().map(|backend| backend.name()).collect();
/// assert_eq!(names[0], "scalar");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Backend(Isa);

impl Backend {
    /// Returns the backend without vector instructions, which every machine has.
    #[must_use]
    pub const fn scalar() -> Backend {
        Backend(Isa::Scalar)
    }

    /// Returns the backends that this machine runs, slowest first, without `avx512-gather`. The first
    /// is [`Backend::scalar`].
    pub fn available() -> impl Iterator<Item = Backend> {
        RANKED.into_iter().filter(|isa| isa.is_present()).map(Backend)
    }

    /// Returns the fastest backend of this machine.
    #[must_use]
    pub fn best() -> Backend {
        Backend::available().last().unwrap_or(Backend::scalar())
    }

    /// Returns the backend that [`ENVIRONMENT_VARIABLE`] asks for, as [`Backend::from_setting`] reads
    /// it. A process reads the environment once. Without the feature `std` it is never read, and
    /// this is [`Backend::best`].
    ///
    /// # Errors
    /// As [`Backend::from_name`], at every call. A value that is not Unicode is unknown.
    pub fn preferred() -> Result<Backend, BackendError> {
        #[cfg(feature = "std")]
        {
            static PREFERRED: std::sync::OnceLock<Result<Backend, BackendError>> = std::sync::OnceLock::new();
            let preferred = PREFERRED.get_or_init(|| {
                let value = std::env::var_os(ENVIRONMENT_VARIABLE);
                Backend::from_setting(value.as_ref().map(|value| value.to_string_lossy()).as_deref())
            });
            preferred.clone()
        }
        #[cfg(not(feature = "std"))]
        Ok(Backend::best())
    }

    /// Runs `kernel` with the instructions of this backend.
    ///
    /// The call costs a jump and is not inlined, so a kernel should process some hundred bytes at
    /// least.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this value exists, so `Isa::is_present` found the features on this CPU.
            Isa::Sse41 => unsafe { x86::sse41(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Isa::Avx2 => unsafe { x86::avx2(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Isa::Avx512 | Isa::Avx512Gather => unsafe { x86::avx512(kernel) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above.
            Isa::Neon => unsafe { neon::neon(kernel) },
            _ => kernel.run_scalar(),
        }
    }

    /// Whether kernels should look up tables by [`Vector::gather_u64`](crate::Vector::gather_u64):
    /// true for `avx512-gather` alone.
    #[must_use]
    pub fn gathers(self) -> bool {
        self.0 == Isa::Avx512Gather
    }

    /// Returns its name, by which [`Backend::from_name`] finds it. Names never change.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name()
    }

    /// Returns the backend with exactly this name, in lower case.
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

    /// Returns the backend that a setting asks for: [`Backend::best`] for `None`, an empty value or
    /// `auto`, else the one with this name. Case and surrounding blanks do not matter.
    ///
    /// This does not read the environment; [`Backend::preferred`] does.
    ///
    /// ```
    /// use ibid_simd::Backend;
    ///
    /// assert_eq!(Backend::from_setting(Some(" Auto ")), Ok(Backend::best()));
    /// assert!(Backend::from_setting(Some("mmx")).is_err());
    /// ```
    ///
    /// # Errors
    /// As [`Backend::from_name`]: no other backend silently takes the place of a missing one.
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

/// Why there is no backend with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendError {
    /// No backend has this name.
    Unknown {
        /// The name asked for.
        found: String,
    },
    /// This CPU does not have the instructions of this backend.
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
                let mut present = KNOWN.into_iter().filter(|isa| isa.is_present());
                present.try_for_each(|isa| write!(out, " {}", isa.name()))
            }
        }
    }
}

impl core::error::Error for BackendError {}
