//! Which vector instructions does this CPU have?
//!
//! The answer is a value, [`Backend`]: a program can name one, list those that this machine runs
//! ([`Backend::available`]), take the fastest ([`Backend::best`]) or let its user force one through
//! the environment variable [`ENVIRONMENT_VARIABLE`] ([`Backend::from_setting`]). A `Backend` exists
//! only for instructions that were found on this CPU, which is what will make it sound for a kernel
//! to be called through it.
//!
//! The crate holds no kernels yet and no `unsafe`.
//!
//! ```
//! use ibid_simd::Backend;
//!
//! let fastest = Backend::best();
//! assert!(Backend::available().any(|backend| backend == fastest));
//! assert_eq!(Backend::from_name("scalar")?, Backend::scalar());
//! # Ok::<(), ibid_simd::BackendError>(())
//! ```
#![forbid(unsafe_code)]

mod backend;

pub use backend::{Backend, BackendError, ENVIRONMENT_VARIABLE};
