//! Hints of changes in a store, listened to again whenever they end.

use super::sleep_until;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tenure_core::op::Hint;
use tenure_core::{Clock, ErrorKind, HolderId, StoreError, Tick};
use tenure_store::parts::crashed;
use tenure_store::tell;
use tenure_store::{AnyStore, Changes, Store};

/// How long hints are still listened to though nobody waits any more: mostly somebody does before that. Then the first that comes in vain
/// is the last.
const LINGER: Duration = Duration::from_secs(10);

pub(super) struct Hints {
    /// What the keys begin with that hints are wanted for.
    prefix: String,
    /// Who wants them.
    holder: HolderId,
    is_wanted: bool,
    /// When somebody wanted them last.
    wanted: Tick,
    stream: Option<Changes>,
    /// When to try again to listen.
    retry_at: Option<Tick>,
    failures: u32,
}

impl Hints {
    pub(super) fn of(prefix: String, holder: HolderId) -> Hints {
        Hints { prefix, holder, is_wanted: false, wanted: Tick(0), stream: None, retry_at: None, failures: 0 }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Listens from when they are wanted until they come though nobody has wanted them for long: each costs the store and this process
    /// something. True if it begins.
    pub(super) fn want(&mut self, wanted: bool, has_come: bool, store: &AnyStore, now: Tick) -> bool {
        if wanted {
            self.wanted = now;
            let begins = !self.is_wanted;
            if begins {
                self.begin(store, now);
            }
            return begins;
        }
        if self.is_wanted && has_come && now.since(self.wanted) > LINGER {
            (self.is_wanted, self.stream, self.retry_at, self.failures) = (false, None, None, 0);
        }
        false
    }

    /// Listens from now on, or as soon as that is possible. What changed before has to be looked for once.
    pub(super) fn begin(&mut self, store: &AnyStore, now: Tick) {
        self.is_wanted = true;
        // A store that panics must not take all leases with it.
        let changes = catch_unwind(AssertUnwindSafe(|| store.changed(&self.prefix)));
        match changes.unwrap_or_else(|panic| Err(crashed(ErrorKind::Unknown, &*panic))) {
            Ok(stream) => self.stream = Some(stream),
            Err(error) => self.ended(&error, now),
        }
    }

    /// The next hint. Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self, store: &AnyStore, clock: &dyn Clock) -> Hint {
        loop {
            if let Some(stream) = &mut self.stream {
                if let Some(hint) = stream.recv().await {
                    self.failures = 0;
                    return hint;
                }
                self.ended(&StoreError::unavailable("the store tells of no more changes"), clock.held());
            } else {
                sleep_until(clock, self.retry_at).await;
                self.begin(store, clock.held());
                if self.stream.is_some() {
                    return Hint::Any;
                }
            }
        }
    }

    /// Without hints everything goes on, by polls: so try again, less and less often.
    fn ended(&mut self, error: &StoreError, now: Tick) {
        const FIRST: Duration = Duration::from_millis(250);
        self.stream = None;
        if self.failures == 0 {
            let holder = &self.holder;
            tell!(
                warn, name: "store.hints", target: "tenure::store", %holder, reason = %error,
                "no hints of changes for now: keys that are waited for are polled"
            );
        }
        // Up to 64 s.
        let pause = FIRST * (1 << self.failures.min(8));
        self.failures = self.failures.saturating_add(1);
        self.retry_at = (error.kind() != ErrorKind::Unsupported).then(|| now.after(pause));
    }
}
