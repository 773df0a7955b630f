//! What the system's memory allocator keeps of memory that is freed.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod others;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) use self::glibc::{keep_to, set_up};
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) use self::others::{keep_to, set_up};
