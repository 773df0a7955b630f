//! Which vector instructions does this CPU have, and how does a kernel use them?
//!
//! The first answer is a value, [`Backend`]: a program can name one, list those that this machine
//! runs ([`Backend::available`]), take the fastest ([`Backend::best`]) or let its user force one
//! through the environment variable [`ENVIRONMENT_VARIABLE`] ([`Backend::preferred`]).
//!
//! The second is a pair of traits. A [`Kernel`] is an algorithm, written once over any [`Vector`];
//! [`Backend::run`] compiles it once for each set of instructions and calls the one that is wanted.
//! Kernels need no `unsafe`: a `Vector` is a proof that its instructions are there, since only
//! `Backend::run` makes one, and a `Backend` exists only for what was found on this CPU.
//!
//! ```
//! use ibid_simd::{Backend, Kernel, Vector};
//!
//! /// How many of 64 bytes are at least `least`?
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
//! `std` (by default): CPUs are asked at run time what they have, and the environment is read.
//! Without it the crate needs `alloc` alone and believes the compiler's target features.
#![allow(unsafe_code, reason = "intrinsics; this is the crate that has them")]
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
