//! `cargo run -p ibid-s3-server [PORT [DELAY]]`: a server with nothing in it, which prints what a client needs. It lets
//! each request wait for so many milliseconds. What is in an archive is thawed when standard input says so.
#![expect(clippy::print_stdout, reason = "what a program prints is its work")]

use std::io::BufRead;
use std::time::Duration;

use ibid_s3_server::{ACCESS_KEY, BUCKETS, Fault, SECRET_KEY, Server, Traits};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn main() {
    let argument = |at| std::env::args().nth(at).map_or(Ok(0), |number| number.parse::<u16>());
    let (Ok(port), Ok(delay)) = (argument(1), argument(2)) else {
        println!("usage: ibid-s3-server [PORT [DELAY]]");
        std::process::exit(2);
    };
    let server = Server::start_with(Traits::default(), port);
    if delay > 0 {
        let delay = Duration::from_millis(delay.into());
        server.faults().always(Some(Fault::Delay(delay)));
    }
    println!("export AWS_ENDPOINT_URL={}", server.endpoint());
    println!("export AWS_ACCESS_KEY_ID={ACCESS_KEY} AWS_SECRET_ACCESS_KEY={SECRET_KEY}");
    println!(
        "# buckets: {}. What is stored is gone when this ends.",
        BUCKETS.join(", ")
    );
    println!("# Type `thaw` to end the thawing of all that was asked for, `day` to let a day pass.");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.trim() {
            "thaw" => server.finish_thaws(),
            "day" => server.pass(DAY),
            "" => {}
            other => println!("# {other}? There are `thaw` and `day`."),
        }
    }
    // Without a terminal it runs until it is ended.
    loop {
        std::thread::park();
    }
}
