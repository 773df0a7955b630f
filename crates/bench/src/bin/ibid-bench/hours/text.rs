//! Bodies: text that is edited, as that of pages is.

use ibid_bench::Random;

/// Words of the vocabulary.
const WORDS: u64 = 4000;
/// Length of a new body, bytes: most are short, few long.
const LENGTH_MIN: u64 = 1 << 10;
const DOUBLINGS: u64 = 6;
/// Most edits between two versions.
const EDITS_MAX: u64 = 6;

/// Appends a word and what is behind it.
fn add_word(random: &mut Random, out: &mut Vec<u8>) {
    // Small numbers are more likely, as frequent words are.
    let below = 1 + random.below(WORDS);
    let mut word = Random::new(random.below(below));
    for _ in 0..2 + word.below(9) {
        out.push(b'a' + word.below(26) as u8);
    }
    out.push(if random.below(12) == 0 { b'\n' } else { b' ' });
}

fn words(random: &mut Random, length: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while (out.len() as u64) < length {
        add_word(random, &mut out);
    }
    out
}

/// Returns a new body.
pub(super) fn new_body(random: &mut Random) -> Vec<u8> {
    let least = LENGTH_MIN << random.below(DOUBLINGS);
    let length = least + random.below(least);
    words(random, length)
}

/// Returns the next version of a body: a few places replaced, now and then one inserted. It stays about as long.
pub(super) fn edited(random: &mut Random, body: &[u8]) -> Vec<u8> {
    let mut edited = body.to_vec();
    for _ in 0..1 + random.below(EDITS_MAX) {
        let at = random.below(edited.len() as u64) as usize;
        let removed = random.below(60) as usize;
        let length = random.below(60);
        let new = words(random, length);
        let end = edited.len().min(at + removed);
        edited.splice(at..end, new);
    }
    if edited.is_empty() {
        add_word(random, &mut edited);
    }
    edited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_like_the_one_before_and_about_as_long() {
        let random = &mut Random::new(1);
        let mut body = new_body(random);
        let first = body.len();
        for _ in 0..1000 {
            let next = edited(random, &body);
            assert!(next != body && next.len().abs_diff(body.len()) < 600);
            body = next;
        }
        assert!(body.len() < 4 * first.max(2000) && !body.is_empty());
    }
}
