//! `ibid completions` and `ibid man`, made from the definition of the command line.

use super::no_json;
use super::open::Context;
use crate::args::{self, CompletionsArgs, ManArgs};
use crate::failure::{Failure, Outcome, Result};

const NAME: &str = "ibid";

pub(crate) fn completions(context: &mut Context, args: &CompletionsArgs) -> Result<Outcome> {
    no_json(context, "completions")?;
    // Write into memory first: the generator can't report a closed pipe.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut args::definition(), NAME, &mut text);
    write(context, &text)
}

pub(crate) fn man(context: &mut Context, args: &ManArgs) -> Result<Outcome> {
    no_json(context, "man")?;
    let mut program = args::definition();
    program.build();
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
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(command.clone()).title(title);
    page.render(&mut text)
        .map_err(|error| Failure::Fatal(format!("cannot make the manual: {error}")))?;
    write(context, &text)
}

fn write(context: &mut Context, text: &[u8]) -> Result<Outcome> {
    let written = context.out.raw().write_all(text);
    written.map_err(|source| ibid_repo::Error::Pipe {
        action: "write to standard output",
        source,
    })?;
    Ok(Outcome::Done)
}
