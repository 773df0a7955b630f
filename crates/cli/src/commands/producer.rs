//! A program whose output is backed up: `--stdin-from-command`.

use std::io::{ErrorKind, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ibid_terminal::input::Patient;
use ibid_terminal::{escape, reason};
use rustix::process::{Pid, Signal, kill_process};

use super::descendants::descendants;
use crate::failure::{Failure, Result};

/// How long a program may take to end by itself when it is asked to.
const GRACE: Duration = Duration::from_secs(2);
/// How long to sleep between looks at a program that has closed its output and still runs.
const PAUSE: Duration = Duration::from_millis(10);

/// A running program. It is ended when this is dropped.
pub(super) struct Producer {
    child: Arc<Mutex<Child>>,
    /// The name of the program, for messages.
    name: String,
}

/// What the program prints. The end of it is reported only when the program has ended well.
pub(super) struct Printed {
    output: Patient<ChildStdout>,
    child: Arc<Mutex<Child>>,
}

impl Producer {
    /// Starts `command`, the program and its arguments. It shares standard input and standard error
    /// with this process, so that it can ask for a password and say what fails.
    ///
    /// # Errors
    /// It can't be started.
    pub(super) fn start(command: &[PathBuf]) -> Result<(Producer, Printed)> {
        let (program, arguments) = command.split_first().expect("the command line has one");
        let name = escape(program.as_os_str().as_encoded_bytes());
        let mut child = Command::new(program)
            .args(arguments)
            // Passwords of repositories are none of its business.
            .env_remove("IBID_PASSWORD")
            .env_remove("IBID_TO_PASSWORD")
            .env_remove("IBID_NEW_PASSWORD")
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::Fatal(format!("cannot start {name}: {}", reason(&error))))?;
        let output = Patient(child.stdout.take().expect("its output is a pipe"));
        let child = Arc::new(Mutex::new(child));
        let printed = Printed {
            output,
            child: child.clone(),
        };
        Ok((Producer { child, name }, printed))
    }

    /// Ends the program, if it still runs, after a backup with this result. `was_stopped` says whether
    /// the user asked to stop: a terminal asks the program, too.
    ///
    /// # Errors
    /// It had failed by itself, which is why there is no snapshot; the user asked to stop.
    pub(super) fn end<T>(self, result: &ibid_repo::Result<T>, was_stopped: bool) -> Result<()> {
        let ended = lock(&self.child).try_wait();
        match (result, ended) {
            (Err(ibid_repo::Error::Pipe { .. }), _) if was_stopped => {
                Err(ibid_repo::Error::Interrupted).map_err(Failure::if_interrupted(super::backup::LEFT))
            }
            (Err(ibid_repo::Error::Pipe { .. }), Ok(Some(status))) if !status.success() => {
                Err(Failure::Fatal(format!(
                    "{} {}, so what it printed may not be all: there is no snapshot",
                    self.name,
                    how_it_ended(status)
                )))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let mut child = lock(&self.child);
        let is_running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        if !is_running(&mut child) {
            return;
        }
        // A shell that is asked to end does not ask the programs that it has started.
        let mut others = descendants(child.id());
        // Programs that are asked can clean up.
        if let Some(pid) = Pid::from_raw(child.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
        others.iter().for_each(|process| process.send(Signal::TERM));
        let asked = Instant::now();
        while asked.elapsed() < GRACE {
            std::thread::sleep(PAUSE);
            others.retain(|process| process.is_running());
            if !is_running(&mut child) && others.is_empty() {
                return;
            }
        }
        let _ = child.kill();
        others.iter().for_each(|process| process.send(Signal::KILL));
        let _ = child.wait();
    }
}

impl Read for Printed {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.output.read(buffer)? {
            0 if !buffer.is_empty() => match lock(&self.child).try_wait()? {
                Some(status) if status.success() => Ok(0),
                Some(status) => Err(std::io::Error::other(format!("the program {}", how_it_ended(status)))),
                // It has closed its output, and may still fail.
                None => {
                    std::thread::sleep(PAUSE);
                    Err(ErrorKind::Interrupted.into())
                }
            },
            length => Ok(length),
        }
    }
}

fn lock(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().expect("no holder of this lock panics")
}

/// Returns how a program that did not succeed ended: a verb and its object.
fn how_it_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("failed with exit status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => format!("failed: {status}"),
    }
}
