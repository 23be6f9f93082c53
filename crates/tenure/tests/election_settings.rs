//! Settings of candidates. Plan: each that is out of range or does not fit the others is refused with a remedy, by `start` and by
//! `observe`, before any I/O; so is a start outside a runtime; those at the limits are taken.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use crate::common::{World, settle};
use std::time::Duration;
use tenure::{AnyStore, Candidate, Metadata};

#[test]
fn outside_a_runtime_a_start_is_refused_with_a_remedy() {
    let builder = || Candidate::builder(tenure::memory()).key("k");
    for refused in [builder().start().map(drop), builder().observe().map(drop)] {
        assert!(refused.unwrap_err().to_string().contains("start it inside one"));
    }
}

#[tokio::test(start_paused = true)]
async fn settings_that_do_not_fit_are_refused_before_any_io() {
    let world = World::new();
    let (_, line) = world.line();
    let secs = Duration::from_secs;
    let on_store = || Candidate::builder(AnyStore::new(line.clone())).clock(world.clock.clone());
    let process = world.process();
    let attached = || process.leases.candidate();
    let large = Metadata::from([("x".to_owned(), tenure::Value::Text("x".repeat(9000)))]);
    let cases = [
        (on_store().key(""), "a key can't be empty"),
        (on_store().holder("x".repeat(257)), "the limit is 256"),
        (on_store().ttl(Duration::from_millis(1)), "below this store's minimum"),
        (on_store().follow_every(secs(3)), "choose 2.5s or less, or a longer ttl"),
        (on_store().follow_every(Duration::MAX), "choose 2.5s or less, or a longer ttl"),
        (on_store().hold_every(secs(4)), "choose 3.333333333s or less, or a longer ttl"),
        (on_store().hold_every(Duration::ZERO), "choose 1 ms or more"),
        (on_store().hold_every(secs(3)).step_down_after(3), "3 errors in a row, one every 3s, take 9s"),
        (on_store().step_down_after(0), "choose 1 or more"),
        (on_store().rank(9), "beyond the last, 8"),
        (on_store().metadata(large), "limit of 8192"),
        (on_store().grace(secs(5)), "one failed renewal would end every body"),
        (attached().ttl(secs(5)), "LeasesBuilder::session_ttl"),
        (attached().hold_every(secs(1)), "LeasesBuilder::renew_every"),
        (attached().holder("me"), "LeasesBuilder::holder"),
        (attached().step_down_after(3), "3 errors in a row, one every 3.333333333s"),
    ];
    for (builder, text) in cases {
        let refused = builder.clone().start().unwrap_err().to_string();
        assert!(refused.contains(text), "{refused}");
        assert_eq!(builder.observe().unwrap_err().to_string(), refused);
    }
    // What only looks may look at any key.
    for reserved in ["section/x", "session/a", "fleet/f/board", "work/j/u"] {
        for builder in [on_store(), attached()] {
            let refused = builder.key(reserved).start().unwrap_err().to_string();
            assert!(refused.contains("choose a name that doesn't begin with"), "{refused}");
        }
    }
    // The session's drift counts.
    let (_, unsteady) = world.line();
    let unsteady = world.builder(&unsteady).drift(tenure::Drift::per_mille(200).unwrap()).start().unwrap();
    let refused = unsteady.candidate().step_down_after(2).start().unwrap_err().to_string();
    assert!(refused.contains("believes for 6.666666666s only"), "{refused}");
    settle().await;
    assert_eq!(line.take().round_trips() + process.store.take().round_trips(), 0);
    // Hold rates that fit are taken, those of sessions too.
    for ok in [
        on_store().hold_every(secs(2)).step_down_after(4),
        on_store().ttl(Duration::from_millis(50)),
        attached().step_down_after(2),
    ] {
        ok.start().unwrap().elected().await.unwrap();
    }
    let (_, line) = world.line();
    let refused = world.builder(&line).renew_every(secs(4)).start().unwrap_err().to_string();
    assert!(refused.contains("a third of the session's ttl, 3.333333333s"), "{refused}");
}
