//! The charts of a comparison.

use ibid_chunk::Settings;

use super::plot::{Plot, Scale, nice_step, spread_apart};
use super::{Series, gb, percent, series_of, size, speed_of, width_of};
use crate::{Comparison, Entry};

pub(super) const WIDTH: f64 = 580.0;
/// Most points with labels in a chart; the legend and the tooltips name all of them.
const LABELS_MOST: usize = 20;

/// Returns the range of the savings axis, up to `most`: from 0, or from just below the smallest
/// value if all are close.
fn savings_domain(comparison: &Comparison) -> (f64, f64) {
    let all = comparison.entries.iter().map(Entry::savings);
    let (least, most) = all.fold((1.0f64, 0.0f64), |(least, most), savings| {
        (least.min(savings), most.max(savings))
    });
    let from = if least > most * 0.6 {
        least - (most - least) * 0.15
    } else {
        0.0
    };
    let step = nice_step((most - from).max(0.01) / 5.0);
    let from = (from / step).floor() * step;
    (
        from.max(0.0),
        ((most * 1.02 / step).ceil() * step).min(1.0).max(from + step),
    )
}

/// Returns whether an entry has fixed sizes, which read no byte and are too fast for the scale.
fn is_off_the_scale(entry: &Entry) -> bool {
    matches!(entry.settings, Settings::Fixed(_))
}

fn fastest(entry: &Entry) -> f64 {
    speed_of(entry) / 1e9
}

/// Returns the tooltip of an entry.
fn tip(entry: &Entry) -> String {
    let speed = entry.fastest().map_or(String::new(), |(backend, speed)| {
        format!(
            "\n{} GB/s ({backend}), with BLAKE3 {}",
            gb(speed.median),
            gb(entry.with_fingerprints.median)
        )
    });
    format!(
        "{}, {} asked\nsaves {} (ratio {:.2}, with metadata {:.2})\nrealised {} on average{speed}",
        entry.settings.name(),
        size(entry.settings.size_average() as f64),
        percent(entry.savings()),
        entry.ratio(),
        entry.ratio_with_metadata(),
        size(entry.sizes.mean()),
    )
}

/// Draws a point in the shape of its series.
pub(super) fn point(plot: &mut Plot, series: &Series, (x, y): (f64, f64), radius: f64, tip: &str) {
    let r = radius;
    let shape = match series.shape {
        0 => format!(
            "M{:.1} {y:.1}a{r} {r} 0 1 0 {} 0a{r} {r} 0 1 0 -{} 0z",
            x - r,
            2.0 * r,
            2.0 * r
        ),
        1 => format!("M{:.1} {:.1}h{d}v{d}h-{d}z", x - r, y - r, d = 2.0 * r),
        2 => format!("M{x:.1} {:.1}l{r} {d}h-{d}z", y - r, d = 2.0 * r),
        _ => format!("M{x:.1} {:.1}l{r} {r}l-{r} {r}l-{r} -{r}z", y - r),
    };
    plot.draw(format_args!(
        "<path class=\"mark point\" data-series=\"{}\" fill=\"{}\" d=\"{shape}\"><title>{tip}</title></path>",
        series.name, series.color
    ));
}

/// Draws savings over the speed on the fastest backend, with the frontier behind the points.
pub(super) fn scatter(comparison: &Comparison, all: &[Series]) -> String {
    let mut plot = Plot::new(2.0 * WIDTH, 470.0, [14.0, 96.0, 48.0, 56.0]);
    let on_scale = comparison.entries.iter().filter(|entry| !is_off_the_scale(entry));
    let (slowest, quickest) = on_scale.map(fastest).fold((f64::MAX, 0.0f64), |(low, high), speed| {
        (low.min(speed), high.max(speed))
    });
    let (low, high) = if quickest > 0.0 {
        (slowest / 1.25, quickest * 1.25)
    } else {
        (1.0, 10.0)
    };
    let (left, right) = plot.across();
    // Entries that are off the scale are drawn beyond its end.
    let x = Scale::logarithmic((low, high), (left, right - 30.0));
    let y = Scale::linear(savings_domain(comparison), plot.up());
    plot.y_axis(&y, percent);
    let ticks: Vec<_> = x
        .ticks(8)
        .into_iter()
        .map(|tick| (x.place(tick), format!("{tick}")))
        .collect();
    plot.x_axis(&ticks, "GB/s, one thread, logarithmic");
    let place = |entry: &Entry| match is_off_the_scale(entry) {
        true => (right, y.place(entry.savings())),
        false => (x.place(fastest(entry)), y.place(entry.savings())),
    };
    let frontier = comparison.frontier();
    let mut steps: Vec<(f64, f64)> = comparison
        .entries
        .iter()
        .zip(&frontier)
        .filter(|(_, on)| **on)
        .map(|(entry, _)| place(entry))
        .collect();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    draw_frontier(&mut plot, &steps);

    let mut averages: Vec<usize> = comparison
        .entries
        .iter()
        .map(|entry| entry.settings.size_average())
        .collect();
    averages.sort_unstable();
    averages.dedup();
    for entry in &comparison.entries {
        let rank = averages.binary_search(&entry.settings.size_average()).unwrap_or(0);
        let radius = 4.5 + 4.0 * rank as f64 / (averages.len() - 1).max(1) as f64;
        point(&mut plot, series_of(all, entry), place(entry), radius, &tip(entry));
    }
    label_frontier(&mut plot, comparison, &frontier, place);
    plot.finish(
        "scatter",
        "Savings over speed, a point for each chunker and average size; a dashed line joins those that no other beats",
    )
}

/// Draws steps from each point down to the savings of the next, faster one.
fn draw_frontier(plot: &mut Plot, steps: &[(f64, f64)]) {
    let (left, right) = plot.across();
    let (bottom, _) = plot.up();
    let Some(first) = steps.first() else { return };
    let mut path = format!("M{left:.1} {:.1}", first.1);
    for (n, (x, _)) in steps.iter().enumerate() {
        path += &format!("H{x:.1}");
        if let Some((_, lower)) = steps.get(n + 1) {
            path += &format!("V{lower:.1}");
        }
    }
    let end = steps.last().map_or(right, |step| step.0);
    plot.draw(format_args!(
        "<path class=under d=\"{path}V{bottom:.1}H{left:.1}z\"/><path class=\"frontier mark\" d=\"{path}\"/>\
         <path class=axis d=\"M{end:.1} {bottom:.1}H{left:.1}\"/>"
    ));
}

/// Labels the entries on the frontier where there is room.
fn label_frontier(plot: &mut Plot, comparison: &Comparison, on: &[bool], place: impl Fn(&Entry) -> (f64, f64)) {
    let entries = comparison.entries.iter().zip(on).filter(|(_, on)| **on);
    let mut labelled: Vec<(&Entry, (f64, f64))> = entries.map(|(entry, _)| (entry, place(entry))).collect();
    labelled.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    // Points at the edge overlap, so only the first gets a label.
    let mut at_edge = 0;
    labelled.retain(|(entry, _)| {
        at_edge += usize::from(is_off_the_scale(entry));
        !is_off_the_scale(entry) || at_edge == 1
    });
    let mut taken: Vec<(f64, f64, f64)> = Vec::new();
    for (entry, (x, y)) in labelled {
        let name = entry.settings.name();
        let text = match is_off_the_scale(entry) {
            true => format!("{name} sizes"),
            false => format!("{name} {}", size(entry.settings.size_average() as f64)),
        };
        let x = x + 9.0;
        let end = x + text.chars().count() as f64 * 7.2;
        let is_free = |y: &f64| {
            let meets = |(from, to, at): &(f64, f64, f64)| x < *to && *from < end && (y - at).abs() < 13.0;
            !taken.iter().any(meets)
        };
        let heights = [-9.0, 18.0, -22.0, 31.0].map(|off| y + off);
        let Some(y) = heights.into_iter().find(is_free) else {
            continue;
        };
        taken.push((x, end, y));
        plot.draw(format_args!(
            "<text class=strong data-series=\"{name}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"
        ));
    }
}

/// Draws savings over the realised average, with a line for each chunker.
pub(super) fn savings(comparison: &Comparison, all: &[Series]) -> String {
    let mut plot = Plot::new(2.0 * WIDTH, 400.0, [14.0, 96.0, 48.0, 56.0]);
    let means = comparison.entries.iter().map(|entry| entry.sizes.mean().max(1.0));
    let (least, most) = means.fold((f64::MAX, 1.0f64), |(least, most), mean| {
        (least.min(mean), most.max(mean))
    });
    let x = Scale::logarithmic((least / 1.15, most * 1.15), plot.across());
    let y = Scale::linear(savings_domain(comparison), plot.up());
    plot.y_axis(&y, percent);
    let powers = (6..27).map(|power| f64::from(1u32 << power));
    let inside = powers.filter(|bytes| (least / 1.15..=most * 1.15).contains(bytes));
    let ticks: Vec<_> = inside.map(|bytes| (x.place(bytes), size(bytes))).collect();
    plot.x_axis(&ticks, "average size of a chunk, as realised, logarithmic");
    let mut ends = Vec::new();
    for series in all {
        let entries = comparison
            .entries
            .iter()
            .filter(|entry| entry.settings.name() == series.name);
        let mut points: Vec<(f64, f64, String)> = entries
            .map(|entry| (x.place(entry.sizes.mean()), y.place(entry.savings()), tip(entry)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let path: Vec<String> = points.iter().map(|(x, y, _)| format!("{x:.1} {y:.1}")).collect();
        plot.line(series, &format!("M{}", path.join("L")), "");
        for (x, y, tip) in &points {
            point(&mut plot, series, (*x, *y), 4.5, tip);
        }
        ends.extend(points.last().map(|(_, y, _)| (series.name.as_str(), *y + 4.0)));
    }
    if ends.len() > LABELS_MOST {
        ends.clear();
    }
    let mut heights: Vec<f64> = ends.iter().map(|end| end.1).collect();
    let (bottom, top) = plot.up();
    spread_apart(&mut heights, 14.0, (top, bottom + 4.0));
    let (_, right) = plot.across();
    for ((name, _), y) in ends.iter().zip(heights) {
        plot.draw(format_args!(
            "<text class=strong data-series=\"{name}\" x=\"{:.1}\" y=\"{y:.1}\">{name}</text>",
            right + 6.0
        ));
    }
    plot.finish(
        "savings",
        "Savings over the realised average size, a line for each chunker",
    )
}

/// Draws the cumulative distribution of chunk sizes, for one target average.
pub(super) fn distribution(entries: &[&Entry], all: &[Series], average: usize) -> String {
    let mut plot = Plot::new(WIDTH, 290.0, [10.0, 18.0, 48.0, 52.0]);
    // The axis ends where hardly any chunk of any chunker is larger.
    let most = entries
        .iter()
        .map(|entry| entry.sizes.percentile(99.5))
        .max()
        .unwrap_or(1);
    let most = most.max(average) as f64 * 1.03;
    let x = Scale::linear((0.0, most), plot.across());
    let y = Scale::linear((0.0, 1.0), plot.up());
    plot.y_axis(&y, percent);
    // Ticks are at multiples of a power of two, as sizes are.
    let step = (most / 5.0).log2().ceil().exp2();
    let ticks = (0..).map(|n| f64::from(n) * step).take_while(|bytes| *bytes <= most);
    let ticks: Vec<_> = ticks.map(|bytes| (x.place(bytes), size(bytes))).collect();
    plot.x_axis(&ticks, "size of a chunk");
    let (bottom, top) = plot.up();
    let asked = x.place(average as f64);
    plot.draw(format_args!(
        "<path class=asked d=\"M{asked:.1} {top:.1}V{bottom:.1}\"/>"
    ));
    for entry in entries {
        let series = series_of(all, entry);
        let mut path = format!("M{:.1} {bottom:.1}", x.place(entry.sizes.least() as f64));
        for (bytes, share) in entry.sizes.cumulated(512) {
            path += &format!("L{:.1} {:.1}", x.place(bytes as f64), y.place(share));
        }
        let tip = format!(
            "{}\n{} of the chunks have the maximum size",
            tip(entry),
            percent(entry.sizes.at_max() as f64 / entry.sizes.chunks().max(1) as f64)
        );
        plot.line(series, &format!("{path}H{:.1}", x.place(most)), &tip);
    }
    let description = format!("Distribution of chunk sizes for an average of {}", size(average as f64));
    plot.finish(&format!("sizes-{average}"), &description)
}

/// Returns the scale for speeds: logarithmic if they are too far apart for a linear one.
fn speed_scale(entries: &[&Entry], across: (f64, f64)) -> (Scale, &'static str) {
    let on_scale = entries.iter().filter(|entry| !is_off_the_scale(entry));
    let all = on_scale.flat_map(|entry| entry.speeds.iter().map(|(_, speed)| speed.median / 1e9));
    let (least, most) = all.fold((f64::MAX, 0.0f64), |(least, most), speed| {
        (least.min(speed), most.max(speed))
    });
    match most {
        0.0 => (Scale::linear((0.0, 1.0), across), "GB/s, one thread"),
        _ if most > 25.0 * least => {
            let from = 10f64.powf((least / 1.5).max(1e-3).log10().floor());
            (
                Scale::logarithmic((from, most), across),
                "GB/s, one thread, logarithmic",
            )
        }
        _ => (Scale::linear((0.0, most), across), "GB/s, one thread"),
    }
}

const BAR: f64 = 11.0;
const GAP: f64 = 10.0;

/// Draws a bar for each chunker and set of vector instructions, for one target average.
pub(super) fn speeds(entries: &[&Entry], average: usize) -> String {
    let backends = entries.first().map_or(0, |entry| entry.speeds.len());
    let row = backends as f64 * BAR + GAP;
    let longest = entries
        .iter()
        .map(|entry| entry.settings.name().len())
        .max()
        .unwrap_or(0);
    let names = longest as f64 * 7.0 + 20.0;
    let mut plot = Plot::new(WIDTH, entries.len() as f64 * row + 66.0, [10.0, 58.0, 48.0, names]);
    let (x, title) = speed_scale(entries, plot.across());
    let label = |tick: f64| format!("{}", (tick * 1e6).round() / 1e6);
    let ticks: Vec<_> = x
        .ticks(5)
        .into_iter()
        .map(|tick| (x.place(tick), label(tick)))
        .collect();
    plot.x_axis(&ticks, title);
    for (n, entry) in entries.iter().enumerate() {
        let top = plot.margin[0] + n as f64 * row + GAP / 2.0;
        bars(&mut plot, entry, &x, top);
    }
    let description = format!(
        "Speed for an average of {}, by vector instructions",
        size(average as f64)
    );
    plot.finish(&format!("speeds-{average}"), &description)
}

/// Draws the bars of one chunker, and the speed of the fastest as a number.
fn bars(plot: &mut Plot, entry: &Entry, x: &Scale, top: f64) {
    let (left, right) = plot.across();
    let name = entry.settings.name();
    let middle = top + entry.speeds.len() as f64 * BAR / 2.0 + 4.0;
    plot.draw(format_args!(
        "<g data-series=\"{name}\"><text class=strong x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=end>{name}</text>",
        left - 10.0
    ));
    let end = |speed: f64| if is_off_the_scale(entry) { right } else { x.place(speed) };
    for (at, (backend, speed)) in entry.speeds.iter().enumerate() {
        plot.draw(format_args!(
            "<rect class=mark fill=\"var(--b{})\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=2>\
             <title>{name}, {}\n{} GB/s, rounds from {} to {}</title></rect>",
            width_of(*backend),
            top + at as f64 * BAR,
            (end(speed.median / 1e9) - left).max(1.0),
            BAR - 1.5,
            backend.name(),
            gb(speed.median),
            gb(speed.least),
            gb(speed.most)
        ));
    }
    let (shown, end) = match is_off_the_scale(entry) {
        true => ("no limit".to_owned(), right),
        false => (gb(fastest(entry) * 1e9), end(fastest(entry))),
    };
    plot.draw(format_args!(
        "<text x=\"{:.1}\" y=\"{middle:.1}\">{shown}</text></g>",
        end + 6.0
    ));
}
