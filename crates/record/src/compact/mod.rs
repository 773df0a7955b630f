//! Compressing records together, and giving back disk space: in the background, and when a user asks for it.

mod activity;
mod keeper;
mod packer;
mod rebase;
mod settings;
mod window;

use std::ops::ControlFlow;

use ibid_delta::Interval;

pub(crate) use self::activity::{Activity, RECORD_BYTES, Waiting};
pub(crate) use self::keeper::{Keeper, KeptFor};
pub(crate) use self::packer::BlockNumbers;
use self::packer::{Occasion, Packer};
use self::rebase::rebase;
pub use self::settings::Compacting;
use crate::engine::Engine;
use crate::error::Error;
use crate::read::lookup;
use crate::read::records::Records;
use crate::write::handle::WriterHandle;
use crate::write::references;
use crate::write::request::{Command, Durability};

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
    /// Whether something was purged before, and nothing of it is left in the store's files, but for
    /// [`purged_for_log`](Self::purged_for_log).
    pub wiped: bool,
    /// Records that were purged and are kept for replicas, because the log names them.
    pub purged_for_log: u64,
}

/// Compresses all records together with others, and returns unused disk space. Calls `progress`
/// with the number of bytes of records compressed since its last call; it may stop the work.
pub(crate) fn compact(
    engine: &dyn Engine,
    records: &Records,
    numbers: &BlockNumbers,
    writer: &WriterHandle,
    (interval, window_bytes): (Interval, usize),
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Compaction, Error> {
    let mut numbers = numbers.lock();
    let purged_for_log = rebase(engine, records, writer, interval)?;
    let snapshot = engine.snapshot()?;
    let purges = references::purged_mark(&*snapshot)?;
    // Not what is committed meanwhile, of which there may be no end.
    let below = lookup::next(&*snapshot)?.record;
    drop(snapshot);
    let how = (Occasion::Request, window_bytes);
    let mut packer = Packer::new(engine, records, &mut numbers, writer, how, progress);
    if purges.is_some() {
        packer.free_all();
    }
    let mut worn = packer.worn_blocks()?;
    packer.read_worn_blocks(&mut worn, u64::MAX)?;
    packer.pack_all(below)?;
    packer.finish()?;
    let is_complete = !packer.has_ended();
    let (done, damage) = packer.remove_blocks()?;
    engine.compact()?;
    let mut done = Compaction { purged_for_log, ..done };
    if let Some(purges) = purges.filter(|_| is_complete) {
        done.wiped = engine.wipe()?;
        if done.wiped {
            writer.ask(Command::ForgetPurges(purges), Durability::None)?;
        }
    }
    damage.map_or(Ok(done), Err)
}
