//! The network between nodes and store, and the driver's part: calls that take too long are reported as such.

use super::node::NodeInput;
use super::scene::Scene;
use super::{What, World};
use crate::invariants::{Rule, s3};
use crate::kernel::clock::{MILLI, True};
use crate::kernel::envelope::Envelope;
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::{Ages, Landed};
use crate::kernel::trace::{Story, describe};
use tenure_core::op::{Answer, Hint, Op, Outcome, Request};
use tenure_core::{Bug, HolderId, Key, Now, StoreError};

/// An answer on its way, with the date that it bears; or, without one, the driver's own word that there is none.
pub(crate) struct NetReply {
    envelope: Box<Envelope>,
    result: Result<Answer, StoreError>,
    date: Option<u64>,
}

impl<S: Scene> World<S> {
    /// A node's driver starts a call.
    pub(super) fn send(&mut self, index: usize, now: Now, request: Request) {
        let Request { id, op, timeout, urgent } = request;
        S::sent(self, index, now, &op);
        let node = &self.nodes[index];
        let (life, patience) = (node.life, now.held.after(timeout));
        let mut envelope = Box::new(Envelope {
            node: index,
            life,
            id,
            op,
            urgent,
            sent: now,
            posted: self.t,
            gives_up: node.clock.when(patience).max(self.t),
            patience,
            term: self.store_term,
            stray: false,
            stumbles: false,
            token: false,
            dated: node.service.at_most(node.clock.held(self.t)),
        });
        let mut lost = !node.requests_pass;
        if urgent && self.befalls(FaultKind::Hidden) {
            let soon = self.t + self.rng.below(MILLI);
            self.at(soon, What::Hide(index as u8, life));
        }
        let mut arrives = self.t + self.rng.between(MILLI / 10, MILLI);
        arrives += S::delay(self, &mut envelope);
        if self.befalls(FaultKind::RequestLost) {
            lost = true;
        } else if self.befalls(FaultKind::Slow) {
            arrives += self.rng.below(self.per_mille(500));
        } else if self.befalls(FaultKind::Zombie) {
            arrives += self.rng.below(self.per_mille(8000));
        }
        if envelope.is_attached() && self.befalls(FaultKind::LateClaim) {
            arrives += self.per_mille(130_000) + self.rng.below(self.per_mille(10_000));
        }
        let mut again = None;
        if self.befalls(FaultKind::Duplicated) {
            again = Some(self.t + self.rng.below(self.per_mille(3000)));
        }
        self.tell_fate(&envelope, (!lost).then_some(arrives), again);
        if let Some(again) = again {
            let copy = Envelope { stray: true, ..(*envelope).clone() };
            self.at(again, What::Request(Box::new(copy)));
        }
        if lost {
            return self.forsake(envelope);
        }
        if arrives >= envelope.gives_up {
            self.forsake(envelope.clone());
            envelope.stray = true;
        }
        self.at(arrives, What::Request(envelope));
    }

    /// What becomes of a request that is sent now.
    fn tell_fate(&mut self, envelope: &Envelope, arrives: Option<True>, again: Option<True>) {
        let t = self.t;
        if !matches!(envelope.op, Op::Write(_)) && arrives.is_some_and(|at| at <= t + MILLI) {
            // A read that meets with nothing is told where it arrives.
            return;
        }
        self.tell(|world| {
            let in_ms = |at: True| format!("{:.3} ms", (at - t) as f64 / MILLI as f64);
            let mut text = format!("sends {} {}", envelope.name(), describe(&envelope.op));
            text += &arrives.map_or(" (is lost)".to_owned(), |at| format!(" (arrives in {})", in_ms(at)));
            text += &again.map_or(String::new(), |at| format!(" (and once more in {})", in_ms(at)));
            Story::Process(world.name(envelope.node), text)
        });
    }

    /// Nothing will have come by then: the driver says so itself.
    fn forsake(&mut self, envelope: Box<Envelope>) {
        let error = match envelope.op {
            Op::Read(_) | Op::ReadMany(..) | Op::List { .. } => self.errors.unavailable.clone(),
            Op::Write(_) => self.errors.unknown.clone(),
        };
        let at = envelope.gives_up;
        self.at(at, What::Reply(Box::new(NetReply { envelope, result: Err(error), date: None })));
    }

    /// A request reaches the store.
    pub(super) fn arrive(&mut self, envelope: Box<Envelope>) {
        if self.store_down || envelope.term != self.store_term {
            self.tell_end(&envelope, "reaches no store");
            if !envelope.stray {
                self.forsake(envelope);
            }
            return;
        }
        if self.hanging.is_some() && matches!(envelope.op, Op::Write(_)) {
            self.tell_end(&envelope, "is neither done nor answered");
            if !envelope.stray {
                self.forsake(envelope);
            }
            return;
        }
        let refused = self.throttled || !S::has_capacity(self, &envelope) || self.befalls(FaultKind::Refused);
        let result = if refused {
            Err(self.errors.refused.clone())
        } else if matches!(envelope.op, Op::Write(_)) && self.befalls(FaultKind::Denied) {
            Err(self.errors.denied.clone())
        } else if S::denies(self, &envelope) {
            self.tell_end(&envelope, "is denied");
            Err(self.errors.denied.clone())
        } else {
            let lag = S::lag(self, &envelope);
            let (result, landed) = self.store.perform(self.t, &envelope.op, envelope.dated, lag);
            self.tell_performed(&envelope, &result);
            match landed {
                Some((key, landed)) => self.landed(&envelope, &key, &landed),
                None => self.trace.fold(u64::MAX),
            }
            result
        };
        S::performed(self, &envelope, &result);
        if envelope.stray {
            return;
        }
        if let (true, Err(error)) = (refused, &result) {
            let text = format!("is refused: {error}");
            self.tell_end(&envelope, &text);
        }
        let mut answers = self.t + self.rng.between(MILLI / 10, MILLI);
        let lost = envelope.stumbles
            || !self.nodes[envelope.node].answers_pass
            || self.befalls(FaultKind::AnswerLost);
        if self.befalls(FaultKind::Slow) {
            answers += self.rng.below(self.per_mille(400));
        }
        if lost || answers >= envelope.gives_up {
            self.tell_end(
                &envelope,
                if lost { "has its answer lost" } else { "has its answer come too late" },
            );
            self.forsake(envelope);
        } else {
            let date = Some(self.store.date(self.t));
            self.at(answers, What::Reply(Box::new(NetReply { envelope, result, date })));
        }
    }

    fn tell_end(&mut self, envelope: &Envelope, what: &str) {
        self.tell(|world| {
            let who = world.nodes[envelope.node].name_of(envelope.life);
            Story::Process(who.clone(), format!("{} {what}", envelope.name()))
        });
    }

    fn tell_performed(&mut self, envelope: &Envelope, result: &Result<Answer, StoreError>) {
        self.tell(|world| {
            let end = match result {
                Ok(Answer::Write(Outcome::Won { fence, .. })) => format!("won, fence {fence}"),
                Ok(Answer::Write(Outcome::Lost(None))) => "lost: there is no record".to_owned(),
                Ok(Answer::Write(Outcome::Lost(Some(standing)))) => match &standing.record.tenure {
                    Some(tenure) => format!("lost to {} {}", tenure.holder, standing.record.fence),
                    None => format!("lost: vacant, fence {}", standing.record.fence),
                },
                Ok(_) => "read".to_owned(),
                Err(error) => error.to_string(),
            };
            let who = world.nodes[envelope.node].name_of(envelope.life);
            Story::Store(format!("{who} {} {}: {end}", envelope.name(), describe(&envelope.op)))
        });
    }

    /// A write took effect.
    fn landed(&mut self, envelope: &Envelope, key: &Key, landed: &Landed) {
        let Landed { before, after } = landed;
        self.trace.fold(after.nonce.0 as u64 ^ after.fence.0);
        let begins = self.checks.tenures.landed(key, before.as_ref(), after);
        let is_new = matches!(begins, Ok(true));
        self.check(Rule::S2, begins.map(|_| ()));
        let by: &HolderId = self.nodes[envelope.node].name_of(envelope.life);
        self.check(Rule::S3, s3::landed(key, before.as_ref(), after, by, envelope.token));
        S::landed(self, envelope, key, landed, is_new);
    }

    /// An answer reaches its node.
    pub(super) fn reply(&mut self, mut reply: Box<NetReply>) {
        let Envelope { node: index, life, id, sent, dated, patience, .. } = *reply.envelope;
        let node = &mut self.nodes[index];
        if node.life != life {
            return;
        }
        if reply.date.is_none() && node.clock.held(self.t) < patience {
            // Its clock stood still meanwhile.
            let soon = self.t + self.per_mille(10);
            return self.at(soon, What::Reply(reply));
        }
        if let Some(date) = reply.date.filter(|_| self.spec.ages == Ages::Dated) {
            // What a client of a store that tells dates makes of an answer.
            let now = node.clock.held(self.t);
            node.service.answered(sent.held, now, date);
            let refuted = dated.is_some_and(|dated| node.service.refutes(dated, sent.held, now));
            let misses = self.setup.bugs.has(Bug::HiddenTimeMissed);
            if refuted && !misses && matches!(reply.result, Ok(Answer::Write(Outcome::Won { .. }))) {
                reply.result = Err(self.errors.unknown.clone());
            }
        }
        S::answered(self, index, &reply.envelope, &reply.result);
        self.deliver(index, NodeInput::Answer(id, reply.result));
    }

    /// Tells those who listen that a key has changed, and into which version.
    pub(crate) fn hint(&mut self, key: &Key) {
        if !self.spec.push {
            return;
        }
        let version = self.store.get(key).map(|record| record.version());
        for index in 0..self.nodes.len() {
            if !S::listens(self, index, key) {
                continue;
            }
            let node = &self.nodes[index];
            let life = node.life;
            let passes = node.answers_pass && !self.store_down;
            if passes && !self.befalls(FaultKind::HintLost) {
                let is_late = self.befalls(FaultKind::HintLate);
                let most = if is_late { self.per_mille(1000) } else { MILLI };
                let delay = self.rng.between(MILLI / 10, most);
                let hint =
                    version.map_or(Hint::Key(key.clone()), |version| Hint::Written(key.clone(), version));
                self.at(self.t + delay, What::Hint(index as u8, life, Box::new(hint)));
            }
        }
    }
}
