//! The results as Markdown: a table for each series, and the targets.

use std::fmt::Write as _;

use super::results::{Aging, Fresh, Restores, Series};
use crate::record::Goal;
use crate::report::table;
use crate::statistics::median;

/// The most that an old repository may take, beside a fresh one.
const SIZE_RATIO: f64 = 1.1;
/// The most CPU time of prunes, beside restic's.
const CPU_RATIO: f64 = 0.5;
/// Times of two runs of the same command differ by so much.
const NOISE: f64 = 1.05;

/// Returns the tables and targets of all series.
pub(crate) fn markdown(found: &Aging, out: &mut String) {
    let tools: Vec<String> = found
        .tools
        .iter()
        .map(|tool| format!("{} ({})", tool.label, tool.version))
        .collect();
    let _ = writeln!(out, "{}. Each day: backup, forget, prune.", tools.join(", "));
    for series in &found.series {
        let days = series.days.iter().map(|day| day.day).max().unwrap_or(0);
        let _ = writeln!(
            out,
            "\n### {}: {days} days, {} files, {:.1} MB on the first\n",
            series.name,
            series.files,
            series.bytes as f64 / 1e6,
        );
        let labels: Vec<&str> = found.tools.iter().map(|tool| tool.label.as_str()).collect();
        out.push_str(&results(series, &labels));
        out.push('\n');
        out.push_str(&comparisons(series));
        for goal in goals(series) {
            let mark = if goal.reached { "reached" } else { "MISSED" };
            let _ = writeln!(out, "\n- {}: {mark}", goal.text);
        }
    }
}

/// Returns a table with a column for each tool.
fn results(series: &Series, tools: &[&str]) -> String {
    let row = |name: &str, value: &dyn Fn(&str) -> Option<String>| {
        let values = tools.iter().map(|tool| value(tool).unwrap_or_else(|| "–".to_owned()));
        std::iter::once(name.to_owned()).chain(values).collect::<Vec<_>>()
    };
    let total = |of: fn(&super::results::Day) -> f64| {
        move |tool: &str| {
            let sum: f64 = series.of(tool).map(of).sum();
            Some(format!("{sum:.1}"))
        }
    };
    let last = |tool: &str| series.fresh_of(tool).next_back().cloned();
    let restore = |of: fn(&Fresh) -> &Restores| {
        move |tool: &str| {
            let (aged, fresh) = of(&last(tool)?).medians();
            Some(format!("{aged:.2}, fresh {fresh:.2}"))
        }
    };
    let size = |tool: &str| {
        let day = series.of(tool).last()?;
        Some(format!("{:.2}", day.repository_bytes as f64 / 1e6))
    };
    let lines = [
        row("", &|tool| Some(tool.to_owned())),
        row("size at the end, MB", &size),
        row("fresh repository, MB", &|tool| {
            let fresh = last(tool)?;
            Some(format!(
                "{:.2} (1 : {:.3})",
                fresh.fresh_bytes as f64 / 1e6,
                fresh.ratio()
            ))
        }),
        row("snapshots at the end", &|tool| {
            Some(last(tool)?.snapshots.len().to_string())
        }),
        row("CPU of all backups, s", &total(|day| day.backup.cpu_s)),
        row("CPU of all `forget`, s", &total(|day| day.forget.cpu_s)),
        row("CPU of all prunes, s", &total(|day| day.prune.cpu_s)),
        row("… without opening, s", &|tool| {
            Some(format!("{:.1}", series.prune_cpu(tool).1?))
        }),
        row("wall time of all prunes, s", &total(|day| day.prune.wall_s)),
        row(
            "written by all prunes, MB",
            &total(|day| day.prune_written_bytes as f64 / 1e6),
        ),
        row("restore of the newest, s", &restore(|fresh| &fresh.newest)),
        row("restore of the oldest, s", &restore(|fresh| &fresh.oldest)),
    ];
    table(&lines)
}

/// Returns a table of the comparisons of ibid with fresh repositories.
fn comparisons(series: &Series) -> String {
    let head = ["day", "snapshots", "size, MB", "fresh, MB", "ratio", "newest", "oldest"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for fresh in series.fresh_of("ibid") {
        let times = |restores: &Restores| {
            let (aged, fresh) = restores.medians();
            format!("{aged:.2} s, fresh {fresh:.2} s")
        };
        lines.push(vec![
            fresh.day.to_string(),
            fresh.snapshots.len().to_string(),
            format!("{:.2}", fresh.aged_bytes as f64 / 1e6),
            format!("{:.2}", fresh.fresh_bytes as f64 / 1e6),
            format!("{:.3}", fresh.ratio()),
            times(&fresh.newest),
            times(&fresh.oldest),
        ]);
    }
    table(&lines)
}

/// Returns the goals of ibid, as far as there are figures.
fn goals(series: &Series) -> Vec<Goal> {
    let mut goals = Vec::new();
    let worst = series.fresh_of("ibid").max_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    if let Some(worst) = worst {
        let last = series.fresh_of("ibid").next_back().map_or(0.0, Fresh::ratio);
        goals.push(Goal {
            text: format!(
                "size within {SIZE_RATIO} of a fresh repository: {last:.3} at the end, at most {:.3} (day {})",
                worst.ratio(),
                worst.day
            ),
            reached: worst.ratio() <= SIZE_RATIO,
        });
    }
    let ((ours, ours_alone), (restic, restic_alone)) = (series.prune_cpu("ibid"), series.prune_cpu("restic"));
    if ours > 0.0 && restic > 0.0 {
        let alone = match (ours_alone, restic_alone) {
            (Some(ours), Some(restic)) if restic > 0.0 => format!(", without opening {:.2}", ours / restic),
            _ => String::new(),
        };
        goals.push(Goal {
            text: format!(
                "CPU of prunes at most {CPU_RATIO} of restic's: {:.2}{alone}",
                ours / restic
            ),
            reached: ours <= CPU_RATIO * restic,
        });
    }
    for (name, of) in [
        ("newest", (|fresh| &fresh.newest) as fn(&Fresh) -> &Restores),
        ("oldest", |fresh| &fresh.oldest),
    ] {
        let ratio = |fresh: &Fresh| {
            let (aged, fresh) = of(fresh).medians();
            aged / fresh.max(f64::MIN_POSITIVE)
        };
        let ratios: Vec<f64> = series.fresh_of("ibid").map(ratio).collect();
        if let Some(median) = median(&ratios) {
            goals.push(Goal {
                text: format!(
                    "restore of the {name} no slower than from a fresh repository (within {:.0} %): {median:.2} of \
                     its time, the median of {} comparisons",
                    (NOISE - 1.0) * 100.0,
                    ratios.len()
                ),
                reached: median <= NOISE,
            });
        }
    }
    goals
}
