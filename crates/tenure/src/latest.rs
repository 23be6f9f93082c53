//! The latest of what is told, for whoever looks at it now and then.

use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;

/// A watch of what is told, as [`Candidate::changes`](crate::Candidate::changes) and [`Worker::summaries`](crate::fleet::Worker::summaries) return it.
///
/// It shows the latest value only. Each look makes a copy, so whoever keeps one keeps nobody from telling the next: that is done by
/// the tasks that renew leases, which must not wait.
#[derive(Debug, Clone)]
pub struct Latest<T>(watch::Receiver<T>);

impl<T: Clone> Latest<T> {
    pub(crate) fn of(told: &watch::Sender<T>) -> Latest<T> {
        Latest(told.subscribe())
    }

    /// What was told last.
    #[must_use]
    pub fn get(&self) -> T {
        self.0.borrow().clone()
    }

    /// The same, which counts as seen from now on: [`Latest::changed`] waits for what comes after it.
    #[must_use]
    pub fn get_and_update(&mut self) -> T {
        self.0.borrow_and_update().clone()
    }

    /// Whether there is something that was not seen yet.
    ///
    /// # Errors
    /// When nothing more will be told, as what told it is no more.
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        self.0.has_changed()
    }

    /// Waits until there is something that was not seen yet, which counts as seen then.
    ///
    /// # Errors
    /// As [`Latest::has_changed`].
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn changed(&mut self) -> Result<(), RecvError> {
        self.0.changed().await
    }

    /// Waits for a value that is as wanted, beginning with the present one, and returns it.
    ///
    /// # Errors
    /// As [`Latest::has_changed`].
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn wait_for(&mut self, mut is_wanted: impl FnMut(&T) -> bool) -> Result<T, RecvError> {
        loop {
            let value = self.get_and_update();
            if is_wanted(&value) {
                return Ok(value);
            }
            self.changed().await?;
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: each look is a copy; what was seen is not waited for; the end is an error, once all was seen.
    use super::*;

    #[tokio::test]
    async fn each_look_is_a_copy_and_the_end_is_told_once_all_was_seen() {
        let told = watch::Sender::new(1);
        let mut latest = Latest::of(&told);
        let copy = latest.get();
        told.send_replace(2);
        assert_eq!((copy, latest.get(), latest.has_changed().unwrap()), (1, 2, true));
        latest.changed().await.unwrap();
        assert_eq!((latest.get_and_update(), latest.has_changed().unwrap()), (2, false));
        assert_eq!(latest.wait_for(|value| *value == 2).await.unwrap(), 2);
        told.send_replace(3);
        drop(told);
        assert_eq!(latest.wait_for(|value| *value == 3).await.unwrap(), 3);
        assert!(latest.wait_for(|value| *value == 4).await.is_err() && latest.changed().await.is_err());
    }
}
