//! Plan: silence is counted from the first sight of a heartbeat, from when the store told of its version, and by the waiter's clock; two
//! witnesses stand in for it, and one never does; a letter prolongs nothing. A missing session is judged for each of its tenures. A claim
//! is asked about now and then. Whether first sight will tell shows while a holder renews. More keys than fit are all judged, and what nobody comes back to is forgotten.
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

fn judge(detector: &mut FailureDetector, now: Now, stored: &Stored, rules: &Rules) -> HolderVerdict {
    let tenure = stored.record.tenure.clone().unwrap();
    detector.judge(now, &Key::new("k").unwrap(), stored, &tenure, rules)
}

#[test]
fn silence_is_counted_from_the_first_sight_of_this_heartbeat() {
    let (mut detector, rules) = (FailureDetector::default(), Rules::default());
    assert_eq!(
        judge(&mut detector, at(0), &stored(1, 0, None), &rules),
        HolderVerdict::Live { until: at(10).held }
    );
    assert_eq!(
        judge(&mut detector, at(9), &stored(1, 0, None), &rules),
        HolderVerdict::Live { until: at(10).held }
    );
    assert_eq!(
        judge(&mut detector, at(9), &stored(2, 0, None), &rules),
        HolderVerdict::Live { until: at(19).held }
    );
    assert_eq!(
        judge(&mut detector, at(18), &stored(2, 0, None), &rules),
        HolderVerdict::Live { until: at(19).held }
    );
    assert_eq!(judge(&mut detector, at(19), &stored(2, 0, None), &rules), HolderVerdict::Suspected);
}

#[test]
fn silence_is_counted_from_when_the_store_told_of_that_version() {
    let (mut detector, rules, key) = (FailureDetector::default(), Rules::default(), Key::new("k").unwrap());
    detector.heard(at(0), &key, Version(1), &rules);
    let live = |secs| HolderVerdict::Live { until: at(secs).held };
    assert_eq!(judge(&mut detector, at(2), &stored(1, 0, None), &rules), live(12), "nobody watched");
    detector.heard(at(5), &key, Version(2), &rules);
    assert_eq!(judge(&mut detector, at(8), &stored(2, 0, None), &rules), live(15));
    detector.heard(at(11), &key, Version(4), &rules);
    assert_eq!(judge(&mut detector, at(14), &stored(3, 0, None), &rules), live(24), "an older one");
    assert_eq!(judge(&mut detector, at(16), &stored(4, 0, None), &rules), live(21), "the one it told of");
    assert_eq!(judge(&mut detector, at(21), &stored(4, 0, None), &rules), HolderVerdict::Suspected);
}

#[test]
fn l1_marks_and_letters_hide_no_renewal_that_the_store_told_of() {
    let (mut detector, rules, key) = (FailureDetector::default(), Rules::default(), Key::new("k").unwrap());
    judge(&mut detector, at(0), &stored(1, 0, None), &rules);
    detector.heard(at(3), &key, Version::of(Nonce(2), Fence(7)), &rules);
    for (secs, version) in [(5, 7), (6, 8), (7, 3)] {
        detector.heard(at(secs), &key, Version(version), &rules);
    }
    let live = |secs| HolderVerdict::Live { until: at(secs).held };
    assert_eq!(judge(&mut detector, at(8), &letter(2, 0, 0), &rules), live(13), "since the renewal");
    // A renewal that the store did not tell of is no older than what it wrote last.
    detector.heard(at(10), &key, Version(5), &rules);
    assert_eq!(judge(&mut detector, at(11), &letter(4, 0, 0), &rules), live(20), "since the letter");
}

#[test]
fn a_waiters_suspend_is_not_silence() {
    let (mut detector, rules) = (FailureDetector::default(), Rules::default());
    judge(&mut detector, at(0), &stored(1, 0, None), &rules);
    let woken = Now { held: at(3600).held, ..at(1) };
    assert_eq!(
        judge(&mut detector, woken, &stored(1, 0, None), &rules),
        HolderVerdict::Live { until: at(3609).held }
    );
}

#[test]
fn s1_a_clock_that_is_set_ahead_with_the_stores_is_no_second_witness() {
    let rules = Rules::default();
    let set_ahead = |secs: u64| Now { wall: Wall(at(secs).wall.0 + 60_000), ..at(secs) };
    let (mut detector, beat) = (FailureDetector::default(), at(99).wall.0);
    detector.see_clocks(at(99));
    let seen = |age| stored(1, beat, Some(age));
    let live = |secs| HolderVerdict::Live { until: at(secs).held };
    assert_eq!(judge(&mut detector, set_ahead(100), &seen(61), &rules), live(110), "both say a minute");
    // What nobody watched is judged by both again, once that was so long ago.
    let stamped = HolderVerdict::Live { until: at(110).held.after(STAMPED) };
    assert_eq!(judge(&mut detector, set_ahead(109), &stored(2, beat, Some(70)), &rules), stamped);
    assert_eq!(
        judge(&mut detector, set_ahead(111), &stored(3, beat, Some(72)), &rules),
        HolderVerdict::Suspected
    );
    // A beat after it is as old as both say.
    let later = stored(4, set_ahead(104).wall.0, Some(11));
    assert_eq!(judge(&mut detector, set_ahead(115), &later, &rules), HolderVerdict::Suspected);
}

#[test]
fn first_sight_needs_two_witnesses() {
    let rules = Rules::default();
    let sees = |age, stamp| judge(&mut FailureDetector::default(), at(100), &stored(1, stamp, age), &rules);
    let stamp = |secs_ago: u64| at(100 - secs_ago).wall.0;
    assert_eq!(sees(Some(11), stamp(11)), HolderVerdict::Suspected);
    assert!(
        matches!(sees(Some(10), stamp(11)), HolderVerdict::Live { .. }),
        "the store says not more than a ttl"
    );
    assert!(matches!(sees(Some(11), stamp(10)), HolderVerdict::Live { .. }), "the wall clocks say not more");
    assert!(matches!(sees(None, stamp(90)), HolderVerdict::Live { .. }), "no age, no first sight");
    assert!(matches!(sees(Some(3600), at(999).wall.0), HolderVerdict::Live { .. }), "stamped in the future");
    let off = Rules { first_sight: false, ..Rules::default() };
    let verdict = judge(&mut FailureDetector::default(), at(100), &stored(1, stamp(90), Some(90)), &off);
    assert_eq!(verdict, HolderVerdict::Live { until: at(110).held }, "switched off");
}

#[test]
fn the_two_witnesses_predict_when_they_will_agree() {
    let verdict = judge(
        &mut FailureDetector::default(),
        at(100),
        &stored(1, at(96).wall.0, Some(7)),
        &Rules::default(),
    );
    assert_eq!(verdict, HolderVerdict::Live { until: at(106).held.after(Duration::from_millis(2)) });
}

#[test]
fn c1_a_store_s_clock_that_stands_still_just_before_the_end_is_not_asked_all_the_time() {
    let (mut detector, seen) = (FailureDetector::default(), stored(1, at(88).wall.0, Some(10)));
    let soon = at(100).held.after(STAMPED);
    let verdict = judge(&mut detector, at(100), &seen, &Rules::default());
    assert_eq!(verdict, HolderVerdict::Live { until: soon });
    // Our own clock goes on.
    let then = Now { held: soon, waited: soon, ..at(100) };
    assert_eq!(judge(&mut detector, then, &seen, &Rules::default()), HolderVerdict::Suspected);
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
    let until = HolderVerdict::Live { until: at(107).held.after(STAMPED) };
    assert_eq!(judge(&mut detector, at(100), &stored(1, stamp, Some(3)), &rules), until);
    assert_eq!(judge(&mut detector, at(106), &letter(1, stamp, 0), &rules), until);
    assert_eq!(judge(&mut detector, at(108), &letter(1, stamp, 2), &rules), HolderVerdict::Suspected);
    // The next heartbeat begins anew, by what both witnesses say of that.
    let until = HolderVerdict::Live { until: at(118).held.after(STAMPED) };
    assert_eq!(judge(&mut detector, at(109), &stored(3, at(108).wall.0, Some(4)), &rules), until);
}

#[test]
fn l1_a_process_that_is_younger_than_a_silence_counts_all_of_it() {
    let (mut detector, rules) = (FailureDetector::default(), Rules::default());
    let stamp = at(0).wall.0 - 6000;
    let until = HolderVerdict::Live { until: at(4).held.after(STAMPED) };
    assert_eq!(judge(&mut detector, at(0), &stored(1, stamp, Some(6)), &rules), until);
    assert_eq!(judge(&mut detector, at(3), &letter(1, stamp, 0), &rules), until);
    assert_eq!(judge(&mut detector, at(5), &letter(1, stamp, 2), &rules), HolderVerdict::Suspected);
    // Likewise one that was heard of, and stands for longer by both witnesses than this process does.
    detector.heard(at(6), &Key::new("k").unwrap(), Version(3), &rules);
    let seen = stored(3, at(0).wall.0 - 1000, Some(8));
    let until = HolderVerdict::Live { until: at(9).held.after(STAMPED) };
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
        verdicts =
            keys.iter().map(|key| detector.judge(at(secs), key, &seen, &tenure, &rules)).collect::<Vec<_>>();
    }
    let silent = verdicts.iter().filter(|verdict| **verdict == HolderVerdict::Suspected).count();
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
    let (mut detector, rules, ttl) = (FailureDetector::default(), Rules::default(), Ttl::new(TTL).unwrap());
    let attachment = |fence| Attachment { session: Key::new("session/a").unwrap(), fence: Fence(fence) };
    assert_eq!(detector.known_missing(at(0), &attachment(7), ttl, &rules), None, "nothing was read yet");
    let live = |secs| HolderVerdict::Live { until: at(secs).held };
    assert_eq!(detector.judge_missing(at(0), &attachment(7), ttl, &rules), live(10));
    assert_eq!(detector.judge_missing(at(6), &attachment(9), ttl, &rules), live(16), "a later tenure of it");
    assert_eq!(detector.known_missing(at(9), &attachment(7), ttl, &rules), Some(live(10)));
    assert_eq!(detector.judge_missing(at(10), &attachment(7), ttl, &rules), HolderVerdict::Suspected);
    assert_eq!(detector.judge_missing(at(10), &attachment(9), ttl, &rules), live(16));
    detector.session_is_there(&attachment(9));
    assert_eq!(
        detector.judge_missing(at(20), &attachment(9), ttl, &rules),
        live(30),
        "it was there meanwhile"
    );
    assert_eq!(detector.known_missing(at(20), &attachment(7), ttl, &rules), Some(HolderVerdict::Suspected));
}

#[test]
fn a_missing_sessions_silence_is_what_a_waiter_counts() {
    let (mut detector, rules, ttl) = (FailureDetector::default(), Rules::default(), Ttl::new(TTL).unwrap());
    let attachment = Attachment { session: Key::new("session/a").unwrap(), fence: Fence(7) };
    detector.judge_missing(at(0), &attachment, ttl, &rules);
    let woken = Now { held: at(3600).held, ..at(1) };
    let live = HolderVerdict::Live { until: at(3609).held };
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
    let (mut detector, rules, key) = (FailureDetector::default(), Rules::default(), Key::new("k").unwrap());
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

#[test]
fn who_will_be_known_to_be_silent_at_first_sight_is_known_while_it_renews() {
    let (now, within) = (at(100), Duration::from_secs(1));
    for (stamped, age, is) in [
        (98_000, Some(2), true),
        (99_000, Some(2), true),
        (90_000, Some(2), true),
        (99_001, Some(2), false),
        // It was written just now, by a clock that is ahead.
        (101_000, Some(0), true),
        (101_001, Some(0), false),
        (98_000, None, false),
    ] {
        let stored = stored(1, 1_000_000 + stamped, age);
        for first_sight in [true, false] {
            let rules = Rules { first_sight, ..Rules::default() };
            assert_eq!(is_attested(now, &stored, within, &rules), is && first_sight, "{stamped} {age:?}");
        }
    }
}
