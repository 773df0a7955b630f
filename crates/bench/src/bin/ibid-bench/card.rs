//! What all charts have in common: a card of SVG, a style sheet, text.

use std::fmt::Write as _;

/// The width of every card, and the space at its sides.
pub(crate) const WIDTH: f64 = 800.0;
pub(crate) const MARGIN: f64 = 24.0;

/// Colours follow the reader's scheme, on a background of their own, so that they can be read on
/// any page.
const STYLE: &str = "\
text{font:13px -apple-system,BlinkMacSystemFont,'Segoe UI','Noto Sans',Helvetica,Arial,sans-serif;fill:#1f2328}\
.card{fill:#fff;stroke:#d1d9e0}\
.title{font-size:17px;font-weight:600}\
.name{font-weight:600;font-size:14px}\
.muted{fill:#59636e}\
.small{font-size:12px}\
.end{text-anchor:end}.mid{text-anchor:middle}\
.bar{fill:#afb8c1}\
.ours{fill:#0969da}\
text.ours{font-weight:600}\
.grid{stroke:#d1d9e0;stroke-width:1}\
.line{fill:none;stroke-width:2}\
.ibid,.ddedup{stroke:#0969da}.restic,.plain{stroke:#bc4c00}.borg{stroke:#1a7f37}\
.fresh{fill:#fff;stroke:#0969da;stroke-width:1.5}\
@media(prefers-color-scheme:dark){\
text{fill:#f0f6fc}\
.card{fill:#0d1117;stroke:#3d444d}\
.muted{fill:#9198a1}\
.bar{fill:#656c76}\
.ours{fill:#4493f8}\
.grid{stroke:#3d444d}\
.ibid,.ddedup{stroke:#4493f8}.restic,.plain{stroke:#f0883e}.borg{stroke:#3fb950}\
.fresh{fill:#0d1117;stroke:#4493f8}}";

/// Draws a card of this height. `title` and `description` are for readers who cannot see it.
pub(crate) fn draw(height: f64, title: &str, description: &str, content: impl FnOnce(&mut String)) -> String {
    let mut svg = String::new();
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"t d\">\n\
         <title id=\"t\">{title}</title>\n<desc id=\"d\">{description}</desc>\n\
         <style>{STYLE}</style>\n\
         <rect class=\"card\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n",
        WIDTH - 1.0,
        height - 1.0,
    );
    content(&mut svg);
    svg.push_str("</svg>\n");
    svg
}

/// Adds a line of text with these classes of the style sheet.
pub(crate) fn text(svg: &mut String, class: &str, x: f64, y: f64, text: &str) {
    let class = class.trim();
    let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>");
}

/// Returns the distance of grid lines and the end of the axis: 1, 2 or 5 times a power of ten.
pub(crate) fn scale(largest: f64) -> (f64, f64) {
    let largest = largest.max(0.001);
    let power = 10f64.powf((largest / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| largest / step <= 5.0)
        .unwrap_or(10.0 * power);
    (step, (largest / step).ceil() * step)
}

#[cfg(test)]
mod tests {
    use super::scale;

    #[test]
    fn axes_end_on_round_numbers() {
        assert_eq!(scale(43.0), (10.0, 50.0));
        assert_eq!(scale(7.5), (2.0, 8.0));
        assert_eq!(scale(200.0), (50.0, 200.0));
        assert!(scale(0.0).1 > 0.0);
    }
}
