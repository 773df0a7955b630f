//! The size of repositories over time, as SVG.

use std::fmt::Write as _;

use super::results::{Aging, Series};
use crate::card::{self, MARGIN, WIDTH, scale, text};

/// The height of the title, and of the name and legend of a panel.
const HEAD: f64 = 50.0;
const PANEL_HEAD: f64 = 56.0;
const PLOT: f64 = 190.0;
/// The height below a plot, for days, and the width beside it, for megabytes.
const FOOT: f64 = 44.0;
const SIDE: f64 = 56.0;

/// Draws a panel for each series: the size of every tool's repository, and of fresh ones of ibid.
pub(crate) fn draw(found: &Aging) -> String {
    let panel_height = PANEL_HEAD + PLOT + FOOT;
    let height = HEAD + found.series.len() as f64 * panel_height + 6.0;
    card::draw(height, "Size of the repository over time", &description(found), |svg| {
        let title = "Size of the repository after each day's backup, forget and prune, MB";
        text(svg, "title", MARGIN, 34.0, title);
        for (at, series) in found.series.iter().enumerate() {
            draw_panel(svg, found, series, HEAD + at as f64 * panel_height);
        }
    })
}

fn draw_panel(svg: &mut String, found: &Aging, series: &Series, y: f64) {
    text(svg, "name", MARGIN, y + 20.0, &series.name);
    legend(svg, found, y + 40.0);
    let days = series.days.iter().map(|day| day.day).max().unwrap_or(1).max(2);
    let largest = series.days.iter().map(|day| day.repository_bytes).max().unwrap_or(0);
    let (step, most) = scale(largest as f64 / 1e6);
    let (left, top) = (MARGIN + SIDE, y + PANEL_HEAD);
    let width = WIDTH - MARGIN - left;
    let x_of = |day: u32| left + f64::from(day - 1) / f64::from(days - 1) * width;
    let y_of = |bytes: u64| top + PLOT * (1.0 - bytes as f64 / 1e6 / most);
    for line in 0..=(most / step).round() as u32 {
        let value = f64::from(line) * step;
        let at = top + PLOT * (1.0 - value / most);
        let end = left + width;
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{left} {at:.1}H{end}\"/>");
        text(
            svg,
            "muted small end",
            left - 8.0,
            (at + 4.0).round(),
            &format!("{value}"),
        );
    }
    for day in [1, days.div_ceil(4), days.div_ceil(2), (3 * days).div_ceil(4), days] {
        let at = x_of(day).round();
        text(svg, "muted small mid", at, top + PLOT + 18.0, &format!("day {day}"));
    }
    for tool in found.tools.iter().rev() {
        let points: Vec<String> = series
            .of(&tool.label)
            .map(|day| format!("{:.1},{:.1}", x_of(day.day), y_of(day.repository_bytes)))
            .collect();
        let class = &tool.label;
        let _ = writeln!(
            svg,
            "<polyline class=\"line {class}\" points=\"{}\"/>",
            points.join(" ")
        );
    }
    for fresh in series.fresh_of("ibid") {
        let (x, y) = (x_of(fresh.day), y_of(fresh.fresh_bytes));
        let _ = writeln!(svg, "<circle class=\"fresh\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>");
    }
}

fn legend(svg: &mut String, found: &Aging, y: f64) {
    let mut x = MARGIN;
    for tool in &found.tools {
        let (label, end) = (&tool.label, x + 22.0);
        let _ = writeln!(svg, "<path class=\"line {label}\" d=\"M{x} {}H{end}\"/>", y - 4.0);
        text(svg, "muted small", end + 6.0, y, label);
        x += 84.0;
    }
    let _ = writeln!(
        svg,
        "<circle class=\"fresh\" cx=\"{}\" cy=\"{}\" r=\"4\"/>",
        x + 10.0,
        y - 4.0
    );
    let what = "a fresh repository of ibid with the same snapshots";
    text(svg, "muted small", x + 22.0, y, what);
}

/// Returns the last sizes as text, for readers who cannot see the chart.
fn description(found: &Aging) -> String {
    let of = |series: &Series| {
        let sizes = found.tools.iter().filter_map(|tool| {
            let day = series.of(&tool.label).last()?;
            Some(format!("{} {:.1} MB", tool.label, day.repository_bytes as f64 / 1e6))
        });
        let fresh = series.fresh_of("ibid").next_back();
        let fresh = fresh.map(|fresh| format!("ibid fresh {:.1} MB", fresh.fresh_bytes as f64 / 1e6));
        let sizes: Vec<String> = sizes.chain(fresh).collect();
        format!("{} at the end: {}.", series.name, sizes.join("; "))
    };
    found.series.iter().map(of).collect::<Vec<_>>().join(" ")
}
