//! `ibid completions` and `ibid man`, made from the definition of the command line.

use std::path::Path;

use super::no_json;
use super::open::Context;
use crate::args::{self, CompletionsArgs, ManArgs};
use crate::complete;
use crate::failure::{Failure, Outcome, Result};

const NAME: &str = "ibid";

pub(crate) fn completions(context: &mut Context, args: &CompletionsArgs) -> Result<Outcome> {
    no_json(context, "completions")?;
    let text = complete::script(&args.shell.to_string())
        .map_err(|error| Failure::Fatal(format!("cannot make completions: {error}")))?;
    write(context, &text)
}

pub(crate) fn man(context: &mut Context, args: &ManArgs) -> Result<Outcome> {
    no_json(context, "man")?;
    let mut program = args::definition();
    program.build();
    if let Some(folder) = &args.all {
        std::fs::create_dir_all(folder).map_err(|source| Failure::local("create", folder, source))?;
        write_pages(&program, NAME, folder)?;
        return Ok(Outcome::Done);
    }
    let mut command = &program;
    for name in &args.command {
        let unknown = || {
            Failure::Usage(format!(
                "there is no command {:?}; see `ibid --help`",
                args.command.join(" ")
            ))
        };
        command = command.find_subcommand(name).ok_or_else(unknown)?;
    }
    let title = [&[NAME.to_owned()], args.command.as_slice()].concat().join("-");
    write(context, &page(command, title)?)
}

/// Returns the manual page of a command.
fn page(command: &clap::Command, title: String) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone())
        .title(title)
        .render(&mut text)
        .map_err(|error| Failure::Fatal(format!("cannot make the manual: {error}")))?;
    Ok(text)
}

/// Writes the manual pages of a command and of those in it into a folder, one file each.
fn write_pages(command: &clap::Command, title: &str, folder: &Path) -> Result<()> {
    let file = folder.join(format!("{title}.1"));
    let text = page(command, title.to_owned())?;
    std::fs::write(&file, text).map_err(|source| Failure::local("write", &file, source))?;
    // `help` is no command of its own: it prints the help of the others.
    let below = command
        .get_subcommands()
        .filter(|below| below.get_name() != "help" && !below.is_hide_set());
    for below in below {
        write_pages(below, &format!("{title}-{}", below.get_name()), folder)?;
    }
    Ok(())
}

fn write(context: &mut Context, text: &[u8]) -> Result<Outcome> {
    let written = context.out.raw().write_all(text);
    written.map_err(|source| ibid_repo::Error::Pipe {
        action: "write to standard output",
        source,
    })?;
    Ok(Outcome::Done)
}
