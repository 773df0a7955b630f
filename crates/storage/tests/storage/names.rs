//! No name leads out of its folder, and every refusal says why.

use ibid_storage::{Name, NameError};
use proptest::prelude::*;

fn refusal(text: &str) -> String {
    Name::new(text).expect_err(text).to_string()
}

#[test]
fn names_that_escape_are_refused() {
    for text in [
        "..",
        "../x",
        "a/..",
        "a/../b",
        "./a",
        "a/./b",
        ".hidden",
        "a/.hidden",
        "/",
        "/etc/passwd",
        "//a",
        "a/",
        "a//b",
    ] {
        assert!(Name::new(text).is_err(), "{text:?}");
    }
}

#[test]
fn names_that_some_place_cannot_keep_apart_are_refused() {
    for text in [
        "",
        "A",
        "packs/A",
        "a b",
        "a\\b",
        "a\0",
        "a\n",
        "ä",
        "a:b",
        "a*",
        "~",
        "a\u{202e}b",
    ] {
        assert!(Name::new(text).is_err(), "{text:?}");
    }
}

#[test]
fn unfinished_files_cannot_be_named() {
    assert!(matches!(Name::new("tmp"), Err(NameError::Reserved { .. })));
    assert!(matches!(Name::new("tmp/0123"), Err(NameError::Reserved { .. })));
    assert!(Name::new("a/tmp").is_ok() && Name::new("tmp2").is_ok());
}

#[test]
fn limits_are_exact() {
    assert!(Name::new(&"a".repeat(128)).is_ok());
    assert!(matches!(
        Name::new(&"a".repeat(129)),
        Err(NameError::SegmentTooLong { found: 129, .. })
    ));
    let two = |second: usize| format!("{}/{}", "a".repeat(128), "b".repeat(second));
    assert_eq!(Name::new(&two(126)).unwrap().as_str().len(), 255);
    assert!(matches!(Name::new(&two(127)), Err(NameError::TooLong { found: 256 })));
    assert!(Name::new("a/b/c/d/e").is_ok());
    assert!(matches!(
        Name::new("a/b/c/d/e/f"),
        Err(NameError::TooDeep { found: 6, .. })
    ));
}

#[test]
fn a_refusal_says_what_and_why() {
    assert_eq!(
        refusal("packs/Ab"),
        "the object name \"packs/Ab\" contains 'A'; only a-z, 0-9, '.', '_' and '-' are allowed"
    );
    assert_eq!(
        refusal("../x"),
        "the object name \"../x\" has a segment that starts with a dot"
    );
    assert_eq!(
        refusal("a//b"),
        "the object name \"a//b\" has an empty segment; use single slashes, and none at either end"
    );
}

proptest! {
    #[test]
    fn accepted_paths_stay_below_their_root(text in "[a-zA-Z0-9._/\\\\ -]{0,24}|\\PC{0,12}") {
        if let Ok(name) = Name::new(&text) {
            prop_assert_eq!(name.as_str(), &text);
            prop_assert_eq!(name.to_string(), text.clone());
            let path = std::path::Path::new(&text);
            prop_assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
            prop_assert_eq!(path.components().count(), text.split('/').count());
            let joined = if name.folder().is_empty() {
                name.last_segment().to_owned()
            } else {
                format!("{}/{}", name.folder(), name.last_segment())
            };
            prop_assert_eq!(joined, text);
            prop_assert!(name.is_in("") && name.is_in(name.folder()));
        }
    }
}
