//! Results from samples: one value a round, the median over rounds, ratios within a round, and
//! whether goals are reached.

use std::collections::BTreeMap;

use crate::measure::Cost;
use crate::record::{CorpusInfo, Goal, Repositories, Row, Sample, Step};
use crate::statistics::median;

/// The samples of one tool with one corpus in one round.
struct Round<'a>(Vec<&'a Sample>);

impl Round<'_> {
    fn backups(&self) -> impl Iterator<Item = &Sample> {
        self.0.iter().copied().filter(|sample| sample.step == Step::Backup)
    }

    /// Returns the median of a measure of a step.
    fn typical(&self, step: Step, what: fn(&Cost) -> f64) -> Option<f64> {
        let of_step = self.0.iter().filter(|sample| sample.step == step);
        median(&of_step.map(|sample| what(&sample.cost)).collect::<Vec<_>>())
    }

    fn wall(&self, step: Step) -> Option<f64> {
        self.typical(step, |cost| cost.wall_s)
    }

    fn cpu(&self, step: Step) -> Option<f64> {
        self.typical(step, |cost| cost.cpu_s)
    }

    fn peak(&self, steps: &[Step]) -> Option<f64> {
        let of_these = self.0.iter().filter(|sample| steps.contains(&sample.step));
        Some(of_these.map(|sample| sample.cost.rss_bytes).max()? as f64 / MIB)
    }
}

const MB: f64 = 1e6;
const MIB: f64 = (1 << 20) as f64;

/// The condition of a goal.
#[derive(Clone, Copy)]
enum Aim {
    None,
    /// The value in every round is at most this.
    AtMost(f64),
    /// The median of the ratios to restic is at most this.
    RatioAtMost(f64, &'static str),
    RatioAtLeast(f64, &'static str),
}

struct Measure {
    name: &'static str,
    unit: &'static str,
    value: fn(&Round<'_>, &CorpusInfo) -> Option<f64>,
    aim: Aim,
}

/// The measure: bytes of the repository at the end.
pub(crate) const REPOSITORY_SIZE: &str = "repository after all versions";
/// The measure: CPU time of all backups.
pub(crate) const BACKUP_CPU: &str = "backup of all versions, CPU";

/// The measures in the order of the tables.
const MEASURES: &[Measure] = &[
    Measure {
        name: "repository after the first version",
        unit: "MB",
        value: |round, _| Some(round.backups().next()?.repository_bytes? as f64 / MB),
        aim: Aim::None,
    },
    Measure {
        name: REPOSITORY_SIZE,
        unit: "MB",
        value: |round, _| Some(round.backups().last()?.repository_bytes? as f64 / MB),
        aim: Aim::RatioAtMost(1.0, "≤ restic"),
    },
    Measure {
        name: "backup of all versions, wall",
        unit: "s",
        value: |round, _| Some(round.backups().map(|sample| sample.cost.wall_s).sum()),
        aim: Aim::None,
    },
    Measure {
        name: BACKUP_CPU,
        unit: "s",
        value: |round, _| Some(round.backups().map(|sample| sample.cost.cpu_s).sum()),
        aim: Aim::RatioAtMost(1.0 / 2.0, "≤ 1/2 of restic"),
    },
    Measure {
        name: "backup of all versions less opening, CPU",
        unit: "s",
        value: |round, _| {
            let opening = round.cpu(Step::Open)?;
            positive(round.backups().map(|sample| sample.cost.cpu_s - opening).sum())
        },
        aim: Aim::None,
    },
    Measure {
        name: "backup, peak memory",
        unit: "MiB",
        value: |round, _| round.peak(&[Step::Backup, Step::Rebackup]),
        aim: Aim::AtMost(512.0),
    },
    Measure {
        name: "opening the repository, wall",
        unit: "s",
        value: |round, _| round.wall(Step::Open),
        aim: Aim::None,
    },
    Measure {
        name: "opening the repository, CPU",
        unit: "s",
        value: |round, _| round.cpu(Step::Open),
        aim: Aim::None,
    },
    Measure {
        name: "forced re-backup",
        unit: "MB/s",
        value: |round, corpus| Some(corpus.last_bytes as f64 / MB / round.wall(Step::Rebackup)?),
        aim: Aim::RatioAtLeast(3.0, "≥ 3 × restic"),
    },
    Measure {
        name: "forced re-backup less opening",
        unit: "MB/s",
        value: |round, corpus| {
            let opening = round.wall(Step::Open)?;
            let reading = positive(round.wall(Step::Rebackup)? - opening)?;
            Some(corpus.last_bytes as f64 / MB / reading)
        },
        aim: Aim::None,
    },
    Measure {
        name: "forced re-backup, CPU",
        unit: "s",
        value: |round, _| round.cpu(Step::Rebackup),
        aim: Aim::None,
    },
    Measure {
        name: "restore of the last version, wall",
        unit: "s",
        value: |round, _| round.wall(Step::Restore),
        aim: Aim::RatioAtMost(0.5, "≤ 1/2 of restic"),
    },
    Measure {
        name: "restore of the last version less opening, wall",
        unit: "s",
        value: |round, _| positive(round.wall(Step::Restore)? - round.wall(Step::Open)?),
        aim: Aim::None,
    },
    Measure {
        name: "restore of the last version, CPU",
        unit: "s",
        value: |round, _| round.cpu(Step::Restore),
        aim: Aim::None,
    },
    Measure {
        name: "restore, peak memory",
        unit: "MiB",
        value: |round, _| round.peak(&[Step::Restore, Step::RestoreOver]),
        aim: Aim::AtMost(512.0),
    },
    Measure {
        name: "restore over what is there, wall",
        unit: "s",
        value: |round, _| round.wall(Step::RestoreOver),
        aim: Aim::None,
    },
];

/// restic's first version of the corpus `lnx`, MB.
const LNX_FIRST: f64 = 11.1;

fn positive(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}

/// Returns all rows of all corpora.
pub(crate) fn results(found: &Repositories) -> Vec<Row> {
    let mut rows = Vec::new();
    for corpus in &found.corpora {
        for (at, measure) in MEASURES.iter().enumerate() {
            let aim = if at == 0 && corpus.name == "lnx" {
                Aim::AtMost(LNX_FIRST)
            } else {
                measure.aim
            };
            let row = row(found, corpus, measure, aim);
            if !row.medians.is_empty() {
                rows.push(row);
            }
        }
    }
    rows
}

fn row(found: &Repositories, corpus: &CorpusInfo, measure: &Measure, aim: Aim) -> Row {
    let value = |tool: &str, number: u32| {
        let of_round = |sample: &&Sample| sample.round == number && sample.corpus == corpus.name && sample.tool == tool;
        let round: Vec<_> = found.samples.iter().filter(of_round).collect();
        if round.is_empty() {
            return None;
        }
        (measure.value)(&Round(round), corpus)
    };
    let rounds = 1..=found.rounds;
    let mut values = BTreeMap::new();
    let mut medians = BTreeMap::new();
    for tool in &found.tools {
        let of_tool: Vec<f64> = rounds.clone().filter_map(|number| value(&tool.label, number)).collect();
        if let Some(median) = median(&of_tool) {
            values.insert(tool.label.clone(), of_tool);
            medians.insert(tool.label.clone(), median);
        }
    }
    let ratio_in = |number| Some(value("ibid", number)? / value("restic", number)?);
    let ratios: Vec<f64> = rounds.filter_map(ratio_in).collect();
    let ratio = median(&ratios);
    Row {
        corpus: corpus.name.clone(),
        measure: measure.name.to_owned(),
        unit: measure.unit.to_owned(),
        goal: goal(aim, values.get("ibid"), ratio),
        values,
        medians,
        ratios,
        ratio,
    }
}

fn goal(aim: Aim, ibid: Option<&Vec<f64>>, ratio: Option<f64>) -> Option<Goal> {
    let (text, reached) = match aim {
        Aim::None => return None,
        Aim::AtMost(most) => (format!("≤ {most}"), ibid?.iter().all(|&value| value <= most)),
        Aim::RatioAtMost(most, text) => (text.to_owned(), ratio? <= most),
        Aim::RatioAtLeast(least, text) => (text.to_owned(), ratio? >= least),
    };
    Some(Goal { text, reached })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::ToolInfo;

    fn sample(round: u32, tool: &str, step: Step, seconds: f64, repository_bytes: Option<u64>) -> Sample {
        Sample {
            round,
            corpus: "lnx".into(),
            tool: tool.into(),
            step,
            version: "v01.tar".into(),
            cost: Cost {
                wall_s: seconds,
                cpu_s: seconds * 2.0,
                rss_bytes: 100 << 20,
            },
            repository_bytes,
        }
    }

    /// Returns two rounds of two tools: restic takes 4 times as long, and 6 times in the second
    /// round.
    pub(crate) fn example() -> Repositories {
        let mut samples = Vec::new();
        for (round, factor) in [(1, 4.0), (2, 6.0)] {
            for (tool, times) in [("ibid", 1.0), ("restic", factor)] {
                samples.push(sample(round, tool, Step::Backup, times, Some(11_000_000)));
                samples.push(sample(
                    round,
                    tool,
                    Step::Backup,
                    times,
                    Some(12_000_000 + u64::from(round)),
                ));
                samples.push(sample(round, tool, Step::Open, times / 4.0, None));
                samples.push(sample(round, tool, Step::Rebackup, times / 2.0, Some(12_100_000)));
                samples.push(sample(
                    round,
                    tool,
                    Step::Restore,
                    if tool == "ibid" { 3.0 } else { times },
                    None,
                ));
            }
        }
        let info = |label: &str| ToolInfo {
            label: label.into(),
            version: format!("{label} 1.0"),
        };
        let mut found = Repositories {
            rounds: 2,
            tools: vec![info("ibid"), info("restic")],
            corpora: vec![CorpusInfo {
                name: "lnx".into(),
                versions: 2,
                bytes: 190_000_000,
                first_bytes: 90_000_000,
                last_bytes: 100_000_000,
            }],
            commands: vec!["ibid backup $WORK/current".into()],
            samples,
            results: Vec::new(),
        };
        found.results = results(&found);
        found
    }

    fn find<'a>(found: &'a Repositories, measure: &str) -> &'a Row {
        found.results.iter().find(|row| row.measure == measure).unwrap()
    }

    #[test]
    fn values_are_of_a_round_and_medians_of_rounds() {
        let found = example();
        let cpu = find(&found, "backup of all versions, CPU");
        assert_eq!(cpu.values["restic"], [16.0, 24.0]);
        assert_eq!((cpu.medians["ibid"], cpu.medians["restic"]), (4.0, 20.0));
        assert_eq!(cpu.ratios, [0.25, 4.0 / 24.0]);
        assert_eq!(cpu.ratio, median(&[0.25, 4.0 / 24.0]));
        assert_eq!(
            find(&found, "backup of all versions less opening, CPU").medians["ibid"],
            3.0
        );
        let speed = find(&found, "forced re-backup");
        assert_eq!((speed.medians["ibid"], speed.ratio), (200.0, Some(5.0)));
        assert_eq!(find(&found, "forced re-backup less opening").medians["ibid"], 400.0);
    }

    #[test]
    fn goals_are_reached_or_missed() {
        let found = example();
        let reached = |measure| find(&found, measure).goal.as_ref().map(|goal| goal.reached);
        assert_eq!(reached("repository after the first version"), Some(true));
        assert_eq!(reached("repository after all versions"), Some(true), "equal is enough");
        assert_eq!(reached("backup of all versions, CPU"), Some(true));
        assert_eq!(reached("forced re-backup"), Some(true));
        assert_eq!(
            reached("restore of the last version, wall"),
            Some(false),
            "(3/4 + 3/6) / 2"
        );
        assert_eq!(reached("backup, peak memory"), Some(true));
        assert_eq!(reached("opening the repository, wall"), None);
    }

    #[test]
    fn a_goal_that_compares_needs_a_rival() {
        let mut found = example();
        found.tools.pop();
        found.samples.retain(|sample| sample.tool == "ibid");
        let rows = results(&found);
        let goals: Vec<_> = rows
            .iter()
            .filter(|row| row.goal.is_some())
            .map(|row| row.measure.as_str())
            .collect();
        assert_eq!(
            goals,
            [
                "repository after the first version",
                "backup, peak memory",
                "restore, peak memory"
            ]
        );
        assert!(rows.iter().all(|row| row.ratio.is_none()));
    }
}
