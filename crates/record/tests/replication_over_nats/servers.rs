//! The servers, as processes.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ibid_record::replicate::nats::Address;

use crate::ports::free_port;

/// The longest wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with the test, even if the test fails.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The servers of one cluster, or a single server.
pub(crate) struct Servers {
    folder: tempfile::TempDir,
    /// The ports of each server: for clients, for monitoring, and for the other servers.
    pub(crate) ports: Vec<[u16; 3]>,
    /// Other options of the servers.
    told: Vec<OsString>,
    running: Vec<Option<Process>>,
}

impl Servers {
    pub(crate) fn start(count: usize) -> Self {
        Servers::told(count, Vec::new())
    }

    pub(crate) fn told(count: usize, told: Vec<OsString>) -> Self {
        // Syncs cost nothing there.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let mut servers = Servers {
            folder: folder.unwrap(),
            told,
            ports: (0..count).map(|_| [(); 3].map(|()| free_port())).collect(),
            running: (0..count).map(|_| None).collect(),
        };
        (0..count).for_each(|server| servers.run(server));
        servers
    }

    pub(crate) fn run(&mut self, server: usize) {
        let program = std::env::var_os("IBID_NATS_SERVER").unwrap_or_else(|| "nats-server".into());
        let [port, monitor, route] = self.ports[server];
        let place = self.folder.path().join(format!("{server}"));
        let mut command = Command::new(&program);
        let text = |number: u16| number.to_string();
        command.args([
            "--addr",
            "127.0.0.1",
            "--port",
            &text(port),
            "--http_port",
            &text(monitor),
        ]);
        command
            .args(["--name", &format!("n{server}"), "--jetstream", "--store_dir"])
            .arg(&place);
        command.arg("--log").arg(place.with_extension("log"));
        command.args(&self.told);
        if self.ports.len() > 1 {
            let routes: Vec<String> = self
                .ports
                .iter()
                .map(|[_, _, route]| format!("nats://127.0.0.1:{route}"))
                .collect();
            command.args([
                "--cluster_name",
                "ibid",
                "--cluster",
                &format!("nats://127.0.0.1:{route}"),
            ]);
            command.args(["--routes", &routes.join(",")]);
        }
        let started = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = started.unwrap_or_else(|error| {
            panic!("cannot start {program:?}: {error}; install nats-server, or name it by IBID_NATS_SERVER")
        });
        let mut process = Process(child);
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = process.0.try_wait().unwrap();
            assert!(ended.is_none(), "{program:?} ended: {ended:?}");
            assert!(begun.elapsed() < PATIENCE, "{program:?} does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        self.running[server] = Some(process);
    }

    /// Kills a server, as `kill -9` does.
    pub(crate) fn kill(&mut self, server: usize) {
        self.running[server] = None;
    }

    pub(crate) fn address(&self, name: &str) -> Address {
        let places: Vec<String> = self
            .ports
            .iter()
            .map(|[port, _, _]| format!("127.0.0.1:{port}"))
            .collect();
        format!("nats://{}/{name}", places.join(",")).parse().unwrap()
    }

    /// Returns the server that leads the stream, as any of them reports.
    pub(crate) fn leader(&self) -> usize {
        let begun = Instant::now();
        loop {
            for (server, [_, monitor, _]) in self.ports.iter().enumerate() {
                if self.running[server].is_none() {
                    continue;
                }
                let said = http(*monitor, "/jsz?streams=true");
                let leader = &said["account_details"][0]["stream_detail"][0]["cluster"]["leader"];
                if let Some(leader) = leader.as_str() {
                    return leader[1..].parse().unwrap();
                }
            }
            assert!(begun.elapsed() < PATIENCE, "no server leads the stream");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Returns a server's monitoring data; nothing if it does not answer.
pub(crate) fn http(port: u16, path: &str) -> serde_json::Value {
    let asked = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = asked().unwrap_or_default();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_default()
}
