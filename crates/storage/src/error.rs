//! The error type of all implementations: what was attempted, on which object, where, and what was
//! found.

use std::error::Error as StdError;
use std::{fmt, io};

use crate::Name;

/// A call to a [`Storage`](crate::Storage) failed.
///
/// Its text says what was attempted, on which object and where, and what was found. It gives no
/// advice: only the program knows what its user can do. An error of the operating system is the
/// [`source`](StdError::source), and not part of the text.
///
/// ```
/// use ibid_storage::{ErrorKind, Memory, Name, Storage};
/// let error = Memory::new().size(&Name::new("packs/a")?).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// assert!(error.to_string().starts_with("cannot find the size of packs/a in memory: there is no such object"));
/// # Ok::<(), ibid_storage::NameError>(())
/// ```
pub struct Error(Box<Inner>); // boxed: a Result stays as small as a pointer on the paths that succeed

struct Inner {
    kind: ErrorKind,
    operation: Operation,
    name: Option<Name>,
    location: String,
    found: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kind of failure, by which callers decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such object (or, for `put`, `open` and `list`: the storage itself is gone).
    NotFound,
    /// An object of this name is stored already, whole and durable; it was left as it is.
    AlreadyExists,
    /// This user lacks the permission.
    PermissionDenied,
    /// No space (or quota) is left.
    NoSpace,
    /// The storage is read-only.
    ReadOnly,
    /// The object ends before the requested bytes.
    Truncated,
    /// The object is larger than the caller's limit; nothing was read.
    TooLarge,
    /// Something that is no object has this name: a folder of objects, or a device; or an object
    /// has the name of a folder on the way.
    NotAnObject,
    /// The text given as a folder cannot be the folder of any [`Name`].
    InvalidName,
    /// The storage does not support the operation, for example publish a file without overwriting
    /// another.
    Unsupported,
    /// The object is whole, and in an archive: it can't be read before it is
    /// [thawed](crate::Storage::archives).
    Archived,
    /// The device or the operating system failed otherwise; see the source.
    Io,
}

/// The attempted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// [`Storage::put`](crate::Storage::put)
    Put,
    /// [`Storage::get`](crate::Storage::get)
    Get,
    /// [`Storage::read_at`](crate::Storage::read_at)
    ReadAt,
    /// [`Storage::size`](crate::Storage::size)
    Size,
    /// [`Storage::list`](crate::Storage::list)
    List,
    /// [`Storage::delete`](crate::Storage::delete)
    Delete,
    /// [`Storage::settle`](crate::Storage::settle)
    Settle,
    /// Creating the storage, as [`Local::create`](crate::Local::create) does.
    Create,
    /// Opening the storage, as [`Local::open`](crate::Local::open) does.
    Open,
    /// [`Local::sweep`](crate::Local::sweep)
    Sweep,
    /// [`Archives::thaw`](crate::Archives::thaw)
    Thaw,
}

impl Error {
    /// A failure of `operation` on the object `name`, or on the whole storage, at `location`.
    #[must_use]
    pub fn new(kind: ErrorKind, operation: Operation, name: Option<&Name>, location: impl Into<String>) -> Self {
        let (name, location) = (name.cloned(), location.into());
        Self(Box::new(Inner {
            kind,
            operation,
            name,
            location,
            found: None,
            source: None,
        }))
    }

    /// The same for an error of the operating system, its kind translated and itself kept as the
    /// source.
    #[must_use]
    pub fn from_io(error: io::Error, operation: Operation, name: Option<&Name>, location: impl Into<String>) -> Self {
        Self::new(kind_of(&error, operation), operation, name, location).with_source(error)
    }

    /// Says what was found, with numbers, instead of the general text for the kind.
    #[must_use]
    pub fn with_found(mut self, found: impl Into<String>) -> Self {
        self.0.found = Some(found.into());
        self
    }

    /// Keeps the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Returns the kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the operation that failed.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// Returns the object concerned, or `None` if it is the whole storage.
    #[must_use]
    pub fn name(&self) -> Option<&Name> {
        self.0.name.as_ref()
    }

    /// Returns what was found, as the end of the text says it.
    #[must_use]
    pub fn found(&self) -> &str {
        self.0.found.as_deref().unwrap_or_else(|| self.0.usual_finding())
    }

    /// Returns where it happened, as [`Storage::location`](crate::Storage::location) says it.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.0.location
    }
}

/// What is found where a storage is [append-only](crate::Storage::is_append_only).
const APPEND_ONLY: &str = "things can only be added there, because it is served as append-only";

/// For implementations of [`Storage`](crate::Storage): errors that all have in common.
impl Error {
    /// The operation is refused because the storage is [append-only](crate::Storage::is_append_only).
    #[must_use]
    pub fn append_only(operation: Operation, name: Option<&Name>, location: String) -> Self {
        Self::new(ErrorKind::PermissionDenied, operation, name, location).with_found(APPEND_ONLY)
    }

    /// Returns whether it was made by [`append_only`](Error::append_only), here or on another machine.
    #[must_use]
    pub fn is_append_only(&self) -> bool {
        self.0.kind == ErrorKind::PermissionDenied && self.found() == APPEND_ONLY
    }

    /// The object has `size` bytes where `limit` are allowed.
    #[must_use]
    pub fn too_large(size: u64, limit: u64, name: &Name, location: String) -> Self {
        Self::new(ErrorKind::TooLarge, Operation::Get, Some(name), location)
            .with_found(format!("the object has {size} bytes, and at most {limit} are allowed"))
    }

    /// The object ends at `size` where `length` bytes from `offset` were wanted.
    #[must_use]
    pub fn truncated(size: u64, offset: u64, length: usize, name: &Name, location: String) -> Self {
        Self::new(ErrorKind::Truncated, Operation::ReadAt, Some(name), location).with_found(format!(
            "the object ends after {size} bytes, and {length} from byte {offset} on were wanted"
        ))
    }

    /// Refuses a folder that can have no name in it.
    ///
    /// # Errors
    /// [`InvalidName`](ErrorKind::InvalidName), for [`Storage::list`](crate::Storage::list).
    pub fn check_folder(folder: &str, location: impl Fn() -> String) -> Result<(), Self> {
        if folder.is_empty() {
            return Ok(());
        }
        match Name::new(folder) {
            Ok(_) => Ok(()),
            Err(error) => Err(Self::new(ErrorKind::InvalidName, Operation::List, None, location())
                .with_found(format!("{folder:?} cannot be the folder of any object"))
                .with_source(error)),
        }
    }
}

fn kind_of(error: &io::Error, operation: Operation) -> ErrorKind {
    match error.kind() {
        // On the way to a new object, a file in place of a folder is a conflict; on the way to an old one it means
        // that the object cannot exist.
        io::ErrorKind::NotADirectory if operation == Operation::Put => ErrorKind::NotAnObject,
        io::ErrorKind::NotADirectory if operation == Operation::Create => ErrorKind::NotAnObject,
        io::ErrorKind::NotADirectory if operation == Operation::Open => ErrorKind::NotAnObject,
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => ErrorKind::NotFound,
        io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
        io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
        io::ErrorKind::Unsupported => ErrorKind::Unsupported,
        _ => ErrorKind::Io,
    }
}

impl Operation {
    fn verb(self) -> &'static str {
        match self {
            Self::Put => "store",
            Self::Get => "read",
            Self::ReadAt => "read a part of",
            Self::Size => "find the size of",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Settle => "make sure of",
            Self::Create => "create",
            Self::Open => "open",
            Self::Sweep => "clear unfinished files",
            Self::Thaw => "thaw",
        }
    }

    /// Whether the operation concerns the whole storage.
    fn is_about_place(self) -> bool {
        matches!(self, Self::Create | Self::Open)
    }
}

impl Inner {
    /// Returns what was found, for a kind of failure that has no numbers of its own.
    fn usual_finding(&self) -> &'static str {
        match (self.kind, self.operation) {
            (ErrorKind::NotFound, Operation::Put | Operation::Sweep | Operation::List) => "the folder itself is gone",
            (ErrorKind::NotFound, operation) if operation.is_about_place() => "there is no such folder",
            (ErrorKind::NotFound, _) => "there is no such object",
            (ErrorKind::AlreadyExists, _) => "an object of this name is stored already",
            (ErrorKind::PermissionDenied, _) => "permission denied",
            (ErrorKind::NoSpace, _) => "no space is left",
            (ErrorKind::ReadOnly, _) => "the file system is read-only",
            (ErrorKind::Truncated, _) => "the object ends too early",
            (ErrorKind::TooLarge, _) => "the object is larger than it may be",
            (ErrorKind::NotAnObject, _) => "a folder, a symbolic link or the like has this name",
            (ErrorKind::InvalidName, _) => "this cannot be the folder of any object",
            (ErrorKind::Unsupported, _) => "the file system cannot do this safely",
            (ErrorKind::Archived, _) => "the object is in an archive, and is not thawed",
            (ErrorKind::Io, _) => "the device failed",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        write!(f, "cannot {} ", inner.operation.verb())?;
        match &inner.name {
            Some(name) => write!(f, "{name} in {}", inner.location)?,
            None if inner.operation.is_about_place() => write!(f, "{}", inner.location)?,
            None => write!(f, "in {}", inner.location)?,
        }
        write!(f, ": {}", self.found())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("operation", &self.0.operation)
            .field("name", &self.0.name)
            .field("location", &self.0.location)
            .field("found", &self.0.found)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}
