//! A store that is away when a verb begins.
//!
//! Plan: without `--await-store` it is told at once, with it when that time is over, by each verb that stays. One that comes back meanwhile is used, and what is wrong there is
//! told at once. A signal ends the wait. A ttl that the store could not keep is refused without it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]
#![allow(clippy::disallowed_methods, reason = "real processes wait in real time")]

use crate::common::remote::{Remote, port_of, told};
use crate::common::tcp_relay::TcpRelay;
use crate::common::{Process, wait_until};
use nix::sys::signal::Signal;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// A port at which nobody listens.
fn closed_port() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// The server that this URL names, by another port of this host.
fn at(url: &str, port: SocketAddr) -> String {
    url.replace(&format!("127.0.0.1:{}", port_of(url)), &port.to_string())
}

fn redis(port: SocketAddr) -> Remote {
    let namespace = format!("away-{}-{}", std::process::id(), port.port());
    Remote::at(format!("{}?namespace={namespace}", at(&told("TENURE_TEST_REDIS"), port)))
}

/// Starts it and waits until it says that it waits.
fn start_waiting(place: &Remote, arguments: &[&str]) -> Process {
    let mut command = place.command(arguments);
    let process =
        Process::from(command.stderr(File::create(place.bench.path("err")).unwrap()).spawn().unwrap());
    wait_until("a word of the wait", || place.bench.read("err").contains("waiting for it for up to 60s"));
    process
}

#[test]
fn a_store_that_comes_back_is_used() {
    let port = closed_port();
    let place = redis(port);
    let run = ["run", "--try", "--await-store", "1m", "k", "--", "touch", "done"];
    let mut process = start_waiting(&place, &run);
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port_of(&told("TENURE_TEST_REDIS"))));
    let relay = TcpRelay::start(TcpListener::bind(port).unwrap(), server);
    assert_eq!(process.wait(), 0);
    assert!(relay.taken() > 0 && place.bench.path("done").exists());
    let says = place.bench.read("err");
    assert!(says.contains("the store answers now") && says.matches("waiting for it").count() == 1, "{says}");
}

#[test]
fn what_is_wrong_with_a_store_that_answers_is_told_at_once() {
    let url = told("TENURE_TEST_POSTGRES");
    let at_nobody = url.split_once("://").map(|(scheme, rest)| {
        let (_, host) = rest.split_once('@').unwrap();
        format!("{scheme}://nobody_at_all@{host}?schema=away")
    });
    let place = Remote::at(at_nobody.unwrap());
    let began = Instant::now();
    let ran = place.run(&["run", "--await-store", "10m", "k", "--", "true"]);
    assert!(ran.code == 64 && began.elapsed() < Duration::from_secs(60), "{ran:?}");
}

#[test]
fn each_verb_that_stays_waits_for_so_long_and_no_longer() {
    let port = closed_port();
    let (redis, less) = (redis(port), Remote::at(format!("postgres://u@{port}/d?dialect=less")));
    let run = |verb: &[&'static str], wait: bool| {
        let mut words = verb.to_vec();
        if wait {
            words.splice(1..1, ["--await-store", "300ms"]);
        }
        let place = if verb.contains(&"less") { &less } else { &redis };
        let began = Instant::now();
        let ran = place.run(&words);
        assert_eq!(ran.code, 69, "{words:?}: {ran:?}");
        (began.elapsed(), ran)
    };
    for verb in [
        &["run", "k", "--", "true"][..],
        &["cron", "* * * * *", "k", "--", "true"],
        &["hold", "k"],
        &["elect", "k", "--", "true"],
        &["elect", "less", "--", "true"],
        &["range", "s", "0_80", "--for", "10s", "--", "true"],
        &["work", "a", "--", "true"],
        &["work", "--forever", "--name", "f", "--units", "u", "--", "true"],
    ] {
        let (took, ran) = run(verb, true);
        let says = ran.err;
        assert!(
            took > Duration::from_millis(300) && says.contains("for 300ms now, as --await-store says"),
            "{verb:?}: {says}"
        );
        let (_, ran) = run(verb, false);
        assert!(!ran.err.contains("waiting for it"), "{verb:?}: {}", ran.err);
    }
}

#[test]
fn a_ttl_that_the_store_could_not_keep_is_refused_without_it() {
    let redis = redis(closed_port());
    for verb in [
        &["run", "--await-store", "10m", "k", "--ttl", "50ms", "--", "true"][..],
        &["elect", "k", "--ttl", "50ms", "--", "true"],
        &["work", "a", "--ttl", "50ms", "--", "true"],
        &["work", "--forever", "--name", "f", "--ttl", "50ms", "--units", "u", "--", "true"],
        &["range", "s", "0_80", "--for", "50ms", "--", "true"],
    ] {
        let ran = redis.run(verb);
        let is_told = ran.err.ends_with(" of 50ms is below this store's minimum of 100ms\n");
        assert!(ran.code == 64 && is_told, "{verb:?}: {ran:?}");
    }
}

#[test]
fn a_signal_ends_the_wait() {
    let place = redis(closed_port());
    let mut process = start_waiting(&place, &["elect", "--await-store", "1m", "k", "--", "true"]);
    process.signal(Signal::SIGTERM);
    assert_eq!(process.wait(), 128 + Signal::SIGTERM as i32);
}
