//! What can be asked of an agent, path by path.

pub(crate) mod elections;
pub(crate) mod events;
pub(crate) mod fleets;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod leases;
pub(crate) mod once;
pub(crate) mod overview;
pub(crate) mod records;
pub(crate) mod sections;
pub(crate) mod semaphores;

use crate::agent_state::AgentState;
use crate::holding::{End, Holding};
use crate::lease_table::{LeaseTerms, ReservedSlot};
use crate::peer::ClientIdentity;
use crate::problem::Problem;
use crate::waits::WaitPlace;
use crate::wire::{LeaseReply, OnExit, ReleaseReply};
use axum::Json;
use std::sync::Arc;
use std::time::Duration;

/// A client says how what it holds has ended.
async fn ended(
    shared: &AgentState,
    peer: &ClientIdentity,
    id: &str,
    end: End,
) -> Result<Json<ReleaseReply>, Problem> {
    Ok(Json(ReleaseReply { released: shared.table.end(id, end, peer).await? }))
}

/// What a client says of a lease, checked.
struct LeaseRequest {
    wait: Duration,
    terms: LeaseTerms,
    room: ReservedSlot,
    /// Held while it waits.
    _place: Option<WaitPlace>,
}

impl LeaseRequest {
    /// Before anything is asked of the store.
    fn checked(
        shared: &AgentState,
        wait_ms: u64,
        ttl_ms: Option<u64>,
        at_most_ms: Option<u64>,
        on_exit: OnExit,
    ) -> Result<LeaseRequest, Problem> {
        const MOST_WAIT: u64 = 24 * 60 * 60 * 1000;
        const LEAST_TTL: u64 = 100;
        if wait_ms > MOST_WAIT {
            return Err(Problem::bad_request(format!(
                "wait_ms {wait_ms} is over {MOST_WAIT}, a day; wait again after that"
            )));
        }
        if ttl_ms.is_some_and(|ttl| ttl < LEAST_TTL) {
            return Err(Problem::bad_request(format!(
                "ttl_ms is under {LEAST_TTL}: beats would not come in time"
            )));
        }
        if at_most_ms == Some(0) {
            return Err(Problem::bad_request("at_most_ms 0 leaves no time to hold it at all; allow some"));
        }
        let longest = ttl_ms.map_or(Duration::MAX, Duration::from_millis);
        let terms = LeaseTerms {
            longest,
            at_most: at_most_ms.map(Duration::from_millis),
            on_exit,
            is_election: false,
        };
        let wait = Duration::from_millis(wait_ms);
        Ok(LeaseRequest { wait, terms, room: shared.table.room()?, _place: shared.waits.enter(wait)? })
    }

    /// Takes in what came of it, and tells of it.
    fn enter(
        self,
        shared: &AgentState,
        holding: Holding,
        peer: &Arc<ClientIdentity>,
    ) -> Result<LeaseReply, Problem> {
        let told = shared.table.enter(holding, self.terms, peer);
        drop(self.room);
        told
    }
}
