//! Stores files as objects in a folder, lists the objects, and prints them.
//!
//! ```text
//! cargo run -p ibid-storage --example folder FOLDER put NAME FILE
//! cargo run -p ibid-storage --example folder FOLDER list
//! cargo run -p ibid-storage --example folder FOLDER get NAME
//! ```
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;
use std::io::Write;

use ibid_storage::{Local, Name, Storage};

/// Largest object that `get` reads into memory, bytes.
const LIMIT: u64 = 1 << 30;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [folder, "put", name, file] => {
            let storage = Local::open(folder).or_else(|_| Local::create(folder))?;
            // When this returns, the object is whole and survives a loss of power.
            storage.put(&Name::new(name)?, &[&std::fs::read(file)?])?;
        }
        [folder, "list"] => {
            let storage = Local::open(folder)?;
            storage.list("", &mut |name, bytes| println!("{bytes:>12} {name}"))?;
        }
        [folder, "get", name] => {
            let object = Local::open(folder)?.get(&Name::new(name)?, LIMIT)?;
            std::io::stdout().write_all(&object)?;
        }
        _ => return Err("expected: FOLDER put NAME FILE, FOLDER list, or FOLDER get NAME".into()),
    }
    Ok(())
}
