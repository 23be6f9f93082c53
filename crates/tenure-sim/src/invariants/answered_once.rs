//! Answered, exactly once: every command that users give has one answer, and no answer comes to what nobody asked. (That it comes in
//! time is in `answered`.)
//!
//! Source: `tenure_core::Command`, which says by what each is answered. Whoever gives a lease up while it is still being had, or
//! changed, may hear of both or of its end alone; its end is told once.

use std::collections::BTreeMap;
use tenure_core::{Command, LeaseId, Notice};

/// What users wait for with one lease.
#[derive(Debug, Default, Clone, Copy)]
struct Open {
    /// To have it.
    get: bool,
    /// Other metadata.
    change: bool,
    /// Plain data.
    detach: bool,
    /// That it is given up.
    end: bool,
    /// It is had.
    held: bool,
}

/// The open questions of a process's users.
#[derive(Debug, Default, Clone)]
pub(crate) struct AnswerLedger {
    leases: BTreeMap<LeaseId, Open>,
    /// The last one that a command was about.
    last: Option<LeaseId>,
    /// A lease that ended in the very step that was to change or end it: the machine tells that first, and then answers the command.
    crossed: Option<LeaseId>,
}

impl AnswerLedger {
    /// A user gives a command.
    pub(crate) fn asks(&mut self, command: &Command) {
        self.crossed = None;
        match command {
            Command::Acquire(id, _) | Command::Permits(id, _) | Command::Adopt(id, _) => {
                self.open(*id).get = true;
            }
            Command::Update(id, _) | Command::Merge(id, _) | Command::Note(id, _) => {
                self.open(*id).change = true
            }
            Command::Detach(id, _) | Command::Refresh(id, _) => self.open(*id).detach = true,
            Command::Release(id, _)
            | Command::Finish(id, _)
            | Command::ReleaseNoted(id, _)
            | Command::Pass(id, ..)
            | Command::Lapse(id)
            | Command::Return(id, _) => {
                self.open(*id).end = true;
            }
            // Everything is given up by that.
            Command::Stop => self.leases.values_mut().for_each(|open| open.end = true),
            Command::Examine(_) | Command::Announce(_) | Command::Start => {}
        }
    }

    fn open(&mut self, id: LeaseId) -> &mut Open {
        self.last = Some(id);
        self.leases.entry(id).or_default()
    }

    /// A user is told something.
    pub(crate) fn told(&mut self, node: usize, notice: &Notice) -> Result<(), String> {
        let Some(id) = notice.lease() else { return Ok(()) };
        let Some(open) = self.leases.get_mut(&id) else {
            if self
                .crossed
                .take_if(|crossed| {
                    *crossed == id
                        && matches!(notice, Notice::Lost(..) | Notice::Released(..) | Notice::Failed(..))
                })
                .is_some()
            {
                return Ok(());
            }
            return Err(format!("n{node} is told of a lease that nobody has or wants: {notice:?}"));
        };
        let before = *open;
        let expected = match notice {
            Notice::Acquired { .. } => {
                open.held = true;
                std::mem::take(&mut open.get)
            }
            Notice::Held(..) | Notice::Absent(_) | Notice::Seen(..) => open.get,
            Notice::NotOurs(..) => open.get || open.detach,
            Notice::Failed(..) if open.change => std::mem::take(&mut open.change),
            Notice::Failed(..) if open.detach && open.held => std::mem::take(&mut open.detach),
            Notice::Failed(..) => open.get || open.detach,
            Notice::Updated(_) => std::mem::take(&mut open.change),
            Notice::Detached(..) => open.detach,
            Notice::Released(..) => open.end,
            Notice::Lost(..) => {
                let expected = open.held || open.change || open.detach;
                (open.held, open.change, open.detach) = (false, false, false);
                expected
            }
            _ => true,
        };
        let ends = match notice {
            Notice::Held(..) | Notice::Absent(_) | Notice::Detached(..) => true,
            // Who gave it up while it was being had hears of its end, too.
            Notice::NotOurs(..) => !before.end,
            Notice::Failed(..) => !before.held && !before.change && !before.end,
            Notice::Released(..) => true,
            // What is given up is told as given up, too.
            Notice::Lost(..) => !before.end,
            _ => false,
        };
        if ends {
            self.leases.remove(&id);
            if self.last == Some(id) && !matches!(notice, Notice::Released(..)) {
                self.crossed = Some(id);
            }
        }
        if expected {
            return Ok(());
        }
        Err(format!("n{node} is told what it did not ask for, or once more: {notice:?}, {before:?}"))
    }
}
