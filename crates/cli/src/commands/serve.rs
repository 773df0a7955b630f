//! `ibid serve`.

use std::fs::File;
use std::io::{self, Stdin, Stdout};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use ibid_remote::connection::{Opened, ServeError, ServeOptions, serve};
use ibid_storage::{Local, SWEEP_AGE};

use super::init::other_file;
use super::no_json;
use super::open::Context;
use crate::args::ServeRepositoryArgs;
use crate::failure::{Failure, Outcome, Result, with_causes};

pub(crate) fn run(context: &Context, args: &ServeRepositoryArgs) -> Result<Outcome> {
    no_json(context, "serve")?;
    let path = &args.folder;
    let open = |create| {
        let local = match create {
            true => Local::create(path)?,
            false => Local::open(path)?,
        };
        // What a client that was killed has left. If nothing can be deleted here, reads go on.
        let _ = local.sweep(SWEEP_AGE);
        let other = other_file(path).unwrap_or_default();
        let other = other.map(|name| Path::new(&name).display().to_string());
        Ok(Opened::new(Arc::new(local)).beside(other))
    };
    let options = ServeOptions::default().append_only(args.append_only);
    let streams = streams(&io::stdin(), &io::stdout());
    let (requests, answers) = streams.map_err(|error| failed(&ServeError::Io(error)))?;
    serve(&open, requests, answers, &options).map_err(|error| failed(&error))?;
    Ok(Outcome::Done)
}

fn failed(error: &ServeError) -> Failure {
    Failure::Fatal(format!("cannot serve: {}", with_causes(error)))
}

/// Returns standard input and output without the buffers of the standard library, which look for lines.
fn streams(input: &Stdin, output: &Stdout) -> io::Result<(File, File)> {
    let requests = input.as_fd().try_clone_to_owned()?;
    let answers = output.as_fd().try_clone_to_owned()?;
    Ok((requests.into(), answers.into()))
}
