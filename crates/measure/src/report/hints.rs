//! What hints gain, as a page with pictures.

use super::bars::{Bar, Group, bars};
use super::{COLORS, Series, figure, gb, legend, page, percent, plot::escape, size};
use crate::{Locality, LocalityChunker, LocalityData, LocalityDataset, LocalityEntry, LocalityRun};
use ibid_chunk::Settings;
use ibid_chunk::locality::{Criterion, LIST_MOST};
use std::fmt::Write;

/// What hints gain as one self-contained HTML page, of which [`html`](crate::html) says the rest: figures 8 to 18 of paper 003, as far as
/// there is something to show, and all figures as tables.
#[must_use]
pub fn locality_html(found: &Locality) -> String {
    let looks = Looks::new(found);
    let mut body = String::new();
    head(&mut body, found);
    facts(&mut body, found);
    legend(&mut body, "Criteria shown", &looks.ways);
    body += "<div class=charts>";
    chunking(&mut body, found, &looks);
    lists(&mut body, found, &looks);
    worst(&mut body, found, &looks);
    naming(&mut body, found, &looks);
    stores(&mut body, found, &looks);
    threads(&mut body, found, &looks);
    body += "</div>";
    tables(&mut body, found);
    page("What hints gain", &body)
}

/// How ways of cutting, and places in a list, look in all pictures.
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

/// What data is called where it has room for a few words.
fn data_name(dataset: &LocalityDataset) -> String {
    match &dataset.data {
        LocalityData::Files(_) => format!("{} files", dataset.files),
        LocalityData::Series(series) if series.spread < 1.0 => {
            format!("{} edits in {}", series.edits, percent(series.spread))
        }
        LocalityData::Series(series) => format!("{} edits", series.edits),
    }
}

/// What datasets differ in, and a label for each.
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

fn times(value: f64) -> String {
    match value {
        0.0..9.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn tip(chunker: &LocalityChunker, entry: &LocalityEntry) -> String {
    let run = &entry.run;
    let (plain, tally) = (&chunker.plain, &run.tally);
    format!(
        "{}, {}, lists of {}\nchunking {} GB/s, {:.2} times plain\nratio {:.3}, plain {:.3}\n{} of the chunks cut by hints\nwith BLAKE3 {} GB/s, {:.2} times plain",
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
        "<h1>What hints gain</h1><p class=soft>{}{data}. When a chunk is a duplicate, what followed it last time says where the next one probably ends. A criterion says when that \
         is believed: <b>ff</b> always; <b>ff+mt</b> if the byte there is the one that ended the chunk last time; <b>ff+rwt</b> if the chunker's own condition holds there; <b>ff+rwt+fpt</b> if the chunk \
         is known, too, and then cuts are exactly the chunker's. Speeds: one thread{cpu}, by its processor time, in memory, everything in one run.</p>",
        size(bytes as f64)
    );
}

/// What most readers want to know first.
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
    *body += "<div class=facts>";
    let cards = [
        ("Fastest chunking, taking every hint", best(Criterion::FastForward)),
        ("With the chunker's own condition", best(Criterion::Window)),
        ("With exactly the chunker's cuts", best(Criterion::WindowAndFingerprint)),
    ];
    for (what, best) in cards {
        if let Some(best) = best {
            let (dataset, chunker, entry) = best;
            let _ = write!(
                body,
                "<div class=fact><p class=soft>{what}</p><b>{} times plain chunking</b><p class=soft>{}, {}, {}; ratio {:.2}, plain {:.2}</p></div>",
                times(gain(&best)),
                entry.criterion.name(),
                chunker_name(&chunker.settings),
                escape(&data_name(dataset)),
                entry.run.ratio(),
                chunker.plain.ratio()
            );
        }
    }
    *body += "</div>";
}

fn heading(body: &mut String, title: &str, text: &str) {
    let _ = write!(body, "<div class=group><h2>{title}</h2><p class=soft>{text}</p></div>");
}

/// For every chunker its number and what was found with it, by dataset.
fn by_chunker(found: &Locality) -> impl Iterator<Item = (usize, Vec<&LocalityChunker>)> {
    let count = found.datasets.first().map_or(0, |dataset| dataset.chunkers.len());
    (0..count).map(|n| (n, found.datasets.iter().map(|dataset| &dataset.chunkers[n]).collect()))
}

/// The entries with the first length of lists.
fn first_list(chunker: &LocalityChunker) -> impl Iterator<Item = &LocalityEntry> {
    let list = chunker.hinted.first().map_or(0, |entry| entry.list);
    chunker.with_list(list)
}

/// Bars of chunking speed-ups, or of other values.
fn criteria<'a>(
    looks: &'a Looks,
    chunker: &LocalityChunker,
    value: impl Fn(&LocalityEntry) -> Option<f64>,
) -> Vec<Bar<'a>> {
    let bar = |entry: &LocalityEntry| Some(looks.bar(entry.criterion.name(), value(entry)?, tip(chunker, entry)));
    first_list(chunker).filter_map(bar).collect()
}

fn chunking_gain(chunker: &LocalityChunker) -> impl Fn(&LocalityEntry) -> Option<f64> {
    |entry| Some(chunker.chunking_gain(&entry.run))
}

fn ratios<'a>(looks: &'a Looks, chunker: &LocalityChunker) -> Vec<Bar<'a>> {
    let mut bars = vec![looks.bar("plain", chunker.plain.ratio(), plain_tip(chunker))];
    bars.extend(criteria(looks, chunker, |entry| Some(entry.run.ratio())));
    bars
}

/// A pair of pictures: how many times as fast, and the ratio.
fn pair(
    body: &mut String,
    (id, title, across): (&str, &str, &str),
    looks: &Looks,
    groups: &[(String, &LocalityChunker)],
) {
    let group = |label: &str, bars| Group {
        label: label.to_owned(),
        bars,
    };
    let gains: Vec<Group<'_>> = groups
        .iter()
        .map(|(label, chunker)| group(label, criteria(looks, chunker, chunking_gain(chunker))))
        .collect();
    let picture = bars(
        &format!("speedup-{id}"),
        &format!("Chunking, how many times as fast as plain: {title}"),
        across,
        &gains,
        times,
    );
    figure(body, "panel", &format!("{title}: times as fast"), "", &picture);
    let found: Vec<Group<'_>> = groups
        .iter()
        .map(|(label, chunker)| group(label, ratios(looks, chunker)))
        .collect();
    let picture = bars(
        &format!("ratio-{id}"),
        &format!("Deduplication ratio: {title}"),
        across,
        &found,
        times,
    );
    figure(body, "panel", &format!("{title}: ratio"), "", &picture);
}

/// Figures 8 to 11 and 13.
fn chunking(body: &mut String, found: &Locality, looks: &Looks) {
    heading(
        body,
        "Finding boundaries",
        "How many times as fast as without hints boundaries are found, and how many times less is stored. Naming chunks and looking them up, which every \
         deduplication does, is not counted in here.",
    );
    let (across, labels) = labels(found);
    let count = found.datasets.first().map_or(0, |dataset| dataset.chunkers.len());
    if found.datasets.len() > 1 || count == 1 {
        for (n, chunkers) in by_chunker(found) {
            let groups: Vec<_> = labels.iter().cloned().zip(chunkers.iter().copied()).collect();
            let title = chunker_name(&chunkers[0].settings);
            pair(body, (&format!("of-{n}"), &title, across), looks, &groups);
        }
    }
    if count > 1 {
        for (n, dataset) in found.datasets.iter().enumerate() {
            let same_sizes = dataset
                .chunkers
                .windows(2)
                .all(|two| sizes(&two[0].settings) == sizes(&two[1].settings));
            let label = |chunker: &LocalityChunker| match same_sizes {
                true => chunker.settings.name().to_owned(),
                false => chunker_name(&chunker.settings),
            };
            let groups: Vec<_> = dataset
                .chunkers
                .iter()
                .map(|chunker| (label(chunker), chunker))
                .collect();
            let title = escape(&data_name(dataset));
            pair(body, (&format!("in-{n}"), &title, "chunkers"), looks, &groups);
        }
    }
}

fn sizes(settings: &Settings) -> [usize; 3] {
    [settings.size_min(), settings.size_average(), settings.size_max()]
}

/// Figures 14 and 15.
fn lists(body: &mut String, found: &Locality, looks: &Looks) {
    let (across, labels) = labels(found);
    let key = looks
        .places
        .iter()
        .map(|series| format!("<span style=\"--swatch:{}\">{}</span>", series.color, series.name));
    let most = found
        .datasets
        .iter()
        .flat_map(|dataset| &dataset.chunkers)
        .flat_map(LocalityChunker::lists)
        .max();
    let key: String = key.take(most.unwrap_or(0)).collect();
    heading(
        body,
        "Places in the list of hints",
        "Of the chunks that follow a duplicate, the share whose end was the hint in this place of the list, with the longest lists.",
    );
    let _ = write!(body, "<div class=group><p class=key>{key}</p></div>");
    for (n, chunkers) in by_chunker(found) {
        // As the paper does, with the chunker's condition where it has one.
        let shown = |chunker: &&LocalityChunker| {
            let list = chunker.lists().into_iter().max().unwrap_or(0);
            let entries: Vec<&LocalityEntry> = chunker.with_list(list).collect();
            let window = entries.iter().find(|entry| entry.criterion == Criterion::Window);
            window.or(entries.last()).copied().cloned()
        };
        let mut criterion = "";
        let mut groups = Vec::new();
        for (label, chunker) in labels.iter().zip(&chunkers) {
            if let Some(entry) = shown(chunker) {
                criterion = entry.criterion.name();
                let bar = |place: usize| Bar {
                    series: &looks.places[place],
                    value: entry.run.hit_share(place),
                    tip: format!(
                        "place {} of {}\n{:.3}\u{a0}% of {} chunks after a duplicate",
                        place + 1,
                        entry.list,
                        entry.run.hit_share(place) * 100.0,
                        entry.run.followers
                    ),
                };
                groups.push(Group {
                    label: label.clone(),
                    bars: (0..entry.list).map(bar).collect(),
                });
            }
        }
        let name = chunker_name(&chunkers[0].settings);
        if !groups.is_empty() {
            let description = format!("Shares of hits by place in the list: {name}, {criterion}");
            let picture = bars(&format!("places-{n}"), &description, across, &groups, percent);
            figure(body, "panel", &format!("{name}, {criterion}"), "", &picture);
        }
    }
    let is_several = |chunker: &LocalityChunker| chunker.lists().len() > 1;
    if !found
        .datasets
        .iter()
        .flat_map(|dataset| &dataset.chunkers)
        .any(is_several)
    {
        return;
    }
    heading(
        body,
        "Length of lists",
        "How many times as fast as without hints boundaries are found with lists of several lengths.",
    );
    each(found, |id, title, chunker| {
        let groups: Vec<Group<'_>> = chunker
            .lists()
            .into_iter()
            .map(|list| Group {
                label: list.to_string(),
                bars: chunker
                    .with_list(list)
                    .map(|entry| {
                        let gain = chunker.chunking_gain(&entry.run);
                        looks.bar(entry.criterion.name(), gain, tip(chunker, entry))
                    })
                    .collect(),
            })
            .collect();
        let description = format!("Chunking, how many times as fast as plain, by length of lists: {title}");
        let picture = bars(
            &format!("lists-{id}"),
            &description,
            "hints for a chunk",
            &groups,
            times,
        );
        figure(body, "panel", title, "", &picture);
    });
}

/// Every chunker in every dataset, with a name for a picture's id and one for people.
fn each(found: &Locality, mut take: impl FnMut(&str, &str, &LocalityChunker)) {
    for (n, dataset) in found.datasets.iter().enumerate() {
        for (m, chunker) in dataset.chunkers.iter().enumerate() {
            let title = format!("{}, {}", chunker_name(&chunker.settings), escape(&data_name(dataset)));
            take(&format!("{n}-{m}"), &title, chunker);
        }
    }
}

/// Figure 12.
fn worst(body: &mut String, found: &Locality, looks: &Looks) {
    let (across, labels) = labels(found);
    let mut is_first = true;
    for (n, chunkers) in by_chunker(found) {
        let all = labels.iter().zip(&chunkers);
        let groups: Vec<Group<'_>> = all
            .map(|(label, chunker)| Group {
                label: label.clone(),
                bars: criteria(looks, chunker, |entry| chunker.worst_slowdown(entry)),
            })
            .collect();
        if groups.iter().all(|group| group.bars.is_empty()) {
            continue;
        }
        if std::mem::take(&mut is_first) {
            heading(
                body,
                "The worst that can happen",
                "How much slower boundaries are found than without hints if every hint is refused after its test, which no data brings about. Below zero is what measuring is off by.",
            );
        }
        let name = chunker_name(&chunkers[0].settings);
        let description = format!("Slowdown if every hint is refused: {name}");
        let picture = bars(&format!("worst-{n}"), &description, across, &groups, percent);
        figure(body, "panel", &name, "", &picture);
    }
}

/// Figure 16.
fn naming(body: &mut String, found: &Locality, looks: &Looks) {
    heading(
        body,
        "With names",
        "How many times as fast as without hints if chunks are named (BLAKE3) and looked up in memory, too: what is left is what hints can't save.",
    );
    let (across, labels) = labels(found);
    for (n, chunkers) in by_chunker(found) {
        let groups: Vec<Group<'_>> = labels
            .iter()
            .zip(&chunkers)
            .map(|(label, chunker)| Group {
                label: label.clone(),
                bars: criteria(looks, chunker, |entry| Some(chunker.total_gain(&entry.run))),
            })
            .collect();
        let name = chunker_name(&chunkers[0].settings);
        let description = format!("Chunking and naming, how many times as fast as plain: {name}");
        let picture = bars(&format!("naming-{n}"), &description, across, &groups, times);
        figure(body, "panel", &name, "", &picture);
    }
}

/// Figure 17.
fn stores(body: &mut String, found: &Locality, looks: &Looks) {
    if !found
        .datasets
        .iter()
        .flat_map(|dataset| &dataset.chunkers)
        .any(|chunker| !chunker.stores.is_empty())
    {
        return;
    }
    heading(
        body,
        "Into a store",
        "Read, cut, named, looked up, and what is new written to a file and synced. Fixed: all chunks of the average size. Ideal: the chunker's boundaries are known beforehand.",
    );
    each(found, |id, title, chunker| {
        let draw = |what: &str, value: &dyn Fn(&crate::StoreEntry) -> f64, label: fn(f64) -> String| {
            let groups: Vec<Group<'_>> = chunker
                .stores
                .iter()
                .map(|entry| {
                    let speed = entry.speed();
                    let name = entry.method.name();
                    let tip = format!(
                        "{name}\n{} GB/s\nratio {:.3}, {} stored",
                        gb(speed),
                        entry.ratio(),
                        size(entry.stored as f64)
                    );
                    Group {
                        label: name.to_owned(),
                        bars: vec![looks.bar(name, value(entry), tip)],
                    }
                })
                .collect();
            bars(
                &format!("{what}-{id}"),
                &format!("{what}: {title}"),
                "how boundaries are found",
                &groups,
                label,
            )
        };
        let speed = |entry: &crate::StoreEntry| entry.speed();
        figure(
            body,
            "panel",
            &format!("{title}: GB/s"),
            "",
            &draw("throughput", &speed, gb),
        );
        let ratio = |entry: &crate::StoreEntry| entry.ratio();
        figure(
            body,
            "panel",
            &format!("{title}: ratio"),
            "",
            &draw("stored", &ratio, times),
        );
    });
}

/// Figure 18.
fn threads(body: &mut String, found: &Locality, looks: &Looks) {
    if !found
        .datasets
        .iter()
        .flat_map(|dataset| &dataset.chunkers)
        .any(|chunker| !chunker.threads.is_empty())
    {
        return;
    }
    heading(
        body,
        "Several threads",
        "GB/s of all threads together, each cutting, naming and looking up a file of its own, over one table of chunks and hints.",
    );
    each(found, |id, title, chunker| {
        let mut counts: Vec<usize> = chunker.threads.iter().map(|entry| entry.threads).collect();
        counts.sort_unstable();
        counts.dedup();
        let groups: Vec<Group<'_>> = counts
            .into_iter()
            .map(|count| Group {
                label: count.to_string(),
                bars: chunker
                    .threads
                    .iter()
                    .filter(|entry| entry.threads == count)
                    .map(|entry| {
                        let speed = entry.speed();
                        let tip = format!(
                            "{}, {count} threads\n{} GB/s\nratio {:.3}",
                            entry.name(),
                            gb(speed),
                            entry.ratio()
                        );
                        looks.bar(entry.name(), speed, tip)
                    })
                    .collect(),
            })
            .collect();
        let description = format!("Throughput by number of threads: {title}");
        let picture = bars(&format!("threads-{id}"), &description, "threads", &groups, gb);
        figure(body, "panel", &format!("{title}: GB/s"), "", &picture);
    });
}

/// A table; `rows` have a name first.
fn table(titles: &[String], rows: &[Vec<String>]) -> String {
    let mut out = String::from("<div class=scroll><table><thead><tr>");
    for (n, title) in titles.iter().enumerate() {
        let _ = write!(
            out,
            "<th scope=col{}>{title}</th>",
            if n == 0 { " class=name" } else { "" }
        );
    }
    out += "</tr></thead><tbody>";
    for row in rows {
        out += "<tr>";
        for (n, cell) in row.iter().enumerate() {
            let _ = match n {
                0 => write!(out, "<th scope=row class=name>{cell}</th>"),
                _ => write!(out, "<td>{cell}</td>"),
            };
        }
        out += "</tr>";
    }
    out + "</tbody></table></div>"
}

fn tables(body: &mut String, found: &Locality) {
    each(found, |_, title, chunker| {
        for list in chunker.lists() {
            let _ = write!(
                body,
                "<section><h2>{title}, lists of {list}</h2>{}</section>",
                criteria_table(chunker, list)
            );
        }
        if !chunker.threads.is_empty() {
            let _ = write!(
                body,
                "<section><h2>{title}, threads</h2>{}</section>",
                threads_table(chunker)
            );
        }
        if !chunker.stores.is_empty() {
            let _ = write!(
                body,
                "<section><h2>{title}, into a store</h2>{}</section>",
                stores_table(chunker)
            );
        }
    });
    *body += "<p class=note>GB are 10⁹ bytes. By hints: the share of all chunks that were cut off where a hint said. 1st, 2nd, …: of the chunks after a duplicate, the share whose end was \
              the hint in that place. Refused: hints that were tried and not accepted. Beside: chunks that were found without a search in the table, beside the one before. Memory: of the table, with hints. CPUs: processor time by time; less than the threads if others had the processors.</p>";
}

fn criteria_table(chunker: &LocalityChunker, list: usize) -> String {
    let mut titles: Vec<String> = [
        "",
        "chunking, GB/s",
        "times plain",
        "if all refused",
        "ratio",
        "by hints",
    ]
    .map(str::to_owned)
    .into();
    titles.extend((1..=list).map(|n| format!("place {n}")));
    let rest = [
        "refused",
        "with BLAKE3, GB/s",
        "times plain",
        "searches",
        "beside",
        "memory",
    ];
    titles.extend(rest.map(str::to_owned));
    let row = |name: &str, run: &LocalityRun, worst: Option<f64>| {
        let mut cells = vec![
            name.to_owned(),
            gb(run.chunking_speed()),
            format!("{:.2}", chunker.chunking_gain(run)),
            worst.map_or("–".to_owned(), |share| format!("{:+.1}\u{a0}%", share * 100.0)),
            format!("{:.3}", run.ratio()),
            percent(run.tally.hinted() as f64 / run.tally.chunks.max(1) as f64),
        ];
        cells.extend((0..list).map(|place| format!("{:.2}\u{a0}%", run.hit_share(place) * 100.0)));
        cells.extend([
            run.tally.refused.to_string(),
            gb(run.total_speed()),
            format!("{:.2}", chunker.total_gain(run)),
            run.searches.to_string(),
            run.neighbours.to_string(),
            size(run.memory as f64),
        ]);
        cells
    };
    let mut rows = vec![row("plain", &chunker.plain, None)];
    let entries = chunker.with_list(list);
    rows.extend(entries.map(|entry| row(entry.criterion.name(), &entry.run, chunker.worst_slowdown(entry))));
    let columns = titles.len();
    rows.extend(chunker.left_out.iter().map(|criterion| {
        let mut cells = vec![criterion.name().to_owned()];
        cells.resize(columns, "–".to_owned());
        cells
    }));
    table(&titles, &rows)
}

fn threads_table(chunker: &LocalityChunker) -> String {
    let titles = ["", "threads", "GB/s", "times one", "CPUs", "ratio"].map(str::to_owned);
    let rows: Vec<Vec<String>> = chunker
        .threads
        .iter()
        .map(|entry| {
            vec![
                entry.name().to_owned(),
                entry.threads.to_string(),
                gb(entry.speed()),
                chunker
                    .threads_gain(entry)
                    .map_or("–".to_owned(), |gain| format!("{gain:.2}")),
                format!("{:.2}", entry.cpu_seconds / entry.seconds.max(1e-9)),
                format!("{:.3}", entry.ratio()),
            ]
        })
        .collect();
    table(&titles, &rows)
}

fn stores_table(chunker: &LocalityChunker) -> String {
    let titles = ["", "GB/s", "times plain", "CPUs", "ratio", "stored"].map(str::to_owned);
    let rows: Vec<Vec<String>> = chunker
        .stores
        .iter()
        .map(|entry| {
            vec![
                entry.method.name().to_owned(),
                gb(entry.speed()),
                chunker
                    .store_gain(entry)
                    .map_or("–".to_owned(), |gain| format!("{gain:.2}")),
                format!("{:.2}", entry.cpu_seconds / entry.seconds.max(1e-9)),
                format!("{:.3}", entry.ratio()),
                size(entry.stored as f64),
            ]
        })
        .collect();
    table(&titles, &rows)
}
