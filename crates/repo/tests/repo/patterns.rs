//! Patterns mean what the crate `ignore` makes of them: all lists of random patterns are compared
//! with it, on random paths. The alphabets are small, so that patterns match.

use std::fmt::Write;
use std::path::Path;

use ibid_repo::{Error, Patterns};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use proptest::collection::vec;
use proptest::prelude::*;

/// The patterns of [`Patterns`], read by the crate `ignore`.
struct Reference(Gitignore);

impl Reference {
    /// Returns the patterns, or the reason why the first bad one is bad.
    fn new(patterns: &[String], ignore_case: bool) -> Result<Reference, String> {
        let mut builder = GitignoreBuilder::new("/");
        builder.allow_unclosed_class(false);
        builder.case_insensitive(ignore_case).unwrap();
        for pattern in patterns {
            Reference::add(&mut builder, pattern)?;
        }
        Ok(Reference(builder.build().map_err(|error| error.to_string())?))
    }

    fn add(builder: &mut GitignoreBuilder, pattern: &str) -> Result<(), String> {
        let (takes_back, path) = match pattern.strip_prefix('!') {
            Some(path) => ("!", path),
            None => ("", pattern),
        };
        let mut path = path.to_owned();
        while path.contains("//") {
            path = path.replace("//", "/");
        }
        let names = path.trim_end();
        let names = names.strip_suffix('/').unwrap_or(names);
        let names = names.strip_prefix('/').unwrap_or(names);
        if names.split('/').any(|name| matches!(name, "" | "." | "..")) {
            return Err("no path is empty".into());
        }
        let anywhere = if path.starts_with('/') { "" } else { "**/" };
        match builder.add_line(None, &format!("{takes_back}{anywhere}{path}")) {
            Ok(_) => Ok(()),
            Err(ignore::Error::Glob { err, .. }) => Err(err),
            Err(error) => Err(error.to_string()),
        }
    }

    fn matches(&self, path: &Path, is_directory: bool) -> bool {
        self.0.matched(path, is_directory).is_ignore()
    }
}

/// Compares both on each path, as a directory and as a file.
fn assert_same(patterns: &[String], ignore_case: bool, paths: &[String]) {
    let ours = Patterns::new(patterns, ignore_case);
    let (ours, reference) = match (ours, Reference::new(patterns, ignore_case)) {
        (Ok(ours), Ok(reference)) => (ours, reference),
        (Err(Error::BadPattern { reason, .. }), Err(expected)) => {
            assert!(
                reason.starts_with(&expected),
                "{patterns:?}: {reason}, and not {expected}"
            );
            return;
        }
        (ours, expected) => panic!("{patterns:?}: {ours:?}, and not {:?}", expected.err()),
    };
    for path in paths.iter().map(Path::new) {
        for is_directory in [false, true] {
            assert_eq!(
                ours.matches(path, is_directory),
                reference.matches(path, is_directory),
                "{patterns:?} on {path:?}, ignore_case {ignore_case}, is_directory {is_directory}"
            );
        }
    }
}

/// Any text of characters that mean something, or little.
fn wild() -> impl Strategy<Value = String> {
    vec(
        prop::sample::select("aab.A/*?[]{},!-^\\ é/*".chars().collect::<Vec<_>>()),
        1..12,
    )
    .prop_map(|characters| characters.into_iter().collect())
}

/// What people write: names and wildcards between slashes.
fn usual() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "a", "b", "ab", "B", "a.b", ".a", "*.b", "*b", "a*", "*a*", "?", "a?b", "*", "**", "[ab]", "[!a]*", "[a-b]b",
        "{a,b}", "{a,*.b}", "{a/b,b}", "{**/a,b}", "a{,b}", "é", "[é]*", "\\*", "a\\,", "aa.ab",
    ]);
    let negation = prop::sample::select(vec!["", "", "", "!"]);
    let end = prop::sample::select(vec!["", "", "", "/", "/**", " "]);
    (negation, any::<bool>(), vec(name, 1..4), end).prop_map(|(negation, whole, names, end)| {
        let mut pattern = negation.to_owned();
        pattern += if whole { "/" } else { "" };
        write!(pattern, "{}{end}", names.join("/")).unwrap();
        pattern
    })
}

fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        prop::sample::select(vec![
            "a", "b", "ab", "A", "a.b", ".a", "b.B", "é", "*", "a,", "aa.ab", " "
        ])
        .prop_map(str::to_owned),
        "\\.?[abBé][abB.é]{0,3}",
    ];
    (any::<bool>(), vec(name, 0..5))
        .prop_map(|(absolute, names)| format!("{}{}", if absolute { "/" } else { "" }, names.join("/")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_pattern_of_any_text_is_read_alike(
        pattern in wild(), ignore_case in any::<bool>(), paths in vec(path(), 20)
    ) {
        assert_same(&[pattern], ignore_case, &paths);
    }

    #[test]
    fn lists_of_usual_patterns_decide_alike(
        patterns in vec(usual(), 1..12), ignore_case in any::<bool>(), paths in vec(path(), 20)
    ) {
        assert_same(&patterns, ignore_case, &paths);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    // A case costs as much as ten of the others.
    #[test]
    fn a_long_group_is_read_alike(
        patterns in vec(usual(), 40..80), ignore_case in any::<bool>(), paths in vec(path(), 20)
    ) {
        let alternatives = patterns.join(",").replace([' ', '!'], "");
        for pattern in [format!("a{{{alternatives}}}"), format!("/{{{alternatives}}}b")] {
            assert_same(&[pattern], ignore_case, &paths);
        }
    }
}

#[test]
fn deep_folders_and_long_names_are_read_alike() {
    let deep = |names: usize| (0..names).map(|n| n.to_string()).collect::<Vec<_>>().join("/");
    let long = |name: &str| name.repeat(70);
    let mut patterns = Vec::new();
    for pattern in [deep(62), deep(63), deep(64), deep(65), deep(100), long("ab"), long("é")] {
        patterns.extend(["", "/"].map(|start| format!("{start}{pattern}")));
        patterns.extend(["x*/", "/x/*/", "*"].map(|start| format!("{start}{pattern}")));
        patterns.extend(["/?", "/**/x", "/*/x/*", "*"].map(|end| format!("{pattern}{end}")));
        patterns.extend(["/*", "x/**/y", "*"].map(|end| format!("/{pattern}{end}")));
    }
    let mut paths = Vec::new();
    for path in [
        deep(61),
        deep(62),
        deep(63),
        deep(64),
        deep(65),
        deep(100),
        long("ab"),
        long("é"),
    ] {
        paths.extend(["", "/", "x/", "/x/y/", "x"].map(|start| format!("{start}{path}")));
        paths.extend(["/x", "x/y/x", "x"].map(|end| format!("/{path}{end}")));
    }
    assert!(patterns.len() * paths.len() > 5000);
    for pattern in &patterns {
        assert_same(std::slice::from_ref(pattern), false, &paths);
    }
    assert_same(&patterns, false, &paths);
    assert_same(&patterns, true, &paths);
}

#[test]
fn odd_patterns_are_read_alike() {
    let odd = [
        "**",
        "/**",
        "***",
        "**a",
        "a**",
        "a/**/**/b",
        "/**/**",
        "**/**",
        "a/**b",
        "*/**",
        "{a\\,**/b,c}",
        "{a\\{**/b,c}",
        "{a\\,**}",
        "{**/a}b",
        "a{**/b}",
        "{a/**,b}",
        "{a/**/b,c}",
        "{a,**}",
        "x{,/**/}a",
        "**/{}",
        "{}**/a",
        "a{}",
        "{,}a",
        "{{},a}b",
        "{a,{b,}}",
        "a{/,b}*",
        "a,b",
        "a}",
        "{a",
        "\\/",
        "a\\\\/",
        "a\\/",
        "a\\",
        "/\\/a",
        "a\\/**",
        "a\\/b",
        "[]a]",
        "[!]a]",
        "[a-]",
        "[--0]",
        "[-a]",
        "[^a]b",
        "[a/]b",
        "x[!a]a",
        "[b-a]",
        "[!a",
        "[é]*",
        "[!é]",
        "[a-é]",
        "[á-é]*",
        "a\\ ",
        "a ",
        "a\\  ",
        "\\!a",
        "!!a",
        "#a",
        "!#a",
        "{a,b}/",
        "/{a,b}/c",
        "a/{b,c/d}",
        "*/{a,b}",
        "[A-C]",
        "{A,b}",
    ];
    let names = [
        "a", "b", "c", "aa", "ab", "ba", "xa", "a,", "a{", "a ", "!a", "#a", "é", "á", "]", "-", "]a", "a\\", "d",
    ];
    let mut paths = vec![String::new()];
    for name in names {
        paths.push(name.to_owned());
        for other in names {
            paths.extend([
                format!("{name}/{other}"),
                format!("/{name}/x/{other}"),
                format!("/{name}/b/{other}"),
            ]);
        }
    }
    for pattern in odd {
        for ignore_case in [false, true] {
            assert_same(&[pattern.to_owned()], ignore_case, &paths);
        }
    }
}
