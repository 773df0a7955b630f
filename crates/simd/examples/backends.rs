//! Lists the vector backends of this machine, and runs one kernel on each.
//!
//! `cargo run --release -p ibid-simd --example backends`
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::time::Instant;

use ibid_simd::{BLOCK, Backend, Kernel, Vector};

/// Counts the bytes that are at least `least`.
struct CountAtLeast<'a> {
    blocks: &'a [[u8; BLOCK]],
    least: u8,
}

impl Kernel for CountAtLeast<'_> {
    type Output = u32;

    fn run_scalar(self) -> u32 {
        let bytes = self.blocks.as_flattened();
        bytes.iter().filter(|&&byte| byte >= self.least).count() as u32
    }

    #[inline(always)]
    fn run<V: Vector>(self, vector: V) -> u32 {
        let least = vector.splat(self.least);
        let mut count = 0;
        for block in self.blocks {
            for at in (0..BLOCK).step_by(V::LANES) {
                count += vector.count_ones(vector.at_least(vector.load(block, at), least));
            }
        }
        count
    }
}

fn main() {
    let bytes: Vec<u8> = (0..16_u32 << 20)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let (blocks, _) = bytes.as_chunks();
    for backend in Backend::available() {
        let start = Instant::now();
        let count = backend.run(CountAtLeast { blocks, least: 200 });
        let speed = bytes.len() as f64 / start.elapsed().as_secs_f64() / 1e9;
        let chosen = if backend == Backend::best() {
            "  (chosen by default)"
        } else {
            ""
        };
        println!(
            "{:>8}: {count} bytes are at least 200, {speed:.1} GB/s{chosen}",
            backend.name()
        );
    }
}
