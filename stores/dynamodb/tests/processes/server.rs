//! A DynamoDB Local of a test's own, which keeps its tables on disk and can be killed.

use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tenure_core::Clock as _;
use tenure_testkit::RealClock;

pub(crate) struct Server {
    port: u16,
    disk: PathBuf,
    process: Child,
}

impl Server {
    pub(crate) async fn start(disk: &Path) -> Server {
        let free = tenure_ports::unused_port().unwrap();
        let server = Server { port: free, disk: disk.to_owned(), process: spawn(free, disk) };
        server.answers().await;
        server
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends without a warning, and comes back at the same place from what is on the disk.
    pub(crate) async fn crash(&mut self, away: Duration) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        tokio::time::sleep(away).await;
        self.process = spawn(self.port, &self.disk);
        self.answers().await;
    }

    /// Stands still for as long as this.
    pub(crate) async fn pause(&self, span: Duration) {
        let signal = |signal| kill_process(Pid::from_child(&self.process), signal).unwrap();
        signal(Signal::STOP);
        tokio::time::sleep(span).await;
        signal(Signal::CONT);
    }

    async fn answers(&self) {
        let clock = RealClock::new();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(clock.held().0 < 90_000_000_000, "DynamoDB Local does not listen");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn spawn(port: u16, disk: &Path) -> Child {
    let told = |variable: &str| {
        std::env::var(variable).unwrap_or_else(|_| {
            panic!("{variable} is not set: `cargo xtask services up` fetches DynamoDB Local and prints that")
        })
    };
    let library = told("TENURE_TEST_DYNAMODB_LIBRARY");
    Command::new("java")
        .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .arg(format!("-Djava.library.path={library}"))
        .args(["-classpath", &format!("{library}/*")])
        .arg(told("TENURE_TEST_DYNAMODB_PROGRAM"))
        .arg(port.to_string())
        .arg(disk)
        .env("DDB_LOCAL_TELEMETRY", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended already is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
