//! Compressing records together, and giving back disk space: in the background, and when a user asks for it.

mod activity;
mod keeper;
mod packer;
mod settings;
mod window;

use std::ops::ControlFlow;

pub(crate) use self::activity::Activity;
pub(crate) use self::keeper::{Keeper, KeeperProgress};
pub(crate) use self::packer::BlockNumbers;
use self::packer::{Occasion, Packer};
pub use self::settings::Compacting;
use crate::engine::Engine;
use crate::error::Error;
use crate::read::records::Records;
use crate::write::handle::WriterHandle;

/// The result of compacting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Compaction {
    /// Records that were moved into blocks.
    pub records: u64,
    /// Bytes of these records before, without the engine's overhead.
    pub bytes_before: u64,
    /// Bytes of the blocks that they are in now.
    pub bytes_after: u64,
    /// Blocks that were compressed anew or removed.
    pub blocks_freed: u64,
}

/// Compresses all records together with others, and returns unused disk space. Calls `progress`
/// with the number of bytes of records compressed since its last call; it may stop the work.
pub(crate) fn compact(
    engine: &dyn Engine,
    records: &Records,
    numbers: &BlockNumbers,
    writer: &WriterHandle,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Compaction, Error> {
    let mut numbers = numbers.lock();
    let snapshot = engine.snapshot()?;
    let mut go_on = || ControlFlow::Continue(());
    let mut packer = Packer::new(&*snapshot, records, &mut numbers, writer, Occasion::Request, &mut go_on);
    let freed = packer.read_worn_blocks()?;
    packer.pack_all(0, u64::MAX, progress)?;
    packer.finish()?;
    let (done, damage) = packer.remove_blocks(freed)?;
    drop(snapshot);
    engine.compact()?;
    damage.map_or(Ok(done), Err)
}
