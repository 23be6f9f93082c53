//! Waiting for hints that begin to come in their own time.

use crate::RecordFactory;
use std::time::Duration;
use tenure_store::{Changes, Hint, Outcome, Store};

/// As long as a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes one record after the other below `prefix`, until one of these writes is hinted at: the connection that tells of them
/// comes up in its own time.
///
/// # Panics
/// When no hint comes, or a write does not win.
#[allow(clippy::expect_used, reason = "a test fails by panicking")]
pub async fn hinted<S: Store>(store: &S, changes: &mut Changes, prefix: &str) {
    let factory = RecordFactory::new();
    let mut written = Vec::new();
    let told = async {
        loop {
            let (record, key) = (factory.vacant(1), factory.key(&format!("{prefix}{}", written.len())));
            let version = record.version();
            let outcome =
                store.write(factory.if_vacant(&key, record)).await.expect("a write that is answered");
            assert!(matches!(outcome, Outcome::Won { .. }), "{key}: {outcome:?}");
            written.push(Hint::Written(key, version));
            // It may be that of an earlier write.
            let hint = tokio::time::timeout(Duration::from_millis(50), changes.recv()).await;
            if hint.is_ok_and(|hint| hint.is_some_and(|hint| written.contains(&hint))) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, told).await.expect("no hint came");
}
