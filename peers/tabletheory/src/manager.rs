//! Acquires, refreshes and releases.

use super::calls::Calls;
use super::error::{LeaseError, LeaseKey};
use super::item::ItemLease;
use super::judge::{self, Availability, Still};
use super::lease::{Belief, HeldLease, NextToken, Refreshes};
use super::options::TableTheoryOptions;
use super::orphans::OrphanedClaims;
use super::request::RequestExpressions;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Clock, ErrorKind, InvalidInput, StoreError};
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::service::{Ended, Service};

/// How often a request is repeated whose outcome is not known, before that is told.
const ROUNDS: usize = 3;

/// TableTheory's leases in one table. Clones share their connections.
#[derive(Clone)]
pub struct Manager {
    inner: Arc<SharedManager>,
}

struct SharedManager {
    calls: Calls,
    clock: Arc<dyn Clock>,
    tokens: Box<dyn Fn() -> String + Send + Sync>,
    orphans: OrphanedClaims,
}

impl Manager {
    /// Leases in the table that the options name, with region and credentials as every AWS program finds them unless the options
    /// name them. It looks at the table once (`DescribeTable`), and never makes it.
    ///
    /// `clock` is `tenure::clock::system()`. `tokens` draws a UUID of version 4 for each acquisition: `tenure::clock::uuid`.
    ///
    /// # Errors
    /// Each names the table and the remedy. `Invalid`: the options, a table with other keys, or a role that may not use it.
    /// `Unavailable`: no such table, or the service can't be reached, or there are no credentials.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn open(
        options: TableTheoryOptions,
        clock: Arc<dyn Clock>,
        tokens: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Manager, StoreError> {
        options.check()?;
        let service = Service::connect(&options.place, options.layout()).await?;
        service.examine().await?;
        Ok(Manager::start(service, options, clock, tokens))
    }

    /// The same with a client of the caller's own, whose region, endpoint, credentials, connections and interceptors are used.
    /// Its retries and timeouts are not. Nothing is asked of the service yet, so a role without `DescribeTable` will do.
    ///
    /// # Errors
    /// `Invalid`: the options, or they name what the client has of its own.
    pub fn with_client(
        client: &Client,
        options: TableTheoryOptions,
        clock: Arc<dyn Clock>,
        tokens: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Manager, StoreError> {
        options.check()?;
        options.place.check_bare()?;
        let service = Service::with_client(client, &options.place, options.layout())?;
        Ok(Manager::start(service, options, clock, tokens))
    }

    fn start(
        service: Service,
        options: TableTheoryOptions,
        clock: Arc<dyn Clock>,
        tokens: impl Fn() -> String + Send + Sync + 'static,
    ) -> Manager {
        let calls = Calls { service, options };
        let inner =
            SharedManager { calls, clock, tokens: Box::new(tokens), orphans: OrphanedClaims::default() };
        Manager { inner: Arc::new(inner) }
    }

    /// The lease whose sort key is the lock sort key of the options, `LOCK` by default; otherwise as [`Manager::acquire_key`].
    ///
    /// # Errors
    /// As [`Manager::acquire_key`].
    ///
    /// # Cancel safety
    /// As [`Manager::acquire_key`].
    pub async fn acquire(&self, pk: &str, duration: Duration) -> Result<HeldLease, LeaseError> {
        self.acquire_key(pk, &self.options().lock_sort_key, duration).await
    }

    /// The lease, if nobody holds it. It lasts for `duration`, cut so that it ends at a whole second, and is held for the skew
    /// margin less.
    ///
    /// # Errors
    /// [`LeaseError::Held`]. [`LeaseError::Invalid`], before anything is sent: also of a duration of no more than a second and the skew margin,
    /// of which nothing may be left. `Foreign`, when the item is no lease: it is left as
    /// it is. `Unknown`, when the service could not be asked either what became of the request: whoever asks this manager
    /// again gets the lease if it was won.
    ///
    /// # Cancel safety
    /// When the future is dropped, the lease may have been won. It then ends by itself, unless this manager is asked for it
    /// again before.
    pub async fn acquire_key(&self, pk: &str, sk: &str, duration: Duration) -> Result<HeldLease, LeaseError> {
        let SharedManager { calls, clock, orphans, .. } = &*self.inner;
        let options = self.options();
        let key = LeaseKey { pk: pk.to_owned(), sk: sk.to_owned() };
        options.check_key(&key)?;
        options.check_held(duration)?;
        let token = self.token()?;
        let sent = clock.now();
        let (now, expires_at) = (judge::seconds(sent.wall), judge::expiry(sent.wall, duration));
        let standing = ItemLease { token, expires_at };
        let claim = orphans.claim(&key, &standing.token, expires_at);
        let (mut is_known, mut trouble) = (true, None);
        for _ in 0..ROUNDS {
            // Repeated to the byte: should both take effect, that is one acquisition.
            let answer = calls.put(&key, &standing, RequestExpressions::acquire(&options.names, now)).await;
            let found = match answer {
                Ok(Ended::Done(())) => Ok(Some(standing.clone())),
                Ok(Ended::Refused(old)) => calls.refused(&key, old).await,
                Err(error) if error.kind() == ErrorKind::Unknown => {
                    (is_known, trouble) = (false, Some(error));
                    calls.read(&key).await
                }
                Err(error) => Err(error),
            };
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    if is_known {
                        claim.close();
                    }
                    return Err(trouble.filter(|_| error.is_passing()).unwrap_or(error).into());
                }
            };
            match judge::wanted(found.as_ref(), &standing.token, now) {
                Availability::Mine => {
                    claim.close();
                    // Should a hand have changed what was written, that counts.
                    let expires_at = found.map_or(expires_at, |found| found.expires_at.min(expires_at));
                    let belief = Belief::of(sent, expires_at, options.skew);
                    let ItemLease { token, .. } = standing;
                    return Ok(HeldLease { key, token, expires_at, belief, refreshes: Refreshes::Settled });
                }
                Availability::Held(until) => {
                    if is_known {
                        claim.close();
                    }
                    let by = found.map(|found| found.token).unwrap_or_default();
                    return self.take_up(key, by, until, duration).await;
                }
                // It was given up a moment ago; or the request has not arrived, and is repeated.
                Availability::Free => {}
            }
        }
        if is_known {
            claim.close();
        }
        Err(trouble.map_or(LeaseError::Held { key, until: None }, LeaseError::Store))
    }

    /// What stands in the way may be a claim of this process that nobody waits for.
    async fn take_up(
        &self,
        key: LeaseKey,
        by: String,
        until: i64,
        duration: Duration,
    ) -> Result<HeldLease, LeaseError> {
        let SharedManager { clock, orphans, .. } = &*self.inner;
        if !orphans.take(&key, &by) {
            return Err(LeaseError::Held { key, until: Some(until) });
        }
        let claim = orphans.claim(&key, &by, until);
        // An earlier attempt to take it up may still be on its way, so the token is changed; and should it not be known what
        // becomes of that, the next attempt finds the one or the other.
        let next = self.token()?;
        let changed = orphans.claim(&key, &next, judge::expiry(clock.now().wall, duration));
        let mut lease = HeldLease::known_by(&key.pk, &key.sk, by);
        lease.refreshes = Refreshes::Open(Some(NextToken { token: next, meant: None }));
        let outcome = match self.refresh(&mut lease, duration).await {
            Ok(()) => Ok(lease),
            Err(LeaseError::NotOwned { key }) => Err(LeaseError::Held { key, until: Some(until) }),
            Err(error) => return Err(error),
        };
        claim.close();
        changed.close();
        outcome
    }

    /// Prolongs the lease, so that it ends in `duration` from now: later than before, or sooner.
    ///
    /// One whose belief has ended can be refreshed all the same, as long as its item says that it is ours and not over.
    ///
    /// # Errors
    /// [`LeaseError::NotOwned`] when it is another's or over: it isn't held any more. `Foreign` likewise. After all other errors
    /// it is held for as long as it says.
    ///
    /// # Cancel safety
    /// When the future is dropped, the lease may have been prolonged; it is held for as long as it says.
    pub async fn refresh(&self, lease: &mut HeldLease, duration: Duration) -> Result<(), LeaseError> {
        let SharedManager { calls, clock, .. } = &*self.inner;
        let options = self.options();
        options.check_lease(lease)?;
        options.check_duration(duration)?;
        let mut trouble = None;
        for _ in 0..ROUNDS {
            let sent = clock.now();
            let (now, expires_at) = (judge::seconds(sent.wall), judge::expiry(sent.wall, duration));
            let meant = Belief::of(sent, expires_at, options.skew);
            let before = lease.clone();
            let next = match &mut lease.refreshes {
                Refreshes::Settled => {
                    lease.refreshes = Refreshes::Open(None);
                    None
                }
                Refreshes::Open(next) => {
                    let known = next
                        .take()
                        .map_or_else(|| self.token().map(|token| NextToken { token, meant: None }), Ok)?;
                    let all = known.meant.map_or(meant, |before| before.and(meant));
                    Some(next.insert(NextToken { meant: Some(all), ..known }).clone())
                }
            };
            let (next, all_meant) = next.map(|next| (next.token, next.meant)).unzip();
            // Until it is known, the item may say the one or the other.
            lease.belief = lease.belief.and(meant);
            let asked = RequestExpressions::refresh(options, &before.token, next.as_deref(), expires_at, now);
            let answer = calls.update(&lease.key, asked).await;
            let was_answered = answer.is_ok();
            let found = match answer {
                Ok(Ended::Done(())) => {
                    let token = next.unwrap_or(before.token);
                    *lease = HeldLease {
                        key: before.key,
                        token,
                        expires_at,
                        belief: meant,
                        refreshes: Refreshes::Settled,
                    };
                    return Ok(());
                }
                Ok(Ended::Refused(old)) => calls.refused(&lease.key, old).await,
                Err(error) if error.kind() == ErrorKind::Unknown => {
                    trouble = Some(error);
                    calls.read(&lease.key).await
                }
                Err(error) => {
                    lease.is_as(&before);
                    return Err(trouble.unwrap_or(error).into());
                }
            };
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    if error.kind() == ErrorKind::Foreign {
                        lease.end();
                    }
                    return Err(trouble.filter(|_| error.is_passing()).unwrap_or(error).into());
                }
            };
            match judge::still(found.as_ref(), &lease.token, next.as_deref(), now) {
                Still::Gone => {
                    lease.end();
                    return Err(LeaseError::NotOwned { key: lease.key.clone() });
                }
                Still::Moved(until) => {
                    let token = next.unwrap_or(before.token);
                    // By which of them is not known, nor what the wall clock was then.
                    let belief = all_meant
                        .flatten()
                        .into_iter()
                        .fold(Belief::of(sent, until, options.skew), Belief::and);
                    *lease = HeldLease {
                        key: before.key,
                        token,
                        expires_at: until,
                        belief,
                        refreshes: Refreshes::Settled,
                    };
                }
                // The answer was lost, and the item shows what was asked for, and did not show it before.
                Still::Ours(until)
                    if !was_answered
                        && next.is_none()
                        && until == expires_at
                        && until != before.expires_at =>
                {
                    *lease = HeldLease { expires_at, belief: meant, ..before };
                    return Ok(());
                }
                Still::Ours(_) if was_answered => lease.is_as(&before),
                Still::Ours(_) => {}
            }
        }
        Err(trouble.unwrap_or_else(|| restless(&lease.key)).into())
    }

    /// Gives the lease back. That it is over, or another's, is no error, and changes nothing. It isn't held any more, whatever
    /// comes of this.
    ///
    /// # Errors
    /// When the service can't be reached or refuses. The same may be tried again; else the lease ends by itself.
    ///
    /// # Cancel safety
    /// When the future is dropped, the lease may have been given back or not; it isn't held.
    pub async fn release(&self, lease: &mut HeldLease) -> Result<(), LeaseError> {
        let calls = &self.inner.calls;
        lease.end();
        self.options().check_lease(lease)?;
        let mut trouble = None;
        for _ in 0..ROUNDS {
            let asked = RequestExpressions::is_of(&self.options().names, &lease.token);
            let found = match calls.delete(&lease.key, asked).await {
                Ok(Ended::Done(())) => return Ok(()),
                Ok(Ended::Refused(old)) => calls.refused(&lease.key, old).await,
                Err(error) if error.kind() == ErrorKind::Unknown => {
                    trouble = Some(error);
                    calls.read(&lease.key).await
                }
                Err(error) => Err(error),
            };
            let token = match found {
                Ok(found) => found.map(|found| found.token),
                // What is no lease can't be ours.
                Err(error) if error.kind() == ErrorKind::Foreign => return Ok(()),
                Err(error) => return Err(trouble.unwrap_or(error).into()),
            };
            match (token, &lease.refreshes) {
                (Some(token), _) if token == lease.token => {}
                (Some(token), Refreshes::Open(Some(next))) if token == next.token => {
                    (lease.token, lease.refreshes) = (token, Refreshes::Settled);
                }
                _ => return Ok(()),
            }
        }
        Err(trouble.unwrap_or_else(|| restless(&lease.key)).into())
    }

    /// The lease as its item shows it, whoever holds it; none if there is no item. One whose expiry has come is free.
    ///
    /// # Errors
    /// `Foreign` when the item is no lease; and as every read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn look(&self, pk: &str, sk: &str) -> Result<Option<ItemLease>, LeaseError> {
        let key = LeaseKey { pk: pk.to_owned(), sk: sk.to_owned() };
        Ok(self.inner.calls.read(&key).await?)
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> &TableTheoryOptions {
        &self.inner.calls.options
    }

    /// The clock by which leases are held.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.inner.calls
    }

    /// What would be believed of a lease of `duration` that was asked for now.
    pub(crate) fn prospect(&self, duration: Duration) -> Belief {
        let now = self.inner.clock.now();
        Belief::of(now, judge::expiry(now.wall, duration), self.options().skew)
    }

    fn token(&self) -> Result<String, InvalidInput> {
        let token = (self.inner.tokens)();
        if token.is_empty() && self.options().validated {
            return Err(InvalidInput::new(
                "the generator of tokens has drawn an empty one; let it draw UUIDs",
            ));
        }
        Ok(token)
    }
}

/// Each attempt found something else than the one before.
fn restless(key: &LeaseKey) -> StoreError {
    StoreError::unavailable(format!("the lease {key} changes too often; try again"))
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").field("table", &self.inner.calls.service.table()).finish_non_exhaustive()
    }
}
