//! Files with several names.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ibid_format::tree::TreeEntry;
use rustix::fd::OwnedFd;
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::folder::Folder;
use super::inode_flags::{self, Unlocked};
use super::target;
use crate::{Error, Result};

/// A name in the destination.
pub(crate) struct Name<'a> {
    pub(crate) folder: Arc<Folder<'a>>,
    pub(crate) name: Vec<u8>,
    /// Path for messages.
    pub(crate) path: PathBuf,
}

/// State of a file with several names. Its other names wait until it is complete: until then,
/// existing files under these names may be the only good copies.
pub(crate) struct Links<'a>(Mutex<State<'a>>);

enum State<'a> {
    /// Other names found so far.
    Pending(Vec<Name<'a>>),
    Whole,
    Failed,
}

/// How to treat a further name of a file.
pub(crate) enum Linked<'a> {
    /// The file is complete: create the link.
    Whole(Name<'a>),
    /// The link is created when the file is complete.
    Pending,
    /// The file could not be restored.
    Failed,
}

impl<'a> Links<'a> {
    pub(crate) fn pending() -> Arc<Links<'a>> {
        Arc::new(Links(Mutex::new(State::Pending(Vec::new()))))
    }

    /// Returns the state of a file that is complete.
    pub(crate) fn complete() -> Arc<Links<'a>> {
        Arc::new(Links(Mutex::new(State::Whole)))
    }

    /// Returns whether the file is complete.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(*self.state(), State::Whole)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State<'a>> {
        self.0.lock().expect("no holder of this lock panics")
    }

    pub(crate) fn add(&self, name: Name<'a>) -> Linked<'a> {
        match &mut *self.state() {
            State::Failed => Linked::Failed,
            State::Whole => Linked::Whole(name),
            State::Pending(names) => {
                names.push(name);
                Linked::Pending
            }
        }
    }

    /// Marks the file as complete; returns the pending names.
    pub(crate) fn succeed(&self) -> Vec<Name<'a>> {
        names(std::mem::replace(&mut *self.state(), State::Whole))
    }

    /// Marks the file as failed; returns the pending names.
    pub(crate) fn fail(&self) -> Vec<Name<'a>> {
        names(std::mem::replace(&mut *self.state(), State::Failed))
    }
}

fn names(state: State<'_>) -> Vec<Name<'_>> {
    match state {
        State::Pending(names) => names,
        State::Whole | State::Failed => Vec::new(),
    }
}

/// Returns the error for a further name of a file that could not be restored.
pub(crate) fn lost_with_its_other_name(path: &Path) -> Error {
    Error::local(
        "link",
        path,
        std::io::Error::other("it is another name of a file that could not be restored"),
    )
}

/// Links the file at `first` in `from`, restored from `entry`, to another name, replacing an existing file if allowed.
/// Returns false if it is already linked there.
pub(crate) fn link(
    from: &Folder<'_>,
    first: &[u8],
    entry: &TreeEntry,
    to: &Name<'_>,
    may_replace: bool,
) -> Result<bool> {
    let failed = |error: Errno| Error::local("link", &to.path, error);
    let (from, parent) = (from.open().map_err(failed)?, to.folder.open().map_err(failed)?);
    // An immutable file can't get another name, or lose one.
    let unlocked = Unlocked::at(&from, first, entry).map_err(failed)?;
    let linked = link_there(&from, first, &parent, to, may_replace)?;
    unlocked.lock().map_err(failed)?;
    Ok(linked)
}

fn link_there(from: &OwnedFd, first: &[u8], parent: &OwnedFd, to: &Name<'_>, may_replace: bool) -> Result<bool> {
    let failed = |error: Errno| Error::local("link", &to.path, inode_flags::in_directory(parent, error));
    let give = |name: &[u8]| rustix::fs::linkat(from, first, parent, name, AtFlags::empty());
    match give(&to.name) {
        Err(Errno::EXIST) => {}
        result => return result.map(|()| true).map_err(failed),
    }
    let (file, existing) = (target::look(from, first), target::look(parent, &to.name));
    let (file, existing) = (file.map_err(failed)?, existing.map_err(failed)?);
    let same = |a: &rustix::fs::Stat, b: &rustix::fs::Stat| (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino);
    if file
        .zip(existing)
        .is_some_and(|(file, existing)| same(&file, &existing))
    {
        return Ok(false);
    }
    if !may_replace {
        return Err(target::exists(&to.path));
    }
    let aside = target::aside();
    give(&aside).map_err(failed)?;
    target::put_in_place(parent, &aside, &to.name).map_err(|error| target::cannot_replace(&to.path, error))?;
    Ok(true)
}
