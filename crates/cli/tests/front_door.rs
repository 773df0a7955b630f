//! README, ARCHITECTURE, CONTRIBUTING and the pages they link to name only files and sections that
//! exist.

use std::path::{Path, PathBuf};

/// Pages whose links and paths are checked, and folders of such pages.
const PAGES: [&str; 10] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "crates/bench/corpora",
    "crates/bench/runs",
    "docs",
    "docs/decisions",
    "docs/format",
];

/// Prefixes of words in code spans that are checked as paths.
const ROOTS: [&str; 5] = ["crates/", "docs/", "sim/", "fuzz/", ".ci/"];

/// Headings of every decision.
const PARTS: [&str; 5] = [
    "**Context.**",
    "**Choice.**",
    "**Price.**",
    "**Decisive figure.**",
    "**Tried and rejected",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the names of the Markdown pages in a folder, in order.
fn pages_in(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<_> = names.filter(|name| name.ends_with(".md")).collect();
    pages.sort();
    pages
}

/// Returns every page, as a path from the root.
fn pages() -> Vec<String> {
    let mut pages = Vec::new();
    for page in PAGES {
        if page.ends_with(".md") {
            pages.push(page.to_owned());
        } else {
            pages.extend(pages_in(page).into_iter().map(|name| format!("{page}/{name}")));
        }
    }
    pages
}

/// Returns a page without its fenced blocks.
fn prose(page: &str) -> String {
    let mut inside = false;
    let lines = page.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns the targets of links and images.
fn links(page: &str) -> Vec<String> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let html = page.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next());
    targets.chain(html).map(str::to_owned).collect()
}

/// Returns the anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns whether a page has a heading with this anchor. The second of two equal headings ends in
/// `-1`.
fn has_heading(page: &str, wanted: &str) -> bool {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchors: Vec<_> = headings
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect();
    let numbered = wanted
        .rsplit_once('-')
        .and_then(|(first, n)| Some((first, n.parse::<usize>().ok()?)));
    let count = |wanted: &str| anchors.iter().filter(|anchor| *anchor == wanted).count();
    count(wanted) > 0 || numbered.is_some_and(|(first, n)| count(first) > n)
}

#[test]
fn every_link_leads_somewhere() {
    let mut links_seen = 0;
    let mut wrong = Vec::new();
    for name in pages() {
        let page = prose(&read(&name));
        let folder = root().join(&name).parent().unwrap().to_owned();
        for link in links(&page) {
            if link.contains("://") {
                continue;
            }
            links_seen += 1;
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() {
                root().join(&name)
            } else {
                folder.join(path)
            };
            if !target.exists() {
                wrong.push(format!("{name}: {link} does not exist"));
            } else if !heading.is_empty() && !has_heading(&std::fs::read_to_string(&target).unwrap(), heading) {
                wrong.push(format!("{name}: {link} has no such heading"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(links_seen > 100, "{links_seen}");
}

#[test]
fn every_path_in_code_exists() {
    let mut paths_seen = 0;
    let mut wrong = Vec::new();
    for name in pages() {
        let page = prose(&read(&name));
        for code in page.split('`').skip(1).step_by(2) {
            for word in code.split_whitespace() {
                let word = word.trim_end_matches([',', '.', ';', ':']);
                let is_path = ROOTS.iter().any(|root| word.starts_with(root));
                // Patterns are not checked.
                if !is_path || word.contains(['*', '<', '…', '$', '{']) {
                    continue;
                }
                paths_seen += 1;
                if !root().join(word).exists() {
                    wrong.push(format!("{name}: {word} does not exist"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(paths_seen > 20, "{paths_seen}");
}

#[test]
fn every_decision_is_complete_and_listed() {
    let index = read("docs/decisions/README.md");
    let architecture = read("ARCHITECTURE.md");
    let decisions = pages_in("docs/decisions");
    for (n, name) in decisions.iter().filter(|name| *name != "README.md").enumerate() {
        let page = read(&format!("docs/decisions/{name}"));
        let number = n + 1;
        assert!(
            name.starts_with(&format!("{number:02}-")),
            "{name} is not number {number}"
        );
        let title = page.lines().next().unwrap();
        let title = title
            .strip_prefix(&format!("# {number}. "))
            .unwrap_or_else(|| panic!("{name} begins with {title:?}"));
        for part in PARTS {
            // The page on libraries is a table of choices.
            let needed = part == PARTS[0] || part == PARTS[4] || !name.ends_with("-libraries.md");
            assert!(!needed || page.contains(part), "{name} has no {part}");
        }
        assert!(
            index.contains(&format!("| {number} | [{title}]({name}) |")),
            "{name} is not in the index"
        );
        assert!(
            architecture.contains(&format!("[{title}](docs/decisions/{name})")),
            "{name} is not in ARCHITECTURE.md"
        );
    }
    assert!(decisions.len() > 36, "{decisions:?}");
}
