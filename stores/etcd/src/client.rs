//! What all calls of a store share: the cluster's members, the prefix, and what was last seen below it.

use crate::connect::MemberChannels;
use crate::error::is_turned_away;
use crate::memo::Memo;
use tenure_core::StoreError;
use tenure_store::Capabilities;
use tenure_store::parts::{Admission, Right};

pub(crate) struct EtcdClient {
    pub(crate) channels: MemberChannels,
    pub(crate) prefix: String,
    pub(crate) memo: Memo,
    pub(crate) id: String,
    pub(crate) capabilities: Capabilities,
    pub(crate) admission: Admission,
}

impl EtcdClient {
    /// What comes of a call: whoever was let in before is to be let in again. Of its other rights nothing is remembered, as etcd has them for each
    /// key by itself.
    pub(crate) fn judged<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        self.admission.judged(Right::Login, is_turned_away, |_| true, answer)
    }
}
