//! Lists in turn. What a thousand workers know of a hundred thousand units while they list them at once is no more than one
//! process can hold.

use super::{Happens, Harness, Store, TTL, WAY};
use std::collections::VecDeque;
use std::time::Duration;
use tenure_core::fleet::About;
use tenure_core::op::{Op, OpId, Request};

/// Whose listing is served, page by page, until it asks for no more; and who waits for that. Nothing else waits.
#[derive(Default)]
pub struct Turns {
    at: Option<(usize, OpId)>,
    waiting: VecDeque<(usize, Request)>,
}

impl Harness {
    /// A fleet of many workers at rest, which list in turn. All have come within one third of a ttl, spread over it, and then the units.
    pub fn large(store: Store, workers: usize, units: usize) -> Harness {
        const INTERVAL: Duration = TTL.checked_div(3).unwrap();
        let mut harness = Harness::new(store);
        harness.turns = Some(Turns::default());
        for _ in 0..workers {
            harness.add(About::default(), TTL);
            harness.run(INTERVAL / workers as u32);
        }
        harness.run(INTERVAL * 6);
        harness.create(units);
        let took = harness.run_until(TTL * 100, |harness| harness.idle() == 0);
        assert!(took.is_some(), "all units are held");
        // Whoever has to list a last time does.
        harness.run(INTERVAL * 6);
        harness
    }

    /// A worker's request sets out for the store. Pages of sessions that are watched wait for nobody.
    pub(super) fn ask(&mut self, index: usize, request: Request) {
        if let (Op::List { .. }, false, Some(turns)) = (&request.op, request.urgent, &mut self.turns) {
            if turns.at.is_some_and(|(at, _)| at != index) {
                return turns.waiting.push_back((index, request));
            }
            turns.at = Some((index, request.id));
        }
        if self.has_place(index, &request) {
            self.at(self.t.after(WAY), Happens::Arrives(index, request.id, request.op));
        } else {
            self.wait_for_place(index, request);
        }
    }

    /// The answer to `id` has come: if that was the last page, it is the next one's turn.
    pub(super) fn end_turn(&mut self, index: usize, id: OpId) {
        let Some(turns) = self.turns.as_mut().filter(|turns| turns.at == Some((index, id))) else { return };
        turns.at = None;
        if let Some((next, request)) = turns.waiting.pop_front() {
            self.ask(next, request);
        }
    }
}
