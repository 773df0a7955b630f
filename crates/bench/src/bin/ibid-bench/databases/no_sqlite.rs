//! A stand-in for SQLite in a program that was built without it.

use std::path::Path;

use anyhow::{Result, bail};

use super::subject::{Load, Read, Subject};

pub(crate) struct Sqlite;

impl Subject for Sqlite {
    fn create(&self, _: &Path) -> Result<Box<dyn Load>> {
        missing()
    }

    fn open(&self, _: &Path) -> Result<Box<dyn Read>> {
        missing()
    }

    fn version(&self) -> Result<Option<String>> {
        missing()
    }
}

fn missing<T>() -> Result<T> {
    bail!("this program was built without SQLite; build it with `--features sqlite`")
}
