//! How each fault is made, and how it is healed.

use crate::clocks::ClockKind;
use crate::ledger::LedgerState;
use crate::matrix::InjectedFault;
use crate::process::OwnedProcess;
use crate::raw;
use crate::servers::{FLOATING, StoreKind};
use crate::stage::{CellStage, LONG};
use rustix::process::Signal;
use std::time::Duration;

/// A fault under way.
#[derive(Debug)]
pub(crate) struct Inflicted {
    fault: InjectedFault,
    /// Which servers it concerns.
    members: Vec<usize>,
    /// How often processes had been shown other clocks before.
    clocks: u64,
    /// Since when the holder is stopped.
    stopped: u64,
    /// Since when it is there in full: rules take their time, and so does a promotion.
    pub(crate) since: u64,
    /// It watches servers, and ends with this.
    _sentinel: Option<OwnedProcess>,
    /// The store was asked for a write meanwhile, and did not do it.
    pub(crate) refused: bool,
    /// A server had no room for what it had to write.
    used_up: bool,
    /// How many disks have lost what was not synchronised.
    lost: u64,
}

const HOUR: i64 = 3600;
/// Parts of a million.
const PERCENT: i64 = 10_000;

impl CellStage<'_> {
    /// What must be so before there is a holder for it.
    pub(crate) fn prepare(&mut self, fault: InjectedFault, n: u32) -> Result<(), String> {
        let servers = &mut self.lane.servers;
        match fault {
            InjectedFault::RatesWithin | InjectedFault::RatesBeyond => return self.set_rates(fault, n),
            InjectedFault::SentinelFailover => return servers.follow(),
            InjectedFault::PowerCut if !servers.are_on_block_devices() => {
                self.goes_down();
                self.lane.servers.on_block_devices()?;
                return self.comes_up();
            }
            InjectedFault::Failover => servers.follow()?,
            InjectedFault::SynchronousFailover => {
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
    pub(crate) fn inflict(
        &mut self,
        fault: InjectedFault,
        n: u32,
        span: Duration,
    ) -> Result<Inflicted, String> {
        let now = raw::now();
        let mut inflicted = Inflicted {
            fault,
            members: Vec::new(),
            clocks: 0,
            stopped: now,
            since: now,
            _sentinel: None,
            refused: false,
            used_up: false,
            lost: 0,
        };
        match fault {
            InjectedFault::HolderSuspended | InjectedFault::TimeHidden => {
                inflicted.clocks = self.lane.clocks[0].felt()?;
                self.contenders[0].process.signal(Signal::STOP);
                inflicted.stopped = raw::now();
            }
            InjectedFault::SentinelFailover => {
                let onlooker = self.lane.onlooker.as_ref().ok_or("there is no onlooker")?;
                inflicted._sentinel = Some(self.lane.servers.guard(onlooker)?);
                // Only the holder still reaches the primary.
                let (first, holder) = (self.lane.servers.primary, &self.lane.machines[0].address);
                let rule = format!("INPUT -i eth0 ! -s {holder} -j DROP");
                self.lane.servers.members[first].machine.rule(&rule)?;
                self.lane.servers.await_promotion()?;
                self.followed(0)?;
            }
            InjectedFault::HolderStopped => self.contenders[0].process.signal(Signal::STOP),
            InjectedFault::HolderKilled => self.contenders[0].process.kill(),
            // What a holder may believe by its own clock shows when it hears nothing.
            InjectedFault::Partition | InjectedFault::RatesWithin | InjectedFault::RatesBeyond => {
                self.rules(0, &["INPUT -j DROP", "OUTPUT -j DROP"])?;
            }
            InjectedFault::RequestsLost => self.rules(0, &["OUTPUT -j DROP"])?,
            InjectedFault::AnswersLost => self.rules(0, &["INPUT -j DROP"])?,
            InjectedFault::Flapping => return self.flap(inflicted, span),
            InjectedFault::LatencyAndLoss => {
                self.rules(0, &["OUTPUT ! -o lo -m statistic --mode random --probability 0.1 -j DROP"])?;
                self.proxy("delay 150")?;
            }
            InjectedFault::Resets => self.rules(
                0,
                &["OUTPUT -p tcp -m statistic --mode nth --every 8 --packet 0 -j REJECT --reject-with tcp-reset"],
            )?,
            InjectedFault::AnswersCut => drop(self.proxy(&format!("cut {}", 3 + 2 * (n % 2)))?),
            InjectedFault::LateRequests => drop(self.proxy("keep")?),
            InjectedFault::DiskFull => {
                self.lane.servers.disks().try_for_each(|disk| disk.fill())?;
                inflicted.used_up = self.lane.servers.use_up();
                if self.lane.servers.kind == StoreKind::Sqlite {
                    self.lane.probe.ask(&format!("fill filler/{n}"))?;
                }
            }
            InjectedFault::ClientsClock => inflicted.clocks = self.clients_clock(n)?,
            InjectedFault::ServersClock => {
                let seconds = if n.is_multiple_of(2) { HOUR } else { -HOUR };
                self.lane.servers.members.iter().try_for_each(|member| member.clocks.jump(seconds))?;
                // Whoever comes fresh judges by clocks.
                self.replace(2)?;
            }
            InjectedFault::ServerStopped | InjectedFault::ServerKilled => {
                inflicted.members = self.concerned(n)?;
                for &member in &inflicted.members {
                    if fault == InjectedFault::ServerKilled {
                        self.lane.servers.kill(member);
                    } else {
                        self.lane.servers.signal(member, Signal::STOP);
                    }
                }
            }
            InjectedFault::PowerCut => {
                self.goes_down();
                inflicted.lost = self.lane.servers.cut_power()?;
            }
            InjectedFault::LeaderCutOff => inflicted.members = self.cut_off_leader(n)?,
            InjectedFault::ServerForgets => {
                self.rules(0, &["INPUT -j DROP", "OUTPUT -j DROP"])?;
                self.lane.servers.forget()?;
            }
            InjectedFault::Failover => {
                self.lane.servers.promote()?;
                self.followed(1)?;
            }
            InjectedFault::SynchronousFailover => {
                self.lane.servers.kill(self.lane.servers.primary);
                self.lane.servers.promote()?;
                self.followed(0)?;
            }
        }
        inflicted.since = raw::now();
        std::thread::sleep(span);
        if fault.is_of_servers() {
            let key = format!("meanwhile/{}", raw::now());
            inflicted.refused = self.lane.probe.ask(&format!("mark {key}")).is_err();
        }
        Ok(inflicted)
    }

    /// Ends it; tells how much of it was felt, of which there must be some.
    pub(crate) fn heal(&mut self, inflicted: &Inflicted) -> Result<u64, String> {
        match inflicted.fault {
            InjectedFault::HolderStopped => {
                let stopped = self.contenders[0].process.stopped();
                self.contenders[0].process.signal(Signal::CONT);
                Ok(stopped)
            }
            InjectedFault::HolderSuspended => {
                self.wake(inflicted, &[ClockKind::Monotonic])?;
                Ok(self.lane.clocks[0].felt()? - inflicted.clocks)
            }
            InjectedFault::TimeHidden => {
                self.wake(inflicted, &[ClockKind::Wall, ClockKind::Monotonic, ClockKind::Boottime])?;
                Ok(self.lane.clocks[0].felt()? - inflicted.clocks)
            }
            InjectedFault::RatesWithin | InjectedFault::RatesBeyond => {
                self.lane.machines[0].open()?;
                let felt: Result<Vec<u64>, String> =
                    self.lane.clocks.iter().map(|clocks| clocks.felt()).collect();
                // All of them, or there is nobody who goes by them.
                felt.map(|felt| felt.into_iter().min().unwrap_or(0))
            }
            InjectedFault::SentinelFailover => {
                let first = 1 - self.lane.servers.primary;
                self.lane.servers.members[first].machine.open()?;
                self.lane.servers.await_demotion()?;
                Ok(1)
            }
            InjectedFault::HolderKilled => self.replace(0).map(|()| 1),
            InjectedFault::Partition
            | InjectedFault::RequestsLost
            | InjectedFault::AnswersLost
            | InjectedFault::Resets
            | InjectedFault::Flapping => self.lane.machines[0].open(),
            InjectedFault::LatencyAndLoss => {
                let delayed = self.proxy("pass")?;
                Ok(delayed + self.lane.machines[0].open()?)
            }
            InjectedFault::AnswersCut | InjectedFault::LateRequests => self.proxy("pass"),
            InjectedFault::DiskFull => {
                self.lane.servers.disks().try_for_each(|disk| disk.free())?;
                // A majority may answer without a member that has ended.
                self.lane.servers.revive()?;
                self.lane.answers().map(|()| u64::from(inflicted.refused || inflicted.used_up))
            }
            InjectedFault::ClientsClock => {
                self.lane.clocks.iter().try_for_each(|clocks| clocks.jump(0))?;
                Ok(self.clients_shown()? - inflicted.clocks)
            }
            InjectedFault::ServersClock => {
                let members = &self.lane.servers.members;
                let shown: Result<Vec<u64>, String> = members.iter().map(|one| one.clocks.shown()).collect();
                members.iter().try_for_each(|member| member.clocks.jump(0))?;
                shown.map(|shown| shown.into_iter().sum())
            }
            InjectedFault::ServerStopped => {
                let each = inflicted.members.iter().map(|&member| self.lane.servers.stopped(member));
                let stopped = each.min().unwrap_or(0);
                for &member in &inflicted.members {
                    self.lane.servers.signal(member, Signal::CONT);
                }
                let unserved = self.was_unserved(inflicted);
                self.lane.answers().map(|()| if unserved { stopped } else { 0 })
            }
            InjectedFault::ServerKilled => {
                for &member in &inflicted.members {
                    self.lane.servers.begin(member)?;
                }
                let unserved = self.was_unserved(inflicted);
                self.lane.answers().map(|()| u64::from(unserved))
            }
            InjectedFault::PowerCut => {
                self.lane.servers.revive()?;
                self.comes_up().map(|()| inflicted.lost)
            }
            InjectedFault::LeaderCutOff => {
                let met = self.lane.servers.members[inflicted.members[0]].machine.open()?;
                let met = met + self.lane.machines[0].open()?;
                // They may have to agree on a leader first.
                self.lane.answers().map(|()| met)
            }
            InjectedFault::ServerForgets => {
                let met = self.lane.machines[0].open()?;
                self.lane.answers().map(|()| met)
            }
            // Nobody was promoted without an error, and the new primary answers.
            InjectedFault::SynchronousFailover => self.lane.answers().map(|()| 1),
            InjectedFault::Failover => {
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

    /// Whether the store did no write while these servers were away; a cluster does without its leader.
    fn was_unserved(&self, inflicted: &Inflicted) -> bool {
        inflicted.refused || inflicted.members.len() < self.lane.servers.always().len()
    }

    /// What has files open on a server's host ends, before that does.
    fn goes_down(&mut self) {
        if self.lane.servers.kind == StoreKind::Sqlite {
            self.contenders.iter_mut().for_each(|contender| contender.process.kill());
            self.lane.probe.process.kill();
        }
    }

    /// It is there again, and so is the store.
    fn comes_up(&mut self) -> Result<(), String> {
        if self.lane.servers.kind == StoreKind::Sqlite {
            self.lane.renew_probe()?;
            (0..self.contenders.len()).try_for_each(|n| self.replace(n))?;
        }
        self.lane.answers()
    }

    fn rules(&self, machine: usize, rules: &[&str]) -> Result<(), String> {
        rules.iter().try_for_each(|rule| self.lane.machines[machine].rule(rule))
    }

    /// The holder goes on, and those of its clocks show that they have stood meanwhile.
    fn wake(&self, inflicted: &Inflicted, hidden: &[ClockKind]) -> Result<(), String> {
        self.lane.clocks[0].hide(hidden, raw::since(inflicted.stopped))?;
        self.contenders[0].process.signal(Signal::CONT);
        // It has looked at its clocks.
        std::thread::sleep(self.ttl / 10);
        Ok(())
    }

    /// The holder's clocks are slow, and all others' fast; within ρ also the other way round, by turns.
    fn set_rates(&self, fault: InjectedFault, n: u32) -> Result<(), String> {
        let percent = match fault {
            InjectedFault::RatesBeyond => 50,
            _ if n.is_multiple_of(2) => 10,
            _ => -10,
        };
        let (holder, others) = self.lane.clocks.split_at(1);
        holder[0].run(-percent * PERCENT)?;
        others.iter().try_for_each(|clocks| clocks.run(percent * PERCENT))
    }

    /// Tells the proxy; how often it has done something to what passed under its last order.
    fn proxy(&mut self, line: &str) -> Result<u64, String> {
        let proxy = self.proxy.as_mut().ok_or("there is no proxy on this stage")?;
        proxy.number(line).map(|(_, count)| count)
    }

    /// Away for a fifth of a ttl, and there for as long.
    fn flap(&mut self, inflicted: Inflicted, span: Duration) -> Result<Inflicted, String> {
        let start = raw::now();
        let machine = &self.lane.machines[0];
        let mut met = 0;
        // Whoever keeps a lease sends little: it may all fall between.
        while raw::since(start) < span || (met == 0 && raw::since(start) < 10 * span) {
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
            self.lane.clocks[0].jump(seconds)?;
        } else {
            self.lane.clocks[1..].iter().try_for_each(|clocks| clocks.jump(seconds))?;
        }
        // Whoever comes fresh judges by clocks.
        self.replace(2)?;
        Ok(before)
    }

    fn clients_shown(&self) -> Result<u64, String> {
        let shown: Result<Vec<u64>, String> = self.lane.clocks.iter().map(|clocks| clocks.shown()).collect();
        shown.map(|shown| shown.into_iter().sum())
    }

    /// All servers, or of a cluster the leader only, by turns.
    fn concerned(&self, n: u32) -> Result<Vec<usize>, String> {
        match (&self.lane.onlooker, self.lane.servers.kind) {
            (Some(onlooker), StoreKind::Etcd) if n.is_multiple_of(2) => {
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
    pub(crate) fn await_told<T>(
        &self,
        what: &str,
        look: impl Fn(&LedgerState) -> Option<T>,
    ) -> Result<T, String> {
        self.ledger.until(LONG, look).ok_or_else(|| {
            let troubles = self.ledger.read(|told| told.troubles.clone());
            format!("{what}: not after {} s; troubles: {troubles:?}", LONG.as_secs())
        })
    }
}
