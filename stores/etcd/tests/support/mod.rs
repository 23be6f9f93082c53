//! What the tests of this store share: the server that `cargo xtask` has started, prefixes of their own in it, and a way around tenure.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

pub(crate) mod cluster;
pub(crate) mod relay;

use std::process::{Command, Stdio};
use tenure_etcd::EtcdConfig;
pub(crate) use tenure_testkit::unique;

/// Where the server is: the variable that `cargo xtask test` and `cargo xtask services run` set.
pub(crate) fn url() -> String {
    std::env::var("TENURE_TEST_ETCD")
        .expect("TENURE_TEST_ETCD is not set; run `cargo xtask services run -- cargo test -p tenure-etcd`")
}

/// The same of the cluster of three.
pub(crate) fn cluster_url() -> String {
    std::env::var("TENURE_TEST_ETCD_CLUSTER").expect(
        "TENURE_TEST_ETCD_CLUSTER is not set; run `cargo xtask services run -- cargo test -p tenure-etcd`",
    )
}

/// The same of a newer version.
pub(crate) fn newer_url() -> String {
    std::env::var("TENURE_TEST_ETCD_NEWER").expect(
        "TENURE_TEST_ETCD_NEWER is not set; run `cargo xtask services run -- cargo test -p tenure-etcd`",
    )
}

/// A prefix of that server.
pub(crate) fn config(prefix: &str) -> EtcdConfig {
    EtcdConfig::from_url(&url()).unwrap().prefix(prefix)
}

/// etcd's own client, as an operator's hand.
pub(crate) fn etcdctl(arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new("etcdctl");
    // Its own limits are 5 s and 2 s, which a busy machine exceeds.
    command.env("ETCDCTL_COMMAND_TIMEOUT", "60s").env("ETCDCTL_DIAL_TIMEOUT", "60s");
    command.env("ETCDCTL_API", "3").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child =
        command.stderr(Stdio::piped()).spawn().expect("etcdctl starts: apt-get install etcd-client");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The same on a server that is shared.
pub(crate) fn by_hand(url: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let endpoints = url.trim_start_matches("etcd://").split('/').next().unwrap();
    etcdctl(&[&["--endpoints", endpoints], arguments].concat(), input)
}
