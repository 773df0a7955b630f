//! What replicas, and a primary whose place was taken, do with each message, step by step.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use ibid_record::replicate::{self, Oplog, Progress, Receiver, Sender};
use ibid_record::{Durability, Error, Options, Refusal, Role, Store, Versions};

use crate::common::node::{End, Node};

/// Returns a primary with a page, and replicas that have it.
fn followed(replicas: usize) -> Vec<Node> {
    let options = Options::default().with_durability(Durability::None);
    let primary = Node::new(options.with_oplog(true));
    let pages = primary.store().namespace("kept", Versions::Kept).unwrap();
    pages.insert(b"ibid", b"in the same place").unwrap();
    let mut nodes = vec![primary];
    for _ in 0..replicas {
        let replica = Node::new(options);
        replica.store().follow().unwrap();
        catch_up(&nodes[0], &replica).unwrap();
        nodes.push(replica);
    }
    nodes
}

fn catch_up(primary: &Node, replica: &Node) -> Result<(), Error> {
    let (mut sender, mut receiver) = (Sender::new(primary.store())?, Receiver::new(replica.store())?);
    for _ in 0..100 {
        if receiver.take(&sender.answer(&receiver.ask()?)?)?.is_current() {
            return Ok(());
        }
    }
    panic!("it never catches up");
}

#[test]
fn two_promotions_to_the_same_epoch_are_not_both_followed() {
    let nodes = followed(3);
    for promoted in [1, 2] {
        nodes[promoted].store().promote().unwrap();
    }
    catch_up(&nodes[1], &nodes[3]).unwrap();
    let refused = catch_up(&nodes[2], &nodes[3]);
    assert!(
        matches!(refused, Err(Error::Refused(Refusal::OtherEpoch))),
        "{refused:?}"
    );
    // Neither follows the other without starting again.
    nodes[2].store().follow().unwrap();
    let refused = catch_up(&nodes[1], &nodes[2]);
    assert!(
        matches!(refused, Err(Error::Refused(Refusal::OtherEpoch))),
        "{refused:?}"
    );
    catch_up(&nodes[1], &nodes[3]).unwrap();
}

#[test]
fn a_primary_that_hears_of_a_later_epoch_writes_no_more() {
    let nodes = followed(2);
    let pages = nodes[0].store().namespace("kept", Versions::Kept).unwrap();
    nodes[1].store().promote().unwrap();
    pages.insert(b"idem", b"the same").unwrap(); // it does not know yet
    catch_up(&nodes[1], &nodes[2]).unwrap();
    let refused = catch_up(&nodes[0], &nodes[2]);
    assert!(matches!(refused, Err(Error::Refused(Refusal::Fenced))), "{refused:?}");
    assert!(matches!(pages.insert(b"op. cit.", b""), Err(Error::Fenced { by: 2 })));
    assert_eq!(pages.get(b"idem").unwrap().as_deref(), Some(&b"the same"[..]));
    // Entries that only the old primary has are removed when it becomes a replica.
    drop(pages);
    nodes[0].store().follow().unwrap();
    catch_up(&nodes[1], &nodes[0]).unwrap();
    let pages = nodes[0].store().find_namespace("kept").unwrap().unwrap();
    assert_eq!(pages.get(b"idem").unwrap(), None);
    assert!(matches!(pages.insert(b"idem", b""), Err(Error::IsReplica)));
}

#[test]
fn a_replica_that_has_only_a_part_refuses_to_be_read_and_knows_after_a_crash() {
    let mut nodes = followed(1);
    nodes[0].store().truncate_log(u64::MAX).unwrap();
    let mut late = Node::new(nodes[1].options);
    late.store().follow().unwrap();
    let mut sender = Sender::new(nodes[0].store()).unwrap().with_message_bytes(1);
    let mut receiver = Receiver::new(late.store()).unwrap();
    while receiver
        .take(&sender.answer(&receiver.ask().unwrap()).unwrap())
        .unwrap()
        != Progress::Part
    {}
    assert!(matches!(late.store().snapshot().map(drop), Err(Error::Incomplete)));
    late.store().sync().unwrap();
    drop(receiver);
    late.restart(End::Kill, &mut |_| 0);
    assert!(matches!(
        late.store().find_namespace("kept").map(drop),
        Err(Error::Incomplete)
    ));
    assert!(matches!(late.store().promote(), Err(Error::Incomplete)));
    // It continues at its position, with the same sender.
    let mut receiver = Receiver::new(late.store()).unwrap();
    let mut parts = 0;
    while !receiver
        .take(&sender.answer(&receiver.ask().unwrap()).unwrap())
        .unwrap()
        .is_current()
    {
        parts += 1;
        assert!(parts < 100, "it never catches up");
    }
    assert!((2..12).contains(&parts), "{parts} more parts");
    let pages = late.store().find_namespace("kept").unwrap().unwrap();
    assert_eq!(pages.get(b"ibid").unwrap().as_deref(), Some(&b"in the same place"[..]));
    drop((pages, receiver, sender));
    nodes.clear();
}

/// Returns a primary whose log does not reach back, a replica that has a part of its contents, and
/// the number of parts that it has.
fn interrupted() -> (Node, Node, u32) {
    let primary = followed(0).remove(0);
    let pages = primary.store().namespace("kept", Versions::Kept).unwrap();
    for number in 0..20_u32 {
        pages
            .put(&number.to_be_bytes(), &crate::common::noise(300, number))
            .unwrap();
    }
    drop(pages);
    primary.store().finish_encoding().unwrap();
    primary.store().truncate_log(u64::MAX).unwrap();
    let late = Node::new(Options::default().with_durability(Durability::None));
    late.store().follow().unwrap();
    let (parts, last) = take(&primary, &late, 9);
    assert_eq!((parts, last), (9, Progress::Part));
    (primary, late, parts)
}

/// Takes answers of one part each until the replica is up to date, or has so many parts. Returns
/// how many it took, and what the last answer brought.
fn take(primary: &Node, replica: &Node, most: u32) -> (u32, Progress) {
    let mut sender = Sender::new(primary.store()).unwrap().with_message_bytes(1);
    let mut receiver = Receiver::new(replica.store()).unwrap();
    let mut parts = 0;
    loop {
        let was_copying = replica.is_copying();
        let progress = receiver
            .take(&sender.answer(&receiver.ask().unwrap()).unwrap())
            .unwrap();
        assert!(!was_copying || progress != Progress::Nothing, "an answer is of no use");
        parts += u32::from(matches!(progress, Progress::Began | Progress::Part | Progress::Whole));
        if parts == most || progress.is_current() {
            return (parts, progress);
        }
    }
}

#[test]
fn a_copy_continues_after_its_primary_was_opened_again_unless_that_has_changed() {
    let (mut primary, late, before) = interrupted();
    primary.restart(End::PowerFailure, &mut |_| 0);
    let (after, _) = take(&primary, &late, u32::MAX);
    let (mut primary, other, _) = interrupted();
    // Another replica, for the number of parts of a whole copy.
    let whole = Node::new(other.options);
    whole.store().follow().unwrap();
    let (all, _) = take(&primary, &whole, u32::MAX);
    assert_eq!(before + after, all);

    primary.restart(End::Close, &mut |_| 0);
    let pages = primary.store().namespace("kept", Versions::Kept).unwrap();
    pages.put(b"idem", b"the same").unwrap();
    drop(pages);
    let (after, began) = take(&primary, &other, 1);
    assert_eq!((after, began), (1, Progress::Began));
    let (after, _) = take(&primary, &other, u32::MAX);
    assert!(after > before, "it took only {after} parts after it began again");
    for replica in [late, other, whole] {
        let found = replica.store().verify(&mut |_| ControlFlow::Continue(())).unwrap();
        assert!(found.is_clean(), "{found:?}");
    }
}

#[test]
fn a_copy_that_has_begun_is_of_one_store_only() {
    let (_, late, _) = interrupted();
    let other = followed(0).remove(0);
    let refused = catch_up(&other, &late);
    assert!(
        matches!(refused, Err(Error::Refused(Refusal::OtherStore))),
        "{refused:?}"
    );
    assert!(late.is_copying());
    assert!(matches!(
        late.store().compact(&mut |_| ControlFlow::Continue(())),
        Err(Error::Incomplete)
    ));
}

/// A connection to a primary that breaks at some of the requests, each after an answer or before.
struct Breaking<'s> {
    primary: &'s Store,
    sender: Option<Sender>,
    asked: u32,
    /// The requests whose answers are lost.
    lost: std::ops::Range<u32>,
}

impl<'s> Breaking<'s> {
    fn new(primary: &'s Node, lost: std::ops::Range<u32>) -> Self {
        Breaking {
            primary: primary.store(),
            sender: None,
            asked: 0,
            lost,
        }
    }
}

impl Oplog for Breaking<'_> {
    fn answer(&mut self, request: &[u8], _stop: &AtomicBool) -> Result<Option<Vec<u8>>, Error> {
        let sender = match &mut self.sender {
            Some(sender) => sender,
            none => none.insert(Sender::new(self.primary)?.with_message_bytes(1)),
        };
        let answer = sender.answer(request)?;
        self.asked += 1;
        if self.lost.contains(&(self.asked - 1)) {
            self.sender = None;
            let (operation, address, found) = ("receive from", String::new(), "it broke".to_owned());
            return Err(Error::Network {
                operation,
                address,
                found,
            });
        }
        Ok(Some(answer))
    }
}

fn take_over(new: &Node, log: &mut dyn Oplog, force: bool) -> Result<replicate::TakenOver, Error> {
    let never = AtomicBool::new(false);
    let taken = replicate::take_over(new.store(), log, force, &never, &mut |_| {})?;
    Ok(taken.expect("nothing stops it"))
}

#[test]
fn a_replica_that_takes_over_has_all_that_the_old_primary_acknowledged() {
    // The connection breaks while the rest is on its way: at the third request the replica fences.
    let nodes = followed(2);
    let pages = nodes[0].store().namespace("kept", Versions::Kept).unwrap();
    pages.put(b"idem", b"the same").unwrap();
    let taken = take_over(&nodes[1], &mut Breaking::new(&nodes[0], 3..4), false).unwrap();
    assert_eq!((taken.epoch, taken.position), (1, nodes[0].position()));
    assert_eq!(nodes[1].role(), Role::Primary);
    assert_eq!(nodes[1].position(), taken.position + 1);
    assert!(matches!(pages.put(b"idem", b""), Err(Error::Fenced { by: 2 })));
    // It may be told again, by the same store.
    let again = take_over(&nodes[1], &mut Breaking::new(&nodes[0], 0..0), false).unwrap();
    assert_eq!(again, taken);
    // Another replica that does not know of it does not take over, too.
    let refused = take_over(&nodes[2], &mut Breaking::new(&nodes[0], 0..0), false);
    assert!(matches!(refused, Err(Error::FencedBefore { by: 2 })), "{refused:?}");
    assert_eq!(nodes[2].role(), Role::Replica);
    catch_up(&nodes[1], &nodes[2]).unwrap();
    let copy = nodes[2].store().find_namespace("kept").unwrap().unwrap();
    assert_eq!(copy.get(b"idem").unwrap().as_deref(), Some(&b"the same"[..]));
    // A replica writes nothing, and a later primary is not ended for an earlier one.
    let refused = take_over(&nodes[1], &mut Breaking::new(&nodes[2], 0..0), false);
    assert!(
        matches!(refused, Err(Error::Refused(Refusal::NotPrimary))),
        "{refused:?}"
    );
    let refused = take_over(&nodes[0], &mut Breaking::new(&nodes[1], 0..0), false);
    assert!(matches!(refused, Err(Error::Fenced { by: 2 })), "{refused:?}");
    let other = followed(1);
    let refused = take_over(&other[1], &mut Breaking::new(&nodes[1], 0..0), false);
    assert!(
        matches!(refused, Err(Error::Refused(Refusal::OtherStore))),
        "{refused:?}"
    );
    assert_eq!(nodes[1].role(), Role::Primary);
}

#[test]
fn a_fence_whose_answer_is_lost_needs_force_and_then_nothing_is_lost_either() {
    let nodes = followed(1);
    let pages = nodes[0].store().namespace("kept", Versions::Kept).unwrap();
    // At the second request the replica fences.
    let refused = take_over(&nodes[1], &mut Breaking::new(&nodes[0], 1..2), false);
    assert!(matches!(refused, Err(Error::FencedBefore { by: 2 })), "{refused:?}");
    assert!(matches!(pages.put(b"idem", b""), Err(Error::Fenced { by: 2 })));
    take_over(&nodes[1], &mut Breaking::new(&nodes[0], 0..0), true).unwrap();
    assert_eq!(nodes[1].store().log().unwrap().unwrap().epoch, 3);
    assert!(matches!(pages.put(b"idem", b""), Err(Error::Fenced { by: 3 })));
}

#[test]
fn a_fenced_primary_takes_back_its_place_only_in_a_later_epoch() {
    let mut nodes = followed(2);
    take_over(&nodes[1], &mut Breaking::new(&nodes[0], 0..0), false).unwrap();
    let old = nodes[0].store();
    assert!(matches!(old.promote(), Err(Error::Fenced { by: 2 })));
    assert!(matches!(old.promote_to(2), Err(Error::Fenced { by: 2 })));
    old.promote_to(3).unwrap();
    old.namespace("kept", Versions::Kept)
        .unwrap()
        .put(b"idem", b"")
        .unwrap();
    // The other one is of an earlier epoch now.
    catch_up(&nodes[0], &nodes[2]).unwrap();
    let refused = catch_up(&nodes[1], &nodes[2]);
    assert!(matches!(refused, Err(Error::Refused(Refusal::Fenced))), "{refused:?}");
    nodes[1].restart(End::PowerFailure, &mut |_| 0);
    assert_eq!(nodes[1].role(), Role::Fenced { by: 3 });
    let refused = nodes[2].store().promote_to(3);
    assert!(
        matches!(refused, Err(Error::OutOfRange { min: 4, found: 3, .. })),
        "{refused:?}"
    );
}

#[test]
fn a_replica_in_the_middle_of_an_answer_takes_the_rest_of_it() {
    let nodes = followed(2);
    let pages = nodes[0].store().namespace("kept", Versions::Kept).unwrap();
    // An answer for another replica at the same position, which is taken later.
    let asked_early = Receiver::new(nodes[2].store()).unwrap().ask().unwrap();
    for number in 0..4 {
        pages.put(b"idem", format!("the same, {number}").as_bytes()).unwrap();
        if number == 1 {
            catch_up(&nodes[0], &nodes[1]).unwrap();
        }
    }
    pages.delete(b"ibid").unwrap();
    nodes[0].store().finish_encoding().unwrap();
    let answer = Sender::new(nodes[0].store()).unwrap().answer(&asked_early).unwrap();
    let (head, before) = (nodes[0].position(), nodes[1].position());
    assert!(nodes[2].position() < before && before < head);
    let mut receiver = Receiver::new(nodes[1].store()).unwrap();
    let took = receiver.take(&answer).unwrap();
    assert!(
        matches!(took, Progress::Entries { position, .. } if position == head),
        "{took:?}"
    );
    assert_eq!(receiver.take(&answer).unwrap(), Progress::Nothing);
    assert!(matches!(
        Receiver::new(nodes[2].store()).unwrap().take(&answer).unwrap(),
        Progress::Entries { position, .. } if position == head
    ));
    for replica in &nodes[1..] {
        let copy = replica.store().find_namespace("kept").unwrap().unwrap();
        for key in [&b"idem"[..], b"ibid"] {
            let versions = pages.versions(key).unwrap();
            assert_eq!(copy.versions(key).unwrap(), versions);
            for version in versions {
                let of = |pages: &ibid_record::Namespace| pages.get_version(key, version.version).unwrap();
                assert_eq!(of(&copy), of(&pages));
            }
        }
        let found = replica.store().verify(&mut |_| ControlFlow::Continue(())).unwrap();
        assert!(found.is_clean(), "{found:?}");
    }
}

#[test]
fn a_late_answer_whose_base_was_removed_since_changes_nothing() {
    let options = Options::default().with_durability(Durability::None);
    let (primary, replica) = (Node::new(options.with_oplog(true)), Node::new(options));
    replica.store().follow().unwrap();
    let pages = primary.store().namespace("latest", Versions::Latest).unwrap();
    pages.put(b"ibid", &crate::common::noise(2000, 1)).unwrap();
    // This sender knows the first body, also after it is removed.
    let mut sender = Sender::new(primary.store()).unwrap();
    let mut receiver = Receiver::new(replica.store()).unwrap();
    assert!(
        receiver
            .take(&sender.answer(&receiver.ask().unwrap()).unwrap())
            .unwrap()
            .is_current()
    );
    let before = replica.position();
    pages
        .put(b"ibid", &[crate::common::noise(2000, 1), b"2".to_vec()].concat())
        .unwrap();
    primary.store().truncate_log(before).unwrap();
    pages.put(b"idem", b"the same").unwrap();
    let late = sender.answer(&receiver.ask().unwrap()).unwrap();
    assert_eq!(sender.traffic().deltas, 1, "it is not a delta that is late");
    // Another sender brings all but the last entry, and with them the removal of the base.
    let mut other = Sender::new(primary.store()).unwrap().with_message_bytes(1);
    for position in before + 1..primary.position() {
        let taken = receiver.take(&other.answer(&receiver.ask().unwrap()).unwrap()).unwrap();
        let head = primary.position();
        assert_eq!(taken, Progress::Entries { position, head });
    }
    for _ in 0..3 {
        assert_eq!(receiver.take(&late).unwrap(), Progress::Nothing);
    }
    assert!(
        receiver
            .take(&other.answer(&receiver.ask().unwrap()).unwrap())
            .unwrap()
            .is_current()
    );
    let found = replica.store().verify(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(found.is_clean(), "{found:?}");
}

#[test]
fn an_answer_to_another_with_other_entries_changes_nothing() {
    let nodes = followed(2);
    let asked_early = Receiver::new(nodes[2].store()).unwrap().ask().unwrap();
    let put = |node: &Node, body: &[u8]| {
        let pages = node.store().namespace("kept", Versions::Kept).unwrap();
        pages.put(b"idem", body).unwrap();
    };
    put(&nodes[0], b"by the old one, which no other one has");
    nodes[1].store().promote().unwrap();
    put(&nodes[1], b"by the new one");
    put(&nodes[1], b"by the new one, again");
    nodes[0].store().follow().unwrap();
    let answer = Sender::new(nodes[1].store()).unwrap().answer(&asked_early).unwrap();
    let before = nodes[0].store().log().unwrap();
    assert_eq!(
        Receiver::new(nodes[0].store()).unwrap().take(&answer).unwrap(),
        Progress::Nothing
    );
    assert_eq!(nodes[0].store().log().unwrap(), before);
    // After its own request, it is told to take all contents.
    catch_up(&nodes[1], &nodes[0]).unwrap();
    assert_eq!(nodes[0].position(), nodes[1].position());
}

#[test]
fn a_log_that_is_bounded_keeps_its_newest_entries() {
    let options = Options::default()
        .with_durability(Durability::None)
        .with_log_entries_max(100);
    let mut primary = Node::new(options.with_oplog(true));
    let [near, far] = [(); 2].map(|()| Node::new(options));
    for replica in [&near, &far] {
        replica.store().follow().unwrap();
    }
    catch_up(&primary, &far).unwrap();
    let log = |node: &Node| node.store().log().unwrap().unwrap();
    let pages = primary.store().namespace("latest", Versions::Latest).unwrap();
    for number in 0..1000_u32 {
        pages.put(&(number % 10).to_le_bytes(), &number.to_le_bytes()).unwrap();
        assert!(log(&primary).next - log(&primary).first <= 140, "after {number}");
        if number % 50 == 0 {
            catch_up(&primary, &near).unwrap();
        }
    }
    // Replaced records are removed with the entries that name them.
    primary.store().finish_encoding().unwrap();
    let statistics = primary.store().statistics(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(statistics.namespaces[0].obsolete.count < 150, "{statistics:?}");
    assert!(log(&primary).first > 800 && log(&primary).next - log(&primary).first >= 100);
    // The replica that kept up has the same; the other takes all contents.
    for replica in [&near, &far] {
        catch_up(&primary, replica).unwrap();
        assert_eq!(log(replica).next, log(&primary).next);
        assert_eq!(log(replica).first, log(&primary).first);
        let copy = replica.store().find_namespace("latest").unwrap().unwrap();
        for key in 0..10_u32 {
            assert_eq!(
                copy.get(&key.to_le_bytes()).unwrap(),
                pages.get(&key.to_le_bytes()).unwrap()
            );
        }
        let found = replica.store().verify(&mut |_| ControlFlow::Continue(())).unwrap();
        assert!(found.is_clean(), "{found:?}");
    }
    // One that is told a smaller number when it is opened comes to it at once.
    drop(pages);
    primary.options.log_entries_max = Some(10);
    primary.restart(End::Close, &mut |_| 0);
    primary.store().sync().unwrap();
    assert!(
        (10..=13).contains(&(log(&primary).next - log(&primary).first)),
        "{:?}",
        log(&primary)
    );
}

#[test]
fn malformed_messages_are_errors() {
    let nodes = followed(1);
    let mut sender = Sender::new(nodes[0].store()).unwrap();
    let mut receiver = Receiver::new(nodes[1].store()).unwrap();
    let pages = nodes[0].store().namespace("kept", Versions::Kept).unwrap();
    pages.insert(b"idem", b"the same").unwrap();
    let request = receiver.ask().unwrap();
    let answer = sender.answer(&request).unwrap();
    for place in 0..request.len() {
        let mut changed = request.clone();
        changed[place] ^= 1;
        assert!(matches!(sender.answer(&changed), Err(Error::Message(_))));
        assert!(matches!(sender.answer(&request[..place]), Err(Error::Message(_))));
    }
    for place in 0..answer.len() {
        let mut changed = answer.clone();
        changed[place] ^= 1;
        assert!(matches!(receiver.take(&changed), Err(Error::Message(_))));
        assert!(matches!(receiver.take(&answer[..place]), Err(Error::Message(_))));
    }
    assert!(receiver.take(&answer).unwrap().is_current());
}
