//! Who calls, where the cluster asks for that: a pass that etcd gives for a name and a password, and takes for a while.

use crate::config::User;
use crate::error::AttemptError;
use crate::unary::unary;
use crate::wire::{AuthenticateRequest, AuthenticateResponse, path};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure_core::StoreError;
use tenure_store::parts::SharedCall;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request};

/// Gets passes, one at a time: checking a password costs etcd a tenth of a second.
pub(crate) struct Passes {
    login: Option<Arc<Login>>,
    /// The member that is asked for one, and what it gave.
    getting: SharedCall<(usize, Result<Pass, AttemptError>)>,
}

/// The name and the password that are given for passes, and the pass that they got.
struct Login {
    user: User,
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
        let login = |user| Login { user, current: Mutex::default(), refused: AtomicU64::new(0), limit };
        Passes { login: user.map(|user| Arc::new(login(user))), getting: SharedCall::default() }
    }

    /// The present pass, or a new one of this member where that was not accepted. Whoever waits for another member that is asked for one asks its
    /// own only while it is `used`: it may have been left meanwhile, since it is silent.
    pub(crate) async fn current(
        &self,
        place: &str,
        (member, at): (Channel, usize),
        used: impl Fn() -> bool,
    ) -> Result<Pass, AttemptError> {
        let Some(login) = &self.login else { return Ok(Pass { number: 0, token: None }) };
        loop {
            if let Some(pass) = login.accepted() {
                return Ok(pass);
            }
            if !used() {
                return Err(AttemptError::unanswered(place, false));
            }
            let got = self.getting.join(|| {
                let (login, place, member) = (Arc::clone(login), place.to_owned(), member.clone());
                async move {
                    let got = tokio::time::timeout(login.limit, login.get(&place, member)).await;
                    (at, got.unwrap_or_else(|_| Err(AttemptError::unanswered(&place, false))))
                }
            });
            match got.await {
                Some((asked, got)) if got.is_ok() || asked == at => return got,
                // What another member says of it is told to those who asked that one.
                Some(_) => (),
                None => return Err(AttemptError::unanswered(place, false)),
            }
        }
    }

    /// A pass was not accepted: it is over, or its member knows nothing of it any more.
    pub(crate) fn refused(&self, pass: &Pass) {
        if let Some(login) = &self.login {
            login.refused.fetch_max(pass.number, Ordering::SeqCst);
        }
    }
}

impl Login {
    fn last(&self) -> Option<Pass> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last pass, unless that was not accepted.
    fn accepted(&self) -> Option<Pass> {
        self.last().filter(|pass| pass.number > self.refused.load(Ordering::SeqCst))
    }

    /// A new pass of this member, unless there is one since.
    async fn get(&self, place: &str, member: Channel) -> Result<Pass, AttemptError> {
        if let Some(pass) = self.accepted() {
            return Ok(pass);
        }
        // It may be another one than last time. No member can help where it can't be read.
        let password = match tokio::time::timeout(self.limit, self.user.password.text()).await {
            Ok(password) => password.map_err(AttemptError::Refused)?,
            Err(_) => {
                let error = format!("the password file was not read within {:?}", self.limit);
                return Err(AttemptError::Refused(StoreError::unavailable(error)));
            }
        };
        let token = self.ask(password, place, member).await?;
        let mut last = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // Another runtime may have got one meanwhile. Each has a number of its own.
        let pass = Pass { number: last.as_ref().map_or(0, |pass| pass.number) + 1, token };
        *last = Some(pass.clone());
        Ok(pass)
    }

    /// What a member gives for the name and the password; none where the cluster asks nobody.
    async fn ask(
        &self,
        password: String,
        place: &str,
        member: Channel,
    ) -> Result<Option<MetadataValue<Ascii>>, AttemptError> {
        let question = AuthenticateRequest { name: self.user.name.clone(), password };
        let answer: Result<AuthenticateResponse, _> =
            unary(member, path::AUTHENTICATE, Request::new(question)).await;
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
            .field("user", &self.login.as_ref().map(|login| &login.user.name))
            .finish_non_exhaustive()
    }
}
