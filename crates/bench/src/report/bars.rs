//! Groups of bars.

use super::Series;
use super::plot::{Plot, Scale, escape, nice_step};

/// Between groups, as a share of a group.
const GAP: f64 = 0.22;
/// Bars narrower than this, or than this for each character, have no room for a value above them;
/// the tooltip shows it.
const LABELLED: f64 = 23.0;
const CHARACTER: f64 = 6.0;

pub(super) struct Bar<'a> {
    pub(super) series: &'a Series,
    pub(super) value: f64,
    /// The tooltip.
    pub(super) tip: String,
}

/// Bars of one group.
pub(super) struct Group<'a> {
    pub(super) label: String,
    pub(super) bars: Vec<Bar<'a>>,
}

/// Draws groups from left to right, `width` wide. `across` names the axis of the groups, and `label`
/// formats values. Values may be negative.
pub(super) fn bars(
    width: f64,
    id: &str,
    description: &str,
    across: &str,
    groups: &[Group<'_>],
    label: impl Fn(f64) -> String,
) -> String {
    let mut plot = Plot::new(width, 290.0, [18.0, 14.0, 48.0, 56.0]);
    let values = || groups.iter().flat_map(|group| group.bars.iter().map(|bar| bar.value));
    let (least, most) = values().fold((0.0f64, 0.0f64), |(least, most), value| {
        (least.min(value), most.max(value))
    });
    let step = nice_step((most - least).max(1e-3) / 5.0);
    // Rounds up to a step, with room for the values above the bars.
    let rounded = |value: f64| (value * 1.04 / step).ceil() * step;
    let y = Scale::linear((-rounded(-least), rounded(most).max(step)), plot.up());
    plot.y_axis(&y, &label);
    plot.x_axis(&[], &escape(across));
    let (left, right) = plot.across();
    let zero = y.place(0.0);
    plot.draw(format_args!("<path class=axis d=\"M{left:.1} {zero:.1}H{right:.1}\"/>"));
    let width = (right - left) / groups.len().max(1) as f64;
    let (bottom, _) = plot.up();
    // The length of the longest label, in characters.
    let longest = groups.iter().map(|group| group.label.chars().count()).max();
    let every = (longest.unwrap_or(0) as f64 * 7.0 / width).ceil().max(1.0) as usize;
    for (n, group) in groups.iter().enumerate() {
        let start = left + width * (n as f64 + GAP / 2.0);
        if n % every == 0 {
            plot.draw(format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=middle>{}</text>",
                left + width * (n as f64 + 0.5),
                bottom + 18.0,
                escape(&group.label)
            ));
        }
        let bar_width = width * (1.0 - GAP) / group.bars.len().max(1) as f64;
        for (at, bar) in group.bars.iter().enumerate() {
            let x = start + at as f64 * bar_width;
            let end = y.place(bar.value);
            let name = escape(&bar.series.name);
            plot.draw(format_args!(
                "<rect class=\"mark bar\" data-series=\"{name}\" fill=\"{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
                 height=\"{:.1}\" rx=1>\
                 <title>{}</title></rect>",
                bar.series.color,
                end.min(zero),
                (bar_width - 1.0).max(1.0),
                (end - zero).abs().max(1.0),
                escape(&bar.tip)
            ));
            let above = label(bar.value);
            if bar_width >= LABELLED.max(above.chars().count() as f64 * CHARACTER) {
                plot.draw(format_args!(
                    "<text data-series=\"{name}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=middle>{above}</text>",
                    x + bar_width / 2.0,
                    end.min(zero) - 4.0
                ));
            }
        }
    }
    plot.finish(id, description)
}
