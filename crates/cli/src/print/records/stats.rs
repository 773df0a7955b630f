//! Prints `records stats`.

use ibid_record::{
    Amount, Bucket, IndexStatistics, NamespaceCounts, NamespaceStatistics, Retrievals, Statistics, Unique,
};
use ibid_repo::Result;
use ibid_terminal::escape;
use ibid_terminal::number::{count, counted, size};
use ibid_terminal::{Align, Table};
use serde::Serialize;

use super::super::Out;
use super::versions_word;

/// The name of the pieces of long bodies in tables.
const PIECES: &str = "(pieces of long bodies)";

/// Contents and size of a store.
#[derive(Debug)]
pub(crate) struct StoreStats {
    pub(crate) found: Statistics,
    /// Whether each namespace keeps versions although practically no key has a second one.
    pub(crate) unique_keys: Vec<bool>,
    /// Bytes of all files of the store.
    pub(crate) file_bytes: u64,
}

/// Counts of one namespace, or of all.
#[derive(Clone, Copy, Default, Serialize)]
struct Counts {
    keys: u64,
    deleted_keys: u64,
    purged_versions: u64,
    records: u64,
    bytes: u64,
    latest_bytes: u64,
    stored_bytes: u64,
}

impl Counts {
    fn of(counts: &NamespaceCounts) -> Counts {
        Counts {
            keys: counts.keys,
            deleted_keys: counts.keys_deleted,
            purged_versions: counts.purged,
            records: counts.records,
            bytes: counts.body_bytes,
            latest_bytes: counts.latest_body_bytes,
            stored_bytes: counts.stored_bytes,
        }
    }

    fn of_statistics(found: &NamespaceStatistics) -> Counts {
        Counts {
            keys: found.keys,
            deleted_keys: found.keys_deleted,
            purged_versions: found.purged,
            records: found.records.count,
            bytes: found.records.bytes,
            latest_bytes: found.latest.bytes,
            stored_bytes: found.stored_bytes(),
        }
    }

    fn plus(self, other: Counts) -> Counts {
        Counts {
            keys: self.keys + other.keys,
            deleted_keys: self.deleted_keys + other.deleted_keys,
            purged_versions: self.purged_versions + other.purged_versions,
            records: self.records + other.records,
            bytes: self.bytes + other.bytes,
            latest_bytes: self.latest_bytes + other.latest_bytes,
            stored_bytes: self.stored_bytes + other.stored_bytes,
        }
    }

    fn row(self, name: String, versions: &str) -> Vec<String> {
        vec![
            name,
            versions.to_owned(),
            count(self.keys),
            count(self.deleted_keys),
            count(self.purged_versions),
            count(self.records),
            size(self.bytes),
            size(self.latest_bytes),
            size(self.stored_bytes),
        ]
    }
}

/// A namespace.
#[derive(Serialize)]
pub(super) struct JsonNamespace<'n> {
    namespace: &'n str,
    versions: &'static str,
    #[serde(flatten)]
    counts: Counts,
}

pub(super) fn json_namespaces(namespaces: &[NamespaceCounts]) -> Vec<JsonNamespace<'_>> {
    let json = |namespace| JsonNamespace::new(namespace);
    namespaces.iter().map(json).collect()
}

impl JsonNamespace<'_> {
    fn new(counts: &NamespaceCounts) -> JsonNamespace<'_> {
        JsonNamespace {
            namespace: &counts.name,
            versions: versions_word(counts.versions),
            counts: Counts::of(counts),
        }
    }
}

#[derive(Serialize)]
struct JsonAmount {
    count: u64,
    bytes: u64,
}

impl From<Amount> for JsonAmount {
    fn from(amount: Amount) -> JsonAmount {
        let Amount { count, bytes } = amount;
        JsonAmount { count, bytes }
    }
}

#[derive(Serialize)]
struct JsonBucket {
    from: u64,
    to: u64,
    records: u64,
}

#[derive(Serialize)]
struct JsonRetrievals {
    mean: Option<f64>,
    max: u64,
    histogram: Vec<JsonBucket>,
}

impl From<&Retrievals> for JsonRetrievals {
    fn from(retrievals: &Retrievals) -> JsonRetrievals {
        let bucket = |Bucket { from, to, records }| JsonBucket { from, to, records };
        JsonRetrievals {
            mean: retrievals.mean(),
            max: retrievals.max(),
            histogram: retrievals.buckets().map(bucket).collect(),
        }
    }
}

/// All counts of a namespace.
#[derive(Serialize)]
struct JsonNamespaceStats<'n> {
    #[serde(flatten)]
    counted: JsonNamespace<'n>,
    latest_as: String,
    unique_keys: bool,
    deletions: u64,
    whole: JsonAmount,
    deltas: JsonAmount,
    obsolete: JsonAmount,
    in_blocks: JsonAmount,
    unencoded: u64,
    retrievals: JsonRetrievals,
    latest_retrievals: JsonRetrievals,
    encoding_stopped: bool,
    search_stopped: bool,
    chains: u64,
    chain_longest: u64,
    index_entries: u64,
    index_bytes_min: u64,
    indexes: Vec<JsonIndex<'n>>,
}

/// An index by which keys are found.
#[derive(Serialize)]
struct JsonIndex<'n> {
    index: &'n str,
    unique: bool,
    values: JsonAmount,
}

impl<'n> JsonIndex<'n> {
    fn new(found: &'n IndexStatistics) -> JsonIndex<'n> {
        JsonIndex {
            index: &found.name,
            unique: found.unique == Unique::Yes,
            values: found.values.into(),
        }
    }
}

impl<'n> JsonNamespaceStats<'n> {
    fn new((found, &unique_keys): (&'n NamespaceStatistics, &bool)) -> JsonNamespaceStats<'n> {
        JsonNamespaceStats {
            counted: JsonNamespace {
                namespace: &found.name,
                versions: versions_word(found.versions),
                counts: Counts::of_statistics(found),
            },
            latest_as: found.latest_as.to_string(),
            unique_keys,
            deletions: found.deletions,
            whole: found.whole.into(),
            deltas: found.deltas.into(),
            obsolete: found.obsolete.into(),
            in_blocks: found.in_blocks.into(),
            unencoded: found.unencoded,
            retrievals: (&found.retrievals).into(),
            latest_retrievals: (&found.latest_retrievals).into(),
            encoding_stopped: found.encoding_stopped,
            search_stopped: found.search_stopped,
            chains: found.chains,
            chain_longest: found.chain_longest,
            index_entries: found.index_entries,
            index_bytes_min: found.index_bytes_min(),
            indexes: found.indexes.iter().map(JsonIndex::new).collect(),
        }
    }
}

/// The pieces of long bodies of all namespaces, and their lists.
#[derive(Serialize)]
struct JsonPieces {
    count: u64,
    bytes: u64,
    stored_bytes: u64,
    whole: JsonAmount,
    deltas: JsonAmount,
    obsolete: JsonAmount,
    in_blocks: JsonAmount,
    unencoded: u64,
}

impl From<&NamespaceStatistics> for JsonPieces {
    fn from(found: &NamespaceStatistics) -> JsonPieces {
        JsonPieces {
            count: found.records.count,
            bytes: found.records.bytes,
            stored_bytes: found.stored_bytes(),
            whole: found.whole.into(),
            deltas: found.deltas.into(),
            obsolete: found.obsolete.into(),
            in_blocks: found.in_blocks.into(),
            unencoded: found.unencoded,
        }
    }
}

#[derive(Serialize)]
struct JsonStats<'s> {
    namespaces: Vec<JsonNamespaceStats<'s>>,
    total: Counts,
    pieces: Option<JsonPieces>,
    blocks: JsonAmount,
    file_bytes: u64,
    faults: u64,
}

pub(crate) fn records_stats(out: &mut Out, stats: &StoreStats) -> Result<()> {
    let StoreStats {
        found,
        unique_keys,
        file_bytes,
    } = stats;
    let all = found.namespaces.iter().map(Counts::of_statistics);
    let mut total = all.fold(Counts::default(), Counts::plus);
    let pieces = found.pieces.as_ref();
    total.stored_bytes += pieces.map_or(0, NamespaceStatistics::stored_bytes);
    if out.json {
        let body = JsonStats {
            namespaces: found
                .namespaces
                .iter()
                .zip(unique_keys)
                .map(JsonNamespaceStats::new)
                .collect(),
            total,
            pieces: pieces.map(JsonPieces::from),
            blocks: found.blocks.into(),
            file_bytes: *file_bytes,
            faults: found.damaged,
        };
        return out.document("records stats", None, &body);
    }
    let spaces = &found.namespaces[..];
    print_table(out, "", counts_table(spaces, pieces, total))?;
    print_table(out, "\nhow records are stored", stored_table(spaces, pieces))?;
    print_table(out, "\nothers that are read for one record", retrievals_table(spaces))?;
    print_table(
        out,
        "\nchains of similar records, and the index of their newest",
        chains_table(spaces),
    )?;
    if spaces.iter().any(|space| !space.indexes.is_empty()) {
        print_table(out, "\nindexes by which keys are found", indexes_table(spaces))?;
    }
    let blocks = counted(found.blocks.count, "block", "blocks");
    out.line(format!(
        "\n{blocks} of records compressed together, {}",
        size(found.blocks.bytes)
    ))?;
    out.line(format!("on disk: {}", size(*file_bytes)))?;
    if found.damaged > 0 {
        out.line(format!(
            "FOUND {}, which are not counted. Run `ibid records verify` to name them",
            counted(found.damaged, "damaged entry", "damaged entries")
        ))?;
    }
    Ok(())
}

fn print_table(out: &mut Out, title: &str, table: Table) -> Result<()> {
    if !title.is_empty() {
        out.line(title)?;
    }
    table.lines().try_for_each(|line| out.line(line))
}

fn counts_table(spaces: &[NamespaceStatistics], pieces: Option<&NamespaceStatistics>, total: Counts) -> Table {
    let mut table = Table::new(&[
        ("namespace", Align::Left),
        ("versions", Align::Left),
        ("keys", Align::Right),
        ("deleted", Align::Right),
        ("purged", Align::Right),
        ("records", Align::Right),
        ("bodies", Align::Right),
        ("latest", Align::Right),
        ("stored", Align::Right),
    ]);
    for space in spaces {
        let counts = Counts::of_statistics(space);
        table.row(counts.row(escape(space.name.as_bytes()), versions_word(space.versions)));
    }
    if let Some(pieces) = pieces {
        let mut row = vec![PIECES.to_owned()];
        row.resize(8, String::new());
        row.push(size(pieces.stored_bytes()));
        table.row(row);
    }
    table.row(total.row("in all".to_owned(), ""));
    table
}

fn stored_table(spaces: &[NamespaceStatistics], pieces: Option<&NamespaceStatistics>) -> Table {
    let mut table = Table::new(&[
        ("namespace", Align::Left),
        ("whole", Align::Right),
        ("", Align::Right),
        ("deltas", Align::Right),
        ("", Align::Right),
        ("obsolete", Align::Right),
        ("", Align::Right),
        ("in blocks", Align::Right),
        ("", Align::Right),
        ("not examined yet", Align::Right),
    ]);
    let name = |space: &NamespaceStatistics| escape(space.name.as_bytes());
    let named = spaces.iter().map(|space| (name(space), space));
    for (name, space) in named.chain(pieces.map(|pieces| (PIECES.to_owned(), pieces))) {
        let mut row = vec![name];
        for amount in [space.whole, space.deltas, space.obsolete, space.in_blocks] {
            row.extend([count(amount.count), size(amount.bytes)]);
        }
        row.push(count(space.unencoded));
        table.row(row);
    }
    table
}

/// Builds a table with one column for each bar of the longest histogram.
fn retrievals_table(spaces: &[NamespaceStatistics]) -> Table {
    let bars = |space: &NamespaceStatistics| space.retrievals.buckets().collect::<Vec<Bucket>>();
    let longest = spaces.iter().map(bars).max_by_key(Vec::len).unwrap_or_default();
    let titles: Vec<String> = longest.iter().map(bar_title).collect();
    let mut header = vec![
        ("namespace", Align::Left),
        ("", Align::Left),
        ("mean", Align::Right),
        ("most", Align::Right),
    ];
    header.extend(titles.iter().map(|title| (&title[..], Align::Right)));
    let mut table = Table::new(&header);
    for space in spaces {
        let name = escape(space.name.as_bytes());
        for (name, which, retrievals) in [
            (name, "all", &space.retrievals),
            (String::new(), "latest", &space.latest_retrievals),
        ] {
            let mean = retrievals.mean().map_or("–".to_owned(), |mean| format!("{mean:.1}"));
            let mut row = vec![name, which.to_owned(), mean, count(retrievals.max())];
            row.extend(retrievals.buckets().map(|bucket| count(bucket.records)));
            row.resize(header.len(), String::new());
            table.row(row);
        }
    }
    table
}

fn bar_title(bucket: &Bucket) -> String {
    match (bucket.from, bucket.to) {
        (from, to) if from == to => from.to_string(),
        (from, to) => format!("{from}–{to}"),
    }
}

fn indexes_table(spaces: &[NamespaceStatistics]) -> Table {
    let mut table = Table::new(&[
        ("namespace", Align::Left),
        ("index", Align::Left),
        ("", Align::Left),
        ("values", Align::Right),
        ("", Align::Right),
    ]);
    for space in spaces {
        for index in &space.indexes {
            table.row(vec![
                escape(space.name.as_bytes()),
                escape(index.name.as_bytes()),
                index.unique.to_string(),
                count(index.values.count),
                size(index.values.bytes),
            ]);
        }
    }
    table
}

fn chains_table(spaces: &[NamespaceStatistics]) -> Table {
    let mut table = Table::new(&[
        ("namespace", Align::Left),
        ("chains", Align::Right),
        ("longest", Align::Right),
        ("index entries", Align::Right),
        ("memory, at least", Align::Right),
        ("", Align::Left),
    ]);
    for space in spaces {
        table.row(vec![
            escape(space.name.as_bytes()),
            count(space.chains),
            count(space.chain_longest),
            count(space.index_entries),
            size(space.index_bytes_min()),
            match (space.encoding_stopped, space.search_stopped) {
                (true, _) => "stopped: deltas saved too little".to_owned(),
                (false, true) => "of versions only: of other keys, deltas saved too little".to_owned(),
                (false, false) => String::new(),
            },
        ]);
    }
    table
}
