//! `ibid cache`.

use super::open::Context;
use crate::args::CacheCommand;
use crate::failure::{Failure, Outcome, Result};
use crate::print;

pub(crate) fn run(context: &mut Context, command: &CacheCommand) -> Result<Outcome> {
    let opened = context.open()?;
    let Some(stats) = opened.repository.cache_stats()? else {
        return Err(Failure::Usage(
            "there is no cache to use. Leave out --no-cache, or give its folder with --cache-dir".into(),
        ));
    };
    match command {
        CacheCommand::Stats => print::cache_stats(&mut context.out, opened.about, &stats)?,
        CacheCommand::Clear => {
            let (files, bytes) = opened.repository.clear_cache()?;
            print::cache_cleared(&mut context.out, opened.about, files, bytes)?;
        }
    }
    Ok(Outcome::Done)
}
