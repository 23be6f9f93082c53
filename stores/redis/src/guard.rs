//! A tenure as a condition of a write of the caller's own.

use crate::client::RedisClient;
use crate::read;
use crate::scripts::Invocation;
use crate::value::{fence_digits, timed};
use redis::Value;
use tenure_core::{Fence, Key, StoreError};

/// How all keys of tenure's begin, of whatever namespace.
const OURS: &str = "tenure:{";

/// What holds only while a tenure stands; see [`crate::RedisStore::guard`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisGuard {
    /// Records, and the fences of the tenures that they must show.
    conditions: Vec<(Key, Fence)>,
}

impl RedisGuard {
    pub(crate) async fn of(
        inner: &RedisClient,
        key: &Key,
        fence: Fence,
    ) -> Result<Option<RedisGuard>, StoreError> {
        let standing = read::one(inner, key).await?.filter(|standing| standing.record.fence == fence);
        let Some(tenure) = standing.and_then(|standing| standing.record.tenure) else { return Ok(None) };
        let mut conditions = vec![(key.clone(), fence)];
        if let Some(attachment) = tenure.attachment {
            let session = read::one(inner, &attachment.session).await?;
            let lives = session.is_some_and(|session| {
                session.record.fence == attachment.fence && session.record.tenure.is_some()
            });
            if !lives {
                return Ok(None);
            }
            conditions.push((attachment.session, attachment.fence));
        }
        Ok(Some(RedisGuard { conditions }))
    }

    pub(crate) async fn set(
        &self,
        inner: &RedisClient,
        name: &str,
        value: &[u8],
    ) -> Result<bool, StoreError> {
        let [records, index] = &inner.keys;
        if name.is_empty() || name.starts_with(OURS) {
            return Err(StoreError::invalid(format!(
                "{name:?} is not for values of your own; choose a name that does not begin with {OURS:?}"
            )));
        }
        if slot(name) != slot(records) && inner.connections.is_cluster().await? {
            return Err(StoreError::invalid(format!(
                "{name:?} is in another slot of the cluster than the leases of {}, and one script can't reach both; put {{{}}} into the name",
                inner.connections.place,
                tag(records)
            )));
        }
        let keys = [records.clone(), index.clone(), name.to_owned()];
        let fences: Vec<Vec<u8>> = self.conditions.iter().map(|(_, fence)| fence_digits(*fence)).collect();
        let conditions = self.conditions.iter().zip(&fences);
        let script = Invocation::new(&inner.scripts.guard, &keys)
            .arg(value)
            .args(conditions.flat_map(|((key, _), fence)| [key.as_str().as_bytes(), fence.as_slice()]));
        let written = inner.connections.write(&script).await?;
        match timed(&inner.connections.place, &written.answer)? {
            (_, [Value::Int(1)]) => written.confirm().await.map(|()| true),
            (_, [Value::Int(0)]) => written.refused().await.map(|()| false),
            _ => {
                let place = &inner.connections.place;
                Err(StoreError::unknown(format!("{place}: a guarded write was answered unclearly")))
            }
        }
    }
}

/// What of a key decides on its slot.
fn tag(key: &str) -> &str {
    let braced = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    braced.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// The slot of a cluster in which a key is: CRC-16 (XMODEM) of its tag, in 14 bits.
fn slot(key: &str) -> u16 {
    let crc = tag(key).bytes().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % 16384
}

#[cfg(test)]
mod tests {
    //! Plan: slots are those that CLUSTER KEYSLOT tells.
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!((slot("123456789"), slot("foo"), slot("bar")), (0x31c3, 12182, 5061));
        assert_eq!(slot("tenure:{foo}:records"), slot("foo"));
        assert_eq!(slot("{foo}{bar}"), slot("foo"));
        assert_eq!((tag("{}x"), tag("{x"), tag("a{b}c}")), ("{}x", "{x", "b"));
    }
}
