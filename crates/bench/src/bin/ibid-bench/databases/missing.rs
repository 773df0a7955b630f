//! A stand-in for software that this program was built without.

use std::path::Path;

use anyhow::{Result, bail};

use super::subject::{Load, Read, Subject};

pub(crate) struct Missing {
    pub(crate) name: &'static str,
    /// The feature of this crate that builds it in.
    pub(crate) feature: &'static str,
}

impl Missing {
    fn missing<T>(&self) -> Result<T> {
        let Missing { name, feature } = self;
        bail!("this program was built without {name}; build it with `--features {feature}`")
    }
}

impl Subject for Missing {
    fn create(&self, _: &Path) -> Result<Box<dyn Load>> {
        self.missing()
    }

    fn open(&self, _: &Path) -> Result<Box<dyn Read>> {
        self.missing()
    }

    fn version(&self) -> Result<Option<String>> {
        self.missing()
    }
}
