//! Encodes one file against another by each method, and prints the sizes.
//!
//! `cargo run --release -p ibid-delta --example one_file BASE TARGET`
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;

use ibid_delta::{DeltaDecoder, DeltaEncoder, Interval, Method, Sketcher};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(base), Some(target)) = (arguments.next(), arguments.next()) else {
        return Err("expected: BASE TARGET".into());
    };
    let (base, target) = (std::fs::read(base)?, std::fs::read(target)?);

    let mut sketcher = Sketcher::new();
    let sketch = sketcher.sketch(&target);
    let shared = sketch.shared(&sketcher.sketch(&base));
    println!("the files share {shared} of {} features", sketch.features().len());

    let (mut encoder, mut decoder) = (DeltaEncoder::new(), DeltaDecoder::new());
    let interval = Interval::I64;
    for (name, method) in [
        ("zstd-prefix", Method::ZstdPrefix { level: 3 }),
        ("anchor", Method::Anchor { interval }),
        ("anchor-zstd", Method::AnchorZstd { level: 3, interval }),
    ] {
        let (mut delta, mut decoded) = (Vec::new(), Vec::new());
        encoder.encode(method, &base, &target, &mut delta)?;
        decoder.decode(&base, &delta, target.len(), &mut decoded)?;
        assert!(decoded == target, "a delta decodes to its target");
        println!("{name:>11}: {} bytes instead of {}", delta.len(), target.len());
    }
    Ok(())
}
