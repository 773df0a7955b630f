//! Shows sizes in a table: `cargo run -p ibid-terminal --example sizes -- 64KiB 1.5GB`.

use std::process::ExitCode;

use ibid_terminal::{Align, Output, Table, fatal, number, value};

fn main() -> ExitCode {
    let mut table = Table::new(&[("size", Align::Left), ("bytes", Align::Right), ("shown", Align::Right)]);
    for text in std::env::args().skip(1) {
        match value::size(&text) {
            Ok(bytes) => table.row(vec![text, number::count(bytes), number::size(bytes)]),
            Err(problem) => {
                fatal("sizes", &problem, 2, false);
                return ExitCode::from(2);
            }
        }
    }
    let mut output = Output::new();
    let printed = table.lines().try_for_each(|line| output.line(line));
    match printed.and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            fatal("sizes", &error.to_string(), 1, false);
            ExitCode::FAILURE
        }
    }
}
