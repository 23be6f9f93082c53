//! A server's name that moves to another address while a lease is held there.
//!
//! Plan: on each store with a server, the name stands for one address and then for another, at which alone the server is reached from
//! then on. Who holds a lease finds it there without a restart, and releases it there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::remote::{Remote, port_of, told, well};
use crate::common::tcp_relay::TcpRelay;
use crate::common::{Process, wait_until};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};

const NAME: &str = "tenure-moved.test";

/// Runs the rest of its arguments where its first one stands in for the file of hosts.
const WITH_HOSTS: &str = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";

/// What may mount: root, or else a user namespace of its own.
fn namespace() -> Command {
    let mut command = Command::new("unshare");
    command.arg("--mount");
    let is_root = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    if !is_root.unwrap().success() {
        command.args(["--user", "--map-root-user"]);
    }
    command
}

/// `place` is the server by its address, at `port`; `named` is the same by its name at another port.
fn is_followed(place: &Remote, port: u16, named: impl Fn(u16) -> String) {
    let (first, second) = (Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2));
    let before = TcpListener::bind((first, 0)).unwrap();
    let meant = before.local_addr().unwrap().port();
    let after = TcpListener::bind((second, meant)).unwrap();
    let server = SocketAddr::from((first, port));
    let (before, after) = (TcpRelay::start(before, server), TcpRelay::start(after, server));
    let stands_for =
        |address: Ipv4Addr| place.bench.write("hosts", format!("127.0.0.1 localhost\n{address} {NAME}\n"));
    stands_for(first);
    let held = [
        "run",
        "k",
        "--ttl",
        "60s",
        "--",
        "sh",
        "-c",
        "echo $$ > started; until [ -e go ]; do sleep 0.05; done",
    ];
    let tenure = place.command(&held);
    let mut command = namespace();
    place.bench.settle(&mut command).args(["sh", "-c", WITH_HOSTS, "hosts"]).arg(tenure.get_program());
    command.args(tenure.get_args()).env("TENURE_STORE", named(meant)).stdin(Stdio::null());
    let mut holder = Process::from(command.spawn().unwrap());
    place.bench.await_number("started");
    let state = || place.run(&["show", "k", "--json"]).json()["state"].clone();
    assert_eq!(state(), "held");
    assert!(before.taken() > 0 && after.taken() == 0, "it is not reached by its name");
    stands_for(second);
    drop(before);
    wait_until("a connection at the new address", || after.taken() > 0);
    place.bench.write("go", "");
    assert_eq!(holder.wait(), 0);
    assert_ne!(state(), "held", "it was not released");
}

/// A URL with the name and a port for its host.
fn by_name(url: &str, port: u16) -> String {
    url.replace(&format!("127.0.0.1:{}", port_of(url)), &format!("{NAME}:{port}"))
}

#[test]
fn of_postgres() {
    let (server, schema) = (told("TENURE_TEST_POSTGRES"), format!("moved_{}", std::process::id()));
    let place = Remote::at(format!("{server}?schema={schema}"));
    assert!(well(&place.run(&["doctor", "--create-table"])));
    is_followed(&place, port_of(&server), |port| {
        format!("{}?schema={schema}&sslmode=disable", by_name(&server, port))
    });
}

#[test]
fn of_redis() {
    let (server, namespace) = (told("TENURE_TEST_REDIS"), format!("moved-{}", std::process::id()));
    let place = Remote::at(format!("{server}?namespace={namespace}"));
    is_followed(&place, port_of(&server), |port| {
        format!("{}?namespace={namespace}&plain=accept", by_name(&server, port))
    });
}

#[test]
fn of_etcd() {
    let (server, prefix) = (told("TENURE_TEST_ETCD"), format!("moved-{}", std::process::id()));
    let place = Remote::at(format!("{server}/{prefix}"));
    is_followed(&place, port_of(&server), |port| format!("{}/{prefix}?tls=off", by_name(&server, port)));
}
