//! Line charts.

use super::Series;
use super::charts::{WIDTH, point};
use super::plot::{Plot, Scale, nice_step};

/// The horizontal axis.
pub(super) struct Across<'a> {
    /// Whether the chart is as wide as the page.
    pub(super) is_wide: bool,
    pub(super) title: &'a str,
    /// The smallest and the largest value of the axis.
    pub(super) domain: (f64, f64),
    pub(super) is_logarithmic: bool,
    /// The ticks with their labels.
    pub(super) ticks: Vec<(f64, String)>,
}

pub(super) struct Line<'a> {
    pub(super) series: &'a Series,
    /// Horizontal and vertical values, from left to right.
    pub(super) points: Vec<(f64, f64)>,
    /// The tooltip of each point, if points are drawn.
    pub(super) tips: Vec<String>,
    /// The tooltip of the line.
    pub(super) tip: String,
}

/// Draws lines over `across`. The vertical axis goes from 0 to `most`, rounded up; `label` formats
/// its values.
pub(super) fn lines(
    id: &str,
    description: &str,
    across: &Across<'_>,
    most: f64,
    label: impl Fn(f64) -> String,
    lines: &[Line<'_>],
) -> String {
    let width = if across.is_wide { 2.0 * WIDTH } else { WIDTH };
    let mut plot = Plot::new(width, 290.0, [14.0, 26.0, 48.0, 64.0]);
    let step = nice_step(most.max(1e-9) / 5.0);
    let y = Scale::linear((0.0, (most * 0.999 / step).ceil().max(1.0) * step), plot.up());
    plot.y_axis(&y, label);
    let scale = match across.is_logarithmic {
        true => Scale::logarithmic,
        false => Scale::linear,
    };
    let x = scale(across.domain, plot.across());
    let ticks: Vec<_> = across
        .ticks
        .iter()
        .map(|(value, label)| (x.place(*value), label.clone()))
        .collect();
    plot.x_axis(&ticks, across.title);
    for line in lines {
        let places: Vec<(f64, f64)> = line.points.iter().map(|(a, b)| (x.place(*a), y.place(*b))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        if path.len() > 1 {
            plot.line(line.series, &format!("M{}", path.join("L")), &line.tip);
        }
        for (place, tip) in places.iter().zip(&line.tips) {
            point(&mut plot, line.series, *place, 4.5, tip);
        }
    }
    plot.finish(id, description)
}
