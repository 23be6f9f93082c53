//! The network between nodes and store, and the driver's part: calls that take too long are reported as such.

use crate::clock::{MILLI, True};
use crate::fault::Fault;
use crate::invariants::s4::Claim;
use crate::invariants::{self, Rule};
use crate::node::{Heartbeat, Input, Stage, View};
use crate::registers::{Ages, Landed};
use crate::trace::{Story, describe};
use crate::world::{What, World};
use tenure_core::op::{Answer, Hint, Op, OpId, Outcome, Request};
use tenure_core::{Ask, Bug, ErrorKind, HolderId, Key, Letter, Nonce, Now, StoreError, Tick, Token, Value};

/// A request on its way.
#[derive(Debug, Clone)]
pub(crate) struct Envelope {
    node: usize,
    life: u32,
    id: OpId,
    op: Op,
    sent: Now,
    /// The same in true time.
    posted: True,
    /// When the node's driver gives up waiting.
    gives_up: True,
    /// The store that it was sent to, where failovers put others in its place.
    term: u32,
    /// A second copy, or one that was given up: its answer goes nowhere.
    stray: bool,
    /// Its answer is lost, however well everything else goes.
    stumbles: bool,
    /// It was sent for a token that came from elsewhere.
    token: bool,
    /// The same by the node's clock.
    wait_policy: Tick,
    /// What the store's clock shows at the most, in milliseconds, as its client took it to be when it sent this.
    dated: Option<u64>,
}

/// Where a write came from.
struct Sender {
    node: usize,
    life: u32,
    sent: Now,
    token: bool,
}

/// An answer on its way, or the driver's own word that there is none.
#[derive(Debug)]
pub(crate) struct Reply {
    node: usize,
    life: u32,
    id: OpId,
    key: Option<Key>,
    claim: Option<Nonce>,
    result: Result<Answer, StoreError>,
    /// It is the driver's own word, and due then by the node's clock, which may have stood still.
    due: Option<Tick>,
    /// When it was sent, how it was dated, and the date of the answer, if there is one.
    dates: Option<(Tick, Option<u64>, u64)>,
}

#[derive(Debug)]
pub(crate) enum Message {
    Request(Box<Envelope>),
    Reply(Box<Reply>),
    /// A lease that became plain data, on its way to another node.
    Token(usize, Box<Token>),
    /// A hint of a change, on its way to a life of a node.
    Hint(usize, u32, Hint),
}

/// All that is on its way.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    slots: Vec<Option<Message>>,
    free: Vec<u32>,
}

impl Messages {
    fn put(&mut self, message: Message) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(message);
                slot
            }
            None => {
                self.slots.push(Some(message));
                (self.slots.len() - 1) as u32
            }
        }
    }

    pub(crate) fn token(&mut self, to: usize, token: Token) -> What {
        What::Message(self.put(Message::Token(to, Box::new(token))))
    }

    pub(crate) fn take(&mut self, slot: u32) -> Option<Message> {
        self.free.push(slot);
        self.slots[slot as usize].take()
    }
}

/// The one key that it is about, if it is about one.
fn key_of(op: &Op) -> Option<&Key> {
    match op {
        Op::Read(key) => Some(key),
        Op::ReadMany(..) | Op::List { .. } => None,
        Op::Write(write) => Some(&write.key),
    }
}

/// The tenure that a write begins, if it is a claim.
fn claim_of(op: &Op) -> Option<Nonce> {
    let Op::Write(write) = op else { return None };
    write.record.tenure.as_ref().map(|tenure| tenure.id).filter(|id| *id == write.record.nonce)
}

/// Whether it is a claim that is attached to a session.
fn is_attached(op: &Op) -> bool {
    let Op::Write(write) = op else { return false };
    write
        .record
        .tenure
        .as_ref()
        .is_some_and(|tenure| tenure.id == write.record.nonce && tenure.attachment.is_some())
}

impl World {
    fn post(&mut self, t: True, message: Message) {
        let slot = self.messages.put(message);
        self.at(t, What::Message(slot));
    }

    /// Whether a fault of calls befalls this one.
    pub(crate) fn befalls(&mut self, fault: Fault) -> bool {
        if self.healed.is_some() || self.setup.without.has(fault) {
            return false;
        }
        let Some((_, probability)) = self.scenario.calls.iter().find(|(kind, _)| *kind == fault) else {
            return false;
        };
        let befalls = self.rng.chance(*probability);
        if befalls {
            self.tally.faults[fault as usize] += 1;
        }
        befalls
    }

    /// A node's driver starts a call.
    pub(crate) fn send(&mut self, index: usize, now: Now, request: Request) {
        let Request { id, op, timeout, urgent } = request;
        self.check_sent(index, now, &op);
        if let Some(key) = key_of(&op) {
            let (t, ttl, leases) = (self.t, self.ttl_ns(), self.nodes[index].views.len() as u32);
            let found = self.spins[index].again(key, t, ttl, leases);
            self.checks.check(self.t, Rule::C1, found);
            let node = &self.nodes[index];
            let is_nobodys = node.views.iter().all(|view| self.keys[view.key] != *key);
            let refused = self.store.is_forbidden(key).then_some((node.life, is_nobodys));
            let found = refused.map_or(Ok(()), |who| self.spins[index].refused(who, key, t, ttl));
            self.checks.check(self.t, Rule::C1, found);
        }
        let node = &self.nodes[index];
        let gives_up = node.clock.when(now.held.after(timeout)).max(self.t);
        let life = node.life;
        let passes = node.requests_pass;
        let token = match &op {
            Op::Write(write) => node.uses_token(&write.key, write.record.fence),
            Op::Read(_) | Op::ReadMany(..) | Op::List { .. } => false,
        };
        let mut envelope = Envelope {
            node: index,
            life,
            id,
            op,
            sent: now,
            posted: self.t,
            gives_up,
            term: self.store_term,
            stray: false,
            stumbles: false,
            token,
            wait_policy: now.held.after(timeout),
            dated: node.service.at_most(node.clock.held(self.t)),
        };
        if urgent && self.befalls(Fault::Hidden) {
            let soon = self.t + self.rng.below(MILLI);
            self.at(soon, What::Hide(index as u8, life));
        }
        let mut arrives = self.t + self.rng.between(MILLI / 10, MILLI);
        if self.scenario.stumbles && self.healed.is_some() {
            // Slow, and one renewal in a row may fail: that must not cost anyone a lease.
            arrives += self.rng.below(self.per_mille(110));
            let node = &mut self.nodes[index];
            let key = key_of(&envelope.op);
            let stumbled = node.stumbled.iter().position(|(stumbled, _)| Some(stumbled) == key);
            match stumbled {
                Some(at) if urgent && node.stumbled[at].1 == 0 => drop(node.stumbled.swap_remove(at)),
                Some(at) if urgent => node.stumbled[at].1 -= 1,
                None if urgent && self.rng.chance(0.3) => {
                    node.stumbled.extend(key.map(|key| (key.clone(), 1)));
                    envelope.stumbles = true;
                }
                _ => {}
            }
        }
        let mut lost = !passes;
        if self.healed.is_none() {
            if self.befalls(Fault::RequestLost) {
                lost = true;
            } else if self.befalls(Fault::Slow) {
                arrives += self.rng.below(self.per_mille(500));
            } else if self.befalls(Fault::Zombie) {
                arrives += self.rng.below(self.per_mille(8000));
            }
            if is_attached(&envelope.op) && self.befalls(Fault::LateClaim) {
                arrives += self.per_mille(130_000) + self.rng.below(self.per_mille(10_000));
            }
            if self.befalls(Fault::Duplicated) {
                let again = self.t + self.rng.below(self.per_mille(3000));
                let copy = Envelope { stray: true, ..envelope.clone() };
                self.post(again, Message::Request(Box::new(copy)));
            }
        }
        if lost || arrives >= gives_up {
            self.give_up(&envelope, gives_up);
            envelope.stray = true;
        }
        if !lost {
            self.post(arrives, Message::Request(Box::new(envelope)));
        }
    }

    /// Nothing will have come by then: the driver says so itself.
    fn give_up(&mut self, envelope: &Envelope, t: True) {
        let error = match envelope.op {
            Op::Read(_) | Op::ReadMany(..) | Op::List { .. } => self.errors.unavailable.clone(),
            Op::Write(_) => self.errors.unknown.clone(),
        };
        self.post_reply(t, envelope, claim_of(&envelope.op), Err(error), None);
    }

    fn post_reply(
        &mut self,
        t: True,
        envelope: &Envelope,
        claim: Option<Nonce>,
        result: Result<Answer, StoreError>,
        date: Option<u64>,
    ) {
        let Envelope { node, life, id, .. } = *envelope;
        let dates = date.map(|date| (envelope.sent.held, envelope.dated, date));
        let due = date.is_none().then_some(envelope.wait_policy);
        let key = key_of(&envelope.op).cloned();
        self.post(t, Message::Reply(Box::new(Reply { node, life, id, key, claim, result, due, dates })));
    }

    /// A request reaches the store.
    pub(crate) fn arrive(&mut self, envelope: Envelope) {
        if self.store_down || envelope.term != self.store_term {
            if !envelope.stray {
                self.give_up(&envelope, envelope.gives_up);
            }
            return;
        }
        let claim = claim_of(&envelope.op);
        let refused = self.throttled || self.befalls(Fault::Refused);
        let writes = matches!(envelope.op, Op::Write(_));
        let result = if refused {
            Err(self.errors.refused.clone())
        } else if writes && self.befalls(Fault::Denied) {
            Err(self.errors.denied.clone())
        } else {
            self.trace
                .tell(self.t, || Story::Store(format!("n{} {}", envelope.node, describe(&envelope.op))));
            // The key and the sender are needed after the operation has been used up.
            let from = Sender {
                node: envelope.node,
                life: envelope.life,
                sent: envelope.sent,
                token: envelope.token,
            };
            let (result, landed) = self.store.perform_dated(self.t, envelope.op.clone(), envelope.dated);
            if let (Op::Write(write), Ok(Answer::Write(Outcome::Lost(Some(standing))))) =
                (&envelope.op, &result)
            {
                self.note_refusal(write, envelope.posted, &standing.record);
            }
            match landed {
                Some((key, landed)) => self.landed(from, &key, landed),
                None => self.trace.fold(u64::MAX),
            }
            result
        };
        if envelope.stray {
            return;
        }
        let mut answers = self.t + self.rng.between(MILLI / 10, MILLI);
        let lost =
            envelope.stumbles || !self.nodes[envelope.node].answers_pass || self.befalls(Fault::AnswerLost);
        if self.befalls(Fault::Slow) {
            answers += self.rng.below(self.per_mille(400));
        }
        if lost || answers >= envelope.gives_up {
            self.give_up(&envelope, envelope.gives_up);
        } else {
            let date = self.store.date(self.t);
            self.post_reply(answers, &envelope, claim, result, Some(date));
        }
    }

    /// An answer reaches its node.
    pub(crate) fn reply(&mut self, reply: Reply) {
        if self.nodes[reply.node].life != reply.life {
            return;
        }
        let clock = &self.nodes[reply.node].clock;
        if reply.due.is_some_and(|due| clock.held(self.t) < due) {
            let soon = self.t + self.per_mille(10);
            return self.post(soon, Message::Reply(Box::new(reply)));
        }
        let Reply { node: index, id, key, claim, mut result, dates, .. } = reply;
        if let Some(dates) = dates.filter(|_| self.spec.ages == Ages::Dated) {
            result = self.dated(index, dates, result);
        }
        let known = result.is_ok();
        if let (Some(id), Ok(Answer::Write(Outcome::Won { fence, .. }))) = (claim, &result) {
            let won = &mut self.nodes[index].won;
            if won.len() >= 16 {
                won.remove(0);
            }
            won.push((id, *fence));
        }
        let refused = result.as_ref().is_err_and(|error| error.kind() != ErrorKind::Unknown);
        for sent in &mut self.claims[index] {
            let looked = known && key.as_ref() == Some(&self.keys[sent.key]);
            sent.settled |= looked || (refused && claim == Some(sent.id));
        }
        self.deliver(index, Input::Answer(id, result));
    }

    /// What a client of a store that tells dates makes of an answer.
    fn dated(
        &mut self,
        index: usize,
        (sent, written, date): (Tick, Option<u64>, u64),
        result: Result<Answer, StoreError>,
    ) -> Result<Answer, StoreError> {
        let misses = self.setup.bugs.has(Bug::HiddenTimeMissed);
        let node = &mut self.nodes[index];
        let now = node.clock.held(self.t);
        node.service.answered(sent, now, date);
        let refuted = written.is_some_and(|written| node.service.refutes(written, sent, now));
        match result {
            Ok(Answer::Write(Outcome::Won { .. })) if refuted && !misses => Err(self.errors.unknown.clone()),
            result => result,
        }
    }

    /// What a process sends is looked at before it goes anywhere.
    fn check_sent(&mut self, index: usize, now: Now, op: &Op) {
        let Op::Write(write) = op else { return };
        let node = &self.nodes[index];
        let key = self.keys.iter().position(|key| *key == write.key);
        if write.record.tenure.is_none()
            && key.is_some_and(|key| self.checks.acts.is_behind(key, write.record.fence))
        {
            // Whoever finds an old claim of its own that was put back gives it up anew.
            return;
        }
        let found = invariants::s3::sent(node, now.held, write);
        self.checks.check(self.t, Rule::S3, found);
        let found = invariants::s6::sent(node, &self.lapses[index], now.held, write);
        self.checks.check(self.t, Rule::S6, found);
        let found = invariants::c1::sent(node, &self.keys, write);
        self.checks.check(self.t, Rule::C1, found);
        let Some(tenure) = &write.record.tenure else { return };
        if tenure.id == write.record.nonce
            && tenure.attachment.is_none()
            && !node.uses_token(&write.key, write.record.fence)
            && let Some(key) = self.keys.iter().position(|key| *key == write.key)
        {
            let claims = &mut self.claims[index];
            if claims.len() >= 16 {
                claims.remove(0);
            }
            let wait_policy = tenure.ttl.duration();
            claims.push(Claim { id: tenure.id, key, sent: now.held, wait_policy, settled: false });
        }
    }

    /// A write took effect.
    fn landed(&mut self, from: Sender, key: &Key, landed: Landed) {
        let Sender { node: index, life, sent, token } = from;
        let ours = self.keys.iter().position(|known| known == key);
        self.note_coverage(index, life, key, ours, &landed);
        let Landed { before, after } = landed;
        let (t, before) = (self.t, before.as_ref());
        self.trace.fold(after.nonce.0 as u64 ^ after.fence.0);
        let begins = self.checks.tenures.landed(key, before, &after);
        let is_new = matches!(begins, Ok(true));
        self.checks.check(t, Rule::S2, begins.map(|_| ()));
        let by = self.sender(index, life);
        let found = invariants::s3::landed(key, before, &after, &by, token);
        self.checks.check(t, Rule::S3, found);
        let found = invariants::withdrawn::not_beaten(key, before, &after);
        self.checks.check(t, Rule::Withdrawn, found);
        if is_new && let Some(key) = ours {
            self.checks.questions.begins(key, t);
            self.tenure_landed(key);
        }
        self.check_questions(key, before, &after);
        self.note_asked(key, before, &after);
        if let Some(key) = ours.filter(|_| self.healed.is_some()) {
            let bound = self.per_mille(130) + self.slowness();
            // A claim that nobody there wants any more is taken by its own process, too: that is no handover.
            let given_up = |view: &View| match view.stage {
                Stage::Ending(Some(belief)) => {
                    view.key == key && before.is_some_and(|b| b.fence == belief.fence)
                }
                _ => false,
            };
            if self.nodes[index].views.iter().any(given_up) || after.tenure.is_none() {
                let found = self.checks.turns.landed(key, before, &after, t, bound);
                self.checks.check(t, Rule::Turns, found);
            } else if is_new {
                self.checks.turns.forget(key);
            }
        }
        let node = &mut self.nodes[index];
        if let Some(tenure) = after.tenure.as_ref().filter(|_| node.life == life) {
            let is_own = tenure.attachment.is_none();
            if is_own {
                node.note_heartbeat(Heartbeat {
                    key: key.clone(),
                    fence: after.fence,
                    sent,
                    ttl: tenure.ttl,
                });
            }
        }
        self.check_mail(index, life, key, before, &after);
        if after.tenure.as_ref().is_some_and(|tenure| !tenure.mail.is_empty()) {
            self.mail_landed();
        }
        if let Some(key) = ours {
            self.note_update(key, &after);
        }
        if let (Some(key), None) = (ours, &after.tenure) {
            self.given_up(key);
        }
        self.hint(key, ours);
    }

    /// What an update wrote, should its user be told of that.
    fn note_update(&mut self, key: usize, after: &tenure_core::Record) {
        let Some(n) = after.metadata.get("n").and_then(Value::as_i64) else { return };
        let written = &mut self.updates[key];
        if written.last() != Some(&(after.fence, n)) {
            if written.len() >= 16 {
                written.remove(0);
            }
            written.push((after.fence, n));
        }
    }

    /// Somebody may have asked a session about claims.
    fn check_questions(
        &mut self,
        to: &Key,
        before: Option<&tenure_core::Record>,
        after: &tenure_core::Record,
    ) {
        let Some(tenure) = after.tenure.as_ref().filter(|_| self.scenario.users.trying == 100) else {
            return;
        };
        let was_there = |letter: &Letter| {
            before.and_then(|before| before.tenure.as_ref()).is_some_and(|old| old.mail.contains(letter))
        };
        for letter in tenure.mail.iter().filter(|letter| letter.ask == Ask::Confirm && letter.key != *to) {
            if let Some(key) = self.keys.iter().position(|key| *key == letter.key)
                && !was_there(letter)
            {
                // Where the store tells no ages, a process whose wall clock is ahead takes any claim for an old one.
                if self.spec.ages != Ages::Untold {
                    let found = self.checks.questions.again(key, self.t, self.ttl_ns());
                    self.checks.check(self.t, Rule::C1, found);
                }
            }
        }
    }

    /// A session may have been written to about the key that the store refuses.
    fn note_asked(&mut self, to: &Key, before: Option<&tenure_core::Record>, after: &tenure_core::Record) {
        let mail = |record: &tenure_core::Record| record.tenure.as_ref().map(|tenure| tenure.mail.clone());
        let (old, new) = (before.and_then(mail).unwrap_or_default(), mail(after).unwrap_or_default());
        for letter in new.iter().filter(|letter| !old.contains(letter)) {
            self.note_refused_letter(to, letter);
        }
    }

    /// Who is asked about a key that the store refuses looks again, and begins anew.
    fn note_refused_letter(&mut self, to: &Key, letter: &Letter) {
        if self.store.is_forbidden(&letter.key)
            && let Some(node) = self.nodes.iter().position(|node| node.session == *to)
        {
            self.spins[node].told_of_refused(self.t);
        }
    }

    /// Who sent a write: the process that runs, or one that ran there before.
    fn sender(&self, index: usize, life: u32) -> HolderId {
        let node = &self.nodes[index];
        if node.life == life {
            return node.who.clone();
        }
        let known = node.names.iter().rev().find(|(known, _)| *known == life);
        known.map_or_else(|| node.who.clone(), |(_, who)| who.clone())
    }

    fn check_mail(
        &mut self,
        index: usize,
        life: u32,
        key: &Key,
        before: Option<&tenure_core::Record>,
        after: &tenure_core::Record,
    ) {
        let Some(at) = self.mailed.iter().position(|(mailed, _)| mailed == key) else { return };
        let (_, written) = self.mailed.swap_remove(at);
        let node = &self.nodes[index];
        let renewed = match (before.and_then(|record| record.tenure.as_ref()), &after.tenure) {
            (Some(old), Some(new)) => old.id == new.id && new.mail.is_empty(),
            _ => false,
        };
        if let Some(before) = before.filter(|_| renewed && node.life == life) {
            let found = invariants::mail::told(node, &self.keys, key, before, written);
            self.checks.check(self.t, Rule::Mail, found);
        }
    }

    /// Tells those who wait that a key, or what its holder is attached to, has changed, and into which version.
    pub(crate) fn hint(&mut self, key: &Key, ours: Option<usize>) {
        if !self.spec.push {
            return;
        }
        let version = self.store.get(key).map(|record| record.version());
        let hint = || version.map_or(Hint::Key(key.clone()), |version| Hint::Written(key.clone(), version));
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            let waits = |view: &crate::node::View| {
                view.stage == Stage::Wanted && ours.is_none_or(|key| view.key == key)
            };
            if !node.views.iter().any(waits) {
                continue;
            }
            let life = node.life;
            let passes = node.answers_pass && !self.store_down;
            if passes && !self.befalls(Fault::HintLost) {
                let delay = self.rng.between(MILLI / 10, MILLI);
                self.post(self.t + delay, Message::Hint(index, life, hint()));
            }
        }
    }

    /// What a conditional write came to, for those who write without a process.
    pub(crate) fn write_as_admin(&mut self, write: tenure_core::op::Write) -> bool {
        let (to, tenure) = (write.key.clone(), write.record.tenure.clone());
        let (result, _) = self.store.perform(self.t, Op::Write(Box::new(write)));
        let is_written = matches!(result, Ok(Answer::Write(Outcome::Won { .. })));
        self.note_letters(&to, tenure.filter(|_| is_written).map(|tenure| tenure.mail).unwrap_or_default());
        is_written
    }

    /// Letters stand in the record of `to` now.
    pub(crate) fn note_letters(&mut self, to: &Key, letters: Vec<tenure_core::Letter>) {
        for letter in letters {
            self.note_refused_letter(to, &letter);
            if self.letters.len() >= 64 {
                self.letters.remove(0);
            }
            self.letters.push((to.clone(), letter));
        }
    }
}
