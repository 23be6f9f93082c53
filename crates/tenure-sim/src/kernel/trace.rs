//! What happened, for those who want to know: a hash of every history, and a readable timeline where one is asked for.

use super::clock::{SECOND, True};
use std::collections::VecDeque;
use std::fmt::Write as _;
use tenure_core::op::{Expect, Op, Step};
use tenure_core::{HolderId, Tick};

/// Lines kept of a timeline.
const KEPT: usize = 40000;

/// One line of a timeline.
pub(crate) enum Story {
    /// Of a process: what its users tell it (←) or hear (→), what it sends, and what becomes of that.
    Process(HolderId, String),
    /// Something happens in the store.
    Store(String),
    /// Something goes wrong, for a process if for one of them.
    Fault(Option<HolderId>, String),
}

#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) hash: u64,
    lines: Option<VecDeque<String>>,
}

impl Trace {
    pub(crate) fn new(readable: bool) -> Self {
        Trace { hash: 0xcbf2_9ce4_8422_2325, lines: readable.then(VecDeque::new) }
    }

    pub(crate) fn fold(&mut self, value: u64) {
        self.hash = (self.hash.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// A machine's step.
    pub(super) fn step<N>(&mut self, step: &Step<N>, node: usize) {
        self.fold(node as u64 | (step.requests.len() as u64) << 8 | (step.notices.len() as u64) << 16);
        self.fold(step.wake_at.unwrap_or(Tick(0)).0);
    }

    /// Whether anybody wants to read it.
    pub(super) fn is_read(&self) -> bool {
        self.lines.is_some()
    }

    pub(super) fn push(&mut self, t: True, story: Story) {
        let Some(lines) = &mut self.lines else { return };
        let text = match story {
            Story::Process(who, text) => format!("{who} {text}"),
            Story::Store(text) => format!("                         store: {text}"),
            Story::Fault(Some(who), text) => format!("{who} ** {text}"),
            Story::Fault(None, text) => format!("** {text}"),
        };
        if lines.len() >= KEPT {
            lines.pop_front();
        }
        lines.push_back(format!("{:>12.6} s  {text}", t as f64 / SECOND as f64));
    }

    pub(crate) fn lines(self) -> Vec<String> {
        self.lines.into_iter().flatten().collect()
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
