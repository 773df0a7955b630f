//! A temporary PostgreSQL server.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, geteuid, kill_process};

use super::wire::Client;

/// The user that the server runs as if this program runs as root, which PostgreSQL refuses.
/// Debian's packages make that user.
const USER: &str = "postgres";
/// The administrator of the cluster, and a database that every cluster has.
const ADMINISTRATOR: &str = "bench";
const DATABASE: &str = "postgres";
/// A part of the socket's name.
const PORT: &str = "5432";
/// The longest wait for the server to start.
const START_TIME_MAX: Duration = Duration::from_secs(60);
/// The folder with Debian's programs, by version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The programs of PostgreSQL, and the user that may run them.
pub(crate) struct Programs {
    folder: PathBuf,
    /// User and group, if they are not those of this process.
    user: Option<(u32, u32)>,
}

impl Programs {
    /// Finds the programs on the `PATH`, or else the newest of Debian's.
    pub(crate) fn find() -> Result<Programs> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders: Vec<PathBuf> = fs::read_dir(DEBIAN)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
            .collect();
        let version = |folder: &PathBuf| -> Option<f64> { folder.parent()?.file_name()?.to_str()?.parse().ok() };
        folders.sort_by(|a, b| version(b).unwrap_or(0.0).total_cmp(&version(a).unwrap_or(0.0)));
        // A link on the `PATH` may lead to a folder with the other programs.
        let linked = std::env::split_paths(&path)
            .filter_map(|folder| Some(folder.join("postgres").canonicalize().ok()?.parent()?.to_owned()));
        let all = |folder: &PathBuf| folder.join("postgres").is_file() && folder.join("initdb").is_file();
        let folder = linked.chain(folders).find(all);
        let folder = folder.context("PostgreSQL is not installed: no `postgres` and `initdb` in one folder")?;
        let user = geteuid().is_root().then(user_of_its_own).transpose()?;
        Ok(Programs { folder, user })
    }

    /// Returns the version that the server reports.
    pub(crate) fn version(&self) -> Result<String> {
        let output = Command::new(self.folder.join("postgres")).arg("--version").output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn command(&self, program: &str, folder: &Path, log: &str) -> Result<Command> {
        let mut command = Command::new(self.folder.join(program));
        let log = File::create(folder.join(log))?;
        command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        Ok(command)
    }

    /// Makes a cluster in an empty folder.
    pub(crate) fn create(&self, folder: &Path) -> Result<()> {
        if let Some((user, group)) = self.user {
            chown(folder, Some(user), Some(group))?;
            // Every process that can open its socket is its administrator.
            fs::set_permissions(folder, Permissions::from_mode(0o700))?;
            // The folder around it belongs to this user alone, and must let the server's user
            // through.
            if let Some(around) = folder.parent() {
                fs::set_permissions(around, Permissions::from_mode(0o711))?;
            }
        }
        let mut command = self.command("initdb", folder, "initdb.log")?;
        command.args(["--pgdata=data", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        let status = command.arg(format!("--username={ADMINISTRATOR}")).status()?;
        ensure!(status.success(), "initdb: {status}\n{}", said(folder, "initdb.log"));
        Ok(())
    }

    /// Starts the server of the cluster in a folder. It listens in that folder only.
    pub(crate) fn start(&self, folder: &Path) -> Result<Server> {
        let folder = folder.canonicalize()?;
        let mut command = self.command("postgres", &folder, "server.log")?;
        command.args(["-D", "data", "-p", PORT, "-k"]).arg(&folder);
        for setting in ["listen_addresses=", "default_toast_compression=lz4"] {
            command.args(["-c", setting]);
        }
        let child = command.spawn().context("starting postgres")?;
        Ok(Server { child, folder })
    }
}

/// Returns the user and group that the server gets.
fn user_of_its_own() -> Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").context("reading /etc/passwd")?;
    let mut fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let user = fields.find_map(|fields| match *fields {
        [name, _, user, group, ..] if name == USER => Some((user.parse().ok()?, group.parse().ok()?)),
        _ => None,
    });
    user.with_context(|| format!("PostgreSQL does not run as root, and there is no user {USER}"))
}

fn said(folder: &Path, log: &str) -> String {
    fs::read_to_string(folder.join(log)).unwrap_or_default()
}

/// A server that runs until it is dropped.
pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
}

impl Server {
    /// Connects once the server is ready.
    pub(crate) fn connect(&mut self) -> Result<Client> {
        let socket = self.folder.join(format!(".s.PGSQL.{PORT}"));
        let start = Instant::now();
        loop {
            let error = match Client::connect(&socket, ADMINISTRATOR, DATABASE) {
                Ok(client) => return Ok(client),
                Err(error) => error,
            };
            if let Some(status) = self.child.try_wait()? {
                bail!("postgres: {status}\n{}", said(&self.folder, "server.log"));
            }
            if start.elapsed() > START_TIME_MAX {
                return Err(error.context("PostgreSQL does not become ready"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the server in order, so that its resources count as those of a child process.
    pub(crate) fn stop(mut self) -> Result<()> {
        let status = self.end()?;
        ensure!(
            status.success(),
            "postgres: {status}\n{}",
            said(&self.folder, "server.log")
        );
        Ok(())
    }

    fn end(&mut self) -> Result<std::process::ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        // A "fast shutdown" ends connections and loses nothing.
        kill_process(Pid::from_child(&self.child), Signal::INT)?;
        Ok(self.child.wait()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that was only read from has nothing to lose, and a failed writer has already
        // reported its own error.
        let _ = self.end();
    }
}
