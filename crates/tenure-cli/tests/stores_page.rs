//! The table of capabilities in `docs/stores.md` is what the code says, of each store as it is opened by default.
//!
//! Plan: the table that is made of each store's `capabilities()`, without a server, is the one between the page's markers. So are the calls by
//! which a lease becomes a condition of a write of the user's own, which this file names.
//! `TENURE_UPDATE_DOCS=1 cargo test -p tenure-cli --features all-stores --test cli stores_page::` writes it there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

use tenure::Store;
use tenure::dynamodb::{DynamoConfig, DynamoStore};
use tenure::etcd::{EtcdConfig, EtcdStore};
use tenure::postgres::{PostgresConfig, PostgresStore};
use tenure::redis::{RedisConfig, RedisStore};
use tenure::sqlite::{SqliteConfig, SqliteStore};
use tenure::store::Capabilities;

/// From the repository's root.
const PAGE: &str = "docs/stores.md";
const BEGIN: &str = "<!-- capabilities: made of the code by the test stores_page of tenure-cli -->\n";
const END: &str = "<!-- end of capabilities -->\n";

/// Every store that there is, as its URL without options opens it.
fn stores() -> [(&'static str, Capabilities); 6] {
    [
        ("memory", tenure::memory().capabilities()),
        ("SQLite", SqliteConfig::new("leases.db").capabilities()),
        ("DynamoDB", DynamoConfig::new("leases").capabilities()),
        ("PostgreSQL", PostgresConfig::from_url("postgres://db.example/jobs").unwrap().capabilities()),
        ("etcd", EtcdConfig::from_url("etcds://a.example/jobs").unwrap().capabilities()),
        ("Redis, Valkey", RedisConfig::from_url("rediss://redis.example").unwrap().capabilities()),
    ]
}

/// By what a lease is a condition of a write of the user's own, in the order of the stores.
fn guards() -> [(&'static str, &'static str); 6] {
    // They are there, or this does not compile.
    let _ =
        (SqliteStore::guard, DynamoStore::guard, PostgresStore::guard, EtcdStore::guard, RedisStore::guard);
    [
        ("memory", "no"),
        ("SQLite", "in a transaction (`SqliteStore::guard`)"),
        ("DynamoDB", "in a transaction (`DynamoStore::guard`)"),
        ("PostgreSQL", "in a transaction (`PostgresStore::guard`)"),
        ("etcd", "in a transaction (`EtcdStore::guard`)"),
        ("Redis, Valkey", "for one value (`RedisStore::guard`)"),
    ]
}

fn table() -> String {
    let stores = stores();
    let mut text = String::from("| |");
    for (name, _) in &stores {
        text.push_str(&format!(" {name} |"));
    }
    text.push_str(&format!("\n|---|{}\n", "---|".repeat(stores.len())));
    let columns: Vec<Vec<(&str, String)>> = stores.iter().map(|(_, can)| can.rows()).collect();
    for (n, (what, _)) in columns[0].iter().enumerate() {
        text.push_str(&format!("| {what} |"));
        for column in &columns {
            assert_eq!(column[n].0, *what, "all stores have the same rows");
            text.push_str(&format!(" {} |", column[n].1));
        }
        text.push('\n');
    }
    text.push_str("| a lease can be a condition of your own write |");
    for ((name, _), (of, how)) in stores.iter().zip(guards()) {
        assert_eq!(*name, of, "in the order of the stores");
        text.push_str(&format!(" {how} |"));
    }
    text.push('\n');
    text
}

/// SQLite's ages and wake-ups are Linux's, where the page is made.
#[cfg(target_os = "linux")]
#[test]
fn the_table_of_capabilities_in_the_docs_is_what_the_code_says() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once(BEGIN).expect("the page has the marker where the table begins");
    let (there, tail) = rest.split_once(END).expect("the page has the marker where the table ends");
    let made = table();
    if std::env::var_os("TENURE_UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{made}{END}{tail}")).unwrap();
        return;
    }
    assert_eq!(
        there, made,
        "make it anew: TENURE_UPDATE_DOCS=1 cargo test -p tenure-cli --features all-stores --test cli stores_page::"
    );
}
