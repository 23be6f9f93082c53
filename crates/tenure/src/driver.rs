//! The driver: one task that performs what a machine asks for, and keeps one wake-up.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::op::{Answer, Event, Machine, Op, OpId, Request, Step};
use tenure_core::{Clock, StoreError, Tick};
use tenure_store::{AnyStore, Changes, Store};
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};

/// Operations other than renewals that are under way at a time.
const MOST_IN_FLIGHT: usize = 1024;

/// Where a machine's notices go. What it returns is fed back as commands.
pub(crate) trait Sink<M: Machine> {
    fn tell(&mut self, notice: M::Notice, commands: &mut Vec<M::Command>) -> ControlFlow<()>;
}

type Finished = (OpId, bool, Result<Answer, StoreError>);

pub(crate) struct Driver<M: Machine, S> {
    pub(crate) machine: M,
    pub(crate) store: AnyStore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) commands: mpsc::UnboundedReceiver<M::Command>,
    /// Turns true once someone waits for a key: from then on the store's hints are listened to.
    pub(crate) listen: watch::Receiver<bool>,
    /// What the keys begin with that hints are wanted for.
    pub(crate) watches: String,
    pub(crate) sink: S,
}

impl<M: Machine, S: Sink<M>> Driver<M, S> {
    /// Runs until the sink says so, or until all who could give commands are gone and `farewell` is through.
    pub(crate) async fn run(mut self, farewell: impl FnOnce() -> M::Command) {
        let mut farewell = Some(farewell);
        let mut flights = Flights::default();
        let mut wake_at: Option<Tick> = None;
        let mut hints: Option<Changes> = None;
        loop {
            let event = tokio::select! {
                biased;
                finished = flights.next(), if !flights.running.is_empty() => {
                    let Some((op, result)) = finished else { continue };
                    Event::Answer(op, result)
                }
                () = sleep_until(&*self.clock, wake_at) => Event::Wake,
                command = self.commands.recv(), if farewell.is_some() => match (command, farewell.take()) {
                    (Some(command), last) => {
                        farewell = last;
                        Event::Command(command)
                    }
                    (None, Some(last)) => Event::Command(last()),
                    (None, None) => continue,
                },
                hint = next_hint(&mut hints) => match hint {
                    Some(key) => Event::Changed(key),
                    None => {
                        hints = None;
                        continue;
                    }
                },
                Ok(()) = self.listen.changed(), if hints.is_none() => {
                    hints = self.store.changed(&self.watches).ok();
                    // What changed while nobody listened has to be looked for once.
                    Event::Changed(None)
                }
            };
            let mut commands = VecDeque::new();
            let mut event = Some(event);
            while let Some(next) = event.take().or_else(|| commands.pop_front().map(Event::Command)) {
                let step = self.machine.step(self.clock.now(), next);
                let Step { requests, notices, wake_at: next_wake } = step;
                wake_at = next_wake;
                for request in requests {
                    flights.start(&self.store, request);
                }
                let mut more = Vec::new();
                for notice in notices {
                    if self.sink.tell(notice, &mut more).is_break() {
                        return;
                    }
                }
                commands.extend(more);
            }
        }
    }
}

async fn next_hint(hints: &mut Option<Changes>) -> Option<Option<tenure_core::Key>> {
    match hints {
        Some(hints) => hints.recv().await,
        None => std::future::pending().await,
    }
}

pub(crate) async fn sleep_until(clock: &dyn Clock, wake_at: Option<Tick>) {
    /// The runtime's timer stops while the machine is suspended, so a long sleep is cut: what is due is late by no more.
    const LONGEST: Duration = Duration::from_secs(30);
    match wake_at {
        Some(at) => tokio::time::sleep(at.since(clock.held()).min(LONGEST)).await,
        None => std::future::pending().await,
    }
}

/// The operations under way, and those that wait for their turn. Renewals don't wait.
#[derive(Default)]
struct Flights {
    running: JoinSet<Finished>,
    ops: BTreeMap<Id, (OpId, bool)>,
    ordinary: usize,
    waiting: VecDeque<Request>,
    store: Option<AnyStore>,
}

impl Flights {
    fn start(&mut self, store: &AnyStore, request: Request) {
        self.store.get_or_insert_with(|| store.clone());
        if !request.urgent && self.ordinary >= MOST_IN_FLIGHT {
            self.waiting.push_back(request);
        } else {
            self.launch(store.clone(), request);
        }
    }

    fn launch(&mut self, store: AnyStore, request: Request) {
        let Request { id, op, timeout, urgent } = request;
        self.ordinary += usize::from(!urgent);
        let handle = self.running.spawn(async move { (id, urgent, perform(&store, op, timeout).await) });
        self.ops.insert(handle.id(), (id, urgent));
    }

    async fn next(&mut self) -> Option<(OpId, Result<Answer, StoreError>)> {
        let (op, urgent, result) = match self.running.join_next_with_id().await? {
            Ok((id, finished)) => {
                self.ops.remove(&id);
                finished
            }
            Err(error) => self.crashed(&error)?,
        };
        if !urgent {
            self.ordinary -= 1;
            if let (Some(request), Some(store)) = (self.waiting.pop_front(), self.store.clone()) {
                self.launch(store, request);
            }
        }
        Some((op, result))
    }

    /// A store that panics has told nothing about what it did.
    fn crashed(&mut self, error: &JoinError) -> Option<Finished> {
        let (op, urgent) = self.ops.remove(&error.id())?;
        Some((op, urgent, Err(StoreError::unknown(format!("the store's code failed: {error}")))))
    }
}

async fn perform(store: &AnyStore, op: Op, timeout: Duration) -> Result<Answer, StoreError> {
    let writes = matches!(op, Op::Write(_));
    let call = async {
        match op {
            Op::Read(key) => store.read(&key).await.map(Answer::Read),
            Op::ReadMany(keys) => store.read_many(&keys).await.map(Answer::Listed),
            Op::List { prefix, after, limit } => {
                store.list(&prefix, after.as_ref(), limit).await.map(Answer::Listed)
            }
            Op::Write(write) => store.write(*write).await.map(Answer::Write),
        }
    };
    match tokio::time::timeout(timeout, call).await {
        Ok(result) => result,
        Err(_) if writes => Err(StoreError::unknown(format!("no answer to a write within {timeout:?}"))),
        Err(_) => Err(StoreError::unavailable(format!("no answer to a read within {timeout:?}"))),
    }
}
