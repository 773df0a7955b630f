//! The HTML page about the locality of duplicates.

use std::fmt::Write;

use super::charts::{WIDTH, point};
use super::plot::{Plot, Scale, nice_step, spread_apart};
use super::{COLORS, DASHES, Series, figure, legend, page, percent, size};
use crate::{Checkpoint, DuplicateLocality};

/// Lines closer than this, in pixels, look like one.
const STEP_LEAST: f64 = 0.5;

/// Returns the locality of duplicates as one self-contained HTML page, in the form that
/// [`html`](crate::html) describes: figures 3 and 4 of RapidCDC, and all numbers as tables.
#[must_use]
pub fn duplicate_locality_html(found: &DuplicateLocality) -> String {
    // A checkpoint without sequences has no line.
    let drawn: Vec<&Checkpoint> = found.checkpoints.iter().filter(|c| !c.sequences.is_empty()).collect();
    let all = series(&drawn);
    let mut body = String::new();
    head(&mut body, found);
    facts(&mut body, found.last());
    body += "<div class=charts>";
    figure(
        &mut body,
        "wide",
        "Duplicates, as files are added",
        "The share of all chunks so far that were there before, and of those that follow another duplicate in their \
         file: those whose \
         end could be guessed from what followed last time. Between the lines are the first duplicates of runs, and \
          isolated ones.",
        &shares(found),
    );
    body += "<div class=group>";
    legend(&mut body, "Checkpoints shown", &all);
    body += "</div>";
    figure(
        &mut body,
        "wide",
        "How long sequences are",
        "Of the chunks in sequences, the share that is in shorter ones. The further right a line rises, the more \
         duplicates follow one another.",
        &lengths(&drawn, &all),
    );
    body += "</div>";
    tables(&mut body, found);
    page("How duplicates follow one another", &body)
}

fn series(drawn: &[&Checkpoint]) -> Vec<Series> {
    let line = |(n, checkpoint): (usize, &&Checkpoint)| Series {
        name: files(checkpoint.files),
        color: COLORS[n % COLORS.len()],
        shape: 0,
        dash: DASHES[n / COLORS.len() % DASHES.len()],
    };
    drawn.iter().enumerate().map(line).collect()
}

fn files(count: u64) -> String {
    format!("{count}\u{a0}{}", if count == 1 { "file" } else { "files" })
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn head(body: &mut String, found: &DuplicateLocality) {
    let last = found.last();
    let settings = &found.settings;
    let _ = write!(
        body,
        "<h1>How duplicates follow one another</h1><p class=soft>{} in {}, cut by {} into {} chunks of {} to {}, {} on \
         average; if each is stored once, {:.2} times less is stored.</p>",
        size(last.all.bytes as f64),
        files(last.files),
        settings.name(),
        last.all.chunks,
        size(settings.size_min() as f64),
        size(settings.size_max() as f64),
        size(last.all.bytes as f64 / last.all.chunks.max(1) as f64),
        last.ratio()
    );
}

/// Adds the main results after all files.
fn facts(body: &mut String, last: &Checkpoint) {
    let chunks = last.all.chunks;
    let followers = last.in_sequences();
    let cards = [
        (
            "Duplicates",
            percent(share(last.duplicates.chunks, chunks)),
            format!(
                "of all chunks; of all bytes {}",
                percent(share(last.duplicates.bytes, last.all.bytes))
            ),
        ),
        (
            "In sequences, after another duplicate",
            percent(share(followers.chunks, chunks)),
            format!(
                "of all chunks; {} are isolated",
                percent(share(last.isolated.chunks, chunks))
            ),
        ),
        (
            "Half of these are in sequences of at least",
            last.median_length().to_string(),
            format!("chunks; the longest has {}", last.longest()),
        ),
    ];
    super::cards(body, &cards.map(|(what, number, more)| (what.to_owned(), number, more)));
}

/// Draws figure 3: shares of all chunks over the number of files.
fn shares(found: &DuplicateLocality) -> String {
    let mut plot = Plot::new(2.0 * WIDTH, 400.0, [14.0, 110.0, 48.0, 56.0]);
    let most = found
        .checkpoints
        .iter()
        .map(|c| share(c.duplicates.chunks, c.all.chunks));
    let most = most.fold(0.01, f64::max);
    let step = nice_step(most / 5.0);
    let y = Scale::linear((0.0, ((most * 1.02 / step).ceil() * step).min(1.0)), plot.up());
    plot.y_axis(&y, percent);
    let x = Scale::linear((0.0, found.last().files.max(1) as f64), plot.across());
    let ticks = x.ticks(12).into_iter().filter(|tick| tick.fract() == 0.0);
    let ticks: Vec<_> = ticks.map(|tick| (x.place(tick), format!("{tick}"))).collect();
    plot.x_axis(&ticks, "files so far");
    let series = [(0, "duplicates"), (1, "in sequences")].map(|(n, name)| Series {
        name: name.to_owned(),
        color: COLORS[n],
        shape: 0,
        dash: DASHES[n],
    });
    let chunks = |n: usize, c: &Checkpoint| [c.duplicates.chunks, c.in_sequences().chunks][n];
    let mut ends = [0.0; 2];
    for (n, series) in series.iter().enumerate() {
        let place = |c: &Checkpoint| (x.place(c.files as f64), y.place(share(chunks(n, c), c.all.chunks)));
        let places: Vec<(f64, f64)> = found.checkpoints.iter().map(place).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        plot.line(series, &format!("M{}", path.join("L")), "");
        for (checkpoint, at) in found.checkpoints.iter().zip(&places) {
            point(&mut plot, series, *at, 4.5, &tip(checkpoint));
        }
        ends[n] = places.last().map_or(0.0, |(_, y)| y + 4.0);
    }
    let (bottom, top) = plot.up();
    spread_apart(&mut ends, 14.0, (top, bottom + 4.0));
    let (_, right) = plot.across();
    for (series, y) in series.iter().zip(ends) {
        plot.draw(format_args!(
            "<text class=strong x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
            right + 9.0,
            series.name
        ));
    }
    plot.finish(
        "shares",
        "Files so far across, upwards the shares of chunks that are duplicates, and that follow another duplicate",
    )
}

fn tip(checkpoint: &Checkpoint) -> String {
    let of_all = |chunks: u64| percent(share(chunks, checkpoint.all.chunks));
    format!(
        "{}, {} chunks\n{} duplicates\n{} in {} sequences\n{} isolated\nratio {:.2}",
        files(checkpoint.files),
        checkpoint.all.chunks,
        of_all(checkpoint.duplicates.chunks),
        of_all(checkpoint.in_sequences().chunks),
        checkpoint.sequence_count(),
        of_all(checkpoint.isolated.chunks),
        checkpoint.ratio()
    )
}

/// Draws figure 4: the share of the chunks in sequences that is in shorter ones, over the length,
/// with a line for each checkpoint.
fn lengths(drawn: &[&Checkpoint], all: &[Series]) -> String {
    let mut plot = Plot::new(2.0 * WIDTH, 400.0, [14.0, 26.0, 48.0, 56.0]);
    let longest = drawn.last().map_or(0, |last| last.longest());
    let most = (longest + 1).max(2) as f64;
    let x = Scale::logarithmic((1.0, most), plot.across());
    let y = Scale::linear((0.0, 1.0), plot.up());
    plot.y_axis(&y, percent);
    let powers = (0..63).map(|exponent| 2f64.powi(exponent));
    let ticks: Vec<_> = powers
        .take_while(|length| *length <= most)
        .map(|length| (x.place(length), format!("{length}")))
        .collect();
    plot.x_axis(&ticks, "chunks in a sequence, logarithmic");
    let (left, right) = plot.across();
    for (checkpoint, series) in drawn.iter().zip(all) {
        let whole = checkpoint.in_sequences().chunks;
        let mut path = format!("M{left:.1} {:.1}", y.place(0.0));
        let (mut shorter, mut end) = (0, left);
        for sequences in &checkpoint.sequences {
            shorter += sequences.length * sequences.count;
            // The next length is the first for which these sequences are shorter.
            let place = x.place((sequences.length + 1) as f64);
            if place - end >= STEP_LEAST || shorter == whole {
                let _ = write!(path, "H{place:.1}V{:.1}", y.place(share(shorter, whole)));
                end = place;
            }
        }
        let tip = format!(
            "{}\nhalf of the chunks in sequences of at least {}, the longest {}",
            series.name,
            checkpoint.median_length(),
            checkpoint.longest()
        );
        plot.line(series, &format!("{path}H{right:.1}"), &tip);
    }
    plot.finish(
        "lengths",
        "Lengths of sequences across, upwards the share of the chunks in sequences that is in shorter ones, a line for \
         each checkpoint",
    )
}

/// Returns a table with a row for each checkpoint; `cells` returns the cells after the number of
/// files.
fn table(found: &DuplicateLocality, titles: &[String], cells: impl Fn(&Checkpoint) -> Vec<String>) -> String {
    let mut out = String::from("<div class=scroll><table><thead><tr><th scope=col>files</th>");
    for title in titles {
        let _ = write!(out, "<th scope=col>{title}</th>");
    }
    out += "</tr></thead><tbody>";
    for checkpoint in &found.checkpoints {
        let _ = write!(out, "<tr><th scope=row>{}</th>", checkpoint.files);
        for cell in cells(checkpoint) {
            let _ = write!(out, "<td>{cell}</td>");
        }
        out += "</tr>";
    }
    out + "</tbody></table></div>"
}

fn tables(body: &mut String, found: &DuplicateLocality) {
    let titles = [
        "bytes",
        "chunks",
        "duplicates",
        "in sequences",
        "isolated",
        "duplicates, bytes",
        "in sequences, bytes",
        "ratio",
        "sequences",
        "median",
        "longest",
    ];
    let counted = table(found, &titles.map(str::to_owned), |c| {
        let followers = c.in_sequences();
        let two = |part: u64, whole: u64| format!("{:.2}\u{a0}%", share(part, whole) * 100.0);
        vec![
            size(c.all.bytes as f64),
            c.all.chunks.to_string(),
            two(c.duplicates.chunks, c.all.chunks),
            two(followers.chunks, c.all.chunks),
            two(c.isolated.chunks, c.all.chunks),
            two(c.duplicates.bytes, c.all.bytes),
            two(followers.bytes, c.all.bytes),
            format!("{:.2}", c.ratio()),
            c.sequence_count().to_string(),
            c.median_length().to_string(),
            c.longest().to_string(),
        ]
    });
    let thresholds = found.thresholds();
    let titles: Vec<String> = thresholds.iter().map(|length| format!("&lt;\u{a0}{length}")).collect();
    let distribution = table(found, &titles, |c| {
        let whole = c.in_sequences().chunks;
        let cell = |length: &u64| percent(share(c.shorter_than(*length).chunks, whole));
        thresholds.iter().map(cell).collect()
    });
    let _ = write!(
        body,
        "<section><h2>Shares</h2>{counted}<p class=note>A chunk is a duplicate if the same bytes were a chunk before, \
         in the same file or an earlier one. A sequence is what \
         follows the first of several duplicates in a row: of a run of n duplicates the other n − 1, so an isolated \
          duplicate has none. Median: half \
         of the chunks in sequences are in sequences of at least that length. Ratio: how many times less is stored. No \
          chunk and no run reaches from one file into \
         another.</p></section>\
         <section><h2>Lengths</h2>{distribution}<p class=note>Of the chunks in sequences, the share that is in \
          sequences shorter than this.</p></section>"
    );
}
