//! Leases as plain data, that any process can go on with.

use crate::error::LeaseError;
use crate::leases::Leases;
use crate::prefixes::LeaseKind;
use crate::users::{CommandReply, unexpected};
use tenure_core::{
    Command, Fence, HolderId, InvalidInput, Key, Metadata, Nonce, StoreError, Token, Ttl, Version, Wall,
};
use tenure_store::{AnyStore, Store};

/// A lease as plain data: it lasts for its ttl after each refresh, and whoever has the latest token can prolong it, give
/// it back, or take it up.
///
/// Treat it like a key: having it is all that is asked for. Nobody looks after plain data, so a revocation of it is heard when it is
/// next used: what was revoked is never prolonged, and so it ends within its ttl.
///
/// It is written and read by `serde`, with the feature of that name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LeaseToken {
    store: String,
    key: Key,
    fence: u64,
    tenure: String,
    version: String,
    holder: String,
    ttl_ms: u64,
    since_ms: u64,
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Metadata::is_empty"))]
    metadata: Metadata,
}

impl LeaseToken {
    pub(crate) fn new(store: &AnyStore, token: Token) -> LeaseToken {
        LeaseToken {
            store: store.id(),
            key: token.key,
            fence: token.fence.0,
            tenure: format!("{:032x}", token.id.0),
            version: format!("{:032x}", token.version.0),
            holder: token.holder.as_str().to_owned(),
            ttl_ms: token.ttl.millis(),
            since_ms: token.since.0,
            metadata: token.metadata,
        }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The fencing token.
    #[must_use]
    pub fn fence(&self) -> Fence {
        Fence(self.fence)
    }

    /// The users' fields.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The same with other metadata, written at the next refresh or adoption.
    #[must_use]
    pub fn with_metadata(self, metadata: Metadata) -> LeaseToken {
        LeaseToken { metadata, ..self }
    }

    pub(crate) fn check(&self, leases: &Leases) -> Result<Token, LeaseError> {
        let ours = leases.store().id();
        if self.store != ours {
            return Err(LeaseError::OtherStore { theirs: self.store.clone(), ours });
        }
        tenure_store::codec::check_metadata(&self.metadata)?;
        let checked = self.parse().and_then(|token| {
            leases.inner.check_free(&token.key)?;
            Ok(token)
        });
        checked.map_err(|error| LeaseError::Store(StoreError::from(error)))
    }

    fn parse(&self) -> Result<Token, InvalidInput> {
        if self.fence > Fence::MAX.0 {
            return Err(InvalidInput::new(format!("the token's fence {} is beyond the highest", self.fence)));
        }
        Ok(Token {
            key: self.key.clone(),
            fence: Fence(self.fence),
            id: Nonce(hex(&self.tenure)?),
            version: Version(hex(&self.version)?),
            holder: HolderId::new(&self.holder)?,
            ttl: Ttl::new(std::time::Duration::from_millis(self.ttl_ms))?,
            since: Wall(self.since_ms),
            metadata: self.metadata.clone(),
        })
    }
}

fn hex(text: &str) -> Result<u128, InvalidInput> {
    u128::from_str_radix(text, 16)
        .map_err(|_| InvalidInput::new(format!("the token has {text:?} where 32 hexadecimal digits belong")))
}

impl Leases {
    /// Prolongs a lease that is plain data by its ttl from now, and returns it as it is then.
    ///
    /// # Errors
    /// [`LeaseError::NotOurs`] when it was given up or taken over; [`LeaseError::OtherStore`] when it came from elsewhere;
    /// [`LeaseError::Lost`] when it was revoked: then it is not prolonged, and ends a ttl after it was last.
    ///
    /// # Cancel safety
    /// When the future is dropped the lease may be prolonged or not; the token stays good.
    pub async fn refresh(&self, token: &LeaseToken) -> Result<LeaseToken, LeaseError> {
        let token = Box::new(token.check(self)?);
        let id = self.inner.prefixes.next_id(&token.key, LeaseKind::Lock);
        match self.inner.ask(id, Command::Refresh(id, token)).await {
            Ok(CommandReply::Token(token)) => Ok(LeaseToken::new(self.store(), *token)),
            reply => Err(unexpected(reply.ok())),
        }
    }

    /// Gives a lease back that is plain data. False: it was over already.
    ///
    /// # Errors
    /// As [`Leases::refresh`], but for `NotOurs`.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn give_back(&self, token: &LeaseToken) -> Result<bool, LeaseError> {
        let token = Box::new(token.check(self)?);
        let id = self.inner.prefixes.next_id(&token.key, LeaseKind::Lock);
        match self.inner.ask(id, Command::Return(id, token)).await {
            Ok(CommandReply::Released(ours)) => Ok(ours),
            reply => Err(unexpected(reply.ok())),
        }
    }
}
