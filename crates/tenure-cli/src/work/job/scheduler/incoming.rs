//! Units that come while others are run already: registered part by part, as they are read.

use super::{Event, Scheduler};
use crate::exit::Failure;
use crate::nonces::digest;
use crate::work::job::board::Local;
use crate::work::job::writes::{made, registered};
use crate::work::stream::Stream;
use crate::work::units::{Given, Named};
use std::time::Duration;
use tenure::store::{Outcome, StoreExt, Stored, Write};
use tenure::{Key, StoreError};
use tenure_core::Nonces;

/// Before a part that could not be registered is tried again; doubled each time, up to the longest.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// Where the rest of the list comes from, and what became of it so far.
#[derive(Default)]
pub(super) struct Incoming {
    pub(super) stream: Option<Stream>,
    /// A part is being registered. The next one is not read before that is done.
    pub(super) is_registering: bool,
    left_out: usize,
    /// How many have come, and whether one of them was to be run.
    came: usize,
    is_new: bool,
    /// How many of the job were done when the first one came.
    done: usize,
    nonces: Option<Nonces>,
}

impl Incoming {
    /// Whether there is more to come.
    pub(super) fn is_open(&self) -> bool {
        self.stream.is_some() || self.is_registering
    }

    /// The next part; waits for ever where there is none. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Result<Given, Failure>> {
        match &mut self.stream {
            Some(stream) if !self.is_registering => stream.next().await,
            _ => std::future::pending().await,
        }
    }
}

impl Scheduler {
    /// More units are to come from here.
    pub(crate) fn take(&mut self, stream: Option<Stream>) {
        self.incoming.stream = stream;
        self.incoming.done = self.board.counts().done;
    }

    /// How many units have come since; none if one of them, or any other of the job, was not done by then.
    pub(crate) fn given_later_and_done(&self) -> Option<usize> {
        let is_as_before = !self.incoming.is_new && self.board.counts().done == self.incoming.done;
        is_as_before.then_some(self.incoming.came)
    }

    /// How many lines were no units.
    pub(crate) fn left_out(&self) -> usize {
        self.incoming.left_out
    }

    /// What was read now, or the end of it.
    pub(super) fn on_given(&mut self, part: Option<Result<Given, Failure>>) {
        let given = match part {
            Some(Ok(given)) => given,
            Some(Err(failure)) => {
                self.incoming.stream = None;
                return self.give_up(failure);
            }
            None => {
                self.incoming.stream = None;
                // What others have added meanwhile is to be found before this is taken for the end.
                self.rounds.list_all();
                return;
            }
        };
        given.tell();
        self.incoming.left_out += given.left_out();
        let named = match given.named(&self.name.prefix()) {
            Ok(named) => named,
            Err(failure) => return self.give_up(failure),
        };
        named.iter().for_each(|unit| self.board.is_given(&unit.key));
        self.given.add(named.iter());
        self.incoming.came += named.len();
        self.incoming.is_new |= named.iter().any(|unit| self.board.local(&unit.key) != Some(Local::Done));
        let new: Vec<Named> =
            named.into_iter().filter(|unit| self.board.local(&unit.key).is_none()).collect();
        if new.is_empty() {
            return;
        }
        let seed = || Nonces::new(digest("tenure-cli list", self.leases.holder()));
        let nonces = self.incoming.nonces.get_or_insert_with(seed);
        let writes: Vec<Write> = new.iter().map(|unit| made(&self.leases, nonces, unit)).collect();
        self.incoming.is_registering = true;
        let (store, sender) = (self.leases.store().clone(), self.sender.clone());
        tokio::spawn(async move {
            let mut pause = PAUSE;
            // Repeating is harmless: what was made already is not absent any more.
            let result = loop {
                match store.write_all(writes.clone()).await {
                    Err(error) if error.is_passing() => {
                        // Whoever has given up hears nothing more.
                        if sender.send(Event::NotRegistered(error)).is_err() {
                            return;
                        }
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(LONGEST);
                    }
                    result => break result,
                }
            };
            let _over = sender.send(Event::Registered { writes, result });
        });
    }

    pub(super) fn on_registered(&mut self, writes: &[Write], result: Result<Vec<Outcome>, StoreError>) {
        self.incoming.is_registering = false;
        let outcomes = match result {
            Ok(outcomes) => outcomes,
            Err(error) => return self.give_up(error.into()),
        };
        self.trouble.end();
        let keys: Vec<Key> = writes.iter().map(|write| write.key.clone()).collect();
        let new: Vec<(Key, Stored)> = keys.iter().zip(writes).zip(&outcomes).filter_map(registered).collect();
        let others = keys.iter().zip(&outcomes).filter_map(|(key, outcome)| match outcome {
            Outcome::Lost(Some(stored)) => Some((key.clone(), stored.clone())),
            _ => None,
        });
        self.board.add(new.iter().cloned().chain(others));
        self.rounds.unsettle();
        if self.stop.is_none() {
            self.board.try_first(new.into_iter());
        }
    }
}
