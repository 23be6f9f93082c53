//! A cluster of etcd with three members.

use super::{ClusterMember, until};
use crate::net::NetMachine;
use std::path::Path;
use std::process::Command;

pub(super) fn command(member: &ClusterMember, number: usize, addresses: &[String]) -> Command {
    let own = &addresses[number];
    let peer = |n: usize, address: &String| format!("m{n}=http://{address}:2380");
    let all: Vec<String> = addresses.iter().enumerate().map(|(n, address)| peer(n, address)).collect();
    let (clients, peers) = (format!("http://{own}:2379"), format!("http://{own}:2380"));
    let mut command = member.place().command(Path::new("etcd"), None, &[]);
    command
        .args(["--name", &format!("m{number}"), "--data-dir"])
        .arg(member.data())
        .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
        .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
        .args(["--initial-cluster", &all.join(","), "--initial-cluster-token", "faults"])
        .args(["--logger", "zap", "--log-level", "warn"]);
    command
}

/// The member that leads, as its own status says.
pub(super) fn leader(onlooker: &NetMachine, addresses: &[String]) -> Result<usize, String> {
    let mut found = None;
    until("no member of etcd leads", || {
        for (n, address) in addresses.iter().enumerate() {
            let words =
                ["env", "ETCDCTL_API=3", "etcdctl", "--endpoints", address.as_str(), "endpoint", "status"];
            // `ENDPOINT, ID, VERSION, SIZE, IS LEADER, …`
            let status = onlooker.run(&words).unwrap_or_default();
            if status.split(", ").nth(4) == Some("true") {
                found = Some(n);
            }
        }
        Ok(found.is_some())
    })?;
    found.ok_or_else(|| "no member of etcd leads".to_owned())
}

/// Writes until its database needs another page: its log has room that was made beforehand.
pub(super) fn use_up(member: &ClusterMember) -> bool {
    let endpoint = format!("{}:2379", member.machine.address);
    let filler = "x".repeat(100_000);
    let words = ["env", "ETCDCTL_API=3", "etcdctl", "--endpoints", &endpoint, "--command-timeout=1s", "put"];
    (0..12).any(|n| {
        let key = format!("filler/{n}");
        member.machine.run(&[&words[..], &[&key, &filler]].concat()).is_err()
    })
}
