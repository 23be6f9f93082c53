//! The task of one worker: it steps the machine, performs its requests, and waits for nothing but the next thing to happen.
//!
//! Requests run beside it, so that a deadline is never late because of one.

use super::table::Table;
use super::worker::{Answer, Command, Request, Worker};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub(crate) async fn run(table: Table, mut worker: Worker, mut orders: mpsc::UnboundedReceiver<Command>) {
    let (mut jobs, mut is_open) = (JoinSet::new(), true);
    loop {
        for request in worker.step() {
            jobs.spawn(perform(table.clone(), request));
        }
        if worker.is_over() {
            break;
        }
        let pause = worker.pause();
        tokio::select! {
            biased;
            order = orders.recv(), if is_open => match order {
                Some(order) => worker.on_command(order),
                None => {
                    is_open = false;
                    worker.stop(None);
                }
            },
            Some(answer) = jobs.join_next(), if !jobs.is_empty() => match answer {
                Ok(answer) => worker.on_answer(answer),
                Err(_panicked) => worker.unanswered(),
            },
            () = tokio::time::sleep(pause) => {}
        }
    }
    jobs.abort_all();
    worker.end();
}

async fn perform(table: Table, request: Request) -> Answer {
    match request {
        Request::Look => Answer::Looked(table.list().await),
        Request::Settle(settling, purpose) => {
            Answer::Settled(purpose, Box::new(table.settle(*settling).await))
        }
    }
}
