//! The audit of what is attached to a session. Plan: after each renewal so many records are looked at, in turn; what a recent state seems
//! to show is looked at in the latest one; each way to lose a record is told with its reason; what is as it should be, can't be read, or
//! couldn't be asked is left alone; a withdrawn lease's end is told; a release that the store refuses is tried again. On a small table: each
//! of ninety has its turn, also as leases come and go and beside many that are no attached leases; what is looked at may be ours no more, or
//! be changed, by the time of the answer; a reading from before the last own write tells nothing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use crate::common::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure_core::op::{Answer, Event, Expect, Freshness, Listed, Machine, Op, OpId, Outcome, Request};
use tenure_core::{
    Ask, Command, Fence, Holder, KeepAlive, Key, LeaseId, Letter, Loss, Metadata, MetadataPolicy, Nonce,
    Notice, Occupant, Record, Rules, StoreError, Value, Version, WaitPolicy, Want,
};

/// A holder that has begun its session (fence 3) and acquired k0, k1, … on it, as leases 0, 1, … with fences 7, 8, …
fn attached(n: u64, audit: usize) -> Holder {
    let mut a = holder_by(Rules { poll: TTL, audit, ..Rules::default() });
    for id in 0..n {
        let (key, metadata_policy) = (key(&format!("k{id}")), MetadataPolicy::Replace(Metadata::new()));
        let want =
            Want { key, keep_alive: KeepAlive::Session, metadata_policy, wait_policy: WaitPolicy::Try };
        a.step(now(0), Event::Command(Command::Acquire(LeaseId(id), want)));
    }
    a.step(now(5), won(1, nonce(1), 3));
    for id in 0..n {
        a.step(now(10), won(2 + id, nonce(2 + u128::from(id)), 7 + id));
    }
    a
}

/// Renews the session for the `nth` time, by operation `op`, and says what is looked at.
fn renewed(a: &mut Holder, nth: u64, op: u64) -> Vec<Request> {
    let ms = nth * 3_334;
    a.step(now(ms), Event::Wake);
    a.step(now(ms + 5), won(op, Nonce(1000 + u128::from(op)), 3)).requests
}

fn looks(op: u64, keys: &[&str], freshness: Freshness) -> Request {
    let keys = keys.iter().map(|name| key(name)).collect();
    let op = (OpId(op), Op::ReadMany(keys, freshness));
    Request { id: op.0, op: op.1, timeout: Duration::from_millis(2500), urgent: false }
}

fn shown(op: u64, records: Vec<(&str, Record)>) -> Event<Command> {
    let listed =
        records.into_iter().map(|(name, record)| Listed { key: key(name), stored: Ok(stored(record)) });
    Event::Answer(OpId(op), Ok(Answer::Listed(listed.collect())))
}

fn own(id: u64) -> Record {
    let claimed = nonce(2 + u128::from(id));
    attached_to(held("a", claimed, claimed, 7 + id, 0, 0), "session/a", 3)
}

#[test]
fn c1_so_many_are_looked_at_after_each_renewal_whatever_their_number() {
    let mut a = attached(5, 2);
    for (nth, keys) in
        [["k0", "k1"].as_slice(), &["k2", "k3"], &["k4"], &["k0", "k1"]].into_iter().enumerate()
    {
        let op = 7 + 2 * nth as u64;
        assert_eq!(renewed(&mut a, nth as u64 + 1, op), [looks(op + 1, keys, Freshness::Recent)]);
        let records = keys.iter().map(|name| (*name, own(name[1..].parse().unwrap()))).collect();
        let step = a.step(now(nth as u64 * 3_334 + 3_350), shown(op + 1, records));
        assert_eq!((step.requests, step.notices), (vec![], vec![]));
    }
    assert_eq!(renewed(&mut attached(3, 0), 1, 5), [], "unless that is switched off");
}

#[test]
fn s10_a_record_that_shows_another_tenure_or_none_is_a_loss_with_its_reason() {
    let other = || held("b", nonce(99), nonce(99), 9, 0, 0);
    let same_name = held("a", nonce(98), nonce(98), 8, 0, 0);
    let cases = [
        (None, Loss::Deleted),
        (Some(vacant(nonce(99), 6, 0)), Loss::Deleted),
        (Some(held("b", nonce(99), nonce(99), 5, 0, 0)), Loss::Deleted),
        (Some(vacant(nonce(99), 7, 0)), Loss::Released),
        (Some(other()), Loss::Taken(Occupant::of(&other()))),
        (Some(same_name.clone()), Loss::Taken(Occupant::of(&same_name))),
        // A claim that was repeated after its end has the same nonce, and a higher fence.
        (
            Some(Record { fence: Fence(8), ..own(0) }),
            Loss::Taken(Occupant::of(&Record { fence: Fence(8), ..own(0) })),
        ),
    ];
    for (record, loss) in cases {
        let mut a = attached(1, 8);
        let records = || record.clone().map(|record| ("k0", record)).into_iter().collect::<Vec<_>>();
        assert_eq!(renewed(&mut a, 1, 3), [looks(4, &["k0"], Freshness::Recent)]);
        let doubted = a.step(now(3_345), shown(4, records()));
        assert_eq!((doubted.requests, doubted.notices), (vec![looks(5, &["k0"], Freshness::Latest)], vec![]));
        let told = a.step(now(3_350), shown(5, records()));
        assert_eq!(told.notices, [Notice::Lost(LeaseId(0), loss)], "{record:?}");
        assert_eq!(a.leases(), 0);
    }
}

#[test]
fn what_is_as_it_should_be_in_the_latest_state_is_kept_and_trouble_is_no_look() {
    let mut a = attached(1, 8);
    renewed(&mut a, 1, 3);
    a.step(now(3_345), shown(4, vec![]));
    let failed = a.step(now(3_350), Event::Answer(OpId(5), Err(StoreError::unavailable("away"))));
    assert_eq!((failed.requests, failed.notices), (vec![], vec![]));
    assert_eq!(renewed(&mut a, 2, 6), [looks(7, &["k0"], Freshness::Latest)], "it is still in doubt");
    let step = a.step(now(6_690), shown(7, vec![("k0", own(0))]));
    assert_eq!((step.requests, step.notices, a.leases()), (vec![], vec![], 1));
    let examined = a.step(now(6_700), Event::Command(Command::Examine(LeaseId(0))));
    assert_eq!(examined.requests, [looks(8, &["k0"], Freshness::Latest)]);
    let unread = Listed { key: key("k0"), stored: Err(StoreError::foreign("damaged")) };
    let step = a.step(now(6_710), Event::Answer(OpId(8), Ok(Answer::Listed(vec![unread]))));
    assert_eq!((step.notices, a.leases()), (vec![], 1), "what can't be read can't be had by anyone else");
}

#[test]
fn s10_the_end_of_a_withdrawn_lease_is_told_as_its_session_goes_on() {
    let mut a = attached(2, 0);
    a.step(now(3_334), Event::Wake);
    let mut record = held("a", nonce(1), nonce(1), 3, 0, 0);
    record.nonce = Nonce(90);
    if let Some(tenure) = &mut record.tenure {
        tenure.mail = vec![Letter::new(key("k1"), Ask::Revoke)];
    }
    let told = a.step(now(3_340), lost(4, Some(record))).notices;
    let until = until(0);
    assert_eq!(told, [Notice::Valid(LeaseId(1), until), Notice::Asked(LeaseId(1), Ask::Revoke)]);
}

#[test]
fn a_release_that_the_store_refuses_for_a_moment_is_not_forgotten() {
    let mut a = attached(1, 0);
    let given_up = a.step(now(20), Event::Command(Command::Release(LeaseId(0), None)));
    assert_eq!(given_up.requests.len(), 1);
    let denied = StoreError::unsupported("the signature has expired");
    let told = a.step(now(25), Event::Answer(OpId(3), Err(denied)));
    assert_eq!(told.notices, [Notice::Released(LeaseId(0), false)]);
    let looks_again = a.step(now(26), Event::Wake);
    assert_eq!(looks_again.requests, [read(4, "k0")]);
    let vacates = a.step(now(30), seen(4, Some(own(0))));
    assert!(matches!(&vacates.requests[0].op, Op::Write(write) if write.record.tenure.is_none()));
}

/// A holder and a table that performs its writes at once. Looks are answered by the tests, and so are claims of what is `busy`.
struct Bench {
    a: Holder,
    ms: u64,
    records: BTreeMap<Key, Record>,
    busy: BTreeSet<Key>,
    notices: Vec<Notice>,
}

/// What is looked at.
type Look = (OpId, Vec<String>, Freshness);

impl Bench {
    /// One that has acquired k00, k01, … on its session.
    fn new(n: u64, audit: usize) -> Bench {
        let a = holder_by(Rules { poll: TTL, audit, ..Rules::default() });
        let (records, busy) = (BTreeMap::new(), BTreeSet::new());
        let mut bench = Bench { a, ms: 0, records, busy, notices: Vec::new() };
        (0..n).for_each(|id| bench.acquire(id));
        bench
    }

    fn acquire(&mut self, id: u64) {
        let (key, metadata_policy) = (key(&name(id)), MetadataPolicy::Replace(Metadata::new()));
        let want =
            Want { key, keep_alive: KeepAlive::Session, metadata_policy, wait_policy: WaitPolicy::Try };
        assert_eq!(self.act(Event::Command(Command::Acquire(LeaseId(id), want))), []);
    }

    fn release(&mut self, id: u64) {
        assert_eq!(self.act(Event::Command(Command::Release(LeaseId(id), None))), []);
        assert!(self.records[&key(&name(id))].tenure.is_none());
    }

    /// All that follows from an event but for the looks, which are returned.
    fn act(&mut self, event: Event<Command>) -> Vec<Look> {
        let (mut events, mut looks) = (vec![event], Vec::new());
        while let Some(event) = events.pop() {
            let step = self.a.step(now(self.ms), event);
            self.notices.extend(step.notices);
            for Request { id, op, .. } in step.requests {
                let answer = match op {
                    Op::Write(write) if self.busy.contains(&write.key) => continue,
                    Op::Write(write) => Answer::Write(self.perform(write.key, write.expect, write.record)),
                    Op::Read(key) => Answer::Read(self.records.get(&key).cloned().map(stored)),
                    Op::ReadMany(keys, freshness) => {
                        let keys = keys.iter().map(|key| key.as_str().to_owned()).collect();
                        looks.push((id, keys, freshness));
                        continue;
                    }
                    Op::List { .. } => panic!("nothing is listed"),
                };
                events.push(Event::Answer(id, Ok(answer)));
            }
        }
        looks
    }

    fn perform(&mut self, key: Key, expect: Expect, mut record: Record) -> Outcome {
        let old = self.records.get(&key);
        match (expect, old) {
            (Expect::Unchanged(version), Some(old)) => assert_eq!(version.0, old.nonce.0),
            (_, Some(old)) => record.fence = record.fence.max(Fence(old.fence.0 + 1)),
            (_, None) => {}
        }
        let (version, fence) = (Version(record.nonce.0), record.fence);
        self.records.insert(key, record);
        Outcome::Won { version, fence }
    }

    /// Renews the session, and says what is looked at.
    fn renew(&mut self) -> Vec<Look> {
        self.ms += 3_334;
        self.act(Event::Wake)
    }

    /// Answers a look by what stands in `records`.
    fn show(&mut self, look: &Look, records: &BTreeMap<Key, Record>) -> Vec<Look> {
        let listed = look.1.iter().filter_map(|name| {
            Some(Listed { key: key(name), stored: Ok(stored(records.get(&key(name))?.clone())) })
        });
        self.act(Event::Answer(look.0, Ok(Answer::Listed(listed.collect()))))
    }

    /// Renews the session, and answers what is looked at by the table. Its keys, if all is as it should be.
    fn turn(&mut self) -> Vec<String> {
        let looks = self.renew();
        let Some(look) = looks.first() else { return Vec::new() };
        assert!(looks.len() == 1 && look.2 == Freshness::Recent, "{looks:?}");
        let records = self.records.clone();
        assert_eq!(self.show(look, &records), []);
        look.1.clone()
    }

    /// What was told since the last time, but for the session's own deadlines.
    fn told(&mut self) -> Vec<Notice> {
        let told = std::mem::take(&mut self.notices).into_iter();
        told.filter(|notice| !matches!(notice, Notice::SessionValid(_))).collect()
    }
}

fn name(id: u64) -> String {
    format!("k{id:02}")
}

fn names(ids: impl IntoIterator<Item = u64>) -> Vec<String> {
    ids.into_iter().map(name).collect()
}

#[test]
fn s10_neither_the_tenure_s_id_nor_its_fence_alone_shows_that_it_is_held() {
    let fence = |fence| Record { fence: Fence(fence), ..own(0) };
    let id = |holder| attached_to(held(holder, nonce(98), nonce(98), 7, 0, 0), "session/a", 3);
    let elsewhere = |holder| attached_to(held(holder, nonce(98), nonce(98), 7, 0, 0), "session/b", 3);
    let taken = |record: &Record| Loss::Taken(Occupant::of(record));
    for (record, loss, is_settled) in [
        (fence(8), taken(&fence(8)), true),
        (fence(6), Loss::Deleted, true),
        (id("a"), taken(&id("a")), true),
        (elsewhere("b"), taken(&elsewhere("b")), false),
    ] {
        let mut a = attached(1, 8);
        renewed(&mut a, 1, 3);
        let doubted = a.step(now(3_345), shown(4, vec![("k0", record.clone())]));
        assert_eq!(
            (doubted.requests, doubted.notices),
            (vec![looks(5, &["k0"], Freshness::Latest)], vec![]),
            "{record:?}"
        );
        let told = a.step(now(3_350), shown(5, vec![("k0", record.clone())]));
        assert_eq!((told.requests, told.notices), (vec![], vec![Notice::Lost(LeaseId(0), loss)]));
        // A claim that is attached to this session is freed by nobody else.
        let freed = a.step(now(3_351), Event::Wake).requests;
        assert_eq!(freed, if is_settled { vec![read(6, "k0")] } else { vec![] }, "{record:?}");
    }
}

#[test]
fn c1_each_of_ninety_has_its_turn_in_twelve_renewals_and_then_all_begins_anew() {
    // More than are passed over for one turn, and no multiple of eight.
    let mut bench = Bench::new(90, Rules::AUDIT);
    for _ in 0..2 {
        for first in (0..90).step_by(Rules::AUDIT) {
            assert_eq!(bench.turn(), names(first..90.min(first + 8)));
        }
    }
}

#[test]
fn c1_no_attached_lease_is_passed_over_as_leases_come_and_go_between_renewals() {
    let mut bench = Bench::new(6, 2);
    assert_eq!(bench.turn(), names([0, 1]));
    // Those that were looked at go, and so does the one that was next.
    (0..3).for_each(|id| bench.release(id));
    (6..8).for_each(|id| bench.acquire(id));
    assert_eq!(bench.turn(), names([3, 4]));
    bench.release(3);
    bench.acquire(8);
    for ids in [vec![5, 6], vec![7, 8], vec![4, 5], vec![6, 7]] {
        assert_eq!(bench.turn(), names(ids));
    }
    // All that were left of this round go: the next one begins with the next renewal.
    bench.release(8);
    assert_eq!((bench.turn(), bench.turn()), (names([]), names([4, 5])));
    (4..8).for_each(|id| bench.release(id));
    assert_eq!(bench.turn(), names([]));
    bench.acquire(9);
    assert_eq!(bench.turn(), names([9]));
}

#[test]
fn c1_many_claims_under_way_don_t_keep_attached_leases_from_their_turn() {
    let mut bench = Bench::new(0, 2);
    bench.busy = (0..200).filter(|id| id % 70 != 69).map(|id| key(&name(id))).collect();
    (0..200).for_each(|id| bench.acquire(id));
    for _ in 0..2 {
        let mut seen: Vec<String> = (0..4).flat_map(|_| bench.turn()).collect();
        seen.sort();
        assert_eq!(seen, ["k139", "k69"], "each once");
    }
}

#[test]
fn s10_what_is_ours_no_more_by_the_time_of_the_answer_is_left_alone() {
    for is_doubted in [false, true] {
        let mut bench = Bench::new(3, 2);
        let mut looks = bench.renew();
        if is_doubted {
            looks = bench.show(&looks[0], &BTreeMap::new());
            assert_eq!(looks[0].2, Freshness::Latest);
        }
        assert_eq!(looks[0].1, names([0, 1]));
        bench.told();
        bench.release(0);
        assert_eq!(bench.told(), [Notice::Released(LeaseId(0), true)]);
        // The key may be ours again, by another lease, when an older state of it comes.
        let mut shown = bench.records.clone();
        let metadata_policy = MetadataPolicy::Replace(Metadata::new());
        let want = Want {
            key: key("k00"),
            keep_alive: KeepAlive::Session,
            metadata_policy,
            wait_policy: WaitPolicy::Try,
        };
        bench.act(Event::Command(Command::Acquire(LeaseId(7), want)));
        assert!(matches!(bench.told()[..], [Notice::Acquired { lease: LeaseId(7), .. }]));
        assert_eq!(bench.show(&looks[0], &shown), []);
        assert_eq!((bench.told(), bench.a.leases()), (vec![], 3), "{is_doubted}");
        // Nothing is in doubt: the others have their turn.
        assert_eq!((bench.turn(), bench.turn()), (names([0, 2]), names([1, 2])));

        // Nor is anything told of what is being changed: it meets its record by itself.
        let looks = bench.renew();
        assert_eq!(looks[0].1, names([0]));
        bench.busy.insert(key("k00"));
        bench.act(Event::Command(Command::Update(LeaseId(7), Metadata::new())));
        shown.clear();
        assert_eq!(bench.show(&looks[0], &shown), []);
        assert_eq!((bench.told(), bench.a.leases()), (vec![], 3));
    }
}

#[test]
fn s10_a_reading_from_before_the_last_own_write_tells_nothing() {
    let mut bench = Bench::new(2, 8);
    let claimed = bench.records.clone();
    let fields: Metadata = [("n".to_owned(), Value::from(1))].into();
    bench.act(Event::Command(Command::Update(LeaseId(0), fields)));
    assert_eq!(bench.told().last(), Some(&Notice::Updated(LeaseId(0))));
    // A replica that lags shows the claim as it was before the update: that is ours.
    let looks = bench.renew();
    assert_eq!(bench.show(&looks[0], &claimed), []);
    // One that lags more shows what stood there before the claim, or nothing: the latest state is asked.
    let before = [vacant(nonce(90), 1, 0), held("b", nonce(91), nonce(91), 1, 0, 0)];
    let before = before.map(|record| BTreeMap::from([(key("k00"), record)]));
    for old in before.into_iter().chain([BTreeMap::new()]) {
        let looks = bench.renew();
        let old = old.into_iter().chain([(key("k01"), bench.records[&key("k01")].clone())]).collect();
        let again = bench.show(&looks[0], &old);
        assert_eq!((&again[0].1, again[0].2), (&names([0]), Freshness::Latest));
        // Meanwhile it is changed once more, so that the answer is from before the last own write.
        let records = bench.records.clone();
        bench.act(Event::Command(Command::Update(LeaseId(0), Metadata::new())));
        assert_eq!(bench.told(), [Notice::Updated(LeaseId(0))]);
        assert_eq!(bench.show(&again[0], &records), []);
    }
    // An old reading that was asked for before there was any doubt is no answer to it.
    let looks = bench.renew();
    assert_eq!(bench.act(Event::Command(Command::Examine(LeaseId(0)))), [], "one look at a time");
    let again = bench.show(&looks[0], &BTreeMap::new());
    assert_eq!((&again[0].1, again[0].2), (&names([0, 1]), Freshness::Latest));
    let records = bench.records.clone();
    assert_eq!(bench.show(&again[0], &records), []);
    assert_eq!((bench.told(), bench.a.leases()), (vec![], 2));
    assert_eq!(bench.turn(), names([0, 1]));
}

#[test]
fn s10_doubts_about_what_is_held_no_more_stand_in_nobody_s_way() {
    let mut bench = Bench::new(10, 8);
    assert_eq!(bench.act(Event::Command(Command::Examine(LeaseId(99)))), [], "there is no such lease");
    assert_eq!((bench.turn(), bench.turn()), (names(0..8), names([8, 9])));
    // Eight are in doubt and the latest state can't be read; then they are given up.
    let looks = bench.renew();
    let again = bench.show(&looks[0], &BTreeMap::new());
    assert_eq!(again[0].1, names(0..8));
    bench.act(Event::Command(Command::Examine(LeaseId(9))));
    bench.act(Event::Answer(again[0].0, Err(StoreError::unavailable("away"))));
    (0..8).for_each(|id| bench.release(id));
    bench.told();
    // There was reason to doubt another one as well, and it is lost.
    let looks = bench.renew();
    assert_eq!((&looks[0].1, looks[0].2), (&names([9]), Freshness::Latest));
    bench.show(&looks[0], &BTreeMap::new());
    assert_eq!(bench.told(), [Notice::Lost(LeaseId(9), Loss::Deleted)]);
}
