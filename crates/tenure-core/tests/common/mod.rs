//! A process at a table: steps with whole outputs, and short words for what they consist of.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test file uses its part, and a test may fail"
)]

use std::time::Duration;
use tenure_core::op::{Answer, Event, Expect, Machine, Op, OpId, Outcome, Request, Step, Write};
use tenure_core::{
    Attachment, Command, Fence, Holder, HolderId, Identity, KeepAlive, Key, LeaseId, Metadata,
    MetadataPolicy, Nonce, Notice, Now, Record, Rules, StoreError, Stored, Tenure, Tick, Token, Ttl, Version,
    WaitPolicy, Wall, Want,
};

pub const TTL: Duration = Duration::from_secs(10);
/// How long a holder believes after it sent the write that won: ttl · 0.9 / 1.1, in nanoseconds.
pub const BELIEF: u64 = 8_181_818_181;
/// The wall clock at the beginning, in milliseconds.
pub const WALL: u64 = 1_700_000_000_000;
/// The lease that most tests are about.
pub const LEASE: LeaseId = LeaseId(1);

pub fn ttl() -> Ttl {
    Ttl::new(TTL).unwrap()
}

pub fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// All clocks after so many milliseconds.
pub fn now(ms: u64) -> Now {
    Now { held: tick(ms), waited: tick(ms), wall: Wall(WALL + ms) }
}

pub fn tick(ms: u64) -> Tick {
    Tick(ms * 1_000_000)
}

/// The end of belief in what was sent after so many milliseconds.
pub fn until(sent_ms: u64) -> Tick {
    Tick(sent_ms * 1_000_000 + BELIEF)
}

/// When what was sent then is to be renewed.
pub fn renewal(sent_ms: u64) -> Option<Tick> {
    Some(tick(sent_ms).after(TTL / 3))
}

/// The `n`-th nonce of the process `a`.
pub fn nonce(n: u128) -> Nonce {
    Nonce((0xa << 64) | n)
}

/// The process `a`, with the session key `session/a`.
pub fn holder() -> Holder {
    // The audit has tests of its own.
    holder_by(Rules { poll: TTL, audit: 0, ..Rules::default() })
}

/// The same, by other rules.
pub fn holder_by(rules: Rules) -> Holder {
    let identity = Identity {
        holder: HolderId::new("a").unwrap(),
        session: key("session/a"),
        ttl: ttl(),
        about: Metadata::new(),
        instance: 0xa,
    };
    Holder::new(identity, rules)
}

/// A tenure of the process `z` as plain data.
pub fn token(name: &str) -> Token {
    Token {
        key: key(name),
        fence: Fence(7),
        id: Nonce(40),
        version: Version(41),
        holder: HolderId::new("z").unwrap(),
        ttl: ttl(),
        since: Wall(WALL),
        metadata: Metadata::new(),
    }
}

pub fn acquire(name: &str, keep_alive: KeepAlive, wait_policy: WaitPolicy) -> Event<Command> {
    let want = Want {
        key: key(name),
        keep_alive,
        metadata_policy: MetadataPolicy::Replace(Metadata::new()),
        wait_policy,
    };
    Event::Command(Command::Acquire(LEASE, want))
}

pub fn own() -> KeepAlive {
    KeepAlive::Own(ttl())
}

pub fn won(op: u64, version: Nonce, fence: u64) -> Event<Command> {
    let outcome = Outcome::Won { version: Version(version.0), fence: Fence(fence) };
    Event::Answer(OpId(op), Ok(Answer::Write(outcome)))
}

pub fn lost(op: u64, current: Option<Record>) -> Event<Command> {
    Event::Answer(OpId(op), Ok(Answer::Write(Outcome::Lost(current.map(stored)))))
}

pub fn seen(op: u64, current: Option<Record>) -> Event<Command> {
    Event::Answer(OpId(op), Ok(Answer::Read(current.map(stored))))
}

pub fn unknown(op: u64) -> Event<Command> {
    Event::Answer(OpId(op), Err(StoreError::unknown("cut")))
}

pub fn stored(record: Record) -> Stored {
    let version = Version(record.nonce.0);
    Stored::new(record).versioned(version)
}

/// A record that `holder` holds since `since_ms`, by the write `heartbeat`.
pub fn held(holder: &str, id: Nonce, heartbeat: Nonce, fence: u64, since_ms: u64, stamp_ms: u64) -> Record {
    let tenure =
        Tenure { heartbeat, ..Tenure::new(id, HolderId::new(holder).unwrap(), ttl(), Wall(WALL + since_ms)) };
    Record {
        fence: Fence(fence),
        nonce: heartbeat,
        stamp: Wall(WALL + stamp_ms),
        tenure: Some(tenure),
        metadata: Metadata::new(),
    }
}

/// The same, attached to a session.
pub fn attached_to(record: Record, session: &str, fence: u64) -> Record {
    let attachment = Some(Attachment { session: key(session), fence: Fence(fence) });
    let tenure = record.tenure.map(|tenure| Tenure { attachment, ..tenure });
    Record { tenure, ..record }
}

pub fn vacant(nonce: Nonce, fence: u64, stamp_ms: u64) -> Record {
    let stamp = Wall(WALL + stamp_ms);
    Record { fence: Fence(fence), nonce, stamp, tenure: None, metadata: Metadata::new() }
}

/// What `a` claims with its `n`-th nonce.
pub fn claim(n: u128, fence: u64, ms: u64) -> Record {
    held("a", nonce(n), nonce(n), fence, ms, ms)
}

/// Of `a`. What is asked for its own session goes ahead of the queue, as all that is attached to it waits for that.
pub fn write(op: u64, name: &str, expect: Expect, record: Record) -> Request {
    let write = Write { key: key(name), expect, record };
    let (timeout, urgent) = (Duration::from_millis(2500), name == "session/a");
    Request { id: OpId(op), op: Op::Write(Box::new(write)), timeout, urgent }
}

/// A renewal, which goes ahead of the queue and is given up after a sixth of the ttl.
pub fn renew(op: u64, name: &str, version: Nonce, record: Record) -> Request {
    let timeout = TTL / 6;
    Request { timeout, urgent: true, ..write(op, name, unchanged(version), record) }
}

pub fn read(op: u64, name: &str) -> Request {
    Request { id: OpId(op), op: Op::Read(key(name)), timeout: Duration::from_millis(2500), urgent: false }
}

pub fn unchanged(version: Nonce) -> Expect {
    Expect::Unchanged(Version(version.0))
}

pub fn acquired(lease: LeaseId, fence: u64, until: Tick) -> Notice {
    Notice::Acquired { lease, fence: Fence(fence), until, metadata: Metadata::new() }
}

pub fn step(requests: Vec<Request>, notices: Vec<Notice>, wake_at: Option<Tick>) -> Step<Notice> {
    Step { requests, notices, wake_at }
}

/// The millisecond of the wake-up that was asked for at `ms`, which is later.
pub fn later(step: &Step<Notice>, ms: u64) -> u64 {
    let at = step.wake_at.unwrap().0.div_ceil(1_000_000);
    assert!(at > ms, "a wake-up for the past makes no progress");
    at
}

/// A holder that has acquired `k` for itself at 0 ms with fence 7, by its first operation and nonce.
pub fn holding() -> Holder {
    let mut a = holder();
    a.step(now(0), acquire("k", own(), WaitPolicy::Try));
    a.step(now(5), won(1, nonce(1), 7));
    a
}

/// A holder that has begun its session (fence 3, sent at 0 ms) and acquired `k` on it (fence 7).
pub fn holding_on_session() -> Holder {
    let mut a = holder();
    a.step(now(0), acquire("k", KeepAlive::Session, WaitPolicy::Forever));
    a.step(now(5), won(1, nonce(1), 3));
    a.step(now(10), won(2, nonce(2), 7));
    a
}

/// The lines of a file of golden data.
pub fn vectors(name: &str) -> Vec<serde_json::Value> {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    let lines = std::fs::read_to_string(file).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// How long this thread has had a core: what else the machine does counts for nothing.
pub fn core_time() -> Duration {
    // The system counts up to now when it schedules.
    std::thread::yield_now();
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap())
}
