//! A store's file that is removed while it is in use.
//!
//! Plan: who waits for the store, or works by it, ends once its leases are over, so that a service manager starts it anew; so does who looks.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, is_alive, wait_until, work};
use std::process::Stdio;

fn remove(bench: &Bench) {
    for side in ["", "-wal", "-shm", "-lock"] {
        std::fs::remove_file(bench.path(&format!("leases.db{side}"))).unwrap();
    }
}

#[test]
fn whoever_is_elected_and_whoever_works_ends_once_the_file_is_gone() {
    let script = "echo $$ > pid; exec sleep 600";
    let command = ["sh", "-c", script];
    let elect = [&["elect", "e", "--ttl", "1s", "--"], &command[..]].concat();
    for words in [elect, work(&["--ttl", "1s", "a", "b"], &command)] {
        let bench = Bench::new();
        let mut process = bench.start(&words);
        let pid = bench.await_number("pid");
        remove(&bench);
        assert_eq!(process.wait(), 69, "{words:?}");
        assert!(!is_alive(pid));
    }
    // Another file by that name is another store.
    let bench = Bench::new();
    let mut holder = bench.start(&["elect", "e", "--ttl", "1s", "--", "sh", "-c", script]);
    bench.await_number("pid");
    let mut waits = bench.start(&["elect", "e", "--ttl", "1s", "--", "true"]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    remove(&bench);
    assert_eq!(bench.run(&["run", "k", "--", "true"]).code, 0);
    assert_eq!((holder.wait(), waits.wait()), (69, 69));
}

/// Whether a process has the store's file open.
fn has_opened(process: &Process, bench: &Bench) -> bool {
    let opened = std::fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap();
    opened.flatten().any(|fd| std::fs::read_link(fd.path()).is_ok_and(|file| file == bench.store()))
}

#[test]
fn whoever_waits_or_looks_ends_once_the_file_is_gone() {
    let bench = Bench::new();
    let mut holder =
        bench.start(&["run", "k", "--ttl", "1s", "--", "sh", "-c", "echo $$ > pid; exec sleep 600"]);
    bench.await_number("pid");
    let cases: [&[&str]; 5] = [
        &["cron", "0 0 1 1 *", "c", "--ttl", "1s", "--", "true"],
        &["run", "k", "--ttl", "1s", "--", "true"],
        &["hold", "k", "--ttl", "1s"],
        &["wait", "k"],
        &["leader", "k", "--follow"],
    ];
    let mut waiting: Vec<_> = cases
        .iter()
        .map(|words| {
            let mut command = bench.tenure(words);
            // What ends with its standard input has one that goes on.
            Process::from(
                command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(),
            )
        })
        .collect();
    wait_until("all have opened it", || waiting.iter().all(|process| has_opened(process, &bench)));
    std::thread::sleep(std::time::Duration::from_millis(300));
    remove(&bench);
    for (words, process) in cases.iter().zip(&mut waiting) {
        assert_eq!(process.wait(), 69, "{words:?}");
    }
    holder.wait();
}
