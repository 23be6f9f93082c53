//! Dead processes among those ahead. A claim is live while its session's record shows the same fence, like an attached lease.
//!
//! A waiter looks at the sessions of processes that hold permits or came before it, some at a time; who has no place yet looks at all. A session that has been silent for a full
//! ttl is a *suspect*, and is fenced first, so that its process can't renew it any more. Only then is it *dead*, and its claims are removed.

use crate::bugs::Bug;
use crate::holder::ctx::Ctx;
use crate::holder::failure_detector::HolderVerdict;
use crate::op::{Answer, Expect, Listed, OpId, Outcome, Write};
use crate::semaphore::ledger::{SemaphoreLedger, Ticket};
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::record::{Attachment, Record, Stored};
use crate::values::time::{Now, Tick, Ttl};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// So many sessions are looked at in one request.
const SESSIONS: usize = 15;

/// What is known of the sessions of others whose claims the record shows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Deaths {
    /// Of our session.
    ttl: Ttl,
    /// Those that are over.
    dead: BTreeSet<Attachment>,
    /// Those that have been looked at, of those that last for less time than ours.
    judged: BTreeSet<Attachment>,
    /// Those of whom the store refuses to tell, or to have them fenced: how often in a row.
    unjudged: BTreeMap<Attachment, u32>,
    /// Those that have been silent for too long, and are to be fenced.
    suspects: Vec<(Attachment, Stored)>,
    /// The last look at the sessions of all.
    looked: OpId,
    /// When sessions are looked at again, as long as somebody waits.
    look_at: Tick,
    /// Where the next look at sessions begins.
    turn: usize,
}

impl Deaths {
    /// Nobody is known yet. `ttl`: that of our session.
    pub(super) fn new(ttl: Ttl) -> Deaths {
        Deaths {
            ttl,
            dead: BTreeSet::new(),
            judged: BTreeSet::new(),
            unjudged: BTreeMap::new(),
            suspects: Vec::new(),
            looked: OpId(0),
            look_at: Tick(0),
            turn: 0,
        }
    }

    pub(super) fn is_dead(&self, attachment: &Attachment) -> bool {
        self.dead.contains(attachment)
    }

    /// When sessions are looked at again, as long as somebody waits.
    pub(super) fn look_at(&self) -> Tick {
        self.look_at
    }

    /// Whether the sessions of all were looked at by an operation that was begun after this one.
    pub(super) fn has_looked_since(&self, op: OpId) -> bool {
        self.looked > op
    }

    /// The sessions of others that hold permits, or wait for them, before us: some of them, those that have their turn. `whom`: also those behind us, if one
    /// of us has no place yet.
    pub(super) fn in_the_way(
        &self,
        ledger: &SemaphoreLedger,
        own: &Attachment,
        whom: Whom,
    ) -> Vec<Attachment> {
        let (mut all, mut known): (Vec<&Attachment>, BTreeSet<&Attachment>) = Default::default();
        for ticket in whom.of(ledger, own) {
            let attachment = &ticket.attachment;
            if !is_own(attachment, own) && !self.is_dead(attachment) && known.insert(attachment) {
                all.push(attachment);
            }
        }
        let count = all.len();
        let from = if count > SESSIONS { self.turn % count } else { 0 };
        all.into_iter().cycle().skip(from).take(count.min(SESSIONS)).cloned().collect()
    }

    /// Sessions were looked at: the next look at them is due after a quarter of a ttl. Where they have turns, that is of the one that lasts for
    /// the least time: what is known of it by its last turn may be of no use by now.
    pub(super) fn looked(&mut self, ctx: &Ctx<'_>, op: OpId, ledger: Option<&SemaphoreLedger>, whom: Whom) {
        if whom == Whom::All {
            self.looked = op;
        }
        self.turn = self.turn.wrapping_add(SESSIONS);
        let others = ledger.zip(ctx.session.as_ref());
        let in_the_way = |(ledger, own)| self.in_the_way(ledger, own, Whom::Before);
        let has_turns = others.map(in_the_way).is_some_and(|sessions| sessions.len() >= SESSIONS);
        let least = if has_turns { self.shortest_lived(ctx, ledger, |_| true) } else { None };
        self.look_at = ctx.jittered(least.unwrap_or(self.ttl).part(4));
    }

    /// The record shows these claims. Who has come since sessions were looked at, and lasts for less time than we do, is looked at within a
    /// quarter of its own ttl.
    pub(super) fn saw(&mut self, ctx: &Ctx<'_>, ledger: &SemaphoreLedger) {
        let stands =
            |attachment: &Attachment| ledger.tickets().any(|ticket| ticket.attachment == *attachment);
        self.dead.retain(stands);
        self.judged.retain(stands);
        self.unjudged.retain(|attachment, _| stands(attachment));
        self.mind_newcomers(ctx, Some(ledger));
    }

    fn mind_newcomers(&mut self, ctx: &Ctx<'_>, ledger: Option<&SemaphoreLedger>) {
        let is_new = |attachment: &Attachment| !self.judged.contains(attachment);
        if let Some(ttl) = self.shortest_lived(ctx, ledger, is_new) {
            self.look_at = self.look_at.min(ctx.now.held.after(ttl.part(4)));
        }
    }

    /// Of the claims of others, the ttl of the one that lasts for the least time, if that is less than our own.
    fn shortest_lived(
        &self,
        ctx: &Ctx<'_>,
        ledger: Option<&SemaphoreLedger>,
        is_meant: impl Fn(&Attachment) -> bool,
    ) -> Option<Ttl> {
        let (ledger, own) = ledger.zip(ctx.session.as_ref())?;
        let shorter = Whom::Before.of(ledger, own).filter(|ticket| ticket.ttl < self.ttl);
        let others = shorter.map(|ticket| (&ticket.attachment, ticket.ttl)).filter(|(attachment, _)| {
            !is_own(attachment, own) && !self.is_dead(attachment) && is_meant(attachment)
        });
        others.map(|(_, ttl)| ttl).min()
    }

    /// Sessions in the way, as they were just read beside this ledger.
    pub(super) fn judge(
        &mut self,
        ctx: &mut Ctx<'_>,
        ledger: &SemaphoreLedger,
        sessions: &[Attachment],
        records: &[Listed],
    ) {
        let ttls: BTreeMap<&Attachment, Ttl> =
            ledger.tickets().map(|ticket| (&ticket.attachment, ticket.ttl)).collect();
        for attachment in sessions {
            let Some(ttl) = ttls.get(attachment).copied() else { continue };
            if ttl < self.ttl {
                self.judged.insert(attachment.clone());
            }
            let found = records.iter().find(|listed| listed.key == attachment.session);
            match found.map(|listed| &listed.stored) {
                None => self.judge_missing(ctx, attachment, ttl),
                Some(Ok(session)) => {
                    self.unjudged.remove(attachment);
                    self.judge_session(ctx, attachment, session, ttl);
                }
                // What can't be read can't be told to be dead.
                Some(Err(error)) => self.not_judged(ctx, Some(ledger), attachment, error),
            }
        }
    }

    fn judge_missing(&mut self, ctx: &mut Ctx<'_>, attachment: &Attachment, ttl: Ttl) {
        match ctx.detector.judge_missing(ctx.now, attachment, ttl, ctx.rules) {
            HolderVerdict::Suspected => drop(self.dead.insert(attachment.clone())),
            HolderVerdict::Live { until } => self.sooner(ctx.now, until),
        }
    }

    fn judge_session(&mut self, ctx: &mut Ctx<'_>, attachment: &Attachment, session: &Stored, ttl: Ttl) {
        if is_over(attachment, &session.record) {
            ctx.detector.session_is_there(attachment);
            self.dead.insert(attachment.clone());
            return;
        }
        // One that shows an earlier tenure was put back, or begun anew by a clock that is behind: the claim's own counts as missing, for
        // nobody renews it.
        let is_another = session.record.fence != attachment.fence;
        let Some(tenure) = session.record.tenure.as_ref().filter(|_| !is_another) else {
            return self.judge_missing(ctx, attachment, ttl);
        };
        ctx.detector.session_is_there(attachment);
        match ctx.detector.judge(ctx.now, &attachment.session, session, tenure, ctx.rules) {
            HolderVerdict::Suspected if ctx.rules.bugs.has(Bug::SessionNotFenced) => {
                self.dead.insert(attachment.clone());
            }
            HolderVerdict::Suspected if ctx.rules.bugs.has(Bug::DeadTicketKept) => {}
            HolderVerdict::Suspected => self.suspects.push((attachment.clone(), session.clone())),
            HolderVerdict::Live { until } => self.sooner(ctx.now, until),
        }
    }

    /// The next look at sessions is no later than when one of them may be told to be dead.
    fn sooner(&mut self, now: Now, until: Tick) {
        let soonest = now.held.after(Duration::from_millis(1));
        self.look_at = self.look_at.min(until).max(soonest);
    }

    /// It was not told of this one whether it is dead: it is looked at as a newcomer is.
    fn judge_again(&mut self, ctx: &Ctx<'_>, ledger: Option<&SemaphoreLedger>, attachment: &Attachment) {
        self.judged.remove(attachment);
        self.mind_newcomers(ctx, ledger);
    }

    /// The same after an error. What may be refused for good is asked for ever more seldom, after two of its ttls.
    fn not_judged(
        &mut self,
        ctx: &Ctx<'_>,
        ledger: Option<&SemaphoreLedger>,
        attachment: &Attachment,
        error: &StoreError,
    ) {
        /// So often it is asked for in quarters of its ttl.
        const OFTEN: u32 = 8;
        if error.is_passing() {
            return self.judge_again(ctx, ledger, attachment);
        }
        let Some(ttl) = self.shortest_lived(ctx, ledger, |other| other == attachment) else { return };
        let times = self.unjudged.entry(attachment.clone()).or_default();
        *times = times.saturating_add(1);
        let pause = ttl.part(4).saturating_mul(1 << times.saturating_sub(OFTEN).min(20));
        self.look_at = self.look_at.min(ctx.now.held.after(pause));
    }

    /// One that is to be fenced now.
    pub(super) fn take_suspect(&mut self) -> Option<(Attachment, Stored)> {
        self.suspects.pop()
    }

    /// Our own session is gone: whoever is fenced is found anew.
    pub(super) fn session_lost(&mut self) {
        self.suspects.clear();
    }

    /// The answer to the write that raises the fence of a session.
    pub(super) fn fenced(
        &mut self,
        ctx: &Ctx<'_>,
        ledger: Option<&SemaphoreLedger>,
        attachment: Attachment,
        result: Result<Answer, StoreError>,
    ) {
        match result {
            Ok(Answer::Write(Outcome::Won { .. })) => drop(self.dead.insert(attachment)),
            Ok(Answer::Write(Outcome::Lost(Some(session)))) if is_over(&attachment, &session.record) => {
                self.dead.insert(attachment);
            }
            Ok(_) => self.judge_again(ctx, ledger, &attachment),
            Err(error) => self.not_judged(ctx, ledger, &attachment, &error),
        }
    }
}

/// Whose claims matter to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Whom {
    /// Those who hold permits, or wait before the last of us.
    Before,
    /// All of them: whoever has no place yet is behind all.
    All,
}

impl Whom {
    fn of<'l>(
        self,
        ledger: &'l SemaphoreLedger,
        own: &Attachment,
    ) -> impl Iterator<Item = &'l Ticket> + use<'l> {
        let last = ledger.queue.iter().rposition(|ticket| ticket.attachment == *own);
        let before = last.filter(|_| self == Whom::Before).unwrap_or(ledger.queue.len());
        let holders = ledger.holders.iter().map(|grant| &grant.ticket);
        holders.chain(ledger.queue.iter().take(before))
    }
}

/// The write that raises the fence of a session that is dead, so that its process can never renew it.
pub(super) fn fencing(ctx: &mut Ctx<'_>, attachment: &Attachment, session: Stored) -> Option<Write> {
    let fence = session.record.fence.max(attachment.fence).next(Fence::floor(ctx.now.wall)).ok()?;
    let record =
        Record { fence, nonce: ctx.nonces.draw(), stamp: ctx.now.wall, tenure: None, ..session.record };
    Some(Write { key: attachment.session.clone(), expect: Expect::Unchanged(session.version), record })
}

/// Whether a claim is one of this session, or of an earlier tenure of it.
fn is_own(attachment: &Attachment, own: &Attachment) -> bool {
    own.session == attachment.session && own.fence >= attachment.fence
}

/// Whether a session's record shows that the tenure of it that `attachment` names is over.
fn is_over(attachment: &Attachment, session: &Record) -> bool {
    session.fence > attachment.fence || session.fence == attachment.fence && session.tenure.is_none()
}

#[cfg(test)]
mod tests {
    //! Plan: who is in the way; turns, where those are many; what a session's record says of a tenure of it.
    use super::*;
    use crate::semaphore::Mode;
    use crate::semaphore::ledger::Grant;
    use crate::values::fence::Nonce;
    use crate::values::key::{HolderId, Key};
    use crate::values::metadata::Metadata;
    use crate::values::record::Tenure;
    use crate::values::time::Wall;

    fn ttl() -> Ttl {
        Ttl::clamped(10_000)
    }

    fn session(who: usize, fence: u64) -> Attachment {
        Attachment { session: Key::new(format!("session/h{who}")).unwrap(), fence: Fence(fence) }
    }

    fn ticket(attachment: &Attachment) -> Ticket {
        let holder = HolderId::new("h").unwrap();
        let (id, mode, permits, since) = (Nonce(1), Mode::Shared, 1, Wall(0));
        let attachment = attachment.clone();
        Ticket { id, holder, attachment, ttl: ttl(), mode, permits, barges: false, since }
    }

    fn ledger(holders: &[Attachment], queue: &[Attachment]) -> SemaphoreLedger {
        let grants = holders.iter().map(|attachment| Grant::new(ticket(attachment), Fence(1)));
        SemaphoreLedger::new(3, grants.collect(), queue.iter().map(ticket).collect())
    }

    #[test]
    fn those_of_others_that_are_not_dead_are_in_the_way_each_once() {
        let mut deaths = Deaths::new(ttl());
        deaths.dead.insert(session(4, 7));
        let shows = ledger(
            &[session(1, 7), session(0, 6), session(2, 7)],
            &[session(0, 7), session(4, 7), session(4, 8), session(1, 7), session(3, 7)],
        );
        let others = [session(1, 7), session(2, 7), session(4, 8), session(3, 7)];
        assert_eq!(deaths.in_the_way(&shows, &session(0, 7), Whom::All), others);
        // Before the last of ours in the queue.
        assert_eq!(deaths.in_the_way(&shows, &session(0, 7), Whom::Before), others[..2]);
        assert_eq!(deaths.in_the_way(&shows, &session(9, 7), Whom::Before).len(), 6, "who has no place");
    }

    #[test]
    fn l5_who_stands_first_looks_at_the_holder_each_time_however_many_stand_behind() {
        let all: Vec<Attachment> = (0..300).map(|who| session(who, 7)).collect();
        let mut deaths = Deaths::new(ttl());
        let shows = ledger(&[session(999, 7)], &all);
        for turn in 0..40 {
            deaths.turn = turn * SESSIONS;
            assert_eq!(deaths.in_the_way(&shows, &all[0], Whom::Before), [session(999, 7)]);
            let tenth = deaths.in_the_way(&shows, &all[9], Whom::Before);
            assert!(tenth.len() == 10 && tenth.contains(&session(999, 7)), "{tenth:?}");
        }
    }

    #[test]
    fn many_have_turns() {
        let all: Vec<Attachment> = (1..=20).map(|who| session(who, 7)).collect();
        let mut deaths = Deaths::new(ttl());
        let turns = [0, SESSIONS, 2 * SESSIONS].map(|turn| {
            deaths.turn = turn;
            let mut turn = deaths.in_the_way(&ledger(&[], &all), &session(0, 7), Whom::Before);
            (turn.len(), turn.first().cloned(), turn.pop())
        });
        let expected = [(1, 15), (16, 10), (11, 5)];
        assert_eq!(
            turns,
            expected.map(|(first, last)| (15, Some(session(first, 7)), Some(session(last, 7))))
        );
        deaths.turn = 7;
        let few = deaths.in_the_way(&ledger(&[], &all[..15]), &session(0, 7), Whom::Before);
        assert_eq!(few, all[..15], "all at once");
    }

    #[test]
    fn a_tenure_is_over_once_its_session_is_vacant_or_has_a_higher_fence() {
        let tenure = Tenure::new(Nonce(1), HolderId::new("h").unwrap(), ttl(), Wall(0));
        for (fence, [live, vacant]) in [(6, [false, false]), (7, [false, true]), (8, [true, true])] {
            let is_over = |tenure| {
                let (fence, nonce, stamp, metadata) = (Fence(fence), Nonce(1), Wall(0), Metadata::new());
                is_over(&session(1, 7), &Record { fence, nonce, stamp, tenure, metadata })
            };
            assert_eq!((is_over(Some(tenure.clone())), is_over(None)), (live, vacant), "{fence}");
        }
    }
}
