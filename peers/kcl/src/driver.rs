//! The task of one worker: it steps the machine, performs its requests, passes on what it tells, and waits for nothing but the
//! next thing to happen.
//!
//! Requests run beside it, so that a deadline is never late because of one.

use super::event::Event;
use super::held::{Held, TenureCell};
use super::table::Table;
use super::worker::{WorkerAnswer, WorkerCommand, WorkerMachine, WorkerNotice, WorkerOutput, WorkerRequest};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure_core::{Clock, ErrorKind, Loss};
use tenure_store::parts::caught;
use tenure_store::tell;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// What users see of a worker.
pub(crate) struct CoordinatorUsers {
    /// The worker's id.
    pub(crate) holder: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: mpsc::UnboundedSender<Event>,
    /// What is held, by name.
    pub(crate) shown: Arc<Mutex<BTreeMap<String, Held>>>,
}

impl CoordinatorUsers {
    fn held(&self, cell: Arc<TenureCell>) -> Held {
        Held { cell, clock: Arc::clone(&self.clock) }
    }

    /// What a log has of it, by the names that events of fleets have.
    fn log(&self, notice: &WorkerNotice) {
        let holder = &*self.holder;
        match notice {
            WorkerNotice::Taken(cell) => {
                let (key, fence) = (cell.key(), cell.counter_at_take());
                tell!(info, name: "fleet.assigned", target: "tenure::fleet", key, fence, holder, "lease taken");
            }
            WorkerNotice::Lost(cell, loss) => {
                let (key, fence) = (cell.key(), cell.counter_at_take());
                if *loss == Loss::Released {
                    tell!(info, name: "fleet.released", target: "tenure::fleet", key, fence, holder, "lease given up");
                } else {
                    tell!(warn, name: "fleet.lost", target: "tenure::fleet", key, fence, holder, reason = %loss, loss = loss.name(), "lease lost");
                }
            }
            WorkerNotice::Wanted(cell, by) => {
                let (key, fence) = (cell.key(), cell.counter_at_take());
                tell!(info, name: "fleet.draining", target: "tenure::fleet", key, fence, holder, by, "lease is to go to another");
            }
            WorkerNotice::Finished(cell) => {
                let key = cell.key();
                tell!(info, name: "fleet.finished", target: "tenure::fleet", key, holder, "shard was read to its end");
            }
            WorkerNotice::LookFailed(error) => {
                tell!(warn, name: "fleet.failing", target: "tenure::fleet", holder, reason = %error, "the table could not be read");
            }
            WorkerNotice::TakeFailed(key, error) => {
                tell!(warn, name: "fleet.not_taken", target: "tenure::fleet", key, holder, reason = %error, "a lease could not be taken");
            }
            WorkerNotice::Foreign(error) => {
                tell!(warn, name: "fleet.unreadable", target: "tenure::fleet", holder, reason = %error, "this row is no lease");
            }
            WorkerNotice::Revived(worker) => {
                tell!(
                    warn, name: "fleet.revived", target: "tenure::fleet", holder, worker,
                    "a worker lives of which a lease was taken because it had been silent"
                );
            }
            WorkerNotice::Skipped(rows) => {
                tell!(info, name: "fleet.skipped", target: "tenure::fleet", holder, rows, "rows are no leases by the KCL");
            }
        }
    }

    fn hear(&self, notice: WorkerNotice) {
        self.log(&notice);
        let event = match notice {
            WorkerNotice::Taken(cell) => {
                let lease = self.held(cell);
                let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
                shown.insert(lease.key().to_owned(), lease.clone());
                Event::Taken(lease)
            }
            WorkerNotice::Lost(cell, loss) => Event::Lost { lease: self.held(cell), loss },
            WorkerNotice::Wanted(cell, by) => Event::Wanted { lease: self.held(cell), by },
            WorkerNotice::Finished(cell) => Event::Finished(self.held(cell)),
            WorkerNotice::LookFailed(error) => Event::LookFailed(error),
            WorkerNotice::TakeFailed(key, error) => Event::TakeFailed { key, error },
            WorkerNotice::Foreign(error) => Event::Foreign(error),
            WorkerNotice::Revived(worker) => Event::Revived(worker),
            WorkerNotice::Skipped(rows) => Event::Skipped(rows),
        };
        let _nobody_listens = self.events.send(event);
    }

    fn hide(&self, key: &str) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

pub(crate) async fn run(
    table: Table,
    mut worker: WorkerMachine,
    users: CoordinatorUsers,
    mut orders: mpsc::UnboundedReceiver<WorkerCommand>,
) {
    let clock = Arc::clone(&users.clock);
    let (mut jobs, mut is_open) = (JoinSet::new(), true);
    loop {
        for output in worker.step(clock.now()) {
            match output {
                WorkerOutput::Request(request) => {
                    drop(jobs.spawn(perform(table.clone(), request, worker.look_patience())))
                }
                WorkerOutput::Notice(notice) => users.hear(notice),
                WorkerOutput::Hide(key) => users.hide(&key),
                WorkerOutput::Reply(answered) => answered.tell(),
            }
        }
        if worker.is_over(clock.now()) {
            break;
        }
        let pause = worker.pause(clock.now());
        tokio::select! {
            biased;
            order = orders.recv(), if is_open => match order {
                Some(order) => worker.on_command(clock.now(), order),
                None => {
                    is_open = false;
                    worker.stop(clock.now(), None);
                }
            },
            Some(Ok(answer)) = jobs.join_next(), if !jobs.is_empty() => worker.on_answer(clock.now(), answer),
            () = tokio::time::sleep(pause) => {}
        }
    }
    jobs.abort_all();
    for reply in worker.end() {
        let _gone = reply.send(());
    }
}

/// Whatever happens, there is an answer: a lease without one would stay busy, and a worker without one would take no more.
async fn perform(table: Table, request: WorkerRequest, patience: Duration) -> WorkerAnswer {
    match request {
        WorkerRequest::Look => {
            WorkerAnswer::Looked(caught(ErrorKind::Unavailable, table.list_for(patience)).await)
        }
        WorkerRequest::Settle(settling, purpose) => {
            let settled = caught(ErrorKind::Unknown, table.settle(*settling)).await;
            WorkerAnswer::Settled(purpose, Box::new(settled))
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: whoever is told of what a worker does may panic at each event, and the worker's users hear of all of it; the table of the page has each
    //! event as it is told.
    use super::*;
    use crate::format::Format;
    use crate::row::{Fields, Row};
    use std::collections::BTreeSet;
    use std::fmt::Debug;
    use tenure_core::{StoreError, Tick};
    use tenure_testkit::{ManualClock, listens_by};
    use tracing::field::{Field, Visit};

    fn users() -> (CoordinatorUsers, mpsc::UnboundedReceiver<Event>) {
        let (events, heard) = mpsc::unbounded_channel();
        let clock = Arc::new(ManualClock::new());
        (CoordinatorUsers { holder: "a".to_owned(), clock, events, shown: Arc::default() }, heard)
    }

    fn every_notice() -> Vec<WorkerNotice> {
        let row = Row::new(Format::kcl(), "k", Fields::new()).unwrap();
        let cell = || Arc::new(TenureCell::new(&row, Tick(1)));
        let error = || StoreError::unavailable("on purpose");
        vec![
            WorkerNotice::Taken(cell()),
            WorkerNotice::Wanted(cell(), "b".to_owned()),
            WorkerNotice::Finished(cell()),
            WorkerNotice::Lost(cell(), Loss::Released),
            WorkerNotice::Lost(cell(), Loss::Expired),
            WorkerNotice::LookFailed(error()),
            WorkerNotice::TakeFailed("k".to_owned(), error()),
            WorkerNotice::Foreign(error()),
            WorkerNotice::Revived("b".to_owned()),
            WorkerNotice::Skipped(1),
        ]
    }

    #[test]
    fn l4_a_subscriber_that_panics_ends_no_worker() {
        let _here = listens_by(tracing::Level::INFO, |_| panic!("on purpose, of whoever is told"));
        let (users, mut heard) = users();
        let notices = every_notice();
        let told = notices.len();
        notices.into_iter().for_each(|notice| users.hear(notice));
        assert_eq!(std::iter::from_fn(|| heard.try_recv().ok()).count(), told);
    }

    /// What an event says to people.
    struct EventMessage(String);

    impl Visit for EventMessage {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            if field.name() == "message" {
                self.0 = format!("{value:?}");
            }
        }
    }

    /// Level, message and fields of events, by name.
    type EventTable = BTreeMap<String, (String, String, BTreeSet<String>)>;

    #[test]
    fn events_are_those_of_the_page() {
        let told: Arc<Mutex<EventTable>> = Arc::default();
        let table = Arc::clone(&told);
        let _here = listens_by(tracing::Level::TRACE, move |event| {
            let (about, mut message) = (event.metadata(), EventMessage(String::new()));
            event.record(&mut message);
            let fields = about.fields().iter().map(|field| field.name().to_owned());
            let fields = fields.filter(|name| name != "message").collect();
            let row = (about.level().to_string().to_lowercase(), message.0, fields);
            table.lock().unwrap().insert(about.name().to_owned(), row);
        });
        let (users, _heard) = users();
        every_notice().into_iter().for_each(|notice| users.hear(notice));
        let rows = include_str!("../docs/kcl.md").lines().filter(|line| line.starts_with("| `fleet."));
        let documented: EventTable = rows
            .map(|line| {
                let cells: Vec<&str> = line.split('|').map(str::trim).collect();
                let [_, name, level, message, fields, _] = cells[..] else {
                    panic!("a row of four cells: {line}")
                };
                let fields = fields.split('`').skip(1).step_by(2).map(str::to_owned).collect();
                (name.trim_matches('`').to_owned(), (level.to_owned(), message.to_owned(), fields))
            })
            .collect();
        assert_eq!(*told.lock().unwrap(), documented);
    }
}
