//! The driver: one task that performs what a machine asks for, and keeps one wake-up.

mod call;
mod flights;
mod hints;
#[cfg(test)]
mod noting;
mod queue;
mod trouble;

pub use trouble::Trouble;
pub(crate) use trouble::{NOW_AND_THEN, Troubles};

use flights::Flights;
use hints::Hints;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use tenure_core::op::{Event, Hint, Machine, Step};
use tenure_core::{Clock, Tick};
use tenure_store::parts::{nap, sleep_while};
use tenure_store::{AnyStore, Store};
use tokio::sync::{mpsc, watch};

/// Where a machine's notices go. What it returns is fed back as commands.
pub(crate) trait Sink<M: Machine> {
    fn tell(&mut self, notice: M::Notice, commands: &mut Vec<M::Command>) -> ControlFlow<()>;
}

pub(crate) struct Driver<M: Machine, S> {
    pub(crate) machine: M,
    pub(crate) store: AnyStore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) commands: mpsc::UnboundedReceiver<M::Command>,
    /// Turns true once somebody wants the store's hints for good. Besides, they are listened to while the machine waits for something.
    pub(crate) listen: watch::Receiver<bool>,
    /// What the keys begin with that hints are wanted for.
    pub(crate) watches: String,
    /// Who is told that the store fails.
    pub(crate) troubles: Arc<Troubles>,
    pub(crate) sink: S,
}

impl<M: Machine, S: Sink<M>> Driver<M, S> {
    /// Runs until the sink says so, or until all who could give commands are gone and `farewell` is through.
    pub(crate) async fn run(mut self, farewell: impl FnOnce() -> M::Command) {
        let mut farewell = Some(farewell);
        let mut flights =
            Flights::new(self.store.clone(), Arc::clone(&self.clock), Arc::clone(&self.troubles));
        // At once: a machine that has seen its clocks from the beginning notices when they are set.
        let mut wake_at: Option<Tick> = Some(self.clock.held());
        let mut hints = Hints::of(std::mem::take(&mut self.watches), self.troubles.holder().clone());
        // A store that panics is polled.
        let capabilities = catch_unwind(AssertUnwindSafe(|| self.store.capabilities()));
        let pushes = capabilities.is_ok_and(|capabilities| capabilities.watch);
        let mut missed = false;
        let clock = Arc::clone(&self.clock);
        // Not made anew for each event: each begins with a word to the runtime's timers.
        let mut alarm = pin!(sleep_until(&*clock, wake_at));
        loop {
            let event = tokio::select! {
                biased;
                // What changed while nobody listened has to be looked for once.
                () = std::future::ready(()), if std::mem::take(&mut missed) => Event::Changed(Hint::Any),
                finished = flights.next(), if !flights.is_empty() => {
                    let Some((op, result)) = finished else { continue };
                    Event::Answer(op, result)
                }
                () = &mut alarm => Event::Wake,
                command = self.commands.recv(), if farewell.is_some() => match (command, farewell.take()) {
                    (Some(command), last) => {
                        farewell = last;
                        Event::Command(command)
                    }
                    (None, Some(last)) => Event::Command(last()),
                    (None, None) => continue,
                },
                hint = hints.next(&self.store, &*self.clock) => Event::Changed(hint),
                Ok(()) = self.listen.changed(), if !hints.is_wanted() => {
                    hints.begin(&self.store, self.clock.held());
                    Event::Changed(Hint::Any)
                }
            };
            let is_hint = matches!(event, Event::Changed(_));
            let (has_rung, rings_at) = (matches!(event, Event::Wake), wake_at);
            let mut commands = VecDeque::new();
            let mut event = Some(event);
            while let Some(next) = event.take().or_else(|| commands.pop_front().map(Event::Command)) {
                let step = self.machine.step(self.clock.now(), next);
                let Step { requests, notices, wake_at: next_wake } = step;
                wake_at = next_wake;
                let mut more = Vec::new();
                // Before anything is sent: a request may free what a notice ends the belief in.
                for notice in notices {
                    if self.sink.tell(notice, &mut more).is_break() {
                        return;
                    }
                }
                for request in requests {
                    flights.start(request);
                }
                commands.extend(more);
            }
            if has_rung || wake_at != rings_at {
                alarm.set(sleep_until(&*clock, wake_at));
            }
            if pushes {
                let wanted = self.machine.listens() || *self.listen.borrow();
                missed = hints.want(wanted, is_hint, &self.store, self.clock.held());
            }
        }
    }
}

/// Returns at `wake_at`; never without one.
pub(crate) async fn sleep_until(clock: &dyn Clock, wake_at: Option<Tick>) {
    let Some(at) = wake_at else { return std::future::pending().await };
    let left = || at.since(clock.held());
    // What is to be woken for is mostly a third of a ttl away, so this is late by a twentieth of it at most.
    let late = left() / 8;
    // Once in any case: a machine that is to be woken at once, again and again, must leave time for other tasks.
    tokio::time::sleep(nap(left(), late)).await;
    sleep_while(left, late).await;
}

#[cfg(test)]
mod tests {
    //! Plan: what a machine tells is told before what it asks for is begun; hints that end, or can't be had, are asked for
    //! again, less and less often.
    use super::noting::{Log, Noting, Paused};
    use super::*;
    use crate::clock;
    use std::sync::atomic::Ordering;
    use std::time::Duration;
    use tenure_core::op::{Op, OpId, Request};
    use tenure_core::{HolderId, Key, Now};

    /// At its one command it tells something and asks for a read; at the answer it stops. Hints are told.
    struct Machine1(OpId);

    impl Machine for Machine1 {
        type Command = &'static str;
        type Notice = String;

        fn step(&mut self, _now: Now, event: Event<&'static str>) -> Step<String> {
            let mut step = Step { requests: vec![], notices: vec![], wake_at: None };
            match event {
                Event::Command(text) => {
                    step.notices.push(text.to_owned());
                    let (op, timeout) = (Op::Read(Key::new("k").unwrap()), Duration::from_secs(1));
                    step.requests.push(Request { id: self.0, op, timeout, urgent: false });
                }
                Event::Answer(..) => step.notices.push("stop".to_owned()),
                Event::Changed(hint) => step.notices.push(format!("changed {hint:?}")),
                Event::Wake => {}
            }
            step
        }

        fn listens(&self) -> bool {
            false
        }
    }

    struct Told(Log);

    impl Sink<Machine1> for Told {
        fn tell(&mut self, notice: String, _commands: &mut Vec<&'static str>) -> ControlFlow<()> {
            if notice == "stop" {
                return ControlFlow::Break(());
            }
            let under_way = tokio::runtime::Handle::current().metrics().num_alive_tasks();
            self.0.lock().unwrap().push(format!("{notice}, {under_way} under way"));
            ControlFlow::Continue(())
        }
    }

    struct Desk {
        commands: mpsc::UnboundedSender<&'static str>,
        listen: watch::Sender<bool>,
        driver: Driver<Machine1, Told>,
    }

    fn desk(store: &Noting, clock: Arc<dyn Clock>) -> Desk {
        let (commands, receiver) = mpsc::unbounded_channel();
        let (listen, listening) = watch::channel(false);
        let driver = Driver {
            machine: Machine1(OpId(1)),
            store: AnyStore::new(store.clone()),
            troubles: Troubles::new(Arc::clone(&clock), HolderId::new("a").unwrap()),
            clock,
            commands: receiver,
            listen: listening,
            watches: String::new(),
            sink: Told(Arc::clone(&store.log)),
        };
        Desk { commands, listen, driver }
    }

    #[tokio::test]
    async fn s1_what_ends_a_belief_is_told_before_what_frees_the_key_is_begun() {
        let store = Noting::default();
        let desk = desk(&store, clock::system());
        desk.commands.send("lost").unwrap();
        desk.driver.run(|| "over").await;
        assert_eq!(*store.log.lock().unwrap(), ["lost, 0 under way", "read k"]);
    }

    #[tokio::test(start_paused = true)]
    async fn hints_that_end_are_asked_for_again_less_and_less_often() {
        let clock = Arc::new(Paused::begun());
        let store = Noting::default();
        let desk = desk(&store, clock);
        let driver = tokio::spawn(desk.driver.run(|| "over"));
        desk.listen.send(true).unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(store.asked_for_hints.load(Ordering::SeqCst), 1, "refused");
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(store.asked_for_hints.load(Ordering::SeqCst), 2);
        // Once when it is first listened to, and once after each gap, all keys are looked at.
        let looks = store.log.lock().unwrap().iter().filter(|line| line.starts_with("changed Any")).count();
        assert_eq!(looks, 2);
        tokio::time::sleep(Duration::from_secs(60 * 60)).await;
        let hourly = store.asked_for_hints.load(Ordering::SeqCst);
        assert!((60..=70).contains(&hourly), "{hourly}");
        driver.abort();
    }
}
