//! Where a repository is: in a folder of this machine, or with a server.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ibid_remote::{Address, ObjectStorage, Options, Requests};
use ibid_repo::Error;
use ibid_storage::{ErrorKind, Local, Name, Operation, Storage, Swept};

use crate::args::NetworkArgs;
use crate::failure::{Failure, Result};

/// A storage that is open.
#[derive(Clone)]
pub(crate) enum Place {
    Folder(Arc<Local>),
    Server(Arc<ObjectStorage>),
}

impl Place {
    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        match self {
            Place::Folder(local) => local.clone(),
            Place::Server(remote) => remote.clone(),
        }
    }

    pub(crate) fn location(&self) -> String {
        self.storage().location()
    }

    /// Removes unfinished files of killed programs. A server keeps none.
    pub(crate) fn sweep(&self, age: Duration) -> Option<Swept> {
        match self {
            Place::Folder(local) => local.sweep(age).ok(),
            Place::Server(_) => None,
        }
    }
}

/// The servers that a command has used.
#[derive(Clone, Default)]
pub(crate) struct Servers(Rc<RefCell<Vec<Arc<ObjectStorage>>>>);

impl Servers {
    pub(crate) fn add(&self, server: &Arc<ObjectStorage>) {
        self.0.borrow_mut().push(server.clone());
    }

    /// Returns what was asked of all of them, if there are any.
    pub(crate) fn requests(&self) -> Option<Requests> {
        self.0
            .borrow()
            .iter()
            .map(|server| server.requests())
            .reduce(Requests::and)
    }
}

/// Returns the address that a path is meant as.
pub(crate) fn address(path: &Path, network: &NetworkArgs) -> Result<Option<Address>> {
    let text = path.to_str().filter(|text| Address::is_meant_by(text));
    let Some(text) = text else { return Ok(None) };
    let usage = |error: ibid_remote::AddressError| Failure::Usage(error.to_string());
    let address: Address = text.parse().map_err(usage)?;
    let address = address.or_endpoint(network.endpoint.as_deref()).map_err(usage)?;
    Ok(Some(
        address
            .or_region(network.region.as_deref())
            .or_addressing(network.addressing),
    ))
}

/// Reaches the server of an address.
pub(crate) fn reach(address: &Address, network: &NetworkArgs) -> Result<Arc<ObjectStorage>> {
    let options = Options::default()
        .upload(network.limit_upload)
        .download(network.limit_download)
        .certificates(network.ca_file.clone());
    Ok(Arc::new(ibid_remote::open(address, &options)?))
}

/// Opens a storage, whether there is a repository in it or not.
pub(crate) fn open(path: &Path, network: &NetworkArgs, servers: &Servers) -> Result<Place> {
    if let Some(address) = address(path, network)? {
        let server = reach(&address, network)?;
        servers.add(&server);
        return Ok(Place::Server(server));
    }
    match Local::open(path) {
        Ok(local) => Ok(Place::Folder(Arc::new(local))),
        Err(error) => Err(match error.kind() {
            ErrorKind::NotFound => Error::NoRepository {
                location: path.display().to_string(),
            }
            .into(),
            ErrorKind::NotAnObject => Error::NotARepository {
                location: path.display().to_string(),
                found: "it is a file".to_owned(),
            }
            .into(),
            _ => error.into(),
        }),
    }
}

/// Refuses a server that lets a put overwrite: several programs in one repository would lose data.
pub(crate) fn keeps_what_is_there(storage: &dyn Storage) -> Result<()> {
    let name = format!("keys/probe-{}", ibid_storage::probe::random_tag());
    let name = Name::new(&name).expect("a folder, letters and digits");
    storage.put(&name, &[b"first"])?;
    let again = storage.put(&name, &[b"other"]);
    let deleted = storage.delete(&name);
    match again {
        Ok(()) => Err(
            ibid_storage::Error::new(ErrorKind::Unsupported, Operation::Create, None, storage.location())
                .with_found(
                    "this server lets one put overwrite another, so that two programs could destroy each other's data",
                )
                .into(),
        ),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(deleted?),
        Err(error) => Err(error.into()),
    }
}
