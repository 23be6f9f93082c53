//! What the answers to all requests of clients share.

use crate::config::Limits;
use crate::history::TenureHistory;
use crate::lease_table::LeaseTable;
use crate::metrics_server::Scrape;
use crate::news::NewsFeed;
use crate::page_room::PageRoom;
use crate::problem::Problem;
use crate::room::ConnectionRoom;
use crate::sections::Sections;
use crate::seizures::Seizures;
use crate::waits::Waits;
use crate::workers::Workers;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::{AcquireError, ErrorKind, Guard, Leases, Store, StoreError};
use tokio::task::AbortHandle;

pub(crate) struct AgentState {
    pub(crate) leases: Leases,
    pub(crate) table: Arc<LeaseTable>,
    pub(crate) history: Arc<TenureHistory>,
    pub(crate) news: Arc<NewsFeed>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) sections: Mutex<Sections>,
    pub(crate) limits: Limits,
    /// Of all its connections. Who may only look has half of it at the most.
    pub(crate) room: Arc<ConnectionRoom>,
    /// Of those among them that are kept for long.
    pub(crate) waits: Waits,
    pub(crate) pages: PageRoom,
    pub(crate) scrape: Option<Scrape>,
    pub(crate) seizures: Seizures,
    sweeper: AbortHandle,
}

impl AgentState {
    /// The sweeper of clients' leases begins with it.
    pub(crate) fn new(leases: Leases, limits: Limits, scrape: Option<Scrape>) -> AgentState {
        let history = Arc::new(TenureHistory::new(Arc::clone(leases.clock())));
        let table = LeaseTable::new(&leases, Arc::clone(&history), &limits);
        let news = NewsFeed::new();
        let sweeper = {
            let table = Arc::clone(&table);
            tokio::spawn(async move { table.sweep().await }).abort_handle()
        };
        let (workers, sections, seizures) = (Arc::default(), Mutex::default(), Seizures::new());
        let room =
            ConnectionRoom::of_clients(limits.connections, limits.strangers, limits.connections.div_ceil(2));
        AgentState {
            leases,
            table,
            history,
            news,
            workers,
            sections,
            limits,
            waits: Waits::among(limits.connections, &room),
            pages: PageRoom::new(),
            room,
            scrape,
            seizures,
            sweeper,
        }
    }
}

impl AgentState {
    /// What is answered to whoever could not have a lease. Each is attached to the agent's session, so that it may be the record of that which can't be
    /// read: this says nothing of the key that was asked for.
    pub(crate) async fn refusal(&self, error: AcquireError) -> Problem {
        const PATIENCE: Duration = Duration::from_secs(2);
        if let AcquireError::Store(error) = &error
            && error.kind() == ErrorKind::Foreign
        {
            let session = self.leases.store().read(self.leases.session_key());
            if let Ok(Err(found)) = tokio::time::timeout(PATIENCE, session).await
                && found.kind() == ErrorKind::Foreign
            {
                return self.without_session(&found);
            }
        }
        error.into()
    }

    /// The lease that was acquired, or what is answered.
    pub(crate) async fn acquired(&self, outcome: Result<Guard, AcquireError>) -> Result<Guard, Problem> {
        match outcome {
            Ok(guard) => Ok(guard),
            Err(error) => Err(self.refusal(error).await),
        }
    }

    /// What is answered while the record of the agent's session can't be had.
    pub(crate) fn without_session(&self, error: &StoreError) -> Problem {
        if error.kind() != ErrorKind::Foreign {
            return Problem::unavailable(error.to_string());
        }
        let key = self.leases.session_key();
        Problem::unavailable(format!(
            "the agent's own session can't be read ({error}): see `tenure rm --damaged {key}`, or start the agent anew"
        ))
    }
}

impl Drop for AgentState {
    fn drop(&mut self) {
        self.sweeper.abort();
        self.news.stop();
    }
}
