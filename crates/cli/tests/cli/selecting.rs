//! Selecting snapshots.

use crate::support::Home;

#[test]
fn snapshots_go_by_prefix_latest_and_filters() {
    let home = Home::new();
    home.write("other/x", "x");
    home.ok([
        "backup",
        "files",
        "--host",
        "mill",
        "--tag",
        "a,b",
        "--time",
        "2020-01-01T00:00:00Z",
    ]);
    home.ok([
        "backup",
        "files",
        "--host",
        "farm",
        "--tag",
        "a",
        "--tag",
        "c",
        "--time",
        "2020-01-02T00:00:00Z",
    ]);
    home.ok(["backup", "other", "--host", "farm", "--time", "2020-01-03T00:00:00Z"]);
    let ids = home.ids();
    let listed = |arguments: &[&str]| {
        let text = home.ok([&["snapshots"], arguments].concat());
        ids.iter().map(|id| text.contains(&id[..8])).collect::<Vec<_>>()
    };
    assert_eq!(listed(&[]), [true, true, true]);
    assert_eq!(listed(&["--host", "farm"]), [false, true, true]);
    assert_eq!(listed(&["--host", "farm", "--host", "mill"]), [true, true, true]);
    assert_eq!(listed(&["--tag", "a"]), [true, true, false]);
    assert_eq!(listed(&["--tag", "a,b"]), [true, false, false]);
    assert_eq!(
        listed(&["--path", "files"]),
        [true, true, false],
        "relative to where it is said"
    );
    assert_eq!(listed(&["--latest", "1"]), [false, false, true]);
    assert_eq!(listed(&["--latest", "1", "--tag", "a"]), [false, true, false]);
    assert_eq!(listed(&["--latest", "9"]), [true, true, true]);
    assert_eq!(listed(&["--host", "nobody"]), [false, false, false]);

    let size = |arguments: &[&str]| home.ok([&["stats", "--json"], arguments].concat());
    assert!(size(&["latest"]).contains(r#""files":1,"#));
    assert!(size(&["latest", "--tag", "a"]).contains(r#""files":3,"#));
    assert!(size(&["latest~2", &ids[0], &ids[1][..8]]).contains(r#""snapshots":2,"files":6,"#));
    assert!(size(&[]).contains(r#""snapshots":3,"files":7,"#));
    for name in ["latest~3", "nothing", "latest~x", ""] {
        assert!(home.fails(1, ["ls", name]).contains("no snapshot"), "{name}");
    }
    home.fails(1, ["ls", "latest", "--host", "nobody"]);
    home.fails(1, ["backup", "files", "--parent", "nothing"]);
    home.ok(["backup", "files", "--parent", &ids[0]]);
    assert!(
        home.ok(["snapshots", "--json"])
            .contains(&format!(r#""parent":"{}""#, ids[0]))
    );
}
