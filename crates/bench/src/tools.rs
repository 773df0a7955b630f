//! The programs that are compared, and their command lines.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// For repositories that live as long as a run.
const PASSWORD: &str = "benchmark";

/// A program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// This project's
    Ibid,
    /// restic
    Restic,
    /// BorgBackup
    Borg,
}

impl Kind {
    /// It with its defaults; `ibid` is where to find that one, the others are on the `PATH`.
    pub(crate) fn tool(self, ibid: &Path) -> Tool {
        let (label, program) = match self {
            Kind::Ibid => ("ibid", ibid.to_owned()),
            Kind::Restic => ("restic", "restic".into()),
            Kind::Borg => ("borg", "borg".into()),
        };
        Tool {
            kind: self,
            label: label.to_owned(),
            program,
            init_options: Vec::new(),
        }
    }
}

/// A program with its settings, as one column of the tables.
#[derive(Debug, Clone)]
pub(crate) struct Tool {
    pub(crate) kind: Kind,
    pub(crate) label: String,
    program: PathBuf,
    /// For ibid's `init`.
    pub(crate) init_options: Vec<String>,
}

/// What a tool is asked to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Task<'a> {
    /// Make the repository.
    Init,
    /// Make a snapshot of this file, under this name where snapshots have names.
    Backup { file: &'a Path, name: &'a str },
    /// The same, and read the file whether or not it looks unchanged.
    Rebackup { file: &'a Path, name: &'a str },
    /// List the snapshots: what every command costs at least.
    Open,
    /// Bring back the snapshot of this name, which is the latest, into a folder that exists. Where files exist, only ibid is asked.
    Restore {
        name: &'a str,
        destination: &'a Path,
        exists: bool,
    },
}

impl Tool {
    /// Where its repository is within the work folder.
    pub(crate) fn repository(&self, work: &Path) -> PathBuf {
        work.join(format!("{}-repository", self.label))
    }

    /// What it says its version is.
    pub(crate) fn version(&self) -> Result<String> {
        let option = if self.kind == Kind::Restic {
            "version"
        } else {
            "--version"
        };
        let output = Command::new(&self.program)
            .arg(option)
            .output()
            .with_context(|| format!("{} can't be started: is it installed?", self.program.display()))?;
        ensure!(
            output.status.success(),
            "{} {option}: {}",
            self.program.display(),
            output.status
        );
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    }

    /// The command, with everything that it keeps inside `work`.
    pub(crate) fn command(&self, task: Task<'_>, work: &Path) -> Command {
        let repository = self.repository(work);
        let mut command = Command::new(&self.program);
        command.current_dir(work);
        for (name, _) in std::env::vars_os() {
            let ours = |prefix: &str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
            if ["IBID_", "RESTIC_", "BORG_"].into_iter().any(ours) {
                command.env_remove(&name);
            }
        }
        match self.kind {
            Kind::Ibid => self.ibid(task, &repository, &mut command),
            Kind::Restic => restic(task, &repository, work, &mut command),
            Kind::Borg => borg(task, &repository, work, &mut command),
        }
        command
    }

    fn ibid(&self, task: Task<'_>, repository: &Path, command: &mut Command) {
        command.env("IBID_PASSWORD", PASSWORD).arg("-r").arg(repository);
        match task {
            Task::Init => command.arg("init").args(&self.init_options),
            Task::Backup { file, .. } => command.arg("backup").arg(file),
            Task::Rebackup { file, .. } => command.args(["backup", "--force"]).arg(file),
            Task::Open => command.arg("snapshots"),
            Task::Restore {
                destination, exists, ..
            } => {
                let overwrite: &[_] = if exists { &["--overwrite", "always"] } else { &[] };
                command.arg("restore").args(overwrite).arg("latest").arg(destination)
            }
        };
    }
}

fn restic(task: Task<'_>, repository: &Path, work: &Path, command: &mut Command) {
    command
        .env("RESTIC_PASSWORD", PASSWORD)
        .env("RESTIC_CACHE_DIR", work.join("restic-cache"))
        .arg("-r")
        .arg(repository);
    match task {
        Task::Init => command.args(["init", "--repository-version", "2"]),
        Task::Backup { file, .. } => command.arg("backup").arg(file),
        Task::Rebackup { file, .. } => command.args(["backup", "--force"]).arg(file),
        Task::Open => command.arg("snapshots"),
        Task::Restore { destination, .. } => command.args(["restore", "latest", "--target"]).arg(destination),
    };
}

fn borg(task: Task<'_>, repository: &Path, work: &Path, command: &mut Command) {
    let archive = |name: &str| -> OsString {
        let mut archive = repository.as_os_str().to_owned();
        archive.push("::");
        archive.push(name);
        archive
    };
    command
        .env("BORG_PASSPHRASE", PASSWORD)
        .env("BORG_BASE_DIR", work.join("borg-base"));
    match task {
        Task::Init => command.args(["init", "--encryption", "repokey-blake2"]).arg(repository),
        Task::Backup { file, name } => command
            .args(["create", "--compression", "zstd,3"])
            .arg(archive(name))
            .arg(file),
        Task::Rebackup { file, name } => command
            .args(["create", "--compression", "zstd,3", "--files-cache=disabled"])
            .arg(archive(name))
            .arg(file),
        Task::Open => command.arg("list").arg(repository),
        Task::Restore { name, destination, .. } => command.current_dir(destination).arg("extract").arg(archive(name)),
    };
}

/// The command as one would type it, with the work folder as `$WORK`.
pub(crate) fn shown(command: &Command, work: &Path) -> String {
    let work = work.to_string_lossy();
    let text = |part: &OsStr| part.to_string_lossy().replace(work.as_ref(), "$WORK");
    let program = Path::new(command.get_program());
    let variables = command.get_envs().filter_map(|(name, value)| {
        let value = value?;
        Some(format!("{}={}", name.to_string_lossy(), text(value)))
    });
    let program = program.file_name().map_or_else(String::new, text);
    let words: Vec<_> = variables.chain([program]).chain(command.get_args().map(text)).collect();
    let folder = command.get_current_dir().map(|folder| text(folder.as_os_str()));
    match folder {
        Some(folder) if folder != "$WORK" => format!("cd {folder} && {}", words.join(" ")),
        _ => words.join(" "),
    }
}

/// The program ibid: what was asked for, or the one beside this program, or the one on the `PATH`.
pub(crate) fn find_ibid(asked: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = asked {
        // Commands run elsewhere.
        return path
            .canonicalize()
            .with_context(|| format!("--ibid {}", path.display()));
    }
    let beside = std::env::current_exe()?.with_file_name("ibid");
    Ok(if beside.is_file() { beside } else { "ibid".into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: Kind, task: Task<'_>) -> String {
        let work = Path::new("/w/x");
        shown(&kind.tool(Path::new("/bin/ibid")).command(task, work), work)
    }

    #[test]
    fn commands_are_those_of_the_document() {
        let file = Path::new("/w/x/current");
        let backup = Task::Backup { file, name: "v01" };
        assert_eq!(
            line(Kind::Ibid, backup),
            "IBID_PASSWORD=benchmark ibid -r $WORK/ibid-repository backup $WORK/current"
        );
        assert_eq!(
            line(Kind::Restic, backup),
            "RESTIC_CACHE_DIR=$WORK/restic-cache RESTIC_PASSWORD=benchmark \
             restic -r $WORK/restic-repository backup $WORK/current"
        );
        assert_eq!(
            line(Kind::Borg, backup),
            "BORG_BASE_DIR=$WORK/borg-base BORG_PASSPHRASE=benchmark \
             borg create --compression zstd,3 $WORK/borg-repository::v01 $WORK/current"
        );
        let destination = Path::new("/w/x/restored");
        assert_eq!(
            line(
                Kind::Borg,
                Task::Restore {
                    name: "v01",
                    destination,
                    exists: false
                }
            ),
            "cd $WORK/restored && BORG_BASE_DIR=$WORK/borg-base BORG_PASSPHRASE=benchmark \
             borg extract $WORK/borg-repository::v01"
        );
    }

    #[test]
    fn averages_reach_init_alone() {
        let tool = &crate::chunk_sizes::tools(Path::new("ibid"), &["16KiB".to_owned()])[0];
        let work = Path::new("/w");
        let init = shown(&tool.command(Task::Init, work), work);
        assert!(
            init.ends_with("ibid -r $WORK/ibid-16KiB-repository init --average 16KiB"),
            "{init}"
        );
        assert!(!shown(&tool.command(Task::Open, work), work).contains("--average"));
    }
}
