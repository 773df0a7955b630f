//! Random histories in which the primary and replicas are killed or lose power, while a replica
//! copies the whole store and while it follows, over a network that loses, repeats and reorders
//! messages. In the end all stores have the same contents: every acknowledged change, except those
//! lost with an unsynced commit or with a primary whose replica was promoted too early. A replica
//! that takes over loses nothing.
//!
//! `IBID_REPLICATION_SEEDS=1000` runs more seeds, `IBID_REPLICATION_SEED=7` runs one.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ibid_record::engine::Redb;
use ibid_record::replicate::{self, Oplog, Progress, Receiver, Sender};
use ibid_record::{
    Compacting, Direction, Durability, Encoding, Error, Latest, Options, Refusal, Retention, Retrieval, Role, Store,
    Versions,
};

use crate::common::disk::Disk;
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

/// How a store ends before it is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Close,
    Kill,
    PowerFailure,
}

struct Node {
    disk: Disk,
    options: Options,
    store: Option<Store>,
}

impl Node {
    fn new(options: Options) -> Self {
        let mut node = Node {
            disk: Disk::default(),
            options,
            store: None,
        };
        node.open();
        node
    }

    fn engine(&self) -> Redb {
        self.disk.engine(1 << 20)
    }

    fn open(&mut self) {
        let engine = Box::new(self.engine());
        self.store = Some(Store::with_engine(Path::new("disk"), engine, self.options).unwrap());
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn role(&self) -> Role {
        self.store().log().unwrap().unwrap().role
    }

    fn is_copying(&self) -> bool {
        matches!(self.role(), Role::Incomplete { .. })
    }

    fn position(&self) -> u64 {
        self.store().log().unwrap().unwrap().next
    }

    fn epoch(&self) -> u64 {
        self.store().log().unwrap().unwrap().epoch
    }

    /// Ends the store, and opens what that leaves on the disk.
    fn restart(&mut self, end: End, below: &mut dyn FnMut(u64) -> u64) {
        let left = match end {
            End::Close => None,
            End::Kill => Some(self.disk.after_a_kill()),
            End::PowerFailure => Some(self.disk.after_power_failure(below)),
        };
        self.store = None;
        if let Some(left) = left {
            self.disk = left;
        }
        self.open();
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
    put(&nodes[0], b"by the old one, which nobody else has");
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
