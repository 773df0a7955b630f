//! The indexes of a namespace, by their names.

use ibid_format::record::{INDEX_VALUE_BYTES_MAX, INDEX_VALUES_MAX};
use ibid_record::{Batch, Index, Namespace, Unique};
use ibid_terminal::{escape, field_texts};

use super::load::within;
use crate::args::IndexValue;
use crate::failure::{Failure, Result};

/// Returns the index of this name, which must exist.
pub(super) fn find(namespace: &Namespace, name: &str) -> Result<Index> {
    let mut all = namespace.indexes()?.into_iter();
    all.find(|index| index.name() == name).ok_or_else(|| {
        let (name, space) = (escape(name.as_bytes()), escape(namespace.name().as_bytes()));
        Failure::NotThere(format!(
            "namespace \"{space}\" has no index \"{name}\". `ibid records stats` lists the indexes, and `ibid records \
             index` makes one"
        ))
    })
}

/// Returns the index of each value.
pub(super) fn of_values(namespace: &Namespace, values: &[IndexValue]) -> Result<Vec<Index>> {
    values.iter().map(|given| find(namespace, &given.index)).collect()
}

/// Indexes that are filled from fields of JSON.
pub(super) struct FieldIndexes {
    fields: Vec<String>,
    indexes: Vec<Index>,
}

impl FieldIndexes {
    /// Opens indexes with the names of these fields, and makes those that do not exist.
    pub(super) fn open(namespace: &Namespace, fields: &[String], unique: &[String]) -> Result<Self> {
        let some = fields.iter().map(|name| (name, Unique::No));
        let all = some.chain(unique.iter().map(|name| (name, Unique::Yes)));
        let mut opened = FieldIndexes {
            fields: Vec::new(),
            indexes: Vec::new(),
        };
        for (name, unique) in all {
            opened.indexes.push(namespace.index(name, unique)?);
            opened.fields.push(name.clone());
        }
        Ok(opened)
    }

    /// Returns an index that is filled from a field of another name.
    pub(super) fn of_field(index: Index, field: &str) -> Self {
        FieldIndexes {
            fields: vec![field.to_owned()],
            indexes: vec![index],
        }
    }

    /// Returns the values that a JSON object has, each with its index.
    ///
    /// # Errors
    /// A description of the fault.
    pub(super) fn values(&self, object: &[u8]) -> Result<Vec<(&Index, String)>, String> {
        if self.fields.is_empty() {
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        for (index, texts) in self.indexes.iter().zip(field_texts(object, &self.fields)?) {
            for text in texts {
                within(
                    &format!("the value of field {:?}", index.name()),
                    text.len(),
                    INDEX_VALUE_BYTES_MAX,
                )?;
                all.push((index, text));
            }
        }
        match all.len() > INDEX_VALUES_MAX {
            true => Err(format!(
                "expected at most {INDEX_VALUES_MAX} values to find it by, found {}",
                all.len()
            )),
            false => Ok(all),
        }
    }
}

/// Lets the key of the last change be found by values.
pub(super) fn add(batch: &mut Batch, values: &[(&Index, String)]) {
    for (index, value) in values {
        batch.index(index, value.as_bytes());
    }
}
