//! Where a repository is: in a folder of this machine, on another machine, or with a server.

use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ibid_format::tree::Time;
use ibid_remote::connection::{HostAddress, HostStorage, Identity, Ssh, Tls, TlsAddress, TlsClient};
use ibid_remote::{Address, ObjectStorage, Options, PastStorage, Requests};
use ibid_repo::{Error, Similarity};
use ibid_storage::{ErrorKind, Local, Name, Operation, Storage, Swept};

use super::silence;
use crate::args::NetworkArgs;
use crate::failure::{Failure, Result};

/// A storage.
#[derive(Clone)]
pub(crate) enum Place {
    Folder(Arc<Local>),
    Server(Arc<ObjectStorage>),
    /// As it was with a server.
    Past(Arc<PastStorage>),
    Host(Arc<HostStorage>),
}

impl Place {
    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        match self {
            Place::Folder(local) => local.clone(),
            Place::Server(remote) => remote.clone(),
            Place::Past(past) => past.clone(),
            Place::Host(remote) => remote.clone(),
        }
    }

    pub(crate) fn location(&self) -> String {
        self.storage().location()
    }

    /// Removes unfinished files of killed programs. A server keeps none, and `ibid serve` does so itself.
    pub(crate) fn sweep(&self, age: Duration) -> Option<Swept> {
        match self {
            Place::Folder(local) => local.sweep(age).ok(),
            Place::Server(_) | Place::Past(_) | Place::Host(_) => None,
        }
    }

    /// Opens a place that was [reached](reach). Returns `false` if there is no such folder on another machine.
    pub(crate) fn open_if_there(&self) -> Result<bool> {
        match self {
            Place::Folder(_) | Place::Server(_) | Place::Past(_) => Ok(true),
            Place::Host(host) => match host.open() {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                opened => Ok(opened.map(|()| true)?),
            },
        }
    }

    /// Makes the folder on another machine.
    pub(crate) fn create(&self) -> Result<()> {
        match self {
            Place::Folder(_) | Place::Server(_) | Place::Past(_) => Ok(()),
            Place::Host(host) => Ok(host.create()?),
        }
    }

    /// Returns the place as it was.
    pub(crate) fn as_of(&self, time: Time) -> Result<Place> {
        match self {
            Place::Server(server) => Ok(Place::Past(Arc::new(server.as_of(time.seconds)?))),
            _ => Err(Failure::Usage(format!(
                "--as-of reads what a bucket keeps of deleted and replaced objects (s3://...), and {} is no bucket",
                self.location()
            ))),
        }
    }

    /// Refuses to search for more deltas where none are stored.
    pub(crate) fn refuse_deltas(&self, similarity: Similarity) -> Result<()> {
        let storage = self.storage();
        let class = storage.archives().and_then(|archives| archives.class_of_data());
        match class.filter(|_| similarity == Similarity::Max) {
            Some(class) => Err(Failure::Usage(format!(
                "a backup stores no deltas in {class}, since what they are made against can't be read there. Leave out \
                 --similarity, or choose a class that is read at once, such as GLACIER_IR"
            ))),
            None => Ok(()),
        }
    }

    /// Returns what was asked of it, if it is no folder here.
    pub(crate) fn requests(&self) -> Option<Requests> {
        match self {
            Place::Folder(_) => None,
            Place::Server(server) => Some(server.requests()),
            Place::Past(past) => Some(past.requests()),
            Place::Host(host) => Some(host.requests()),
        }
    }
}

/// The servers and other machines that a command has used.
#[derive(Clone, Default)]
pub(crate) struct Servers {
    places: Rc<RefCell<Vec<Place>>>,
    /// Whether nothing is to be said of them.
    is_quiet: bool,
}

impl Servers {
    pub(crate) fn new(is_quiet: bool) -> Servers {
        Servers {
            is_quiet,
            ..Servers::default()
        }
    }

    /// Returns all of them.
    pub(crate) fn places(&self) -> Vec<Place> {
        self.places.borrow().clone()
    }

    /// Returns what was asked of all of them, if there are any.
    pub(crate) fn requests(&self) -> Option<Requests> {
        let places = self.places.borrow();
        places.iter().filter_map(Place::requests).reduce(Requests::and)
    }
}

/// An address, in place of a path.
pub(crate) enum Elsewhere {
    Server(Address),
    Host(HostAddress),
    Tls(TlsAddress),
}

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Elsewhere::Server(address) => address.fmt(f),
            Elsewhere::Host(address) => address.fmt(f),
            Elsewhere::Tls(address) => address.fmt(f),
        }
    }
}

/// Returns why a text is no address, if it is one of another program.
pub(crate) fn of_another_program(text: &str) -> Option<&'static str> {
    text.starts_with("rclone:").then_some(
        "a repository can't be reached through rclone: there one put overwrites another, so that two programs could \
         destroy each other's data. Use s3://, gs://, az://, ssh:// or tls://, or copy a folder's repository with \
         `rclone copy` (docs/remote.md)",
    )
}

/// Returns the address that a path is meant as.
pub(crate) fn address(path: &Path, network: &NetworkArgs) -> Result<Option<Elsewhere>> {
    let Some(text) = path.to_str() else { return Ok(None) };
    if let Some(why) = of_another_program(text) {
        return Err(Failure::Usage(why.to_owned()));
    }
    if HostAddress::is_meant_by(text) {
        let address = text.parse().map_err(|error| Failure::Usage(format!("{error}")));
        return Ok(Some(Elsewhere::Host(address?)));
    }
    if TlsAddress::is_meant_by(text) {
        let address = text.parse().map_err(|error| Failure::Usage(format!("{error}")));
        return Ok(Some(Elsewhere::Tls(address?)));
    }
    if !Address::is_meant_by(text) {
        return Ok(None);
    }
    let usage = |error: ibid_remote::AddressError| Failure::Usage(error.to_string());
    let address: Address = text.parse().map_err(usage)?;
    let address = address.or_endpoint(network.endpoint.as_deref()).map_err(usage)?;
    Ok(Some(Elsewhere::Server(
        address
            .or_region(network.region.as_deref())
            .or_addressing(network.addressing)
            .or_storage_class(network.storage_class.as_deref())
            .map_err(usage)?,
    )))
}

/// Returns the place of an address. On another machine it is still to be [opened](Place::open_if_there).
pub(crate) fn reach(address: &Elsewhere, network: &NetworkArgs, servers: &Servers) -> Result<Place> {
    let options = Options::default()
        .upload(network.limit_upload)
        .download(network.limit_download)
        .certificates(network.ca_file.clone());
    let place = match address {
        Elsewhere::Server(address) => Place::Server(Arc::new(ibid_remote::open(address, &options)?)),
        Elsewhere::Host(address) => {
            let ssh = Ssh::new(address, network.ssh.as_deref());
            Place::Host(Arc::new(HostStorage::new(ssh, address.to_string(), &options)))
        }
        Elsewhere::Tls(address) => {
            let tls = Tls::new(address.clone(), client(address, network)?);
            Place::Host(Arc::new(HostStorage::new(tls, address.to_string(), &options)))
        }
    };
    silence::tell(&place, servers.is_quiet);
    servers.places.borrow_mut().push(place.clone());
    Ok(place)
}

/// Returns whom to trust at an address, and what to show there.
fn client(address: &TlsAddress, network: &NetworkArgs) -> Result<TlsClient> {
    let given = (&network.authority, &network.certificate, &network.private_key);
    let (Some(authority), Some(certificate), Some(key)) = given else {
        return Err(Failure::Usage(format!(
            "{address} needs --authority FILE, --certificate FILE and --private-key FILE: both sides show certificates \
             (docs/remote.md)"
        )));
    };
    let read = |path: &Path| std::fs::read(path).map_err(|error| Failure::local("read", path, error));
    let (authority, certificates, key) = (read(authority)?, read(certificate)?, read(key)?);
    let name = network.server_name.as_deref().unwrap_or(address.host());
    let identity = Identity {
        certificates: &certificates,
        key: &key,
    };
    TlsClient::new(&authority, name, Some(identity)).map_err(|error| Failure::Fatal(error.to_string()))
}

/// Opens a storage, whether there is a repository in it or not.
pub(crate) fn open(path: &Path, network: &NetworkArgs, servers: &Servers) -> Result<Place> {
    let location = || path.display().to_string();
    let opened = match address(path, network)? {
        Some(address) => {
            let place = reach(&address, network, servers)?;
            match &place {
                Place::Host(host) => host.open().map(|()| place),
                Place::Folder(_) | Place::Server(_) | Place::Past(_) => Ok(place),
            }
        }
        None => Local::open(path).map(|local| Place::Folder(Arc::new(local))),
    };
    opened.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::NoRepository { location: location() }.into(),
        ErrorKind::NotAnObject => Error::NotARepository {
            location: location(),
            found: "it is a file".to_owned(),
        }
        .into(),
        _ => error.into(),
    })
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

/// Returns the refusal of a lock for a place that can lock no files.
pub(crate) fn cannot_lock(place: &str) -> Failure {
    Failure::Usage(format!(
        "only servers with S3 (s3://...) can lock files, and {place} is none. Leave out --lock"
    ))
}
