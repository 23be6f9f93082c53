//! How clients' leases end. That one is given back is written to the store before its client is answered, so a stop has to wait for both.

use super::LeaseTable;
use super::state::{EXITED, LONGEST_END, LeaseTableEntry, RELEASED, UNDELIVERED, id_of};
use crate::events::Event;
use crate::holding::{End, Holding};
use crate::peer::ClientIdentity;
use crate::problem::Problem;
use std::pin::pin;
use std::time::Duration;
use tenure::Loss;
use tenure_store::tell;
use uuid::Uuid;

impl LeaseTable {
    /// A client is done with what it has, and says how that ended. False: it was lost before.
    ///
    /// Once the agent stops, its client is not kept waiting without end: what the store has not answered by then is told as unknown, not as lost.
    pub(crate) async fn end(&self, id: &str, end: End, peer: &ClientIdentity) -> Result<bool, Problem> {
        let id = id_of(id)?;
        let entry = {
            let mut state = self.state();
            if state.entries.get(&id).is_some_and(|entry| !entry.holding.takes(&end)) {
                return Err(Problem::bad_request("what has this id is of another kind; see /openapi.json"));
            }
            let Some(entry) = state.take(id, RELEASED) else { return Err(state.gone(id)) };
            entry
        };
        let under_way = entry.under_way.clone();
        self.left("released", id, &entry.holding, None);
        let given = async { entry.give_back(end).await.map_err(Problem::from) };
        let told = self.before_stop(LONGEST_END, given, Problem::unfinished).await;
        // A stop waits for the answer, too: it would be cut off.
        peer.delivery().keeps(under_way);
        told
    }

    /// What comes of this. It may outlast the begin of the agent's stop by so long, and then this is told in its place.
    pub(super) async fn before_stop<T>(
        &self,
        longest: Duration,
        what: impl Future<Output = Result<T, Problem>>,
        late: fn() -> Problem,
    ) -> Result<T, Problem> {
        let mut stopping = self.stopping.subscribe();
        let mut what = pin!(what);
        tokio::select! {
            biased;
            done = &mut what => return done,
            _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
        }
        tokio::time::timeout(longest, what).await.unwrap_or_else(|_| Err(late()))
    }

    pub(super) fn lost(&self, id: Uuid, holding: &Holding, loss: &Loss) {
        let entry = self.state().take(id, &loss.to_string());
        if entry.is_some() {
            self.left("lost", id, holding, Some(loss.into()));
        }
    }

    /// The process of its client has ended. False: another has it.
    pub(super) fn exited(&self, id: Uuid) -> bool {
        let entry = {
            let mut state = self.state();
            let is_its_own = state.entries.get(&id).is_some_and(|entry| entry.peer.is_some());
            if is_its_own { state.take(id, EXITED) } else { None }
        };
        let Some(entry) = entry else { return false };
        self.left("exited", id, &entry.holding, None);
        tokio::spawn(give_back(entry, End::Silent(EXITED), EXITED));
        true
    }

    /// The answer that tells of it can't be written, so that its client has never had it.
    pub(super) fn undelivered(&self, id: Uuid) {
        let Some(entry) = self.state().take(id, UNDELIVERED) else { return };
        self.left("released", id, &entry.holding, Some(UNDELIVERED.to_owned().into()));
        // A runtime that ends drops it, and so gives it back, too.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // A tick that may have run is told to be over: it is not run again, and would seem to be running for ever.
            let is_tick = matches!(*entry.holding, Holding::Tick(..));
            let end = if is_tick { End::Gone(UNDELIVERED) } else { End::GivenBack };
            runtime.spawn(give_back(entry, end, UNDELIVERED));
        }
    }

    /// Prolongs nothing any more, and waits until all that was told is over, and what was given back is written and answered. For the last of that it waits
    /// for a moment longer than any end may take then.
    pub(crate) async fn stop(&self) {
        /// Longer than an answer takes that its client reads.
        const MOMENT: Duration = Duration::from_secs(1);
        self.state().is_stopping = true;
        self.stopping.send_replace(true);
        // Nobody may be listening.
        let _ = self.events.send(Event::of_all("stopping"));
        let outlasting = self.state().outlasting();
        for entry in outlasting {
            entry.leave().await;
        }
        self.changed.notify_waiters();
        loop {
            let changed = self.changed.notified();
            let is_over = {
                let state = self.state();
                state.entries.is_empty() && state.beginning == 0
            };
            if is_over {
                break;
            }
            changed.await;
        }
        // What has not ended by then is left to the leases' own stop, or expires.
        let _ = tokio::time::timeout(LONGEST_END + MOMENT, self.under_way.closed()).await;
    }
}

/// Gives back what its client can't give back any more. What fails is logged: the lease lasts until it expires then.
pub(super) async fn give_back(entry: LeaseTableEntry, end: End, why: &'static str) {
    let (key, fence) = (entry.holding.key().clone(), entry.holding.fence());
    match entry.give_back(end).await {
        Ok(true) => {}
        Ok(false) => {
            tell!(debug, name: "agent.lease", target: "tenure::agent", %key, %fence, why, "nothing was left to give back");
        }
        Err(error) => {
            tell!(warn, name: "agent.lease", target: "tenure::agent", %key, %fence, why, %error, "a client's lease can't be given back; it is left to expire");
        }
    }
}
