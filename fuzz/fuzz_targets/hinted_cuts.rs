//! Any data, cut with any hints: no byte is lost, and under the fingerprint test the cuts are the
//! chunker's.

#![no_main]

use std::collections::HashMap;

use ibid_chunk::locality::{Criterion, Entered, Hint, HintedChunker, Known};
use ibid_chunk::{Chunker, NAMES, Settings, chunks};
use libfuzzer_sys::fuzz_target;

struct Hinting {
    /// Chunks, and whether they were cut off by their bytes.
    seen: HashMap<Vec<u8>, bool>,
    hints: std::vec::IntoIter<(u32, u8, bool)>,
}

impl Known for Hinting {
    type Fingerprint = Vec<u8>;
    type Entry = ();

    fn fingerprint(&mut self, chunk: &[u8]) -> Vec<u8> {
        chunk.to_vec()
    }

    fn find_cut(&mut self, fingerprint: &Vec<u8>, (): ()) -> Option<()> {
        self.seen.get(fingerprint)?.then_some(())
    }

    fn enter(&mut self, fingerprint: Vec<u8>, _: Option<()>, at_end: bool) -> Entered<()> {
        let before = self.seen.get(&fingerprint).copied();
        self.seen.insert(fingerprint, before == Some(true) || !at_end);
        Entered {
            entry: Some(()),
            is_duplicate: before.is_some(),
        }
    }

    fn hint(&mut self, (): (), place: usize) -> Option<Hint> {
        let (size, marker, at_end) = self.hints.next()?;
        // Most hints should be possible ones.
        let size = if size % 8 == 0 { size } else { size % 2048 } as usize;
        (place < 8).then_some(Hint { size, marker, at_end })
    }

    fn note(&mut self, (): (), _: Hint) {}
}

/// Which chunker and criterion; hints, each with its size, its marker and whether it is at an end; and versions of a
/// stream.
type Input = (u8, Vec<(u32, u8, bool)>, Vec<Vec<u8>>);

fuzz_target!(|input: Input| {
    let (choice, hints, versions) = input;
    let name = NAMES[usize::from(choice) / 4 % NAMES.len()];
    let criterion = Criterion::ALL[usize::from(choice) % 4];
    let average = if name.contains("crc32") { 1024 } else { 512 };
    let Ok(settings) = Settings::for_average(name, average) else {
        return;
    };
    let chunker = Chunker::new(&settings).expect("valid settings");
    let Ok(hinted) = HintedChunker::new(&chunker, criterion) else {
        assert!(criterion.tests_places() && !settings.tests_places());
        return;
    };
    let mut known = Hinting {
        seen: HashMap::new(),
        hints: hints.into_iter(),
    };
    // A version is the one before and more data.
    let mut data = Vec::new();
    for piece in versions {
        data.splice(..data.len() / 3, piece.repeat(16));
        let mut rest = &data[..];
        let mut found = Vec::new();
        hinted.for_each_chunk(&mut known, &data, |chunk| {
            rest = rest.strip_prefix(chunk.bytes).expect("the data's own bytes");
            assert!((1..=chunker.size_max()).contains(&chunk.bytes.len()));
            found.push(chunk.bytes.len());
        });
        assert!(rest.is_empty());
        if criterion == Criterion::WindowAndFingerprint {
            assert_eq!(found, chunks(&chunker, &data).map(<[u8]>::len).collect::<Vec<_>>());
        }
    }
});
