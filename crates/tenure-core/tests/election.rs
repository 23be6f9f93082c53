//! The machine of elections by itself, step by step. Plan: the whole output of the main path: start, win, resign,
//! stand back, try again; belief ends with the lease and with the session; falling back for errors by time, and its
//! wake-up; bodies hold a resignation up, and one that can't be joined leaves the key to expire; a loss while bodies
//! run; a stop from every state; a failed attempt is made again, ever more seldom where it is refused; observing; late, early and foreign inputs do no harm.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;
use tenure_core::election::{Change, Election, Input, Output, Standing, StepDownCause, Terms};
use tenure_core::{
    Ask, Bugs, Command, Fence, KeepAlive, Key, LeaseId, Loss, Metadata, MetadataPolicy, Notice, Now,
    StoreError, Tick, Ttl, WaitPolicy, Wall, Want,
};

const BELIEF: Duration = Duration::from_nanos(8_181_818_181);

fn now(ms: u64) -> Now {
    Now { held: tick(ms), waited: tick(ms), wall: Wall(ms) }
}

fn tick(ms: u64) -> Tick {
    Tick(ms * 1_000_000)
}

fn until(sent_ms: u64) -> Tick {
    tick(sent_ms).after(BELIEF)
}

/// A candidate and the leases that it was given.
struct Env {
    election: Election,
    leases: u64,
}

impl Env {
    fn new(is_attached: bool) -> Env {
        Env::by(is_attached, None)
    }

    fn by(is_attached: bool, errors: Option<u32>) -> Env {
        let terms = Terms::of(Key::new("k").unwrap(), Ttl::new(Duration::from_secs(10)).unwrap());
        Env { election: Election::new(Terms { is_attached, errors, ..terms }, Bugs::NONE), leases: 0 }
    }

    fn step(&mut self, ms: u64, input: Input<'_>) -> Output {
        let leases = &mut self.leases;
        self.election.step(now(ms), input, &mut || {
            *leases += 1;
            LeaseId(*leases)
        })
    }

    fn told(&mut self, ms: u64, notice: Notice) -> Output {
        self.step(ms, Input::Told(&notice))
    }

    /// One that leads by lease 1, whose claim was sent at 0 ms, with fence 7.
    fn leading() -> Env {
        Env::leading_by(None)
    }

    fn leading_by(errors: Option<u32>) -> Env {
        let mut env = Env::by(false, errors);
        env.step(0, Input::Start);
        env.told(5, acquired(1, until(0)));
        env
    }

    fn leads(&self, ms: u64) -> bool {
        self.election.leadership(now(ms)).is_some()
    }
}

fn acquired(lease: u64, until: Tick) -> Notice {
    Notice::Acquired { lease: LeaseId(lease), fence: Fence(7), until, metadata: Metadata::new() }
}

fn acquisition(lease: u64, is_attached: bool) -> Command {
    let (every, after) = (Duration::from_secs(2), Duration::ZERO);
    let keep_alive = if is_attached {
        KeepAlive::Session
    } else {
        KeepAlive::Own(Ttl::new(Duration::from_secs(10)).unwrap())
    };
    let (key, metadata_policy) = (Key::new("k").unwrap(), MetadataPolicy::Replace(Metadata::new()));
    Command::Acquire(
        LeaseId(lease),
        Want { key, keep_alive, metadata_policy, wait_policy: WaitPolicy::Follow { every, after } },
    )
}

fn watch(lease: u64) -> Command {
    let Command::Acquire(id, want) = acquisition(lease, false) else { unreachable!("an attempt acquires") };
    Command::Acquire(id, Want { wait_policy: WaitPolicy::Watch { every: Duration::from_secs(2) }, ..want })
}

fn release(lease: u64) -> Command {
    Command::Release(LeaseId(lease), None)
}

fn turn(changes: Vec<Change>, commands: Vec<Command>, wake_at: Option<Tick>) -> Output {
    Output { changes, commands, wake_at }
}

fn ended(cause: StepDownCause) -> Vec<Change> {
    vec![Change::StepDown(cause.clone()), Change::Ended(cause), Change::Leader(None)]
}

#[test]
fn the_way_of_a_leader_from_its_attempt_to_the_next() {
    let mut env = Env::new(false);
    assert_eq!(env.step(0, Input::Start), turn(vec![], vec![acquisition(1, false)], None));
    let elected = Change::Elected { lease: LeaseId(1), fence: Fence(7) };
    assert_eq!(env.told(5, acquired(1, until(0))), turn(vec![elected], vec![], None));
    assert_eq!(env.told(2000, Notice::Valid(LeaseId(1), until(1990))).wake_at, None);
    let term = env.election.leadership(now(2000)).unwrap();
    assert_eq!((term.fence, term.valid_for), (Fence(7), until(1990).since(tick(2000))));
    assert_eq!(env.step(3000, Input::Resign), turn(ended(StepDownCause::Resigned), vec![release(1)], None));
    assert!(!env.leads(3000));
    let cooling = env.told(3010, Notice::Released(LeaseId(1), true));
    assert_eq!(cooling, turn(vec![], vec![watch(2)], Some(tick(7010))));
    assert_eq!(env.election.standing(), Standing::StandingBack);
    assert_eq!(env.step(7009, Input::Wake), turn(vec![], vec![], Some(tick(7010))));
    assert_eq!(env.step(7010, Input::Wake), turn(vec![], vec![release(2), acquisition(3, false)], None));
    assert_eq!(env.told(7011, Notice::Released(LeaseId(2), false)), Output::default());
}

#[test]
fn belief_ends_at_the_deadline_whatever_is_told() {
    let env = Env::leading();
    let last = until(0).0 / 1_000_000;
    assert!(env.leads(last) && !env.leads(last + 1));
    let mut attached = Env::new(true);
    assert_eq!(attached.step(0, Input::Start).commands, [acquisition(1, true)]);
    attached.told(5, acquired(1, Tick::NEVER));
    assert!(!attached.leads(5), "nothing is known of the session yet");
    attached.told(6, Notice::SessionValid(until(0)));
    assert!(attached.leads(last) && !attached.leads(last + 1));
    attached.told(7, Notice::SessionValid(Tick(0)));
    assert!(!attached.leads(8), "suspended");
    attached.told(9, Notice::SessionValid(until(8)));
    assert!(attached.leads(last + 5));
}

#[test]
fn it_falls_back_when_so_many_renewals_have_failed_and_not_before() {
    let mut env = Env::leading_by(Some(3));
    assert_eq!(env.step(5999, Input::Wake), turn(vec![], vec![], Some(tick(6000))));
    assert_eq!(env.step(6000, Input::Wake), turn(ended(StepDownCause::Failing), vec![release(1)], None));
}

#[test]
fn nothing_is_given_up_needlessly_that_one_more_renewal_would_keep() {
    let mut idle = Env::leading();
    let last = until(0).0 / 1_000_000;
    assert_eq!(idle.step(last, Input::Wake), Output::default(), "it leads until the deadline");
    assert!(idle.leads(last) && !idle.leads(last + 1));
    // Bodies get an eighth of the ttl to end, and no more.
    let mut busy = Env::leading();
    let from = Tick(until(0).0 - 1_250_000_000);
    assert_eq!(busy.step(10, Input::BodyBegan).wake_at, Some(from));
    assert_eq!(busy.step(from.0 / 1_000_000, Input::Wake).changes, []);
    let down = busy.step(from.0 / 1_000_000 + 1, Input::Wake);
    assert_eq!(down.changes, [Change::StepDown(StepDownCause::Failing)]);
}

#[test]
fn bodies_hold_up_what_gives_the_key_up() {
    let mut env = Env::leading();
    env.step(10, Input::BodyBegan);
    env.step(11, Input::BodyBegan);
    let asked = env.told(20, Notice::Asked(LeaseId(1), Ask::HandOver));
    assert_eq!(asked, turn(vec![Change::StepDown(StepDownCause::Asked)], vec![], None));
    assert!(env.leads(25), "it leads while its bodies end");
    assert_eq!(env.step(30, Input::BodyEnded { joined: true }), Output::default());
    let over = vec![Change::Ended(StepDownCause::Asked), Change::Leader(None)];
    assert_eq!(env.step(40, Input::BodyEnded { joined: true }), turn(over, vec![release(1)], None));
    // One that can't be joined: the key is left to expire, at once.
    let mut env = Env::leading();
    env.step(10, Input::BodyBegan);
    let stuck = env.step(20, Input::BodyEnded { joined: false });
    assert_eq!(stuck, turn(ended(StepDownCause::Stuck), vec![Command::Lapse(LeaseId(1))], None));
}

#[test]
fn a_loss_while_bodies_run_waits_for_them_before_it_tries_again() {
    let mut env = Env::leading();
    env.step(10, Input::BodyBegan);
    let lost = env.told(8182, Notice::Lost(LeaseId(1), Loss::Expired));
    assert_eq!(lost.changes, ended(StepDownCause::Lost(Loss::Expired)));
    assert!(lost.commands.is_empty() && !env.leads(8182));
    assert_eq!(env.step(8200, Input::BodyEnded { joined: false }).commands, [acquisition(2, false)]);
    // What could not be joined belonged to the term that was lost: the next one is given up as usual.
    env.told(8210, acquired(2, until(8205)));
    assert_eq!(env.step(8300, Input::Resign).commands, [release(2)]);
}

#[test]
fn a_stop_ends_it_from_wherever_it_is() {
    let stopped = |env: &mut Env, ms| {
        let turn = env.step(ms, Input::Stop);
        (turn.commands, turn.changes.last() == Some(&Change::Stopped))
    };
    assert_eq!(stopped(&mut Env::new(false), 0), (vec![], true));
    let mut following = Env::new(false);
    following.step(0, Input::Start);
    assert_eq!(stopped(&mut following, 1), (vec![release(1)], true));
    let mut leading = Env::leading();
    assert_eq!(stopped(&mut leading, 10), (vec![release(1)], false));
    assert_eq!(leading.told(20, Notice::Released(LeaseId(1), true)).changes, [Change::Stopped]);
    let mut holder_stopped = Env::leading();
    let over = vec![Change::Ended(StepDownCause::Stopping), Change::Leader(None), Change::Stopped];
    assert_eq!(holder_stopped.told(10, Notice::Stopped).changes, over);
    assert_eq!(holder_stopped.step(20, Input::Start), Output::default(), "for good");
}

#[test]
fn a_failed_attempt_is_made_again_and_an_observer_makes_none() {
    let mut env = Env::new(false);
    env.step(0, Input::Start);
    let error = StoreError::foreign("not ours");
    let failed = env.told(10, Notice::Failed(LeaseId(1), error.clone()));
    assert_eq!(failed, turn(vec![Change::Failing(error)], vec![], Some(tick(2010))));
    assert_eq!(env.step(2010, Input::Wake).commands, [acquisition(2, false)]);
    let mut observer = Env::new(false);
    assert_eq!(observer.step(0, Input::Observe).commands, [watch(1)]);
    assert_eq!(observer.told(5, Notice::Seen(LeaseId(1), None)).changes, [Change::Leader(None)]);
    assert_eq!(observer.step(6, Input::Resign), Output::default());
}

#[test]
fn what_is_not_for_it_does_nothing() {
    let mut env = Env::leading();
    let quiet = Output::default();
    for notice in [
        acquired(9, until(0)),
        Notice::Valid(LeaseId(9), until(3000)),
        Notice::Lost(LeaseId(9), Loss::Deleted),
        Notice::Released(LeaseId(1), true),
        Notice::Seen(LeaseId(1), None),
        Notice::Asked(LeaseId(1), Ask::Confirm),
        Notice::Failed(LeaseId(1), StoreError::unavailable("an update")),
    ] {
        assert_eq!(env.told(100, notice.clone()), quiet, "{notice:?}");
    }
    assert_eq!(env.step(100, Input::Start), quiet);
}

/// One that leads, with a body that runs, and was asked to hand over.
fn retiring() -> Env {
    let mut env = Env::leading();
    env.step(10, Input::BodyBegan);
    env.told(20, Notice::Asked(LeaseId(1), Ask::HandOver));
    env
}

/// One that has resigned and stands back until 7,010 ms, watching by lease 2.
fn standing_back() -> Env {
    let mut env = Env::leading();
    env.step(3000, Input::Resign);
    env.told(3010, Notice::Released(LeaseId(1), true));
    env
}

#[test]
fn it_says_where_it_stands() {
    let mut env = Env::new(false);
    assert_eq!(env.election.standing(), Standing::Following);
    env.step(0, Input::Start);
    assert_eq!(env.election.standing(), Standing::Following);
    assert_eq!(Env::leading().election.standing(), Standing::Leading);
    assert_eq!(retiring().election.standing(), Standing::SteppingDown);
    let mut leaving = Env::leading();
    leaving.step(10, Input::Resign);
    assert_eq!(leaving.election.standing(), Standing::SteppingDown);
    let mut waning = retiring();
    waning.told(30, Notice::Lost(LeaseId(1), Loss::Revoked));
    assert_eq!(waning.election.standing(), Standing::Following);
    assert_eq!(standing_back().election.standing(), Standing::StandingBack);
    let mut observer = Env::new(false);
    observer.step(0, Input::Observe);
    assert_eq!(observer.election.standing(), Standing::Observing);
    observer.step(1, Input::Stop);
    assert_eq!(observer.election.standing(), Standing::Stopped);
    assert_eq!(observer.election.terms().key, Key::new("k").unwrap());
}

#[test]
fn whoever_stands_back_tries_when_told_to_start_and_goes_on_when_told_to_observe() {
    let mut env = standing_back();
    assert_eq!(env.step(4000, Input::Observe), turn(vec![], vec![], Some(tick(7010))));
    assert_eq!(env.step(4001, Input::Start), turn(vec![], vec![release(2), acquisition(3, false)], None));
    // What is told of the watch is told to the users, and of its end nothing.
    let mut env = standing_back();
    let seen = env.told(4000, Notice::Seen(LeaseId(2), None));
    assert_eq!(seen, turn(vec![Change::Leader(None)], vec![], Some(tick(7010))));
}

#[test]
fn a_stop_gives_up_what_it_looks_by_and_waits_for_bodies() {
    let ends = |mut env: Env, ms| env.step(ms, Input::Stop);
    let gone = |lease| turn(vec![Change::Stopped], vec![release(lease)], None);
    assert_eq!(ends(standing_back(), 4000), gone(2));
    let mut observer = Env::new(false);
    observer.step(0, Input::Observe);
    assert_eq!(ends(observer, 1), gone(1));
    let mut pausing = Env::new(false);
    pausing.step(0, Input::Start);
    pausing.told(10, Notice::Absent(LeaseId(1)));
    assert_eq!(ends(pausing, 11), turn(vec![Change::Stopped], vec![], None));
    // A body still runs, under a leadership that is being given up.
    let mut env = retiring();
    assert_eq!(env.step(30, Input::Stop), Output::default());
    assert_eq!(env.step(40, Input::BodyEnded { joined: true }).commands, [release(1)]);
    assert_eq!(env.told(50, Notice::Released(LeaseId(1), true)).changes, [Change::Stopped]);
    // And under one that was lost.
    let mut env = retiring();
    env.told(30, Notice::Lost(LeaseId(1), Loss::Revoked));
    assert_eq!(env.step(31, Input::Stop), Output::default());
    assert_eq!(env.step(40, Input::BodyEnded { joined: true }).changes, [Change::Stopped]);
    // It leads with a body.
    let mut env = Env::leading();
    env.step(10, Input::BodyBegan);
    assert_eq!(env.step(20, Input::Stop).changes, [Change::StepDown(StepDownCause::Stopping)]);
    assert_eq!(env.step(30, Input::BodyEnded { joined: true }).commands, [release(1)]);
}

#[test]
fn a_holder_that_has_stopped_ends_it_wherever_it_is() {
    let ends = |mut env: Env| env.told(5000, Notice::Stopped).changes;
    let over = vec![Change::Ended(StepDownCause::Stopping), Change::Leader(None), Change::Stopped];
    assert_eq!(ends(retiring()), over);
    assert_eq!(ends(standing_back()), [Change::Stopped]);
    let mut leaving = Env::leading();
    leaving.step(10, Input::Resign);
    assert_eq!(ends(leaving), [Change::Stopped], "its end has been told");
    let mut stopped = Env::new(false);
    stopped.step(0, Input::Stop);
    assert_eq!(ends(stopped), [], "told once");
}

#[test]
fn a_leadership_that_is_lost_while_it_is_given_up_is_over() {
    let mut env = retiring();
    let lost = env.told(30, Notice::Lost(LeaseId(1), Loss::Revoked));
    let over = vec![Change::Ended(StepDownCause::Lost(Loss::Revoked)), Change::Leader(None)];
    assert_eq!(lost, turn(over, vec![], None), "that it is to end was told before");
    assert_eq!(env.step(40, Input::BodyEnded { joined: true }).commands, [acquisition(2, false)]);
    let mut env = Env::leading();
    let lost = env.told(30, Notice::Lost(LeaseId(1), Loss::Revoked));
    assert_eq!(lost, turn(ended(StepDownCause::Lost(Loss::Revoked)), vec![acquisition(2, false)], None));
}

#[test]
fn all_bodies_of_a_leadership_that_was_lost_are_waited_for() {
    let mut env = Env::leading();
    env.step(10, Input::BodyBegan);
    env.step(11, Input::BodyBegan);
    env.told(30, Notice::Lost(LeaseId(1), Loss::Revoked));
    assert_eq!(env.step(40, Input::BodyEnded { joined: true }), Output::default());
    assert_eq!(env.step(50, Input::BodyEnded { joined: true }).commands, [acquisition(2, false)]);
}

#[test]
fn while_it_is_given_up_it_is_kept_and_believed_as_before() {
    let mut env = retiring();
    env.told(2000, Notice::Valid(LeaseId(1), until(1990)));
    let last = until(1990).0 / 1_000_000;
    assert!(env.leads(last) && !env.leads(last + 1));
    env.told(2001, Notice::Valid(LeaseId(1), Tick(0)));
    assert!(!env.leads(2002), "suspended");
    let mut leaving = Env::leading();
    leaving.step(10, Input::Resign);
    assert!(!leaving.leads(11));
}

#[test]
fn belief_that_is_suspended_does_not_change_when_it_falls_back() {
    let mut env = Env::leading_by(Some(3));
    assert_eq!(env.told(2000, Notice::Valid(LeaseId(1), Tick(0))).wake_at, Some(tick(6000)));
    let mut attached = Env::by(true, Some(3));
    attached.step(0, Input::Start);
    assert_eq!(attached.told(5, acquired(1, Tick::NEVER)).wake_at, None, "nothing is known yet");
    assert_eq!(attached.told(6, Notice::SessionValid(until(0))).wake_at, Some(tick(6000)));
    assert_eq!(attached.told(7, Notice::SessionValid(Tick(0))).wake_at, Some(tick(6000)));
    assert_eq!(attached.told(9, Notice::SessionValid(until(8))).wake_at, Some(tick(6008)));
}

#[test]
fn a_body_that_outlives_its_term_says_nothing_of_the_next() {
    // It began under a leadership that has been given up since.
    let mut env = Env::leading();
    env.step(10, Input::Resign);
    env.told(20, Notice::Released(LeaseId(1), true));
    env.step(30, Input::BodyEnded { joined: false });
    env.step(4020, Input::Wake);
    env.told(4030, acquired(3, until(4025)));
    assert_eq!(env.election.standing(), Standing::Leading);
    assert_eq!(env.step(4100, Input::Resign).commands, [release(3)]);
}

#[test]
fn whoever_finds_no_key_to_follow_looks_again_later() {
    for notice in [Notice::Held(LeaseId(1), None), Notice::Absent(LeaseId(1))] {
        let mut env = Env::new(false);
        env.step(0, Input::Start);
        assert_eq!(env.told(10, notice), turn(vec![], vec![], Some(tick(2010))));
        assert_eq!(env.step(2009, Input::Wake).commands, []);
        assert_eq!(env.step(2010, Input::Wake).commands, [acquisition(2, false)]);
    }
    let mut env = Env::new(false);
    env.step(0, Input::Start);
    for notice in [Notice::Held(LeaseId(9), None), Notice::Seen(LeaseId(9), None)] {
        assert_eq!(env.told(10, notice), Output::default(), "of another lease");
    }
}

#[test]
fn a_body_that_could_not_be_joined_lets_its_own_leadership_lapse_and_no_later_one() {
    let mut env = Env::leading();
    env.step(10, Input::BodyBegan);
    assert_eq!(env.step(20, Input::BodyEnded { joined: false }).commands, [Command::Lapse(LeaseId(1))]);
    env.told(30, Notice::Released(LeaseId(1), false));
    env.step(4030, Input::Wake);
    env.told(4040, acquired(3, until(4035)));
    assert_eq!(env.step(4100, Input::Resign).commands, [release(3)]);
}

#[test]
fn nobody_steps_down_for_what_another_lease_was_asked_or_came_to() {
    let mut env = Env::leading();
    for notice in [
        Notice::Asked(LeaseId(9), Ask::HandOver),
        Notice::Asked(LeaseId(9), Ask::Revoke),
        Notice::Lost(LeaseId(9), Loss::Expired),
        Notice::Released(LeaseId(9), true),
        Notice::Valid(LeaseId(9), Tick(0)),
    ] {
        let turn = env.told(10, notice.clone());
        assert_eq!((turn.changes, turn.commands), (vec![], vec![]), "{notice:?}");
        assert!(env.leads(11), "{notice:?}");
    }
    // While it is given up, only its own release says that it is done.
    env.step(20, Input::Resign);
    assert_eq!(env.told(30, Notice::Released(LeaseId(9), true)), Output::default());
    assert_eq!(env.told(40, Notice::Released(LeaseId(1), true)).commands, [watch(2)]);
}

/// What is refused may be so for good.
#[test]
fn c1_a_candidate_asks_a_store_that_refuses_ever_more_seldom_and_an_answer_ends_that() {
    let refused = || StoreError::foreign("damaged");
    for (error, most) in [(refused(), 12), (StoreError::unavailable("away"), 600)] {
        let mut env = Env::new(false);
        env.step(0, Input::Start);
        let (mut ms, mut asked, mut last) = (0, 0, 0);
        // A hundred ttls.
        while ms < 1_000_000 {
            env.told(ms, Notice::Seen(LeaseId(env.leases), None));
            let output = env.told(ms, Notice::Failed(LeaseId(env.leases), error.clone()));
            let next = output.wake_at.unwrap().0 / 1_000_000;
            (last, ms, asked) = (next - ms, next, asked + 1);
            assert!(last >= 2_000 && !env.step(ms, Input::Wake).commands.is_empty(), "{last}");
        }
        assert!(asked <= most && last <= 320_000, "{asked} {last}");
        env.told(ms, Notice::Held(LeaseId(env.leases), None));
        env.step(ms + 2_000, Input::Wake);
        let again = env.told(ms + 2_000, Notice::Failed(LeaseId(env.leases), error));
        assert_eq!(again.wake_at, Some(tick(ms + 4_000)));
    }
}
