//! What all calls of a store share: the cluster's members, the prefix, and what was last seen below it.

use crate::connect::MemberChannels;
use crate::error::{is_denial, is_turned_away};
use crate::memo::Memo;
use tenure_core::StoreError;
use tenure_store::Capabilities;
use tenure_store::parts::{Admission, Right};

pub(crate) struct EtcdClient {
    pub(crate) lines: MemberChannels,
    pub(crate) prefix: String,
    pub(crate) memo: Memo,
    pub(crate) id: String,
    pub(crate) capabilities: Capabilities,
    pub(crate) admission: Admission,
}

impl EtcdClient {
    /// What comes of a call that needs a right.
    pub(crate) fn judged<T>(&self, right: Right, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        let answer = self.admission.judged(Right::Login, is_turned_away, answer);
        self.admission.judged(right, is_denial, answer)
    }
}
