//! Machines on one host: network namespaces on a bridge, which lies in a namespace of its own. So networks don't see each other, nor the
//! host's.

use crate::process::{NetNamespace, is_left_over, run};
use std::process::Command;

/// What all namespaces of this suite begin with; the process's id follows.
const MARK: &str = "tnf";

/// A bridge and its machines. They go with this value.
#[derive(Debug)]
pub(crate) struct Network {
    name: String,
    machines: Vec<String>,
}

/// One of them.
#[derive(Debug, Clone)]
pub(crate) struct NetMachine {
    pub(crate) place: NetNamespace,
    pub(crate) address: String,
}

fn ip(words: &str) -> Result<String, String> {
    run(Command::new("ip").args(words.split(' ')))
}

/// Removes what runs left behind that were killed.
pub(crate) fn sweep() {
    let Ok(all) = ip("netns list") else { return };
    for name in all.lines().filter_map(|line| line.split_whitespace().next()) {
        let Some(rest) = name.strip_prefix(MARK) else { continue };
        if is_left_over(rest) {
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

impl Network {
    pub(crate) fn new(name: &str) -> Result<Network, String> {
        let name = format!("{MARK}{}{name}", std::process::id());
        let network = Network { name, machines: Vec::new() };
        let hub = &network.name;
        ip(&format!("netns add {hub}")).map_err(|error| {
            format!("no network namespace can be made, and without them there are no machines: {error}; run as root, on a host that allows them")
        })?;
        ip(&format!("-n {hub} link add hub type bridge"))?;
        ip(&format!("-n {hub} link set hub up"))?;
        Ok(network)
    }

    /// Adds the machine with this last part of its address.
    pub(crate) fn machine(&mut self, host: u8) -> Result<NetMachine, String> {
        let hub = &self.name;
        let name = format!("{hub}-{host}");
        ip(&format!("netns add {name}"))?;
        self.machines.push(name.clone());
        ip(&format!("-n {hub} link add m{host} type veth peer name eth0 netns {name}"))?;
        ip(&format!("-n {hub} link set m{host} master hub up"))?;
        let address = format!("10.77.0.{host}");
        ip(&format!("-n {name} addr add {address}/24 dev eth0"))?;
        ip(&format!("-n {name} link set eth0 up"))?;
        ip(&format!("-n {name} link set lo up"))?;
        Ok(NetMachine { place: NetNamespace(Some(name)), address })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in self.machines.iter().chain([&self.name]) {
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

impl NetMachine {
    fn name(&self) -> &str {
        self.place.0.as_deref().unwrap_or_default()
    }

    /// Runs a program there that must succeed.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String, String> {
        run(Command::new("ip").args(["netns", "exec", self.name()]).args(words))
    }

    /// From now on packets go by this rule, such as `OUTPUT -j DROP`.
    pub(crate) fn rule(&self, rule: &str) -> Result<(), String> {
        let words: Vec<&str> = ["iptables", "-w", "-A"].into_iter().chain(rule.split(' ')).collect();
        self.run(&words).map(drop)
    }

    /// Without rules again; tells how many packets met one.
    pub(crate) fn open(&self) -> Result<u64, String> {
        let met = self.run(&["iptables", "-w", "-n", "-v", "-x", "-L"])?;
        let met = met.lines().filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok()).sum();
        self.run(&["iptables", "-w", "-F"])?;
        Ok(met)
    }

    /// An address that it has besides its own.
    pub(crate) fn also(&self, address: &str) -> Result<(), String> {
        ip(&format!("-n {} addr replace {address}/24 dev eth0", self.name())).map(drop)
    }

    /// Has whatever it sends to an address go to that machine: as a name that moves, or a floating address.
    pub(crate) fn sends(&self, address: &str, to: &NetMachine) -> Result<(), String> {
        let link = to.run(&["cat", "/sys/class/net/eth0/address"])?;
        let (name, link) = (self.name(), link.trim());
        ip(&format!("-n {name} neigh replace {address} lladdr {link} dev eth0 nud permanent")).map(drop)
    }
}
