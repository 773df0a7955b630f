//! When storing fails half-way through a large backup, the error says what failed, and what was stored is used again.

mod support;

use ibid_repo::{Error, InitOptions, Monitor, Repository};
use ibid_storage::fault::{Flaky, ObjectFault};
use ibid_storage::{ErrorKind, Memory, Operation};
use std::sync::Arc;
use support::{Folder, noise, options, quick};

#[test]
fn the_error_of_the_pack_that_could_not_be_stored_is_the_error_of_the_backup() {
    let folder = Folder::new();
    folder.write("large", &noise(1, 40 << 20));
    for skip in [0, 1, 2, 5, 9, 20] {
        let storage = Arc::new(Flaky::new(Memory::new()));
        let init = InitOptions {
            pack_size: 1 << 20,
            ..quick()
        };
        let repository = Repository::init(storage.clone(), Some(b"secret"), &init, 0).unwrap();
        storage.fail(Operation::Put, skip, ObjectFault::Before(ErrorKind::NoSpace));
        match repository.backup(options(folder.path()), &Monitor::silent()) {
            Err(Error::Storage(error)) => {
                assert_eq!((error.kind(), error.operation()), (ErrorKind::NoSpace, Operation::Put));
                assert!(error.name().unwrap().as_str().starts_with("packs/"), "{error}");
            }
            other => panic!("after {skip} objects: {other:?}"),
        }
        assert!(repository.snapshots().unwrap().is_empty());
        storage.heal();
        let again = repository.backup(options(folder.path()), &Monitor::silent()).unwrap();
        // Two uploads may have been under way when the third failed.
        let stored = skip.saturating_sub(2) << 20;
        assert!(
            again.counters.new_bytes <= (40 << 20) - stored + (1 << 20),
            "after {skip} objects: {again:?}"
        );
    }
}
