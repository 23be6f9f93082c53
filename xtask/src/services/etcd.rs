//! etcd, from Debian's packages: one member, whose data go with it. Tests that need clusters, TLS or users start their own.

use super::package::need;
use super::server::{Kind, Ports};
use std::process::{Child, Command};

pub(super) const KIND: Kind =
    Kind { name: "etcd", file: "etcd", mark: "tenure-etcd-", fetch, spawn, signal: "-INT" };

/// The URL by which tests and the command line find it.
pub(super) fn environment(ports: &Ports) -> Option<(&'static str, String)> {
    ports.get(KIND.file).map(|port| ("TENURE_TEST_ETCD", format!("etcd://127.0.0.1:{port}")))
}

fn fetch() -> Result<(), String> {
    need("etcd", "--version", "etcd-server")?;
    // An operator's hand in tests, which also makes users and roles.
    need("etcdctl", "version", "etcd-client")
}

fn spawn(port: u16, _others: &Ports) -> Result<Child, String> {
    let folder = KIND.folder(port, None)?;
    let clients = format!("http://127.0.0.1:{port}");
    let mut etcd = Command::new("etcd");
    etcd.arg("--data-dir")
        .arg(folder.join("data"))
        .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
        // No other member comes, so any port will do.
        .args(["--listen-peer-urls", "http://127.0.0.1:0", "--logger", "zap", "--log-level", "warn"]);
    KIND.start(&mut etcd)
}
