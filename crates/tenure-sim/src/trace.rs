//! What happened, for those who want to know: a hash of every history, and a readable timeline where one is asked for.

use crate::clock::{SECOND, True};
use crate::world::What;
use std::collections::VecDeque;
use std::fmt::Write as _;
use tenure_core::op::{Expect, Op, Step};
use tenure_core::{Notice, Tick};

/// Lines kept of a timeline.
const KEPT: usize = 40000;

/// One line of a timeline.
pub(crate) enum Story {
    Command(usize, String),
    Store(String),
    Fault(Option<usize>, String),
}

#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) hash: u64,
    lines: Option<VecDeque<String>>,
    t: True,
}

impl Trace {
    pub(crate) fn new(readable: bool) -> Self {
        Trace { hash: 0xcbf2_9ce4_8422_2325, lines: readable.then(VecDeque::new), t: 0 }
    }

    pub(crate) fn fold(&mut self, value: u64) {
        self.hash = (self.hash.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    pub(crate) fn mark(&mut self, t: True, what: &What) {
        self.t = t;
        let kind = match what {
            What::Message(slot) => u64::from(*slot) << 8,
            What::Wake(node, _) => 1 | u64::from(*node) << 8,
            What::User(node, _, task, turn) => {
                2 | u64::from(*node) << 8 | u64::from(*task) << 16 | u64::from(*turn) << 32
            }
            What::Effect { node, fence, .. } => 4 | u64::from(*node) << 8 | fence << 16,
            What::Resume(node, _) => 5 | u64::from(*node) << 8,
            What::Restart(node, _) => 6 | u64::from(*node) << 8,
            What::HealLink(node, _) => 7 | u64::from(*node) << 8,
            What::StoreUp => 8,
            What::Strike(kind) => 9 | u64::from(*kind) << 8,
            What::Letter => 10,
            What::Collect => 11,
            What::Death => 12,
            What::Look => 13,
            What::Phase => 14,
            What::Lead(node, _, key) => 15 | u64::from(*node) << 8 | u64::from(*key) << 16,
            What::Candidate(node, _, key, turn) => {
                16 | u64::from(*node) << 8 | u64::from(*key) << 16 | u64::from(*turn) << 32
            }
            What::Inbox(node, _) => 17 | u64::from(*node) << 8,
            What::Seizer(slot, _) => 18 | u64::from(*slot) << 8,
            What::Due => 19,
            What::Mend => 22,
            What::Hide(node, _) => 20 | u64::from(*node) << 8,
            What::Gap(node, _) => 21 | u64::from(*node) << 8,
        };
        self.fold(t);
        self.fold(kind);
    }

    pub(crate) fn tell(&mut self, t: True, story: impl FnOnce() -> Story) {
        if self.lines.is_some() {
            let line = match story() {
                Story::Command(node, text) => format!("n{node} ← {text}"),
                Story::Store(text) => format!("                         store: {text}"),
                Story::Fault(Some(node), text) => format!("n{node} ** {text}"),
                Story::Fault(None, text) => format!("** {text}"),
            };
            self.push(t, &line);
        }
    }

    /// A machine's step: its requests and notices.
    pub(crate) fn step(&mut self, node: usize, step: &Step<Notice>) {
        self.fold(node as u64 | (step.requests.len() as u64) << 8 | (step.notices.len() as u64) << 16);
        self.fold(step.wake_at.unwrap_or(Tick(0)).0);
        if self.lines.is_none() {
            return;
        }
        for notice in &step.notices {
            self.push(self.t, &format!("n{node} → {notice:?}"));
        }
        for request in &step.requests {
            let text = describe(&request.op);
            self.push(self.t, &format!("n{node} sends #{} {text}", request.id.0));
        }
    }

    fn push(&mut self, t: True, text: &str) {
        if let Some(lines) = &mut self.lines {
            if lines.len() >= KEPT {
                lines.pop_front();
            }
            lines.push_back(format!("{:>12.6} s  {text}", t as f64 / SECOND as f64));
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.iter().flatten().cloned().collect()
    }
}

/// An operation in few words.
pub(crate) fn describe(op: &Op) -> String {
    let write = match op {
        Op::Read(key) => return format!("read {key}"),
        Op::ReadMany(keys, _) => return format!("read {} records", keys.len()),
        Op::List { prefix, .. } => return format!("list {prefix}*"),
        Op::Write(write) => write,
    };
    let mut text = String::new();
    let record = &write.record;
    let what = match &record.tenure {
        None => "vacate".to_owned(),
        Some(tenure) if tenure.id == record.nonce => format!("claim for {}", tenure.holder),
        Some(tenure) => format!("renew for {}", tenure.holder),
    };
    let _infallible =
        write!(text, "{what} {} fence {} nonce …{:x}", write.key, record.fence, record.nonce.0 as u64);
    if let Some(attachment) = record.tenure.as_ref().and_then(|tenure| tenure.attachment.as_ref()) {
        let _infallible = write!(text, " attached to {} {}", attachment.session, attachment.fence);
    }
    let _infallible = match write.expect {
        Expect::Absent => write!(text, " if absent"),
        Expect::Vacant => write!(text, " if vacant"),
        Expect::Unchanged(version) => write!(text, " if …{:x}", version.0 as u64),
    };
    text
}
