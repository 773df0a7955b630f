//! Random histories with crashes of the primary and of replicas, over a network that loses, repeats
//! and reorders messages. In the end all stores have the same contents: every acknowledged change,
//! except those lost with an unsynced commit or with a primary whose replica was promoted too
//! early.
//!
//! `IBID_REPLICATION_SEEDS=1000` runs more seeds, `IBID_REPLICATION_SEED=7` runs one.

mod common;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Kind, Model, Op, assert_same, assert_same_tables, batch, folder, open_spaces};
use ibid_record::replicate::{Progress, Receiver, Sender};
use ibid_record::{Durability, Encoding, Error, Options, Refusal, Retrieval, Role, Store, Versions};

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
        let kind = match self.below(11) {
            0..=1 => Kind::Insert,
            2..=3 => Kind::Update,
            4..=7 => Kind::Put,
            8..=9 => Kind::Delete,
            _ => Kind::Purge,
        };
        let body = match self.below(5) {
            0 => Vec::new(),
            1 => common::noise(self.below(5000) as usize, self.next() as u32),
            way => {
                let mut body = common::noise(3000, way as u32);
                let place = self.below(3000) as usize;
                body[place] ^= self.next() as u8;
                body
            }
        };
        Op {
            space: self.below(2) as usize,
            key: KEYS[self.below(KEYS.len() as u64) as usize].to_vec(),
            kind,
            body,
        }
    }
}

struct Node {
    folders: Vec<tempfile::TempDir>,
    options: Options,
    store: Option<Store>,
}

impl Node {
    fn new(options: Options) -> Self {
        let mut node = Node {
            folders: vec![folder()],
            options,
            store: None,
        };
        node.open();
        node
    }

    fn path(&self) -> PathBuf {
        self.folders.last().unwrap().path().join("store")
    }

    fn open(&mut self) {
        self.store = Some(Store::open(self.path(), self.options).unwrap());
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn role(&self) -> Role {
        self.store().log().unwrap().unwrap().role
    }

    fn position(&self) -> u64 {
        self.store().log().unwrap().unwrap().next
    }

    /// Closes and opens the store, or opens the files that a crash would leave.
    fn restart(&mut self, crash: bool) {
        if crash {
            let left = folder();
            std::fs::create_dir(left.path().join("store")).unwrap();
            // The log of commits first: the encoder works meanwhile, and redb's file never lacks what was there before.
            for file in ["redb.log", "redb"] {
                std::fs::copy(self.path().join(file), left.path().join("store").join(file)).unwrap();
            }
            self.folders.push(left);
        }
        self.store = None;
        if self.folders.len() > 1 {
            self.folders.remove(0);
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
    compacts: bool,
    message_bytes: usize,
    takeovers: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Seeded(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let options = Options::default()
            .with_cache_bytes(1 << 20)
            .with_frame_cache_bytes(10_000)
            .with_durability(Durability::None)
            .with_encoding(
                Encoding::default()
                    .with_enabled(!random.one_in(5))
                    .with_retrieval(Retrieval::Hop { distance: 2 })
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
            compacts: random.one_in(4),
            message_bytes: if random.one_in(2) { 1 << 20 } else { 4000 },
            takeovers: 0,
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

    /// Drops the models after a position.
    fn roll_back(&mut self, position: u64) {
        self.models.retain(|&at, _| at <= position);
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
            }
            (Err(expected), Err(error)) => assert_eq!(common::Refusal::of(&error), expected),
            (expected, found) => panic!("{:?} expected, found {found:?}", expected.map(drop)),
        }
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
            Ok(Progress::Whole) => self.takeovers += 1,
            Ok(_) => {}
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

    /// Promotes a replica. Entries that only the old primary has are lost, and it does not know
    /// yet.
    fn promote(&mut self) {
        let replica = self.random.below(self.nodes.len() as u64) as usize;
        let node = &self.nodes[replica];
        // A replica that has not heard of the last promotion would make another epoch of the same
        // number, which `two_promotions_…` tests.
        let epoch = |node: &Node| node.store().log().unwrap().unwrap().epoch;
        if node.role() != Role::Replica || epoch(node) != epoch(&self.nodes[self.primary]) {
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
        self.restart(replica, false); // encodes from now on
    }

    fn restart(&mut self, node: usize, crash: bool) {
        if crash {
            let _ = self.nodes[node].store().finish_encoding();
        }
        self.forget(node);
        self.nodes[node].restart(crash);
        if node == self.primary {
            let position = self.nodes[node].position();
            self.roll_back(position);
        }
    }

    fn step(&mut self) {
        let node = self.random.below(self.nodes.len() as u64) as usize;
        match self.random.below(40) {
            0..=11 => self.commit(),
            12..=19 => self.ask(node),
            20..=33 => self.deliver(),
            34 => self.nodes[self.primary].store().finish_encoding().unwrap(),
            35 => {
                let crash = self.random.one_in(2);
                self.restart(node, crash);
            }
            36 => {
                let log = self.nodes[self.primary].store().log().unwrap().unwrap();
                let first = log.first + self.random.below(log.next - log.first + 1);
                self.nodes[self.primary].store().truncate_log(first).unwrap();
                let model = self.model();
                let position = self.nodes[self.primary].position();
                self.models.insert(position, model);
            }
            37 if self.compacts && self.nodes[node].role() != (Role::Fenced { by: 0 }) => {
                // A store that was fenced or demoted meanwhile can't encode the rest.
                let _ = self.nodes[node].store().compact(&mut |_| ControlFlow::Continue(()));
            }
            38 if self.random.one_in(3) => self.promote(),
            39 => {
                let old = self.nodes[node].role();
                if node != self.primary && matches!(old, Role::Primary | Role::Fenced { .. }) {
                    self.nodes[node].store().follow().unwrap();
                    self.restart(node, false);
                }
            }
            _ => {}
        }
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
                    Ok(Progress::Whole) => self.takeovers += 1,
                    Ok(_) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

fn run(seed: u64) -> usize {
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
    let paths: Vec<PathBuf> = world.nodes.iter().map(Node::path).collect();
    let (compacts, primary, takeovers) = (world.compacts, world.primary, world.takeovers);
    world.receivers.clear();
    world.senders.clear();
    world.nodes.iter_mut().for_each(|node| node.store = None);
    let mut paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    paths.swap(0, primary);
    assert_same_tables(&paths, compacts);
    takeovers
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
    let mut takeovers = 0;
    for seed in 1..=number("IBID_REPLICATION_SEEDS").unwrap_or(100) {
        let ran = std::panic::catch_unwind(|| run(seed));
        takeovers += ran.unwrap_or_else(|_| panic!("IBID_REPLICATION_SEED={seed} fails"));
    }
    assert!(takeovers > 0, "none was so far behind that it took all");
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
    late.restart(true);
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
    primary.restart(false);
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
