//! `ibid tag`.

use super::PROGRAM;
use super::open::Context;
use crate::args::{self, TagCommand};
use crate::failure::{Outcome, Result};
use crate::print::{self, Tagged};

pub(crate) fn run(context: &mut Context, command: &TagCommand) -> Result<Outcome> {
    let (TagCommand::Add(args) | TagCommand::Remove(args)) = command;
    let opened = context.open()?;
    let chosen = match args.all {
        true => opened.snapshots_strictly(&args.select)?,
        false => opened.chosen(&args.snapshots, &args.select)?,
    };
    if chosen.is_empty() {
        print::none_match(&mut context.out)?;
    }
    let wanted: Vec<&str> = args::tags(&args.tags).collect();
    let repository = opened.warning();
    let mut done = Vec::new();
    for info in chosen {
        let mut tags = info.snapshot.tags.clone();
        match command {
            TagCommand::Add(_) => tags.extend(wanted.iter().map(|tag| (*tag).to_owned())),
            TagCommand::Remove(_) => tags.retain(|tag| !wanted.contains(&tag.as_str())),
        }
        tags.sort_unstable();
        tags.dedup();
        match repository.set_tags(&info, &tags, PROGRAM) {
            Ok(new) => done.push(Tagged { info, new, tags }),
            Err(error) => {
                // Those before have new ids, which the user must learn.
                print::tagged(&mut context.out, opened.about, &done)?;
                return Err(error.into());
            }
        }
    }
    print::tagged(&mut context.out, opened.about, &done)?;
    Ok(Outcome::Done)
}
