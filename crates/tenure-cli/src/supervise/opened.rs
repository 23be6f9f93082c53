//! The store of a verb that stays: waited for while it is away, and then watched.

use super::outage::Outage;
use crate::exit::Failure;
use crate::stores::away::opened;
use crate::stores::file::FileWatch;
use crate::stores::{Missing, Url};
use std::sync::Arc;
use std::time::Duration;
use tenure::{AnyStore, Clock, Leases, LeasesBuilder};

/// A store that was opened for a verb.
pub(crate) struct OpenedStore {
    pub(crate) store: AnyStore,
    pub(crate) clock: Arc<dyn Clock>,
    /// What the store fails at.
    pub(crate) outage: Arc<Outage>,
    pub(crate) file: FileWatch,
}

impl OpenedStore {
    /// Made where there is none. `patience`: for how long one that is away is waited for.
    pub(crate) async fn open(
        url: &Url,
        patience: Duration,
        outage: Arc<Outage>,
    ) -> Result<OpenedStore, Failure> {
        let clock: Arc<dyn Clock> = tenure::clock::system();
        let store = opened(patience, async || url.open(Missing::Create, Arc::clone(&clock)).await).await?;
        Ok(OpenedStore { store: outage.watch(store), clock, outage, file: url.watch() })
    }

    /// Leases in it.
    pub(crate) fn leases(&self) -> LeasesBuilder {
        Leases::builder(self.store.clone()).clock(Arc::clone(&self.clock))
    }
}
