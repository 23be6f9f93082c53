//! Forced releases that are under way.

use crate::problem::Problem;
use tokio::sync::watch;

/// Counts them, and tells them when the agent is being stopped: each has a receiver for as long as it lasts.
pub(crate) struct Seizures {
    stopping: watch::Sender<bool>,
}

impl Seizures {
    const MOST: usize = 64;

    pub(crate) fn new() -> Seizures {
        Seizures { stopping: watch::Sender::new(false) }
    }

    /// A place for one more.
    pub(crate) fn begin(&self) -> Result<SeizurePlace, Problem> {
        // It counts already, so that of two that come at once only one has the last place.
        let place = SeizurePlace(self.stopping.subscribe());
        if *self.stopping.borrow() {
            return Err(Problem::stopping());
        }
        if self.stopping.receiver_count() > Self::MOST {
            return Err(Problem::too_many_seizures(Self::MOST));
        }
        Ok(place)
    }

    /// They end, and no more come. Waits until each has said that it was given up.
    pub(crate) async fn stop(&self) {
        self.stopping.send_replace(true);
        self.stopping.closed().await;
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.stopping.receiver_count()
    }
}

/// One of them, until it is dropped.
pub(crate) struct SeizurePlace(watch::Receiver<bool>);

impl SeizurePlace {
    /// Until the agent is being stopped.
    pub(crate) async fn stopped(&mut self) {
        // An error means that the agent is gone.
        let _ = self.0.wait_for(|is_stopping| *is_stopping).await;
    }
}
