//! A pack of the wrong length loses what is beyond its end, and nothing else: each frame in it has a seal of
//! its own.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ibid_repo::{CheckReport, ReadData};
use ibid_storage::Name;

use crate::support;
use crate::support::damage::{Image, Scene, image, kind, names_fault, open, storage};
use crate::support::deltas::Writer;

/// Returns an image in which a pack has this many bytes.
fn with_length(scene: &Scene, pack: &Name, length: usize) -> Image {
    scene.with(|image| image.get_mut(pack).unwrap().resize(length, 0))
}

/// Returns what the report says about a file.
fn problem_of<'r>(report: &'r CheckReport, name: &Name) -> &'r str {
    let fault = report.faults.iter().find(|fault| fault.object == name.as_str());
    &fault.unwrap_or_else(|| panic!("{name} is not in {report:?}")).problem
}

fn affected(report: &CheckReport) -> BTreeSet<(String, PathBuf)> {
    let of = |affected: &ibid_repo::Affected| (affected.snapshot.to_string(), affected.path.clone());
    report.affected.iter().map(of).collect()
}

#[test]
fn bytes_after_the_end_of_a_pack_cost_nothing() {
    let scene = Scene::new();
    for pack in scene.names("packs") {
        for (more, says) in [
            (1, "1 byte longer than expected"),
            (5, "5 bytes longer than expected"),
            (100_000, "longer"),
        ] {
            let image = with_length(&scene, &pack, scene.image[&pack].len() + more);
            let report = scene.judge(&image, &format!("{pack} has {more} bytes more")).unwrap();
            assert!(problem_of(&report, &pack).contains(says), "{report:?}");
            assert_eq!((report.faults_total, report.affected_total), (1, 0), "{report:?}");
        }
    }
}

#[test]
fn a_pack_that_lost_its_end_loses_the_files_of_these_frames_only() {
    let scene = Scene::new();
    let mut kept = 0;
    for pack in scene.names("packs") {
        let length = scene.image[&pack].len();
        let frames = Writer::of(storage(&scene.image)).directory(&pack).frames;
        let gone = scene
            .judge(&scene.with(|image| drop(image.remove(&pack))), "gone")
            .unwrap();
        let mut before = affected(&gone);
        // Cut inside each frame, from the first to the last.
        for frame in &frames {
            let cut = (frame.offset + frame.sealed - 1) as usize;
            let context = format!("{pack} is cut to {cut} of {length} bytes");
            let report = scene.judge(&with_length(&scene, &pack, cut), &context).unwrap();
            let now = affected(&report);
            assert!(now.len() <= before.len(), "{context}: more is left than before");
            if frame.offset > 8 {
                let says = format!("{} bytes are missing at its end", length - cut);
                assert!(problem_of(&report, &pack).contains(&says), "{report:?}");
            }
            before = now;
        }
        kept += affected(&gone).len() - before.len();
        // Only the directory is damaged: the index file says where the frames are.
        let report = scene
            .judge(&with_length(&scene, &pack, length - 10), "cut at the end")
            .unwrap();
        assert_eq!((report.faults_total, report.affected_total), (1, 0), "{report:?}");
    }
    assert!(kept > 0, "some file needs only the beginning of a pack");
}

/// No index file says how long the pack was.
#[test]
fn the_end_of_a_longer_pack_is_found_without_an_index_file() {
    let scene = Scene::new();
    for (pack, more) in scene
        .names("packs")
        .iter()
        .zip([1, 5, 4096, 65_535, 65_536, 65_537].into_iter().cycle())
    {
        let mut image = with_length(&scene, pack, scene.image[pack].len() + more);
        image.retain(|name, _| kind(name) != "index");
        let report = scene.judge(&image, &format!("{more} bytes")).unwrap();
        let found = more <= 65_536;
        assert_eq!(report.affected_total == 0, found, "{more} bytes: {report:?}");
        names_fault(&report, pack, "it is reported all the same");
        assert_eq!(report.unlisted_packs, if found { 6 } else { 5 });
        // A backup lists it as long as it was.
        let repository = open(storage(&image)).unwrap();
        support::backup(&repository, scene.folder.path());
        let report = repository.check(ReadData::All).unwrap();
        assert_eq!(report.unlisted_packs, 0, "{report:?}");
        if found {
            assert_eq!((report.faults_total, report.affected_total), (1, 0), "{report:?}");
        }
    }
}

/// What a backup relies on lies within the files.
#[test]
fn a_backup_relies_on_no_frame_beyond_the_end_of_a_pack() {
    let scene = Scene::new();
    let mut reused = 0;
    for pack in scene.names("packs") {
        let frames = Writer::of(storage(&scene.image)).directory(&pack).frames;
        for frame in frames.iter().step_by(3) {
            let cut = (frame.offset + frame.sealed / 2) as usize;
            let place = storage(&with_length(&scene, &pack, cut));
            let repository = open(place.clone()).unwrap();
            let summary = support::backup(&repository, scene.folder.path());
            let report = repository.check(ReadData::All).unwrap();
            let id = summary.id.unwrap();
            let lost: Vec<_> = report
                .affected
                .iter()
                .filter(|affected| affected.snapshot == id)
                .collect();
            assert!(lost.is_empty(), "{pack} cut to {cut}: {lost:?}");
            let stored = image(place.as_ref()).values().map(Vec::len).sum::<usize>();
            reused +=
                usize::from(stored < scene.image.values().map(Vec::len).sum::<usize>() - scene.image[&pack].len() / 4);
        }
    }
    assert!(reused > 0, "what is left of a pack is not stored again");
}
