//! Candidates on less's table in a PostgreSQL database, beside what less's own statements do to it.
//!
//! Plan: one leads, and hands over when it stops; a peer's live row is respected, its dead one taken, also where the host's wall clock says
//! otherwise; a peer's host whose clock is ahead is believed; a renewal of a peer's that comes late extends nobody's belief; a row without a deadline is left alone and told; missing
//! tables and rights are named.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};
use tenure::Clock;
use tenure_less::{Candidate, CandidateOptions, PostgresStorage, Storage};
use tenure_postgres::PostgresConfig;
use tenure_postgres::tokio_postgres::{Client, NoTls};
use tokio::sync::OnceCell;

/// More than any step here takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn url() -> String {
    std::env::var("TENURE_TEST_POSTGRES")
        .expect("TENURE_TEST_POSTGRES is not set; run `cargo xtask services run -- cargo test -p tenure-less --all-features`")
}

/// The table is there from then on, also for who comes before the first candidate.
async fn made() -> PostgresConfig {
    static MADE: OnceCell<()> = OnceCell::const_new();
    let config = PostgresConfig::from_url(&url()).unwrap();
    MADE.get_or_init(|| async { PostgresStorage::migrate(&config).await.unwrap() }).await;
    config
}

async fn storage() -> Arc<dyn Storage> {
    let config = made().await;
    Arc::new(PostgresStorage::open(&config).await.unwrap())
}

async fn peer() -> Client {
    made().await;
    let (client, connection) =
        url().parse::<tenure_postgres::tokio_postgres::Config>().unwrap().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A key that no other test, in whatever process, has.
fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("less-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst))
}

fn options(key: &str) -> CandidateOptions {
    let ms = Duration::from_millis;
    CandidateOptions::new()
        .key(key)
        .ttl(ms(1500))
        .follow_every(ms(50))
        .hold_every(ms(100))
        .skew_margin(ms(50))
}

async fn candidate(key: &str) -> Candidate {
    Candidate::start(storage().await, options(key), tenure::clock::system(), tenure::clock::uuid).unwrap()
}

/// less's `SetNX`, which writes and compares by the clock of its host. That one is right.
async fn set_nx(peer: &Client, key: &str, value: &str, ttl_ms: u64) -> bool {
    set_nx_ahead(peer, key, value, ttl_ms, 0).await
}

/// The same from a host whose clock is so far ahead.
async fn set_nx_ahead(peer: &Client, key: &str, value: &str, ttl_ms: u64, ahead_ms: u64) -> bool {
    let sql = "INSERT INTO less.record(key, value, deadline) VALUES ($1, $2, $3) \
        ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, deadline = EXCLUDED.deadline \
        WHERE less.record.deadline < $4 RETURNING value";
    let now = tenure::clock::system().now().wall.0 + ahead_ms;
    let [now, deadline] = [now, now + ttl_ms].map(|ms| UNIX_EPOCH + Duration::from_millis(ms));
    peer.query_opt(sql, &[&key, &value, &deadline, &now]).await.unwrap().is_some()
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, what).await.unwrap()
}

async fn leader_is(candidate: &Candidate, leader: Option<&str>) {
    let mut changes = candidate.changes();
    within(changes.wait_for(|status| status.leader.as_deref() == leader)).await.unwrap();
}

#[tokio::test]
async fn one_leads_and_hands_over_when_it_stops() {
    let key = unique();
    let first = candidate(&key).await;
    let term = within(first.elected()).await.unwrap();
    let second = candidate(&key).await;
    leader_is(&second, Some(first.id())).await;
    first.stop().await;
    assert!(!term.is_held());
    within(second.elected()).await.unwrap();
    second.stop().await;
    let rows = peer().await.query("SELECT 1 FROM less.record WHERE key = $1", &[&key]).await.unwrap();
    assert!(rows.is_empty(), "what was ours is given back");
}

#[tokio::test]
async fn a_peer_s_row_is_respected_while_it_lives_and_taken_when_it_is_dead() {
    let (key, peer) = (unique(), peer().await);
    assert!(set_nx(&peer, &key, "theirs", 3000).await);
    let candidate = candidate(&key).await;
    leader_is(&candidate, Some("theirs")).await;
    let clock = tenure::clock::system();
    let seen = clock.now();
    within(candidate.elected()).await.unwrap();
    assert!(clock.now().held.since(seen.held) > Duration::from_millis(1400));
    assert!(!set_nx(&peer, &key, "theirs", 3000).await, "to the peer it is alive");
    candidate.stop().await;
    assert!(set_nx(&peer, &key, "theirs", 3000).await, "what was given back is free for the peer, too");
}

#[tokio::test]
async fn a_peer_whose_host_s_clock_is_ahead_takes_the_row_of_a_live_leader_who_hears_of_it() {
    let (key, peer) = (unique(), peer().await);
    let candidate = candidate(&key).await;
    let term = within(candidate.elected()).await.unwrap();
    assert!(!set_nx(&peer, &key, "theirs", 60_000).await, "by a right clock it is alive");
    assert!(set_nx_ahead(&peer, &key, "theirs", 60_000, 12_000).await);
    assert_eq!(within(term.ended()).await, Some(tenure_less::EndCause::Taken));
    candidate.stop().await;
}

#[tokio::test]
async fn a_renewal_of_a_peer_s_that_comes_late_is_no_renewal_of_ours() {
    let (key, peer) = (unique(), peer().await);
    let candidate = candidate(&key).await;
    let term = within(candidate.elected()).await.unwrap();
    // As a stalled peer does, for whose row it is it does not ask: first far ahead, then into the past.
    let renew = "UPDATE less.record SET deadline = clock_timestamp() + $2 * interval '1 s' WHERE key = $1";
    peer.execute(renew, &[&key, &3600.0]).await.unwrap();
    assert!(term.remaining() < Duration::from_millis(1500));
    peer.execute(renew, &[&key, &-3600.0]).await.unwrap();
    // Either its next renewal came first, or the row is past, and the leader steps down before anyone takes it.
    let rival = self::candidate(&key).await;
    let mut changes = rival.changes();
    for _ in 0..40 {
        assert!(!(candidate.is_leader() && rival.is_leader()), "both lead");
        let _told = tokio::time::timeout(Duration::from_millis(50), changes.changed()).await;
    }
}

#[tokio::test]
async fn a_row_without_a_deadline_is_left_alone_and_told() {
    for deadline in ["NULL", "'infinity'", "'-infinity'", "'294276-01-01'", "'10000-01-01'"] {
        let (key, peer) = (unique(), peer().await);
        let insert = format!("INSERT INTO less.record VALUES ($1, 'theirs', {deadline})");
        peer.execute(&insert, &[&key]).await.unwrap();
        let candidate = candidate(&key).await;
        let mut changes = candidate.changes();
        let trouble =
            within(changes.wait_for(|status| status.trouble.is_some())).await.unwrap().trouble.clone();
        let text = trouble.unwrap().to_string();
        assert!(text.contains("no deadline") && text.contains(&key), "{deadline}: {text}");
        candidate.stop().await;
        let row = peer.query_one("SELECT value FROM less.record WHERE key = $1", &[&key]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "theirs");
    }
}

/// A schema that two sessions make at once fails in one of them, even where it is made only if it is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_is_made_once_by_many_at_once() {
    let (peer, database) = (peer().await, unique().replace('-', "_"));
    for round in 0..4 {
        let database = format!("{database}_{round}");
        peer.batch_execute(&format!("CREATE DATABASE {database}")).await.unwrap();
        let mut server = url().parse::<tenure_postgres::tokio_postgres::Config>().unwrap();
        server.dbname(&database);
        let config = PostgresConfig::new(server);
        let mut making = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let config = config.clone();
            making.spawn(async move { PostgresStorage::migrate(&config).await });
        }
        for made in making.join_all().await {
            made.unwrap();
        }
        PostgresStorage::open(&config).await.unwrap();
    }
}

#[tokio::test]
async fn missing_tables_and_rights_are_named() {
    let peer = peer().await;
    storage().await;
    let (role, database) = (unique().replace('-', "_"), unique().replace('-', "_"));
    peer.batch_execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'x'")).await.unwrap();
    peer.batch_execute(&format!("CREATE DATABASE {database}")).await.unwrap();
    let config = |database: Option<&str>, user: Option<&str>| {
        let mut server = url().parse::<tenure_postgres::tokio_postgres::Config>().unwrap();
        if let Some(database) = database {
            server.dbname(database);
        }
        if let Some(user) = user {
            server.user(user).password("x");
        }
        PostgresConfig::new(server)
    };
    let error = PostgresStorage::open(&config(Some(&database), None)).await.unwrap_err().to_string();
    assert!(error.contains("no table less.record"), "{error}");
    let error = PostgresStorage::open(&config(None, Some(&role))).await.unwrap_err().to_string();
    assert!(error.contains("permission denied"), "{error}");
    let grants =
        "GRANT USAGE ON SCHEMA less TO {}; GRANT SELECT, INSERT, UPDATE, DELETE ON less.record TO {}";
    peer.batch_execute(&grants.replace("{}", &role)).await.unwrap();
    let storage = Arc::new(PostgresStorage::open(&config(None, Some(&role))).await.unwrap());
    let candidate =
        Candidate::start(storage, options(&unique()), tenure::clock::system(), tenure::clock::uuid).unwrap();
    within(candidate.elected()).await.unwrap();
    candidate.stop().await;
}
