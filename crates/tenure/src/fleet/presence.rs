//! What stands for a worker: while any of it is there, the worker takes part.

use super::shared_worker::SharedWorker;
use std::sync::Arc;
use tenure_core::fleet::FleetCommand;

/// What becomes of a worker's units when all that stands for it is dropped.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AtStop {
    /// As [`Worker::leave`](super::Worker::leave): they are passed on to the others, without a gap.
    #[default]
    PassOn,
    /// As [`Worker::stop`](super::Worker::stop): they are given up, and others take them once they notice.
    GiveUp,
}

/// The worker takes part as long as somebody has one of these.
pub(super) struct WorkerPresence {
    worker: Arc<SharedWorker>,
    at_stop: AtStop,
}

impl WorkerPresence {
    pub(super) fn new(worker: Arc<SharedWorker>, at_stop: AtStop) -> WorkerPresence {
        WorkerPresence { worker, at_stop }
    }

    pub(super) fn worker(&self) -> &Arc<SharedWorker> {
        &self.worker
    }
}

impl Drop for WorkerPresence {
    fn drop(&mut self) {
        match self.at_stop {
            AtStop::PassOn => self.worker.send(FleetCommand::Leave),
            AtStop::GiveUp => self.worker.stop(),
        }
    }
}
