//! Who is told of changes, where one connection hears of all of them.

use crate::store::Changes;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use tenure_core::op::Hint;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;

/// A prefix, and whoever wants hints of what is below it.
type Subscriber = (String, mpsc::Sender<Hint>);

/// Those who called [`Store::changed`](crate::Store::changed), each with its prefix. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Subscribers {
    all: Arc<Mutex<Vec<Subscriber>>>,
    /// Somebody has come.
    begun: Arc<Notify>,
}

impl Subscribers {
    /// How many hints wait for a subscriber that does not take them. More are dropped: whoever is so far behind looks at its
    /// keys anyway, by polls.
    pub const WAITING: usize = 1024;

    /// Hints of changes of keys that begin with `prefix`, until the receiver is dropped.
    #[must_use]
    pub fn subscribe(&self, prefix: &str) -> Changes {
        let (sender, changes) = mpsc::channel(Self::WAITING);
        self.with_all(|all| all.push((prefix.to_owned(), sender)));
        self.begun.notify_one();
        changes
    }

    /// Passes `hint` on to all whom it concerns, without waiting for any; forgets those who have gone.
    pub fn tell(&self, hint: &Hint) {
        self.with_all(|all| {
            all.retain(|(prefix, sender)| {
                if hint.key().is_some_and(|key| !key.as_str().starts_with(prefix)) {
                    return !sender.is_closed();
                }
                !matches!(sender.try_send(hint.clone()), Err(TrySendError::Closed(_)))
            });
        });
    }

    /// Whether anybody is left to be told. Those who have gone are forgotten.
    #[must_use]
    pub fn are_any(&self) -> bool {
        self.with_all(|all| {
            all.retain(|(_, sender)| !sender.is_closed());
            !all.is_empty()
        })
    }

    /// Waits until anybody is. Only one may wait.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn any(&self) {
        while !self.are_any() {
            self.begun.notified().await;
        }
    }

    fn with_all<T>(&self, work: impl FnOnce(&mut Vec<Subscriber>) -> T) -> T {
        // No code that can panic runs under the lock, so what it guards is whole.
        work(&mut self.all.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A task that tells subscribers of changes, for as long as this value lives, and the runtime on which it began. A store outlives the
/// runtime of whoever asked it first: then the hints of all end, and who asks for them again begins another task, on a runtime that lives.
#[derive(Debug)]
pub struct Teller {
    subscribers: Subscribers,
    is_over: Arc<Mutex<bool>>,
    task: AbortHandle,
}

/// Dropped with the task, whatever ended that.
struct EndOfTask(Subscribers, Arc<Mutex<bool>>);

impl Drop for EndOfTask {
    fn drop(&mut self) {
        // Whoever subscribes meanwhile either has its hints ended here, or sees that all is over.
        let mut is_over = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        *is_over = true;
        self.0.with_all(Vec::clear);
    }
}

impl Teller {
    /// Begins the task that tells them.
    pub fn start<F>(runtime: &Handle, tell: impl FnOnce(Subscribers) -> F) -> Teller
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (subscribers, is_over) = (Subscribers::default(), Arc::<Mutex<bool>>::default());
        let over = EndOfTask(subscribers.clone(), Arc::clone(&is_over));
        let telling = tell(subscribers.clone());
        let task = runtime.spawn(async move {
            let _over = over;
            telling.await;
        });
        Teller { subscribers, is_over, task: task.abort_handle() }
    }

    /// Hints of changes of keys that begin with `prefix`; none if the task is over, and another one has to be started.
    #[must_use]
    pub fn subscribe(&self, prefix: &str) -> Option<Changes> {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        (!*is_over).then(|| self.subscribers.subscribe(prefix))
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    //! Plan: who hears of a key, and of any; that one who does not listen is kept, and one who has gone is forgotten; that hints end with
    //! the runtime of who tells them.
    use super::*;
    use tenure_core::{Key, Version};

    fn written(key: &str) -> Hint {
        Hint::Written(Key::new(key).unwrap(), Version(7))
    }

    fn count(subscribers: &Subscribers) -> usize {
        subscribers.with_all(|all| all.len())
    }

    #[test]
    fn a_hint_goes_to_those_whom_it_concerns() {
        let subscribers = Subscribers::default();
        let mut a = subscribers.subscribe("a/");
        let mut all = subscribers.clone().subscribe("");
        subscribers.tell(&written("a/1"));
        subscribers.tell(&written("b/1"));
        subscribers.tell(&Hint::Any);
        assert_eq!((a.try_recv(), a.try_recv()), (Ok(written("a/1")), Ok(Hint::Any)));
        let heard: Vec<Hint> = std::iter::from_fn(|| all.try_recv().ok()).collect();
        assert_eq!(heard, [written("a/1"), written("b/1"), Hint::Any]);
    }

    #[test]
    fn one_that_is_behind_loses_hints_and_is_told_again_once_it_listens() {
        let subscribers = Subscribers::default();
        let mut slow = subscribers.subscribe("");
        for _ in 0..=Subscribers::WAITING {
            subscribers.tell(&written("a"));
        }
        let heard = std::iter::from_fn(|| slow.try_recv().ok()).count();
        assert_eq!(heard, Subscribers::WAITING);
        subscribers.tell(&written("b"));
        assert_eq!(slow.try_recv(), Ok(written("b")));
    }

    #[test]
    fn one_that_has_gone_is_forgotten_also_by_a_hint_that_does_not_concern_it() {
        let subscribers = Subscribers::default();
        drop(subscribers.subscribe("a"));
        let kept = subscribers.subscribe("a");
        subscribers.tell(&written("b"));
        assert_eq!((count(&subscribers), subscribers.are_any()), (1, true));
        drop(kept);
        assert!(!subscribers.are_any(), "its hints ended before the next one came");
        subscribers.tell(&Hint::Any);
        assert_eq!(count(&subscribers), 0);
    }

    #[test]
    fn hints_end_with_the_runtime_of_who_tells_them() {
        let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
        let first = runtime();
        let tell = |subscribers: Subscribers| async move {
            subscribers.any().await;
            subscribers.tell(&Hint::Any);
            std::future::pending().await
        };
        let teller = Teller::start(first.handle(), tell);
        let mut hints = teller.subscribe("").unwrap();
        assert_eq!(first.block_on(hints.recv()), Some(Hint::Any));
        drop(first);
        assert_eq!(runtime().block_on(hints.recv()), None, "nobody waits for what never comes");
        assert!(teller.subscribe("").is_none(), "it is to be started again");
    }
}
