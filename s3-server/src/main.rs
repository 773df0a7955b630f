//! `cargo run -p ibid-s3-server [PORT]`: a server with nothing in it, which prints what a client needs.
#![expect(clippy::print_stdout, reason = "what a program prints is its work")]

use ibid_s3_server::{ACCESS_KEY, BUCKETS, SECRET_KEY, Server, Traits};

fn main() {
    let port = std::env::args().nth(1).map_or(Ok(0), |port| port.parse());
    let Ok(port) = port else {
        println!("usage: ibid-s3-server [PORT]");
        std::process::exit(2);
    };
    let server = Server::start_with(Traits::default(), port);
    println!("export AWS_ENDPOINT_URL={}", server.endpoint());
    println!("export AWS_ACCESS_KEY_ID={ACCESS_KEY} AWS_SECRET_ACCESS_KEY={SECRET_KEY}");
    println!(
        "# buckets: {}. What is stored is gone when this ends.",
        BUCKETS.join(", ")
    );
    loop {
        std::thread::park();
    }
}
