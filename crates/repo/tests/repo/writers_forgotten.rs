//! Keepers forget snapshots of a writer, and a writer that was taken over has no say in which.

use std::collections::BTreeSet;

use ibid_format::writer::signed;
use ibid_format::{FileId, FileKind};
use ibid_repo::{Error, GroupBy, KeepPolicy, PolicyGroup, ReadData, Repository, SessionState, Time};
use ibid_storage::{Name, Storage};

use crate::support::{backup, options};
use crate::writers::{Scene, restores};

/// Makes a backup that says it was made then.
fn back_up_at(scene: &Scene, seconds: i64) -> FileId {
    let time = Time { seconds, nanos: 0 };
    let made = scene
        .as_writer(&scene.laptop)
        .backup(&options(scene.folder.path()).time(Some(time)));
    made.unwrap().id.unwrap()
}

fn laptop(scene: &Scene) -> Repository {
    scene.repository.writer("laptop").unwrap()
}

fn ids(repository: &Repository) -> BTreeSet<FileId> {
    repository.snapshots().unwrap().iter().map(|info| info.id).collect()
}

fn decide(repository: &Repository, policy: &KeepPolicy) -> Vec<PolicyGroup> {
    let all = repository.snapshots().unwrap();
    repository.apply_policy(policy, all, GroupBy::default()).unwrap()
}

fn kept(groups: &[PolicyGroup]) -> BTreeSet<FileId> {
    let all = groups.iter().flat_map(|group| &group.snapshots);
    all.filter(|one| one.is_kept()).map(|one| one.info.id).collect()
}

#[test]
fn keepers_forget_snapshots_of_a_writer_and_bring_them_back() {
    let scene = Scene::new();
    let (first, second) = (scene.back_up(), scene.back_up());
    let keeper = laptop(&scene);
    keeper.forget(&[first]).unwrap();
    assert_eq!(ids(&keeper), [second].into());
    restores(&laptop(&scene), &scene.folder);
    let forgotten = laptop(&scene).forgotten(|_, error| panic!("{error}")).unwrap();
    assert_eq!(forgotten.iter().map(|info| info.id).collect::<Vec<_>>(), [first]);
    let again = laptop(&scene).remember(first, "").unwrap();
    assert_eq!(ids(&laptop(&scene)), [again, second].into());
    // The writer goes on as before.
    let summary = backup(&scene.as_writer(&scene.laptop), scene.folder.path());
    assert!(summary.counters.new_bytes < 10_000, "{:?}", summary.counters);
    assert!(laptop(&scene).check(ReadData::All).unwrap().faults.is_empty());
}

#[test]
fn keepers_tag_snapshots_of_a_writer_which_keep_their_places() {
    let scene = Scene::new();
    let (first, second) = (scene.back_up(), scene.back_up());
    laptop(&scene).note_seen().unwrap();
    let third = scene.back_up();
    let keeper = laptop(&scene);
    let info = keeper.snapshot(&first.to_string()).unwrap();
    let tagged = keeper.set_tags(&info, &["release".to_owned()], "").unwrap().unwrap();
    let found = laptop(&scene).snapshot(&tagged.to_string()).unwrap();
    assert_eq!(found.snapshot.tags, ["release"]);
    for _ in 0..2 {
        let groups = decide(&laptop(&scene), &KeepPolicy::default().last(1));
        let order: Vec<FileId> = groups[0].snapshots.iter().map(|one| one.info.id).collect();
        assert_eq!(order, [third, second, tagged]);
        laptop(&scene).note_seen().unwrap();
    }
    restores(&laptop(&scene), &scene.folder);
}

#[test]
fn sessions_that_a_writer_may_not_delete_go_with_their_snapshots() {
    let scene = Scene::new();
    let id = scene.back_up();
    // As it was left by a writer whose storage lets it delete nothing.
    scene.put_session_of_laptop(id);
    let sessions = || laptop(&scene).sessions(|_, error| panic!("{error}")).unwrap();
    assert_eq!(sessions()[0].state, SessionState::Ended);
    laptop(&scene).forget(&[id]).unwrap();
    assert!(sessions().is_empty(), "it would seem to be open");
}

#[test]
fn planted_snapshots_do_not_make_rules_forget_earlier_ones_without_notice() {
    let scene = Scene::new();
    let good: BTreeSet<FileId> = (0..7).map(|_| scene.back_up()).collect();
    let policy = KeepPolicy::default().last(7);
    let groups = decide(&laptop(&scene), &policy);
    assert_eq!(kept(&groups), good);
    laptop(&scene).note_seen().unwrap();
    // A usual day.
    let new = scene.back_up();
    let groups = decide(&laptop(&scene), &policy);
    assert!(!groups.iter().any(PolicyGroup::loses_most_seen) && kept(&groups).contains(&new));
    laptop(&scene).forget(&PolicyGroup::ids_forgotten(&groups)).unwrap();
    laptop(&scene).note_seen().unwrap();
    // Whoever has the key says that these are from years to come, and one that it is from long ago.
    let planted: BTreeSet<FileId> = (0..6).map(|n| back_up_at(&scene, 4_000_000_000 + n)).collect();
    let old = back_up_at(&scene, 1_000_000_000);
    let groups = decide(&laptop(&scene), &policy);
    assert!(groups.iter().any(PolicyGroup::loses_most_seen), "{groups:?}");
    // If they are few, they take their own places and no more: that of the old one is among the new ones.
    laptop(&scene)
        .forget(&planted.iter().copied().collect::<Vec<_>>())
        .unwrap();
    let groups = decide(&laptop(&scene), &policy);
    assert!(!groups.iter().any(PolicyGroup::loses_most_seen));
    assert_eq!(groups[0].snapshots[0].info.id, old);
    assert_eq!(kept(&groups).len(), 7);
}

#[test]
fn what_was_seen_once_stays_as_old_as_it_is() {
    let scene = Scene::new();
    let first = scene.back_up();
    laptop(&scene).note_seen().unwrap();
    let from_the_future = back_up_at(&scene, 4_000_000_000);
    laptop(&scene).note_seen().unwrap();
    let last = scene.back_up();
    laptop(&scene).note_seen().unwrap();
    let groups = decide(&laptop(&scene), &KeepPolicy::default().last(1));
    let order: Vec<FileId> = groups[0].snapshots.iter().map(|one| one.info.id).collect();
    assert_eq!(order, [last, from_the_future, first]);
    let now = groups[0].snapshots[0].time.seconds;
    assert!(
        groups[0].snapshots.iter().all(|one| one.time.seconds <= now),
        "{groups:?}"
    );
    assert_eq!(scene.names(&scene.laptop, "seen").len(), 1, "one list has all");
}

#[test]
fn only_keepers_say_what_was_seen_and_what_was_forgotten() {
    let scene = Scene::new();
    let (first, second) = (scene.back_up(), scene.back_up());
    laptop(&scene).note_seen().unwrap();
    let keys = scene.laptop.keys();
    let below = |rest: String| Name::new(&format!("written/{}/{rest}", scene.laptop.id())).unwrap();
    // Lists that no keeper has signed mean nothing.
    assert!(signed::sign(&keys, FileKind::Seen, first, &[b"seen"]).is_err());
    let header = signed::sign(&keys, FileKind::Session, first, &[b"seen"]).unwrap();
    scene
        .storage
        .put(&below(format!("seen/{first}")), &[&header, b"seen"])
        .unwrap();
    let groups = decide(&laptop(&scene), &KeepPolicy::default().last(1));
    assert_eq!(kept(&groups), [second].into());
    assert!(!groups[0].loses_most_seen(), "1 of 2 that were seen is half");
    // Nor does a snapshot count as forgotten that the writer has put there, or that it has signed under another name.
    let bytes = scene.image()[&below(format!("snapshots/{second}"))].clone();
    let other = FileId([7; 16]);
    for id in [second, other] {
        scene.storage.put(&below(format!("forgotten/{id}")), &[&bytes]).unwrap();
    }
    let mut damaged = Vec::new();
    let forgotten = laptop(&scene).forgotten(|id, _| damaged.push(id)).unwrap();
    assert!(forgotten.is_empty() && damaged == [other], "{damaged:?}");
    let refused = laptop(&scene).remember(second, "").unwrap_err();
    assert!(
        matches!(refused, Error::NotForgotten { .. }) || refused.is_damage(),
        "{refused}"
    );
    assert_eq!(ids(&laptop(&scene)), [first, second].into());
}
