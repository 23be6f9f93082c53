//! The processor time that children of this process have taken, and what other processes have.

use std::collections::BTreeMap;
use std::time::Duration;

/// The processor time of all children that have ended, as Linux tells it, in hundredths of a second.
pub(crate) fn of_children() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is a name in brackets, in which anything may be; after it come the third and the others.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Duration::from_millis((user + system) * 10))
}

/// What they have taken since that was `before`.
pub(crate) fn of_children_since(before: Option<Duration>) -> Option<Duration> {
    of_children().zip(before).map(|(after, before)| after.saturating_sub(before))
}

/// The processor time of processes that run and of those below them, also of those that have ended there and were waited for.
pub(crate) fn of_trees(roots: &[u32]) -> Option<Duration> {
    // The parent and the time of each process. One that ends meanwhile is not there.
    let mut all: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((_, fields)) = stat.rsplit_once(')') else { continue };
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok());
        let times = (11..15).map(number).sum::<Option<u64>>();
        all.extend(number(1).zip(times).map(|(parent, times)| (pid, (parent as u32, times))));
    }
    let is_below = |pid: u32| {
        let line = std::iter::successors(Some(pid), |pid| all.get(pid).map(|(parent, _)| *parent));
        line.take(all.len()).any(|above| roots.contains(&above))
    };
    let times = all.iter().filter(|(pid, _)| is_below(**pid)).map(|(_, (_, times))| times).sum::<u64>();
    Some(Duration::from_millis(times * 10))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn the_time_of_a_process_and_of_those_below_it_is_told() {
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        // A child that has ended, and one that lives.
        let script = format!("sh -c '{busy}'; sh -c '{busy}; echo; exec sleep 60'");
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut read = BufReader::new(child.stdout.take().unwrap());
        read.read_line(&mut String::new()).unwrap();
        let (all, none) = (of_trees(&[child.id()]).unwrap(), of_trees(&[]).unwrap());
        let sleeps = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
        let alive = of_trees(&[sleeps.trim().parse().unwrap()]).unwrap();
        crate::command::run(Command::new("kill").arg(sleeps.trim())).unwrap();
        child.wait().unwrap();
        assert!(none == Duration::ZERO && alive > none && all > alive, "{none:?} {alive:?} {all:?}");
    }
}
