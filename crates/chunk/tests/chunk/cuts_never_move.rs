//! Cuts never move between releases: golden vectors, written by `examples/golden.rs` and never
//! changed.

use ibid_chunk::Chunker;

#[test]
fn golden_vectors() {
    let found = crate::golden::vectors(|settings, data| Chunker::new(settings).expect("valid").cut(data));
    let expected = include_str!("golden/cuts.txt");
    assert_eq!(found.lines().count(), expected.lines().count());
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
}
