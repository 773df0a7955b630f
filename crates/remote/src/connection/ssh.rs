//! Reaches a server through the program `ssh` of this machine, with its keys, agents, jump hosts and configuration.

use std::io::{self, Read};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use ibid_storage::ErrorKind;

use super::HostAddress;
use super::dial::{Dial, Ended, Ending, Streams};
use super::greeting::shown;

/// Bytes of what the program says on standard error that are kept, the last ones.
const SAID_MAX: usize = 8 << 10;
/// How long the program may take to end once its streams have.
const END_TIMEOUT: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Starts `ssh`, which starts `ibid serve` on the other machine.
#[derive(Clone, Debug)]
pub struct Ssh {
    /// What a shell of this machine runs in place of `ssh`.
    command: String,
    arguments: Vec<String>,
}

impl Ssh {
    /// Returns what leads to an address. `command` is for a shell, which adds the arguments of `ssh`. It is `ssh` by
    /// default, also if it is empty, as a variable may be.
    #[must_use]
    pub fn new(address: &HostAddress, command: Option<&str>) -> Ssh {
        let mut arguments = vec!["-T".to_owned()];
        if let Some(port) = address.port() {
            arguments.extend(["-p".to_owned(), port.to_string()]);
        }
        let host = match address.user() {
            Some(user) => format!("{user}@{}", address.host()),
            None => address.host().to_owned(),
        };
        // After `--`, nothing is taken for an option.
        arguments.extend(["--".to_owned(), host, remote_command(address)]);
        Ssh {
            command: command
                .filter(|text| !text.trim().is_empty())
                .unwrap_or("ssh")
                .to_owned(),
            arguments,
        }
    }
}

/// Returns what a shell of the other machine is to run.
fn remote_command(address: &HostAddress) -> String {
    let program = address.program().map_or_else(|| "ibid".to_owned(), quoted);
    format!("{program} serve --stdio -- {}", quoted(address.path()))
}

/// What the shell of this machine calls itself: so it can be told from one on the other machine.
const SHELL: &str = "--ssh";
/// Why there is no connection if the program is not there that was to make it.
pub const NOT_STARTED: &str = "this machine cannot start the program of --ssh";

/// Quotes a text for any shell: within single quotes, nothing but these has a meaning.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

impl Dial for Ssh {
    fn dial(&self) -> Result<Streams, Ended> {
        self.start()
            .map_err(|error| Ended::hopeless(ErrorKind::Unsupported, format!("no program can be started: {error}")))
    }
}

impl Ssh {
    fn start(&self) -> io::Result<Streams> {
        // Ctrl-C is for this program, which ends its work in order and needs the connection for that. `ssh` leaves
        // signals alone that were ignored when it began, but not while it asks for a password.
        let script = format!("trap '' INT QUIT; exec {} \"$@\"", self.command);
        let mut child = Command::new("/bin/sh")
            .args(["-c", &script, SHELL])
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(requests), Some(answers), Some(errors)) = streams else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let said = Arc::new(Mutex::new(Vec::new()));
        let listened = listen(errors, said.clone())?;
        Ok(Streams {
            answers: Box::new(answers),
            requests: Box::new(requests),
            ending: Box::new(Running { child, said, listened }),
        })
    }
}

/// Keeps the last of what a program says on standard error. The receiver learns that it says nothing more.
fn listen(mut errors: ChildStderr, said: Arc<Mutex<Vec<u8>>>) -> io::Result<Receiver<()>> {
    let (sender, receiver) = channel::<()>();
    let thread = thread::Builder::new().name("ssh says".into());
    thread.spawn(move || {
        let mut buffer = [0; 1024];
        while let Ok(read @ 1..) = errors.read(&mut buffer) {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            said.extend_from_slice(&buffer[..read]);
            let over = said.len().saturating_sub(SAID_MAX);
            said.drain(..over);
        }
        drop(sender);
    })?;
    Ok(receiver)
}

/// The program that runs.
struct Running {
    child: Child,
    said: Arc<Mutex<Vec<u8>>>,
    listened: Receiver<()>,
}

impl Running {
    fn wait(&mut self) -> Option<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < END_TIMEOUT {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) => sleep(LOOK_EVERY),
                Err(_) => return None,
            }
        }
        None
    }
}

impl Ending for Running {
    fn end(&mut self, by_itself: bool) -> Ended {
        let status = if by_itself { self.wait() } else { None };
        if status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        // Another program that it has left running may keep its standard error open.
        let _ = self.listened.recv_timeout(Duration::from_millis(500));
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        reason(status.and_then(|status| status.code()), &String::from_utf8_lossy(&said))
    }
}

/// Returns why the program ended, from its exit code and what it said.
fn reason(code: Option<i32>, said: &str) -> Ended {
    let mut lines = said.lines().map(str::trim);
    // Of several lines the last one is the cause; but `ssh` ends a failure behind a jump host with another, and warns
    // of what is none.
    let is_cause = |line: &&str| {
        !line.is_empty() && !line.starts_with("Warning: ") && !line.starts_with("Connection closed by UNKNOWN")
    };
    let line = lines.rfind(is_cause).map(|line| shown(line.as_bytes()));
    let line = line.map(|line| line.trim_end_matches(['.', '\r']).to_owned());
    let has = |text: &str| said.contains(text);
    match (code, line) {
        (Some(126 | 127), Some(line)) if line.starts_with(SHELL) => {
            let cause = line.rsplit_once("exec: ").map_or(&*line, |(_, cause)| cause);
            Ended::hopeless(ErrorKind::Unsupported, format!("{NOT_STARTED}: {cause}"))
        }
        (Some(126 | 127), line) => Ended::hopeless(
            ErrorKind::Unsupported,
            line.unwrap_or_else(|| "the program was not found".to_owned()),
        ),
        // What an `ibid` without this command says.
        (Some(2), Some(line)) => Ended::hopeless(ErrorKind::Unsupported, line),
        (Some(255), Some(line)) if has("Permission denied") || has("Too many authentication failures") => {
            Ended::hopeless(ErrorKind::PermissionDenied, line)
        }
        (Some(255), Some(line)) if has("Host key verification failed") => {
            Ended::hopeless(ErrorKind::PermissionDenied, line)
        }
        (_, Some(line)) => Ended::new(line),
        (Some(code), None) => Ended::new(format!("the connection was closed (exit code {code})")),
        (None, None) => Ended::new("the connection was closed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(address: &str) -> Vec<String> {
        Ssh::new(&address.parse().unwrap(), None).arguments
    }

    #[test]
    fn what_is_said_of_a_place_stays_one_word_of_a_shell() {
        assert_eq!(
            arguments("ssh://me@nas:2222/srv/my backup"),
            [
                "-T",
                "-p",
                "2222",
                "--",
                "me@nas",
                "ibid serve --stdio -- '/srv/my backup'"
            ]
        );
        let hostile = arguments("ssh://nas/a'; rm -rf $HOME `x` \"?ibid=/opt/i b");
        assert_eq!(
            hostile[3],
            r#"'/opt/i b' serve --stdio -- '/a'\''; rm -rf $HOME `x` "'"#
        );
        // A shell takes it for the words that were meant.
        let printed = Command::new("/bin/sh")
            .args(["-c", &hostile[3].replace("'/opt/i b' serve", "printf '%s|' serve")])
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&printed.stdout),
            "serve|--stdio|--|/a'; rm -rf $HOME `x` \"|"
        );
        assert_eq!(arguments("ssh://nas/~/-x")[2..], ["nas", "ibid serve --stdio -- '-x'"]);
        assert_eq!(
            arguments("ssh://[fe80::1%eth0]:22/~")[4..],
            ["fe80::1%eth0", "ibid serve --stdio -- '.'"]
        );
    }

    #[test]
    fn an_empty_command_is_none() {
        let address = "ssh://nas/srv".parse().unwrap();
        let of = |command| Ssh::new(&address, command).command;
        assert_eq!([None, Some(""), Some(" ")].map(of), ["ssh"; 3]);
        assert_eq!(of(Some("ssh -i key")), "ssh -i key");
    }

    #[test]
    fn the_cause_is_told_and_whether_it_may_pass() {
        let of = |code, said: &str| {
            let ended = reason(Some(code), said);
            (ended.kind, ended.why, ended.is_hopeless)
        };
        assert_eq!(
            of(127, "--ssh: 1: exec: /no/such/ssh: not found\n"),
            (
                ErrorKind::Unsupported,
                "this machine cannot start the program of --ssh: /no/such/ssh: not found".into(),
                true
            )
        );
        assert_eq!(
            of(127, "bash: line 1: ibid: command not found\n"),
            (
                ErrorKind::Unsupported,
                "bash: line 1: ibid: command not found".to_owned(),
                true
            )
        );
        assert_eq!(
            of(
                255,
                "Warning: Permanently added 'nas' (ED25519).\r\nme@nas: Permission denied (publickey).\r\n"
            ),
            (
                ErrorKind::PermissionDenied,
                "me@nas: Permission denied (publickey)".to_owned(),
                true
            )
        );
        let refused = "ssh: connect to host nas port 22: Connection refused";
        let behind = format!("{refused}\r\nConnection closed by UNKNOWN port 65535\r\n");
        assert_eq!(of(255, &behind), (ErrorKind::Io, refused.to_owned(), false));
        assert_eq!(
            of(0, ""),
            (
                ErrorKind::Io,
                "the connection was closed (exit code 0)".to_owned(),
                false
            )
        );
        assert_eq!(of(255, "\x1b[2Jevil\n").1, "[2Jevil");
    }
}
