//! The machine of one section in one process. One operation is under way at a time, and all later wishes go into the next.

mod answers;
mod plan;

use super::job::{Asker, SectionJob, WantedRanges};
use super::ledger::SectionLedger;
use super::watch::{EntryWatch, RecordLook};
use super::{SectionCommand, SectionNotice};
use crate::LeaseId;
use crate::backoff::Backoff;
use crate::bugs::Bug;
use crate::op::{Event, Machine, Op, OpId, Request, Step};
use crate::rules::Rules;
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce, Nonces, Version};
use crate::values::key::{HolderId, Key};
use crate::values::time::{Now, Tick, Ttl};
use plan::LedgerPlan;
use std::collections::BTreeMap;
use std::time::Duration;

/// Who a section's machine works for and what it goes by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SectionSetup {
    /// The section's key: see [`super::key`].
    pub key: Key,
    /// This process.
    pub holder: HolderId,
    /// 64 random bits, of which no other machine has the same.
    pub instance: u64,
    /// What is gone by.
    pub rules: Rules,
    /// The most ranges that are held in the section at a time, by all processes together.
    pub most_parts: usize,
    /// The most bytes that the store takes for the section's leases; [`SectionLedger::MAX_BYTES`] at the most.
    pub most_bytes: usize,
}

/// What was last seen of the record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SeenSection {
    ledger: SectionLedger,
    fence: Fence,
    /// None: there is no record.
    version: Option<Version>,
    look: RecordLook,
    /// The store's clock was set back since it was written, so that a write helps to tell what is over.
    is_set_back: bool,
    /// The operation that has shown it.
    op: OpId,
}

/// The operation that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SectionInFlight {
    Reading(OpId),
    Writing { op: OpId, nonce: Nonce, sent: Tick, plan: Box<LedgerPlan> },
}

/// The machine of one section in one process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SectionMachine {
    setup: SectionSetup,
    nonces: Nonces,
    last_op: OpId,
    seen: Option<SeenSection>,
    watch: EntryWatch,
    jobs: BTreeMap<LeaseId, SectionJob>,
    flight: Option<SectionInFlight>,
    backoff: Backoff,
    stopping: bool,
    requests: Vec<Request>,
    notices: Vec<SectionNotice>,
}

impl Machine for SectionMachine {
    type Command = SectionCommand;
    type Notice = SectionNotice;

    fn step(&mut self, mut now: Now, event: Event<SectionCommand>) -> Step<SectionNotice> {
        if self.setup.rules.bugs.has(Bug::HolderMissesSuspend) {
            now.held = now.waited;
        }
        self.watch.see_clocks(now);
        match event {
            Event::Command(command) => self.command(now, command),
            Event::Answer(op, result) => self.answer(now, op, result),
            // Nobody waits for ranges to become free.
            Event::Changed(_) | Event::Wake => {}
        }
        self.give_up_overdue(now);
        self.go_on(now);
        if self.stopping && self.jobs.is_empty() && self.flight.is_none() {
            self.stopping = false;
            self.notices.push(SectionNotice::Stopped);
        }
        Step {
            requests: std::mem::take(&mut self.requests),
            notices: std::mem::take(&mut self.notices),
            wake_at: self.wake_at(),
        }
    }

    fn listens(&self) -> bool {
        false
    }
}

fn stopped() -> StoreError {
    StoreError::invalid("this section is being stopped; open it again")
}

impl SectionMachine {
    /// A machine that has seen nothing yet.
    #[must_use]
    pub fn new(setup: SectionSetup) -> SectionMachine {
        SectionMachine {
            nonces: Nonces::new(setup.instance),
            setup,
            last_op: OpId(0),
            seen: None,
            watch: EntryWatch::default(),
            jobs: BTreeMap::new(),
            flight: None,
            backoff: Backoff::default(),
            stopping: false,
            requests: Vec::new(),
            notices: Vec::new(),
        }
    }

    fn has(&self, bug: Bug) -> bool {
        self.setup.rules.bugs.has(bug)
    }

    fn tell(&mut self, notice: SectionNotice) {
        self.notices.push(notice);
    }

    fn command(&mut self, now: Now, command: SectionCommand) {
        /// Looking takes no longer than this, whatever the store does.
        const LOOK: Duration = Duration::from_secs(10);
        let born = self.last_op;
        match command {
            SectionCommand::Acquire(lease, ..)
            | SectionCommand::List(lease)
            | SectionCommand::Reclaim(lease)
                if self.stopping =>
            {
                self.tell(SectionNotice::Failed(lease, stopped()));
            }
            SectionCommand::Acquire(lease, desired, duration, portion) => {
                let give_up = now.held.after(duration.part(2).min(LOOK));
                let wanted = WantedRanges {
                    desired,
                    duration,
                    portion,
                    born,
                    give_up,
                    tries: Vec::new(),
                    asker: Asker::Waits,
                    last_error: None,
                };
                self.jobs.insert(lease, SectionJob::Wanted(Box::new(wanted)));
            }
            SectionCommand::Release(lease) => self.release(now, lease),
            SectionCommand::Lapse(lease) => {
                if self.has(Bug::LapseVacates) {
                    return self.release(now, lease);
                }
                self.jobs.remove(&lease);
                self.tell(SectionNotice::Released(lease, false));
            }
            SectionCommand::List(lease) => {
                self.jobs.insert(lease, SectionJob::Listing { born, give_up: now.held.after(LOOK) });
            }
            SectionCommand::Reclaim(lease) => {
                self.jobs.insert(lease, SectionJob::Reclaiming { born, give_up: now.held.after(LOOK) });
            }
            SectionCommand::Stop => self.stop(),
        }
    }

    fn release(&mut self, now: Now, lease: LeaseId) {
        match self.jobs.get_mut(&lease) {
            Some(SectionJob::Wanted(wanted)) => wanted.asker = Asker::Gave,
            Some(SectionJob::Held { id, over }) => {
                // Past its end the entry is others' to collect; it is taken out all the same if that goes quickly.
                let give_up = (*over).max(now.held.after(Duration::from_secs(1)));
                let giving = SectionJob::Giving { id: *id, give_up, tried: false, told: false };
                self.jobs.insert(lease, giving);
            }
            Some(SectionJob::Giving { told, .. }) => *told = false,
            Some(_) | None => self.tell(SectionNotice::Released(lease, false)),
        }
    }

    /// What is held is left to expire; nobody can be left who believes in it. Nothing new is begun, and whoever waits is answered:
    /// those who want a lease at once, all others when what they wait for is done.
    fn stop(&mut self) {
        self.stopping = true;
        for (lease, job) in std::mem::take(&mut self.jobs) {
            let job = match job {
                SectionJob::Held { .. } => continue,
                SectionJob::Wanted(mut wanted) if wanted.asker == Asker::Waits => {
                    self.tell(SectionNotice::Failed(lease, stopped()));
                    wanted.asker = Asker::Gone;
                    SectionJob::Wanted(wanted)
                }
                job => job,
            };
            self.jobs.insert(lease, job);
        }
    }

    /// Jobs for which there is no point in going on.
    fn give_up_overdue(&mut self, now: Now) {
        let overdue = |job: &SectionJob| job.give_up().is_some_and(|at| now.held >= at);
        let due: Vec<LeaseId> =
            self.jobs.iter().filter(|(_, job)| overdue(job)).map(|(lease, _)| *lease).collect();
        for lease in due {
            match self.jobs.remove(&lease) {
                Some(SectionJob::Wanted(wanted)) => self.give_up_wanted(now, lease, *wanted),
                Some(SectionJob::Giving { told: false, .. }) => {
                    self.tell(SectionNotice::Released(lease, false))
                }
                Some(SectionJob::Listing { .. } | SectionJob::Reclaiming { .. }) => {
                    let error = StoreError::unavailable("the store has not answered in time");
                    self.tell(SectionNotice::Failed(lease, error));
                }
                _ => {}
            }
        }
    }

    fn give_up_wanted(&mut self, now: Now, lease: LeaseId, mut wanted: WantedRanges) {
        match wanted.asker {
            Asker::Waits => {
                let late = || StoreError::unavailable("the section could not be written in time");
                self.tell(SectionNotice::Failed(lease, wanted.last_error.take().unwrap_or_else(late)));
            }
            Asker::Gave => self.tell(SectionNotice::Released(lease, false)),
            Asker::Gone => {}
        }
        // What may have landed, or may yet, is taken out as long as that can help anyone.
        let over = wanted.tries.iter().map(|attempt| attempt.sent.after(wanted.duration.duration())).max();
        if let Some(over) = over.filter(|over| *over > now.held) {
            wanted.asker = Asker::Gone;
            wanted.give_up = over;
            self.jobs.insert(lease, SectionJob::Wanted(Box::new(wanted)));
        }
    }

    fn has_work(&self) -> bool {
        self.jobs.values().any(SectionJob::is_work)
    }

    /// Whether somebody waits for what is sent next.
    fn is_awaited(&self) -> bool {
        self.stopping || self.jobs.values().any(SectionJob::is_awaited)
    }

    fn wake_at(&self) -> Option<Tick> {
        let pause = self.backoff.until().filter(|_| self.flight.is_none() && self.has_work());
        self.jobs.values().filter_map(SectionJob::give_up).chain(pause).min()
    }

    fn send(&mut self, now: Now, op: Op) -> OpId {
        const LONGEST: Duration = Duration::from_secs(5);
        const SHORTEST: Duration = Duration::from_millis(20);
        self.last_op.0 += 1;
        let id = self.last_op;
        // Half of what is left to whoever has most time, so that there is time for another try. The others don't wait for it.
        let left = self.jobs.values().filter_map(SectionJob::give_up).map(|at| at.since(now.held)).max();
        let timeout = (left.unwrap_or(LONGEST) / 2).clamp(SHORTEST, LONGEST);
        self.requests.push(Request { id, op, timeout, urgent: false });
        id
    }

    fn read(&mut self, now: Now) {
        let op = self.send(now, Op::Read(self.setup.key.clone()));
        self.flight = Some(SectionInFlight::Reading(op));
    }

    /// The end of belief in an entry that was sent then.
    fn until(&self, sent: Tick, duration: Ttl) -> Tick {
        let margin = !self.has(Bug::NoDriftMargin);
        sent.after(if margin { self.setup.rules.drift.belief(duration) } else { duration.duration() })
    }
}
