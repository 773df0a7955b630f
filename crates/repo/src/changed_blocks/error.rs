//! Reasons why a map of changed blocks can't be used.

/// Reason why a map of changed blocks can't be used. A map that is wrong in a way that can't be
/// noticed would make a wrong snapshot, so everything that can be noticed is an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangedBlocksError {
    /// The map can't be read.
    #[error("it cannot be read: {source}")]
    Unreadable {
        /// The system's error.
        source: std::io::Error,
    },
    /// A part of the map has another form than expected.
    #[error("{place}: expected {expected}, found {found}")]
    Syntax {
        /// The line or extent, counted from 1.
        place: String,
        /// The expected form.
        expected: &'static str,
        /// What was found.
        found: String,
    },
    /// A range ends beyond 2^63 bytes.
    #[error("{place}: {length} bytes from {offset} end beyond the largest offset, {}", i64::MAX)]
    TooFar {
        /// The line or extent, counted from 1.
        place: String,
        /// Where the range begins, bytes.
        offset: u64,
        /// Length of the range, bytes.
        length: u64,
    },
    /// Extents do not follow one another.
    #[error("{place}: expected an extent that begins at {expected}, where the one before ends, found {found}")]
    Gap {
        /// The extent, counted from 1.
        place: String,
        /// Where the extent before ends, bytes; 0 if there is none.
        expected: u64,
        /// Where the extent begins, bytes.
        found: u64,
    },
    /// The map describes something else than a dirty bitmap, such as which blocks are allocated.
    #[error("{place}: expected an extent of a dirty bitmap, found {found}")]
    NoDirtyBitmap {
        /// The extent, counted from 1.
        place: String,
        /// The properties of the extent.
        found: String,
    },
    /// A map of lines has no range, and no line that says that it is whole.
    #[error("it has no range, and no line `end` that shows that it is whole")]
    Empty,
    /// All extents are clean, in the form of `qemu-img`, in which maps of allocated blocks can look
    /// the same.
    #[error("it has no dirty extent, and qemu-img prints the same for an image without holes")]
    AllClean,
    /// The map was cut short.
    #[error("it was cut short: expected {expected}, found the end")]
    CutShort {
        /// The missing part.
        expected: &'static str,
    },
    /// The backup has several paths, or none.
    #[error("it needs a backup of one file or device, and {found} paths were given")]
    Paths {
        /// Number of paths.
        found: usize,
    },
    /// The parent was not given by its id. Any other name could mean another snapshot by now.
    #[error("it needs the id of the snapshot that it is relative to{}", instead(found))]
    NoParent {
        /// What was given instead.
        found: Option<String>,
    },
    /// The map says that it is relative to another snapshot.
    #[error("it is relative to snapshot {expected}, and the parent given is {found}")]
    OtherParent {
        /// Beginning of the id in the map.
        expected: String,
        /// Id of the parent.
        found: String,
    },
    /// The parent's file changed while it was read, so its contents are those of no one moment that
    /// a map could be relative to.
    #[error("the file changed while snapshot {parent} was made, so no map can be relative to it")]
    ParentMixed {
        /// The first digits of the parent's id.
        parent: String,
    },
    /// The path is neither a regular file nor a block device.
    #[error("it needs a file or a block device, and the path is {found}")]
    NoImage {
        /// Type of the file.
        found: &'static str,
    },
    /// The map says that the image has another size.
    #[error("it describes {expected} bytes, and the image has {found}")]
    OtherSize {
        /// Size that the map states, bytes.
        expected: u64,
        /// Size of the image, bytes.
        found: u64,
    },
    /// A range begins beyond the end of the image.
    #[error("it has a range at {offset}, and the image never had more than {size} bytes")]
    BeyondTheEnd {
        /// Where the range begins, bytes.
        offset: u64,
        /// Size of the image, now or in the parent, bytes: the larger.
        size: u64,
    },
    /// Bytes that the map calls unchanged differ from the parent.
    #[error("it is wrong: the {length} bytes from {offset} differ from snapshot {parent}, and it has no range there")]
    Wrong {
        /// Where the compared chunk begins, bytes.
        offset: u64,
        /// Length of the chunk, bytes.
        length: u32,
        /// The first digits of the parent's id.
        parent: String,
    },
}

fn instead(found: &Option<String>) -> String {
    found
        .as_ref()
        .map_or_else(String::new, |found| format!(", found {found:?}"))
}
