//! All bodies in one stream of zstd: the most that zstd saves with a window of 128 MiB.

use std::fs::File;
use std::io::{BufReader, Read as _, Write as _};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use ibid_format::wire;

use super::input::Entry;
use super::subject::{Finished, LEVEL, Load, Read, Subject};

/// The window of `zstd --long=27`.
const WINDOW_LOG: u32 = 27;
/// The bytes of the length before each body.
const LENGTH_BYTES: usize = 4;

pub(crate) struct Stream;

struct Writer(zstd::stream::write::Encoder<'static, File>);

struct Reader {
    file_bytes: u64,
    decoder: zstd::stream::read::Decoder<'static, BufReader<File>>,
}

impl Subject for Stream {
    fn create(&self, folder: &Path) -> Result<Box<dyn Load>> {
        let mut encoder = zstd::stream::write::Encoder::new(File::create(folder.join("stream.zst"))?, LEVEL)?;
        encoder.long_distance_matching(true)?;
        encoder.window_log(WINDOW_LOG)?;
        Ok(Box::new(Writer(encoder)))
    }

    fn open(&self, folder: &Path) -> Result<Box<dyn Read>> {
        let file = File::open(folder.join("stream.zst"))?;
        let file_bytes = file.metadata()?.len();
        let mut decoder = zstd::stream::read::Decoder::new(file)?;
        decoder.window_log_max(WINDOW_LOG)?;
        Ok(Box::new(Reader { file_bytes, decoder }))
    }
}

impl Load for Writer {
    /// Does not sync: a stream has no transactions.
    fn load(&mut self, batch: &[Entry]) -> Result<()> {
        for entry in batch {
            let mut length = Vec::with_capacity(LENGTH_BYTES);
            wire::put_u32(&mut length, u32::try_from(entry.body.len())?);
            self.0.write_all(&length)?;
            self.0.write_all(&entry.body)?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        self.0.finish()?.sync_all()?;
        Ok(Finished::default())
    }
}

impl Read for Reader {
    fn latest(&mut self, _: &[u8]) -> Result<Option<Vec<u8>>> {
        bail!("a stream has no keys")
    }

    fn version(&mut self, _: &[u8], _: u32) -> Result<Option<Vec<u8>>> {
        let mut length = [0; LENGTH_BYTES];
        self.decoder.read_exact(&mut length).context("the stream ends early")?;
        let (length, mut body) = (u64::from(u32::from_le_bytes(length)), Vec::new());
        let read = self.decoder.by_ref().take(length).read_to_end(&mut body)?;
        ensure!(read as u64 == length, "the stream ends within a body");
        Ok(Some(body))
    }

    fn value_bytes(self: Box<Self>) -> Result<Option<u64>> {
        Ok(Some(self.file_bytes))
    }
}
