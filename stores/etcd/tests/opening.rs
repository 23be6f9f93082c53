//! Opening, and what is refused: each error names the place and the remedy, comes soon, and repeats no password.
//!
//! Plan: no server, one that never answers, one that is not etcd; unknown authority, another name, plain text and TLS mixed up, a client
//! certificate; no user, wrong password, no right, a pass that is not good any more, also for a watch alone, or has expired; a silent
//! member that is asked for one; a password that was changed, and one whose file hangs; a full
//! cluster.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::cluster::{Cluster, LONG};
use crate::support::relay::Relay;
use crate::support::{config, etcdctl, unique};
use std::error::Error;
use std::io::ErrorKind::ConnectionRefused;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::task::Poll;
use std::time::Duration;
use tenure_core::op::Hint;
use tenure_core::{ErrorKind, Key, StoreError};
use tenure_etcd::{EtcdConfig, EtcdStore, Tls};
use tenure_store::{Outcome, Store};
use tenure_testkit::{RecordFactory, hinted};

async fn refusal(config: EtcdConfig) -> StoreError {
    EtcdStore::open(config).await.map(drop).unwrap_err()
}

fn says(error: &StoreError, kind: ErrorKind, words: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(words.iter().all(|word| text.contains(word)) && !text.contains("hush"), "{text}");
    for cause in std::iter::successors(error.source(), |cause| (*cause).source()) {
        assert!(!format!("{cause} {cause:?}").contains("hush"), "{cause} {cause:?}");
    }
}

fn at(url: &str) -> EtcdConfig {
    EtcdConfig::from_url(url).unwrap()
}

#[tokio::test]
async fn a_port_where_nobody_answers_or_nobody_speaks_etcd_is_told_of() {
    let port = tenure_ports::unused_port().unwrap();
    let nobody = refusal(at(&format!("etcd://u:hush@127.0.0.1:{port}/p"))).await;
    says(&nobody, ErrorKind::Unavailable, &["is etcd listening", "refused", &port.to_string()]);
    let mut causes = std::iter::successors(nobody.source(), |cause| (*cause).source());
    let refused = |cause: &(dyn Error + 'static)| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ConnectionRefused)
    };
    assert!(causes.any(refused), "{nobody:?}");

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let error = refusal(at(&format!("etcd://u:hush@127.0.0.1:{port}/p?timeout-ms=300"))).await;
    says(&error, ErrorKind::Unavailable, &["no answer in time", "127.0.0.1"]);

    // A server of another kind, which answers whatever it is sent.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in other.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let error = refusal(at(&format!("etcd://u:hush@127.0.0.1:{port}/p"))).await;
    says(&error, ErrorKind::Unavailable, &["does it speak what the URL says"]);
}

/// The server's certificate is for `localhost`, signed by the tests' own authority.
#[tokio::test]
async fn a_certificate_is_verified_and_one_of_the_client_s_own_is_shown() {
    let cluster = Cluster::secured(true).await;
    let url = |host: &str, more: &str| {
        format!("etcds://{host}:{}/t?ca={}{more}", cluster.port(), cluster.file("ca.crt"))
    };
    let shown = format!("&cert={}&key={}", cluster.file("client.crt"), cluster.file("client.key"));
    let config = at(&url("localhost", &shown));
    let opened = async {
        loop {
            match EtcdStore::open(config.clone()).await {
                Ok(store) => return store,
                // It is starting.
                Err(error) => assert!(error.is_passing(), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let store = tokio::time::timeout(LONG, opened).await.unwrap();
    assert_eq!(store.read(&Key::new("a").unwrap()).await.unwrap(), None);
    assert!(store.changed("").is_ok());
    // It is read but once, so it is told.
    let facts = store.inspect().await.facts;
    let told = facts.iter().find(|fact| fact.about == "certificate").expect("a note on it");
    assert!(told.text.contains("client.crt") && told.text.contains("restart processes"), "{told:?}");

    let other_name = refusal(at(&url("127.0.0.1", &shown))).await;
    says(&other_name, ErrorKind::Unavailable, &["invalid peer certificate", "127.0.0.1"]);
    let authority = Tls::Verified { authorities: None, identity: None };
    let unknown = refusal(at(&url("localhost", "")).tls(authority)).await;
    says(&unknown, ErrorKind::Unavailable, &["invalid peer certificate"]);
    let none_shown = refusal(at(&url("localhost", ""))).await;
    says(&none_shown, ErrorKind::Unavailable, &["does it speak what the URL says"]);
    let plain = refusal(at(&format!("etcd://u:hush@localhost:{}/t", cluster.port()))).await;
    says(&plain, ErrorKind::Unavailable, &["does it speak what the URL says"]);
    let to_plain = refusal(at(&crate::support::url().replace("etcd:", "etcds:"))).await;
    says(&to_plain, ErrorKind::Unavailable, &["does it speak what the URL says"]);
    for (files, word) in
        [("&cert=/nowhere&key=/nowhere", "cert=/nowhere"), ("&ca=/nowhere/ca.pem", "ca=/nowhere/ca.pem")]
    {
        says(&refusal(at(&url("localhost", files))).await, ErrorKind::Invalid, &[word, "PEM"]);
    }
    let swapped = format!("&cert={}&key={}", cluster.file("client.key"), cluster.file("client.crt"));
    says(&refusal(at(&url("localhost", &swapped))).await, ErrorKind::Invalid, &["holds none", "CERTIFICATE"]);
}

/// Lets the user `app` do what the documentation grants, on the prefix `t`, and asks everybody who they are.
fn ask_who(cluster: &Cluster) {
    for line in [
        "user add root:hush-root",
        "user grant-role root root",
        "role add tenure",
        "role grant-permission tenure --prefix=true readwrite t:",
        "user add app:hush-app",
        "user grant-role app tenure",
        "auth enable",
    ] {
        cluster.by_hand(&line.split(' ').collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_cluster_that_asks_who_calls_is_told_and_given_a_new_pass_when_the_old_is_over() {
    let mut cluster = Cluster::start(1).await;
    let url = |user: &str| cluster.url().replace("//", &format!("//{user}@"));
    // One that asks nobody takes a user all the same; from then on it does ask.
    let early = EtcdStore::open(at(&url("app:hush-app"))).await.unwrap();
    ask_who(&cluster);
    assert_eq!(early.read(&Key::new("a").unwrap()).await.unwrap(), None);
    says(&refusal(at(&cluster.url())).await, ErrorKind::Invalid, &["user name is empty", "name a user"]);
    says(
        &refusal(at(&url("app:hush-wrong"))).await,
        ErrorKind::Invalid,
        &["check the user, and the password"],
    );
    says(&refusal(at(&url("nobody:hush"))).await, ErrorKind::Invalid, &["check the user, and the password"]);
    let elsewhere = at(&url("app:hush-app")).prefix("t2");
    says(&refusal(elsewhere).await, ErrorKind::Invalid, &["permission denied", "grant", "readwrite"]);

    let file = cluster.file("password");
    std::fs::write(&file, "hush-app\n").unwrap();
    let store = EtcdStore::open(at(&format!("{}?password-file={file}", url("app")))).await.unwrap();
    let mut changes = store.changed("").unwrap();
    let (factory, key) = (RecordFactory::new(), Key::new("a").unwrap());
    let Outcome::Won { version, .. } = store.write(factory.if_vacant(&key, factory.held(5))).await.unwrap()
    else {
        panic!("nothing stood there")
    };
    assert_eq!(store.list("", None, 10).await.unwrap().len(), 1);
    // A member that starts again knows no passes.
    cluster.kill(0);
    cluster.begin(0);
    let renewed = async {
        loop {
            match store.write(factory.unchanged(&key, version, factory.held(5))).await {
                Ok(outcome) => return outcome,
                Err(error) => assert!(error.is_passing(), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let outcome = tokio::time::timeout(LONG, renewed).await.unwrap();
    assert!(matches!(outcome, Outcome::Won { .. }), "{outcome:?}");
    // The watch asked for a new pass, too.
    let hinted = async { while changes.recv().await.unwrap().key() != Some(&Key::new("b").unwrap()) {} };
    let b = factory.if_vacant(&Key::new("b").unwrap(), factory.vacant(1));
    store.write(b).await.unwrap();
    tokio::time::timeout(LONG, hinted).await.expect("no hint came");
}

/// It is up as far as its system knows, as one that was stopped.
#[tokio::test]
async fn a_silent_member_keeps_nobody_from_being_given_a_pass() {
    let cluster = Cluster::start(1).await;
    ask_who(&cluster);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let relays = [Relay::start(cluster.port()).await, Relay::start(cluster.port()).await];
    let mut ports = relays.each_ref().map(|relay| relay.port).to_vec();
    // With the one at which this process begins.
    let first = std::process::id() as usize % 3;
    ports.insert(first, silent.local_addr().unwrap().port());
    let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let url = format!("etcd://app:hush-app@{}/t?timeout-ms=9000", hosts.join(","));
    let store = EtcdStore::open(EtcdConfig::from_url(&url).unwrap()).await.unwrap();
    let (asked, _) = tokio::time::timeout(LONG, silent.accept()).await.expect("it was asked first").unwrap();
    let factory = RecordFactory::new();
    let write = factory.if_vacant(&Key::new("a").unwrap(), factory.held(5));
    assert!(matches!(store.write(write).await.unwrap(), Outcome::Won { .. }));
    drop(asked);
}

#[tokio::test]
async fn l4_who_asked_first_for_a_pass_and_looks_elsewhere_holds_nobody_up() {
    let cluster = Cluster::start(1).await;
    ask_who(&cluster);
    let url = cluster.url().replace("//", "//app:hush-app@");
    let (store, key) = (EtcdStore::open(at(&url)).await.unwrap(), Key::new("a").unwrap());
    // The passes of that user are over with its password, though it is the same again. To check it takes a tenth of a second.
    let endpoint = format!("127.0.0.1:{}", cluster.port());
    let root = ["--endpoints", &endpoint, "--user", "root:hush-root"];
    etcdctl(&[&root[..], &["user", "passwd", "app", "--interactive=false"]].concat(), b"hush-app\n");
    let mut first = Box::pin(store.read(&key));
    // As in a `select!` whose other branch takes long: it is polled until it waits for a pass, and not after.
    for _ in 0..20 {
        let polled = std::future::poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx)));
        if polled.await.is_ready() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let other = tokio::time::timeout(LONG, store.read(&key)).await;
    assert_eq!(other.expect("it waits for another's future").unwrap(), None);
}

#[tokio::test]
async fn a_password_that_was_changed_is_read_anew() {
    let cluster = Cluster::start(1).await;
    ask_who(&cluster);
    let file = cluster.file("password");
    std::fs::write(&file, "hush-app\n").unwrap();
    let url = cluster.url().replace("//", "//app@");
    let store = EtcdStore::open(at(&format!("{url}?password-file={file}"))).await.unwrap();
    let mut changes = store.changed("").unwrap();
    let (factory, key) = (RecordFactory::new(), Key::new("a").unwrap());
    assert_eq!(store.read(&key).await.unwrap(), None);
    // The passes of that user are over with its password.
    let endpoint = format!("127.0.0.1:{}", cluster.port());
    let root = ["--endpoints", &endpoint, "--user", "root:hush-root"];
    let words = [&root[..], &["user", "passwd", "app", "--interactive=false"]].concat();
    etcdctl(&words, b"hush-new\n");
    let error = store.read(&key).await.unwrap_err();
    says(&error, ErrorKind::Unavailable, &["check the user, and the password or its file"]);
    // Somebody who comes now is told that it is wrong.
    let refused = refusal(at(&format!("{url}?password-file={file}"))).await;
    says(&refused, ErrorKind::Invalid, &["check the user"]);
    std::fs::remove_file(&file).unwrap();
    let error = store.write(factory.if_vacant(&key, factory.held(5))).await.unwrap_err();
    says(&error, ErrorKind::Unavailable, &["the password file", &file]);
    std::fs::write(&file, "hush-new\n").unwrap();
    let outcome = store.write(factory.if_vacant(&key, factory.held(5))).await.unwrap();
    assert!(matches!(outcome, Outcome::Won { .. }), "{outcome:?}");
    hinted(&store, &mut changes, "b").await;
    // What may be written is a matter of each key, so nothing is remembered of it.
    let by_root = |words: &str| {
        etcdctl(&[&root[..], &words.split(' ').collect::<Vec<_>>()].concat(), b"");
    };
    by_root("role revoke-permission tenure --prefix=true t:");
    let error = store.write(factory.if_vacant(&key, factory.held(5))).await.unwrap_err();
    says(&error, ErrorKind::Invalid, &["permission denied", "readwrite"]);
    by_root("role grant-permission tenure --prefix=true readwrite t:");
    assert!(matches!(
        store.write(factory.if_vacant(&key, factory.held(5))).await,
        Ok(Outcome::Lost(Some(_)))
    ));
}

/// Nobody has called for so long that etcd has forgotten the pass.
#[tokio::test]
async fn a_pass_that_has_expired_is_replaced() {
    let cluster = Cluster::with(&["--auth-token-ttl", "1"]).await;
    ask_who(&cluster);
    let store = EtcdStore::open(at(&cluster.url().replace("//", "//app:hush-app@"))).await.unwrap();
    let (factory, key) = (RecordFactory::new(), Key::new("a").unwrap());
    for fence in 1..3 {
        // etcd's log tells when it forgets one.
        let forgotten = async {
            while cluster.log(0).matches("deleted a simple token").count() < fence as usize {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(LONG, forgotten).await.expect("etcd forgets no pass");
        let outcome = store.write(factory.if_vacant(&key, factory.vacant(fence))).await.unwrap();
        assert!(matches!(outcome, Outcome::Won { .. }), "{outcome:?}");
    }
}

/// It makes no call that would find out.
#[tokio::test]
async fn who_only_listens_has_a_pass_that_has_expired_replaced() {
    let cluster = Cluster::with(&["--auth-token-ttl", "1"]).await;
    ask_who(&cluster);
    let listener = EtcdStore::open(at(&cluster.url().replace("//", "//app:hush-app@"))).await.unwrap();
    let forgotten = async {
        while !cluster.log(0).contains("deleted a simple token") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, forgotten).await.expect("etcd forgets no pass");
    let mut changes = listener.changed("").unwrap();
    let told = tokio::time::timeout(LONG / 3, changes.recv()).await;
    assert_eq!(told.expect("it is never let in"), Some(Hint::Any));
}

#[tokio::test]
async fn a_full_cluster_says_so_and_is_read_all_the_same() {
    let cluster = Cluster::with(&["--quota-backend-bytes", "600000"]).await;
    let (store, factory) = (EtcdStore::open(at(&cluster.url())).await.unwrap(), RecordFactory::new());
    let key = |n: usize| Key::new(format!("k{n}")).unwrap();
    let mut written = 0;
    let error = loop {
        let mut record = factory.vacant(1);
        record.metadata = [("x".to_owned(), tenure_core::Value::Bytes(vec![7; 4000]))].into();
        match store.write(factory.absent(&key(written), record)).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 1000, "it never fills up");
    };
    says(&error, ErrorKind::Unavailable, &["space exceeded", "alarm disarm", "--quota-backend-bytes"]);
    assert_eq!(store.read(&key(written)).await.unwrap(), None, "it was not written");
    let standing = store.read(&key(0)).await.unwrap().unwrap();
    assert!(store.remove(&key(0), standing.version).await.is_ok(), "garbage can be removed");
}

#[tokio::test]
async fn a_learner_is_passed_over_and_named_where_it_is_alone() {
    let mut cluster = Cluster::start(1).await;
    let learner = cluster.add_learner();
    let alone = at(&cluster.url_of(&[learner]));
    let named = async {
        loop {
            let error = refusal(alone.clone()).await;
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            // It is starting.
            if error.to_string().contains("learner") {
                return error;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let error = tokio::time::timeout(LONG, named).await.expect("it does not say what it is");
    says(&error, ErrorKind::Unavailable, &["name the voting members", "member promote"]);
    // Processes begin at different members, so both orders are tried.
    for (fence, members) in (1..).zip([[0, learner], [learner, 0]]) {
        let store = EtcdStore::open(at(&cluster.url_of(&members))).await.unwrap();
        let (factory, key) = (RecordFactory::new(), Key::new(format!("k{fence}")).unwrap());
        let outcome = store.write(factory.if_vacant(&key, factory.vacant(fence))).await.unwrap();
        assert!(matches!(outcome, Outcome::Won { .. }), "{outcome:?}");
        hinted(&store, &mut store.changed("").unwrap(), "h").await;
    }
}

#[tokio::test]
async fn prefixes_do_not_mix() {
    let (a, factory) = (unique("mix"), RecordFactory::new());
    let b = format!("{a}/b");
    let (outer, inner) =
        (EtcdStore::open(config(&a)).await.unwrap(), EtcdStore::open(config(&b)).await.unwrap());
    assert_ne!(outer.id(), inner.id());
    let [plain, like_b] = ["c", "/b:c"].map(|key| Key::new(key).unwrap());
    for (fence, (store, key)) in (1..).zip([(&outer, &plain), (&outer, &like_b), (&inner, &plain)]) {
        let outcome = store.write(factory.absent(key, factory.held(fence))).await.unwrap();
        assert!(matches!(outcome, Outcome::Won { .. }), "{key} stood there already");
    }
    let fences = |listed: Vec<tenure_store::Listed>| -> Vec<u64> {
        listed.into_iter().map(|listed| listed.stored.unwrap().record.fence.0).collect()
    };
    assert_eq!(fences(outer.list("", None, 10).await.unwrap()), [2, 1]);
    assert_eq!(fences(inner.list("", None, 10).await.unwrap()), [3]);
}

/// As one on a network mount that hangs. On this one thread, nothing else would go on if it were waited for here.
#[tokio::test]
async fn a_password_file_that_hangs_is_given_up_in_time() {
    let cluster = Cluster::start(1).await;
    let file = std::path::PathBuf::from(cluster.file("password"));
    std::fs::write(&file, "hush\n").unwrap();
    let url = cluster.url().replace("//", "//app@");
    let config = at(&format!("{url}?timeout-ms=300&password-file={}", file.display()));
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
