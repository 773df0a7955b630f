//! The command lines of the programs: a backup of a day, `forget` by rules, `prune`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use jiff::ToSpan;
use jiff::civil::{Date, date};
use serde_json::Value;

use crate::measure;
use crate::tools::{Kind, Task, Tool};

/// The day of the first backup; every backup is at noon, UTC.
pub(super) const FIRST_DAY: Date = date(2026, 1, 1);

/// What is kept, in the words of all three programs.
const RULES: [&str; 6] = ["--keep-daily", "7", "--keep-weekly", "4", "--keep-monthly", "6"];

/// A program that forgets and prunes.
pub(super) struct Program {
    tool: Tool,
}

impl Program {
    /// Returns the program with its defaults; fails for those that are not compared.
    pub(super) fn new(kind: Kind, ibid: &Path) -> Result<Program> {
        match kind {
            Kind::Ibid | Kind::Restic | Kind::Borg => Ok(Program { tool: kind.tool(ibid) }),
            _ => bail!(
                "{} is not compared here: ibid, restic and borg are",
                kind.tool(ibid).label
            ),
        }
    }

    pub(super) fn label(&self) -> &str {
        &self.tool.label
    }

    pub(super) fn version(&self) -> Result<String> {
        self.tool.version()
    }

    pub(super) fn is_ibid(&self) -> bool {
        self.tool.kind == Kind::Ibid
    }

    pub(super) fn repository(&self, work: &Path) -> PathBuf {
        self.tool.repository(work)
    }

    pub(super) fn init(&self, work: &Path) -> Command {
        self.command(Task::Init, work)
    }

    /// Returns the command that lists the snapshots for people.
    pub(super) fn open(&self, work: &Path) -> Command {
        self.command(Task::Open, work)
    }

    pub(super) fn backup(&self, work: &Path, source: &Path, day: u32) -> Command {
        let date = date_of(day);
        let mut command = self.command(Task::Configure, work);
        match self.tool.kind {
            Kind::Restic => command.args(["backup", "--time", &format!("{date} 12:00:00")]),
            Kind::Borg => command
                .args(["create", "--compression", "zstd,3", "--timestamp"])
                .arg(format!("{date}T12:00:00"))
                .arg(self.archive(work, &format!("{date}"))),
            _ => command.args(["backup", "--time", &format!("{date}T12:00:00Z")]),
        };
        command.arg(source);
        command
    }

    /// Returns the command that forgets what no rule keeps, and frees nothing.
    pub(super) fn forget(&self, work: &Path) -> Command {
        let mut command = self.command(Task::Configure, work);
        match self.tool.kind {
            Kind::Restic => command.arg("forget").args(RULES),
            Kind::Borg => command.arg("prune").args(RULES).arg(self.repository(work)),
            _ => command.args(["forget", "--yes"]).args(RULES),
        };
        command
    }

    /// Returns the command that frees what was forgotten.
    pub(super) fn prune(&self, work: &Path) -> Command {
        let mut command = self.command(Task::Configure, work);
        match self.tool.kind {
            Kind::Restic => command.arg("prune"),
            Kind::Borg => command.arg("compact").arg(self.repository(work)),
            _ => command.args(["prune", "--json"]),
        };
        command
    }

    pub(super) fn restore(&self, work: &Path, snapshot: &str, out: &Path) -> Command {
        let mut command = self.command(Task::Configure, work);
        match self.tool.kind {
            Kind::Restic => command.args(["restore", snapshot, "--target"]).arg(out),
            Kind::Borg => command
                .current_dir(out)
                .arg("extract")
                .arg(self.archive(work, snapshot)),
            _ => command.args(["restore", snapshot]).arg(out),
        };
        command
    }

    /// Returns the snapshots, oldest first: the day of each, and how [`Program::restore`] calls it.
    pub(super) fn snapshots(&self, work: &Path) -> Result<Vec<(u32, String)>> {
        let mut command = self.command(Task::Configure, work);
        match self.tool.kind {
            Kind::Borg => command.args(["list", "--json"]).arg(self.repository(work)),
            _ => command.args(["snapshots", "--json"]),
        };
        let (_, text) = measure::run_printing(&mut command, self.label(), work)?;
        let unexpected = || format!("{} lists its snapshots in an unknown way", self.label());
        let mut found = Vec::new();
        for line in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
            let line = line.with_context(unexpected)?;
            let list = line.as_array().or_else(|| line["archives"].as_array());
            for snapshot in list.map_or(std::slice::from_ref(&line), Vec::as_slice) {
                // ibid prints a line before the snapshots and another after them.
                let Some(time) = snapshot["time"].as_str() else {
                    continue;
                };
                let name = snapshot["name"].as_str().or_else(|| snapshot["id"].as_str());
                found.push((day_of(time)?, name.with_context(unexpected)?.to_owned()));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Returns a command that keeps what it caches in `work`.
    fn command(&self, task: Task<'_>, work: &Path) -> Command {
        let mut command = self.tool.command(task, work);
        // restic and borg take times as local ones.
        command.env("TZ", "UTC");
        if self.is_ibid() {
            command.arg("--cache-dir").arg(work.join("ibid-cache"));
        }
        command
    }

    fn archive(&self, work: &Path, name: &str) -> OsString {
        let mut archive = self.repository(work).into_os_string();
        archive.push("::");
        archive.push(name);
        archive
    }
}

/// Returns the date of a day, which counts from 1.
fn date_of(day: u32) -> Date {
    FIRST_DAY.saturating_add((i64::from(day) - 1).days())
}

/// Returns the day of a time that begins with a date.
fn day_of(time: &str) -> Result<u32> {
    let date: Date = time
        .get(..10)
        .and_then(|text| text.parse().ok())
        .with_context(|| format!("{time:?} is no time"))?;
    let days = FIRST_DAY.until(date)?.get_days();
    let day = u32::try_from(days + 1).ok().filter(|day| *day > 0);
    day.with_context(|| format!("{time:?} is before the first day"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        assert_eq!(date_of(1).to_string(), "2026-01-01");
        assert_eq!(date_of(200).to_string(), "2026-07-19");
        for day in [1, 31, 32, 60, 200, 300] {
            assert_eq!(day_of(&format!("{}T12:00:00Z", date_of(day))).unwrap(), day);
        }
        assert!(day_of("2025-12-31T12:00:00Z").is_err());
        assert!(day_of("soon").is_err());
    }

    #[test]
    fn commands_are_those_of_the_document() {
        let work = Path::new("/w/x");
        let program = |kind| Program::new(kind, Path::new("/bin/ibid")).unwrap();
        let line = |command: Command| {
            let text = crate::tools::shown(&command, work);
            text.split_once("TZ=UTC ").expect("the time zone is given").1.to_owned()
        };
        let source = Path::new("/w/x/current");
        assert_eq!(
            line(program(Kind::Ibid).backup(work, source, 2)),
            "ibid -r $WORK/ibid-repository --cache-dir $WORK/ibid-cache backup --time 2026-01-02T12:00:00Z \
             $WORK/current"
        );
        assert_eq!(
            line(program(Kind::Restic).backup(work, source, 2)),
            "restic -r $WORK/restic-repository backup --time 2026-01-02 12:00:00 $WORK/current"
        );
        assert_eq!(
            line(program(Kind::Borg).backup(work, source, 2)),
            "borg create --compression zstd,3 --timestamp 2026-01-02T12:00:00 \
             $WORK/borg-repository::2026-01-02 $WORK/current"
        );
        assert_eq!(
            line(program(Kind::Borg).forget(work)),
            "borg prune --keep-daily 7 --keep-weekly 4 --keep-monthly 6 $WORK/borg-repository"
        );
        assert!(Program::new(Kind::Kopia, work).is_err());
    }
}
