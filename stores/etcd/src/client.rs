//! What all calls of a store share: the cluster's members, the prefix, and what was last seen below it.

use crate::connect::MemberChannels;
use crate::memo::Memo;
use tenure_store::Capabilities;

pub(crate) struct EtcdClient {
    pub(crate) lines: MemberChannels,
    pub(crate) prefix: String,
    pub(crate) memo: Memo,
    pub(crate) id: String,
    pub(crate) capabilities: Capabilities,
}
