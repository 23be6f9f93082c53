//! A store's file that is removed while it is in use.
//!
//! Plan: who waits for the store, or works by it, ends once its leases are over, so that a service manager starts it anew.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, is_alive, work};

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
