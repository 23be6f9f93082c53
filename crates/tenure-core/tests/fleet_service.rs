//! Plan: two hundred workers start at once on a service that does for a partition key what DynamoDB does in a second, and refuses the rest:
//! all units are held and shared out evenly, in a few times the time that their writes take, nobody loses its session, and few calls are
//! refused; at rest none is.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use crate::harness::service::Limits;
use crate::harness::{Harness, Store, TTL};
use std::time::Duration;
use tenure_core::fleet::About;
use tenure_core::{Key, Metadata, Record, Value};

const WORKERS: usize = 200;
const UNITS: usize = 10_000;

/// About as many bytes as an item has.
fn weigh(key: &Key, record: &Record) -> u64 {
    fn texts(metadata: &Metadata) -> usize {
        let text = |(name, value): (&String, &Value)| {
            name.len()
                + match value {
                    Value::Text(text) => text.len(),
                    Value::Map(fields) => texts(fields),
                    _ => 8,
                }
        };
        metadata.iter().map(text).sum()
    }
    (key.as_str().len() + 300 + texts(&record.metadata)) as u64
}

fn is_even(harness: &Harness, workers: usize) -> bool {
    let counts = harness.counts();
    counts.len() == workers && counts[workers - 1] - counts[0] <= 1 && harness.idle() == 0
}

fn refused(harness: &Harness) -> u64 {
    harness.service.as_ref().unwrap().refused
}

#[test]
fn l4_workers_that_start_at_once_on_a_service_that_refuses_what_is_too_much_get_all_and_are_even() {
    let mut harness = Harness::new(Store { age: true, push: false });
    harness.create(UNITS);
    harness.limit(weigh, 1, Limits::of_dynamodb(false));
    for _ in 0..WORKERS {
        harness.add(About::default(), TTL);
    }
    let took = harness.run_until(TTL * 20, |harness| is_even(harness, WORKERS)).unwrap();
    // A write unit for each claim, and for each renewal meanwhile; and a session and a board.
    let writes = Duration::from_secs(UNITS as u64 / 1_000);
    assert!(took < writes * 3 / 2, "{took:?}");
    let lost: Vec<&String> = harness.troubles.iter().filter(|trouble| trouble.contains("lost")).collect();
    assert!(lost.is_empty(), "{lost:?}");
    // It has refused something, but not so much that most of what is asked is asked in vain.
    assert!((1_000..2 * UNITS as u64).contains(&refused(&harness)), "{}", refused(&harness));

    harness.run(TTL);
    let before = refused(&harness);
    harness.run(TTL * 5);
    assert_eq!(refused(&harness), before, "at rest nothing is too much");
    harness.kill(7);
    // One interval more than in a small fleet.
    let took = harness.run_until(TTL * 5, |harness| is_even(harness, WORKERS - 1)).unwrap();
    assert!(took < TTL * 3 / 2 + TTL / 3, "{took:?}");
    assert!(refused(&harness) < before + 500, "{} and {before} before", refused(&harness));
}
