//! Plan: the names, levels and fields of spans and events, which people's alarms depend on. One test in a program of its own:
//! whether a span is wanted is remembered for a whole process, and threads without a subscriber don't want any.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::{TTL, World};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::AnyStore;
use tenure::fleet::{Fleet, NewUnit, Verdict};
use tracing::field::{Field, Visit};
use tracing::span;

/// Writes down spans and events: the name or message, and the fields' names.
#[derive(Clone, Default)]
struct Scribe(Arc<Mutex<BTreeSet<String>>>);

/// The fields of one span or event.
#[derive(Default)]
struct Fields {
    message: String,
    names: String,
    error: Option<String>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        } else {
            let _ = write!(self.names, " {}", field.name());
        }
        if field.name() == "error" {
            self.error = Some(format!("{value:?}"));
        }
    }
}

impl Scribe {
    fn note(&self, metadata: &tracing::Metadata<'_>, name: &str, fields: &Fields) {
        if metadata.target() == "tenure::fleet" {
            let line = format!("{} {name}:{}", metadata.level(), fields.names);
            self.0.lock().unwrap().extend([line].into_iter().chain(fields.error.clone()));
        }
    }
}

impl tracing::Subscriber for Scribe {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let mut fields = Fields::default();
        span.record(&mut fields);
        self.note(span.metadata(), &format!("span {}", span.metadata().name()), &fields);
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.note(event.metadata(), &fields.message.clone(), &fields);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Waits until somebody is told of this error.
async fn wait_for(scribe: &Scribe, error: &str) {
    for _ in 0..1000 {
        if scribe.0.lock().unwrap().contains(error) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody is told of {error:?}: {:#?}", scribe.0.lock().unwrap());
}

#[tokio::test(start_paused = true)]
async fn spans_and_events_have_the_documented_names_and_fields() {
    let scribe = Scribe::default();
    let _guard = tracing::subscriber::set_default(scribe.clone());
    let world = World::new();
    let store = AnyStore::new(world.memory.clone());
    let fleet = Fleet::with_clock(store, "test", world.clock.clone(), 99).unwrap();
    fleet.create_all(["u0", "u1"].map(NewUnit::named)).await.unwrap();
    fleet.create(NewUnit::named("picky").needs("gpu")).await.unwrap();
    let a = fleet.join().ttl(TTL).drain(TTL / 4).instance(1).start().unwrap();
    let run = tokio::spawn({
        let a = a.clone();
        async move {
            a.run(|unit| async move {
                if unit.name() == "failing" {
                    return Err("no such file");
                }
                unit.cancelled().await;
                // It comes after the unit was told to go, and is told all the same.
                if unit.name() == "u1" { Err("no space left") } else { Ok(Verdict::Again) }
            })
            .await
        }
    });
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(a.held().len(), 2);
    fleet.revoke("u0").await.unwrap();
    tokio::time::sleep(TTL * 2).await;
    fleet.create(NewUnit::named("failing")).await.unwrap();
    wait_for(&scribe, "no such file").await;
    a.leave().await;
    run.await.unwrap();
    wait_for(&scribe, "no space left").await;
    let seen = scribe.0.lock().unwrap().clone();
    for line in [
        "INFO span worker: fleet worker",
        "INFO span unit: fleet worker unit fence",
        "INFO assigned: unit fence",
        "INFO draining: unit reason",
        "DEBUG planned: summary",
        "WARN no worker can have this unit: unit why",
        "WARN what was done for this unit has failed: unit error",
        "INFO stopped: worker",
    ] {
        assert!(seen.contains(line), "{line}: {seen:#?}");
    }
}
