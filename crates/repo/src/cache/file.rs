//! Files of the cache, and temporary files: sealed pages and blocks at known places.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ibid_format::run::{BLOCK, PAGE, PAGE_PLAIN, Section, open, seal};
use ibid_format::{FileId, FileKind, Keys};

use crate::layout::new_id;
use crate::{Error, Result};

/// Bytes gathered before they are written.
const BUFFER: usize = 256 << 10;

/// A sealed file that is open for reading.
pub(crate) struct SealedFile {
    file: File,
    path: PathBuf,
    keys: Keys,
    id: FileId,
}

impl SealedFile {
    /// Opens the file with this name.
    ///
    /// # Errors
    /// [`Error::Local`].
    pub(crate) fn open(path: PathBuf, keys: &Keys, id: FileId) -> Result<SealedFile> {
        let file = File::open(&path).map_err(|source| Error::local("read", &path, source))?;
        let keys = keys.clone();
        Ok(SealedFile { file, path, keys, id })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Returns the size, bytes.
    pub(crate) fn size(&self) -> Result<u64> {
        let file = self.file.metadata();
        Ok(file
            .map_err(|source| Error::local("look at", &self.path, source))?
            .len())
    }

    /// Checks the first bytes.
    pub(crate) fn check(&self, kind: FileKind) -> Result<()> {
        let mut head = [0; 8];
        self.read_at(&mut head, 0)?;
        kind.check(&head).map_err(self.damaged())
    }

    /// Returns what makes an error of the decoder one about this file.
    pub(crate) fn damaged(&self) -> impl FnOnce(ibid_format::Error) -> Error {
        Error::damaged(self.path.display())
    }

    /// Returns whether an error is that this file can't be read.
    pub(crate) fn is_at_fault(&self, error: &Error) -> bool {
        match error {
            Error::Damaged { object, .. } => *object == self.path.display().to_string(),
            Error::Local { path, .. } => *path == self.path,
            _ => false,
        }
    }

    pub(crate) fn read_at(&self, bytes: &mut [u8], position: u64) -> Result<()> {
        let read = self.file.read_exact_at(bytes, position);
        read.map_err(|source| Error::local("read", &self.path, source))
    }

    /// Reads and opens a block of this length, seal included, into `sealed`; returns its plaintext.
    pub(crate) fn block<'s>(&self, position: u64, length: usize, sealed: &'s mut Vec<u8>) -> Result<&'s [u8]> {
        sealed.resize(length, 0);
        self.read_at(sealed, position)?;
        open(&self.keys, self.id, position, sealed).map_err(self.damaged())
    }

    /// Reads a page.
    pub(crate) fn page<T>(
        &self,
        position: u64,
        read: impl FnOnce(&[u8]) -> std::result::Result<T, ibid_format::Error>,
    ) -> Result<T> {
        let mut sealed = [0; PAGE];
        self.read_at(&mut sealed, position)?;
        let plain = open(&self.keys, self.id, position, &mut sealed);
        plain.and_then(read).map_err(self.damaged())
    }

    /// Writes a page over what is at a position, for files without a name only.
    pub(crate) fn write_page(&self, position: u64, plain: &[u8; PAGE_PLAIN]) -> Result<()> {
        let mut sealed = Vec::with_capacity(PAGE);
        seal(&self.keys, self.id, position, plain, &mut sealed);
        let written = self.file.write_all_at(&sealed, position);
        written.map_err(|source| Error::local("write", &self.path, source))
    }

    /// Reads a page that [`write_page`](SealedFile::write_page) has written.
    pub(crate) fn read_page(&self, position: u64, plain: &mut [u8; PAGE_PLAIN]) -> Result<()> {
        let mut sealed = [0; PAGE];
        self.read_at(&mut sealed, position)?;
        let read = open(&self.keys, self.id, position, &mut sealed).map_err(self.damaged())?;
        plain.copy_from_slice(read);
        Ok(())
    }

    /// Reads a section, which the trailer has placed within the file.
    pub(crate) fn section(&self, section: Section) -> Result<Vec<u8>> {
        let mut plain = Vec::with_capacity(section.plain as usize);
        let mut sealed = Vec::new();
        for block in section.blocks() {
            let length = (block.end - block.start) as usize;
            plain.extend_from_slice(self.block(block.start, length, &mut sealed)?);
        }
        Ok(plain)
    }

    /// Deletes the file. Processes that have it open can read on.
    pub(crate) fn delete(&self) {
        // It may be gone already; if it can't be deleted, the next command tries again.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A sealed file being written.
pub(crate) struct SealedWriter {
    file: File,
    /// Where the file is, and where it is to be; none if it has no name.
    path: PathBuf,
    named: Option<PathBuf>,
    keys: Keys,
    id: FileId,
    position: u64,
    buffer: Vec<u8>,
}

impl SealedWriter {
    /// Begins a file in this folder. If it stays, it is named `<id>` when it is finished; otherwise it
    /// has no name, and is gone when it is closed.
    pub(crate) fn new(keys: &Keys, folder: &Path, stays: bool) -> Result<SealedWriter> {
        let id = new_id();
        let path = folder.join(format!("tmp-{id}"));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|source| Error::local("make", &path, source))?;
        if !stays {
            // Whatever happens now, nothing is left behind.
            std::fs::remove_file(&path).map_err(|source| Error::local("unlink", &path, source))?;
        }
        Ok(SealedWriter {
            file,
            path,
            named: stays.then(|| folder.join(id.to_string())),
            keys: keys.clone(),
            id,
            position: 0,
            buffer: Vec::new(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the position of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.position + self.buffer.len() as u64
    }

    /// Adds bytes as they are.
    pub(crate) fn plain(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        self.write(BUFFER)
    }

    /// Seals bytes and adds them.
    pub(crate) fn seal(&mut self, plain: &[u8]) -> Result<()> {
        let position = self.position();
        seal(&self.keys, self.id, position, plain, &mut self.buffer);
        self.write(BUFFER)
    }

    /// Adds a section.
    pub(crate) fn section(&mut self, plain: &[u8]) -> Result<()> {
        plain.chunks(BLOCK).try_for_each(|block| self.seal(block))
    }

    /// Adds what `seal` appends.
    pub(crate) fn append(&mut self, seal: impl FnOnce(&Keys, FileId, &mut Vec<u8>)) -> Result<()> {
        seal(&self.keys, self.id, &mut self.buffer);
        self.write(BUFFER)
    }

    /// Writes what was gathered, if there are so many bytes.
    fn write(&mut self, least: usize) -> Result<()> {
        if self.buffer.len() < least {
            return Ok(());
        }
        let written = self.file.write_all(&self.buffer);
        let gathered = self.buffer.len() as u64;
        self.buffer.clear();
        written.map_err(|source| Error::local("write", &self.path, source))?;
        self.position += gathered;
        Ok(())
    }

    /// Writes what was gathered. After an error that is lost, and nothing more can be added; what was
    /// written before can be read.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.write(1)
    }

    /// Reads what was written, sealed, at a position.
    pub(crate) fn read_back<'s>(&mut self, range: Range<u64>, sealed: &'s mut Vec<u8>) -> Result<&'s [u8]> {
        self.write(1)?;
        sealed.resize((range.end - range.start) as usize, 0);
        let read = self.file.read_exact_at(sealed, range.start);
        read.map_err(|source| Error::local("read", &self.path, source))?;
        open(&self.keys, self.id, range.start, sealed).map_err(Error::damaged(self.path.display()))
    }

    /// Ends the file, and returns it for reading.
    pub(crate) fn finish(mut self) -> Result<SealedFile> {
        self.write(1)?;
        if let Some(path) = self.named.take() {
            // Not synced: a file that a crash leaves incomplete does not open.
            std::fs::rename(&self.path, &path).map_err(|source| Error::local("name", &path, source))?;
            self.path = path;
        }
        let file = self.file.try_clone();
        Ok(SealedFile {
            file: file.map_err(|source| Error::local("use", &self.path, source))?,
            path: self.path.clone(),
            keys: self.keys.clone(),
            id: self.id,
        })
    }
}

impl Drop for SealedWriter {
    fn drop(&mut self) {
        if self.named.is_some() {
            // It was not finished.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
