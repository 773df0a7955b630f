//! Every storage keeps the promises of `Storage`, and the tests catch one that breaks a promise.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ibid_storage::fault::{Damage, FaultDisk, Flaky};
use ibid_storage::{Error, Local, Memory, Name, Storage, conformance};

#[test]
fn memory_conforms() {
    conformance::run(|| Box::new(Memory::new()));
}

#[test]
fn a_local_folder_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0);
    conformance::run(|| {
        number.set(number.get() + 1);
        Box::new(Local::create(folder.path().join(number.get().to_string())).unwrap())
    });
}

#[test]
fn a_simulated_disk_conforms() {
    conformance::run(|| Box::new(Local::create_on(FaultDisk::new(1), "/place").unwrap()));
}

#[test]
fn a_disk_that_reads_and_writes_little_at_a_time_conforms() {
    conformance::run(|| {
        let disk = FaultDisk::new(2);
        disk.short_reads(true);
        disk.short_writes(true);
        Box::new(Local::create_on(disk, "/place").unwrap())
    });
}

#[test]
fn pointers_and_a_wrapper_without_faults_conform() {
    conformance::run(|| Box::new(Arc::new(Flaky::new(Memory::new()))));
}

/// A storage that breaks one promise.
struct Wrong {
    inner: Memory,
    flaw: Flaw,
}

#[derive(Clone, Copy, Debug)]
enum Flaw {
    None,
    Overwrites,
    ForgetsAPart,
    IgnoresTheLimit,
    ReadsShort,
    ListsByPrefix,
    ListsTwice,
    DeletesWhatIsNotThere,
    KeepsWhatWasDeleted,
    SettlesWhatIsNotThere,
}

impl Storage for Wrong {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        match self.flaw {
            Flaw::Overwrites => drop(self.inner.delete(name)),
            Flaw::ForgetsAPart if parts.len() > 1 => return self.inner.put(name, &parts[1..]),
            _ => {}
        }
        self.inner.put(name, parts)
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        self.inner.get(
            name,
            if matches!(self.flaw, Flaw::IgnoresTheLimit) {
                u64::MAX
            } else {
                limit
            },
        )
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let result = self.inner.read_at(name, offset, buffer);
        if matches!(self.flaw, Flaw::ReadsShort) && self.inner.size(name).is_ok() {
            Ok(())
        } else {
            result
        }
    }

    fn size(&self, name: &Name) -> Result<u64, Error> {
        self.inner.size(name)
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        match self.flaw {
            Flaw::ListsByPrefix if Name::new(folder).is_ok() => self.inner.list("", &mut |name, size| {
                if name.as_str().starts_with(folder) {
                    each(name, size);
                }
            }),
            Flaw::ListsTwice => self
                .inner
                .list(folder, each)
                .and_then(|()| self.inner.list(folder, each)),
            _ => self.inner.list(folder, each),
        }
    }

    fn settle(&self, name: &Name) -> Result<(), Error> {
        match self.flaw {
            Flaw::SettlesWhatIsNotThere => Ok(()),
            _ => self.inner.settle(name),
        }
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        match self.flaw {
            Flaw::DeletesWhatIsNotThere => self.inner.delete(name).or(Ok(())),
            Flaw::KeepsWhatWasDeleted => self.inner.size(name).map(drop),
            _ => self.inner.delete(name),
        }
    }

    fn location(&self) -> String {
        self.inner.location()
    }
}

fn conforms(make: impl Fn() -> Box<dyn Storage>) -> bool {
    catch_unwind(AssertUnwindSafe(|| conformance::run(make))).is_ok()
}

#[test]
fn every_flaw_is_caught() {
    let wrong = |flaw| {
        move || -> Box<dyn Storage> {
            Box::new(Wrong {
                inner: Memory::new(),
                flaw,
            })
        }
    };
    assert!(conforms(wrong(Flaw::None)));
    let flaws = [
        Flaw::Overwrites,
        Flaw::ForgetsAPart,
        Flaw::IgnoresTheLimit,
        Flaw::ReadsShort,
        Flaw::ListsByPrefix,
        Flaw::ListsTwice,
        Flaw::DeletesWhatIsNotThere,
        Flaw::KeepsWhatWasDeleted,
        Flaw::SettlesWhatIsNotThere,
    ];
    for flaw in flaws {
        assert!(!conforms(wrong(flaw)), "a place that {flaw:?} passes");
    }
}

#[test]
fn damage_is_caught() {
    let damaged = |damage: Damage| {
        move || -> Box<dyn Storage> {
            let place = Flaky::new(Memory::new());
            place.damage(&Name::new("folder/object").unwrap(), damage.clone());
            Box::new(place)
        }
    };
    for damage in [
        Damage::FlipBit(3),
        Damage::Truncate(4),
        Damage::Hide,
        Damage::Replace(b"other".to_vec()),
    ] {
        assert!(!conforms(damaged(damage.clone())), "{damage:?} passes");
    }
}
