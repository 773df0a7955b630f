//! Primary, replica and NATS servers are killed at random moments, in the copy of a whole store and in
//! following. No copy is ever damaged, and in the end the replica has what the primary has.
//!
//! `IBID_REPLICA_KILLS=100` kills more often, `IBID_REPLICA_SEED=7` at other moments. What is killed
//! follows from the seed; how far it has come is up to the machine.

use std::time::Duration;

use crate::nats_servers::Servers;
use crate::ports::free_port;
use crate::replicas::{KNOWN, Running, SERVED_OVER_TLS, Stores, write_identities};

/// The part that comes in one answer, bytes, is a fourth of that or less.
const STORE_BYTES: usize = 4_000_000;
/// Most rounds beyond those that were asked for, until each kind of kill was seen.
const MORE_ROUNDS: u64 = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Replica,
    Primary,
    Server,
}

/// How the replica reaches the primary.
enum Over {
    Tcp,
    Tls,
    Nats(Servers),
}

struct World {
    stores: Stores,
    over: Over,
    /// Where the primary is served, or published.
    address: String,
    random: u64,
    /// How often each was killed while the replica had only a part of a copy, and in following.
    kills_in_copies: [u64; 3],
    kills_in_following: [u64; 3],
}

fn number(name: &str, usually: u64) -> u64 {
    std::env::var(name).map_or(usually, |said| said.parse().expect("a number"))
}

impl World {
    fn new(over: Over) -> World {
        let stores = Stores::new();
        write_identities(&stores.home);
        stores.load("store", STORE_BYTES, 1);
        let address = match &over {
            Over::Tcp | Over::Tls => format!("127.0.0.1:{}", free_port()),
            Over::Nats(servers) => servers.address("wiki").to_string(),
        };
        World {
            stores,
            over,
            address,
            random: number("IBID_REPLICA_SEED", 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            kills_in_copies: [0; 3],
            kills_in_following: [0; 3],
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) % end
    }

    fn pause(&mut self, milliseconds_max: u64) {
        let pause = Duration::from_micros(self.below(milliseconds_max * 1000));
        std::thread::sleep(pause);
    }

    /// Starts the primary. With a short log, a replica that lacks anything copies the whole store.
    fn primary(&self, short_log: bool) -> Running {
        let (how, tls): (_, &[&str]) = match self.over {
            Over::Tcp => ("--listen", &[]),
            Over::Tls => ("--listen", &SERVED_OVER_TLS),
            Over::Nats(_) => ("--publish", &[]),
        };
        let log: &[&str] = if short_log { &["--log-entries", "1"] } else { &[] };
        let mut primary = self
            .stores
            .start("store", &[&["serve", how, &self.address], tls, log].concat());
        primary.says(if how == "--listen" {
            "listening at"
        } else {
            "published at"
        });
        primary
    }

    fn replicate<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let tls: &[&str] = if matches!(self.over, Over::Tls) { &KNOWN } else { &[] };
        [&["replicate", "--from", &self.address], tls, more].concat()
    }

    fn replica(&self) -> Running {
        self.stores.start("replica", &self.replicate(&[]))
    }

    /// Kills the server that leads the stream, or another. Returns which.
    fn kill_server(&mut self) -> usize {
        let away = self.below(2) as usize;
        let Over::Nats(servers) = &mut self.over else {
            unreachable!("it has servers")
        };
        let server = (servers.leader() + away) % 3;
        servers.kill(server);
        server
    }

    fn run_server(&mut self, server: usize) {
        if let Over::Nats(servers) = &mut self.over {
            servers.run(server);
        }
    }

    /// Checks that the replica was not damaged by a kill, whatever it has.
    fn check(&self) -> bool {
        let is_partial = self.stores.is_partial("replica");
        if !is_partial {
            self.stores.ok("replica", &["verify"]);
        }
        is_partial
    }

    /// Kills one of them in the copy of the whole store. Returns whether it was in time.
    fn kill_in_a_copy(&mut self, victim: Victim, seed: u64) {
        // More entries of the log than it keeps.
        for number in 0..3 {
            self.stores.ok("store", &["put", &format!("{seed}, {number}")]);
        }
        let primary = self.primary(true);
        let mut replica = self.replica();
        replica.says("copying the whole store");
        self.pause(40);
        match victim {
            Victim::Replica => replica.kill(),
            Victim::Primary => {
                primary.kill();
                self.pause(40);
                // To see how far it has come.
                replica.kill();
                self.count_in_a_copy(victim);
                // It continues or begins again, and is complete in the end.
                let primary = self.primary(true);
                self.stores.ok("replica", &self.replicate(&["--once"]));
                assert_eq!(primary.end(), Some(0));
                return;
            }
            Victim::Server => {
                let server = self.kill_server();
                self.pause(40);
                replica.kill();
                self.count_in_a_copy(victim);
                // Two servers are enough, once they have agreed on who leads.
                self.stores.ok("replica", &self.replicate(&["--once"]));
                self.run_server(server);
                assert_eq!(primary.end(), Some(0));
                return;
            }
        }
        self.count_in_a_copy(victim);
        if self.below(2) == 0 {
            self.stores.ok("replica", &self.replicate(&["--once"]));
        }
        assert_eq!(primary.end(), Some(0));
    }

    fn count_in_a_copy(&mut self, victim: Victim) {
        self.kills_in_copies[victim as usize] += u64::from(self.check());
    }

    /// Kills one of them while the replica follows.
    fn kill_in_following(&mut self, victim: Victim, seed: u64) {
        let primary = self.primary(false);
        self.stores.ok("replica", &self.replicate(&["--once"]));
        primary.kill();
        self.stores.load("store", 300_000, seed);
        let replica = self.replica();
        let primary = self.primary(false);
        self.pause(150);
        match victim {
            Victim::Replica => replica.kill(),
            Victim::Primary => {
                primary.kill();
                let primary = self.primary(false);
                self.pause(150);
                replica.kill();
                self.count_in_following(victim);
                assert_eq!(primary.end(), Some(0));
                return;
            }
            Victim::Server => {
                let server = self.kill_server();
                self.pause(150);
                replica.kill();
                self.run_server(server);
            }
        }
        self.count_in_following(victim);
        assert_eq!(primary.end(), Some(0));
    }

    fn count_in_following(&mut self, victim: Victim) {
        assert!(!self.check(), "a replica that follows can always be read");
        self.kills_in_following[victim as usize] += 1;
    }

    fn run(mut self, usually: u64) {
        let victims: &[Victim] = match self.over {
            Over::Nats(_) => &[Victim::Replica, Victim::Primary, Victim::Server],
            Over::Tcp | Over::Tls => &[Victim::Replica, Victim::Primary],
        };
        let rounds = number("IBID_REPLICA_KILLS", usually);
        let seen = |world: &World| victims.iter().all(|&victim| world.kills_in_copies[victim as usize] > 0);
        for round in 0..rounds + MORE_ROUNDS {
            let victim = victims[(round / 2) as usize % victims.len()];
            match (round % 2, round < rounds) {
                (0, _) => self.kill_in_a_copy(victim, round + 2),
                (_, true) => self.kill_in_following(victim, round + 2),
                _ => {}
            }
            if round + 1 >= rounds && seen(&self) {
                break;
            }
        }
        let seen = victims.iter().map(|&victim| self.kills_in_copies[victim as usize]);
        assert!(
            seen.clone().all(|kills| kills > 0),
            "too late each time: {:?}",
            seen.collect::<Vec<_>>()
        );
        let primary = self.primary(false);
        let followed = self.stores.ok("replica", &self.replicate(&["--once"]));
        assert!(followed.contains("has all that the primary had"), "{followed}");
        assert_eq!(primary.end(), Some(0));
        self.stores.assert_same("store", "replica");
    }
}

#[test]
fn over_tcp() {
    World::new(Over::Tcp).run(4);
}

#[test]
fn over_tls() {
    World::new(Over::Tls).run(4);
}

#[test]
#[ignore = "needs a server: cargo test -p ibid --test cli killed_replicas -- --ignored"]
fn over_nats() {
    World::new(Over::Nats(Servers::start(3))).run(6);
}
