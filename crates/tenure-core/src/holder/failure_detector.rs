//! Watching others' claims: when is a silent holder dead?
//!
//! There are two answers, and both need a full ttl. *Observed silence*: this process has itself seen the same heartbeat for a ttl,
//! counted from after the read that first showed it. *First sight*: for a process that never watched, two witnesses
//! agree that more than a ttl has passed since the heartbeat. One is the store's clock (the attested age), the other the wall clocks (ours
//! against the holder's stamp). One clock's jump is never enough, also where both are the clock of one host: see `ClockJumps`.
//!
//! A process may live too short to watch, and the two witnesses may not help it. Then it leaves a *mark* for later processes.
//! If a dead holder's wall clock was ahead, its stamp says nothing: the process replaces it by its own. If the
//! session of an attached lease is missing, a letter in the attached lease's own record says so. Neither changes the heartbeat. Both begin the
//! record's age and its stamp anew, so that the same two witnesses tell the age of the mark. Where the store tells
//! no ages, a mark has the host's own time line: see [`crate::values::time::host`].

mod bounded;
#[cfg(test)]
mod tests;

use crate::bugs::{Bug, Bugs};
use crate::rules::Rules;
use crate::values::fence::{Fence, Nonce, Version};
use crate::values::key::Key;
use crate::values::record::{Ask, Attachment, Stored, Tenure};
use crate::values::time::jumps::ClockJumps;
use crate::values::time::{Now, Tick, Ttl};
use bounded::Bounded;
use std::time::Duration;

/// What is thought of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HolderVerdict {
    /// Its holder has been silent for a full ttl: it may be taken.
    Suspected,
    /// It counts as live, until about this tick on the holder's time line if nothing is heard.
    Live { until: Tick },
}

/// Since when a heartbeat has been the latest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Silence {
    fence: Fence,
    heartbeat: Nonce,
    since: Tick,
    /// For how long it had been by then, which may be before this process's time began.
    stood: Duration,
    heard: HeardVersions,
}

/// The last versions that the store told of, and when, the latest first. Marks and letters are written between two renewals, and a
/// waiter that is told of each change reads a live holder's record less than once a ttl.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct HeardVersions([Option<(Version, Tick)>; 4]);

impl HeardVersions {
    fn add(&mut self, version: Version, at: Tick) {
        self.0.rotate_right(1);
        self.0[0] = Some((version, at));
    }

    fn when(&self, version: Version) -> Option<Tick> {
        self.0.iter().flatten().find(|(told, _)| *told == version).map(|(_, at)| *at)
    }
}

/// All silences of a process. They outlive single attempts, so that a process which only ever *tries* still takes a dead
/// holder's key in the end.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FailureDetector {
    kept: Bounded<Key, Silence>,
    /// Sessions that are missing altogether though something is attached to them: since when each tenure of them is. One for all its
    /// attached leases, however many those are.
    missing: Bounded<Attachment, Tick>,
    /// Attached claims that stand in our way: which, and since when, or since when their session was last asked about them.
    doubts: Bounded<Key, (Nonce, Tick)>,
    /// Since when two witnesses that are one clock may be believed.
    jumps: ClockJumps,
}

impl FailureDetector {
    /// Takes note of this process's clocks, whatever it does: one that is set ahead may be the store's, too.
    pub(crate) fn see_clocks(&mut self, now: Now) {
        self.jumps.look(now);
    }

    /// Judges the claim that `key`'s record shows. `now` was read after the answer arrived.
    pub(crate) fn judge(
        &mut self,
        now: Now,
        key: &Key,
        stored: &Stored,
        tenure: &Tenure,
        rules: &Rules,
    ) -> HolderVerdict {
        let ttl = tenure.ttl.duration();
        let record = &stored.record;
        let heartbeat = if rules.bugs.has(Bug::MailProlongs) { record.nonce } else { tenure.heartbeat };
        self.see_clocks(now);
        let agreed = agreed(now, stored, rules).map(|agreed| self.jumps.certain(now, agreed, rules.bugs));
        let stood = agreed.unwrap_or_default().saturating_sub(STAMPED);
        let since = watched(now, rules.bugs);
        let look = Silence { fence: record.fence, heartbeat, since, stood, heard: HeardVersions::default() };
        let silent = self.silent(key, tenure.ttl, stored.version, look, rules.bugs);
        let limit = silence_limit(tenure.ttl, rules.bugs);
        if rules.bugs.has(Bug::DeadNeverJudged) {
            return HolderVerdict::Live { until: now.held.after(ttl) };
        }
        if silent >= limit {
            return HolderVerdict::Suspected;
        }
        let mut until = now.held.after(limit.saturating_sub(silent));
        if let Some(agreed) = agreed {
            if agreed > ttl {
                return HolderVerdict::Suspected;
            }
            // Just past it: the witnesses must say *more* than a ttl. A store's clock may be far
            // coarser, and stand still just before: then one who looks again at once would do nothing else for a second.
            let left = (ttl - agreed + STAMPED).max(ttl / 64);
            until = until.min(now.held.after(left));
        }
        if let Some(since) = since_marked(now, tenure, rules) {
            if since > limit {
                return HolderVerdict::Suspected;
            }
            until = until.min(now.held.after(limit - since + Duration::from_millis(2)));
        }
        HolderVerdict::Live { until }
    }

    /// For how long the heartbeat of this look has been seen, or has stood by what two witnesses said when it was first seen; starts over when the
    /// heartbeat is a new one. What they say later may be less: a letter to the dead begins the age of its record anew.
    fn silent(&mut self, key: &Key, ttl: Ttl, version: Version, look: Silence, bugs: Bugs) -> Duration {
        let Silence { since, stood, .. } = look;
        // Without room for it, this look is the first one again.
        let Some(silence) = self.kept.look(since, key, ttl.duration(), || look.clone()) else {
            return stood;
        };
        let same = silence.fence == look.fence && silence.heartbeat == look.heartbeat;
        if !same && !bugs.has(Bug::SilenceNotRestarted) {
            // It was written before the store told of it, and no other heartbeat since. What shows it may be a later version, of a mark
            // or a letter. That the store told of the renewal itself may have been missed.
            let renewed = silence.heard.when(Version::of(look.heartbeat, look.fence));
            let heard = renewed.or_else(|| silence.heard.when(version));
            let stood = heard.map_or(stood, |at| since.since(at).max(stood));
            // What the store told of may be newer than what this read shows.
            *silence = Silence { stood, heard: silence.heard, ..look };
        }
        since.since(silence.since).saturating_add(silence.stood)
    }

    /// The store tells that `key`, which is being watched, was written in this version.
    pub(crate) fn heard(&mut self, now: Now, key: &Key, version: Version, rules: &Rules) {
        if let Some(silence) = self.kept.get_mut(key)
            && !rules.bugs.has(Bug::HintedVersionIgnored)
        {
            silence.heard.add(version, watched(now, rules.bugs));
        }
    }

    /// Whether to ask the session behind `key`'s attached claim about it: true each time that `limit` has passed, as the
    /// question itself may be lost.
    pub(crate) fn doubts(&mut self, now: Now, key: &Key, claim: Nonce, limit: Duration) -> bool {
        let Some(doubt) = self.doubts.look(now.held, key, limit, || (claim, now.held)) else {
            return false;
        };
        let due = doubt.0 == claim && now.held.since(doubt.1) >= limit;
        if due || doubt.0 != claim {
            *doubt = (claim, now.held);
        }
        due
    }

    /// Whether who won't be here for long is to ask the session behind `key`'s attached claim about it: once that has stood for
    /// `limit`, and as long again as when its record was last written, up to 32 times as long. One clock is enough for a
    /// question, and the store's is the best, for a claim may land long after it was stamped.
    pub(crate) fn asks(
        &mut self,
        now: Now,
        key: &Key,
        stored: &Stored,
        tenure: &Tenure,
        limit: Duration,
    ) -> bool {
        let stamp = stored.record.stamp;
        let longer = stamp.since(tenure.since).clamp(limit, limit * 32);
        let is_old = stored.age().unwrap_or_else(|| now.wall.since(stamp)) >= longer;
        let mut is_new = false;
        let begin = || {
            is_new = true;
            (tenure.id, now.held)
        };
        let Some(doubt) = self.doubts.look(now.held, key, limit, begin) else { return is_old };
        if doubt.0 != tenure.id {
            *doubt = (tenure.id, now.held);
            is_new = true;
        }
        // Since it was first seen here, or last asked about.
        let watched = now.held.since(doubt.1);
        let asks = watched >= longer || is_old && (is_new || watched >= limit);
        if asks {
            *doubt = (tenure.id, now.held);
        }
        asks
    }

    /// Judges a session that is missing by the mark that somebody has left in the record of what is attached to it: it was missing
    /// when that was written, so it can't have been renewed since.
    pub(crate) fn judge_marked(
        &self,
        now: Now,
        seen: &Stored,
        key: &Key,
        rules: &Rules,
    ) -> Option<HolderVerdict> {
        let tenure = seen.record.tenure.as_ref()?;
        if since_marked(now, tenure, rules).is_some_and(|since| since > silence_limit(tenure.ttl, rules.bugs))
        {
            return Some(HolderVerdict::Suspected);
        }
        let tenure = Some(tenure).filter(|tenure| is_marked(tenure, key))?;
        let age = seen.age().filter(|_| rules.first_sight)?;
        let by_wall = now.wall.since(seen.record.stamp);
        let agreed = if rules.bugs.has(Bug::MarkIsOneWitness) { age.max(by_wall) } else { age.min(by_wall) };
        let agreed = self.jumps.certain(now, agreed, rules.bugs);
        (agreed > silence_limit(tenure.ttl, rules.bugs)).then_some(HolderVerdict::Suspected)
    }

    /// Forgets the silence of `key`: it was taken or given up.
    pub(crate) fn end(&mut self, key: &Key) {
        self.kept.forget(key);
        self.doubts.forget(key);
    }

    /// Judges the tenure of a session that `attachment` names, whose record a read has just shown to be missing: deleted by `gc` long
    /// after its end, or by a hand while its process still believes. From then on it can't be renewed, and whatever is attached
    /// to it may be taken after a full ttl; the age of an attached lease's own record says nothing about it.
    pub(crate) fn judge_missing(
        &mut self,
        now: Now,
        attachment: &Attachment,
        ttl: Ttl,
        rules: &Rules,
    ) -> HolderVerdict {
        let watched = watched(now, rules.bugs);
        let since = self.missing.look(watched, attachment, ttl.duration(), || watched);
        let since = since.map_or(watched, |since| *since);
        verdict_on_missing(now, since, ttl, rules)
    }

    /// What is thought of such a session by what was read before; none if no read has shown that it is missing.
    pub(crate) fn known_missing(
        &self,
        now: Now,
        attachment: &Attachment,
        ttl: Ttl,
        rules: &Rules,
    ) -> Option<HolderVerdict> {
        let since = self.missing.get(attachment)?;
        Some(verdict_on_missing(now, *since, ttl, rules))
    }

    /// The tenure of a session that `attachment` names is there: should it ever be missing, its time begins anew.
    pub(crate) fn session_is_there(&mut self, attachment: &Attachment) {
        self.missing.forget(attachment);
    }
}

/// Stamps are whole milliseconds, and so is the time that they are compared with.
const STAMPED: Duration = Duration::from_millis(2);

/// For how long the record has stood as two witnesses say who agree; none where the store tells no age.
fn agreed(now: Now, stored: &Stored, rules: &Rules) -> Option<Duration> {
    let by_wall = now.wall.since(stored.record.stamp);
    if rules.bugs.has(Bug::WallDecides) {
        return Some(by_wall);
    }
    let by_store = stored.age().filter(|_| rules.first_sight)?;
    Some(if rules.bugs.has(Bug::OneWitness) { by_store } else { by_store.min(by_wall) })
}

/// Whether two witnesses will tell at first sight how long a holder has been silent, once it is: the store tells ages, and the wall clocks
/// say less than that by no more than so much. A stamp of the future says less by as far as it is ahead, too.
pub(crate) fn is_attested(now: Now, stored: &Stored, within: Duration, rules: &Rules) -> bool {
    let stamp = stored.record.stamp;
    let (by_wall, ahead) = (now.wall.since(stamp), stamp.since(now.wall));
    let by_store = stored.age().filter(|_| rules.first_sight);
    by_store.is_some_and(|age| (age + ahead).saturating_sub(by_wall) <= within)
}

/// Whether the record's stamp is what keeps a silent holder alive to those who don't watch: by the store's clock it has been
/// silent for long, and by the wall clocks it has not. Later than others may take it who see that at once.
pub(crate) fn is_misled(now: Now, stored: &Stored, ttl: Ttl, rules: &Rules) -> bool {
    let is_ahead = now.wall.since(stored.record.stamp) <= ttl.duration();
    rules.first_sight && is_ahead && stored.age().is_some_and(|age| age > ttl.duration() + ttl.part(4))
}

/// Whether a claim that counts as live may be that of a dead holder by its stamp, which is all that tells without ages: it is old, or of
/// the future. A live one of a wrong wall clock loses a round trip by the mark that follows.
pub(crate) fn is_doubtful(now: Now, stored: &Stored, ttl: Ttl) -> bool {
    let stamp = stored.record.stamp;
    now.wall.since(stamp) > ttl.duration() + ttl.part(4) || stamp.since(now.wall) > ttl.part(4)
}

/// For how long nobody has renewed this, as marks of processes of this very host tell; none if they don't.
pub(crate) fn since_marked(now: Now, tenure: &Tenure, rules: &Rules) -> Option<Duration> {
    let host = rules.host.filter(|_| rules.first_sight)?;
    host.since_marked(now, &tenure.marks, tenure.ttl, rules.drift, rules.bugs)
}

/// Whether somebody has left a mark in this attached lease's record that its session is missing.
pub(crate) fn is_marked(tenure: &Tenure, key: &Key) -> bool {
    tenure.mail.iter().any(|letter| letter.is(Ask::Confirm, key))
}

/// The time that a waiter counts.
fn watched(now: Now, bugs: Bugs) -> Tick {
    if bugs.has(Bug::WaiterCountsSuspend) { now.held } else { now.waited }
}

/// How long a silence has to be.
fn silence_limit(ttl: Ttl, bugs: Bugs) -> Duration {
    if bugs.has(Bug::SilenceTooShort) { ttl.duration() * 4 / 5 } else { ttl.duration() }
}

fn verdict_on_missing(now: Now, since: Tick, ttl: Ttl, rules: &Rules) -> HolderVerdict {
    let silent = watched(now, rules.bugs).since(since);
    let limit = silence_limit(ttl, rules.bugs);
    if rules.bugs.has(Bug::DeadNeverJudged) {
        return HolderVerdict::Live { until: now.held.after(ttl.duration()) };
    }
    if silent >= limit || rules.bugs.has(Bug::MissingIsDead) {
        return HolderVerdict::Suspected;
    }
    HolderVerdict::Live { until: now.held.after(limit - silent) }
}
