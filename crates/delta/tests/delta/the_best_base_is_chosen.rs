//! The chosen base shares the most features, weighed against the cost of reading it. Among equals,
//! the smallest delta decides.

use ibid_delta::{
    BaseChooser, Candidate, CandidateState, DeltaDecoder, FeatureIndex, Interval, Method, RankedCandidate, Ranking,
    Sketch, Sketcher,
};

use crate::data::{Random, edited};

const ANCHOR: Method = Method::Anchor {
    interval: Interval::I64,
};

fn candidate(place: u32, shared: u32, hot: u32) -> Candidate {
    Candidate { place, shared, hot }
}

fn ranked(candidates: &[Candidate], standing: impl FnMut(u32) -> Option<CandidateState>) -> Vec<(u32, f32)> {
    let mut ranked = Vec::new();
    Ranking::default().rank(candidates, standing, &mut ranked);
    ranked.iter().map(|scored| (scored.place, scored.score)).collect()
}

#[test]
fn cached_ones_are_preferred_and_deep_ones_avoided() {
    let candidates = [
        candidate(1, 5, 0),
        candidate(2, 4, 0),
        candidate(3, 7, 0),
        candidate(4, 8, 0),
        candidate(5, 8, 0),
    ];
    let standing = |place| match place {
        2 => Some(CandidateState { cached: true, depth: 0 }),
        3 => Some(CandidateState {
            cached: false,
            depth: 7,
        }),
        4 => Some(CandidateState { cached: true, depth: 8 }),
        5 => None,
        _ => Some(CandidateState::default()),
    };
    assert_eq!(ranked(&candidates, standing), [(2, 6.0), (1, 5.0), (3, 3.5)]);
}

#[test]
fn hot_features_count_a_quarter() {
    let standing = |_| Some(CandidateState::default());
    let candidates = [candidate(1, 0, 7), candidate(2, 2, 0), candidate(3, 1, 1)];
    assert_eq!(ranked(&candidates, standing), [(2, 2.0), (1, 1.75), (3, 1.25)]);
}

fn chosen(ranked: &[(u32, f32)], bases: &[&[u8]], target: &[u8]) -> Option<u32> {
    let ranked: Vec<RankedCandidate> = ranked
        .iter()
        .map(|&(place, score)| RankedCandidate { place, score })
        .collect();
    let mut out = b"before".to_vec();
    let base = |place: u32| bases.get(place as usize).copied();
    let chosen = BaseChooser::new(ANCHOR)
        .choose(&ranked, base, target, &mut out)
        .expect("lengths within the limits");
    assert_eq!(&out[..6], b"before");
    let chosen = chosen?;
    assert_eq!(out.len() - 6, chosen.delta_len);
    let mut decoded = Vec::new();
    let base = bases[chosen.place as usize];
    DeltaDecoder::new()
        .decode(base, &out[6..], target.len(), &mut decoded)
        .expect("it was just encoded");
    assert!(decoded == target);
    Some(chosen.place)
}

#[test]
fn equals_are_decided_by_trial_and_others_are_not_tried() {
    let target = Random(1).bytes(5000);
    let (far, near) = (edited(&target, 2, 9), edited(&target, 3, 1));
    let bases: [&[u8]; 4] = [&far, &near, &target, &target];
    assert_eq!(chosen(&[(0, 5.0), (1, 5.0)], &bases, &target), Some(1));
    // The third scores less, although its delta would be smaller.
    assert_eq!(chosen(&[(0, 5.0), (1, 5.0), (2, 4.5)], &bases, &target), Some(1));
    // The fourth of four equals is one too many.
    assert_eq!(
        chosen(&[(0, 5.0), (0, 5.0), (1, 5.0), (2, 5.0)], &bases, &target),
        Some(1)
    );
    // A base that cannot be read is passed over.
    assert_eq!(chosen(&[(9, 5.0), (1, 4.0)], &bases, &target), Some(1));
    assert_eq!(chosen(&[(9, 5.0)], &bases, &target), None);
    assert_eq!(chosen(&[], &bases, &target), None);
}

/// All steps as in a record store: every version finds a version of the same record among others
/// that share boilerplate.
#[test]
fn versions_find_their_like_among_boilerplate() {
    let boilerplate = Random(0).bytes(20_000);
    let mut index = FeatureIndex::new();
    index.add_partition(0, 10_000).unwrap();
    let mut sketcher = Sketcher::new();
    let records: Vec<Vec<u8>> = (1..40)
        .map(|seed| [&boilerplate[..], &Random(seed).bytes(20_000)].concat())
        .collect();
    let (mut candidates, mut ranking) = (Vec::new(), Vec::new());
    for (place, record) in records.iter().enumerate() {
        index.insert(0, &sketcher.sketch(record), place as u32);
    }
    let mut found = 0;
    for (place, record) in records.iter().enumerate() {
        let version = edited(record, place as u64, 2);
        index.candidates(0, &sketcher.sketch(&version), &mut candidates);
        Ranking::default().rank(&candidates, |_| Some(CandidateState::default()), &mut ranking);
        found += usize::from(ranking.first().is_some_and(|best| best.place == place as u32));
        assert!(candidates.len() <= 8 * FeatureIndex::POSTING_MAX);
    }
    assert!(found >= 36, "{found} of 39");
}

#[test]
fn a_lineage_finds_what_has_nothing_else_in_common() {
    let mut index = FeatureIndex::new();
    index.add_partition(0, 100).unwrap();
    index.insert(0, &Sketch::of([1, 2, 3]).with_lineage(77), 5);
    let mut candidates = Vec::new();
    index.candidates(0, &Sketch::of([4, 5, 6]).with_lineage(77), &mut candidates);
    assert_eq!(candidates, [candidate(5, 1, 0)]);
}
