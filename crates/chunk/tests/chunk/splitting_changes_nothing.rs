//! The chunks are the same, however a stream of bytes arrives.

use std::convert::Infallible;
use std::io::{self, ErrorKind, Read};

use ibid_chunk::{Backend, Chunker, NAMES, Pusher, Settings, Stream, chunks};
use proptest::prelude::*;

use crate::data::{KINDS, Random, random, structured};

/// The algorithms with a vector form come once for every backend.
fn chunkers() -> Vec<Chunker> {
    let named = NAMES
        .into_iter()
        .zip([777, 256, 300, 300, 999, 256, 512, 256, 400].into_iter().cycle());
    let vector = |name: &str| ["seqcdc", "ae", "ae-min", "ram", "maxp", "argmin", "argmin8", "crc32"].contains(&name);
    named
        .chain([("seqcdc", 1024), ("fastcdc", 1000)])
        .flat_map(|(name, average)| {
            let settings = Settings::for_average(name, crate::data::at_least(name, average)).unwrap();
            let backends = Backend::available().filter(move |backend| vector(name) || *backend == Backend::scalar());
            backends.map(move |backend| Chunker::with_backend(&settings, backend).unwrap())
        })
        .collect()
}

fn whole(chunker: &Chunker, data: &[u8]) -> Vec<Vec<u8>> {
    chunks(chunker, data).map(<[u8]>::to_vec).collect()
}

fn pushed(pusher: &mut Pusher, data: &[u8], mut piece_len: impl FnMut() -> usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut take = |chunk: &[u8]| {
        found.push(chunk.to_vec());
        Ok::<(), Infallible>(())
    };
    let mut rest = data;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(piece_len().min(rest.len()));
        pusher.push(piece, &mut take).unwrap();
        rest = after;
    }
    pusher.finish(&mut take).unwrap();
    found
}

fn streamed<R: Read>(mut stream: Stream<R>) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some(chunk) = stream.next_chunk().unwrap() {
        found.push(chunk.to_vec());
    }
    assert_eq!(
        stream.offset(),
        found.iter().map(|chunk| chunk.len() as u64).sum::<u64>()
    );
    assert!(stream.next_chunk().unwrap().is_none(), "the end stays the end");
    found
}

/// A reader that gives a few bytes at a time and is interrupted now and then.
struct Halting<'a> {
    data: &'a [u8],
    source: Random,
    most: usize,
}

impl Read for Halting<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.source.below(4) == 0 {
            return Err(ErrorKind::Interrupted.into());
        }
        let wanted = into.len().min(1 + self.source.below(self.most));
        self.data.read(&mut into[..wanted])
    }
}

#[test]
fn one_byte_at_a_time() {
    for chunker in chunkers() {
        for kind in 0..KINDS {
            let data = structured(kind, 3, 9000);
            let expected = whole(&chunker, &data);
            assert_eq!(pushed(&mut Pusher::new(&chunker), &data, || 1), expected);
            let reader = Halting {
                data: &data,
                source: Random(1),
                most: 1,
            };
            assert_eq!(streamed(Stream::new(&chunker, reader)), expected);
        }
    }
}

#[test]
fn no_data_has_no_chunks() {
    for chunker in chunkers() {
        assert!(whole(&chunker, &[]).is_empty());
        assert!(pushed(&mut Pusher::new(&chunker), &[], || 1).is_empty());
        assert!(streamed(Stream::new(&chunker, io::empty())).is_empty());
    }
}

#[test]
fn an_empty_piece_is_not_the_end() {
    for chunker in chunkers() {
        let data = random(4, 20_000);
        let mut lengths = [0, 1, 0, 0, 5000, 0, 3].into_iter().cycle();
        let found = pushed(&mut Pusher::new(&chunker), &data, || lengths.next().unwrap());
        assert_eq!(found, whole(&chunker, &data));
    }
}

#[test]
fn a_pusher_holds_back_less_than_a_chunk() {
    for chunker in chunkers() {
        let mut pusher = Pusher::new(&chunker);
        let mut source = Random(8);
        for _ in 0..300 {
            let piece = random(source.next(), source.below(3000));
            pusher.push(&piece, |_| Ok::<(), Infallible>(())).unwrap();
            assert!(pusher.pending() < chunker.size_max());
        }
    }
}

/// Certain chunks are handed out at once. Only the last chunk of a piece waits, since it may go on.
#[test]
fn a_pusher_cuts_a_piece_as_far_as_it_is_certain() {
    for chunker in chunkers() {
        for len in (0..20_000).step_by(331) {
            let data = random(9, len);
            let mut expected = whole(&chunker, &data);
            let last = expected.pop_if(|last| last.len() < chunker.size_max());
            let mut pusher = Pusher::new(&chunker);
            let mut found = Vec::new();
            let note = |chunk: &[u8]| {
                found.push(chunk.to_vec());
                Ok::<(), Infallible>(())
            };
            pusher.push(&data, note).unwrap();
            assert_eq!(found, expected);
            assert_eq!(pusher.pending(), last.map_or(0, |last| last.len()));
        }
    }
}

/// A certain chunk is lent without reading on.
#[test]
fn a_stream_reads_only_when_it_must() {
    for chunker in chunkers() {
        let data = random(10, 4 * chunker.size_max());
        // The reader gives all bytes of the first read, and then fails every further read.
        let buffer = 3 * chunker.size_max();
        let reader = Failing {
            before: &data[..buffer],
            after: &[],
            failed: false,
        };
        let mut stream = Stream::with_buffer_size(&chunker, reader, buffer);
        let mut lent = 0;
        let error = loop {
            match stream.next_chunk() {
                Ok(chunk) => lent += chunk.expect("the failure first").len(),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let waiting = whole(&chunker, &data[lent..buffer]);
        assert!(waiting.len() <= 1, "at most the last chunk, which may go on");
    }
}

/// After a refused chunk and after an end, a pusher is as good as new.
#[test]
fn a_pusher_serves_one_input_after_another() {
    for chunker in chunkers() {
        let data = random(6, 30_000);
        let expected = whole(&chunker, &data);
        let mut pusher = Pusher::new(&chunker);
        for refused in 0..expected.len() - 1 {
            let mut left = refused;
            let refuse = |_: &[u8]| {
                left = left.checked_sub(1).ok_or("enough")?;
                Ok(())
            };
            let mut pieces = data.chunks(997);
            let mut refuse = refuse;
            let result = pieces.try_for_each(|piece| pusher.push(piece, &mut refuse));
            let result = result.and_then(|()| pusher.finish(&mut refuse));
            assert_eq!(result, Err("enough"));
            assert_eq!(pusher.pending(), 0);
            assert_eq!(pushed(&mut pusher, &data, || 997), expected);
        }
    }
}

/// A reader that fails once, at a given place, and then continues.
struct Failing<'a> {
    before: &'a [u8],
    after: &'a [u8],
    failed: bool,
}

impl Read for Failing<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.before.is_empty() {
            return self.before.read(into);
        }
        if !self.failed {
            self.failed = true;
            return Err(ErrorKind::TimedOut.into());
        }
        self.after.read(into)
    }
}

#[test]
fn an_error_of_the_reader_comes_through_and_loses_nothing() {
    for chunker in chunkers() {
        let data = random(7, 10_000);
        for place in (0..=data.len()).step_by(613) {
            let (before, after) = data.split_at(place);
            let mut stream = Stream::new(
                &chunker,
                Failing {
                    before,
                    after,
                    failed: false,
                },
            );
            let mut found = Vec::new();
            let mut errors = 0;
            loop {
                match stream.next_chunk_into(&mut found) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::TimedOut);
                        errors += 1;
                    }
                }
            }
            assert_eq!((errors, &found), (1, &data));
        }
    }
}

proptest! {
    #[test]
    fn any_feeding(
        which: prop::sample::Index, kind in 0..KINDS, seed: u64, len in 0usize..40_000,
        most in prop_oneof![1usize..50, 1usize..5000, 1usize..50_000], buffer in 0usize..20_000,
    ) {
        let chunkers = chunkers();
        let chunker = which.get(&chunkers);
        let data = structured(kind, seed, len);
        let expected = whole(chunker, &data);

        let mut source = Random(seed);
        prop_assert_eq!(&pushed(&mut Pusher::new(chunker), &data, || source.below(most + 1)), &expected);
        let reader = Halting { data: &data, source: Random(seed), most };
        prop_assert_eq!(&streamed(Stream::with_buffer_size(chunker, reader, buffer)), &expected);
        prop_assert_eq!(&streamed(Stream::new(chunker, &data[..])), &expected);
    }
}
