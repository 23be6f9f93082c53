//! What stores in SQL keep of a record in columns of its own, beside the record itself: what conditions and guards compare.

use tenure_core::{Fence, Record, StoreError};

/// The columns of a row besides its key, its age and the record. `I` is the type of ids, which have 16 bytes; `K` is that of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns<I, K> {
    /// What the store knows the record's last write by.
    pub version: I,
    /// The record's fence.
    pub fence: i64,
    /// The tenure's id.
    pub tenure: Option<I>,
    /// The key of the session that the tenure is attached to.
    pub ride_key: Option<K>,
    /// The fence of that session.
    pub ride_fence: Option<i64>,
}

impl<I, K> Columns<I, K>
where
    I: From<[u8; 16]> + PartialEq,
    K: for<'a> From<&'a str> + PartialEq,
{
    /// Those of `record`, whose last write is known by `version`.
    #[must_use]
    pub fn of(record: &Record, version: u128) -> Self {
        let id = |id: u128| I::from(id.to_be_bytes());
        let tenure = record.tenure.as_ref();
        let attachment = tenure.and_then(|tenure| tenure.attachment.as_ref());
        Columns {
            version: id(version),
            fence: fence_column(record.fence),
            tenure: tenure.map(|tenure| id(tenure.id.0)),
            ride_key: attachment.map(|attachment| K::from(attachment.session.as_str())),
            ride_fence: attachment.map(|attachment| fence_column(attachment.fence)),
        }
    }

    /// Refuses a row whose columns are not those of its record: tenure did not write it.
    ///
    /// # Errors
    /// `Foreign`.
    pub fn check(&self, record: &Record, version: u128) -> Result<(), StoreError> {
        if *self == Columns::of(record, version) {
            return Ok(());
        }
        Err(StoreError::foreign("its columns contradict its record; it was changed by hand"))
    }
}

/// A fence as a column has it. No record's fence is higher than what fits.
#[must_use]
pub fn fence_column(fence: Fence) -> i64 {
    i64::try_from(fence.0).unwrap_or(i64::MAX)
}
