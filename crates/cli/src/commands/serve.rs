//! `ibid serve`.

use std::fs::File;
use std::io::{self, Stdin, Stdout};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ibid_remote::connection::{
    Identity, ListenOptions, MutualTls, OpenStorage, Opened, ServeError, ServeOptions, listen, serve,
};
use ibid_storage::{Local, SWEEP_AGE};
use ibid_terminal::{on_stop_signal, reason};

use super::init::other_file;
use super::no_json;
use super::open::Context;
use crate::args::ServeRepositoryArgs;
use crate::failure::{Failure, Outcome, Result, advice, with_causes};
use crate::print::{self, NotAnswered};

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
    if let Some(address) = args.listen {
        return answer_all(context, args, address, &open, options);
    }
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

/// Answers clients at an address until the user stops it.
fn answer_all(
    context: &Context,
    args: &ServeRepositoryArgs,
    address: SocketAddr,
    open: &OpenStorage<'_>,
    serve: ServeOptions,
) -> Result<Outcome> {
    let (Some(certificate), Some(key), Some(clients)) = (&args.certificate, &args.private_key, &args.clients) else {
        return Err(Failure::Usage(
            "--listen needs --certificate, --private-key and --clients".to_owned(),
        ));
    };
    let read = |path: &Path| std::fs::read(path).map_err(|error| Failure::local("read", path, error));
    let (certificates, key, clients) = (read(certificate)?, read(key)?, read(clients)?);
    let identity = Identity {
        certificates: &certificates,
        key: &key,
    };
    let tls = MutualTls::new(identity, &clients).map_err(|error| Failure::Fatal(error.to_string()))?;
    let mut options = ListenOptions::default().serve(serve).memory(context.global.memory);
    if let Some(most) = args.clients_max {
        options = options.clients_max(usize::from(most));
    }
    let failed = |error: io::Error| Failure::Fatal(format!("cannot listen at {address}: {}", reason(&error)));
    let listener = TcpListener::bind(address).map_err(failed)?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    on_stop_signal(move || stopped.store(true, Relaxed)).map_err(|error| {
        let (reason, advice) = (reason(&error), advice::allow_more());
        Failure::Fatal(format!("cannot listen for signals: {reason}. {advice}"))
    })?;
    print::serving(listener.local_addr().map_err(failed)?);
    let said = NotAnswered::default();
    listen(&listener, &tls, open, &options, &stop, &|peer, why| {
        said.say(peer, &why)
    })
    .map_err(failed)?;
    Ok(Outcome::Done)
}
