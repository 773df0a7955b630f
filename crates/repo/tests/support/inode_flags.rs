//! Inode flags of real files, as far as the file system has any and this user may set them.

use std::fs::File;
use std::path::{Path, PathBuf};

use ibid_format::tree::InodeFlags;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

/// Returns the inode flags of a file or folder.
pub fn flags(path: &Path) -> InodeFlags {
    let flags = ioctl_getflags(File::open(path).unwrap()).map_or(0, |flags| flags.bits());
    InodeFlags::of(flags)
}

/// Gives a file or folder exactly these flags. Returns whether it has them.
pub fn set_flags(path: &Path, wanted: InodeFlags) -> bool {
    let file = File::open(path).unwrap();
    let Ok(there) = ioctl_getflags(&file) else {
        return wanted.is_empty();
    };
    let bits = there.bits() & !InodeFlags::ALL.bits() | wanted.bits();
    let _ = ioctl_setflags(&file, IFlags::from_bits_retain(bits));
    flags(path) == wanted
}

/// Returns the flags that files in this folder can have. Prints if there are none: then a test tries little.
#[allow(clippy::print_stderr, reason = "says what could not be tried here")]
pub fn flags_in(folder: &Path) -> InodeFlags {
    let probe = folder.join("probe of inode flags");
    File::create(&probe).unwrap();
    let can = |flag: &InodeFlags| {
        let can = set_flags(&probe, *flag);
        set_flags(&probe, InodeFlags::default());
        can
    };
    let all = InodeFlags::ALL.each().map(|(_, flag)| flag).filter(can);
    let all = all.fold(InodeFlags::default(), InodeFlags::or);
    std::fs::remove_file(&probe).unwrap();
    if all.is_empty() {
        eprintln!("{} can have no inode flags", folder.display());
    }
    all
}

/// Takes all flags off a folder and what is in it when it is dropped, so that it can be deleted.
pub struct Unlocks(pub PathBuf);

impl Drop for Unlocks {
    fn drop(&mut self) {
        let mut todo = vec![self.0.clone()];
        while let Some(path) = todo.pop() {
            let Ok(meta) = path.symlink_metadata() else { continue };
            if !meta.is_file() && !meta.is_dir() {
                continue;
            }
            set_flags(&path, InodeFlags::default());
            if meta.is_dir() {
                todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
    }
}
