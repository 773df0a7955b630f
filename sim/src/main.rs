//! Long seeded simulations that test the promises in `docs/durability.md`.
//!
//! ```text
//! ibid-sim crash  [--seeds N] [--seed S]     power lost and processes killed at random operations of a simulated disk
//! ibid-sim damage [--seeds N] [--seed S]     stored files changed at random: right bytes or an error
//! ibid-sim repair [--seeds N] [--seed S]     repairs of damaged repositories, crashed at random operations
//! ibid-sim losses [--seeds N] [--seed S]     packs lost, cut short and found again between backups, prunes and repairs
//! ibid-sim kill --ibid PATH [--rounds N] [--seed S] [--cache FOLDER]    the real program on a real disk, killed at
//!                                            random moments, with a cache that is damaged now and then
//! ibid-sim kill --ibid PATH --beside prunes [--rounds N] [--seed S] [--every N]    four backups, two prunes, a copy
//!                                            and two users who forget at once, killed at random moments; all is
//!                                            restored every N rounds
//! ibid-sim model  [--seeds N] [--seed S] [--without RULE|each]    a model of the protocol of docs/prune.md
//! ibid-sim prune  [--seeds N] [--seed S] [--without RULE|each] [--print calls]    backups, prunes, restores, copies
//!                                            and changed snapshots at once, killed at random calls of the storage,
//!                                            with wrong clocks and losses of power
//! ibid-sim prune  … --of writer    the same with the files of a writer, and a thief of its key
//! ibid-sim crash|damage|repair|losses|prune … --over connection     the same, with the storage behind `ibid serve`
//! ibid-sim damage|losses|prune … --over s3    the same, with what is stored in a server of S3
//! ibid-sim memory [--files N] [--mib N]      peak memory of a backup with the least budget
//! ```
//!
//! The first broken promise ends the run with a message that names the seed. With `prune` and `model` that seed does
//! the same again: it decides ids, times and the order of threads, too. With `damage`, `repair`, `losses`, and `crash`
//! with even seeds, it decides ids and the order of threads. With `kill` and `memory` the machine decides these.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a line a second is what this program is for")]

mod crash;
mod damage;
mod kill;
mod kill_beside;
mod losses;
mod memory;
mod model;
mod over;
mod prune;
mod repair;
mod report;
#[path = "../../crates/repo/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;

/// Options as `--name value` pairs.
pub(crate) struct Flags(BTreeMap<String, String>);

impl Flags {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Flags, String> {
        let mut flags = BTreeMap::new();
        let mut arguments = arguments;
        while let Some(name) = arguments.next() {
            let name = name
                .strip_prefix("--")
                .ok_or(format!("{name:?}: expected --NAME VALUE"))?
                .to_owned();
            if !NAMES.contains(&name.as_str()) {
                return Err(format!("--{name}: no such option; {USAGE}"));
            }
            let value = arguments.next().ok_or(format!("--{name}: no value"))?;
            flags.insert(name, value);
        }
        Ok(Flags(flags))
    }

    pub(crate) fn number(&self, name: &str, default: u64) -> u64 {
        let parse = |text: &String| {
            text.parse()
                .unwrap_or_else(|_| panic!("--{name} {text}: expected a number"))
        };
        self.0.get(name).map_or(default, parse)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

const NAMES: [&str; 13] = [
    "seed", "seeds", "over", "rounds", "ibid", "cache", "beside", "every", "files", "mib", "without", "print", "of",
];

const USAGE: &str = "usage: ibid-sim crash|damage|repair|losses|kill|memory|model|prune [--seed S] [--seeds N] \
                     [--over connection|s3] \
                     [--rounds N] [--ibid PATH] [--cache FOLDER] [--beside prunes] [--every N] [--files N] [--mib N] \
                     [--without RULE|each] [--print calls] [--of writer]";

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().ok_or(USAGE)?;
    let flags = Flags::parse(arguments)?;
    over::reach(&command, flags.text("over"))?;
    match command.as_str() {
        "crash" => crash::run(&flags),
        "damage" => damage::run(&flags),
        "repair" => repair::run(&flags),
        "kill" => match flags.text("beside") {
            None => kill::run(&flags),
            Some("prunes") => kill_beside::run(&flags),
            Some(_) => return Err(USAGE.to_owned()),
        },
        "losses" => losses::run(&flags)?,
        "memory" => memory::run(&flags),
        "model" => model::run(&flags),
        "prune" => prune::run(&flags)?,
        _ => return Err(USAGE.to_owned()),
    }
    Ok(())
}
