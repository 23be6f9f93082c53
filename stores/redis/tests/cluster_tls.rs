//! Clusters that speak TLS only, and whose certificate is for a name.
//!
//! Plan: whoever is named, all three are reached; a slot that moves is followed; a wrong name and an unknown authority are refused, also of a server that only the
//! cluster names, and then with what has to be set there; a server that dies is followed by one that nobody named, and who listens hears of changes there.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::cluster::{
    is_served_while_its_slot_moves, key, members, one_has_all, owner, records, with_a_replica,
};
use crate::support::{Server, at, at_last, next, subscribed, tls_cluster_url, trusted, unique, until};
use std::collections::BTreeSet;
use tenure_core::ErrorKind;
use tenure_core::op::Hint;
use tenure_redis::{RedisConfig, RedisStore};
use tenure_store::{Outcome, Store, StoreExt};
use tenure_testkit::RecordFactory;

#[tokio::test]
async fn each_server_leads_to_all_namespaces() {
    let (factory, members) = (RecordFactory::new(), members(&tls_cluster_url()));
    let mut owners = BTreeSet::new();
    // That one of three has none of 40 is as good as impossible.
    for namespace in (0..40).map(|_| unique("spread")) {
        if owners.len() == members.len() {
            break;
        }
        owners.insert(owner(&members, &format!("tenure:{{{namespace}}}:records")));
        let mut ids = BTreeSet::new();
        for (n, member) in members.iter().enumerate() {
            let store = RedisStore::open(at(&trusted(member), &namespace)).await.unwrap();
            let written = store.write(factory.if_vacant(&key(&format!("k{n}")), factory.held(5))).await;
            assert!(matches!(written, Ok(Outcome::Won { .. })), "{written:?}");
            assert_eq!(store.list_all("").await.unwrap().len(), n + 1);
            ids.insert(store.id());
        }
        assert_eq!(ids.len(), 1, "{ids:?}");
    }
    assert_eq!(owners.len(), members.len(), "{owners:?}");
}

/// Both servers are spoken to by TLS, and who listens hears of a change on either.
#[tokio::test]
async fn a_slot_that_moves_is_followed() {
    is_served_while_its_slot_moves(&trusted(&tls_cluster_url())).await;
}

async fn is_refused(config: RedisConfig, words: &[&str]) {
    let error = RedisStore::open(config).await.map(drop).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{text}");
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[tokio::test]
async fn certificates_of_all_servers_are_verified() {
    let (url, namespace) = (tls_cluster_url(), unique("verified"));
    let by_number = url.replace("localhost", "127.0.0.1");
    let words = ["invalid peer certificate", "127.0.0.1", "name the host as its certificate does"];
    is_refused(at(&trusted(&by_number), &namespace), &words).await;
    is_refused(at(&url, &namespace), &["invalid peer certificate", "localhost", "ca=FILE"]).await;
    // One that is named wrongly keeps nobody from the others, nor from its namespaces: they tell its right name.
    let one_wrong = url.replacen("localhost", "127.0.0.1", 1);
    let store = RedisStore::open(at(&trusted(&one_wrong), &namespace)).await.unwrap();
    assert_eq!(store.read(&key("k")).await.unwrap(), None);
}

/// They tell each other's name as it is in the certificate.
fn by_name(settings: &str) -> Server {
    let names = "--cluster-announce-hostname localhost --cluster-preferred-endpoint-type hostname";
    Server::with_tls(&format!("{settings} {names}"))
}

/// That is what a cluster does unless it is told otherwise.
#[tokio::test]
async fn a_server_that_the_cluster_names_by_its_address_is_refused_with_the_remedy() {
    let [_owner, other] = one_has_all(by_name).await;
    let config = || at(&trusted(&other.url()), "jobs").push(false);
    let prefer = |what: &str| {
        assert_eq!(other.cli(&["CONFIG", "SET", "cluster-preferred-endpoint-type", what]), "OK");
    };
    prefer("ip");
    let remedy = ["cluster-announce-hostname", "cluster-preferred-endpoint-type hostname"];
    is_refused(config(), &[&["invalid peer certificate", "127.0.0.1"][..], &remedy].concat()).await;
    // The host of whoever is asked is meant where none is told.
    for well in ["unknown-endpoint", "hostname"] {
        prefer(well);
        let store = RedisStore::open(config()).await.unwrap();
        assert_eq!(store.read(&key("k")).await.unwrap(), None, "{well}");
    }
}

#[tokio::test]
async fn a_server_that_dies_is_followed_by_one_that_only_the_cluster_names() {
    let (mut primaries, replica) = with_a_replica(by_name).await;
    let hosts: Vec<String> = primaries.iter().map(|server| format!("localhost:{}", server.port)).collect();
    let url = trusted(&format!("rediss://{}", hosts.join(",")));
    let (store, factory) = (RedisStore::open(at(&url, "jobs")).await.unwrap(), RecordFactory::new());
    let mut changes = store.changed("").unwrap();
    subscribed(&mut changes).await;
    let written = store.write(factory.if_vacant(&key("k"), factory.held(5))).await.unwrap();
    let Outcome::Won { version, .. } = written else { panic!("{written:?}") };
    until("it is replicated", || records(&replica) == "1").await;
    primaries[0].kill();
    let renewed =
        at_last(async || store.write(factory.unchanged(&key("k"), version, factory.held(6))).await).await;
    let Outcome::Won { version: mut standing, .. } = renewed else { panic!("{renewed:?}") };
    let mut is_listening = false;
    loop {
        match next(&mut changes).await {
            // Who listened on the dead one is subscribed elsewhere, and hears of what is written from now on.
            Hint::Any => {
                let vacated = factory.unchanged(&key("k"), standing, factory.vacant(7));
                let vacated = store.write(vacated).await.unwrap();
                let Outcome::Won { version, .. } = vacated else { panic!("{vacated:?}") };
                (standing, is_listening) = (version, true);
            }
            Hint::Written(_, version) if is_listening && version == standing => break,
            Hint::Key(_) | Hint::Written(..) => {}
        }
    }
}
