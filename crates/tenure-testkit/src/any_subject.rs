//! A subject whose type is forgotten, so that the checks are compiled once, with the testkit, and not once for each kind of store.

use crate::subject::Subject;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Clock, Key};
use tenure_store::AnyStore;

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Any [`Subject`]: what the checks take.
pub struct AnySubject(Box<dyn ErasedSubject>);

impl AnySubject {
    /// Forgets what kind of subject it is.
    pub fn new(subject: impl Subject) -> Self {
        AnySubject(Box::new(subject))
    }

    /// As [`Subject::store`].
    pub async fn store(&self) -> AnyStore {
        self.0.store().await
    }

    /// As [`Subject::damage`].
    pub async fn damage(&self, key: &Key) -> bool {
        self.0.damage(key).await
    }

    /// As [`Subject::key_bytes`].
    #[must_use]
    pub fn key_bytes(&self) -> usize {
        self.0.key_bytes()
    }

    /// As [`Subject::clock`].
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.0.clock()
    }

    /// As [`Subject::pass`].
    pub async fn pass(&self, span: Duration) {
        self.0.pass(span).await;
    }
}

impl fmt::Debug for AnySubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnySubject").finish_non_exhaustive()
    }
}

/// The twin of [`Subject`] that can be a trait object.
trait ErasedSubject: Send + Sync {
    fn store(&self) -> Boxed<'_, AnyStore>;
    fn damage<'a>(&'a self, key: &'a Key) -> Boxed<'a, bool>;
    fn key_bytes(&self) -> usize;
    fn clock(&self) -> Arc<dyn Clock>;
    fn pass(&self, span: Duration) -> Boxed<'_, ()>;
}

impl<S: Subject> ErasedSubject for S {
    fn store(&self) -> Boxed<'_, AnyStore> {
        Box::pin(async { AnyStore::new(Subject::store(self).await) })
    }

    fn damage<'a>(&'a self, key: &'a Key) -> Boxed<'a, bool> {
        Box::pin(Subject::damage(self, key))
    }

    fn key_bytes(&self) -> usize {
        Subject::key_bytes(self)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Subject::clock(self)
    }

    fn pass(&self, span: Duration) -> Boxed<'_, ()> {
        Box::pin(Subject::pass(self, span))
    }
}
