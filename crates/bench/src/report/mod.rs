//! Results as HTML pages with charts.

mod bars;
mod charts;
mod duplicate_locality;
mod lines;
mod locality;
mod plot;
mod records;
mod tables;

use std::fmt::Write;

pub use duplicate_locality::duplicate_locality_html;
use ibid_chunk::{Backend, Settings};
pub use locality::locality_html;
use plot::escape;
pub use records::records_html;

use crate::{Comparison, Entry, INDEX_BYTES, INDEX_MEMORY_BYTES, RECIPE_BYTES};

/// The appearance of a chunker, or of another series, in all charts.
struct Series {
    name: String,
    color: &'static str,
    /// The shape of points: circle, square, triangle, diamond.
    shape: usize,
    /// The dashes of lines, as in SVG.
    dash: &'static str,
}

const COLORS: [&str; 7] = [
    "var(--c0)",
    "var(--c1)",
    "var(--c2)",
    "var(--c3)",
    "var(--c4)",
    "var(--c5)",
    "var(--c6)",
];
const DASHES: [&str; 4] = ["none", "7 4", "2 4", "9 3 2 3"];

/// Returns a comparison as one self-contained HTML page, which loads no other file, script or font.
/// Its charts are SVG: savings over speed with the frontier, savings over realised size, and
/// distributions of sizes and speeds for each average. All numbers follow as tables. The page
/// follows the reader's choice of light or dark.
#[must_use]
pub fn html(comparison: &Comparison) -> String {
    let all = series(comparison);
    let mut body = String::new();
    head(&mut body, comparison);
    facts(&mut body, comparison);
    legend(&mut body, "Chunkers shown", &all);
    body += "<div class=charts>";
    figure(
        &mut body,
        "wide",
        "Savings and speed",
        "Up is less to store, right is faster. Nothing beats what the dashed line touches; larger marks are larger \
         chunks. Fixed sizes look at no byte, \
         so they stand at the edge.",
        &charts::scatter(comparison, &all),
    );
    figure(
        &mut body,
        "wide",
        "Savings by size",
        "Over the average size that came out, not the one asked for: smaller chunks always save more, so compare what \
         is above one another.",
        &charts::savings(comparison, &all),
    );
    panels(&mut body, comparison, &all);
    body += "</div>";
    figures(&mut body, comparison);
    page("Chunkers compared", &body)
}

/// Returns a complete page.
fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content=\"width=device-width, \
         initial-scale=1\">\
         <title>{title}</title><style>{}</style></head>\n<body><main>{body}</main><div id=tip role=status hidden></div>\
         <script>{}</script></body></html>\n",
        include_str!("style.css"),
        include_str!("script.js")
    )
}

fn series(comparison: &Comparison) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    let mut colored = 0;
    for entry in &comparison.entries {
        let name = entry.settings.name();
        if all.iter().any(|series| series.name == name) {
            continue;
        }
        let is_fixed = matches!(entry.settings, Settings::Fixed(_));
        let lap = colored / COLORS.len();
        all.push(Series {
            name: name.to_owned(),
            color: if is_fixed {
                "var(--c7)"
            } else {
                COLORS[colored % COLORS.len()]
            },
            shape: if is_fixed { 1 } else { lap % 4 },
            dash: if is_fixed { "2 4" } else { DASHES[lap % DASHES.len()] },
        });
        colored += usize::from(!is_fixed);
    }
    all
}

fn series_of<'a>(all: &'a [Series], entry: &Entry) -> &'a Series {
    let name = entry.settings.name();
    all.iter()
        .find(|series| series.name == name)
        .expect("every entry has its series")
}

fn head(body: &mut String, comparison: &Comparison) {
    let cpu = match comparison.machine.cpu.as_str() {
        "" => String::new(),
        cpu => format!(" on {}", escape(cpu)),
    };
    let files = if comparison.files == 1 { "file" } else { "files" };
    let rounds = match comparison.rounds {
        1 => "one round".to_owned(),
        rounds => format!("median of {rounds} rounds"),
    };
    let _ = write!(
        body,
        "<h1>Chunkers compared</h1><p class=soft>{} in {} {files}. Speeds: one thread{cpu}, {} in memory, {}; reading \
         alone {} GB/s.</p>",
        size(comparison.bytes as f64),
        comparison.files,
        size(comparison.sample as f64),
        rounds,
        gb(comparison.read.median)
    );
}

/// Adds the main results.
fn facts(body: &mut String, comparison: &Comparison) {
    let by_content = |entry: &&Entry| !matches!(entry.settings, Settings::Fixed(_));
    let entries = || comparison.entries.iter().filter(by_content);
    let Some(saver) = entries().max_by(|a, b| a.savings().total_cmp(&b.savings())) else {
        return;
    };
    let near = entries().filter(|entry| entry.savings() >= saver.savings() * 0.95);
    let best = [
        ("Saves most", Some(saver)),
        (
            "Fastest of those that save nearly as much (95\u{a0}%)",
            near.max_by(|a, b| speed_of(a).total_cmp(&speed_of(b))),
        ),
        (
            "Fastest that cuts by content",
            entries().max_by(|a, b| speed_of(a).total_cmp(&speed_of(b))),
        ),
    ];
    let card = |(what, found): (&str, Option<&Entry>)| {
        let entry = found?;
        let more = format!(
            "saves {} at {}\u{a0}GB/s; chunks of {} on average",
            percent(entry.savings()),
            gb(speed_of(entry)),
            size(entry.sizes.mean())
        );
        Some((what.to_owned(), name_of(entry), more))
    };
    cards(body, &best.into_iter().filter_map(card).collect::<Vec<_>>());
}

/// Returns the speed on its fastest backend, bytes a second.
fn speed_of(entry: &Entry) -> f64 {
    entry.fastest().map_or(0.0, |(_, speed)| speed.median)
}

fn name_of(entry: &Entry) -> String {
    format!(
        "{}, {}",
        entry.settings.name(),
        size(entry.settings.size_average() as f64)
    )
}

fn legend(body: &mut String, what: &str, all: &[Series]) {
    // A short legend stays in view; a long one would cover the page.
    let class = if all.len() <= 12 { "legend sticky" } else { "legend" };
    let _ = write!(body, "<div class=\"{class}\" role=group aria-label=\"{what}\">");
    for series in all {
        let _ = write!(
            body,
            "<button type=button aria-pressed=true data-of=\"{name}\"><svg width=26 height=10 aria-hidden=true><path \
             d=\"M1 5H25\" fill=none stroke-width=3 \
             stroke=\"{}\" stroke-dasharray=\"{}\"/></svg>{name}</button>",
            series.color,
            series.dash,
            name = series.name
        );
    }
    *body += "</div>";
}

fn heading(body: &mut String, title: &str, text: &str) {
    let _ = write!(body, "<div class=group><h2>{title}</h2><p class=soft>{text}</p></div>");
}

/// Adds cards with a label, a number and an explanation each.
fn cards(body: &mut String, cards: &[(String, String, String)]) {
    *body += "<div class=facts>";
    for (what, figure, more) in cards {
        let _ = write!(
            body,
            "<div class=fact><p class=soft>{what}</p><b>{figure}</b><p class=soft>{more}</p></div>"
        );
    }
    *body += "</div>";
}

fn figure(body: &mut String, class: &str, title: &str, text: &str, picture: &str) {
    let _ = write!(
        body,
        "<figure class=\"{class}\"><figcaption><h2>{title}</h2><p>{text}</p></figcaption>{picture}</figure>"
    );
}

/// Adds a chart of sizes and one of speeds for each average.
fn panels(body: &mut String, comparison: &Comparison, all: &[Series]) {
    let mut averages: Vec<usize> = Vec::new();
    for entry in &comparison.entries {
        let average = entry.settings.size_average();
        if !averages.contains(&average) {
            averages.push(average);
        }
    }
    let of = |average: usize| -> Vec<&Entry> {
        let entries = comparison.entries.iter();
        entries
            .filter(|entry| entry.settings.size_average() == average)
            .collect()
    };
    let panel = |body: &mut String, average: usize, picture: &str| {
        let title = format!("{} asked for", size(average as f64));
        figure(body, "panel", &title, "", picture);
    };
    *body += "<div class=group><h2>How large chunks are</h2><p class=soft>The share of the chunks that are no larger. \
     The dotted line is the average asked for; \
              a jump at the end of a line is chunks cut by force.</p></div>";
    for average in &averages {
        panel(body, *average, &charts::distribution(&of(*average), all, *average));
    }
    *body += "<div class=group><h2>How fast with which vector instructions</h2><p class=key>";
    let backends = comparison.entries.first().map_or(&[][..], |entry| &entry.speeds);
    for (backend, _) in backends {
        let _ = write!(
            body,
            "<span style=\"--swatch:var(--b{})\">{}</span>",
            width_of(*backend),
            described(*backend)
        );
    }
    *body += "</p></div>";
    for average in &averages {
        panel(body, *average, &charts::speeds(&of(*average), *average));
    }
}

fn figures(body: &mut String, comparison: &Comparison) {
    let _ = write!(
        body,
        "<section><h2>Savings and sizes</h2>{}<p class=note>Savings: the share of the bytes that need not be stored. \
         Ratio: how many times less is stored. With metadata: \
         counting {RECIPE_BYTES} bytes for each chunk and {INDEX_BYTES} for each different one, uncompressed. Index \
          memory: {INDEX_MEMORY_BYTES} bytes for each different chunk. \
         Sizes are those of all chunks, equal ones included; percentiles are rounded up by less than 1/4096 of the \
          maximum. No chunk reaches \
         from one file into another; nothing is compressed.</p></section>",
        tables::savings(comparison)
    );
    let _ = write!(
        body,
        "<section><h2>Speeds</h2>{}<p class=note>GB are 10⁹ bytes. Medians; the pointer shows the slowest and the \
         fastest round. With BLAKE3: chunks are named, too, with the last set \
         of vector instructions.</p></section>",
        tables::speeds(comparison)
    );
}

/// Returns the shade of a set of vector instructions, by its width: none, 128, 256, 512 bits.
fn width_of(backend: Backend) -> usize {
    match backend.name() {
        "scalar" => 0,
        "avx2" => 2,
        "avx512" | "avx512-gather" => 3,
        _ => 1,
    }
}

fn described(backend: Backend) -> String {
    match width_of(backend) {
        0 => "scalar".to_owned(),
        width => format!("{backend} ({} bits)", 64 << width),
    }
}

/// Formats a size: `16 KiB`, `7.2 KiB`.
fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let is_whole = (value * 10.0).round() % 10.0 == 0.0;
    let digits = usize::from(value < 99.95 && !is_whole && unit > 0);
    format!("{value:.digits$}\u{a0}{}", units[unit])
}

/// Formats a share: `12.3 %`.
fn percent(share: f64) -> String {
    let value = share * 100.0;
    let digits = usize::from((value - value.round()).abs() > 0.005);
    format!("{value:.digits$}\u{a0}%")
}

/// Formats a factor.
fn times(value: f64) -> String {
    match value {
        0.0..9.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Formats bytes a second as GB/s with three significant digits.
fn gb(speed: f64) -> String {
    let value = speed / 1e9;
    match value {
        0.0..0.9995 => format!("{value:.3}"),
        0.9995..9.995 => format!("{value:.2}"),
        9.995..99.95 => format!("{value:.1}"),
        99.95..9999.5 => format!("{value:.0}"),
        _ => "more than 10000".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units stay with their numbers.
    fn unbroken(text: &str) -> String {
        text.replace(' ', "\u{a0}")
    }

    #[test]
    fn numbers_have_as_many_digits_as_they_deserve() {
        let sizes = [512.0, 4096.0, 7372.8, 98_304.0, 1_048_575.0, 1_048_576.0].map(size);
        let expected = ["512 B", "4 KiB", "7.2 KiB", "96 KiB", "1 MiB", "1 MiB"];
        assert_eq!(sizes, expected.map(unbroken));
        let shares = [0.0, 0.2, 0.123_45, 1.0].map(percent);
        assert_eq!(shares, ["0 %", "20 %", "12.3 %", "100 %"].map(unbroken));
        assert_eq!([5e8, 1.5e9, 12.34e9, 123.4e9].map(gb), ["0.500", "1.50", "12.3", "123"]);
    }
}
