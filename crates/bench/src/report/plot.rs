//! Axes and scales.

use std::fmt::Write;

/// A mapping from values to places in the chart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    domain: (f64, f64),
    range: (f64, f64),
    is_logarithmic: bool,
}

impl Scale {
    pub(super) fn linear(domain: (f64, f64), range: (f64, f64)) -> Scale {
        Scale {
            domain,
            range,
            is_logarithmic: false,
        }
    }

    /// Returns a logarithmic scale. The domain must be above 0.
    pub(super) fn logarithmic(domain: (f64, f64), range: (f64, f64)) -> Scale {
        Scale {
            domain,
            range,
            is_logarithmic: true,
        }
    }

    /// Returns the place of a value; values outside the domain are placed at the edge.
    pub(super) fn place(&self, value: f64) -> f64 {
        let map = |value: f64| if self.is_logarithmic { value.ln() } else { value };
        let value = value.clamp(self.domain.0, self.domain.1);
        let share = (map(value) - map(self.domain.0)) / (map(self.domain.1) - map(self.domain.0));
        self.range.0 + share * (self.range.1 - self.range.0)
    }

    /// Returns about `count` round values on the axis.
    pub(super) fn ticks(&self, count: usize) -> Vec<f64> {
        let (low, high) = self.domain;
        if self.is_logarithmic {
            let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
            let all = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(decade)));
            return all.filter(|tick| (low..=high).contains(tick)).collect();
        }
        let step = nice_step((high - low) / count.max(1) as f64);
        let first = (low / step).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }
}

/// Returns the next round number: 1, 2 or 5 times a power of ten.
pub(super) fn nice_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-12).log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= least * 0.999);
    digit.unwrap_or(10.0) * power
}

/// A chart: its size, and the elements drawn so far. One unit is a pixel at the usual width.
pub(super) struct Plot {
    pub(super) width: f64,
    pub(super) height: f64,
    /// The space around the axes: top, right, bottom, left.
    pub(super) margin: [f64; 4],
    pub(super) body: String,
}

impl Plot {
    pub(super) fn new(width: f64, height: f64, margin: [f64; 4]) -> Plot {
        Plot {
            width,
            height,
            margin,
            body: String::new(),
        }
    }

    /// Returns the horizontal range of the chart, left to right.
    pub(super) fn across(&self) -> (f64, f64) {
        (self.margin[3], self.width - self.margin[1])
    }

    /// Returns the vertical range of the chart, bottom to top.
    pub(super) fn up(&self) -> (f64, f64) {
        (self.height - self.margin[2], self.margin[0])
    }

    pub(super) fn draw(&mut self, element: std::fmt::Arguments<'_>) {
        self.body.write_fmt(element).expect("writing to a string can't fail");
    }

    /// Draws horizontal grid lines with their values at the left.
    pub(super) fn y_axis(&mut self, scale: &Scale, label: impl Fn(f64) -> String) {
        let (left, right) = self.across();
        for tick in scale.ticks(5) {
            let y = scale.place(tick);
            self.draw(format_args!(
                "<path class=grid d=\"M{left:.1} {y:.1}H{right:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=end>{}</text>",
                left - 8.0,
                y + 4.0,
                label(tick)
            ));
        }
    }

    /// Draws ticks with their labels below the chart, and the title of the axis.
    pub(super) fn x_axis(&mut self, ticks: &[(f64, String)], title: &str) {
        let (left, right) = self.across();
        let (bottom, top) = self.up();
        for (x, label) in ticks {
            self.draw(format_args!(
                "<path class=grid d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=middle>{label}</text>",
                bottom + 18.0
            ));
        }
        self.draw(format_args!(
            "<path class=axis d=\"M{left:.1} {bottom:.1}H{right:.1}\"/>\
             <text class=title x=\"{:.1}\" y=\"{:.1}\" text-anchor=end>{title}</text>",
            right,
            bottom + 36.0
        ));
    }

    /// Draws the line of a series along a path.
    pub(super) fn line(&mut self, series: &super::Series, path: &str, tip: &str) {
        let name = escape(&series.name);
        self.draw(format_args!(
            "<path class=\"mark line\" data-series=\"{name}\" stroke=\"{}\" stroke-dasharray=\"{}\" d=\"{path}\"",
            series.color, series.dash
        ));
        match tip {
            "" => self.draw(format_args!("/>")),
            tip => self.draw(format_args!("><title>{}</title></path>", escape(tip))),
        }
    }

    /// Returns the finished chart, with a description for screen readers.
    pub(super) fn finish(self, id: &str, description: &str) -> String {
        format!(
            "<svg class=plot id=\"{id}\" role=img aria-label=\"{}\" viewBox=\"0 0 {:.0} {:.0}\" \
             xmlns=\"http://www.w3.org/2000/svg\">{}</svg>",
            escape(description),
            self.width,
            self.height,
            self.body
        )
    }
}

/// Escapes text for HTML.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// Moves places apart by as little as possible until each is `gap` from the next; the order stays.
pub(super) fn spread_apart(places: &mut [f64], gap: f64, limits: (f64, f64)) {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*a].total_cmp(&places[*b]));
    for pair in 1..order.len() {
        let least = places[order[pair - 1]] + gap;
        places[order[pair]] = places[order[pair]].max(least);
    }
    let mut most = limits.1;
    for at in order.into_iter().rev() {
        places[at] = places[at].min(most);
        most = places[at] - gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_placed_between_the_ends() {
        let linear = Scale::linear((0.0, 10.0), (100.0, 0.0));
        assert_eq!(
            (linear.place(0.0), linear.place(5.0), linear.place(99.0)),
            (100.0, 50.0, 0.0)
        );
        let logarithmic = Scale::logarithmic((1.0, 100.0), (0.0, 100.0));
        assert!((logarithmic.place(10.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(Scale::linear((0.0, 0.78), (0.0, 1.0)).ticks(4).len(), 4);
        assert_eq!(
            Scale::linear((0.0, 100.0), (0.0, 1.0)).ticks(5),
            [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
        );
        assert_eq!(
            Scale::logarithmic((0.9, 21.0), (0.0, 1.0)).ticks(5),
            [1.0, 2.0, 5.0, 10.0, 20.0]
        );
    }

    #[test]
    fn labels_that_meet_are_moved_apart_within_the_limits() {
        let mut places = [50.0, 10.0, 52.0, 51.0];
        spread_apart(&mut places, 12.0, (0.0, 60.0));
        assert_eq!(places, [36.0, 10.0, 60.0, 48.0]);
    }

    #[test]
    fn markup_in_text_is_none() {
        assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
