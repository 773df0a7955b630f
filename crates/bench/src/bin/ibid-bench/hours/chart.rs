//! Size, memory and latency over the hours, as SVG.

use std::fmt::Write as _;

use super::results::{Hour, Hours, Lived};
use crate::card::{self, MARGIN, WIDTH, scale, text};

const HEAD: f64 = 50.0;
const PANEL_HEAD: f64 = 34.0;
const PLOT: f64 = 120.0;
const FOOT: f64 = 40.0;
const SIDE: f64 = 56.0;
/// Most marks of hours on the axis.
const MARKS: u32 = 6;

/// A panel: what it shows, and its value in an hour.
struct Panel {
    name: &'static str,
    of: fn(&Hour) -> f64,
}

const PANELS: [Panel; 5] = [
    Panel {
        name: "the most on disk within the hour, MB",
        of: |hour| hour.disk_bytes_max as f64 / 1e6,
    },
    Panel {
        name: "the most memory of the process, with the load's own, MiB",
        of: |hour| hour.rss_bytes as f64 / f64::from(1 << 20),
    },
    Panel {
        name: "a read of a latest version, 99.9 %, ms",
        of: |hour| hour.latest.p999_us / 1e3,
    },
    Panel {
        name: "a read of any version, 99.9 %, ms",
        of: |hour| hour.any.p999_us / 1e3,
    },
    Panel {
        name: "a commit, synced, 99.9 %, ms",
        of: |hour| hour.commit.p999_us / 1e3,
    },
];

/// Draws a panel for each quantity, with a line for each subject.
pub(crate) fn draw(found: &Hours) -> String {
    let panel_height = PANEL_HEAD + PLOT + FOOT;
    let height = HEAD + PANELS.len() as f64 * panel_height + 6.0;
    card::draw(height, "A store over hours", &description(found), |svg| {
        text(
            svg,
            "title",
            MARGIN,
            34.0,
            "A store that is read and written, hour by hour",
        );
        legend(svg, found);
        for (at, panel) in PANELS.iter().enumerate() {
            draw_panel(svg, found, panel, HEAD + at as f64 * panel_height);
        }
    })
}

fn legend(svg: &mut String, found: &Hours) {
    for (at, lived) in found.subjects.iter().enumerate() {
        let x = WIDTH - MARGIN - 90.0 * (found.subjects.len() - at) as f64;
        let (label, end) = (&lived.subject, x + 22.0);
        let _ = writeln!(svg, "<path class=\"line {label}\" d=\"M{x} 30H{end}\"/>");
        text(svg, "muted small", end + 6.0, 34.0, label);
    }
}

fn draw_panel(svg: &mut String, found: &Hours, panel: &Panel, y: f64) {
    text(svg, "name", MARGIN, y + 20.0, panel.name);
    let hours = found.load.hours.max(2);
    let all = found.subjects.iter().flat_map(|lived| &lived.seen.hours);
    let (step, most) = scale(all.map(panel.of).fold(0.0, f64::max));
    let (left, top) = (MARGIN + SIDE, y + PANEL_HEAD);
    let width = WIDTH - MARGIN - left;
    let x_of = |hour: u32| left + f64::from(hour - 1) / f64::from(hours - 1) * width;
    for line in 0..=(most / step).round() as u32 {
        // Steps like 0.2 are not exact.
        let value = (f64::from(line) * step * 1e6).round() / 1e6;
        let at = top + PLOT * (1.0 - value / most);
        let end = left + width;
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{left} {at:.1}H{end}\"/>");
        let value = format!("{value}");
        text(svg, "muted small end", left - 8.0, (at + 4.0).round(), &value);
    }
    for hour in (1..=hours).step_by(hours.div_ceil(MARKS) as usize) {
        let mark = format!("hour {hour}");
        text(svg, "muted small mid", x_of(hour).round(), top + PLOT + 18.0, &mark);
    }
    for lived in found.subjects.iter().rev() {
        let point = |hour: &Hour| {
            let y = top + PLOT * (1.0 - (panel.of)(hour) / most);
            format!("{:.1},{y:.1}", x_of(hour.hour))
        };
        let points: Vec<String> = lived.seen.hours.iter().map(point).collect();
        let (class, points) = (&lived.subject, points.join(" "));
        let _ = writeln!(svg, "<polyline class=\"line {class}\" points=\"{points}\"/>");
    }
}

/// Returns the first and last values as text, for readers who cannot see the chart.
fn description(found: &Hours) -> String {
    let of = |lived: &Lived| {
        let (first, last) = (lived.seen.hours.first()?, lived.seen.hours.last()?);
        let values = PANELS.iter().map(|panel| {
            let (first, last) = ((panel.of)(first), (panel.of)(last));
            format!("{}: {first:.1} in the first hour, {last:.1} in the last", panel.name)
        });
        Some(format!("{}: {}.", lived.subject, values.collect::<Vec<_>>().join("; ")))
    };
    found.subjects.iter().filter_map(of).collect::<Vec<_>>().join(" ")
}
