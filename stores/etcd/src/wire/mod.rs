//! What is said to etcd: its messages, and the few shapes of them that are used.

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "made of proto/etcd.proto by proto/regenerate.sh"
)]
mod etcdserverpb;

pub(crate) use etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
pub(crate) use etcdserverpb::event::EventType;
pub(crate) use etcdserverpb::request_op::Request;
pub(crate) use etcdserverpb::response_op::Response;
pub(crate) use etcdserverpb::watch_request::RequestUnion;
pub(crate) use etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmResponse, AlarmType, AuthenticateRequest, AuthenticateResponse, Compare,
    DeleteRangeRequest, Event, KeyValue, MemberListRequest, MemberListResponse, PutRequest, RangeRequest,
    RangeResponse, RequestOp, ResponseHeader, ResponseOp, StatusRequest, StatusResponse, TxnRequest,
    TxnResponse, WatchCreateRequest, WatchRequest, WatchResponse,
};

use tenure_store::parts::end_of_prefix;

/// An answer, which tells of which cluster it is.
pub(crate) trait EtcdAnswer: prost::Message + Default + 'static {
    fn header(&self) -> Option<&ResponseHeader>;
}

macro_rules! answers {
    ($($answer:ty),+) => {
        $(impl EtcdAnswer for $answer {
            fn header(&self) -> Option<&ResponseHeader> {
                self.header.as_ref()
            }
        })+
    };
}

answers!(AlarmResponse, MemberListResponse, RangeResponse, TxnResponse);

/// The paths of what is called.
pub(crate) mod path {
    pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";
    pub(crate) const TXN: &str = "/etcdserverpb.KV/Txn";
    pub(crate) const WATCH: &str = "/etcdserverpb.Watch/Watch";
    pub(crate) const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
    pub(crate) const MEMBERS: &str = "/etcdserverpb.Cluster/MemberList";
    pub(crate) const ALARM: &str = "/etcdserverpb.Maintenance/Alarm";
    pub(crate) const STATUS: &str = "/etcdserverpb.Maintenance/Status";
}

/// Nothing stands under a name.
pub(crate) fn is_absent(name: &[u8]) -> Compare {
    compare(name, CompareResult::Equal, TargetUnion::CreateRevision(0))
}

/// What stands there was written by the write of this revision.
pub(crate) fn is_of(name: &[u8], revision: i64) -> Compare {
    compare(name, CompareResult::Equal, TargetUnion::ModRevision(revision))
}

/// What stands there is this to the byte.
pub(crate) fn is_exactly(name: &[u8], value: &[u8]) -> Compare {
    compare(name, CompareResult::Equal, TargetUnion::Value(value.to_vec()))
}

/// What stands there begins with these bytes, and goes on.
pub(crate) fn begins_with(name: &[u8], head: &[u8]) -> Vec<Compare> {
    let mut all = vec![compare(name, CompareResult::Greater, TargetUnion::Value(head.to_vec()))];
    all.extend(end_of_prefix(head).map(|end| compare(name, CompareResult::Less, TargetUnion::Value(end))));
    all
}

fn compare(name: &[u8], result: CompareResult, with: TargetUnion) -> Compare {
    let target = match with {
        TargetUnion::Version(_) => CompareTarget::Version,
        TargetUnion::CreateRevision(_) => CompareTarget::Create,
        TargetUnion::ModRevision(_) => CompareTarget::Mod,
        TargetUnion::Value(_) => CompareTarget::Value,
    };
    Compare { result: result.into(), target: target.into(), key: name.to_vec(), target_union: Some(with) }
}

pub(crate) fn range(name: &[u8], serializable: bool) -> RangeRequest {
    RangeRequest { key: name.to_vec(), serializable, ..RangeRequest::default() }
}

pub(crate) fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}
