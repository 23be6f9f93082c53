//! How each fault is made, and how it is healed.

use crate::ledger::Told;
use crate::matrix::Fault;
use crate::servers::FLOATING;
use crate::servers::Kind;
use crate::stage::{LONG, Stage};
use rustix::process::Signal;
use std::time::Duration;

/// A fault under way.
#[derive(Debug)]
pub(crate) struct Inflicted {
    fault: Fault,
    /// Which servers it concerns.
    members: Vec<usize>,
    clocks: u64,
    /// The store was asked for a write meanwhile, and did not do it.
    pub(crate) refused: bool,
    /// A server had no room for what it had to write.
    used_up: bool,
}

const HOUR: i64 = 3600;

impl Stage<'_> {
    /// What must be so before there is a holder for it.
    pub(crate) fn prepare(&mut self, fault: Fault) -> Result<(), String> {
        let servers = &mut self.lane.servers;
        match fault {
            Fault::Failover => servers.follow()?,
            Fault::SynchronousFailover => {
                servers.follow()?;
                return servers.wait_for_follower();
            }
            _ => return Ok(()),
        }
        // From now on the second server hears nothing any more, of this holder neither.
        let (first, second) = (servers.primary, 1 - servers.primary);
        let address = servers.members[first].machine.address.clone();
        servers.members[second].machine.rule(&format!("INPUT -s {address} -j DROP"))
    }

    /// Makes it, in the n-th episode, and lets it last for that time. With that it is over where it heals by itself.
    pub(crate) fn inflict(&mut self, fault: Fault, n: u32, span: Duration) -> Result<Inflicted, String> {
        let mut inflicted =
            Inflicted { fault, members: Vec::new(), clocks: 0, refused: false, used_up: false };
        match fault {
            Fault::HolderStopped => self.contenders[0].process.signal(Signal::STOP),
            Fault::HolderKilled => self.contenders[0].process.kill(),
            Fault::Partition => self.rules(0, &["INPUT -j DROP", "OUTPUT -j DROP"])?,
            Fault::RequestsLost => self.rules(0, &["OUTPUT -j DROP"])?,
            Fault::AnswersLost => self.rules(0, &["INPUT -j DROP"])?,
            Fault::Flapping => return self.flap(inflicted, span),
            Fault::LatencyAndLoss => {
                self.rules(0, &["OUTPUT ! -o lo -m statistic --mode random --probability 0.1 -j DROP"])?;
                self.proxy("delay 150")?;
            }
            Fault::Resets => self.rules(
                0,
                &["OUTPUT -p tcp -m statistic --mode nth --every 8 --packet 0 -j REJECT --reject-with tcp-reset"],
            )?,
            Fault::AnswersCut => drop(self.proxy(&format!("cut {}", 3 + 2 * (n % 2)))?),
            Fault::LateRequests => drop(self.proxy("keep")?),
            Fault::DiskFull => {
                self.lane.servers.disks().try_for_each(|disk| disk.fill())?;
                inflicted.used_up = self.lane.servers.use_up();
                if self.lane.servers.kind == Kind::Sqlite {
                    self.lane.probe.ask(&format!("fill filler/{n}"))?;
                }
            }
            Fault::ClientsClock => inflicted.clocks = self.clients_clock(n)?,
            Fault::ServersClock => {
                let seconds = if n.is_multiple_of(2) { HOUR } else { -HOUR };
                self.lane.servers.members.iter().try_for_each(|member| member.wall.jump(seconds))?;
                // Whoever comes fresh judges by clocks.
                self.replace(2)?;
            }
            Fault::ServerStopped | Fault::ServerKilled => {
                inflicted.members = self.concerned(n)?;
                for &member in &inflicted.members {
                    if fault == Fault::ServerKilled {
                        self.lane.servers.kill(member);
                    } else {
                        self.lane.servers.signal(member, Signal::STOP);
                    }
                }
            }
            Fault::LeaderCutOff => inflicted.members = self.cut_off_leader(n)?,
            Fault::ServerForgets => {
                self.rules(0, &["INPUT -j DROP", "OUTPUT -j DROP"])?;
                self.lane.servers.forget()?;
            }
            Fault::Failover => {
                self.lane.servers.promote()?;
                self.followed(1)?;
            }
            Fault::SynchronousFailover => {
                self.lane.servers.kill(self.lane.servers.primary);
                self.lane.servers.promote()?;
                self.followed(0)?;
            }
        }
        std::thread::sleep(span);
        if fault.is_of_servers() {
            let key = format!("meanwhile/{}", crate::raw::now());
            inflicted.refused = self.lane.probe.ask(&format!("mark {key}")).is_err();
        }
        Ok(inflicted)
    }

    /// Ends it; tells how much of it was felt, of which there must be some.
    pub(crate) fn heal(&mut self, inflicted: &Inflicted) -> Result<u64, String> {
        match inflicted.fault {
            Fault::HolderStopped => {
                self.contenders[0].process.signal(Signal::CONT);
                Ok(1)
            }
            Fault::HolderKilled => self.replace(0).map(|()| 1),
            Fault::Partition | Fault::RequestsLost | Fault::AnswersLost | Fault::Resets | Fault::Flapping => {
                self.lane.machines[0].open()
            }
            Fault::LatencyAndLoss => {
                let delayed = self.proxy("pass")?;
                Ok(delayed + self.lane.machines[0].open()?)
            }
            Fault::AnswersCut | Fault::LateRequests => self.proxy("pass"),
            Fault::DiskFull => {
                self.lane.servers.disks().try_for_each(|disk| disk.free())?;
                // A majority may answer without a member that has ended.
                self.lane.servers.revive()?;
                self.lane.answers().map(|()| u64::from(inflicted.refused || inflicted.used_up))
            }
            Fault::ClientsClock => {
                self.lane.walls.iter().try_for_each(|wall| wall.jump(0))?;
                Ok(self.clients_shown()? - inflicted.clocks)
            }
            Fault::ServersClock => {
                let members = &self.lane.servers.members;
                let shown: Result<Vec<u64>, String> = members.iter().map(|one| one.wall.shown()).collect();
                members.iter().try_for_each(|member| member.wall.jump(0))?;
                shown.map(|shown| shown.into_iter().sum())
            }
            Fault::ServerStopped => {
                for &member in &inflicted.members {
                    self.lane.servers.signal(member, Signal::CONT);
                }
                self.lane.answers().map(|()| 1)
            }
            Fault::ServerKilled => {
                for &member in &inflicted.members {
                    self.lane.servers.begin(member)?;
                }
                self.lane.answers().map(|()| 1)
            }
            Fault::LeaderCutOff => {
                let met = self.lane.servers.members[inflicted.members[0]].machine.open()?;
                Ok(met + self.lane.machines[0].open()?)
            }
            Fault::ServerForgets => {
                let met = self.lane.machines[0].open()?;
                self.lane.answers().map(|()| met)
            }
            Fault::SynchronousFailover => self.lane.answers().map(|()| 1),
            Fault::Failover => {
                // The old primary is gone for good; its machine will follow the new one.
                let servers = &mut self.lane.servers;
                let (first, old) = (servers.primary, 1 - servers.primary);
                servers.kill(old);
                servers.members[first].machine.open()?;
                self.lane.machines[0].sends(FLOATING, &self.lane.servers.members[first].machine)?;
                Ok(1)
            }
        }
    }

    fn rules(&self, machine: usize, rules: &[&str]) -> Result<(), String> {
        rules.iter().try_for_each(|rule| self.lane.machines[machine].rule(rule))
    }

    /// Tells the proxy; how often it has done something to what passed under its last order.
    fn proxy(&mut self, line: &str) -> Result<u64, String> {
        let proxy = self.proxy.as_mut().ok_or("there is no proxy on this stage")?;
        proxy.number(line).map(|(_, count)| count)
    }

    /// Away for a fifth of a ttl, and there for as long.
    fn flap(&mut self, inflicted: Inflicted, span: Duration) -> Result<Inflicted, String> {
        let start = crate::raw::now();
        let machine = &self.lane.machines[0];
        let mut met = 0;
        // Whoever keeps a lease sends little: it may all fall between.
        while crate::raw::since(start) < span || (met == 0 && crate::raw::since(start) < 10 * span) {
            self.rules(0, &["INPUT -j DROP", "OUTPUT -j DROP"])?;
            std::thread::sleep(self.ttl / 5);
            met += machine.open()?;
            std::thread::sleep(self.ttl / 5);
        }
        if met == 0 {
            return Err("nothing was lost while the network flapped".into());
        }
        // What `heal` counts.
        machine.rule("OUTPUT -j ACCEPT")?;
        std::thread::sleep(self.ttl);
        Ok(inflicted)
    }

    /// The holder's is an hour ahead, or that of all others is; then both once more, behind, and ten years ahead.
    fn clients_clock(&mut self, n: u32) -> Result<u64, String> {
        let before = self.clients_shown()?;
        let seconds = [HOUR, HOUR, -HOUR, 10 * 365 * 24 * HOUR][n as usize % 4];
        if n.is_multiple_of(2) {
            self.lane.walls[0].jump(seconds)?;
        } else {
            self.lane.walls[1..].iter().try_for_each(|wall| wall.jump(seconds))?;
        }
        // Whoever comes fresh judges by clocks.
        self.replace(2)?;
        Ok(before)
    }

    fn clients_shown(&self) -> Result<u64, String> {
        let shown: Result<Vec<u64>, String> = self.lane.walls.iter().map(|wall| wall.shown()).collect();
        shown.map(|shown| shown.into_iter().sum())
    }

    /// All servers, or of a cluster the leader only, by turns.
    fn concerned(&self, n: u32) -> Result<Vec<usize>, String> {
        match (&self.lane.onlooker, self.lane.servers.kind) {
            (Some(onlooker), Kind::Etcd) if n.is_multiple_of(2) => {
                Ok(vec![self.lane.servers.leader(onlooker)?])
            }
            _ => Ok(self.lane.servers.always()),
        }
    }

    /// The leader loses the other members; by turns, the holder is on its side, or reaches all.
    fn cut_off_leader(&mut self, n: u32) -> Result<Vec<usize>, String> {
        let servers = &self.lane.servers;
        let leader = servers.leader(self.lane.onlooker.as_ref().ok_or("there is no onlooker")?)?;
        let others = servers.members.iter().enumerate().filter(|(member, _)| *member != leader);
        for (_, other) in others {
            let address = &other.machine.address;
            let both = [format!("INPUT -s {address} -j DROP"), format!("OUTPUT -d {address} -j DROP")];
            for rule in &both {
                servers.members[leader].machine.rule(rule)?;
                if n.is_multiple_of(2) {
                    self.lane.machines[0].rule(rule)?;
                }
            }
        }
        Ok(vec![leader])
    }

    /// The floating address is the new primary's for the onlooker and all contenders, from this one on.
    fn followed(&self, first: usize) -> Result<(), String> {
        let primary = &self.lane.servers.members[self.lane.servers.primary].machine;
        let all = self.lane.machines[first..].iter().chain(&self.lane.onlooker);
        all.into_iter().try_for_each(|machine| machine.sends(FLOATING, primary))
    }

    /// Waits for what `look` finds, as long as anything may take.
    pub(crate) fn await_told<T>(&self, what: &str, look: impl Fn(&Told) -> Option<T>) -> Result<T, String> {
        self.ledger.until(LONG, look).ok_or_else(|| {
            let troubles = self.ledger.read(|told| told.troubles.clone());
            format!("{what}: not after {} s; troubles: {troubles:?}", LONG.as_secs())
        })
    }
}
