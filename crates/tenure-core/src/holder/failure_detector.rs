//! Watching over others' claims: when is a holder that says nothing dead?
//!
//! Two answers, and both need a full ttl. *Observed silence*: this process has itself seen the same heartbeat for a ttl,
//! counted from after the read that first showed it. *First sight*: for the process that never watched, two witnesses
//! agree that more than a ttl has passed since the heartbeat: the store's clock (the attested age) and the wall clocks (ours
//! against the stamp that the holder wrote). One clock's jump is never enough.
//!
//! Processes that live too short to watch, and that the two witnesses don't help, leave a *mark* for those who come later.
//! Where a dead holder's wall clock was ahead, its stamp says nothing: it is replaced by that of whoever finds it so. Where the
//! session of an attached lease is missing, a letter in the attached lease's own record says so. Neither changes the heartbeat; both begin the
//! record's age and its stamp anew, so from then on the same two witnesses tell how long ago the mark was made. Where the store tells
//! no ages, a mark says what the host's own time line showed: see [`crate::values::host`].

mod bounded;

use crate::bugs::{Bug, Bugs};
use crate::values::fence::{Fence, Nonce, Version};
use crate::values::host::Host;
use crate::values::key::Key;
use crate::values::record::{Ask, Attachment, Stored, Tenure};
use crate::values::time::{Drift, Now, Tick, Ttl};
use bounded::Bounded;
use std::time::Duration;

/// What a process's machines go by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rules {
    /// How far clock rates may be off.
    pub drift: Drift,
    /// Whether two witnesses may stand in for observed silence.
    pub first_sight: bool,
    /// The time line that the processes of this host share: the second witness where the store tells no ages. None: there is none.
    pub host: Option<Host>,
    /// The longest time between two looks at a key that is waited for.
    pub poll: Duration,
    /// How often a lease that renews itself, a session for one, is renewed: a third of its ttl if this is not said,
    /// or longer. Somewhat more often at random, so that not all renew at once.
    pub renew: Option<Duration>,
    /// How many of the leases that are attached to a session are looked at after each of its renewals, in turn: whether their records still
    /// show them, or somebody has deleted or replaced one behind the protocol's back. 0: none.
    pub audit: usize,
    /// Bugs on purpose.
    pub bugs: Bugs,
}

impl Rules {
    /// As many reads of a recent state as cost less than the session's renewal, where a write costs ten times as much (DynamoDB).
    pub const AUDIT: usize = 8;
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            drift: Drift::default(),
            first_sight: true,
            host: None,
            poll: Duration::from_secs(1),
            renew: None,
            audit: Rules::AUDIT,
            bugs: Bugs::default(),
        }
    }
}

/// What is thought of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its holder has been silent for a full ttl: it may be taken.
    Suspected,
    /// It counts as live, until about this tick on the holder's time line if nothing is heard.
    Live { until: Tick },
}

/// Since when a heartbeat has been the latest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Watched {
    fence: Fence,
    heartbeat: Nonce,
    since: Tick,
    /// For how long it had been by then, which may be before this process's time began.
    stood: Duration,
    /// The last version that the store told of, and when.
    heard: Option<(Version, Tick)>,
}

/// All silences of a process. They outlive single attempts, so that a process which only ever *tries* still takes a dead
/// holder's key in the end.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FailureDetector {
    kept: Bounded<Key, Watched>,
    /// Sessions that are missing altogether though something is attached to them: since when each tenure of them is. One for all its
    /// attached leases, however many those are.
    missing: Bounded<(Key, Fence), Tick>,
    /// Attached claims that stand in our way: which, and since when, or since when their session was last asked about them.
    doubts: Bounded<Key, (Nonce, Tick)>,
}

impl FailureDetector {
    /// Judges the claim that `key`'s record shows. `now` was read after the answer arrived.
    pub(crate) fn judge(
        &mut self,
        now: Now,
        key: &Key,
        stored: &Stored,
        tenure: &Tenure,
        rules: &Rules,
    ) -> Verdict {
        let ttl = tenure.ttl.duration();
        let record = &stored.record;
        let heartbeat = if rules.bugs.has(Bug::MailProlongs) { record.nonce } else { tenure.heartbeat };
        let agreed = agreed(now, stored, rules);
        let silent = self.silent(now, key, tenure, stored, heartbeat, agreed, rules.bugs);
        let limit = silence_limit(tenure.ttl, rules.bugs);
        if rules.bugs.has(Bug::DeadNeverJudged) {
            return Verdict::Live { until: now.held.after(ttl) };
        }
        if silent >= limit {
            return Verdict::Suspected;
        }
        let mut until = now.held.after(limit.saturating_sub(silent));
        if let Some(agreed) = agreed {
            if agreed > ttl {
                return Verdict::Suspected;
            }
            // Just past it: the witnesses must say *more* than a ttl. A store's clock may be far
            // coarser, and stand still just before: then one who looks again at once would do nothing else for a second.
            let left = (ttl - agreed + STAMPED).max(ttl / 64);
            until = until.min(now.held.after(left));
        }
        if let Some(since) = since_marked(now, tenure, rules) {
            if since > limit {
                return Verdict::Suspected;
            }
            until = until.min(now.held.after(limit - since + Duration::from_millis(2)));
        }
        Verdict::Live { until }
    }

    /// For how long this heartbeat has been seen, or has stood by what two witnesses said when it was first seen; starts over when the
    /// heartbeat is a new one. What they say later may be less: a letter to the dead begins the age of its record anew.
    #[allow(clippy::too_many_arguments, reason = "the facts of one look")]
    fn silent(
        &mut self,
        now: Now,
        key: &Key,
        tenure: &Tenure,
        stored: &Stored,
        heartbeat: Nonce,
        agreed: Option<Duration>,
        bugs: Bugs,
    ) -> Duration {
        let since = watched(now, bugs);
        let fence = stored.record.fence;
        let stood = agreed.unwrap_or_default().saturating_sub(STAMPED);
        let fresh = || Watched { fence, heartbeat, since, stood, heard: None };
        // Without room for it, this look is the first one again.
        let Some(detector) = self.kept.look(since, key, tenure.ttl.duration(), fresh) else {
            return stood;
        };
        let same = detector.fence == fence && detector.heartbeat == heartbeat;
        if !same && !bugs.has(Bug::SilenceNotRestarted) {
            // It was written before the store told of it, and nothing was written since.
            let heard = detector.heard.filter(|(version, _)| *version == stored.version);
            let stood = heard.map_or(stood, |(_, at)| since.since(at).max(stood));
            // What the store told of may be newer than what this read shows.
            *detector = Watched { stood, heard: detector.heard, ..fresh() };
        }
        since.since(detector.since).saturating_add(detector.stood)
    }

    /// The store tells that `key`, which is being watched, was written in this version.
    pub(crate) fn heard(&mut self, now: Now, key: &Key, version: Version, rules: &Rules) {
        if let Some(detector) = self.kept.get_mut(key)
            && !rules.bugs.has(Bug::HintedVersionIgnored)
        {
            detector.heard = Some((version, watched(now, rules.bugs)));
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
    pub(crate) fn judge_marked(&self, now: Now, seen: &Stored, key: &Key, rules: &Rules) -> Option<Verdict> {
        let tenure = seen.record.tenure.as_ref()?;
        if since_marked(now, tenure, rules).is_some_and(|since| since > silence_limit(tenure.ttl, rules.bugs))
        {
            return Some(Verdict::Suspected);
        }
        let tenure = Some(tenure).filter(|tenure| is_marked(tenure, key))?;
        let age = seen.age().filter(|_| rules.first_sight)?;
        let by_wall = now.wall.since(seen.record.stamp);
        let agreed = if rules.bugs.has(Bug::MarkIsOneWitness) { age.max(by_wall) } else { age.min(by_wall) };
        (agreed > silence_limit(tenure.ttl, rules.bugs)).then_some(Verdict::Suspected)
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
    ) -> Verdict {
        let watched = watched(now, rules.bugs);
        let tenure = (attachment.session.clone(), attachment.fence);
        let since =
            self.missing.look(watched, &tenure, ttl.duration(), || watched).map_or(watched, |since| *since);
        verdict_on_missing(now, since, ttl, rules)
    }

    /// What is thought of such a session by what was read before; none if no read has shown that it is missing.
    pub(crate) fn known_missing(
        &self,
        now: Now,
        attachment: &Attachment,
        ttl: Ttl,
        rules: &Rules,
    ) -> Option<Verdict> {
        let since = self.missing.get(&(attachment.session.clone(), attachment.fence))?;
        Some(verdict_on_missing(now, *since, ttl, rules))
    }

    /// The tenure of a session that `attachment` names is there: should it ever be missing, its time begins anew.
    pub(crate) fn session_is_there(&mut self, attachment: &Attachment) {
        self.missing.forget(&(attachment.session.clone(), attachment.fence));
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
    host.since_marked(now, &tenure.marks, tenure.ttl, rules)
}

/// Whether somebody has left a mark in this attached lease's record that its session is missing.
pub(crate) fn is_marked(tenure: &Tenure, key: &Key) -> bool {
    tenure.mail.iter().any(|letter| letter.ask == Ask::Confirm && letter.key == *key)
}

/// The time that a waiter counts.
fn watched(now: Now, bugs: Bugs) -> Tick {
    if bugs.has(Bug::WaiterCountsSuspend) { now.held } else { now.waited }
}

/// How long a silence has to be.
fn silence_limit(ttl: Ttl, bugs: Bugs) -> Duration {
    if bugs.has(Bug::SilenceTooShort) { ttl.duration() * 4 / 5 } else { ttl.duration() }
}

fn verdict_on_missing(now: Now, since: Tick, ttl: Ttl, rules: &Rules) -> Verdict {
    let silent = watched(now, rules.bugs).since(since);
    let limit = silence_limit(ttl, rules.bugs);
    if rules.bugs.has(Bug::DeadNeverJudged) {
        return Verdict::Live { until: now.held.after(ttl.duration()) };
    }
    if silent >= limit || rules.bugs.has(Bug::MissingIsDead) {
        return Verdict::Suspected;
    }
    Verdict::Live { until: now.held.after(limit - silent) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::key::HolderId;
    use crate::values::record::Record;
    use crate::values::time::{Ttl, Wall};

    const TTL: Duration = Duration::from_secs(10);

    fn at(secs: u64) -> Now {
        Now {
            held: Tick(secs * 1_000_000_000),
            waited: Tick(secs * 1_000_000_000),
            wall: Wall(1_000_000 + secs * 1000),
        }
    }

    fn stored(heartbeat: u128, stamp: u64, age: Option<u64>) -> Stored {
        let tenure = Tenure {
            heartbeat: Nonce(heartbeat),
            ..Tenure::new(Nonce(1), HolderId::new("other").unwrap(), Ttl::new(TTL).unwrap(), Wall(0))
        };
        let record = Record {
            fence: Fence(7),
            nonce: Nonce(heartbeat),
            stamp: Wall(stamp),
            tenure: Some(tenure),
            metadata: Default::default(),
        };
        Stored::new(record).versioned(Version(heartbeat)).aged(age.map(Duration::from_secs))
    }

    fn judge(detector: &mut FailureDetector, now: Now, stored: &Stored, rules: &Rules) -> Verdict {
        let tenure = stored.record.tenure.clone().unwrap();
        detector.judge(now, &Key::new("k").unwrap(), stored, &tenure, rules)
    }

    #[test]
    fn silence_is_counted_from_the_first_sight_of_this_heartbeat() {
        let (mut detector, rules) = (FailureDetector::default(), Rules::default());
        assert_eq!(
            judge(&mut detector, at(0), &stored(1, 0, None), &rules),
            Verdict::Live { until: at(10).held }
        );
        assert_eq!(
            judge(&mut detector, at(9), &stored(1, 0, None), &rules),
            Verdict::Live { until: at(10).held }
        );
        assert_eq!(
            judge(&mut detector, at(9), &stored(2, 0, None), &rules),
            Verdict::Live { until: at(19).held }
        );
        assert_eq!(
            judge(&mut detector, at(18), &stored(2, 0, None), &rules),
            Verdict::Live { until: at(19).held }
        );
        assert_eq!(judge(&mut detector, at(19), &stored(2, 0, None), &rules), Verdict::Suspected);
    }

    #[test]
    fn silence_is_counted_from_when_the_store_told_of_that_version() {
        let (mut detector, rules, key) =
            (FailureDetector::default(), Rules::default(), Key::new("k").unwrap());
        detector.heard(at(0), &key, Version(1), &rules);
        let live = |secs| Verdict::Live { until: at(secs).held };
        assert_eq!(judge(&mut detector, at(2), &stored(1, 0, None), &rules), live(12), "nobody watched");
        detector.heard(at(5), &key, Version(2), &rules);
        assert_eq!(judge(&mut detector, at(8), &stored(2, 0, None), &rules), live(15));
        detector.heard(at(11), &key, Version(4), &rules);
        assert_eq!(judge(&mut detector, at(14), &stored(3, 0, None), &rules), live(24), "an older one");
        assert_eq!(judge(&mut detector, at(16), &stored(4, 0, None), &rules), live(21), "the one it told of");
        assert_eq!(judge(&mut detector, at(21), &stored(4, 0, None), &rules), Verdict::Suspected);
    }

    #[test]
    fn a_waiters_suspend_is_not_silence() {
        let (mut detector, rules) = (FailureDetector::default(), Rules::default());
        judge(&mut detector, at(0), &stored(1, 0, None), &rules);
        let woken = Now { held: at(3600).held, ..at(1) };
        assert_eq!(
            judge(&mut detector, woken, &stored(1, 0, None), &rules),
            Verdict::Live { until: at(3609).held }
        );
    }

    #[test]
    fn first_sight_needs_two_witnesses() {
        let rules = Rules::default();
        let sees =
            |age, stamp| judge(&mut FailureDetector::default(), at(100), &stored(1, stamp, age), &rules);
        let stamp = |secs_ago: u64| at(100 - secs_ago).wall.0;
        assert_eq!(sees(Some(11), stamp(11)), Verdict::Suspected);
        assert!(
            matches!(sees(Some(10), stamp(11)), Verdict::Live { .. }),
            "the store says not more than a ttl"
        );
        assert!(matches!(sees(Some(11), stamp(10)), Verdict::Live { .. }), "the wall clocks say not more");
        assert!(matches!(sees(None, stamp(90)), Verdict::Live { .. }), "no age, no first sight");
        assert!(matches!(sees(Some(3600), at(999).wall.0), Verdict::Live { .. }), "stamped in the future");
        let off = Rules { first_sight: false, ..Rules::default() };
        let verdict = judge(&mut FailureDetector::default(), at(100), &stored(1, stamp(90), Some(90)), &off);
        assert_eq!(verdict, Verdict::Live { until: at(110).held }, "switched off");
    }

    #[test]
    fn the_two_witnesses_predict_when_they_will_agree() {
        let verdict = judge(
            &mut FailureDetector::default(),
            at(100),
            &stored(1, at(96).wall.0, Some(7)),
            &Rules::default(),
        );
        assert_eq!(verdict, Verdict::Live { until: at(106).held.after(Duration::from_millis(2)) });
    }

    #[test]
    fn c1_a_store_s_clock_that_stands_still_just_before_the_end_is_not_asked_all_the_time() {
        let (mut detector, seen) = (FailureDetector::default(), stored(1, at(88).wall.0, Some(10)));
        let soon = at(100).held.after(STAMPED);
        let verdict = judge(&mut detector, at(100), &seen, &Rules::default());
        assert_eq!(verdict, Verdict::Live { until: soon });
        // Our own clock goes on.
        let then = Now { held: soon, waited: soon, ..at(100) };
        assert_eq!(judge(&mut detector, then, &seen, &Rules::default()), Verdict::Suspected);
    }

    /// The letter was written just now, and keeps heartbeat and stamp.
    fn letter(heartbeat: u128, stamp: u64, age: u64) -> Stored {
        let mut letter = stored(heartbeat, stamp, Some(age));
        (letter.record.nonce, letter.version) = (Nonce(heartbeat + 1), Version(heartbeat + 1));
        letter
    }

    #[test]
    fn l1_a_letter_to_the_dead_prolongs_nothing() {
        let (mut detector, rules) = (FailureDetector::default(), Rules::default());
        let stamp = at(97).wall.0;
        let until = Verdict::Live { until: at(107).held.after(STAMPED) };
        assert_eq!(judge(&mut detector, at(100), &stored(1, stamp, Some(3)), &rules), until);
        assert_eq!(judge(&mut detector, at(106), &letter(1, stamp, 0), &rules), until);
        assert_eq!(judge(&mut detector, at(108), &letter(1, stamp, 2), &rules), Verdict::Suspected);
        // The next heartbeat begins anew, by what both witnesses say of that.
        let until = Verdict::Live { until: at(118).held.after(STAMPED) };
        assert_eq!(judge(&mut detector, at(109), &stored(3, at(108).wall.0, Some(4)), &rules), until);
    }

    #[test]
    fn l1_a_process_that_is_younger_than_a_silence_counts_all_of_it() {
        let (mut detector, rules) = (FailureDetector::default(), Rules::default());
        let stamp = at(0).wall.0 - 6000;
        let until = Verdict::Live { until: at(4).held.after(STAMPED) };
        assert_eq!(judge(&mut detector, at(0), &stored(1, stamp, Some(6)), &rules), until);
        assert_eq!(judge(&mut detector, at(3), &letter(1, stamp, 0), &rules), until);
        assert_eq!(judge(&mut detector, at(5), &letter(1, stamp, 2), &rules), Verdict::Suspected);
        // Likewise one that was heard of, and stands for longer by both witnesses than this process does.
        detector.heard(at(6), &Key::new("k").unwrap(), Version(3), &rules);
        let seen = stored(3, at(0).wall.0 - 1000, Some(8));
        let until = Verdict::Live { until: at(9).held.after(STAMPED) };
        assert_eq!(judge(&mut detector, at(7), &seen, &rules), until);
        assert_eq!(judge(&mut detector, at(8), &letter(3, at(0).wall.0 - 1000, 0), &rules), until);
    }

    /// More keys than are kept without a thought.
    const MANY: usize = 5000;

    fn keys() -> Vec<Key> {
        (0..MANY).map(|n| Key::new(format!("k{n}")).unwrap()).collect()
    }

    #[test]
    fn l1_more_dead_holders_than_fit_are_all_judged_in_time() {
        let (mut detector, rules, keys) = (FailureDetector::default(), Rules::default(), keys());
        let seen = stored(1, 0, None);
        let tenure = seen.record.tenure.clone().unwrap();
        let mut verdicts = Vec::new();
        for secs in 0..=10 {
            verdicts = keys
                .iter()
                .map(|key| detector.judge(at(secs), key, &seen, &tenure, &rules))
                .collect::<Vec<_>>();
        }
        let silent = verdicts.iter().filter(|verdict| **verdict == Verdict::Suspected).count();
        assert_eq!(silent, MANY);
    }

    #[test]
    fn l3_more_doubtful_claims_than_fit_are_all_asked_about() {
        let (mut detector, keys, mut asked) = (FailureDetector::default(), keys(), 0);
        for secs in 0..=20 {
            let ask = |key: &&Key| detector.doubts(at(secs), key, Nonce(1), TTL * 2);
            asked += keys.iter().filter(ask).count();
        }
        assert_eq!(asked, MANY);
    }

    #[test]
    fn a_missing_sessions_tenures_are_judged_each_for_itself_and_once_for_all_attached_leases() {
        let (mut detector, rules, ttl) =
            (FailureDetector::default(), Rules::default(), Ttl::new(TTL).unwrap());
        let attachment = |fence| Attachment { session: Key::new("session/a").unwrap(), fence: Fence(fence) };
        assert_eq!(detector.known_missing(at(0), &attachment(7), ttl, &rules), None, "nothing was read yet");
        let live = |secs| Verdict::Live { until: at(secs).held };
        assert_eq!(detector.judge_missing(at(0), &attachment(7), ttl, &rules), live(10));
        assert_eq!(
            detector.judge_missing(at(6), &attachment(9), ttl, &rules),
            live(16),
            "a later tenure of it"
        );
        assert_eq!(detector.known_missing(at(9), &attachment(7), ttl, &rules), Some(live(10)));
        assert_eq!(detector.judge_missing(at(10), &attachment(7), ttl, &rules), Verdict::Suspected);
        assert_eq!(detector.judge_missing(at(10), &attachment(9), ttl, &rules), live(16));
        detector.session_is_there(&attachment(9));
        assert_eq!(
            detector.judge_missing(at(20), &attachment(9), ttl, &rules),
            live(30),
            "it was there meanwhile"
        );
        assert_eq!(detector.known_missing(at(20), &attachment(7), ttl, &rules), Some(Verdict::Suspected));
    }

    #[test]
    fn a_missing_sessions_silence_is_what_a_waiter_counts() {
        let (mut detector, rules, ttl) =
            (FailureDetector::default(), Rules::default(), Ttl::new(TTL).unwrap());
        let attachment = Attachment { session: Key::new("session/a").unwrap(), fence: Fence(7) };
        detector.judge_missing(at(0), &attachment, ttl, &rules);
        let woken = Now { held: at(3600).held, ..at(1) };
        let live = Verdict::Live { until: at(3609).held };
        assert_eq!(detector.judge_missing(woken, &attachment, ttl, &rules), live, "it was suspended");
        assert_eq!(detector.known_missing(woken, &attachment, ttl, &rules), Some(live));
    }

    #[test]
    fn each_claim_is_asked_about_by_its_own_time() {
        let (mut detector, key) = (FailureDetector::default(), Key::new("k").unwrap());
        let mut asks = |secs, claim| detector.doubts(at(secs), &key, Nonce(claim), TTL * 2);
        assert!(!asks(0, 1) && !asks(15, 2), "another claim");
        assert!(!asks(34, 2) && asks(35, 2) && !asks(36, 2));
        assert!(!asks(54, 2) && asks(55, 2), "and again");
    }

    #[test]
    fn what_is_taken_or_given_up_is_watched_no_more() {
        let (mut detector, rules, key) =
            (FailureDetector::default(), Rules::default(), Key::new("k").unwrap());
        judge(&mut detector, at(0), &stored(1, 0, None), &rules);
        detector.doubts(at(0), &key, Nonce(1), TTL);
        detector.end(&key);
        assert_eq!((detector.kept.len(), detector.doubts.len()), (0, 0));
    }

    #[test]
    fn silences_of_keys_that_nobody_comes_back_to_are_forgotten() {
        let (mut detector, rules) = (FailureDetector::default(), Rules::default());
        let seen = stored(1, 0, None);
        let tenure = seen.record.tenure.clone().unwrap();
        for n in 0..20_000 {
            let key = Key::new(format!("k{n}")).unwrap();
            detector.judge(at(n / 10), &key, &seen, &tenure, &rules);
            detector.doubts(at(n / 10), &key, Nonce(1), TTL);
        }
        assert!(detector.kept.len() <= 8_200 && detector.doubts.len() <= 8_200, "{}", detector.kept.len());
        assert!(!detector.kept.contains_key(&Key::new("k0").unwrap()));
    }
}
