//! Servers of a test's own, to be full, to ask who calls, to be a replica; and an address that swallows what is sent to it.

use super::wait_until;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tenure_ports::unused_port;

/// A server on loopback, which is killed with this value.
pub struct Server {
    pub port: u16,
    /// It is removed with this.
    _folder: TempDir,
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn served(port: u16, folder: TempDir, command: &mut Command) -> Server {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Server { port, _folder: folder, child: command.spawn().unwrap() };
    wait_until("the server to listen", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    server
}

/// Redis with these settings.
pub fn redis(settings: &str) -> Server {
    let (port, folder) = (unused_port().unwrap(), tempfile::tempdir().unwrap());
    let mut command = Command::new("redis-server");
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(folder.path());
    let server = served(port, folder, command.args(settings.split_whitespace()));
    wait_until("Redis to answer", || !redis_cli(server.port, &["PING"]).stdout.is_empty());
    server
}

pub fn redis_cli(port: u16, words: &[&str]) -> Output {
    Command::new("redis-cli")
        .args(["-p", &port.to_string()])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// etcd with these settings, and with TLS where there are a certificate and its key.
pub fn etcd(settings: &[&str], tls: Option<(&str, &str)>) -> Server {
    let (port, folder) = (unused_port().unwrap(), tempfile::tempdir().unwrap());
    let clients = format!("{}://127.0.0.1:{port}", if tls.is_some() { "https" } else { "http" });
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(folder.path().join("data"));
    command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
    command.args(["--listen-peer-urls", "http://127.0.0.1:0", "--logger", "zap"]);
    if let Some((certificate, key)) = tls {
        command.args(["--cert-file", certificate, "--key-file", key]);
    }
    let server = served(port, folder, command.args(settings));
    if tls.is_none() {
        wait_until("etcd to answer", || etcdctl(server.port, &["get", "x"]).status.success());
    }
    server
}

pub fn etcdctl(port: u16, words: &[&str]) -> Output {
    let endpoint = format!("127.0.0.1:{port}");
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").args(["--endpoints", &endpoint]).args(words).stdin(Stdio::null());
    command.output().unwrap()
}

/// An address whose packets are dropped, as by a firewall: its queue of connections is full, and nobody takes any.
pub struct Swallower {
    pub port: u16,
    _socket: socket2::Socket,
    _waiting: Vec<TcpStream>,
}

pub fn swallower() -> Swallower {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        waiting.push(stream);
        assert!(waiting.len() < 100, "the queue is never full");
    }
    Swallower { port: address.port(), _socket: socket, _waiting: waiting }
}
