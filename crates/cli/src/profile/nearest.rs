//! Finds the name that was meant.

/// Returns the name that differs least from `wanted`; `None` if all differ in more than a third of
/// their letters.
pub(super) fn nearest<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let distances = names.into_iter().map(|name| (distance(wanted, name), name));
    let (edits, name) = distances.min_by_key(|(edits, _)| *edits)?;
    let length = wanted.chars().count().max(name.chars().count());
    (edits <= length.div_ceil(3)).then_some(name)
}

/// Returns how many letters have to be inserted, deleted or replaced to make one of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (place, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_its_name_and_another_word_finds_none() {
        let names = ["keep-daily", "keep-weekly", "group-by"];
        assert_eq!(nearest("keep-dayly", names), Some("keep-daily"));
        assert_eq!(nearest("groupby", names), Some("group-by"));
        assert_eq!(nearest("password", names), None);
        assert_eq!(nearest("x", []), None);
        assert_eq!((distance("", "abc"), distance("kitten", "sitting")), (3, 3));
    }
}
