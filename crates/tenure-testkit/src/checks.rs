//! The checks, by subject. Each fails by panicking with what it saw.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "a check fails by panicking")]

use crate::any_subject::AnySubject;
use std::future::Future;
use std::pin::Pin;
use tenure_core::op::{Outcome, Write};
use tenure_core::{Fence, Key, Record, Stored, Version};
use tenure_store::{AnyStore, Store};

pub mod batches;
pub mod capabilities;
pub mod contention;
pub mod fences;
pub mod hints;
pub mod leases;
pub mod listing;
pub mod records;
pub mod registers;
pub mod time;

type Running<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A check by name.
pub struct Check {
    /// The name of its test.
    pub name: &'static str,
    /// Runs it; it fails by panicking.
    pub run: for<'a> fn(&'a AnySubject) -> Running<'a>,
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Check").field(&self.name).finish()
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! table_of_checks {
    (() $($file:ident::$check:ident,)*) => {
        vec![$(Check { name: stringify!($check), run: |subject| Box::pin($file::$check(subject)) },)*]
    };
}

/// All checks, in the order in which they are best read.
#[must_use]
pub fn all() -> Vec<Check> {
    crate::for_each_check! { table_of_checks () }
}

/// Writes, and gives back version and fence.
#[track_caller]
fn won(outcome: Outcome) -> (Version, Fence) {
    match outcome {
        Outcome::Won { version, fence } => (version, fence),
        Outcome::Lost(standing) => {
            panic!("the condition holds, but the write lost to {}", brief(&format!("{standing:?}"), 0))
        }
    }
}

/// What a write lost to, but for its age.
#[track_caller]
fn lost(outcome: Outcome) -> Option<(Record, Version)> {
    match outcome {
        Outcome::Lost(standing) => ageless(standing),
        Outcome::Won { .. } => panic!("the condition does not hold, but the write was {outcome:?}"),
    }
}

/// As much of a text as a person reads, from shortly before this byte on.
fn brief(text: &str, from: usize) -> String {
    const BEFORE: usize = 40;
    const MOST: usize = 200;
    let skipped =
        text.char_indices().map(|(at, _)| at).take_while(|at| at + BEFORE <= from).last().unwrap_or(0);
    let shown: String = text[skipped..].chars().take(MOST).collect();
    let (head, tail) =
        (if skipped > 0 { "…" } else { "" }, if skipped + shown.len() < text.len() { "…" } else { "" });
    format!("{head}{shown}{tail}")
}

/// That what was read is what was written. A difference is shown where it begins: a record may be as large as a store takes.
#[track_caller]
fn same(found: &Record, expected: &Record) {
    if found == expected {
        return;
    }
    let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
    let at = found.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
    panic!(
        "the record differs from character {at} of {} on: it is {}, and should be {}",
        found.len(),
        brief(&found, at),
        brief(&expected, at)
    );
}

fn ageless(stored: Option<Stored>) -> Option<(Record, Version)> {
    stored.map(|stored| (stored.record, stored.version))
}

async fn write(store: &AnyStore, write: Write) -> Outcome {
    store.write(write).await.expect("a write is answered")
}

async fn read(store: &AnyStore, key: &Key) -> Option<(Record, Version)> {
    ageless(store.read(key).await.expect("a read is answered"))
}
