//! Ticks that are asked for: that one begins is written down before its client hears of it, so a stop has to wait for that.

use super::LeaseTable;
use crate::problem::Problem;
use std::sync::Arc;
use std::time::Duration;

impl LeaseTable {
    /// What comes of a tick that is asked for. The agent's stop waits for one whose begin is being written; one that still waits a moment later ends with it.
    pub(crate) async fn begun<T>(
        self: &Arc<Self>,
        begin: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        /// Far longer than a store takes that is well, and short for whoever stops an agent.
        const MOMENT: Duration = Duration::from_secs(2);
        {
            let mut state = self.state();
            if state.is_stopping {
                return Err(Problem::stopping());
            }
            state.beginning += 1;
        }
        let _beginning = BeginningTick(Arc::clone(self));
        self.before_stop(MOMENT, begin, Problem::stopping).await
    }
}

/// A tick that is asked for, until it is known what comes of it.
struct BeginningTick(Arc<LeaseTable>);

impl Drop for BeginningTick {
    fn drop(&mut self) {
        self.0.state().beginning -= 1;
        self.0.changed.notify_waiters();
    }
}
