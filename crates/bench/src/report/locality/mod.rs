//! The HTML page about boundary hints.

mod figures;
mod tables;

use std::fmt::Write;

use ibid_chunk::Settings;
use ibid_chunk::locality::{Criterion, LIST_MOST};

use super::bars::Bar;
use super::plot::escape;
use super::{COLORS, Series, cards, gb, legend, page, percent, size, times};
use crate::{Locality, LocalityChunker, LocalityData, LocalityDataset, LocalityEntry};

/// Returns the gains of boundary hints as one self-contained HTML page, in the form that
/// [`html`](crate::html) describes: figures 8 to 18 of RapidCDC where there is data, and all
/// numbers as tables.
#[must_use]
pub fn locality_html(found: &Locality) -> String {
    let looks = Looks::new(found);
    let mut body = String::new();
    head(&mut body, found);
    facts(&mut body, found);
    legend(&mut body, "Criteria shown", &looks.ways);
    body += "<div class=charts>";
    figures::draw(&mut body, found, &looks);
    body += "</div>";
    tables::all(&mut body, found);
    page("What hints gain", &body)
}

/// The appearance of methods, and of places in a list, in all charts.
struct Looks {
    ways: Vec<Series>,
    places: Vec<Series>,
}

impl Looks {
    fn new(found: &Locality) -> Looks {
        let chunkers = || found.datasets.iter().flat_map(|dataset| &dataset.chunkers);
        let is_met = |name: &str| chunkers().any(|c| c.hinted.iter().any(|entry| entry.criterion.name() == name));
        let has_stores = chunkers().any(|chunker| !chunker.stores.is_empty());
        let mut ways = vec![("plain", "var(--c7)")];
        let criteria = Criterion::ALL.iter().zip(COLORS);
        ways.extend(criteria.map(|(criterion, color)| (criterion.name(), color)));
        ways.retain(|(name, _)| *name == "plain" || is_met(name));
        if has_stores {
            ways.extend([("fixed", COLORS[4]), ("ideal", COLORS[5])]);
        }
        let look = |name: String, color: &'static str| Series {
            name,
            color,
            shape: 0,
            dash: "none",
        };
        let colors = COLORS.into_iter().chain(["var(--c7)"]);
        Looks {
            ways: ways
                .into_iter()
                .map(|(name, color)| look(name.to_owned(), color))
                .collect(),
            places: (1..=LIST_MOST)
                .zip(colors)
                .map(|(n, color)| look(format!("place {n}"), color))
                .collect(),
        }
    }

    fn way(&self, name: &str) -> &Series {
        let found = self.ways.iter().find(|series| series.name == name);
        found.expect("all that was measured has its look")
    }

    fn bar(&self, name: &str, value: f64, tip: String) -> Bar<'_> {
        Bar {
            series: self.way(name),
            value,
            tip,
        }
    }
}

/// `rabin 4 KiB–8 KiB–12 KiB`.
fn chunker_name(settings: &Settings) -> String {
    let sizes = [settings.size_min(), settings.size_average(), settings.size_max()];
    let sizes = sizes.map(|bytes| size(bytes as f64));
    format!("{} {}", settings.name(), sizes.join("–"))
}

/// Returns a short name for data.
fn data_name(dataset: &LocalityDataset) -> String {
    match &dataset.data {
        LocalityData::Files(_) => format!("{} files", dataset.files),
        LocalityData::Series(series) if series.spread < 1.0 => {
            format!("{} edits in {}", series.edits, percent(series.spread))
        }
        LocalityData::Series(series) => format!("{} edits", series.edits),
    }
}

/// Returns the property in which datasets differ, and a label for each.
fn labels(found: &Locality) -> (&'static str, Vec<String>) {
    let series: Vec<_> = found
        .datasets
        .iter()
        .filter_map(|dataset| match &dataset.data {
            LocalityData::Series(series) => Some(series),
            LocalityData::Files(_) => None,
        })
        .collect();
    if series.is_empty() || series.len() < found.datasets.len() {
        return ("data", found.datasets.iter().map(data_name).collect());
    }
    let is_spread = series.iter().any(|other| other.spread != series[0].spread);
    let is_edits = series.iter().any(|other| other.edits != series[0].edits) || !is_spread;
    match (is_edits, is_spread) {
        (true, false) => (
            "edits between versions",
            series.iter().map(|series| series.edits.to_string()).collect(),
        ),
        (false, _) => (
            "share of the file that edits lie in",
            series.iter().map(|series| percent(series.spread)).collect(),
        ),
        _ => (
            "edits, and the share of the file they lie in",
            found.datasets.iter().map(data_name).collect(),
        ),
    }
}

fn tip(chunker: &LocalityChunker, entry: &LocalityEntry) -> String {
    let run = &entry.run;
    let (plain, tally) = (&chunker.plain, &run.tally);
    format!(
        "{}, {}, lists of {}\nchunking {} GB/s, {:.2} times plain\nratio {:.3}, plain {:.3}\n{} of the chunks cut by \
         hints\nwith BLAKE3 {} GB/s, {:.2} times plain",
        entry.criterion.name(),
        chunker_name(&chunker.settings),
        entry.list,
        gb(run.chunking_speed()),
        chunker.chunking_gain(run),
        run.ratio(),
        plain.ratio(),
        percent(tally.hinted() as f64 / tally.chunks.max(1) as f64),
        gb(run.total_speed()),
        chunker.total_gain(run)
    )
}

fn plain_tip(chunker: &LocalityChunker) -> String {
    let plain = &chunker.plain;
    format!(
        "plain, {}\nchunking {} GB/s, with BLAKE3 {}\nratio {:.3}",
        chunker_name(&chunker.settings),
        gb(plain.chunking_speed()),
        gb(plain.total_speed()),
        plain.ratio()
    )
}

fn head(body: &mut String, found: &Locality) {
    let cpu = match found.machine.cpu.as_str() {
        "" => String::new(),
        cpu => format!(" on {}", escape(cpu)),
    };
    let bytes: u64 = found.datasets.iter().map(|dataset| dataset.bytes).sum();
    let data = match found.datasets.len() {
        1 => String::new(),
        n => format!(" in {n} datasets"),
    };
    let _ = write!(
        body,
        "<h1>What hints gain</h1><p class=soft>{}{data}. When a chunk is a duplicate, what followed it last time says \
         where the next one probably ends. A criterion says when that \
         is believed: <b>ff</b> always; <b>ff+mt</b> if the byte there is the one that ended the chunk last time; \
          <b>ff+rwt</b> if the chunker's own condition holds there; <b>ff+rwt+fpt</b> if the chunk \
         is known, too, and then cuts are exactly the chunker's. Speeds: one thread{cpu}, by its processor time, in \
          memory, everything in one run.</p>",
        size(bytes as f64)
    );
}

/// Adds the main results.
fn facts(body: &mut String, found: &Locality) {
    let all = || {
        found.datasets.iter().flat_map(|dataset| {
            let chunkers = dataset.chunkers.iter();
            chunkers.flat_map(move |chunker| chunker.hinted.iter().map(move |entry| (dataset, chunker, entry)))
        })
    };
    let gain =
        |(_, chunker, entry): &(&LocalityDataset, &LocalityChunker, &LocalityEntry)| chunker.chunking_gain(&entry.run);
    let best = |criterion: Criterion| {
        let entries = all().filter(move |(.., entry)| entry.criterion == criterion);
        entries.max_by(|a, b| gain(a).total_cmp(&gain(b)))
    };
    let best = [
        ("Fastest chunking, taking every hint", best(Criterion::FastForward)),
        ("With the chunker's own condition", best(Criterion::Window)),
        ("With exactly the chunker's cuts", best(Criterion::WindowAndFingerprint)),
    ];
    let card = |(what, best): (&str, Option<(&LocalityDataset, &LocalityChunker, &LocalityEntry)>)| {
        let best = best?;
        let (dataset, chunker, entry) = best;
        let more = format!(
            "{}, {}, {}; ratio {:.2}, plain {:.2}",
            entry.criterion.name(),
            chunker_name(&chunker.settings),
            escape(&data_name(dataset)),
            entry.run.ratio(),
            chunker.plain.ratio()
        );
        Some((
            what.to_owned(),
            format!("{} times plain chunking", times(gain(&best))),
            more,
        ))
    };
    cards(body, &best.into_iter().filter_map(card).collect::<Vec<_>>());
}

/// Returns for every chunker its number and its results, by dataset.
fn by_chunker(found: &Locality) -> impl Iterator<Item = (usize, Vec<&LocalityChunker>)> {
    let count = found.datasets.first().map_or(0, |dataset| dataset.chunkers.len());
    (0..count).map(|n| (n, found.datasets.iter().map(|dataset| &dataset.chunkers[n]).collect()))
}

/// Returns the results with the first list length.
fn first_list(chunker: &LocalityChunker) -> impl Iterator<Item = &LocalityEntry> {
    let list = chunker.hinted.first().map_or(0, |entry| entry.list);
    chunker.with_list(list)
}
/// Calls `take` with every chunker of every dataset, an id for its chart, and a name.
fn each(found: &Locality, mut take: impl FnMut(&str, &str, &LocalityChunker)) {
    for (n, dataset) in found.datasets.iter().enumerate() {
        for (m, chunker) in dataset.chunkers.iter().enumerate() {
            let title = format!("{}, {}", chunker_name(&chunker.settings), escape(&data_name(dataset)));
            take(&format!("{n}-{m}"), &title, chunker);
        }
    }
}
