//! Random histories in which the primary and replicas are killed or lose power, while a replica
//! copies the whole store and while it follows, over a network that loses, repeats and reorders
//! messages. In the end all stores have the same contents: every acknowledged change, except those
//! lost with an unsynced commit or with a primary whose replica was promoted too early. A replica
//! that takes over loses nothing.
//!
//! `IBID_REPLICATION_SEEDS=1000` runs more seeds, `IBID_REPLICATION_SEED=7` runs one.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ibid_record::replicate::{self, Progress, Receiver, Sender};
use ibid_record::{
    Compacting, Direction, Durability, Encoding, Error, Latest, Options, Refusal, Retention, Retrieval, Role, Versions,
};

use crate::common::node::{End, Node};
use crate::common::{Kind, Model, Op, Values, assert_same, assert_same_as_first, batch, open_spaces, tables};

const KEYS: [&[u8]; 6] = [b"", b"a", b"ab", b"b", b"c", b"\xff\xff"];

/// Pseudo-random numbers from a seed.
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn op(&mut self) -> Op {
        let kind = match self.below(15) {
            0..=1 => Kind::Insert,
            2..=3 => Kind::Update,
            4..=7 => Kind::Put,
            8..=9 => Kind::Delete,
            10 => Kind::Purge,
            11..=12 => Kind::SetValues,
            _ => {
                let from = self.below(4) as u32;
                Kind::PurgeVersions(from, from + self.below(3) as u32)
            }
        };
        let body = match self.below(5) {
            0 => Vec::new(),
            1 => crate::common::noise(self.below(5000) as usize, self.next() as u32),
            way => {
                let mut body = crate::common::noise(3000, way as u32);
                let place = self.below(3000) as usize;
                body[place] ^= if self.one_in(3) { 0 } else { self.next() as u8 };
                body
            }
        };
        let mut values = Values::new();
        if kind.has_values() {
            for _ in 0..self.below(3) {
                // Of a unique index seldom, because few keys can have one.
                let index = usize::from(self.one_in(4));
                values.insert((index, KEYS[self.below(KEYS.len() as u64) as usize].to_vec()));
            }
        }
        Op {
            space: self.below(2) as usize,
            key: KEYS[self.below(KEYS.len() as u64) as usize].to_vec(),
            kind,
            body,
            time: self.one_in(2).then(|| 1 + self.below(100)),
            expires: if self.one_in(8) { 1 + self.below(200) } else { 0 },
            values,
        }
    }

    fn retention(&mut self) -> Retention {
        let mut one_in_two = |value| self.one_in(2).then_some(value);
        Retention::default()
            .with_versions(one_in_two(2))
            .with_within(one_in_two(30).map(|kept| Duration::from_millis(kept.into())))
            .with_lifetime(one_in_two(60).map(|kept| Duration::from_millis(kept.into())))
    }
}

/// A message on its way.
struct Message {
    from: usize,
    to: usize,
    is_request: bool,
    bytes: Vec<u8>,
}

/// What the histories had in them.
#[derive(Debug, Default)]
struct Seen(BTreeMap<&'static str, u64>);

impl Seen {
    fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }
}

/// All of what they must have in them.
const WANTED: [&str; 13] = [
    "the primary is killed during a copy",
    "the primary is killed during following",
    "the primary loses power during a copy",
    "the primary loses power during following",
    "a replica is killed during its copy",
    "a replica is killed during following",
    "a replica loses power during its copy",
    "a replica loses power during following",
    "a copy continues after the replica ended",
    "a copy continues after the primary ended",
    "a copy begins again",
    "a copy is complete",
    "a replica takes over",
];

struct World {
    random: Seeded,
    nodes: Vec<Node>,
    primary: usize,
    receivers: Vec<Option<Receiver>>,
    /// Senders, by the node that answers and the node that asks.
    senders: BTreeMap<(usize, usize), Sender>,
    under_way: Vec<Message>,
    /// The contents of the primary at each position of its log.
    models: BTreeMap<u64, Model>,
    /// From which position on a batch is certainly there, by the place of its model. Before it, only pieces of its
    /// bodies may be.
    there_from: BTreeMap<u64, u64>,
    compacts: bool,
    /// Whether the log is truncated often, so that replicas copy the whole store.
    copies: bool,
    message_bytes: usize,
    /// Copies that are under way, by replica, each with the last store that ended since its last
    /// part.
    copying: BTreeMap<usize, Option<usize>>,
    seen: Seen,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Seeded(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let options = Options::default()
            .with_cache_bytes(1 << 20)
            .with_frame_cache_bytes(10_000)
            .with_retention_interval(None)
            .with_whole_bytes_max(if random.one_in(3) { 500 } else { 4 << 20 })
            .with_durability(if random.one_in(4) {
                Durability::Sync
            } else {
                Durability::None
            })
            .with_encoding(
                Encoding::default()
                    .with_enabled(!random.one_in(5))
                    .with_retrieval(Retrieval::Hop { distance: 2 })
                    .with_idle_after(Duration::ZERO),
            )
            .with_compacting(
                Compacting::default()
                    .with_enabled(!random.one_in(3))
                    .with_recent_bytes(0)
                    .with_idle_after(Duration::ZERO),
            );
        let primary = Node::new(options.with_oplog(true));
        let mut nodes = vec![primary];
        for _ in 0..1 + random.below(3) {
            nodes.push(Node::new(options));
        }
        let world = World {
            receivers: nodes.iter().map(|_| None).collect(),
            senders: BTreeMap::new(),
            under_way: Vec::new(),
            models: BTreeMap::from([(0, Model::default())]),
            there_from: BTreeMap::new(),
            compacts: random.one_in(4),
            copies: random.one_in(3),
            message_bytes: [1 << 20, 4000, 400][random.below(3) as usize],
            copying: BTreeMap::new(),
            seen: Seen::default(),
            primary: 0,
            nodes,
            random,
        };
        for replica in 1..world.nodes.len() {
            world.nodes[replica].store().follow().unwrap();
        }
        world
    }

    /// Drops the state that a node has in memory.
    fn forget(&mut self, node: usize) {
        self.receivers[node] = None;
        self.senders.retain(|&(from, _), _| from != node);
    }

    fn model(&self) -> Model {
        self.models.last_key_value().unwrap().1.clone()
    }

    /// Drops the models after a position, up to which the primary has everything.
    fn roll_back(&mut self, position: u64) {
        self.models.retain(|&at, _| at <= position);
        if let Some((at, model)) = self.models.last_key_value()
            && self.there_from.get(at).is_some_and(|from| position < *from)
            && !self.shows(model)
        {
            // Only pieces of its bodies are there.
            self.models.pop_last();
        }
    }

    /// Whether the primary has the latest versions of a model.
    fn shows(&self, model: &Model) -> bool {
        let store = self.nodes[self.primary].store();
        let snapshot = store.snapshot().unwrap();
        ["kept", "latest"].into_iter().enumerate().all(|(index, name)| {
            let space = store.find_namespace(name).unwrap().expect("a batch was begun");
            let everything = (Bound::Unbounded, Bound::Unbounded);
            let records = snapshot.scan(&space, everything, Direction::Forward).unwrap();
            let records = records.map(|record| record.map(|record| (record.key, record.body)).unwrap());
            records.eq(model.live(index))
        })
    }

    fn commit(&mut self) {
        let ops: Vec<Op> = (0..1 + self.random.below(4)).map(|_| self.random.op()).collect();
        let store = self.nodes[self.primary].store();
        let spaces = open_spaces(store);
        let model = self.model();
        // Nothing else may be appended to the log at the same time.
        store.finish_encoding().unwrap();
        let before = self.nodes[self.primary].position();
        let written = store.commit(batch(&spaces, &ops));
        match (model.after(&ops), written) {
            (Ok(after), Ok(written)) => {
                let model = after.numbered(&ops, &written);
                self.models.insert(before + 1, model);
                let primary = &self.nodes[self.primary];
                if ops.iter().any(|op| op.body.len() > primary.options.whole_bytes_max) {
                    self.there_from.insert(before + 1, primary.position());
                }
            }
            (Err(expected), Err(error)) => assert_eq!(crate::common::Refusal::of(&error), expected),
            (expected, found) => panic!("{:?} expected, found {found:?}", expected.map(drop)),
        }
    }

    /// Sets what a namespace keeps, or how it stores latest versions, or removes what is not kept.
    fn retain(&mut self) {
        let latest = [Latest::Automatic, Latest::Whole, Latest::Shared, Latest::Deltas][self.random.below(4) as usize];
        let space = self.random.below(2) as usize;
        let (retention, time) = (self.random.retention(), 1 + self.random.below(200));
        let sets = self.random.one_in(2);
        let store = self.nodes[self.primary].store();
        let spaces = open_spaces(store);
        let mut model = self.model();
        store.finish_encoding().unwrap();
        let before = self.nodes[self.primary].position();
        if sets {
            spaces[space].set_latest_as(latest).unwrap();
            self.models.insert(self.nodes[self.primary].position(), model.clone());
            spaces[0].set_retention(retention).unwrap();
            model.retention[0] = retention;
            self.models.insert(self.nodes[self.primary].position(), model);
            return;
        }
        store
            .expire(crate::common::at(time), &mut |_| ControlFlow::Continue(()))
            .unwrap();
        // Each namespace has a commit of its own.
        for space in 0..2 {
            let changed = model.clone();
            model.expire(space, time);
            if model != changed {
                let last = self.models.last_key_value().map_or(0, |(&at, _)| at);
                self.models.insert(before.max(last) + 1, model.clone());
            }
        }
        let last = self.models.last_key_value().map_or(0, |(&at, _)| at);
        assert!(last <= self.nodes[self.primary].position());
    }

    fn ask(&mut self, replica: usize) {
        if matches!(self.nodes[replica].role(), Role::Primary | Role::Fenced { .. }) {
            return;
        }
        let (from, to) = (replica, self.primary);
        let bytes = self.receiver(replica).ask().unwrap();
        self.under_way.push(Message {
            from,
            to,
            is_request: true,
            bytes,
        });
    }

    fn receiver(&mut self, replica: usize) -> &mut Receiver {
        let store = self.nodes[replica].store.as_ref().unwrap();
        self.receivers[replica].get_or_insert_with(|| Receiver::new(store).unwrap())
    }

    fn deliver(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let place = self.random.below(self.under_way.len() as u64) as usize;
        if self.random.one_in(10) {
            self.under_way.swap_remove(place);
            return;
        }
        let again = self.random.one_in(10);
        let message = self.under_way.swap_remove(place);
        self.arrive(&message);
        if again {
            self.under_way.push(message);
        }
    }

    fn arrive(&mut self, message: &Message) {
        if message.is_request {
            let store = self.nodes[message.to].store.as_ref().unwrap();
            let bytes = self.message_bytes;
            let sender = self
                .senders
                .entry((message.to, message.from))
                .or_insert_with(|| Sender::new(store).unwrap().with_message_bytes(bytes));
            let answer = sender.answer(&message.bytes).unwrap();
            self.under_way.push(Message {
                from: message.to,
                to: message.from,
                is_request: false,
                bytes: answer,
            });
            return;
        }
        if matches!(self.nodes[message.to].role(), Role::Primary | Role::Fenced { .. }) {
            return;
        }
        let before = self.nodes[message.to].role();
        match self.receiver(message.to).take(&message.bytes) {
            Ok(progress) => self.saw(message.to, progress),
            // A late answer, or one from a store that is no longer the primary. It must have no
            // effect.
            Err(
                Error::StalePrimary { .. } | Error::Refused(Refusal::Fenced | Refusal::OtherEpoch | Refusal::Ahead),
            ) => {
                assert_eq!(self.nodes[message.to].role(), before);
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Notes what an answer brought a replica.
    fn saw(&mut self, replica: usize, progress: Progress) {
        let before = match progress {
            Progress::Began => self.copying.insert(replica, None),
            Progress::Part => self.copying.insert(replica, None),
            Progress::Whole => self.copying.remove(&replica),
            _ => return,
        };
        match (progress, before) {
            (Progress::Began, Some(_)) => self.seen.count("a copy begins again"),
            (Progress::Part | Progress::Whole, Some(Some(ended))) if ended == replica => {
                self.seen.count("a copy continues after the replica ended");
            }
            (Progress::Part | Progress::Whole, Some(Some(_))) => {
                self.seen.count("a copy continues after the primary ended");
            }
            _ => {}
        }
        if progress == Progress::Whole {
            self.seen.count("a copy is complete");
        }
    }

    /// Promotes a replica. Entries that only the old primary has are lost, and it does not know
    /// yet.
    fn promote(&mut self) {
        let replica = self.random.below(self.nodes.len() as u64) as usize;
        let node = &self.nodes[replica];
        // A replica that has not heard of the last promotion would make another epoch of the same
        // number, which `two_promotions_…` tests.
        if node.role() != Role::Replica || node.epoch() != self.nodes[self.primary].epoch() {
            return;
        }
        let position = node.position();
        match node.store().promote() {
            Ok(()) => {}
            Err(Error::Incomplete) => return,
            Err(error) => panic!("{error}"),
        }
        let old = std::mem::replace(&mut self.primary, replica);
        // The old primary may still write before it hears of the promotion.
        if self.random.one_in(2) {
            let spaces = open_spaces(self.nodes[old].store());
            let ops: Vec<Op> = (0..3).map(|_| self.random.op()).collect();
            let _ = self.nodes[old].store().commit(batch(&spaces, &ops));
        }
        self.roll_back(position);
        self.restart(replica, End::Close); // encodes from now on
    }

    /// Puts a replica in the place of the primary, which loses nothing.
    fn take_over(&mut self) {
        let replica = self.random.below(self.nodes.len() as u64) as usize;
        let (old, new) = (&self.nodes[self.primary], &self.nodes[replica]);
        if new.role() != Role::Replica || new.epoch() != old.epoch() {
            return;
        }
        let sender = Sender::new(old.store()).unwrap();
        let never = AtomicBool::new(false);
        let mut sender = sender.with_message_bytes(self.message_bytes);
        let taken = replicate::take_over(new.store(), &mut sender, false, &never, &mut |_| {});
        let taken = taken.unwrap().expect("nothing stops it");
        assert_eq!(taken.position, old.position());
        assert_eq!(
            new.position(),
            old.position() + 1,
            "it begins its epoch right after the last entry"
        );
        let refused = match old.store().find_namespace("latest").unwrap() {
            Some(space) => space.put(b"a", b"").map(drop),
            None => old.store().namespace("latest", Versions::Latest).map(drop),
        };
        assert!(matches!(refused, Err(Error::Fenced { .. })), "{refused:?}");
        drop(sender);
        let (model, position) = (self.model(), new.position());
        self.models.insert(position, model);
        let old = std::mem::replace(&mut self.primary, replica);
        self.seen.count("a replica takes over");
        if self.random.one_in(2) {
            let by = self.nodes[replica].epoch();
            self.restart(old, End::PowerFailure);
            assert_eq!(self.nodes[old].role(), Role::Fenced { by });
        }
        self.restart(replica, End::Close); // encodes from now on
    }

    fn restart(&mut self, node: usize, end: End) {
        let is_primary = node == self.primary;
        let others_copy = || (0..self.nodes.len()).any(|other| other != node && self.nodes[other].is_copying());
        let copies = if is_primary {
            others_copy()
        } else {
            self.nodes[node].is_copying()
        };
        let follows = is_primary || self.nodes[node].role() == Role::Replica;
        match (end, is_primary, copies) {
            (End::Kill, true, true) => self.seen.count("the primary is killed during a copy"),
            (End::Kill, true, false) => self.seen.count("the primary is killed during following"),
            (End::PowerFailure, true, true) => self.seen.count("the primary loses power during a copy"),
            (End::PowerFailure, true, false) => self.seen.count("the primary loses power during following"),
            (End::Kill, false, true) => self.seen.count("a replica is killed during its copy"),
            (End::Kill, false, false) if follows => self.seen.count("a replica is killed during following"),
            (End::PowerFailure, false, true) => self.seen.count("a replica loses power during its copy"),
            (End::PowerFailure, false, false) if follows => self.seen.count("a replica loses power during following"),
            _ => {}
        }
        for (&replica, ended) in &mut self.copying {
            if is_primary || replica == node {
                *ended = Some(node);
            }
        }
        self.forget(node);
        let World { nodes, random, .. } = self;
        nodes[node].restart(end, &mut |bound| random.below(bound));
        if !nodes[node].is_copying() {
            // The loss of power undid its beginning, or its end is on the disk.
            self.copying.remove(&node);
        }
        if is_primary {
            let position = self.nodes[node].position();
            self.roll_back(position);
            // What was sent to a replica can't be lost.
            for replica in &self.nodes {
                if replica.role() == Role::Replica && replica.epoch() == self.nodes[node].epoch() {
                    assert!(replica.position() <= position, "a replica has what its primary lost");
                }
            }
        }
    }

    fn step(&mut self) {
        let node = self.random.below(self.nodes.len() as u64) as usize;
        if self.copies && self.random.one_in(12) {
            self.truncate();
        }
        match self.random.below(40) {
            0..=10 => self.commit(),
            11 => self.retain(),
            12..=19 => self.ask(node),
            20..=33 => self.deliver(),
            34 => self.nodes[self.primary].store().finish_encoding().unwrap(),
            35 => {
                let end = [End::Close, End::Kill, End::PowerFailure][self.random.below(3) as usize];
                self.restart(node, end);
            }
            36 => self.truncate(),
            37 if self.compacts && self.nodes[node].role() != (Role::Fenced { by: 0 }) => {
                // A store that was fenced or demoted meanwhile can't encode the rest.
                let _ = self.nodes[node].store().compact(&mut |_| ControlFlow::Continue(()));
            }
            38 if self.random.one_in(3) => match self.random.one_in(2) {
                true => self.promote(),
                false => self.take_over(),
            },
            39 => {
                let old = self.nodes[node].role();
                if node != self.primary && matches!(old, Role::Primary | Role::Fenced { .. }) {
                    self.nodes[node].store().follow().unwrap();
                    self.restart(node, End::Close);
                }
            }
            _ => {}
        }
    }

    fn truncate(&mut self) {
        let log = self.nodes[self.primary].store().log().unwrap().unwrap();
        let first = log.first + self.random.below(log.next - log.first + 1);
        self.nodes[self.primary].store().truncate_log(first).unwrap();
        let model = self.model();
        let position = self.nodes[self.primary].position();
        self.models.insert(position, model);
    }

    /// Ends all faults of the network, and lets all replicas catch up.
    fn settle(&mut self) {
        self.under_way.clear();
        let _ = self.nodes[self.primary].store().finish_encoding();
        for replica in 0..self.nodes.len() {
            if replica == self.primary {
                continue;
            }
            self.nodes[replica].store().follow().unwrap();
            for round in 0.. {
                assert!(round < 10_000, "it never catches up");
                let request = self.receiver(replica).ask().unwrap();
                let (primary, bytes) = (self.nodes[self.primary].store.as_ref().unwrap(), self.message_bytes);
                let sender = self
                    .senders
                    .entry((self.primary, replica))
                    .or_insert_with(|| Sender::new(primary).unwrap().with_message_bytes(bytes));
                let answer = sender.answer(&request).unwrap();
                match self.receiver(replica).take(&answer) {
                    Ok(progress) if progress.is_current() => break,
                    Ok(progress) => self.saw(replica, progress),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

fn run(seed: u64) -> Seen {
    let mut world = World::new(seed);
    let steps = 20 + world.random.below(200);
    for _ in 0..steps {
        world.step();
    }
    world.settle();
    let model = world.model();
    for node in &world.nodes {
        let spaces = ["kept", "latest"].map(|name| node.store().find_namespace(name).unwrap());
        if let [Some(kept), Some(latest)] = spaces {
            assert_same(&node.store().snapshot().unwrap(), &[kept, latest], &model);
        } else {
            assert_eq!(model, Model::default());
        }
        let found = node.store().verify(&mut |_| ControlFlow::Continue(())).unwrap();
        assert!(found.is_clean(), "{found:?}");
    }
    world.receivers.clear();
    world.senders.clear();
    world.nodes.iter_mut().for_each(|node| node.store = None);
    world.nodes.swap(0, world.primary);
    assert_same_as_first(world.nodes.iter().map(|node| tables(&node.engine(), world.compacts)));
    world.seen
}

#[test]
fn all_have_the_same_in_the_end() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().expect("a number"))
    };
    if let Some(seed) = number("IBID_REPLICATION_SEED") {
        run(seed);
        return;
    }
    let mut all = Seen::default();
    for seed in 1..=number("IBID_REPLICATION_SEEDS").unwrap_or(100) {
        let ran = std::panic::catch_unwind(|| run(seed));
        let seen = ran.unwrap_or_else(|_| panic!("IBID_REPLICATION_SEED={seed} fails"));
        for (what, count) in seen.0 {
            *all.0.entry(what).or_default() += count;
        }
    }
    let missing: Vec<_> = WANTED.iter().filter(|wanted| !all.0.contains_key(*wanted)).collect();
    assert!(missing.is_empty(), "no history had {missing:?} in it; they had {all:?}");
}
