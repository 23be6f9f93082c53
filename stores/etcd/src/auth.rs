//! Who calls, where the cluster asks for that: a pass that etcd gives for a name and a password, and takes for a while.

use crate::config::User;
use crate::error::AttemptError;
use crate::unary::unary;
use crate::wire::{AuthenticateRequest, AuthenticateResponse, path};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure_core::StoreError;
use tokio::sync::Mutex;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request};

/// Gets passes, one at a time: checking a password costs etcd a tenth of a second.
pub(crate) struct Passes {
    user: Option<User>,
    current: Mutex<Option<Pass>>,
    /// The number of the last pass that was not accepted.
    refused: AtomicU64,
    /// How long a member may take to give one. All others wait for it meanwhile.
    limit: Duration,
}

/// What a request is marked with.
#[derive(Clone)]
pub(crate) struct Pass {
    number: u64,
    token: Option<MetadataValue<Ascii>>,
}

impl Passes {
    pub(crate) fn new(user: Option<User>, limit: Duration) -> Passes {
        Passes { user, current: Mutex::default(), refused: AtomicU64::new(0), limit }
    }

    /// The present pass, or a new one of this member where that was not accepted. Whoever waits for others that get one asks the member only
    /// while it is `used`: it may have been left meanwhile, since it is silent.
    pub(crate) async fn current(
        &self,
        place: &str,
        channel: Channel,
        used: impl Fn() -> bool,
    ) -> Result<Pass, AttemptError> {
        let Some(user) = &self.user else { return Ok(Pass { number: 0, token: None }) };
        let mut current = self.current.lock().await;
        let last = current.as_ref().map_or(0, |pass| pass.number);
        if let Some(pass) = current.as_ref().filter(|_| last > self.refused.load(Ordering::SeqCst)) {
            return Ok(pass.clone());
        }
        if !used() {
            return Err(AttemptError::unanswered(place, false));
        }
        // It may be another one than last time. No member can help where it can't be read.
        let password = match tokio::time::timeout(self.limit, user.password.text()).await {
            Ok(password) => password.map_err(AttemptError::Refused)?,
            Err(_) => {
                let error = format!("the password file was not read within {:?}", self.limit);
                return Err(AttemptError::Refused(StoreError::unavailable(error)));
            }
        };
        let getting = self.get(user, password, place, channel);
        let token = match tokio::time::timeout(self.limit, getting).await {
            Ok(token) => token?,
            Err(_) => return Err(AttemptError::unanswered(place, false)),
        };
        let pass = Pass { number: last + 1, token };
        *current = Some(pass.clone());
        Ok(pass)
    }

    /// What a member gives for the name and the password; none where the cluster asks nobody.
    async fn get(
        &self,
        user: &User,
        password: String,
        place: &str,
        channel: Channel,
    ) -> Result<Option<MetadataValue<Ascii>>, AttemptError> {
        let question = AuthenticateRequest { name: user.name.clone(), password };
        let answer: Result<AuthenticateResponse, _> =
            unary(channel, path::AUTHENTICATE, Request::new(question)).await;
        match answer {
            Ok(answer) => {
                let mut token: MetadataValue<Ascii> = answer.token.parse().map_err(|_| {
                    AttemptError::Elsewhere(StoreError::unavailable(format!(
                        "{place}: its pass can't be sent back"
                    )))
                })?;
                token.set_sensitive(true);
                Ok(Some(token))
            }
            Err(status) if status.code() == Code::FailedPrecondition => Ok(None),
            Err(status) => Err(match AttemptError::of(place, &status) {
                // Whatever became of this, what was to be asked was not sent.
                AttemptError::Broken(error) | AttemptError::Pass(error) => AttemptError::Elsewhere(error),
                fault => fault,
            }),
        }
    }

    /// A pass was not accepted: it is over, or its member knows nothing of it any more.
    pub(crate) fn refused(&self, pass: &Pass) {
        self.refused.fetch_max(pass.number, Ordering::SeqCst);
    }
}

impl Pass {
    pub(crate) fn mark<T>(&self, request: &mut Request<T>) {
        let metadata = request.metadata_mut();
        // A member that sees no leader says so at once, and another one is asked.
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            metadata.insert("token", token.clone());
        }
    }
}

impl std::fmt::Debug for Passes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passes")
            .field("user", &self.user.as_ref().map(|user| &user.name))
            .finish_non_exhaustive()
    }
}
