//! Vector instructions as values, and kernels written once for all of them.
//!
//! A [`Backend`] is a set of vector instructions that this CPU has. A program can name one, list
//! them ([`Backend::available`]), take the fastest ([`Backend::best`]), or let its user force one
//! through the environment variable [`ENVIRONMENT_VARIABLE`] ([`Backend::preferred`]).
//!
//! A [`Kernel`] is an algorithm written once over any [`Vector`]. [`Backend::run`] compiles it for
//! each set of instructions and calls the right one. Kernels need no `unsafe`: a `Vector` proves
//! that its instructions exist, because only `Backend::run` makes one, and a `Backend` exists only
//! if this CPU was found to have it.
//!
//! ```
//! use ibid_simd::{Backend, Kernel, Vector};
//!
//! /// Counts those of 64 bytes that are at least `least`.
//! struct Count<'a> {
//!     bytes: &'a [u8; 64],
//!     least: u8,
//! }
//!
//! impl Kernel for Count<'_> {
//!     type Output = u32;
//!
//!     fn run_scalar(self) -> u32 {
//!         self.bytes.iter().filter(|byte| **byte >= self.least).count() as u32
//!     }
//!
//!     #[inline(always)]
//!     fn run<V: Vector>(self, vector: V) -> u32 {
//!         let least = vector.splat(self.least);
//!         let counts = (0..64).step_by(V::LANES).map(|at| {
//!             let found = vector.at_least(vector.load(self.bytes, at), least);
//!             vector.count_ones(found)
//!         });
//!         counts.sum()
//!     }
//! }
//!
//! let bytes: [u8; 64] = core::array::from_fn(|at| at as u8);
//! for backend in Backend::available() {
//!     assert_eq!(backend.run(Count { bytes: &bytes, least: 60 }), 4);
//! }
//! ```
//!
//! # Features
//!
//! `std` (by default): instructions are detected at run time, and [`Backend::preferred`] reads the
//! environment. Without it the crate needs `alloc` alone and believes the compiler's target features.
#![allow(unsafe_code, reason = "vector intrinsics are unsafe functions")]
#![warn(clippy::missing_errors_doc, clippy::unwrap_used)]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod backend;
mod bits;
mod instruction;
#[cfg(target_arch = "aarch64")]
mod neon;
mod prefetch;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use backend::{Backend, BackendError, ENVIRONMENT_VARIABLE};
pub use instruction::Instruction;
pub use prefetch::{prefetch, prefetch_far};
pub use vector::{BLOCK, Kernel, Vector};
