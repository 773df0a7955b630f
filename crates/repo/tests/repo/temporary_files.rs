//! What does not fit into memory goes to temporary files, and the results are the same.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use ibid_repo::{Overwrite, ReadData, Repository, RestoreOptions, Stats};
use ibid_storage::Memory;

use crate::support::damage::check_all;
use crate::support::{Folder, backup, contents, difference, noise, options, quick, scratch};

/// Returns an empty repository, and its storage.
fn repository() -> (Arc<Memory>, Repository) {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
    (storage, repository)
}

/// Opens a repository twice: once to keep everything in memory, and once to keep next to nothing there.
fn both(storage: &Arc<Memory>) -> [Repository; 2] {
    let open = || Repository::open(storage.clone(), Some(b"secret")).unwrap();
    [open(), open().with_tiny_index()]
}

/// Creates a tree of 400 files in 80 folders.
fn tree() -> Folder {
    let folder = Folder::scratch();
    for n in 0..400 {
        let deep = "x/".repeat(n % 3);
        folder.write(format!("{deep}{}/{n}", n % 80), format!("contents of {n}").as_bytes());
    }
    folder.write("large", &noise(7, 3_000_000));
    folder
}

#[test]
fn statistics_of_many_snapshots() {
    let (folder, (storage, repository)) = (tree(), repository());
    for version in 0..30 {
        // A folder that comes back at another place has the same totals.
        let (old, new) = (folder.path().join(format!("{version}")), folder.path().join("moved"));
        let _ = std::fs::rename(&new, folder.path().join(format!("moved-{version}")));
        let _ = std::fs::rename(old, new);
        folder.write(format!("x/{version}/new"), &noise(version, 2000));
        backup(&repository, folder.path());
    }
    let [in_memory, in_files] = both(&storage).map(|repository| {
        let mut stats: Stats = repository.stats(&repository.snapshots().unwrap()).unwrap();
        stats.index_memory = 0;
        stats
    });
    assert!(in_memory.snapshots == 30 && in_memory.files > 12_000);
    assert_eq!(in_memory, in_files);
    assert!(check_all(&repository, "nothing is damaged").is_clean());
}

#[test]
fn a_tree_whose_names_are_in_files_is_backed_up_as_any_other() {
    let (folder, (storage, repository)) = (tree(), repository());
    for n in 0..2000 {
        folder.write(format!("many/{}-{n}", n * 7919 % 2003), b"");
    }
    let [first, second] = both(&storage).map(|repository| backup(&repository, folder.path()));
    assert_eq!(first.counters.files, second.counters.files);
    let [old, new] = [first, second].map(|summary| repository.snapshot(&summary.id.unwrap().to_string()).unwrap());
    let mut differences = 0;
    let count = |_: &ibid_repo::Difference<'_>| {
        differences += 1;
        Ok(())
    };
    repository
        .diff(old.at(folder.path()), new.at(folder.path()), count)
        .unwrap();
    assert_eq!(differences, 0);
}

/// Returns a tree of files with up to four names, in folders of which some can't be entered.
fn linked() -> Folder {
    let folder = Folder::scratch();
    for n in 0..300 {
        folder.write(format!("a/{}/{n}", n % 20), format!("contents of {n}").as_bytes());
        for name in 0..n % 4 {
            let other = folder.path().join(format!("b{name}/{}", n % 7));
            std::fs::create_dir_all(&other).unwrap();
            std::fs::hard_link(
                folder.path().join(format!("a/{}/{n}", n % 20)),
                other.join(format!("{n}")),
            )
            .unwrap();
        }
    }
    folder
}

fn set_modes(root: &Path, mode: u32) {
    for n in (0..20).step_by(5) {
        std::fs::set_permissions(root.join(format!("a/{n}")), PermissionsExt::from_mode(mode)).unwrap();
    }
}

#[test]
fn files_with_several_names_are_one_file_again() {
    let (folder, (storage, repository)) = (linked(), repository());
    // What can't be entered can't be read either, unless root reads it.
    let mode = if rustix::process::geteuid().is_root() { 0 } else { 0o500 };
    set_modes(folder.path(), mode);
    let summary = backup(&repository, folder.path());
    let snapshot = repository.snapshot(&summary.id.unwrap().to_string()).unwrap();
    for repository in both(&storage) {
        let out = scratch();
        let restore = |options: &RestoreOptions| {
            let summary = repository.restore(snapshot.at(folder.path()), out.path(), options);
            let summary = summary.unwrap();
            assert_eq!(summary.failed, 0);
            summary
        };
        let summary = restore(&RestoreOptions::default());
        assert_eq!(summary.files, 300 + (0..300).map(|n| n % 4).sum::<u64>());
        assert_eq!(difference(&contents(folder.path()), &contents(out.path())), None);
        for n in 0..300 {
            let links = std::fs::metadata(out.path().join(format!("a/{}/{n}", n % 20)))
                .unwrap()
                .nlink();
            assert_eq!(links, 1 + n % 4, "file {n}");
        }
        // A second restore finds all of them right, and a preview says so.
        let again = RestoreOptions::default().overwrite(Overwrite::IfChanged);
        let mut planned = Vec::new();
        let on_planned = |path: &Path, what| {
            planned.push((path.to_owned(), what));
            Ok(())
        };
        let preview = repository.plan_restore(snapshot.at(folder.path()), out.path(), &again, on_planned);
        assert_eq!(preview.unwrap().kept, summary.files);
        assert_eq!(restore(&again).kept, summary.files);
        set_modes(out.path(), 0o700);
    }
    set_modes(folder.path(), 0o700);
}

#[test]
fn nothing_is_left_in_the_folder_of_temporary_files() {
    let (folder, (_, repository), temporary) = (tree(), repository(), scratch());
    let tiny = repository.with_tiny_index().with_scratch(temporary.path());
    tiny.backup(&options(folder.path())).unwrap();
    tiny.refresh();
    assert!(tiny.check(ReadData::All).unwrap().is_clean());
    tiny.stats(&tiny.snapshots().unwrap()).unwrap();
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}
