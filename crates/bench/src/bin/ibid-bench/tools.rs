//! The programs that are compared, and their command lines.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

/// The password of the repositories, which live only as long as a run.
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
    /// BorgBackup with chunks of about 8 KiB
    #[value(name = "borg-8k")]
    Borg8k,
    /// Kopia
    Kopia,
    /// zpaq
    Zpaq,
}

impl Kind {
    /// Returns the program with its defaults. `ibid` is the path of ibid; the others are found on
    /// the `PATH`.
    pub(crate) fn tool(self, ibid: &Path) -> Tool {
        let (label, program) = match self {
            Kind::Ibid => ("ibid", ibid.to_owned()),
            Kind::Restic => ("restic", "restic".into()),
            Kind::Borg => ("borg", "borg".into()),
            Kind::Borg8k => ("borg-8k", "borg".into()),
            Kind::Kopia => ("kopia", "kopia".into()),
            Kind::Zpaq => ("zpaq", "zpaq".into()),
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
    /// Options of ibid's `init`.
    pub(crate) init_options: Vec<String>,
}

/// A task for a tool.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Task<'a> {
    /// Makes the repository.
    Init,
    /// Sets options of the new repository that `init` can't set. Only Kopia needs it.
    Configure,
    /// Makes a snapshot of this file or folder, under this name if snapshots have names.
    Backup { source: &'a Path, name: &'a str },
    /// Does the same, and reads the files even if they look unchanged.
    Rebackup { source: &'a Path, name: &'a str },
    /// Lists the snapshots, which measures the fixed cost of a command.
    Open,
    /// Restores the snapshot of this name, the latest one and made from this source, into an
    /// existing folder. Only ibid restores over existing files.
    Restore {
        source: &'a Path,
        name: &'a str,
        destination: &'a Path,
        exists: bool,
    },
}

impl Tool {
    /// Returns the path of the repository within the work folder.
    pub(crate) fn repository(&self, work: &Path) -> PathBuf {
        work.join(format!("{}-repository", self.label))
    }

    /// Returns the tasks before the first backup.
    pub(crate) fn preparation(&self) -> &'static [Task<'static>] {
        match self.kind {
            Kind::Kopia => &[Task::Init, Task::Configure],
            _ => &[Task::Init],
        }
    }

    /// Returns the version that the tool reports.
    pub(crate) fn version(&self) -> Result<String> {
        let arguments: &[_] = match self.kind {
            Kind::Restic => &["version"],
            Kind::Zpaq => &[],
            _ => &["--version"],
        };
        let output = Command::new(&self.program)
            .args(arguments)
            .output()
            .with_context(|| format!("{} can't be started: is it installed?", self.program.display()))?;
        // zpaq prints its version above its usage, and fails.
        ensure!(
            output.status.success() || self.kind == Kind::Zpaq,
            "{} {}: {}",
            self.program.display(),
            arguments.join(" "),
            output.status
        );
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    }

    /// Returns the command for a task, with all files inside `work`.
    pub(crate) fn command(&self, task: Task<'_>, work: &Path) -> Command {
        let repository = self.repository(work);
        let mut command = match (self.kind, task) {
            // The first backup makes the archive, but not the folder around it.
            (Kind::Zpaq, Task::Init) => Command::new("mkdir"),
            _ => Command::new(&self.program),
        };
        command.current_dir(work);
        for (name, _) in std::env::vars_os() {
            let ours = |prefix: &str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
            if ["IBID_", "RESTIC_", "BORG_", "KOPIA_"].into_iter().any(ours) {
                command.env_remove(&name);
            }
        }
        match self.kind {
            Kind::Ibid => self.ibid(task, &repository, &mut command),
            Kind::Restic => restic(task, &repository, work, &mut command),
            Kind::Borg => borg(task, &repository, &work.join("borg-base"), &[], &mut command),
            Kind::Borg8k => borg(task, &repository, &work.join("borg-8k-base"), BORG_8K, &mut command),
            Kind::Kopia => kopia(task, &repository, work, &mut command),
            Kind::Zpaq => zpaq(task, &repository, &mut command),
        }
        command
    }

    fn ibid(&self, task: Task<'_>, repository: &Path, command: &mut Command) {
        command.env("IBID_PASSWORD", PASSWORD).arg("-r").arg(repository);
        match task {
            Task::Init => command.arg("init").args(&self.init_options),
            Task::Configure => command,
            Task::Backup { source, .. } => command.arg("backup").arg(source),
            Task::Rebackup { source, .. } => command.args(["backup", "--force"]).arg(source),
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
        Task::Configure => command,
        Task::Backup { source, .. } => command.arg("backup").arg(source),
        Task::Rebackup { source, .. } => command.args(["backup", "--force"]).arg(source),
        Task::Open => command.arg("snapshots"),
        Task::Restore { destination, .. } => command.args(["restore", "latest", "--target"]).arg(destination),
    };
}

/// Chunks of 8 KiB instead of the default 2 MiB: the smallest of 2¹¹ bytes, the largest of 2¹⁶, cut
/// where 13 bits are zero.
const BORG_8K: &[&str] = &["--chunker-params", "buzhash,11,16,13,4095"];

fn borg(task: Task<'_>, repository: &Path, base: &Path, chunker: &[&str], command: &mut Command) {
    let archive = |name: &str| -> OsString {
        let mut archive = repository.as_os_str().to_owned();
        archive.push("::");
        archive.push(name);
        archive
    };
    command.env("BORG_PASSPHRASE", PASSWORD).env("BORG_BASE_DIR", base);
    match task {
        Task::Init => command.args(["init", "--encryption", "repokey-blake2"]).arg(repository),
        Task::Configure => command,
        Task::Backup { source, name } => command
            .args(["create", "--compression", "zstd,3"])
            .args(chunker)
            .arg(archive(name))
            .arg(source),
        Task::Rebackup { source, name } => command
            .args(["create", "--compression", "zstd,3", "--files-cache=disabled"])
            .args(chunker)
            .arg(archive(name))
            .arg(source),
        Task::Open => command.arg("list").arg(repository),
        Task::Restore { name, destination, .. } => command.current_dir(destination).arg("extract").arg(archive(name)),
    };
}

fn kopia(task: Task<'_>, repository: &Path, work: &Path, command: &mut Command) {
    command
        .env("KOPIA_PASSWORD", PASSWORD)
        .env("KOPIA_CONFIG_PATH", work.join("kopia.config"))
        .env("KOPIA_CACHE_DIRECTORY", work.join("kopia-cache"))
        .env("KOPIA_LOG_DIR", work.join("kopia-logs"))
        // By default it asks a server on the network.
        .env("KOPIA_CHECK_FOR_UPDATES", "false");
    match task {
        Task::Init => command
            .args(["repository", "create", "filesystem", "--path"])
            .arg(repository),
        // By default it keeps only ten snapshots of an hour; no other tool here removes any.
        Task::Configure => command.args(["policy", "set", "--global", "--compression=zstd", "--keep-latest=1000"]),
        Task::Backup { source, .. } => command.args(["snapshot", "create"]).arg(source),
        Task::Rebackup { source, .. } => command.args(["snapshot", "create", "--force-hash=100"]).arg(source),
        Task::Open => command.args(["snapshot", "list"]),
        Task::Restore {
            source, destination, ..
        } => command
            .args(["snapshot", "restore"])
            .arg(source)
            .arg(destination.join(source.file_name().unwrap_or_default())),
    };
}

fn zpaq(task: Task<'_>, repository: &Path, command: &mut Command) {
    let archive = repository.join("archive.zpaq");
    let (key, method) = (["-key", PASSWORD], ["-method", "3", "-threads", "2"]);
    match task {
        Task::Init => command.arg(repository),
        Task::Configure => command,
        Task::Backup { source, .. } => command.arg("add").arg(archive).arg(source).args(method).args(key),
        Task::Rebackup { source, .. } => command
            .arg("add")
            .arg(archive)
            .arg(source)
            .arg("-force")
            .args(method)
            .args(key),
        Task::Open => command.arg("list").arg(archive).args(key),
        Task::Restore { destination, .. } => command
            .arg("extract")
            .arg(archive)
            .args(["-threads", "2"])
            .args(key)
            .arg("-to")
            .arg(destination),
    };
}

/// Returns the command as a user would type it, with the work folder as `$WORK`.
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

/// Returns the path of ibid: the given one, or the one beside this program, or the one on the
/// `PATH`.
pub(crate) fn find_ibid(asked: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = asked {
        // Commands run in other folders, so the path must be absolute.
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
        let source = Path::new("/w/x/current");
        let backup = Task::Backup { source, name: "v01" };
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
        assert_eq!(
            line(Kind::Borg8k, backup),
            "BORG_BASE_DIR=$WORK/borg-8k-base BORG_PASSPHRASE=benchmark \
             borg create --compression zstd,3 --chunker-params buzhash,11,16,13,4095 \
             $WORK/borg-8k-repository::v01 $WORK/current"
        );
        assert_eq!(
            line(Kind::Zpaq, backup),
            "zpaq add $WORK/zpaq-repository/archive.zpaq $WORK/current -method 3 -threads 2 -key benchmark"
        );
        let kopia = "KOPIA_CACHE_DIRECTORY=$WORK/kopia-cache KOPIA_CHECK_FOR_UPDATES=false \
                     KOPIA_CONFIG_PATH=$WORK/kopia.config KOPIA_LOG_DIR=$WORK/kopia-logs KOPIA_PASSWORD=benchmark \
                      kopia";
        assert_eq!(
            line(Kind::Kopia, backup),
            format!("{kopia} snapshot create $WORK/current")
        );
        let restore = Task::Restore {
            source,
            name: "v01",
            destination: Path::new("/w/x/restored"),
            exists: false,
        };
        assert_eq!(
            line(Kind::Borg, restore),
            "cd $WORK/restored && BORG_BASE_DIR=$WORK/borg-base BORG_PASSPHRASE=benchmark \
             borg extract $WORK/borg-repository::v01"
        );
        assert_eq!(
            line(Kind::Kopia, restore),
            format!("{kopia} snapshot restore $WORK/current $WORK/restored/current")
        );
        assert_eq!(
            line(Kind::Zpaq, restore),
            "zpaq extract $WORK/zpaq-repository/archive.zpaq -threads 2 -key benchmark -to $WORK/restored"
        );
    }

    #[test]
    fn folders_and_files_before_the_first_backup() {
        let lines = |kind: Kind| {
            let tasks = kind.tool(Path::new("ibid")).preparation().iter();
            tasks.map(|&task| line(kind, task)).collect::<Vec<_>>()
        };
        assert_eq!(lines(Kind::Ibid).len(), 1);
        assert_eq!(lines(Kind::Zpaq), ["mkdir $WORK/zpaq-repository"]);
        let kopia = lines(Kind::Kopia);
        assert_eq!(kopia.len(), 2);
        assert!(kopia[0].ends_with(" kopia repository create filesystem --path $WORK/kopia-repository"));
        assert!(kopia[1].ends_with(" kopia policy set --global --compression=zstd --keep-latest=1000"));
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
