//! `ibid storage`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use ibid_storage::probe::{self, Promise, Race};
use ibid_storage::{ErrorKind, Name, Storage};

use super::open::Context;
use super::place;
use crate::args::StorageCommand;
use crate::failure::{Failure, Outcome, Result};
use crate::print;

/// The folder of a repository with the fewest files. The objects of a probe are not taken for keys.
const FOLDER: &str = "keys";

pub(crate) fn run(context: &mut Context, command: &StorageCommand) -> Result<Outcome> {
    let StorageCommand::Test(args) = command;
    let storage = context.open_place()?.storage();
    let storage = &*storage;
    if let Some(tag) = &args.second {
        return second(storage, tag);
    }
    writable(storage)?;
    let mut report = probe::run(storage, FOLDER);
    if report.is_ok()
        && let Some(problem) = two_processes(context, storage)?
    {
        report.fail(Promise::OneWins, problem);
    }
    print::storage_test(&mut context.out, &storage.location(), &report)?;
    Ok(match report.is_ok() && report.left.is_empty() {
        true => Outcome::Done,
        false => Outcome::Failed(1),
    })
}

/// Returns an error if the storage can't be reached, this user can't write to it, or it is full: that says nothing of
/// its promises.
fn writable(storage: &dyn Storage) -> Result<()> {
    let name = format!("{FOLDER}/probe-{}", probe::random_tag());
    let name = Name::new(&name).expect("a folder, letters and digits");
    match storage.put(&name, &[b"probe"]) {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::PermissionDenied | ErrorKind::ReadOnly | ErrorKind::NoSpace | ErrorKind::Io
            ) =>
        {
            Err(error.into())
        }
        // What else fails, the test finds.
        _ => {
            let _ = storage.delete(&name);
            Ok(())
        }
    }
}

/// Races with another process of this program; returns what was wrong.
fn two_processes(context: &Context, storage: &dyn Storage) -> Result<Option<String>> {
    let tag = probe::random_tag();
    let race = race(&tag)?;
    let failed = |error: std::io::Error| Failure::Fatal(format!("cannot race with a second process: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let (path, network) = (context.path()?, &context.global.network);
    // With all that was said of the server; credentials are in the environment.
    let repo = match place::address(path, network)? {
        Some(address) => address.to_string().into(),
        None => path.as_os_str().to_owned(),
    };
    let mut other = Command::new(program);
    let files = [
        ("--ca-file", &network.ca_file),
        ("--authority", &network.authority),
        ("--certificate", &network.certificate),
        ("--private-key", &network.private_key),
    ];
    for (option, file) in files {
        other.args(file.iter().flat_map(|file| [option.as_ref(), file.as_os_str()]));
    }
    for (option, text) in [("--ssh", &network.ssh), ("--server-name", &network.server_name)] {
        other.args(text.iter().flat_map(|text| [option, text]));
    }
    let mut other = other
        .arg("--repo")
        .arg(repo)
        .args(["--quiet", "storage", "test", "--second", &tag])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let (start, said) = (other.stdin.take(), other.stdout.take());
    let raced = start.zip(said).map(|(mut start, said)| {
        let mut said = BufReader::new(said);
        let mut line = String::new();
        said.read_line(&mut line)?;
        start.write_all(b"go\n")?;
        let won = race.run(storage, 0);
        line.clear();
        said.read_line(&mut line)?;
        Ok((won, line.trim().bytes().map(|byte| byte == b'1').collect::<Vec<bool>>()))
    });
    let ended = other.wait().map_err(failed)?;
    let (won, of_other) = raced
        .transpose()
        .map_err(failed)?
        .unwrap_or((Ok(Vec::new()), Vec::new()));
    // Also deletes what was stored, whatever has failed.
    let (of_this, failure) = match won {
        Ok(won) => (won, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let problem = race.judge(storage, &[of_this, of_other])?;
    if let Some(error) = failure {
        return Err(error.into());
    }
    match ended.success() {
        true => Ok(problem),
        false => Err(Failure::Fatal("the second process of the test failed".into())),
    }
}

/// The second process: says that it is ready, waits for a line, and prints a digit for each name: 1 if it won.
fn second(storage: &dyn Storage, tag: &str) -> Result<Outcome> {
    let failed = |error: std::io::Error| Failure::Fatal(format!("cannot race with the first process: {error}"));
    let race = race(tag)?;
    let mut out = std::io::stdout().lock();
    out.write_all(b"ready\n").and_then(|()| out.flush()).map_err(failed)?;
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line).map_err(failed)? == 0 {
        // The first process is gone, so it can't delete what is stored.
        return Ok(Outcome::Done);
    }
    let won = race.run(storage, 1)?;
    let digits: String = won.into_iter().map(|won| if won { '1' } else { '0' }).collect();
    out.write_all(format!("{digits}\n").as_bytes()).map_err(failed)?;
    Ok(Outcome::Done)
}

fn race(tag: &str) -> Result<Race> {
    Race::new(FOLDER, tag).map_err(|error| Failure::Usage(format!("--second: {error}")))
}
