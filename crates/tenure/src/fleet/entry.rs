//! The entry into a fleet: a worker takes part only where the others divide units as it does.

use super::membership::Membership;
use super::shared_worker::SharedWorker;
use crate::driver::NOW_AND_THEN;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tenure_core::fleet::{FleetCommand, other_layout};
use tenure_core::{ErrorKind, StoreError};
use tenure_store::parts::caught;
use tenure_store::tell;
use tokio::sync::mpsc;

/// The longest pause before the store is asked again.
const MOMENT: Duration = Duration::from_secs(5);

/// Has the worker join, unless the fleet is of another layout. A store that does not answer is asked again. One that can't answer that
/// question, as where it refuses listings, does not keep anybody out, and that is told.
pub(super) fn enter(
    inner: &Arc<SharedWorker>,
    commands: mpsc::UnboundedSender<FleetCommand>,
) -> impl Future<Output = ()> + Send + use<> {
    let (fleet, ttl) = (inner.fleet.clone(), inner.ttl);
    let mut entry = inner.entry.subscribe();
    // Whoever waits for the worker must not be kept waiting by this.
    let inner: Weak<SharedWorker> = Arc::downgrade(inner);
    async move {
        let mut told = None;
        loop {
            let asked = async {
                let late = |_| StoreError::unavailable("no answer in time");
                // A store that panics must not take the worker with it.
                let call = caught(ErrorKind::Unknown, fleet.of_another_layout());
                tokio::time::timeout(ttl.duration(), call).await.unwrap_or_else(|at| Err(late(at)))
            };
            // An error means that nobody wants the worker any more.
            let left = entry.wait_for(|entry| matches!(entry, Membership::Left));
            let Some(answer) = before(left, asked).await else { break send(&commands, FleetCommand::Stop) };
            match answer {
                Ok(Some(worker)) => break refuse(&inner, &commands, other_layout(fleet.name(), &worker)),
                Err(error) if error.is_passing() => {
                    let now = fleet.clock().held();
                    let is_due = told.is_none_or(|told| now.since(told) >= NOW_AND_THEN);
                    told = if is_due { Some(now) } else { told };
                    trouble(&inner, error, is_due);
                }
                Ok(None) => break send(&commands, FleetCommand::Join),
                Err(error) => {
                    trouble(&inner, error, true);
                    break send(&commands, FleetCommand::Join);
                }
            }
            let left = entry.wait_for(|entry| matches!(entry, Membership::Left));
            if before(left, tokio::time::sleep(ttl.part(16).min(MOMENT))).await.is_none() {
                break send(&commands, FleetCommand::Stop);
            }
        }
    }
}

/// What comes of `work`, if it ends before that.
async fn before<T>(end: impl Future, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        _ = end => None,
        done = work => Some(done),
    }
}

fn send(commands: &mpsc::UnboundedSender<FleetCommand>, command: FleetCommand) {
    // The driver only ends after the worker has stopped.
    let _ = commands.send(command);
}

fn trouble(inner: &Weak<SharedWorker>, error: StoreError, is_told: bool) {
    let Some(inner) = inner.upgrade() else { return };
    if is_told {
        let holder = &inner.holder;
        tell!(
            warn, name: "fleet.failing", target: "tenure::fleet", %holder, reason = %error,
            "the store could not be asked about the fleet"
        );
    }
    inner.trouble.send_replace(Some(error));
}

fn refuse(inner: &Weak<SharedWorker>, commands: &mpsc::UnboundedSender<FleetCommand>, error: StoreError) {
    if let Some(inner) = inner.upgrade() {
        let holder = &inner.holder;
        tell!(
            error, name: "fleet.refused", target: "tenure::fleet", %holder, reason = %error,
            "the fleet's workers divide units in another way"
        );
        inner.trouble.send_replace(Some(error.clone()));
        inner.entry.send_replace(Membership::Refused(error));
    }
    send(commands, FleetCommand::Stop);
}
