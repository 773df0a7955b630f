//! How fast are sketches? `sketches FILE [SIZE]` sketches a file in pieces of SIZE bytes (65536) on
//! every backend, and prints GB/s, the best of 25 runs.
#![allow(clippy::print_stdout, reason = "this is a program")]

use std::error::Error;
use std::time::Instant;

use ibid_chunk::{Chunker, Settings};
use ibid_delta::{Backend, FeatureBytes, Interval, Sketcher};

fn speed(sketcher: &mut Sketcher, data: &[u8], size: usize) -> f64 {
    let runs = (0..25).map(|_| {
        let start = Instant::now();
        let features: usize = data
            .chunks(size)
            .map(|piece| sketcher.sketch(piece).features().len())
            .sum();
        std::hint::black_box(features);
        data.len() as f64 / start.elapsed().as_secs_f64() / 1e9
    });
    runs.fold(0.0, f64::max)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("expected: sketches FILE [SIZE]")?;
    let size = arguments.next().map_or(Ok(64 << 10), |size| size.parse())?;
    let mut data = std::fs::read(file)?;
    data.truncate(16 << 20);
    for backend in Backend::available() {
        for interval in Interval::ALL {
            for bytes in FeatureBytes::ALL {
                let mut sketcher = Sketcher::sampled(interval, bytes).with_backend(backend);
                let speed = speed(&mut sketcher, &data, size);
                println!("{backend} 1/{} {bytes:?}: {speed:.2}", interval.positions());
            }
        }
    }
    for name in ["gear", "seqcdc", "fastcdc"] {
        let chunker = Chunker::new(&Settings::for_average(name, 256)?)?;
        println!(
            "chunks by {name} 256: {:.2}",
            speed(&mut Sketcher::chunked(chunker), &data, size)
        );
    }
    Ok(())
}
