//! A tenure as a condition of the caller's own transaction.

use crate::client::EtcdClient;
use crate::error::Call;
use crate::wire::{PutRequest, Request, TxnRequest, TxnResponse, begins_with, op, path};
use crate::{pair, read};
use tenure_core::{Fence, Key, StoreError};

/// Comparisons that hold only while a tenure stands; see [`crate::EtcdStore::guard`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdGuard {
    conditions: Vec<Condition>,
}

/// One value lies between two bounds: for any client of etcd, two comparisons of the target `VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Condition {
    /// The name in etcd whose value is compared.
    pub name: Vec<u8>,
    /// What the value is greater than, byte by byte.
    pub greater: Vec<u8>,
    /// What it is less than.
    pub less: Vec<u8>,
}

impl EtcdGuard {
    pub(crate) async fn of(
        inner: &EtcdClient,
        key: &Key,
        fence: Fence,
    ) -> Result<Option<EtcdGuard>, StoreError> {
        let standing = read::one(inner, key).await?.filter(|standing| standing.record.fence == fence);
        let Some(tenure) = standing.and_then(|standing| standing.record.tenure) else { return Ok(None) };
        let mut conditions = vec![Condition::held(&inner.prefix, key, fence)];
        if let Some(attachment) = &tenure.attachment {
            let session = read::one(inner, &attachment.session).await?;
            let lives = session.is_some_and(|session| {
                session.record.fence == attachment.fence && session.record.tenure.is_some()
            });
            if !lives {
                return Ok(None);
            }
            conditions.push(Condition::held(&inner.prefix, &attachment.session, attachment.fence));
        }
        Ok(Some(EtcdGuard { conditions }))
    }

    /// What the caller's transaction has to compare: all of these must hold.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    pub(crate) async fn put(
        &self,
        inner: &EtcdClient,
        name: &[u8],
        value: &[u8],
    ) -> Result<bool, StoreError> {
        let compare = self.conditions.iter().flat_map(|one| begins_with(&one.name, &one.greater)).collect();
        let put = PutRequest { key: name.to_vec(), value: value.to_vec() };
        let txn = TxnRequest { compare, success: vec![op(Request::RequestPut(put))], failure: Vec::new() };
        let answer: TxnResponse = inner.channels.ask(Call::Write, path::TXN, txn).await?;
        Ok(answer.succeeded)
    }
}

impl Condition {
    /// A value that begins with this head and goes on; the next fence is that of another tenure.
    fn held(prefix: &str, key: &Key, fence: Fence) -> Condition {
        let (greater, less) = (pair::head(true, fence), pair::head(true, Fence(fence.0.saturating_add(1))));
        Condition { name: pair::name(prefix, key), greater: greater.to_vec(), less: less.to_vec() }
    }
}
