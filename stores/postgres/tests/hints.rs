//! Who is told of changes, and when nobody is.
//!
//! Plan: a raw connection on the channel, which does not say that it listens, sees what is notified at all. Nothing while nobody listens,
//! also through a pooler; all that is news while anybody does, also after one of two has gone; nothing again after the last; who listens
//! through a pooler leaves no lock behind. A write that was under way before anybody listened, and lands later, is heard of, too. A connection
//! on which nothing passes any more, and one to whoever takes it and says nothing, are made again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::silence::Silencer;
use crate::support::{Locked, admin, config, held, named, unique};
use std::future::poll_fn;
use std::time::Duration;
use tenure_core::Key;
use tenure_core::op::Hint;
use tenure_postgres::tokio_postgres::{AsyncMessage, Client, Config, NoTls};
use tenure_postgres::{PostgresConfig, PostgresStore};
use tenure_store::{Outcome, Store};
use tenure_testkit::{RecordFactory, hinted};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// As long as a busy machine may take.
const LONG: Duration = Duration::from_secs(60);

/// What is notified in a schema.
struct Raw {
    channel: String,
    client: Client,
    payloads: UnboundedReceiver<String>,
}

impl Raw {
    async fn of(schema: &str) -> Raw {
        let server = crate::support::url().parse::<Config>().unwrap();
        let (client, mut connection) = server.connect(NoTls).await.unwrap();
        let (sender, payloads) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    let _gone = sender.send(notification.payload().to_owned());
                }
            }
        });
        let channel = format!("tenure_{schema}");
        client.batch_execute(&format!("LISTEN \"{channel}\"")).await.unwrap();
        Raw { channel, client, payloads }
    }

    /// How many notifications there were since the last call.
    async fn count(&mut self) -> usize {
        self.client.batch_execute(&format!("NOTIFY \"{}\", 'end'", self.channel)).await.unwrap();
        let mut count = 0;
        while tokio::time::timeout(LONG, self.payloads.recv()).await.unwrap().unwrap() != "end" {
            count += 1;
        }
        count
    }
}

/// An acquisition and a release, of which the latter is news.
async fn pair(store: &PostgresStore) {
    let (factory, key) = (RecordFactory::new(), Key::new("k").unwrap());
    let write = factory.if_vacant(&key, factory.held(1));
    let Outcome::Won { version, fence } = store.write(write).await.unwrap() else { panic!("nobody else") };
    let write = factory.unchanged(&key, version, factory.vacant(fence.0));
    assert!(matches!(store.write(write).await.unwrap(), Outcome::Won { .. }));
}

#[tokio::test]
async fn nobody_is_notified_where_nobody_listens() {
    let pooler =
        std::env::var("TENURE_TEST_PGBOUNCER").expect("`cargo xtask services run` says where PgBouncer is");
    for url in [crate::support::url(), pooler] {
        let name = unique("quiet");
        PostgresStore::migrate(&config(&name)).await.unwrap();
        let writer = PostgresConfig::from_url(&url).unwrap().schema(&name);
        let (writer, mut raw) = (PostgresStore::open(writer).await.unwrap(), Raw::of(&name).await);
        let listen = async || PostgresStore::open(named(&name)).await.unwrap();
        let (one, other) = (listen().await, listen().await);
        pair(&writer).await;
        assert_eq!(raw.count().await, 0, "nobody listens: {url}");
        let (mut first, mut second) = (one.changed("").unwrap(), other.changed("").unwrap());
        hinted(&writer, &mut first, "first").await;
        hinted(&writer, &mut second, "second").await;
        raw.count().await;
        pair(&writer).await;
        assert_eq!(raw.count().await, 1, "the release, and not the acquisition");
        let (factory, key) = (RecordFactory::new(), Key::new("k").unwrap());
        let refused = factory.unchanged(&key, factory.held(1).version(), factory.vacant(9));
        assert!(matches!(writer.write(refused).await.unwrap(), Outcome::Lost(Some(_))));
        assert_eq!(raw.count().await, 0, "what was refused is no news");
        drop(first);
        until_listen(&mut raw, &name, 1).await;
        hinted(&writer, &mut second, "third").await;
        drop(second);
        until_listen(&mut raw, &name, 0).await;
        raw.count().await;
        pair(&writer).await;
        assert_eq!(raw.count().await, 0, "nobody listens any more");
    }
}

/// The session that a pooler lends stays when its borrower goes, and so would what it shares.
#[tokio::test]
async fn who_listens_through_a_pooler_leaves_nothing_behind() {
    let name = unique("lent");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let pooler =
        std::env::var("TENURE_TEST_PGBOUNCER").expect("`cargo xtask services run` says where PgBouncer is");
    let lent = PostgresConfig::from_url(&pooler).unwrap().schema(&name);
    let lent = PostgresStore::open(lent).await.unwrap();
    let mut changes = lent.changed("").unwrap();
    let told = tokio::time::timeout(Duration::from_secs(1), changes.recv()).await;
    assert!(told.is_err(), "{told:?}: it can't be heard through a pooler");
    let shared = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' \
                  AND (classid::bigint << 32 | objid::bigint) = hashtextextended($1, 0)";
    let channel = format!("tenure_{name}");
    assert_eq!(admin().await.query_one(shared, &[&channel]).await.unwrap().get::<_, i64>(0), 0);
    // One's own session is heard.
    let own = PostgresStore::open(named(&name)).await.unwrap();
    let mut changes = own.changed("").unwrap();
    hinted(&lent, &mut changes, "k").await;
    assert_eq!(admin().await.query_one(shared, &[&channel]).await.unwrap().get::<_, i64>(0), 1);
}

/// Waits until so many connections say that they listen.
async fn until_listen(raw: &mut Raw, name: &str, count: i64) {
    let sql = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) \
               WHERE l.locktype = 'advisory' AND a.application_name = $1";
    let left = async {
        while raw.client.query_one(sql, &[&name]).await.unwrap().get::<_, i64>(0) != count {
            // Who is told anything sees that nobody wants it.
            raw.count().await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, left).await.expect("whoever was the last to want hints still listens");
}

/// A write looks for listeners once it is done, but what is done in a batch lands with its last.
#[tokio::test]
async fn a_write_that_began_before_anybody_listened_is_heard_of() {
    let name = unique("late");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    // What landed without a word is told of after a fifth of this.
    let open = async || PostgresStore::open(config(&name).timeout(Duration::from_secs(25))).await.unwrap();
    let (writer, listener, factory) = (open().await, open().await, RecordFactory::new());
    let (key, last) = (Key::new("k").unwrap(), Key::new("last").unwrap());
    let version = held(&writer, &factory, &last).await;
    let locked = Locked::records_of(&name).await;
    let batch =
        vec![factory.absent(&key, factory.vacant(5)), factory.unchanged(&last, version, factory.vacant(5))];
    let released = tokio::spawn(async move { writer.write_many(batch).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1";
    let (admin, of) = (admin().await, format!("%{name}.write_unchanged%"));
    while admin.query_one(waits, &[&of]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut changes = listener.changed("k").unwrap();
    // As soon as it listens, all may have changed. Nothing has yet.
    assert_eq!(tokio::time::timeout(LONG, changes.recv()).await.unwrap(), Some(Hint::Any));
    locked.unlock().await;
    let outcomes = released.await.unwrap().unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Won { .. })), "{outcomes:?}");
    assert_eq!(tokio::time::timeout(LONG, changes.recv()).await.expect("no hint of it"), Some(Hint::Any));
}

/// Behind a firewall that has forgotten the connection, and before a balancer with nobody behind it.
#[tokio::test]
async fn a_connection_that_falls_silent_is_made_again() {
    let name = unique("hushed");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let (writer, silencer) = (PostgresStore::open(config(&name)).await.unwrap(), Silencer::start().await);
    let there = format!("postgres://postgres@127.0.0.1:{}/postgres", silencer.port);
    let there = PostgresConfig::from_url(&there).unwrap().schema(&name).timeout(Duration::from_millis(500));
    let listener = PostgresStore::open(there).await.unwrap();
    let mut changes = listener.changed("").unwrap();
    hinted(&writer, &mut changes, "before").await;
    silencer.set_silent(true);
    let before = silencer.connections();
    while tokio::time::timeout(Duration::from_millis(200), changes.recv()).await.is_ok() {}
    let made_again = async {
        while silencer.connections() < before + 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, made_again).await.expect("a silent connection is kept");
    silencer.set_silent(false);
    let told = tokio::time::timeout(LONG, changes.recv()).await.expect("nobody is told to look once more");
    assert_eq!(told, Some(Hint::Any));
    hinted(&writer, &mut changes, "after").await;
}
