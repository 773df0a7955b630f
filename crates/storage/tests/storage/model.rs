//! Any sequence of calls gives the same results as a map.

use std::collections::BTreeMap;

use ibid_storage::fault::FaultDisk;
use ibid_storage::{Error, ErrorKind, Local, Memory, Name, Storage};
use proptest::prelude::*;

// No name is the folder of another, because storages may differ in that case.
const NAMES: [&str; 6] = ["a", "b/x", "b/y", "b-c/x", "b/z/deep/er", "longer.name_0"];
const FOLDERS: [&str; 6] = ["", "b", "b-c", "b/z", "b/z/deep", "none"];

#[derive(Clone, Debug)]
enum Step {
    Put(usize, Vec<Vec<u8>>),
    Get(usize, u64),
    ReadAt(usize, u64, usize),
    Size(usize),
    List(usize),
    Delete(usize),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let object = 0..NAMES.len();
    let parts = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..4);
    prop_oneof![
        4 => (object.clone(), parts).prop_map(|(object, parts)| Step::Put(object, parts)),
        2 => (object.clone(), 0..60_u64).prop_map(|(object, limit)| Step::Get(object, limit)),
        2 => (object.clone(), 0..60_u64, 0..30_usize)
            .prop_map(|(object, from, length)| Step::ReadAt(object, from, length)),
        1 => object.clone().prop_map(Step::Size),
        1 => (0..FOLDERS.len()).prop_map(Step::List),
        2 => object.prop_map(Step::Delete),
        1 => Just(Step::Reopen),
    ]
}

fn name(number: usize) -> Name {
    Name::new(NAMES[number]).unwrap()
}

fn kind<T>(result: Result<T, Error>) -> Result<T, ErrorKind> {
    result.map_err(|error| error.kind())
}

type Model = BTreeMap<Name, Vec<u8>>;

fn check(place: &dyn Storage, model: &mut Model, step: &Step) -> Result<(), TestCaseError> {
    let find = |model: &Model, object| model.get(&name(object)).cloned().ok_or(ErrorKind::NotFound);
    match step {
        Step::Put(object, parts) => {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let expected = match model.contains_key(&name(*object)) {
                true => Err(ErrorKind::AlreadyExists),
                false => Ok(()),
            };
            prop_assert_eq!(kind(place.put(&name(*object), &parts)), expected);
            model.entry(name(*object)).or_insert_with(|| parts.concat());
        }
        Step::Get(object, limit) => {
            let expected = find(model, *object).and_then(|bytes| match bytes.len() as u64 > *limit {
                true => Err(ErrorKind::TooLarge),
                false => Ok(bytes),
            });
            prop_assert_eq!(kind(place.get(&name(*object), *limit)), expected);
        }
        Step::ReadAt(object, offset, length) => {
            let range = *offset as usize..*offset as usize + length;
            let expected = find(model, *object).and_then(|bytes| match bytes.get(range) {
                Some(part) => Ok(part.to_vec()),
                None if *length == 0 => Ok(Vec::new()),
                None => Err(ErrorKind::Truncated),
            });
            let mut buffer = vec![0; *length];
            let found = kind(place.read_at(&name(*object), *offset, &mut buffer)).map(|()| buffer);
            prop_assert_eq!(found, expected);
        }
        Step::Size(object) => {
            let expected = find(model, *object).map(|bytes| bytes.len() as u64);
            prop_assert_eq!(kind(place.size(&name(*object))), expected);
        }
        Step::List(folder) => {
            let mut found = BTreeMap::new();
            let result = place.list(FOLDERS[*folder], &mut |name, size| {
                found.insert(name, size);
            });
            prop_assert_eq!(kind(result), Ok(()));
            let expected = model.iter().filter(|(name, _)| name.is_in(FOLDERS[*folder]));
            let expected = expected
                .map(|(name, bytes)| (name.clone(), bytes.len() as u64))
                .collect();
            prop_assert_eq!(found, expected);
        }
        Step::Delete(object) => {
            let expected = model.remove(&name(*object)).map(drop).ok_or(ErrorKind::NotFound);
            prop_assert_eq!(kind(place.delete(&name(*object))), expected);
        }
        Step::Reopen => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn memory_is_a_map(steps in prop::collection::vec(step(), 1..60)) {
        let (place, mut model) = (Memory::new(), Model::new());
        for step in &steps {
            check(&place, &mut model, step)?;
        }
    }

    /// With short reads and writes; and every `Reopen` is a loss of power, at which a map loses nothing.
    #[test]
    fn a_local_folder_is_a_map_even_through_crashes(
        steps in prop::collection::vec(step(), 1..60),
        seed in any::<u64>(),
    ) {
        let disk = FaultDisk::new(seed);
        disk.short_reads(true);
        disk.short_writes(true);
        let mut place = Local::create_on(disk.clone(), "/place").unwrap();
        let (mut disk, mut model) = (disk, Model::new());
        for (number, step) in steps.iter().enumerate() {
            if matches!(step, Step::Reopen) {
                disk = disk.crash(seed.wrapping_add(number as u64));
                disk.short_reads(true);
                place = Local::open_on(disk.clone(), "/place").unwrap();
            }
            check(&place, &mut model, step)?;
        }
    }
}
