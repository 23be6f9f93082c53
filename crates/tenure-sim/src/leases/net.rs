//! What the checks of leases see of requests, answers and writes.

use super::World;
use super::node::{Heartbeat, LeaseStage, LeaseView};
use crate::invariants::s4::SentClaim;
use crate::invariants::{self, Rule};
use crate::kernel::clock::True;
use crate::kernel::registers::{Ages, Landed};
use crate::kernel::{Envelope, key_of};
use tenure_core::op::{Answer, Op, Outcome};
use tenure_core::{Ask, ErrorKind, Key, Letter, Now, StoreError, Value};

impl World {
    /// Does a process ask about one key over and over?
    pub(super) fn check_key_requests(&mut self, index: usize, op: &Op) {
        let Some(key) = key_of(op) else { return };
        let (t, ttl, leases) = (self.t, self.ttl_ns(), self.nodes[index].own.views.len() as u32);
        let found = self.scene.key_requests[index].again(key, t, ttl, leases);
        self.check(Rule::C1, found);
        let node = &self.nodes[index];
        let is_nobodys = node.own.views.iter().all(|view| self.scene.keys[view.key] != *key);
        let refused = self.store.is_forbidden(key).then_some((node.life, is_nobodys));
        let found = refused.map_or(Ok(()), |who| self.scene.key_requests[index].refused(who, key, t, ttl));
        self.check(Rule::C1, found);
    }

    /// In the calm of some worlds calls are slow, and one renewal in a row may fail: that must not cost anyone a lease.
    pub(super) fn delay(&mut self, envelope: &mut Envelope) -> True {
        let node = &mut self.nodes[envelope.node];
        if let Op::Write(write) = &envelope.op {
            envelope.token = node.uses_token(&write.key, write.record.fence);
        }
        if !self.scenario.stumbles || self.healed.is_none() {
            return 0;
        }
        let delay = self.rng.below(self.per_mille(110));
        let stumbled = &mut self.nodes[envelope.node].own.stumbled;
        let key = envelope.key().cloned();
        let known = stumbled.iter().position(|(stumbled, _)| Some(stumbled) == key.as_ref());
        match known {
            Some(at) if envelope.urgent && stumbled[at].1 == 0 => drop(stumbled.swap_remove(at)),
            Some(at) if envelope.urgent => stumbled[at].1 -= 1,
            None if envelope.urgent && self.rng.chance(0.3) => {
                stumbled.extend(key.map(|key| (key, 1)));
                envelope.stumbles = true;
            }
            _ => {}
        }
        delay
    }

    /// An answer reaches its node.
    pub(super) fn note_answer(
        &mut self,
        index: usize,
        envelope: &Envelope,
        result: &Result<Answer, StoreError>,
    ) {
        let claim = envelope.claim();
        if let (Some(id), Ok(Answer::Write(Outcome::Won { fence, .. }))) = (claim, result) {
            let won = &mut self.nodes[index].own.won;
            if won.len() >= 16 {
                won.remove(0);
            }
            won.push((id, *fence));
        }
        let refused = result.as_ref().is_err_and(|error| error.kind() != ErrorKind::Unknown);
        for sent in &mut self.scene.claims[index] {
            let looked = result.is_ok() && envelope.key() == Some(&self.scene.keys[sent.key]);
            sent.settled |= looked || (refused && claim == Some(sent.id));
        }
    }

    /// What a process sends is looked at before it goes anywhere.
    pub(super) fn check_sent(&mut self, index: usize, now: Now, op: &Op) {
        let Op::Write(write) = op else { return };
        let node = &self.nodes[index];
        let key = self.key_index(&write.key);
        if write.record.tenure.is_none()
            && key.is_some_and(|key| self.scene.acts.is_behind(key, write.record.fence))
        {
            // Whoever finds an old claim of its own that was put back gives it up anew.
            return;
        }
        self.checks.check(self.t, Rule::S3, invariants::s3::sent(node, now.held, write));
        self.checks.check(
            self.t,
            Rule::S6,
            invariants::s6::sent(node, &self.scene.lapses[index], now.held, write),
        );
        self.checks.check(self.t, Rule::C1, invariants::c1::sent(node, &self.scene.keys, write));
        let Some(tenure) = &write.record.tenure else { return };
        if tenure.id == write.record.nonce
            && tenure.attachment.is_none()
            && !node.uses_token(&write.key, write.record.fence)
            && let Some(key) = self.key_index(&write.key)
        {
            let claims = &mut self.scene.claims[index];
            if claims.len() >= 16 {
                claims.remove(0);
            }
            let searched_for = tenure.ttl.duration();
            claims.push(SentClaim { id: tenure.id, key, sent: now.held, searched_for, settled: false });
        }
    }

    /// A write took effect.
    pub(super) fn tenure_landed(&mut self, envelope: &Envelope, key: &Key, landed: &Landed, is_new: bool) {
        let Envelope { node: index, life, sent, .. } = *envelope;
        let ours = self.key_index(key);
        self.note_coverage(index, life, key, ours, landed);
        let Landed { before, after } = landed;
        let (t, before) = (self.t, before.as_ref());
        self.check(Rule::Withdrawn, invariants::withdrawn::not_beaten(key, before, after));
        if is_new && let Some(key) = ours {
            self.scene.questions.begins(key, t);
            self.claim_landed(key);
        }
        self.check_questions(key, before, after);
        self.note_asked(key, before, after);
        if let Some(key) = ours.filter(|_| self.healed.is_some()) {
            let bound = self.per_mille(130) + self.slowness();
            // A claim that nobody there wants any more is taken by its own process, too: that is no handover.
            let given_up = |view: &LeaseView| match view.stage {
                LeaseStage::Ending(Some(belief)) => {
                    view.key == key && before.is_some_and(|b| b.fence == belief.fence)
                }
                _ => false,
            };
            if self.nodes[index].own.views.iter().any(given_up) || after.tenure.is_none() {
                let found = self.scene.turns.landed(key, before, after, t, bound);
                self.check(Rule::Turns, found);
            } else if is_new {
                self.scene.turns.forget(key);
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
        self.check_mail(index, life, key, before, after);
        if after.tenure.as_ref().is_some_and(|tenure| !tenure.mail.is_empty()) {
            self.mail_landed();
        }
        if let Some(key) = ours {
            self.note_update(key, after);
        }
        if let (Some(key), None) = (ours, &after.tenure) {
            self.given_up(key);
        }
        self.hint(key);
    }

    /// What an update wrote, should its user be told of that.
    fn note_update(&mut self, key: usize, after: &tenure_core::Record) {
        let Some(n) = after.metadata.get("n").and_then(Value::as_i64) else { return };
        let written = &mut self.scene.updates[key];
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
            if let Some(key) = self.key_index(&letter.key)
                && !was_there(letter)
            {
                // Where the store tells no ages, a process whose wall clock is ahead takes any claim for an old one.
                if self.spec.ages != Ages::Untold {
                    let found = self.scene.questions.again(key, self.t, self.ttl_ns());
                    self.check(Rule::C1, found);
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
            self.scene.key_requests[node].told_of_refused(self.t);
        }
    }

    fn check_mail(
        &mut self,
        index: usize,
        life: u32,
        key: &Key,
        before: Option<&tenure_core::Record>,
        after: &tenure_core::Record,
    ) {
        let Some(at) = self.scene.mailed.iter().position(|(mailed, _)| mailed == key) else { return };
        let (_, written) = self.scene.mailed.swap_remove(at);
        let node = &self.nodes[index];
        let renewed = match (before.and_then(|record| record.tenure.as_ref()), &after.tenure) {
            (Some(old), Some(new)) => old.id == new.id && new.mail.is_empty(),
            _ => false,
        };
        if let Some(before) = before.filter(|_| renewed && node.life == life) {
            self.check(Rule::Mail, invariants::mail::told(node, &self.scene.keys, key, before, written));
        }
    }

    /// What a conditional write came to, for those who write without a process.
    pub(crate) fn write_as_admin(&mut self, write: tenure_core::op::Write) -> bool {
        let (to, tenure) = (write.key.clone(), write.record.tenure.clone());
        let (result, _) = self.store.perform(self.t, &Op::Write(Box::new(write)), None, 0);
        let is_written = matches!(result, Ok(Answer::Write(Outcome::Won { .. })));
        self.note_letters(&to, tenure.filter(|_| is_written).map(|tenure| tenure.mail).unwrap_or_default());
        is_written
    }

    /// Letters stand in the record of `to` now.
    pub(crate) fn note_letters(&mut self, to: &Key, letters: Vec<tenure_core::Letter>) {
        for letter in letters {
            self.note_refused_letter(to, &letter);
            if self.scene.letters.len() >= 64 {
                self.scene.letters.remove(0);
            }
            self.scene.letters.push((to.clone(), letter));
        }
    }
}
