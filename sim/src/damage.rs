//! Random damage: more than in `crates/repo/tests/repo/damage.rs`, and several kinds at once.

use ibid_repo::simulation;

use crate::Flags;
use crate::report::Report;
use crate::support::Random;
use crate::support::damage::{Scene, kind};

pub(crate) fn run(flags: &Flags) {
    let (seeds, first) = (flags.number("seeds", 2000), flags.number("seed", 0));
    let scene = simulation::run(u64::MAX, Scene::new);
    let names: Vec<_> = scene.image.keys().cloned().collect();
    let mut report = Report::new();
    let (mut single, mut several, mut affected, mut unopened) = (0, 0, 0, 0);
    for seed in first..first + seeds {
        let mut random = Random(seed);
        let mut image = scene.image.clone();
        let mut what = Vec::new();
        let count = if random.below(2) == 0 { 1 } else { 1 + random.below(4) };
        let mut hit = None;
        for _ in 0..count {
            let name = &names[random.below(names.len() as u64) as usize];
            let Some(bytes) = image.get_mut(name).filter(|bytes| !bytes.is_empty()) else {
                continue;
            };
            let length = bytes.len() as u64;
            let at = random.below(length) as usize;
            match random.below(5) {
                0 => {
                    bytes.truncate(at);
                    what.push(format!("{name} cut off at {at}"));
                }
                1 => {
                    let end = (at + 1 + random.below(5000) as usize).min(bytes.len());
                    bytes[at..end].fill(0);
                    what.push(format!("{name} zeroed from {at} to {end}"));
                }
                2 if matches!(kind(name), "packs" | "index") => {
                    image.remove(name);
                    what.push(format!("{name} removed"));
                }
                _ => {
                    let bit = random.below(8);
                    bytes[at] ^= 1 << bit;
                    what.push(format!("bit {bit} of byte {at} of {name} flipped"));
                }
            }
            hit = Some(name);
        }
        let context = format!("seed {seed}: {}", what.join(", "));
        // Zeros written over zeros are no damage, and a missing index file is no fault.
        let gone_index = |name| kind(name) == "index" && !image.contains_key(name);
        let hit = hit.filter(|name| count == 1 && !gone_index(name) && image.get(*name) != scene.image.get(*name));
        simulation::run(seed, || match hit {
            Some(name) => {
                single += 1;
                scene.must_notice(&image, name, &context);
            }
            None => {
                several += 1;
                match scene.judge(&image, &context) {
                    Ok(found) => affected += found.affected_total,
                    Err(_) => unopened += 1,
                }
            }
        });
        report.line(|| format!("seed {seed}: {single} single damages, {several} of several"));
    }
    println!(
        "{seeds} seeds from {first}: {single} single damages, all noticed; \
         {several} of several at once, {affected} files affected, \
         {unopened} not opened: no wrong byte, and the check named what restores lost"
    );
}
