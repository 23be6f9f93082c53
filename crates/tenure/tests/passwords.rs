//! No error shows a piece of a password that a store's URL has in it, however it is written there.
//!
//! Plan: passwords and users of letters that no message has, a digit, and all signs that mean something in URLs, percent-encoded or not, in each
//! store's URL, with and without a mistake elsewhere. Nobody listens on the port: what is understood ends with the error of a connection.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use proptest::prelude::*;
use tenure::registry::{Opening, Registry};

/// What no message of ours, of a driver or of the system has in it.
const RARE: [char; 4] = ['Z', 'J', 'Þ', 'ß'];
const SIGNS: &str = "@/?#:&=%,;[]+ !$'()*\"<>^`{|}~\\-_.\t1";
const URLS: [&str; 14] = [
    "redis://USER:PASSWORD@127.0.0.1:1/0?timeout-ms=100",
    "redis://:PASSWORD@127.0.0.1:1",
    "redis://USER:PASSWORD@127.0.0.1:1/?nmaespace=x",
    "redis://USER:PASSWORD@127.0.0.1:port/",
    "rediss://USER:PASSWORD@127.0.0.1:1/0?timeout-ms=100",
    "etcd://USER:PASSWORD@127.0.0.1:1/p?timeout-ms=100",
    "etcd://USER:PASSWORD@127.0.0.1:1/p?timeuot-ms=100",
    "etcd://USER:PASSWORD@a host/p?timeout-ms=100",
    "etcds://USER:PASSWORD@127.0.0.1:1/p?timeout-ms=100",
    "postgres://USER:PASSWORD@127.0.0.1:1/d?timeout-ms=100",
    "postgres://USER:PASSWORD@127.0.0.1:1/d?shcema=x",
    "postgres://user@127.0.0.1:1/d?password=PASSWORD&timeout-ms=100",
    "dynamodb://USER:PASSWORD@table?region=eu-west-1",
    "dynamodb://:PASSWORD@table?regoin=eu-west-1",
];

/// Pieces of a login: rare letters, and signs as they are or percent-encoded.
fn login() -> impl Strategy<Value = String> {
    let sign = prop::sample::select(SIGNS.chars().collect::<Vec<_>>());
    let piece = prop_oneof![
        4 => prop::sample::select(RARE.as_slice()).prop_map(String::from),
        3 => sign.clone().prop_map(String::from),
        1 => sign.prop_map(|sign| format!("%{:02X}", u32::from(sign))),
    ];
    prop::collection::vec(piece, 1..12).prop_map(|pieces| pieces.concat())
}

#[test]
fn no_error_of_a_stores_url_shows_a_piece_of_a_password() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let registry = Registry::standard();
    let every_url = prop::sample::select(URLS.as_slice());
    proptest!(ProptestConfig::with_cases(1000), |(url in every_url, user in login(), password in login())| {
        let url = url.replace("USER", &user).replace("PASSWORD", &password);
        let error = runtime.block_on(registry.open(&url, Opening::default().here(true))).unwrap_err();
        for text in [error.to_string(), format!("{error:?}")] {
            prop_assert!(!text.contains(RARE), "{}: {}", url, text);
        }
    });
}
