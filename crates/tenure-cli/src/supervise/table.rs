//! The table of processes, as /proc tells it (proc(5)). Systems without it have none.

use nix::sys::signal::killpg;
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessEntry {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// When it was started, in clock ticks since boot. With the number it names a process for good.
    pub(crate) start: u64,
    pub(crate) state: char,
    /// Those of it that have not ended yet, and its first one.
    pub(crate) threads: u64,
    /// What its program is called.
    pub(crate) name: String,
}

impl ProcessEntry {
    pub(crate) fn of(pid: i32) -> Option<ProcessEntry> {
        // Not text: a name may be any bytes.
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        ProcessEntry::parse(pid, &String::from_utf8_lossy(&stat))
    }

    /// What stands for all of a group where the system tells no more than that it is there.
    pub(crate) fn of_group(group: i32) -> Option<ProcessEntry> {
        let is_there = group > 1 && killpg(Pid::from_raw(group), None).is_ok();
        let name = "a process".to_owned();
        let entry =
            ProcessEntry { pid: group, parent: 0, group, session: 0, start: 0, state: 'S', threads: 1, name };
        is_there.then_some(entry)
    }

    fn parse(pid: i32, stat: &str) -> Option<ProcessEntry> {
        // The name may hold anything, also what looks like the end of it.
        let (head, rest) = stat.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |n: usize| fields.get(n)?.parse().ok();
        let state = fields.first()?.chars().next()?;
        let long = |n: usize| fields.get(n)?.parse().ok();
        let (threads, start) = (long(17)?, long(19)?);
        let (parent, group, session) = (number(1)?, number(2)?, number(3)?);
        Some(ProcessEntry { pid, parent, group, session, start, state, threads, name })
    }

    /// What is dead and waits for a parent to notice does nothing more. Some containers' first process never notices. One whose first
    /// thread alone has ended looks the same, but goes on.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X') || self.threads > 1
    }

    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }
}

/// All processes at one moment.
#[derive(Debug)]
pub(crate) struct ProcessTable {
    entries: BTreeMap<i32, ProcessEntry>,
    children: BTreeMap<i32, Vec<i32>>,
}

impl ProcessTable {
    /// None where the system doesn't tell.
    pub(crate) fn read() -> Option<ProcessTable> {
        ProcessTable::read_while(|| true)
    }

    /// The same, or a part of it if there is no time for more.
    pub(crate) fn read_while(is_time: impl Fn() -> bool) -> Option<ProcessTable> {
        let numbers = std::fs::read_dir("/proc").ok()?.flatten().take_while(|_| is_time());
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let table = ProcessTable::new(numbers.filter_map(ProcessEntry::of));
        (!table.entries.is_empty()).then_some(table)
    }

    fn new(entries: impl Iterator<Item = ProcessEntry>) -> ProcessTable {
        let entries: BTreeMap<i32, ProcessEntry> = entries.map(|entry| (entry.pid, entry)).collect();
        let mut children = BTreeMap::<i32, Vec<i32>>::new();
        for entry in entries.values() {
            children.entry(entry.parent).or_default().push(entry.pid);
        }
        ProcessTable { entries, children }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &ProcessEntry> {
        self.entries.values()
    }

    pub(crate) fn get(&self, pid: i32) -> Option<&ProcessEntry> {
        self.entries.get(&pid)
    }

    pub(crate) fn has(&self, pid: i32) -> bool {
        self.entries.contains_key(&pid)
    }

    pub(crate) fn children(&self, of: i32) -> &[i32] {
        self.children.get(&of).map_or(&[], Vec::as_slice)
    }

    /// These processes, what they have started, what that has started, and so on: all of it that is alive.
    pub(crate) fn below(&self, roots: impl IntoIterator<Item = i32>) -> Vec<ProcessEntry> {
        let (mut seen, mut todo) = (BTreeSet::new(), roots.into_iter().collect::<Vec<_>>());
        while let Some(pid) = todo.pop() {
            if self.entries.contains_key(&pid) && seen.insert(pid) {
                todo.extend(self.children(pid));
            }
        }
        let alive = seen.iter().filter_map(|pid| self.entries.get(pid)).filter(|entry| entry.is_alive());
        alive.cloned().collect()
    }
}

/// A time since boot as the table tells it: in hundredths of a second, whatever the kernel's own ticks are (proc(5)).
pub(crate) fn ticks(since_boot: Duration) -> u64 {
    u64::try_from(since_boot.as_millis() / 10).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure::clock::boottime;

    fn entry(pid: i32, parent: i32, state: char) -> ProcessEntry {
        let stat = format!("{pid} (a) b (c)) {state} {parent} 7 8 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0");
        ProcessEntry::parse(pid, &stat).unwrap()
    }

    #[test]
    fn a_line_of_the_table_is_read_whatever_the_name_holds() {
        let name = "a) b (c)".to_owned();
        let expected =
            ProcessEntry { pid: 5, parent: 4, group: 7, session: 8, start: 99, state: 'S', threads: 1, name };
        assert_eq!(entry(5, 4, 'S'), expected);
        assert_eq!(ProcessEntry::parse(5, "5 (a) S 4"), None);
        let own = ProcessEntry::of(std::process::id().cast_signed());
        assert!(own.is_some_and(|own| own.is_alive() && !own.is_stopped()));
    }

    #[test]
    fn a_time_since_boot_is_told_in_the_tables_own_ticks() {
        let before = ticks(boottime());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let start = ProcessEntry::of(child.id().cast_signed()).unwrap().start;
        assert!(before <= start && start <= ticks(boottime()), "{before} {start}");
        child.wait().unwrap();
    }

    #[test]
    fn what_is_below_a_process_is_all_that_is_alive_there() {
        let table = ProcessTable::new(
            [entry(1, 0, 'S'), entry(2, 1, 'S'), entry(3, 2, 'Z'), entry(4, 3, 'T'), entry(5, 1, 'R')]
                .into_iter(),
        );
        let below = |root: i32| table.below([root]).iter().map(|entry| entry.pid).collect::<Vec<_>>();
        assert_eq!(below(2), [2, 4]);
        assert_eq!(below(1), [1, 2, 4, 5]);
        assert_eq!(below(9), [0; 0]);
    }
}
