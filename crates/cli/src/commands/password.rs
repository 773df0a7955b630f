//! Reads passwords: from options, else from environment variables, else from the terminal.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Stdio};

use ibid_terminal::reason;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use super::open::Context;
use crate::args::{NewPasswordArgs, PasswordArgs, Whose};
use crate::failure::advice::GIVE_PASSWORD;
use crate::failure::{Failure, Result};
use crate::print;

/// A password, which is wiped from memory when it is dropped.
pub(crate) type Password = Zeroizing<Vec<u8>>;

/// The longest password, bytes: a file with a longer first line is not a password file.
const LENGTH_MAX: u64 = 64 << 10;

/// The sources of one password.
struct Sources<'a> {
    file: Option<&'a Path>,
    command: Option<&'a str>,
    variable: &'static str,
    file_variable: &'static str,
    command_variable: &'static str,
}

impl Sources<'_> {
    /// Returns the password, if there is a source. Options take precedence over variables.
    fn read(&self) -> Result<Option<Password>> {
        if let Some(file) = self.file {
            return from_file(file).map(Some);
        }
        if let Some(command) = self.command {
            return from_command(command.as_ref()).map(Some);
        }
        if let Some(password) = std::env::var_os(self.variable) {
            return Ok(Some(Zeroizing::new(password.into_vec())));
        }
        if let Some(file) = std::env::var_os(self.file_variable) {
            return from_file(Path::new(&file)).map(Some);
        }
        std::env::var_os(self.command_variable)
            .map(|command| from_command(&command))
            .transpose()
    }
}

fn sources(args: &PasswordArgs) -> Sources<'_> {
    let [variable, file_variable, command_variable] = match args.whose {
        Whose::Own => ["IBID_PASSWORD", "IBID_PASSWORD_FILE", "IBID_PASSWORD_COMMAND"],
        Whose::Destination => ["IBID_TO_PASSWORD", "IBID_TO_PASSWORD_FILE", "IBID_TO_PASSWORD_COMMAND"],
        Whose::Model => [
            "IBID_LIKE_PASSWORD",
            "IBID_LIKE_PASSWORD_FILE",
            "IBID_LIKE_PASSWORD_COMMAND",
        ],
    };
    Sources {
        file: args.password_file.as_deref(),
        command: args.password_command.as_deref(),
        variable,
        file_variable,
        command_variable,
    }
}

/// Returns the password if an option or a variable gives it, without a question at the terminal.
pub(crate) fn given(args: &PasswordArgs) -> Result<Option<Password>> {
    sources(args).read()
}

/// Returns the password of the repository or store at `path`; asks at the terminal if no option or
/// variable gives it.
///
/// # Errors
/// `needed` if there is no terminal.
pub(crate) fn ask(context: &Context, path: &Path, needed: impl FnOnce() -> Failure) -> Result<Password> {
    if let Some(password) = given(&context.global.password)? {
        return not_empty(password);
    }
    match prompt(&print::question("password", path)) {
        Ok(password) => not_empty(password),
        Err(error) if is_interrupted(&error) => Err(Failure::Interrupted("nothing was changed".into())),
        Err(_) => Err(needed()),
    }
}

/// Returns a password for a new repository or store at `path`. It is typed twice, because a typing
/// error would make the data inaccessible.
pub(crate) fn ask_for_new_place(context: &Context, path: &Path) -> Result<Password> {
    match given(&context.global.password)? {
        Some(password) => not_empty(password),
        None => twice(path, "new password", GIVE_PASSWORD),
    }
}

/// Returns another password for a repository that has one.
pub(crate) fn ask_for_new(context: &Context, args: &NewPasswordArgs) -> Result<Password> {
    let sources = Sources {
        file: args.new_password_file.as_deref(),
        command: args.new_password_command.as_deref(),
        variable: "IBID_NEW_PASSWORD",
        file_variable: "IBID_NEW_PASSWORD_FILE",
        command_variable: "IBID_NEW_PASSWORD_COMMAND",
    };
    match sources.read()? {
        Some(password) => not_empty(password),
        None => twice(
            context.path()?,
            "new password",
            "Set IBID_NEW_PASSWORD, or use --new-password-file or --new-password-command.",
        ),
    }
}

/// Asks twice; `advice` says how to give the password where there is no terminal.
fn twice(path: &Path, what: &str, advice: &str) -> Result<Password> {
    let none = |error: std::io::Error| match is_interrupted(&error) {
        true => Failure::Interrupted("nothing was changed".into()),
        false => {
            let cause = match error.raw_os_error() {
                Some(_) => "there is no terminal".to_owned(),
                None => reason(&error),
            };
            Failure::Password(format!(
                "no password was given, and ibid cannot ask for one: {cause}. {advice}"
            ))
        }
    };
    let first = not_empty(prompt(&print::question(what, path)).map_err(none)?)?;
    let second = prompt(&print::question("repeat the new password", path)).map_err(none)?;
    match first == second {
        true => Ok(first),
        false => Err(Failure::Password(
            "the two passwords differ. Run the command again; nothing was changed".into(),
        )),
    }
}

/// Reads a password from the terminal without showing it.
///
/// # Errors
/// Ctrl-C is an error of the kind `Interrupted`. It arrives as the end of a line and not as a signal,
/// so that the terminal is restored before the program ends.
fn prompt(question: &str) -> std::io::Result<Password> {
    let mut terminal = std::fs::OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let before = tcgetattr(&terminal)?;
    let mut unseen = before.clone();
    unseen.local_modes -= LocalModes::ECHO | LocalModes::ISIG;
    unseen.local_modes |= LocalModes::ICANON | LocalModes::ECHONL;
    let interrupt = before.special_codes[SpecialCodeIndex::VINTR];
    unseen.special_codes[SpecialCodeIndex::VEOL] = interrupt;
    tcsetattr(&terminal, OptionalActions::Now, &unseen)?;
    let asked = terminal
        .write_all(question.as_bytes())
        .and_then(|()| typed_line(&mut terminal, interrupt));
    if asked.is_err() {
        let _ = terminal.write_all(b"\n");
    }
    tcsetattr(&terminal, OptionalActions::Now, &before)?;
    asked
}

/// Reads a line and returns it without its end.
fn typed_line(terminal: &mut std::fs::File, interrupt: u8) -> std::io::Result<Password> {
    let mut line = Zeroizing::new(Vec::with_capacity(4096));
    let mut byte = [0];
    loop {
        let is_end = match terminal.read(&mut byte) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            length => length? == 0,
        };
        match byte[0] {
            _ if is_end && line.is_empty() => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ if is_end => return Ok(line),
            b'\n' => return Ok(line),
            typed if typed == interrupt => return Err(std::io::ErrorKind::Interrupted.into()),
            typed if line.len() < line.capacity() => line.push(typed),
            _ => return Err(std::io::Error::other("the line is too long")),
        }
    }
}

/// Returns whether the user pressed Ctrl-C.
fn is_interrupted(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::Interrupted
}

fn not_empty(password: Password) -> Result<Password> {
    match password.is_empty() {
        true => Err(Failure::Password("the password is empty".into())),
        false => Ok(password),
    }
}

/// Returns the password in the first line of a file.
///
/// # Errors
/// The file can't be read, or has a longer line than a password.
pub(crate) fn from_file(path: &Path) -> Result<Password> {
    // Its exit code is that of a missing password, as after a command that fails.
    let failed = |source| Failure::Password(Failure::local("read the password from", path, source).to_string());
    first_line(std::fs::File::open(path).map_err(failed)?).map_err(failed)
}

fn from_command(command: &OsStr) -> Result<Password> {
    let failed = |problem: String| Failure::Password(format!("the password command {command:?} {problem}"));
    let child = Command::new("sh").arg("-c").arg(command).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| failed(format!("could not be run: {}", reason(&error))))?;
    let output = child.stdout.take().expect("it is piped");
    let line =
        first_line(output).map_err(|error| failed(format!("printed a line that cannot be read: {}", reason(&error))));
    let status = child
        .wait()
        .map_err(|error| failed(format!("could not be waited for: {}", reason(&error))))?;
    match status.success() {
        true => line,
        false => Err(failed(format!("failed: {status}"))),
    }
}

/// Returns the first line, with the line ending of any system removed. Reads all of the input, so
/// that its writer can finish.
fn first_line(mut input: impl Read) -> std::io::Result<Password> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(4096));
    input.by_ref().take(LENGTH_MAX + 1).read_to_end(&mut bytes)?;
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    if end as u64 > LENGTH_MAX {
        return Err(std::io::Error::other(format!(
            "its first line has more than {LENGTH_MAX} bytes"
        )));
    }
    std::io::copy(&mut input, &mut std::io::sink())?;
    let end = if end > 0 && end < bytes.len() && bytes[end - 1] == b'\r' {
        end - 1
    } else {
        end
    };
    Ok(Zeroizing::new(bytes[..end].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_counts() {
        let expected = [
            ("secret", "secret"),
            ("secret\nmore", "secret"),
            ("secret\r\n", "secret"),
            (" s \n", " s "),
            ("\n", ""),
            ("", ""),
            ("a\r", "a\r"),
        ];
        for (text, line) in expected {
            assert_eq!(
                first_line(text.as_bytes()).unwrap().as_slice(),
                line.as_bytes(),
                "{text:?}"
            );
        }
        assert!(first_line(std::io::repeat(b'x').take(1 << 20)).is_err());
    }
}
