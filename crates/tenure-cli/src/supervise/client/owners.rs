//! Whose a process is that lost its parent and came to us, where several commands run side by side.
//!
//! Its mark tells. Who starts it may have emptied its environment, and a daemon that sets its title writes over its own. Then its
//! process group or its session tells, as only those below one command are in them. What tells nothing may be of each command that is
//! older, and is left alone until all of these but one are over: that one ends it.

use super::super::children::AdoptedProcesses;
use super::super::mark::{is_of, marks_of};
use super::super::table::{ProcessEntry, ProcessTable};
use super::SupervisedCommand;
use std::collections::{BTreeMap, BTreeSet};

/// A process by its number and the time of its start.
type Identity = (i32, u64);

/// The commands of this process, and what is known of those that came to it.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// By their marks.
    commands: BTreeMap<String, KnownCommand>,
    /// Whose mark each has, as it was first seen: it may write over it.
    owners: BTreeMap<Identity, String>,
    /// Those that may have been of more than one command.
    doubtful: BTreeSet<Identity>,
}

#[derive(Debug)]
struct KnownCommand {
    start: u64,
    group: Option<i32>,
    /// It has ended, and what it has left is being ended.
    is_over: bool,
}

impl Owners {
    /// A command is about to be started.
    pub(super) fn begin(&mut self, mark: &str, start: u64) {
        self.commands.insert(mark.to_owned(), KnownCommand { start, group: None, is_over: false });
    }

    /// It was, and has this group.
    pub(super) fn is_in(&mut self, mark: &str, group: i32) {
        if let Some(command) = self.commands.get_mut(mark) {
            command.group = Some(group);
        }
    }

    /// It has ended, and owns what no other one can own. To be said before that is looked for: of two that end at a time, one would
    /// leave it to the other otherwise.
    pub(super) fn end(&mut self, mark: &str) {
        if let Some(command) = self.commands.get_mut(mark) {
            command.is_over = true;
        }
    }

    /// What it has left is ended, too.
    pub(super) fn forget(&mut self, mark: &str) {
        self.commands.remove(mark);
    }

    /// Whether it is not certain that this was the command's that ended it.
    pub(super) fn is_doubtful(&self, entry: &ProcessEntry) -> bool {
        self.doubtful.contains(&identity(entry))
    }

    /// Sees who is there now: who is seen for the first time has its mark more probably than later.
    pub(super) fn see(&mut self, adopted: &BTreeSet<Identity>, whose: &str) {
        let is_there = |process: &Identity| {
            let has_started = |entry: ProcessEntry| entry.start == process.1;
            adopted.contains(process) || ProcessEntry::of(process.0).is_some_and(has_started)
        };
        self.owners.retain(|process, _| is_there(process));
        self.doubtful.retain(is_there);
        for process in adopted {
            if !self.owners.contains_key(process) {
                self.note(*process, marks_of(process.0), whose);
            }
        }
    }

    /// Those of whom it is not known whose they are.
    pub(super) fn unknown(&self, adopted: &AdoptedProcesses, table: &ProcessTable) -> Vec<Identity> {
        let entries = adopted.pids.iter().filter_map(|pid| table.get(*pid));
        entries.map(identity).filter(|process| !self.owners.contains_key(process)).collect()
    }

    /// A process bears these marks.
    pub(super) fn note(&mut self, process: Identity, marks: Vec<String>, whose: &str) {
        if let Some(mark) = marks.into_iter().find(|mark| is_of(mark, whose)) {
            self.owners.entry(process).or_insert(mark);
        }
    }

    /// Those that are the command's, as far as marks are noted.
    pub(super) fn of(
        &mut self,
        subject: &SupervisedCommand,
        adopted: &AdoptedProcesses,
        table: &ProcessTable,
    ) -> Vec<i32> {
        if !self.unknown(adopted, table).is_empty() {
            self.note_kin(adopted, table);
        }
        let mut its = Vec::new();
        for entry in adopted.pids.iter().filter_map(|pid| table.get(*pid)) {
            let is_its = match self.owners.get(&identity(entry)) {
                Some(mark) if self.commands.contains_key(mark) => *mark == subject.mark,
                // Not what this process has started itself. What bears the mark of a command that is forgotten is nobody's, as what bears none.
                _ if !adopted.is_certain || entry.start < subject.start => false,
                _ if self.may_be_anothers(entry, subject) => {
                    self.doubtful.insert(identity(entry));
                    false
                }
                _ => true,
            };
            if is_its {
                its.push(entry.pid);
            }
        }
        its
    }

    /// Whether another command that runs is old enough to have started this.
    fn may_be_anothers(&self, entry: &ProcessEntry, subject: &SupervisedCommand) -> bool {
        self.commands
            .iter()
            .any(|(mark, command)| *mark != subject.mark && !command.is_over && command.start <= entry.start)
    }

    /// Who is in a group or a session with what is below a command is below that command, too.
    fn note_kin(&mut self, adopted: &AdoptedProcesses, table: &ProcessTable) {
        let own = ProcessEntry::of(std::process::id().cast_signed());
        let (own_group, own_session) = own.map_or((0, 0), |own| (own.group, own.session));
        let adopted: Vec<&ProcessEntry> = adopted.pids.iter().filter_map(|pid| table.get(*pid)).collect();
        let (mut groups, mut sessions) = (BTreeMap::new(), BTreeMap::new());
        for (mark, command) in &self.commands {
            let is_marked = |entry: &&&ProcessEntry| self.owners.get(&identity(entry)) == Some(mark);
            let roots = adopted.iter().filter(is_marked).map(|entry| entry.pid).chain(command.group);
            for entry in table.below(roots) {
                groups.entry(entry.group).or_insert_with(|| mark.clone());
                sessions.entry(entry.session).or_insert_with(|| mark.clone());
            }
        }
        // Each command leads its own, whoever has joined that.
        let own_of_commands =
            self.commands.iter().filter_map(|(mark, command)| Some((command.group?, mark.clone())));
        groups.extend(own_of_commands);
        groups.remove(&own_group);
        sessions.remove(&own_session);
        for entry in adopted {
            if let Some(mark) = groups.get(&entry.group).or_else(|| sessions.get(&entry.session)) {
                self.owners.entry(identity(entry)).or_insert_with(|| mark.clone());
            }
        }
    }
}

fn identity(entry: &ProcessEntry) -> Identity {
    (entry.pid, entry.start)
}
