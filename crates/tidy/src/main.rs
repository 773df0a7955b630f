//! Compares the public API of each library with the list in `docs/api`, or renews the lists.
//!
//! ```text
//! cargo run -p ibid-tidy -- api            fails if an API is not as its list says, and shows how it differs
//! cargo run -p ibid-tidy -- api --renew    writes the lists anew
//! ```
//!
//! Both read the documentation of the whole workspace, and fail if rustdoc has a warning: a link that leads nowhere,
//! an example that is no Rust. To read it in a browser: `cargo doc --workspace --no-deps --open`.
//!
//! A changed line of a list is a change that users of the library may have to follow: it belongs
//! into CHANGELOG.md, and into the version number once something was released.
//!
//! The lists have what is behind the features that tests ask for, too: both engines of `ibid-record`.
//!
//! They come from rustdoc's JSON, which a stable rustdoc writes if `RUSTC_BOOTSTRAP` allows
//! it. Its format changes every few releases of Rust; where it is another one than this program
//! reads, nothing is compared, and a line says so.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "this program is for its output")]

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// What a program can depend on, in the order of their own dependences.
const LIBRARIES: [&str; 9] = [
    "ibid-simd",
    "ibid-chunk",
    "ibid-delta",
    "ibid-format",
    "ibid-storage",
    "ibid-tls",
    "ibid-remote",
    "ibid-record",
    "ibid-repo",
];

/// Programs whose documentation is read for warnings alone. That of `ibid-bench` is the library's.
const PROGRAMS: [&str; 3] = ["ibid", "ibid-sim", "ibid-tidy"];

/// The only format that the `public-api` of Cargo.toml reads.
const FORMAT: &str = "\"format_version\":57}";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // Anything else comes from Cargo, which takes this program for rustdoc: see `document`.
    let renew = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["api"] => false,
        ["api", "--renew"] => true,
        _ => return rustdoc(&arguments),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    document(&root)?;
    let mut changed = Vec::new();
    for library in LIBRARIES {
        let json = root.join(format!("target/doc/{}.json", library.replace('-', "_")));
        if !fs::read_to_string(&json)?.ends_with(FORMAT) {
            println!("not compared: this rustdoc writes another format; Rust 1.95 writes the one that is read here");
            return Ok(());
        }
        let api = public_api::Builder::from_rustdoc_json(json)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .omit_auto_derived_impls(true)
            .build()?;
        let found: String = api.items().map(|item| format!("{item}\n")).collect();
        let list = root.join("docs/api").join(format!("{library}.txt"));
        if renew {
            fs::create_dir_all(root.join("docs/api"))?;
            fs::write(&list, found)?;
            continue;
        }
        let expected = fs::read_to_string(&list).map_err(|error| format!("reading {}: {error}", list.display()))?;
        let differences = differences(&expected, &found);
        println!(
            "{library}: {} items, {} differ",
            found.lines().count(),
            differences.len()
        );
        differences.iter().for_each(|line| println!("  {line}"));
        if !differences.is_empty() {
            changed.push(library);
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    let changed = changed.join(", ");
    Err(format!("{changed}: the API changed. If it was meant to, run `cargo run -p ibid-tidy -- api --renew`").into())
}

/// Writes the JSON of all libraries into `target/doc`, in one run of Cargo, so that all are built with the same
/// dependences. Reads all other documentation, too, and fails after a warning.
fn document(root: &Path) -> Result<(), Box<dyn Error>> {
    // Set for rustdoc alone: with the variable set for all of Cargo, dependences would be built otherwise. With
    // examples, dependences have the features that tests ask for, and those that lints have checked serve here.
    let status = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["doc", "--locked", "--no-deps", "--quiet", "--workspace"])
        .args(["--lib", "--examples"])
        .args(PROGRAMS.map(|program| format!("--bin={program}")))
        .env("RUSTDOC", env::current_exe()?)
        .env("RUSTDOCFLAGS", "-Zunstable-options --output-format=json -Dwarnings")
        .env("CARGO_TARGET_DIR", root.join("target"))
        .current_dir(root)
        .status()?;
    if !status.success() {
        return Err(format!("cargo doc: {status}").into());
    }
    Ok(())
}

/// Runs rustdoc with unstable options allowed: what Cargo starts in rustdoc's place.
fn rustdoc(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let status = Command::new("rustdoc")
        .args(arguments)
        .env("RUSTC_BOOTSTRAP", "1")
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("rustdoc: {status}").into())
    }
}

/// Returns lines that one of the two alone has, `-` before those of the first.
fn differences(expected: &str, found: &str) -> Vec<String> {
    let only = |of: &str, other: &str, sign: &str| -> Vec<String> {
        of.lines()
            .filter(|line| !other.lines().any(|known| known == *line))
            .map(|line| format!("{sign} {line}"))
            .collect()
    };
    [only(expected, found, "-"), only(found, expected, "+")].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_what_went_and_what_came() {
        assert_eq!(differences("a\nb\n", "a\nb\n"), Vec::<String>::new());
        assert_eq!(differences("a\nb\n", "b\nc\n"), ["- a", "+ c"]);
    }
}
