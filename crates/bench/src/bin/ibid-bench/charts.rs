//! The charts of README and of the aging of repositories, drawn from run files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::aging::{self, Aging};
use crate::card::{self, MARGIN, WIDTH, text};
use crate::hours;
use crate::record::{self, CorpusInfo, Outcome, Repositories};
use crate::summary::{BACKUP_CPU, REPOSITORY_SIZE};

#[derive(Debug, Args)]
#[command(after_help = "\
The picture has a panel for each corpus: the size of each tool's repository after all versions, and the CPU time that \
the backups took. If several files have the same corpus, the first one counts. Files of `aging` give sizes over \
time instead, and the first of `hours` size, memory and latency.

Examples:
  ibid-bench charts run.json --out size.svg")]
pub(crate) struct Options {
    /// Run files that `repositories --json`, `aging --json` or `hours --json` wrote
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the picture into this file, as SVG
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Draws the chart: that of the first file's experiment.
pub(crate) fn run(options: &Options) -> Result<()> {
    let first = options.files.first().context("a file is required")?;
    let picture = match record::read(first)?.outcome {
        Outcome::Aging(_) => aging::draw(&all_aging(&options.files)?),
        Outcome::Hours(found) => hours::draw(&found),
        _ => draw(&panels(&options.files)?),
    };
    std::fs::write(&options.out, picture).with_context(|| format!("writing {}", options.out.display()))
}

/// Returns the series of all files, with the tools of the first.
fn all_aging(files: &[PathBuf]) -> Result<Aging> {
    let mut all: Option<Aging> = None;
    for file in files {
        let Outcome::Aging(found) = record::read(file)?.outcome else {
            bail!("{} is not a run of `aging`", file.display());
        };
        match &mut all {
            Some(all) => all.series.extend(found.series),
            None => all = Some(found),
        }
    }
    all.context("a file is required")
}

/// The panel of one corpus.
struct Panel {
    name: String,
    about: String,
    bars: Vec<Bar>,
}

/// The bar of one tool.
struct Bar {
    tool: String,
    megabytes: f64,
    cpu_s: f64,
}

fn panels(files: &[PathBuf]) -> Result<Vec<Panel>> {
    let mut panels: Vec<Panel> = Vec::new();
    for file in files {
        let found = repositories(file)?;
        for corpus in &found.corpora {
            if panels.iter().all(|panel| panel.name != corpus.name) {
                panels.push(panel(&found, corpus));
            }
        }
    }
    ensure!(!panels.is_empty(), "there is no corpus in these files");
    Ok(panels)
}

fn repositories(file: &Path) -> Result<Repositories> {
    match record::read(file)?.outcome {
        Outcome::Repositories(found) => Ok(found),
        _ => bail!("{} is not a run of `repositories`", file.display()),
    }
}

fn panel(found: &Repositories, corpus: &CorpusInfo) -> Panel {
    let median = |measure: &str, tool: &str| {
        let row = found
            .results
            .iter()
            .find(|row| row.corpus == corpus.name && row.measure == measure)?;
        row.medians.get(tool).copied()
    };
    let bar = |tool: &String| {
        Some(Bar {
            tool: tool.clone(),
            megabytes: median(REPOSITORY_SIZE, tool)?,
            cpu_s: median(BACKUP_CPU, tool)?,
        })
    };
    Panel {
        name: corpus.name.clone(),
        about: format!("{}, {:.2} GB", describe(corpus), corpus.bytes as f64 / 1e9),
        bars: found.tools.iter().filter_map(|tool| bar(&tool.label)).collect(),
    }
}

/// Describes the contents of the corpora of `crates/bench/corpora`.
fn describe(corpus: &CorpusInfo) -> String {
    let versions = corpus.versions;
    match corpus.name.as_str() {
        "lnx" => format!("{versions} source trees as tar files"),
        "rds" => format!("{versions} dumps of Redis"),
        "pg" => format!("{versions} PostgreSQL data directories"),
        "trees" => format!("{versions} source trees, unpacked"),
        _ => format!("{versions} versions"),
    }
}

/// The gap between two panels side by side.
const GAP: f64 = 40.0;
const PANEL: f64 = (WIDTH - 2.0 * MARGIN - GAP) / 2.0;
/// The height of title and subtitle, above the first panel.
const HEAD: f64 = 74.0;
const PANEL_HEAD: f64 = 44.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;
/// The widths of a panel's columns: names of tools, bars, CPU times.
const NAMES: f64 = 68.0;
const CPU: f64 = 66.0;
/// The space beside the longest bar for its value.
const VALUE: f64 = 62.0;

fn draw(panels: &[Panel]) -> String {
    let rows = panels.iter().map(|panel| panel.bars.len()).max().unwrap_or(0);
    let panel_height = PANEL_HEAD + rows as f64 * ROW + 18.0;
    let height = HEAD + panels.len().div_ceil(2) as f64 * panel_height + 10.0;
    let title = "Size of the repository after all versions";
    card::draw(height, title, &description(panels), |svg| {
        text(svg, "title", MARGIN, 34.0, &format!("{title}, MB"));
        let subtitle = "shorter is better; on the right: CPU time of all backups";
        text(svg, "muted", MARGIN, 54.0, subtitle);
        for (at, panel) in panels.iter().enumerate() {
            let x = MARGIN + (at % 2) as f64 * (PANEL + GAP);
            let y = HEAD + (at / 2) as f64 * panel_height;
            draw_panel(svg, panel, x, y);
        }
    })
}

fn draw_panel(svg: &mut String, panel: &Panel, x: f64, y: f64) {
    let _ = writeln!(
        svg,
        "<text class=\"name\" x=\"{x}\" y=\"{}\">{} <tspan class=\"muted small\" font-weight=\"400\">{}</tspan></text>",
        y + 24.0,
        panel.name,
        panel.about
    );
    let longest = panel.bars.iter().map(|bar| bar.megabytes).fold(0.0, f64::max);
    let scale = (PANEL - NAMES - VALUE - CPU) / longest.max(f64::MIN_POSITIVE);
    for (row, bar) in panel.bars.iter().enumerate() {
        let top = y + PANEL_HEAD + row as f64 * ROW;
        let baseline = top + 12.5;
        let (kind, ours) = if bar.tool == "ibid" {
            ("ours", "ours")
        } else {
            ("bar", "")
        };
        text(svg, &format!("{ours} end"), x + NAMES - 8.0, baseline, &bar.tool);
        let length = bar.megabytes * scale;
        let _ = writeln!(
            svg,
            "<rect class=\"{kind}\" x=\"{}\" y=\"{top}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"2\"/>",
            x + NAMES
        );
        let value = format!("{:.1}", bar.megabytes);
        text(svg, ours, (x + NAMES + length + 6.0).round(), baseline, &value);
        let cpu = format!("{:.0} s", bar.cpu_s);
        text(svg, "muted small end", x + PANEL, baseline, &cpu);
    }
}

/// Returns the numbers as text, for readers who cannot see the chart.
fn description(panels: &[Panel]) -> String {
    let bar = |bar: &Bar| format!("{} {:.1} MB, {:.0} s", bar.tool, bar.megabytes, bar.cpu_s);
    let panel = |panel: &Panel| {
        let bars: Vec<String> = panel.bars.iter().map(bar).collect();
        format!("{} ({}): {}.", panel.name, panel.about, bars.join("; "))
    };
    panels.iter().map(panel).collect::<Vec<_>>().join(" ")
}
