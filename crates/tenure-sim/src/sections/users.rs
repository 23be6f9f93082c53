//! Users of a section: they lease ranges, use them, and give them up in every way there is.

use super::{SectionCall, What, World};
use crate::invariants::Rule;
use crate::invariants::s7::{self, BelievedRanges};
use crate::kernel::clock::{MILLI, True};
use tenure_core::op::{Expect, Write};
use tenure_core::range::{KeyRange, RangeSet};
use tenure_core::section::{Portion, SectionCommand, SectionLedger, SectionNotice};
use tenure_core::{Drift, Fence, LeaseId, Now, Record, Tick, Ttl};

/// Keys are 0 to this.
const SPACE: u64 = 48;

/// What a user is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SectionActivity {
    Idle,
    Waiting(LeaseId),
    Using(LeaseId),
}

/// What a user knows of a lease.
#[derive(Debug, Clone)]
pub(super) struct SectionView {
    pub(super) held: Option<BelievedRanges>,
    pub(super) until: Tick,
    /// When its user must have an answer, if it waits for one.
    pub(super) answer_by: Option<Tick>,
    task: usize,
    wanted: RangeSet,
    /// Given up; an answer is expected.
    ending: bool,
    /// With this fence.
    given: Option<Fence>,
    /// Since when it is held, or was asked for.
    since: True,
    /// It could not be ended: nobody may take it out before this, by the holder's clock.
    lapsed: Option<(Fence, Tick)>,
}

impl SectionView {
    fn new(task: usize, wanted: RangeSet, since: True, answer_by: Option<Tick>) -> SectionView {
        SectionView {
            held: None,
            until: Tick(0),
            answer_by,
            task,
            wanted,
            ending: false,
            given: None,
            since,
            lapsed: None,
        }
    }

    /// Whether its user still waits for an answer.
    pub(super) fn is_open(&self) -> bool {
        self.held.is_none() && self.lapsed.is_none()
    }
}

impl World {
    fn turn(&mut self, index: usize, task: usize, doing: SectionActivity, mean: True) {
        let node = &mut self.nodes[index];
        let Some(slot) = node.own.tasks.get_mut(task) else { return };
        *slot = (doing, slot.1 + 1);
        let (turn, life) = (slot.1, node.life);
        self.later(mean, What::Input(index as u8, life, SectionCall::Turn(task as u8, turn)));
    }

    pub(super) fn think(&mut self, index: usize, task: usize) {
        let mean = self.spans(1) / if self.is_brief() { 50 } else { 2 };
        self.turn(index, task, SectionActivity::Idle, mean);
    }

    /// A user's next move.
    pub(super) fn user(&mut self, index: usize, task: usize, turn: u32) {
        let Some((doing, current)) = self.nodes[index].own.tasks.get(task).copied() else { return };
        if current != turn {
            return;
        }
        match doing {
            // In the calm nobody wants anything anew.
            SectionActivity::Idle if self.healed.is_some() => {}
            SectionActivity::Idle if self.t < self.scene.rest_until => self.think(index, task),
            SectionActivity::Idle if self.scenario.asks && self.rng.chance(0.2) => {
                self.look_or_collect(index, task)
            }
            SectionActivity::Idle => {
                let desired = self.some_ranges();
                let ms = self.rng.between(self.scenario.duration_ms / 4, self.scenario.duration_ms);
                let lease = self.ask(index, task, desired, Ttl::clamped(ms));
                // Some change their mind.
                let mean = if self.rng.chance(0.1) { self.spans(1) / 200 } else { self.spans(40) };
                self.turn(index, task, SectionActivity::Waiting(lease), mean);
            }
            SectionActivity::Waiting(lease) => {
                self.give_up(index, task, lease, SectionCommand::Release(lease))
            }
            SectionActivity::Using(lease) => self.use_it(index, task, lease),
        }
    }

    /// A user looks at what is leased, or has what is over collected.
    fn look_or_collect(&mut self, index: usize, task: usize) {
        let lease = self.lease();
        let answer_by = self.answer_by(index, Ttl::MAX);
        self.nodes[index].own.views.insert(lease, SectionView::new(task, RangeSet::new(), self.t, answer_by));
        let looks = self.rng.chance(0.5);
        let command = if looks { SectionCommand::List(lease) } else { SectionCommand::Reclaim(lease) };
        self.command(index, command);
    }

    /// A process stops in good order: its users have ended what they did.
    pub(super) fn stop(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if node.machine.is_none() || node.paused {
            return;
        }
        node.own.views.clear();
        for slot in &mut node.own.tasks {
            *slot = (SectionActivity::Idle, slot.1 + 1);
        }
        self.command(index, SectionCommand::Stop);
    }

    /// What is believed in at this instant, and was before `t`.
    fn believed_since(&self, t: True) -> impl Iterator<Item = &BelievedRanges> {
        self.nodes.iter().flat_map(move |node| {
            let now = node.clock.held(self.t);
            let lives = move |view: &&SectionView| now < view.until && view.since < t;
            node.own.views.values().filter(lives).filter_map(|view| view.held.as_ref())
        })
    }

    /// What must be disjoint from `new`: what is believed in, unless somebody has changed the record by hand since then.
    fn believed_by_the_record(&self, new: &BelievedRanges) -> impl Iterator<Item = &BelievedRanges> {
        let behind = &self.scene.behind;
        let is_new_behind = behind.contains(&new.fence);
        self.believed().filter(move |lease| !is_new_behind && !behind.contains(&lease.fence))
    }

    fn some_ranges(&mut self) -> RangeSet {
        let count = self.rng.between(1, 2);
        (0..count)
            .filter_map(|_| {
                let (a, b) = (self.rng.below(SPACE), self.rng.below(SPACE));
                KeyRange::new(a.min(b), a.max(b) + 1).ok()
            })
            .collect()
    }

    fn ask(&mut self, index: usize, task: usize, desired: RangeSet, duration: Ttl) -> LeaseId {
        let lease = self.lease();
        let answer_by = self.answer_by(index, duration);
        self.nodes[index].own.views.insert(lease, SectionView::new(task, desired.clone(), self.t, answer_by));
        // Whose processes are brief is told what the dead keep from it: a part tells more.
        let needs_all = !self.scenario.brief && self.rng.chance(0.25);
        let portion = if needs_all { Portion::All } else { Portion::Free };
        self.command(index, SectionCommand::Acquire(lease, desired, duration, portion));
        lease
    }

    /// Half of the duration, and ten seconds at the most, by its own clock.
    fn answer_by(&self, index: usize, duration: Ttl) -> Option<Tick> {
        let patience = (duration.duration() / 2).min(std::time::Duration::from_secs(10));
        Some(self.nodes[index].clock.held(self.t).after(patience))
    }

    fn give_up(&mut self, index: usize, task: usize, lease: LeaseId, command: SectionCommand) {
        let node = &mut self.nodes[index];
        if let Some(view) = node.own.views.get_mut(&lease) {
            if let (SectionCommand::Lapse(_), Some(held)) = (&command, &view.held) {
                let entry = self.scene.entries.entry(held.fence);
                let sent = entry.and_then(|entry| Some((*node.own.sent.get(&entry.id)?, entry.duration)));
                // By its own clock, which may be slow, others may take it out as soon as that.
                let over = |(sent, duration): (Tick, Ttl)| sent.after(Drift::default().belief(duration));
                view.lapsed = sent.map(|sent| (held.fence, over(sent)));
            }
            if matches!(command, SectionCommand::Release(_)) {
                view.given = view.held.as_ref().map(|held| held.fence);
            }
            (view.held, view.ending, view.answer_by) = (None, true, None);
        }
        self.command(index, command);
        if !self.is_brief() {
            self.think(index, task);
        }
    }

    /// Writes to a key of the lease, and perhaps ends it.
    fn use_it(&mut self, index: usize, task: usize, lease: LeaseId) {
        let node = &self.nodes[index];
        let Some(view) = node.own.views.get(&lease) else { return self.think(index, task) };
        let believed = view.held.as_ref().filter(|_| node.clock.held(self.t) < view.until).cloned();
        let Some(believed) = believed else {
            return self.give_up(index, task, lease, SectionCommand::Release(lease));
        };
        if let Some(part) = believed.parts.ranges().first() {
            let key = u64::from_str_radix(&part.low().to_string(), 16).unwrap_or(0) as usize;
            let order = self.scene.entries.order(believed.fence);
            let found = self.checks.resource.write(key, believed.fence, order);
            self.check(Rule::P2, found);
        }
        match self.rng.below(10) {
            0 => self.give_up(index, task, lease, SectionCommand::Lapse(lease)),
            1..=4 => self.give_up(index, task, lease, SectionCommand::Release(lease)),
            _ => self.turn(index, task, SectionActivity::Using(lease), self.spans(1) / 4),
        }
    }

    /// A process tells its user something.
    pub(super) fn told(&mut self, index: usize, now: Now, notice: SectionNotice) {
        let found = self.nodes[index].own.asked.answer(&notice);
        self.check(Rule::Answered, found);
        match notice {
            SectionNotice::Obtained { lease, parts, fence, until } => {
                self.obtained(index, now, lease, (parts, fence, until))
            }
            SectionNotice::Failed(lease, _) => {
                if let Some(view) = self.nodes[index].own.views.remove(&lease) {
                    self.check_last(lease, &RangeSet::new());
                    if !view.ending {
                        self.next(index, view.task);
                    }
                }
            }
            SectionNotice::Released(..) if self.is_brief() => self.exit(index),
            SectionNotice::Released(lease, is_free) => {
                let node = &mut self.nodes[index].own;
                let given = node.views.get(&lease).and_then(|view| view.given).filter(|_| !is_free);
                node.left.extend(given.and_then(|fence| Some(self.scene.entries.entry(fence)?.id)));
                // What was left to expire is remembered for as long as that takes.
                self.nodes[index].own.views.retain(|id, view| *id != lease || view.lapsed.is_some());
            }
            SectionNotice::Listed(lease, entries) => {
                if let Some(view) = self.nodes[index].own.views.remove(&lease) {
                    let behind = &self.scene.behind;
                    let believed = self.believed_since(view.since);
                    let believed = believed.filter(|lease| !behind.contains(&lease.fence));
                    let found = s7::all_listed(&entries, believed);
                    self.check(Rule::Answered, found);
                    self.think(index, view.task);
                }
            }
            SectionNotice::Reclaimed(lease, _) => {
                if let Some(view) = self.nodes[index].own.views.remove(&lease) {
                    self.think(index, view.task);
                }
            }
            SectionNotice::Stopped => {
                let who = self.nodes[index].who.clone();
                self.scene.stopped.insert(who, self.t);
                self.kill(index);
            }
        }
    }

    fn obtained(
        &mut self,
        index: usize,
        now: Now,
        lease: LeaseId,
        (parts, fence, until): (RangeSet, Option<Fence>, Tick),
    ) {
        self.check_last(lease, &parts);
        let node = &mut self.nodes[index];
        let who = node.who.clone();
        let Some(view) = node.own.views.get_mut(&lease) else { return };
        let (task, ending) = (view.task, view.ending);
        let (since, wanted) = (view.since, view.wanted.minus(&parts));
        let Some(fence) = fence else {
            node.own.views.remove(&lease);
            self.check_reach(since, &wanted);
            if !ending {
                self.next(index, task);
            }
            return;
        };
        let believed = BelievedRanges { holder: who, fence, parts };
        let id = self.scene.entries.entry(fence).map(|entry| entry.id);
        let sent = id.and_then(|id| node.own.sent.get(&id)).copied();
        let age = id.and_then(|id| node.own.shown.get(&id)).copied();
        if !ending {
            (view.held, view.until, view.since) = (Some(believed.clone()), until, self.t);
        }
        // A belief that is over when it is told of is none.
        if !ending && self.nodes[index].clock.held(self.t) < until {
            self.check(Rule::S7, s7::disjoint(&believed, self.believed_by_the_record(&believed)));
        }
        let found = self.scene.entries.obtained(&believed, sent, until);
        self.check(Rule::S4, found);
        self.check(Rule::S4, s7::not_misdated(&believed, sent, age, now.held));
        self.check_reach(since, &wanted);
        if !ending {
            self.turn(index, task, SectionActivity::Using(lease), self.spans(1) / 4);
        }
    }

    /// A process that lives only briefly ends with what it was started for.
    fn is_brief(&self) -> bool {
        self.scenario.brief && self.healed.is_none()
    }

    /// It does so before or after what else its last step wanted has been sent.
    fn exit(&mut self, index: usize) {
        if self.rng.chance(0.5) {
            return self.kill(index);
        }
        let (life, soon) = (self.nodes[index].life, self.rng.below(4 * MILLI));
        self.at(self.t + soon, What::Input(index as u8, life, SectionCall::Exit));
    }

    fn next(&mut self, index: usize, task: usize) {
        if self.is_brief() { self.exit(index) } else { self.think(index, task) }
    }

    /// L1: of what was asked for at `since`, this was not had.
    fn check_reach(&mut self, since: True, missing: &RangeSet) {
        if self.scenario.brief {
            let found = self.scene.standing.reach(&self.ledger(), since, missing);
            self.check(Rule::L1, found);
        }
    }

    /// S6: what a user let lapse is not taken out by its own process before its time.
    pub(super) fn check_lapses(&mut self, index: usize, write: &Write) {
        let node = &mut self.nodes[index];
        let now = node.clock.held(self.t);
        node.own.views.retain(|_, view| view.lapsed.is_none_or(|(_, over)| now < over));
        if node.own.views.values().all(|view| view.lapsed.is_none()) {
            return;
        }
        let version = self.store.get(&self.scene.key).map(Record::version);
        if matches!(write.expect, Expect::Unchanged(over) if version != Some(over)) {
            // It takes nothing out of what stands there.
            return;
        }
        let written = &SectionLedger::of(&write.record).unwrap_or_default();
        let mut lapsed = node.own.views.values().filter_map(|view| view.lapsed);
        let standing = self
            .store
            .get(&self.scene.key)
            .and_then(|record| SectionLedger::of(record).ok())
            .unwrap_or_default();
        let stands = |ledger: &SectionLedger, fence| ledger.entries.iter().any(|entry| entry.fence == fence);
        let found = match lapsed.find(|(fence, _)| stands(&standing, *fence) && !stands(written, *fence)) {
            Some((fence, _)) => {
                Err(format!("{} takes out fence {fence}, which was left to expire", node.who))
            }
            None => Ok(()),
        };
        self.check(Rule::S6, found);
    }

    /// Someone wants all there is, when all else is over.
    pub(super) fn ask_for_all(&mut self, round: u32) {
        let Ok(all) = KeyRange::new(0u64, SPACE) else { return };
        let lease = LeaseId(u64::MAX - u64::from(round));
        self.scene.last_asked = Some((lease, round));
        let all: RangeSet = all.into();
        let view = SectionView { ending: true, ..SectionView::new(usize::MAX, all.clone(), self.t, None) };
        self.nodes[0].own.views.insert(lease, view);
        let duration = Ttl::clamped(self.scenario.duration_ms);
        let portion = if self.rng.chance(0.5) { Portion::All } else { Portion::Free };
        self.command(0, SectionCommand::Acquire(lease, all, duration, portion));
        if round == 0 {
            self.command(0, SectionCommand::Release(lease));
        }
    }

    fn check_last(&mut self, lease: LeaseId, parts: &RangeSet) {
        if self.scene.last_asked == Some((lease, 1)) {
            let all: RangeSet = KeyRange::new(0u64, SPACE).into_iter().collect();
            let left = all.minus(parts);
            let found =
                if left.is_empty() { Ok(()) } else { Err(format!("{left} is held by the dead for ever")) };
            self.check(Rule::L3, found);
            self.scene.last_asked = Some((lease, 2));
        }
    }
}
