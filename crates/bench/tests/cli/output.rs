//! The help texts.

use crate::support::Home;

const COMMANDS: [&[&str]; 22] = [
    &["chunk"],
    &["chunkers"],
    &["duplicate-locality"],
    &["locality"],
    &["records"],
    &["breakdown"],
    &["hashes"],
    &["cpu"],
    &["tune"],
    &["tune", "seqcdc"],
    &["generate"],
    &["generate", "versions"],
    &["repositories"],
    &["chunk-sizes"],
    &["random-read"],
    &["index"],
    &["similarity"],
    &["soak"],
    &["aging"],
    &["databases"],
    &["table"],
    &["charts"],
];

#[test]
fn every_help_has_an_example() {
    let home = Home::bare();
    for command in COMMANDS.iter().chain([&[][..]].iter()) {
        let help = home.ok([*command, &["--help"]].concat());
        let example = format!("  ibid-bench {}", command.join(" "));
        assert!(help.contains("Examples:") && help.contains(&example), "{help}");
    }
    assert!(home.ok(["--version"]).starts_with("ibid-bench "));
}
