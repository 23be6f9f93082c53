//! Opening, and what is refused: each error names the place and the remedy, comes soon, and repeats no password.
//!
//! Plan: a namespace has one id, whoever opens it first; others' keys and a newer layout are left alone; wrong user, password,
//! database, authority, name in the certificate; no server, one that never answers, one that isn't Redis; a replica, also beside its
//! primary; several primaries; servers that evict, also while they do; a full one; a user with the documented rights, and with fewer; namespaces beside
//! each other; a password file that hangs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{Server, at, authority, cli, cluster_url, tls_url, unique, url};
use std::error::Error;
use std::time::Duration;
use tenure_core::op::Hint;
use tenure_core::{Clock, ErrorKind, Fence, Key, StoreError};
use tenure_redis::{RedisConfig, RedisStore, acl};
use tenure_store::{Outcome, Store, StoreExt};
use tenure_testkit::{RealClock, RecordFactory};

/// The promise is 5 seconds; the machine may be busy.
const SOON: Duration = Duration::from_secs(15);

async fn refusal(config: RedisConfig) -> StoreError {
    let opening = tokio::time::timeout(SOON, RedisStore::open(config));
    opening.await.expect("it takes too long").map(drop).unwrap_err()
}

fn says(error: &StoreError, kind: ErrorKind, words: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(words.iter().all(|word| text.contains(word)) && !text.contains("hush"), "{text}");
    for cause in std::iter::successors(error.source(), |cause| (*cause).source()) {
        assert!(!format!("{cause} {cause:?}").contains("hush"), "{cause} {cause:?}");
    }
}

#[tokio::test]
async fn a_namespace_has_one_id_whoever_opens_it_first() {
    let name = unique("opening");
    let config = || at(&url(), &name);
    says(&refusal(config().create(false)).await, ErrorKind::Invalid, &["never used", &name]);
    let (one, other) = tokio::join!(RedisStore::open(config()), RedisStore::open(config()));
    let again = RedisStore::open(config().create(false)).await.unwrap();
    assert_eq!((one.unwrap().id(), other.unwrap().id()), (again.id(), again.id()));
    assert_ne!(again.id(), RedisStore::open(at(&url(), &unique("opening"))).await.unwrap().id());
    let elsewhere = RedisStore::open(at(&format!("{}/1", url()), &name)).await.unwrap();
    assert_ne!(again.id(), elsewhere.id(), "another database");
}

#[tokio::test]
async fn keys_of_others_and_a_newer_layout_are_left_alone() {
    let (text, hash, newer) = (unique("others"), unique("others"), unique("others"));
    let meta = |name: &str| format!("tenure:{{{name}}}:meta");
    cli(&url(), &["SET", &meta(&text), "theirs"]);
    cli(&url(), &["HSET", &meta(&hash), "their", "field"]);
    cli(&url(), &["HSET", &meta(&newer), "id", "x", "layout", "999"]);
    for name in [&text, &hash] {
        says(&refusal(at(&url(), name)).await, ErrorKind::Foreign, &["another program", "namespace="]);
    }
    says(&refusal(at(&url(), &newer)).await, ErrorKind::Foreign, &["999", "upgrade"]);
    // The same for what is found later.
    let name = unique("others");
    let store = RedisStore::open(at(&url(), &name)).await.unwrap();
    cli(&url(), &["SET", &format!("tenure:{{{name}}}:index"), "theirs"]);
    let (key, factory) = (Key::new("a").unwrap(), RecordFactory::new());
    let error = store.write(factory.if_vacant(&key, factory.held(5))).await.unwrap_err();
    says(&error, ErrorKind::Foreign, &["another program"]);
    assert_eq!(store.read(&key).await.unwrap(), None, "it was refused, and half of it was done");
}

#[tokio::test]
async fn what_is_wrong_with_the_url_is_said() {
    let server = Server::start("--requirepass right --databases 2");
    let to = |login: &str, rest: &str| {
        RedisConfig::from_url(&format!("redis://{login}127.0.0.1:{}{rest}", server.port)).unwrap()
    };
    assert!(RedisStore::open(to(":right@", "/1")).await.is_ok());
    says(&refusal(to("", "")).await, ErrorKind::Invalid, &["wants a password"]);
    for login in [":hush@", "app:hush@", "default:hush@"] {
        says(&refusal(to(login, "")).await, ErrorKind::Invalid, &["password is wrong", "ACL"]);
    }
    says(&refusal(to(":right@", "/7")).await, ErrorKind::Invalid, &["name a database"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "right\nmore\n").unwrap();
    let by_file = to("default@", &format!("?password-file={}", file.path().display()));
    assert!(RedisStore::open(by_file).await.is_ok());
    let port = tenure_ports::unused_port().unwrap();
    let nobody = RedisConfig::from_url(&format!("redis://u:hush@127.0.0.1:{port}")).unwrap();
    let error = refusal(nobody).await;
    says(&error, ErrorKind::Unavailable, &["is a Redis server listening there"]);
    assert!(error.source().is_some_and(|cause| cause.is::<redis::RedisError>()), "{error:?}");
    let elsewhere = RedisConfig::from_url("redis://u:hush@db.example").unwrap();
    says(&refusal(elsewhere).await, ErrorKind::Invalid, &["plain text", "rediss://", "plain=accept"]);
    says(
        &refusal(at(&cluster_url().replacen(',', "/1,", 0), "x").namespace("UP")).await,
        ErrorKind::Invalid,
        &["lower-case"],
    );
}

/// The server's certificate is for `localhost`, signed by the authority whose file the tests are told.
#[tokio::test]
async fn a_certificate_is_verified() {
    let name = unique("tls");
    let known = |url: &str| at(&format!("{url}?ca={}", authority()), &name);
    let store = RedisStore::open(known(&tls_url())).await.unwrap();
    assert_eq!(store.read(&Key::new("a").unwrap()).await.unwrap(), None);
    says(&refusal(at(&tls_url(), &name)).await, ErrorKind::Unavailable, &["invalid peer certificate"]);
    let by_number = tls_url().replace("localhost", "127.0.0.1");
    says(
        &refusal(known(&by_number)).await,
        ErrorKind::Unavailable,
        &["invalid peer certificate", "127.0.0.1"],
    );
    let missing = at(&format!("{}?ca=/nowhere/ca.pem", tls_url()), &name);
    says(&refusal(missing).await, ErrorKind::Invalid, &["/nowhere/ca.pem"]);
    // One speaks TLS and the other does not.
    let plain = at(&tls_url().replace("rediss", "redis"), &name);
    says(&refusal(plain).await, ErrorKind::Unavailable, &["redis:// or rediss://"]);
    let port = url().rsplit_once(':').unwrap().1.to_owned();
    let encrypted = known(&format!("rediss://localhost:{port}"));
    says(&refusal(encrypted.clone()).await, ErrorKind::Unavailable, &["localhost"]);
}

/// One that takes connections and never says a word is waited for no longer than the timeout; one that says something else is told
/// apart.
#[tokio::test]
async fn what_is_no_redis_is_given_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let config = RedisConfig::from_url(&format!("redis://u:hush@127.0.0.1:{port}?timeout-ms=200")).unwrap();
    says(&refusal(config).await, ErrorKind::Unavailable, &["127.0.0.1", "no answer in time"]);
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in other.incoming().flatten() {
            let _ = std::io::Write::write_all(&mut client, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let config = RedisConfig::from_url(&format!("redis://u:hush@127.0.0.1:{port}")).unwrap();
    says(&refusal(config).await, ErrorKind::Unavailable, &["is a Redis server listening there"]);
}

#[tokio::test]
async fn a_replica_is_refused_and_beside_its_primary_passed_over() {
    let primary = Server::start("");
    let replica = Server::start(&format!("--replicaof 127.0.0.1 {}", primary.port));
    let name = unique("replica");
    says(
        &refusal(at(&replica.url(), &name)).await,
        ErrorKind::Unavailable,
        &["read-only replica", "primary"],
    );
    let both = format!("{},127.0.0.1:{}", replica.url(), primary.port);
    let store = RedisStore::open(at(&both, &name)).await.unwrap();
    let (key, factory) = (Key::new("a").unwrap(), RecordFactory::new());
    assert!(matches!(store.write(factory.if_vacant(&key, factory.held(5))).await, Ok(Outcome::Won { .. })));
    // They change places: the next call says so, and the one after it finds the new primary.
    crate::support::until("the replica has all", || {
        replica.cli(&["EXISTS", &format!("tenure:{{{name}}}:records")]) == "1"
    })
    .await;
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    primary.cli(&["REPLICAOF", "127.0.0.1", &replica.port.to_string()]);
    let error = store.write(factory.if_vacant(&Key::new("b").unwrap(), factory.held(5))).await.unwrap_err();
    says(&error, ErrorKind::Unavailable, &["read-only replica"]);
    let written = store.write(factory.if_vacant(&Key::new("b").unwrap(), factory.held(5))).await;
    assert!(matches!(written, Ok(Outcome::Won { .. })), "{written:?}");
    assert_eq!(store.list_all("").await.unwrap().len(), 2);
}

/// Whoever opens them may get either.
#[tokio::test]
async fn several_primaries_are_told_as_a_hazard() {
    let (one, other) = (Server::start(""), Server::start(""));
    let hazards = async |url: String| {
        let store = RedisStore::open(at(&url, "jobs").push(false)).await.unwrap();
        let found = store.inspect().await;
        found
            .hazards()
            .filter(|hazard| hazard.contains("are primaries"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let both = hazards(format!("{},127.0.0.1:{}", one.url(), other.port)).await;
    assert_eq!(both.len(), 1, "{both:?}");
    assert!([&one, &other].iter().all(|server| both[0].contains(&server.port.to_string())), "{both:?}");
    assert_eq!(hazards(one.url()).await, Vec::<String>::new());
    assert_eq!(hazards(format!("{},localhost:{}", one.url(), one.port)).await, Vec::<String>::new());
    other.cli(&["REPLICAOF", "127.0.0.1", &one.port.to_string()]);
    assert_eq!(hazards(format!("{},127.0.0.1:{}", one.url(), other.port)).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_could_drop_leases_is_refused_unless_told_otherwise() {
    let server = Server::start("--maxmemory 100mb --maxmemory-policy allkeys-lru");
    let config = || at(&server.url(), "jobs");
    says(&refusal(config()).await, ErrorKind::Invalid, &["allkeys-lru", "noeviction", "eviction=accept"]);
    assert!(RedisStore::open(config().accept_eviction(true)).await.is_ok());
    // It evicts only what has an expiry, which nothing of ours has.
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    let store = RedisStore::open(config()).await.unwrap();
    let (key, factory) = (Key::new("a").unwrap(), RecordFactory::new());
    store.write(factory.if_vacant(&key, factory.held(5))).await.unwrap();
    for name in ["records", "index", "meta"] {
        assert_eq!(server.cli(&["TTL", &format!("tenure:{{jobs}}:{name}")]), "-1", "{name}");
    }
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(RedisStore::open(config()).await.is_ok(), "there is no limit that could be reached");
    server.cli(&["CONFIG", "SET", "maxmemory", "100mb"]);
    // Where INFO is forbidden, CONFIG GET tells; where both are, nothing does.
    let user = |name: &str, rights: &str| {
        let words = acl(name, "jobs").replace("+info", rights);
        let words: Vec<&str> = words.split_whitespace().chain([">hush"]).collect();
        server.cli(&words);
        let url = format!("redis://{name}:hush@127.0.0.1:{}", server.port);
        RedisConfig::from_url(&url).unwrap().namespace("jobs")
    };
    says(&refusal(user("a", "+config|get")).await, ErrorKind::Invalid, &["allkeys-random"]);
    says(
        &refusal(user("b", "")).await,
        ErrorKind::Invalid,
        &["can't be checked", "+info", "eviction=accept"],
    );
    assert!(RedisStore::open(user("c", "").accept_eviction(true)).await.is_ok());
}

#[tokio::test]
async fn a_full_server_takes_no_writes_and_says_why() {
    let server = Server::start("--maxmemory 3mb --maxmemory-policy noeviction");
    let store = RedisStore::open(at(&server.url(), "jobs")).await.unwrap();
    let (key, factory) = (Key::new("a").unwrap(), RecordFactory::new());
    let Outcome::Won { version, .. } = store.write(factory.if_vacant(&key, factory.held(5))).await.unwrap()
    else {
        panic!("nothing stood there")
    };
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let renewal = || factory.unchanged(&key, version, factory.held(5));
    let error = store.write(renewal()).await.unwrap_err();
    says(&error, ErrorKind::Unavailable, &["memory is full", "raise maxmemory"]);
    let error = store.write(factory.if_vacant(&Key::new("b").unwrap(), factory.held(5))).await.unwrap_err();
    says(&error, ErrorKind::Unavailable, &["memory is full"]);
    assert_eq!(store.read(&key).await.unwrap().unwrap().version, version);
    assert_eq!(store.list_all("").await.unwrap().len(), 1);
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(matches!(store.write(renewal()).await.unwrap(), Outcome::Won { .. }));
}

#[tokio::test]
async fn a_user_with_too_few_rights_is_told_where_they_are_written() {
    let server = Server::start("");
    let login = |name: &str, namespace: &str| {
        let url = format!("redis://{name}:hush@127.0.0.1:{}", server.port);
        RedisConfig::from_url(&url).unwrap().namespace(namespace)
    };
    let grant = |words: &str| server.cli(&words.split_whitespace().collect::<Vec<_>>());
    grant("ACL SETUSER none on >hush");
    says(&refusal(login("none", "jobs")).await, ErrorKind::Invalid, &["tenure_redis::acl"]);
    // What the documentation grants, and no more.
    grant(&format!("{} >hush", acl("app", "jobs")));
    says(&refusal(login("app", "others")).await, ErrorKind::Invalid, &["tenure_redis::acl"]);
    let (store, factory) = (RedisStore::open(login("app", "jobs")).await.unwrap(), RecordFactory::new());
    let mut changes = store.changed("").unwrap();
    crate::support::subscribed(&mut changes).await;
    let key = Key::new("a").unwrap();
    let Outcome::Won { version, .. } = store.write(factory.if_vacant(&key, factory.vacant(5))).await.unwrap()
    else {
        panic!("nothing stood there")
    };
    assert_eq!(crate::support::next(&mut changes).await, Hint::Written(key.clone(), version));
    let Outcome::Won { version, .. } =
        store.write(factory.unchanged(&key, version, factory.held(6))).await.unwrap()
    else {
        panic!("nobody else wrote")
    };
    assert!(store.read(&key).await.unwrap().is_some());
    grant("DEL tenure:{jobs}:index");
    assert_eq!(store.list("", None, 10).await.unwrap().len(), 1, "a lost index is made again");
    // Only the user that collects garbage may remove.
    says(
        &store.remove(&key, version).await.unwrap_err(),
        ErrorKind::Invalid,
        &["tenure_redis::acl", "+hdel"],
    );
    grant("ACL SETUSER app +hdel +zrem");
    assert!(store.remove(&key, version).await.unwrap());
    // What it is not told is said, and by which right it would be.
    let says_of_sentinels = async || {
        let facts = store.inspect().await.facts;
        facts
            .iter()
            .filter(|fact| fact.text.contains("Sentinels"))
            .map(|fact| fact.text.clone())
            .collect::<Vec<_>>()
    };
    let told = says_of_sentinels().await;
    assert!(told.len() == 1 && told[0].contains("+pubsub|numsub"), "{told:?}");
    grant("ACL SETUSER app +pubsub|numsub");
    assert_eq!(says_of_sentinels().await, Vec::<String>::new(), "nobody watches it");
    // Without the right to subscribe, waiters would be slow and nobody would know why.
    grant("ACL SETUSER app -subscribe");
    says(&refusal(login("app", "jobs")).await, ErrorKind::Invalid, &["subscribe"]);
    assert!(RedisStore::open(login("app", "jobs").push(false)).await.is_ok());
    grant("ACL SETUSER app -publish");
    let unheard = store.write(factory.if_vacant(&Key::new("b").unwrap(), factory.vacant(5))).await;
    assert!(
        matches!(unheard, Ok(Outcome::Won { .. })),
        "a hint that can't be sent is missing, no more: {unheard:?}"
    );
    grant("DEL tenure:{jobs}:records");
    grant("ACL SETUSER app -hset");
    let error = store.write(factory.if_vacant(&key, factory.held(9))).await.unwrap_err();
    // It was there before.
    says(&error, ErrorKind::Unavailable, &["tenure_redis::acl"]);
    assert_eq!(store.list("", None, 10).await.unwrap(), [], "an index without a record shows nothing");
}

/// The name of one namespace begins with the other's; the third is in another database.
#[tokio::test]
async fn namespaces_do_not_mix() {
    let name = unique("mix");
    let places = [at(&url(), &name), at(&url(), &format!("{name}.b")), at(&format!("{}/1", url()), &name)];
    let (key, factory) = (Key::new("k").unwrap(), RecordFactory::new());
    let mut stores = Vec::new();
    for place in places {
        stores.push(RedisStore::open(place).await.unwrap());
    }
    let mut changes = stores[0].changed("").unwrap();
    crate::support::subscribed(&mut changes).await;
    let mut versions = Vec::new();
    for (store, fence) in stores.iter().zip(1..) {
        match store.write(factory.absent(&key, factory.vacant(fence))).await.unwrap() {
            Outcome::Won { version, .. } => versions.push(version),
            Outcome::Lost(standing) => panic!("it stood there already: {standing:?}"),
        }
    }
    for (store, fence) in stores.iter().zip(1..) {
        assert_eq!(store.read(&key).await.unwrap().unwrap().record.fence.0, fence);
        assert_eq!(store.list_all("").await.unwrap().len(), 1);
    }
    // What is told of the others is not told here.
    let last = factory.vacant(9);
    stores[0].write(factory.unchanged(&key, versions[0], last.clone())).await.unwrap();
    for version in [versions[0], last.version()] {
        assert_eq!(crate::support::next(&mut changes).await, Hint::Written(key.clone(), version));
    }
}

/// The server drops the whole namespace. Whoever held the key is refused, and the next fence is higher than all that were granted.
#[tokio::test]
async fn what_is_evicted_takes_no_fence_back() {
    let server = Server::start("--maxmemory-policy allkeys-random");
    let store = RedisStore::open(at(&server.url(), "jobs").accept_eviction(true)).await.unwrap();
    let (key, factory, clock) = (Key::new("k").unwrap(), RecordFactory::new(), RealClock::new());
    let floor = || Fence::floor(clock.now().wall).0;
    let won = async |write| match store.write(write).await.unwrap() {
        Outcome::Won { version, fence } => (version, fence),
        Outcome::Lost(standing) => panic!("lost to {standing:?}"),
    };
    let mut highest = Fence(0);
    for round in 0..3 {
        // A fence of its own for each of some holders, so that it is ahead of where the first began.
        let (mut version, mut fence) = won(factory.if_vacant(&key, factory.held(floor()))).await;
        assert!(fence > highest, "round {round}: {fence} after {highest}");
        for _ in 0..5 {
            won(factory.unchanged(&key, version, factory.vacant(fence.0))).await;
            (version, fence) = won(factory.if_vacant(&key, factory.held(floor()))).await;
        }
        highest = fence;
        // What another program writes takes the memory, until the server drops what is ours.
        let limit = server.cli(&["INFO", "memory"]);
        let used =
            limit.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap().trim().to_owned();
        server.cli(&["CONFIG", "SET", "maxmemory", &(used.parse::<u64>().unwrap() + 200_000).to_string()]);
        let filler = "x".repeat(20_000);
        let records = "tenure:{jobs}:records";
        let mut written = 0;
        while server.cli(&["EXISTS", records]) == "1" {
            server.cli(&["SET", &format!("filler{written}"), &filler]);
            written += 1;
            assert!(written < 2000, "it is never dropped");
        }
        assert_ne!(
            server.cli(&["INFO", "stats"]).lines().find(|line| line.starts_with("evicted_keys")),
            Some("evicted_keys:0")
        );
        server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
        assert_eq!(store.read(&key).await.unwrap(), None, "it is lost");
        let renewal = store.write(factory.unchanged(&key, version, factory.held(fence.0))).await.unwrap();
        assert!(matches!(renewal, Outcome::Lost(None)), "{renewal:?}");
    }
}

/// As one on a network mount that hangs. On this one thread, nothing else would go on if it were waited for here.
#[tokio::test]
async fn a_password_file_that_hangs_is_given_up_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "hush\n").unwrap();
    let server = Server::start("--requirepass hush");
    let url = format!("redis://default@127.0.0.1:{}?password-file={}", server.port, file.display());
    let config = at(&url, "jobs").timeout(Duration::from_millis(300));
    std::fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    let pipe = file.clone();
    let writer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(20));
        drop(std::fs::File::options().write(true).open(pipe));
    });
    let error = refusal(config).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!writer.is_finished(), "the writer of the pipe was waited for");
}
