//! Repairs that are cut short: more damage and more seeds than in `crates/repo/tests/repo/repair.rs`.

use ibid_repo::simulation;

use crate::Flags;
use crate::report::Report;
use crate::support::Random;
use crate::support::damage::Scene;
use crate::support::repair::Case;

pub(crate) fn run(flags: &Flags) {
    let (seeds, first) = (flags.number("seeds", 2000), flags.number("seed", 0));
    let scene = simulation::run(u64::MAX, Scene::new);
    let mut report = Report::new();
    let (mut cut, mut done) = (0, 0);
    for seed in first..first + seeds {
        simulation::run(seed, || {
            let case = Case::new(&scene, seed);
            let mut random = Random(seed ^ 0x5EED);
            for _ in 0..4 {
                match case.cut_short(random.below(400), random.next()) {
                    true => done += 1,
                    false => cut += 1,
                }
            }
        });
        report.line(|| format!("seed {seed}: {cut} repairs cut short, {done} done before"));
    }
    println!(
        "{seeds} seeds from {first}: {cut} repairs cut short and {done} done before; \
         nothing more was lost, and the next repair completed each"
    );
}
