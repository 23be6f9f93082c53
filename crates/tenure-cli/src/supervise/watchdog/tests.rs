use super::*;
use std::os::unix::process::CommandExt;

#[test]
fn what_carries_the_mark_is_found_unless_there_is_no_time_or_it_is_older_than_tenure() {
    let mark = format!("a-mark-of-{}", std::process::id());
    let mut sleep = std::process::Command::new("sleep");
    let mut sleep = sleep.arg("600").env(mark::MARK, &mark).process_group(0).spawn().unwrap();
    let pid = sleep.id().cast_signed();
    let mut watchdog = WatchdogProcess {
        lead: LeadTime::new(Duration::from_secs(4), Duration::MAX),
        mark,
        starting: 1,
        ..WatchdogProcess::default()
    };
    // Its program, and so its environment, is there a little later than the process.
    while mark::marks_of(pid).is_empty() {
        std::thread::yield_now();
    }
    let start = ProcessEntry::of(pid).unwrap().start;
    let found = |watchdog: &WatchdogProcess| watchdog.below(&BTreeSet::new(), || true).unwrap();
    assert_eq!(found(&watchdog), BTreeSet::from([(pid, start)]));
    assert_eq!(watchdog.below(&BTreeSet::new(), || false), None, "a part of the table is not all of it");
    watchdog.since = start;
    assert_eq!(found(&watchdog), BTreeSet::from([(pid, start)]));
    watchdog.since = start + 1;
    assert_eq!(found(&watchdog), BTreeSet::new());
    sleep.kill().unwrap();
    sleep.wait().unwrap();
}

#[test]
fn s6_what_was_told_and_not_read_yet_puts_off_what_is_due() {
    let mut sleep = std::process::Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let now = boottime().as_nanos();
    // More than is read at once, so that the deadline that has passed is known before the later one.
    let early = format!("+{}\ndeadline {}\n", sleep.id(), now - 1);
    let late = format!("deadline {}\nbye\n", now + 1_000_000_000_000);
    let text = early + &"!\n".repeat(4096) + &late;
    std::io::Write::write_all(&mut writer, text.as_bytes()).unwrap();
    let mut watchdog = WatchdogProcess {
        lead: LeadTime::new(Duration::from_secs(4), Duration::MAX),
        mark: format!("no-mark-{}", std::process::id()),
        since: u64::MAX,
        ..WatchdogProcess::default()
    };
    watchdog.listen(File::from(std::os::fd::OwnedFd::from(reader)));
    assert!(watchdog.doomed.is_none() && sleep.try_wait().unwrap().is_none());
    sleep.kill().unwrap();
    sleep.wait().unwrap();
}

#[test]
fn s6_what_stands_still_past_the_deadline_does_not_go_on_to_end() {
    use std::os::unix::process::ExitStatusExt;
    let stopped = || {
        let stops = "trap exit TERM; kill -STOP $$; exit";
        let child = std::process::Command::new("sh").args(["-c", stops]).process_group(0).spawn().unwrap();
        let entry = || ProcessEntry::of(child.id().cast_signed()).unwrap();
        while !entry().is_stopped() {
            std::thread::yield_now();
        }
        child
    };
    let mut children: Vec<_> = (0..20).map(|_| stopped()).collect();
    let mut watchdog = WatchdogProcess {
        lead: LeadTime::new(Duration::from_secs(4), Duration::MAX),
        mark: format!("no-mark-{}", std::process::id()),
        since: u64::MAX,
        groups: children.iter().map(|child| child.id().cast_signed()).collect(),
        // As if the machine was suspended until now.
        deadline: Some(boottime()),
        ..WatchdogProcess::default()
    };
    watchdog.doom(boottime());
    watchdog.kill();
    for child in &mut children {
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGKILL as i32));
    }
}

#[test]
fn stopping_begins_well_before_a_renewal_that_fails_once() {
    for millis in [50, 1000, 10_000, 86_400_000] {
        let ttl = Duration::from_millis(millis);
        // Belief lasts 0.82 ttl, and the first renewal is due after a third of it.
        assert!(LeadTime::new(ttl, Duration::MAX).total() < ttl / 3, "{ttl:?}");
    }
    assert_eq!(
        LeadTime::new(Duration::from_secs(8), Duration::from_millis(100)).term,
        Duration::from_millis(100)
    );
}
