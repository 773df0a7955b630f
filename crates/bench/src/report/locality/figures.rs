//! The charts about boundary hints.

use std::fmt::Write;

use ibid_chunk::Settings;
use ibid_chunk::locality::Criterion;

use super::super::bars::{Bar, Group, bars};
use super::super::charts::WIDTH;
use super::super::plot::escape;
use super::super::{figure, gb, heading, percent, size, times};
use super::{Looks, by_chunker, chunker_name, data_name, each, first_list, labels, plain_tip, tip};
use crate::{Locality, LocalityChunker, LocalityEntry, StoreEntry};

/// Draws all charts that have data.
pub(super) fn draw(body: &mut String, found: &Locality, looks: &Looks) {
    let figures = [chunking, places, lengths, worst, naming, stores, threads];
    figures.into_iter().for_each(|figure| figure(body, found, looks));
}

/// Draws bars of chunking speed-ups, or of other values.
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

/// Draws a pair of charts: speed-ups and ratios.
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
        WIDTH,
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
        WIDTH,
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
        "How many times as fast as without hints boundaries are found, and how many times less is stored. Naming \
         chunks and looking them up, which every \
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

/// Figure 14.
fn places(body: &mut String, found: &Locality, looks: &Looks) {
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
        "Of the chunks that follow a duplicate, the share whose end was the hint in this place of the list, with the \
         longest lists.",
    );
    let _ = write!(body, "<div class=group><p class=key>{key}</p></div>");
    for (n, chunkers) in by_chunker(found) {
        // As in the paper, with the chunker's condition if it has one.
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
            let picture = bars(WIDTH, &format!("places-{n}"), &description, across, &groups, percent);
            figure(body, "panel", &format!("{name}, {criterion}"), "", &picture);
        }
    }
}

/// Figure 15.
fn lengths(body: &mut String, found: &Locality, looks: &Looks) {
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
            WIDTH,
            &format!("lists-{id}"),
            &description,
            "hints for a chunk",
            &groups,
            times,
        );
        figure(body, "panel", title, "", &picture);
    });
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
                "How much slower boundaries are found than without hints if every hint is refused after its test, \
                 which no data brings about. Below zero is what measuring is off by.",
            );
        }
        let name = chunker_name(&chunkers[0].settings);
        let description = format!("Slowdown if every hint is refused: {name}");
        let picture = bars(WIDTH, &format!("worst-{n}"), &description, across, &groups, percent);
        figure(body, "panel", &name, "", &picture);
    }
}

/// Figure 16.
fn naming(body: &mut String, found: &Locality, looks: &Looks) {
    heading(
        body,
        "With names",
        "How many times as fast as without hints if chunks are named (BLAKE3) and looked up in memory, too: what is \
         left is what hints can't save.",
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
        let picture = bars(WIDTH, &format!("naming-{n}"), &description, across, &groups, times);
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
        "Read, cut, named, looked up, and what is new written to a file and synced. Fixed: all chunks of the average \
         size. Ideal: the chunker's boundaries are known beforehand.",
    );
    each(found, |id, title, chunker| {
        let draw = |what: &str, value: &dyn Fn(&StoreEntry) -> f64, label: fn(f64) -> String| {
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
                WIDTH,
                &format!("{what}-{id}"),
                &format!("{what}: {title}"),
                "how boundaries are found",
                &groups,
                label,
            )
        };
        let speed = |entry: &StoreEntry| entry.speed();
        figure(
            body,
            "panel",
            &format!("{title}: GB/s"),
            "",
            &draw("throughput", &speed, gb),
        );
        let ratio = |entry: &StoreEntry| entry.ratio();
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
        "GB/s of all threads together, each cutting, naming and looking up a file of its own, over one table of chunks \
         and hints.",
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
        let picture = bars(WIDTH, &format!("threads-{id}"), &description, "threads", &groups, gb);
        figure(body, "panel", &format!("{title}: GB/s"), "", &picture);
    });
}
