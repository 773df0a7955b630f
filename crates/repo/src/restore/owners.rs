//! Maps recorded owners to this machine's.

use std::collections::HashMap;

use ibid_format::tree::TreeEntry;

use super::attributes::Owner;
use super::task::Task;

/// Returns whether a restored entry has another owner than it was stored with, because this user
/// can't set owners.
pub(crate) fn is_lost(entry: &TreeEntry) -> bool {
    let user = rustix::process::geteuid();
    !user.is_root() && (entry.uid, entry.gid) != (user.as_raw(), rustix::process::getegid().as_raw())
}

/// Map from recorded owners to this machine's.
pub(crate) struct Owners {
    /// Whether ownership can be set, which only root may do.
    allowed: bool,
    users: HashMap<u32, u32>,
    groups: HashMap<u32, u32>,
}

impl Owners {
    pub(crate) fn new(task: &Task<'_>) -> Owners {
        use nix::unistd::{Group, User};
        let mut owners = Owners {
            allowed: rustix::process::geteuid().is_root(),
            users: HashMap::new(),
            groups: HashMap::new(),
        };
        if task.options.numeric_ids || !owners.allowed {
            return owners;
        }
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        for (id, name) in &task.from.snapshot.snapshot.users {
            if let Ok(Some(user)) = User::from_name(&text(name)) {
                owners.users.insert(*id, user.uid.as_raw());
            }
        }
        for (id, name) in &task.from.snapshot.snapshot.groups {
            if let Ok(Some(group)) = Group::from_name(&text(name)) {
                owners.groups.insert(*id, group.gid.as_raw());
            }
        }
        owners
    }

    /// Returns the owner to set; `None` if this user can't set owners.
    pub(crate) fn of(&self, entry: &TreeEntry) -> Option<Owner> {
        let here = |map: &HashMap<u32, u32>, id: u32| map.get(&id).copied().unwrap_or(id);
        self.allowed.then(|| Owner {
            uid: here(&self.users, entry.uid),
            gid: here(&self.groups, entry.gid),
        })
    }
}
