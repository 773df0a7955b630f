//! Where the repositories of simulations are: in memory, or on a disk that fails, unless the simulator puts a line to a
//! server around them.

use std::sync::{Arc, OnceLock};

use ibid_storage::{Memory, Storage};

/// A storage that several hold.
pub type Place = Arc<dyn Storage>;

/// Returns a storage that has what another one has, and is reached in another way.
pub type Around = fn(Place) -> Place;

static AROUND: OnceLock<Around> = OnceLock::new();

/// Has all repositories from here on be reached so. The first call counts.
pub fn reach_all(around: Around) {
    AROUND.get_or_init(|| around);
}

/// Returns a storage as repositories are to reach it. It may be a copy, so use the result alone.
pub fn reached(storage: impl Storage + 'static) -> Place {
    let storage: Place = Arc::new(storage);
    match AROUND.get() {
        Some(around) => around(storage),
        None => storage,
    }
}

/// Returns a storage without objects.
pub fn empty() -> Place {
    reached(Memory::new())
}
