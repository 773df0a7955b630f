//! The charts about deltas between records.

use ibid_record::Retrieval;

use super::super::bars::{Bar, Group, bars};
use super::super::charts::WIDTH;
use super::super::lines::{Across, Line, lines};
use super::super::{Series, figure, heading, legend, percent, size, times};
use super::{
    is_usual, looks, micros, of, percentiles, ratio, retrieval_name, rival_name, run_name, speed, store_name,
    trace_name, write_back_name,
};
use crate::{Latencies, Records, RecordsFigure, RecordsRun};

/// Most labels of a logarithmic axis.
const TICKS_MOST: usize = 8;

/// Draws all charts that have data.
pub(super) fn draw(body: &mut String, found: &Records) {
    let figures = [savings, sizes, speeds, caches, bursts, distances, intervals];
    figures.into_iter().for_each(|figure| figure(body, found));
}

/// Adds a heading, and buttons that hide series.
fn legend_below(body: &mut String, what: &str, all: &[Series]) {
    *body += "<div class=group>";
    legend(body, what, all);
    *body += "</div>";
}

fn bar(series: &Series, value: f64, tip: String) -> Bar<'_> {
    Bar { series, value, tip }
}

/// Figures 1 and 9.
fn savings(body: &mut String, found: &Records) {
    heading(
        body,
        "What is saved, and what the index takes",
        "How many times less is stored, by itself and compressed in blocks. Deltas are of records that share features \
         of so many bytes, one in as many bytes. Chunks: deduplication as of \
         files, by chunks of that size on average, whose SHA-1 are all in memory. Blocks alone: 32\u{a0}KiB each, \
          compressed by zstd. Whole: this store without deltas, where records that are alike come \
         to lie in one block.",
    );
    let looks = looks(["by itself", "in blocks", "index"]);
    legend_below(body, "Figures shown", &looks);
    let [alone, in_blocks, index] = &looks;
    let stored = of(found, RecordsFigure::Ratio).map(|run| {
        let blocks = run.block_bytes.unwrap_or(run.stored_bytes);
        (run_name(&run.encoding), run.stored_bytes, blocks, run.index_bytes)
    });
    let rivals = found.rivals.iter();
    let rivals = rivals.map(|run| {
        (
            rival_name(run.rival),
            run.stored_bytes,
            run.block_bytes,
            run.index_bytes,
        )
    });
    let all: Vec<_> = stored.chain(rivals).collect();
    let mut ratios = Vec::new();
    let mut memory = Vec::new();
    for (name, stored, blocks, bytes) in all {
        let tip = format!(
            "{name}\nby itself {:.2} times less: {}\nin blocks {:.2} times less: {}\nindex of {}",
            ratio(found, stored),
            size(stored as f64),
            ratio(found, blocks),
            size(blocks as f64),
            size(bytes as f64)
        );
        ratios.push(Group {
            label: name.clone(),
            bars: vec![
                bar(alone, ratio(found, stored), tip.clone()),
                bar(in_blocks, ratio(found, blocks), tip.clone()),
            ],
        });
        memory.push(Group {
            label: name,
            bars: vec![bar(index, bytes as f64 / f64::from(1 << 20), tip)],
        });
    }
    let picture = bars(
        2.0 * WIDTH,
        "ratio",
        "How many times less is stored, by itself and in blocks",
        "stored how",
        &ratios,
        times,
    );
    figure(body, "wide", "Ratio", "", &picture);
    let picture = bars(
        2.0 * WIDTH,
        "index",
        "Memory of the index",
        "stored how",
        &memory,
        |mib| size(mib * f64::from(1 << 20)),
    );
    figure(body, "wide", "Memory of the index", "", &picture);
}

/// Returns powers of two from `least` to `most`, as many as have room.
fn powers(least: f64, most: f64) -> Vec<f64> {
    let (first, last) = (least.log2().ceil() as i32, most.log2().floor() as i32);
    let step = ((last - first).max(0) as usize / TICKS_MOST + 1).max(1);
    (first..=last).step_by(step).map(|power| 2f64.powi(power)).collect()
}

/// Figure 6.
fn sizes(body: &mut String, found: &Records) {
    let (Some(first), Some(last)) = (found.sizes.first(), found.sizes.last()) else {
        return;
    };
    heading(
        body,
        "Which records save",
        "The share of the records that are no larger, and the share of the saving that comes from these. Where the \
         second line lies far below the first, small records could be passed over at little loss.",
    );
    let looks = looks(["records", "saving"]);
    legend_below(body, "Shares shown", &looks);
    let domain = (first.from.max(1) as f64, (last.to + 1).max(2) as f64);
    let shares = found.size_shares();
    let line = |series, share: fn(&crate::SizeShare) -> f64, tip: &str| Line {
        series,
        points: std::iter::once((domain.0, 0.0))
            .chain(shares.iter().map(|at| (at.to.max(1) as f64, share(at))))
            .collect(),
        tips: Vec::new(),
        tip: tip.to_owned(),
    };
    let [records, saving] = &looks;
    let all = [
        line(records, |at| at.records, "share of the records that are no larger"),
        line(saving, |at| at.saved, "share of the saving that comes from these"),
    ];
    let across = Across {
        is_wide: false,
        title: "size of a record, logarithmic",
        domain,
        is_logarithmic: true,
        ticks: powers(domain.0, domain.1)
            .into_iter()
            .map(|bytes| (bytes, size(bytes)))
            .collect(),
    };
    let description = "Sizes of records across, upwards the share of records and of the saving up to that size";
    let picture = lines("sizes", description, &across, 1.0, percent, &all);
    figure(body, "panel", "Sizes, and shares of the saving", "", &picture);
}

/// Formats a rate, in thousands a second if it is large.
fn per_second(value: f64) -> String {
    match value {
        0.0..9_950.0 => format!("{value:.0}"),
        _ => format!("{:.0}k", value / 1000.0),
    }
}

/// Figures 10a and 10b.
fn speeds(body: &mut String, found: &Records) {
    if found.traces.is_empty() {
        return;
    }
    heading(
        body,
        "What deltas cost who reads and writes",
        "Half of the records are stored; then latest versions are read and the others written, one after the other, \
         without deltas and with.",
    );
    let looks = looks(["whole", "deltas"]);
    legend_below(body, "Stores shown", &looks);
    let series = |deltas: bool| &looks[usize::from(deltas)];
    let mut groups: Vec<Group<'_>> = Vec::new();
    for run in &found.traces {
        let label = trace_name(run.trace);
        let tip = format!(
            "{label}, {}\n{:.0} a second",
            store_name(run.deltas),
            run.operations_per_s
        );
        let next = bar(series(run.deltas), run.operations_per_s, tip);
        match groups.last_mut() {
            Some(group) if group.label == label => group.bars.push(next),
            _ => groups.push(Group {
                label,
                bars: vec![next],
            }),
        }
    }
    let picture = bars(
        WIDTH,
        "operations",
        "Reads and writes a second",
        "mixture",
        &groups,
        per_second,
    );
    figure(body, "panel", "Reads and writes a second", "", &picture);
    for (number, runs) in found.by_trace().enumerate() {
        for (what, latencies) in [
            ("reads", (|run| &run.reads) as fn(&crate::TraceRun) -> &Latencies),
            ("writes", |run| &run.writes),
        ] {
            let drawn: Vec<_> = runs.iter().filter(|run| latencies(run).count() > 0).collect();
            if drawn.is_empty() {
                continue;
            }
            let lines: Vec<Line<'_>> = drawn
                .iter()
                .map(|run| Line {
                    series: series(run.deltas),
                    points: latencies(run)
                        .curve()
                        .map(|(percent, us)| (us, percent / 100.0))
                        .collect(),
                    tips: Vec::new(),
                    tip: format!("{what}, {}\n{}", store_name(run.deltas), percentiles(latencies(run))),
                })
                .collect();
            let title = format!("How long {what} take: {}", trace_name(runs[0].trace));
            let picture = curve(&format!("{what}-{number}"), &title, &lines);
            figure(body, "panel", &title, "", &picture);
        }
    }
}

/// Draws distributions of latencies.
fn curve(id: &str, description: &str, all: &[Line<'_>]) -> String {
    let times = || {
        all.iter()
            .flat_map(|line| line.points.iter().map(|(us, _)| us.max(0.01)))
    };
    let least = times().fold(f64::MAX, f64::min);
    let most = times().fold(least * 2.0, f64::max);
    let decades = (least.log10().floor() as i32)..=(most.log10().ceil() as i32);
    let digits: &[f64] = if most / least > 2000.0 { &[1.0] } else { &[1.0, 3.0] };
    let ticks = decades.flat_map(|decade| digits.iter().map(move |digit| digit * 10f64.powi(decade)));
    let ticks = ticks.filter(|us| (least..=most).contains(us));
    let across = Across {
        is_wide: false,
        title: "logarithmic; up: share that took no longer",
        domain: (least, most),
        is_logarithmic: true,
        ticks: ticks.map(|us| (us, micros(us))).collect(),
    };
    lines(id, description, &across, 1.0, percent, all)
}

/// Figure 11a.
fn caches(body: &mut String, found: &Records) {
    heading(
        body,
        "Memory for the newest records, and the reward for those in it",
        "An older record in memory is compared rather than one that is not, even if it shares so many features less \
         with the new one. How many times less is stored, and how many of those \
         that were looked for had to be read from the store.",
    );
    let looks = looks(["reward 0", "reward 2", "reward 4", "reward 8"]);
    legend_below(body, "Rewards shown", &looks);
    let draw = |id: &str, title: &str, value: &dyn Fn(&RecordsRun) -> f64, label: fn(f64) -> String| {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for run in of(found, RecordsFigure::SourceCache) {
            let memory = run.encoding.source_cache_bytes;
            let group = if memory == 0 {
                "none".to_owned()
            } else {
                size(memory as f64)
            };
            let reward = format!("reward {}", run.encoding.reward);
            let Some(series) = looks.iter().find(|series| series.name == reward) else {
                continue;
            };
            let tip = format!(
                "{group} of memory, {reward}\n{:.2} times less\n{} read from the store",
                ratio(found, run.stored_bytes),
                percent(run.miss_share())
            );
            let next = bar(series, value(run), tip);
            match groups.last_mut() {
                Some(last) if last.label == group => last.bars.push(next),
                _ => groups.push(Group {
                    label: group,
                    bars: vec![next],
                }),
            }
        }
        bars(WIDTH, id, title, "memory for the newest records", &groups, label)
    };
    let title = "How many times less is stored, by memory and reward";
    let picture = draw("cache-ratio", title, &|run| ratio(found, run.stored_bytes), times);
    figure(body, "panel", "Ratio", "", &picture);
    let title = "Share of older records that were read from the store, by memory and reward";
    let picture = draw("cache-misses", title, &RecordsRun::miss_share, percent);
    figure(body, "panel", "Read from the store", "", &picture);
}

/// Figure 11b.
fn bursts(body: &mut String, found: &Records) {
    let Some(first) = found.bursts.first() else { return };
    heading(
        body,
        "Bursts of writes",
        "Records stored a second, as fast as that goes for some time, with nothing to do between. With the write-back \
         cache deltas are written in the pauses, as far as they have room until then; without it, each at once.",
    );
    let looks = looks([write_back_name(true), write_back_name(false)]);
    legend_below(body, "Caches shown", &looks);
    let all: Vec<Line<'_>> = found
        .bursts
        .iter()
        .map(|run| {
            let slice = run.slice_seconds;
            Line {
                series: &looks[usize::from(!run.write_back)],
                points: (0..).map(|n| (f64::from(n) + 0.5) * slice).zip(run.speeds()).collect(),
                tips: Vec::new(),
                tip: format!(
                    "{}\n{} records in all\n{:.2} times less is stored after the last pause\n{} deltas dropped",
                    write_back_name(run.write_back),
                    run.slices.iter().sum::<u64>(),
                    run.bytes as f64 / run.stored_bytes.max(1) as f64,
                    run.dropped
                ),
            }
        })
        .collect();
    let end = (first.slices.len() as f64 * first.slice_seconds).max(1e-3);
    let step = super::super::plot::nice_step(end / 8.0);
    let seconds = (0..).map(|n| f64::from(n) * step).take_while(|seconds| *seconds <= end);
    let digits = if step < 0.95 { 1 } else { 0 };
    let across = Across {
        is_wide: true,
        title: "seconds",
        domain: (0.0, end),
        is_logarithmic: false,
        ticks: seconds
            .map(|seconds| (seconds, format!("{seconds:.digits$}")))
            .collect(),
    };
    let most = found.bursts.iter().flat_map(|run| run.speeds()).fold(1.0, f64::max);
    let description = "Records stored a second over time, with the write-back cache and without";
    let picture = lines("bursts", description, &across, most, per_second, &all);
    figure(body, "wide", "Records a second", "", &picture);
}

/// Figure 12a.
fn distances(body: &mut String, found: &Records) {
    heading(
        body,
        "How many others are read for one record",
        "Hops shorten the way along a chain of deltas by deltas of records far apart; version jumping leaves every so \
         many records whole. Chain: neither.",
    );
    let looks = looks(["hops", "version jumping", "one chain"]);
    legend_below(body, "Ways shown", &looks);
    let distance = |retrieval| match retrieval {
        Retrieval::Chain => None,
        Retrieval::Hop { distance } | Retrieval::VersionJumping { distance } => Some(f64::from(distance)),
    };
    let runs: Vec<&RecordsRun> = of(found, RecordsFigure::Retrieval).collect();
    let distances = || runs.iter().filter_map(|run| distance(run.encoding.retrieval));
    let domain = (distances().fold(f64::MAX, f64::min), distances().fold(2.0, f64::max));
    let draw = |id: &str, title: &str, value: &dyn Fn(&RecordsRun) -> f64, label: &dyn Fn(f64) -> String| {
        let all: Vec<Line<'_>> = looks
            .iter()
            .map(|series| {
                let mine = runs
                    .iter()
                    .filter(|run| retrieval_name(run.encoding.retrieval) == series.name);
                let (mut points, mut tips) = (Vec::new(), Vec::new());
                for run in mine {
                    let tip = format!(
                        "{}\n{:.2} times less\nothers read for a record: {:.1} on average, {} at most",
                        series.name,
                        ratio(found, run.stored_bytes),
                        run.retrievals_mean,
                        run.retrievals_max
                    );
                    match distance(run.encoding.retrieval) {
                        Some(distance) => {
                            points.push((distance, value(run)));
                            tips.push(format!("{tip}\ndistance {distance}"));
                        }
                        // A chain has no distance: it is drawn as a level.
                        None => {
                            points.extend([domain.0, domain.1].map(|end| (end, value(run))));
                            tips.extend([tip.clone(), tip]);
                        }
                    }
                }
                Line {
                    series,
                    points,
                    tips,
                    tip: series.name.clone(),
                }
            })
            .collect();
        let across = Across {
            is_wide: false,
            title: "distance of hops, or records from one that is whole to the next; logarithmic",
            domain,
            is_logarithmic: true,
            ticks: powers(domain.0, domain.1)
                .into_iter()
                .map(|distance| (distance, distance.to_string()))
                .collect(),
        };
        let most = runs.iter().map(|run| value(run)).fold(1.0, f64::max);
        lines(id, title, &across, most, label, &all)
    };
    let title = "How many times less is stored, by distance";
    let picture = draw("distance-ratio", title, &|run| ratio(found, run.stored_bytes), &times);
    figure(body, "panel", "Ratio", "", &picture);
    let title = "Most others that are read for one record, by distance";
    let picture = draw("distance-most", title, &|run| run.retrievals_max as f64, &|most| {
        format!("{most:.0}")
    });
    figure(body, "panel", "Most others read", "", &picture);
}

/// Figure 12b.
fn intervals(body: &mut String, found: &Records) {
    heading(
        body,
        "How densely records are searched for copies",
        "One position in so many is looked up. Speed: of storing and encoding all, MB of bodies a second.",
    );
    let [series] = looks(["interval"]);
    let draw = |id: &str, title: &str, value: &dyn Fn(&RecordsRun) -> f64, label: fn(f64) -> String| {
        let groups: Vec<Group<'_>> = of(found, RecordsFigure::Interval)
            .map(|run| {
                let interval = run.encoding.interval.positions();
                let usual = if is_usual(&run.encoding) { ", the default" } else { "" };
                let tip = format!(
                    "one position in {interval}{usual}\n{:.2} times less\n{:.0} MB/s",
                    ratio(found, run.stored_bytes),
                    speed(found, run)
                );
                Group {
                    label: interval.to_string(),
                    bars: vec![bar(&series, value(run), tip)],
                }
            })
            .collect();
        bars(WIDTH, id, title, "one position in", &groups, label)
    };
    let title = "How many times less is stored, by interval";
    let picture = draw("interval-ratio", title, &|run| ratio(found, run.stored_bytes), times);
    figure(body, "panel", "Ratio", "", &picture);
    let title = "Speed by interval";
    let picture = draw("interval-speed", title, &|run| speed(found, run), |mb| {
        format!("{mb:.0}")
    });
    figure(body, "panel", "MB/s", "", &picture);
}
