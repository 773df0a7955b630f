//! Any bytes as a feature index give an error, or an index that works within the given memory.

#![no_main]

use ibid_delta::{FeatureIndex, Sketch};
use libfuzzer_sys::fuzz_target;

const MEMORY_MAX: usize = 64 << 10;

fuzz_target!(|input: (&[u8], Vec<(u64, u32)>)| {
    let (bytes, entries) = input;
    let Ok(mut index) = FeatureIndex::load_from(bytes, MEMORY_MAX) else {
        return;
    };
    assert!(index.memory() <= MEMORY_MAX);
    let numbers: Vec<u64> = index.partitions().collect();
    let mut candidates = Vec::new();
    for partition in numbers {
        for &(feature, place) in &entries {
            let sketch = Sketch::of([feature]);
            index.insert(partition, &sketch, place);
            index.candidates(partition, &sketch, &mut candidates);
            assert!(candidates.iter().any(|candidate| candidate.place == place));
        }
        let (len, room) = index.load(partition).expect("it is listed");
        assert!(len <= room);
    }
    let mut saved = Vec::new();
    index.save(&mut saved);
    FeatureIndex::load_from(&saved, MEMORY_MAX).expect("what was saved loads");
});
