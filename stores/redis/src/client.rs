//! What all calls of a store share: the connections to the servers, the scripts, and the names of what they work on.

use crate::connection_manager::ConnectionManager;
use crate::error::is_denial;
use crate::listen::ChannelSubscriber;
use crate::scripts::Scripts;
use crate::value::ServerTime;
use std::sync::Arc;
use tenure_core::StoreError;
use tenure_store::Capabilities;
use tenure_store::parts::{Admission, Right};

pub(crate) struct RedisClient {
    pub(crate) connections: Arc<ConnectionManager>,
    pub(crate) scripts: Scripts,
    /// The hash of the records, and the index of their keys.
    pub(crate) keys: [String; 2],
    pub(crate) channel: String,
    pub(crate) tells_ages: bool,
    pub(crate) id: String,
    pub(crate) capabilities: Capabilities,
    pub(crate) listener: Option<ChannelSubscriber>,
    /// What was allowed before, of which connections know, too.
    pub(crate) admission: Arc<Admission>,
}

impl RedisClient {
    /// What comes of a call that needs a right. `shows`: whether this answer took a command that needs it.
    pub(crate) fn judged<T>(
        &self,
        right: Right,
        shows: impl FnOnce(&T) -> bool,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.admission.judged(right, is_denial, shows, answer)
    }

    /// The server's time, where ages are told.
    pub(crate) fn told(&self, now: ServerTime) -> Option<ServerTime> {
        self.tells_ages.then_some(now)
    }
}
