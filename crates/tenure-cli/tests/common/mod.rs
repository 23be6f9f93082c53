//! What the tests of the binary share: a directory with a store of its own, commands in it, and what is known of their processes.
#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub, reason = "a test that can't go on fails")]
#![allow(clippy::disallowed_methods, reason = "real processes are measured by real time")]

pub mod agent;
pub mod browser;
pub mod dashboard;
pub mod every_store;
pub mod process;
pub mod readme;
pub mod relay;
pub mod remote;
#[cfg(all(feature = "dynamodb", feature = "etcd", feature = "postgres", feature = "redis"))]
pub mod servers;
#[cfg(feature = "dynamodb")]
pub mod service;
pub mod successor;
pub mod tcp_relay;
pub mod toothless;
pub mod waiting;
pub mod workers;
pub mod yaml;

use nix::sys::signal::Signal;
use process::are_all_stopped;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Once, atomic::AtomicBool};
use tempfile::TempDir;
use tenure::sqlite::{SqliteConfig, SqliteStore};
use tenure::store::{Expect, Nonce, Outcome, Record, Tenure, Write};
use tenure::{Clock, Fence, Key, Metadata, Store};

pub use process::{Process, Ran, children_of, first_words, full_pipe, is_alive, shell_status};
pub use waiting::{LONG, now_ms, takes_at_most, wait_for, wait_until};
pub use workers::{OBEYS, TICKS, work};

pub struct Bench {
    dir: TempDir,
}

/// Whoever was started with `&` in a script ignores INT and QUIT, and so does all that it starts, which tenure and shells
/// heed. What is
/// caught here is not ignored there any more.
fn heed_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
        let ignored = u64::from_str_radix(ignored, 16).unwrap();
        for signal in [1, 2, 3, 15].into_iter().filter(|signal| ignored & (1 << (signal - 1)) != 0) {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).unwrap();
        }
    });
}

impl Bench {
    pub fn new() -> Bench {
        heed_signals();
        Bench { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn store(&self) -> PathBuf {
        self.path("leases.db")
    }

    /// `tenure` in this bench's directory, with a store there, and nothing on standard input.
    pub fn tenure(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        self.settle(command.args(arguments).stdin(Stdio::null()));
        command.env("TENURE_STORE", "sqlite:leases.db");
        command
    }

    /// Sees to it that a command works in this bench's directory, and that no file or store of its user counts.
    pub fn settle<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.current_dir(self.dir.path());
        for variable in [
            "TENURE_STORE",
            "TENURE_NAMESPACE",
            "TENURE_METRICS",
            "TENURE_LOG",
            "TENURE_LOG_FORMAT",
            "TENURE_TOKEN",
            "TENURE_READ_TOKEN",
        ] {
            command.env_remove(variable);
        }
        let state = self.path("state");
        // An agent's socket is there unless it is named.
        command.env("XDG_RUNTIME_DIR", self.dir.path());
        command.env("TENURE_CONFIG", "/dev/null").env("XDG_STATE_HOME", state)
    }

    /// Runs it. A file that others were at for too long, as on a slow disk, is asked again.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Ran {
        wait_for("a turn at the file", || {
            let ran = Ran::of(self.tenure(arguments).output().unwrap());
            Some(ran).filter(|ran| ran.code != 69 || !ran.err.contains(": busy: "))
        })
    }

    /// Runs a shell's script that may mount what it likes, as a full disk; `$TENURE` is the program.
    pub fn run_with_mounts(&self, script: &str) -> Ran {
        // As root, or where users may have namespaces of their own.
        let own = "unshare --mount true 2> /dev/null && exec unshare --mount \"$@\"; exec unshare --user --map-root-user --mount \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", own, "own", "sh", "-c", script]);
        Ran::of(self.settle(&mut command).env("TENURE", env!("CARGO_BIN_EXE_tenure")).output().unwrap())
    }

    /// Starts it in the background; its output is thrown away.
    pub fn start(&self, arguments: &[&str]) -> Process {
        let mut command = self.tenure(arguments);
        Process::from(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// The number that a command has written into a file.
    pub fn number(&self, name: &str) -> Option<i32> {
        self.read(name).strip_suffix('\n')?.trim().parse().ok()
    }

    pub fn await_number(&self, name: &str) -> i32 {
        wait_for(name, || self.number(name))
    }

    /// One record as `show --json` tells it.
    pub fn show(&self, key: &str) -> serde_json::Value {
        let ran = self.run(&["show", key, "--json"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.json()
    }

    pub fn state(&self, key: &str) -> String {
        self.show(key)["state"].as_str().unwrap().to_owned()
    }

    /// Stops processes as SIGSTOP does, but none that is writing to the store's file: it would keep all others from that until it
    /// goes on, as the store's documentation says, and its lease would pass to nobody.
    #[track_caller]
    pub fn stop(&self, processes: &[u32]) {
        self.signal_between_writes(processes.iter().map(|process| (*process, Signal::SIGSTOP)));
    }

    /// Sends each its signal while none of them is in the middle of a write to the store's file.
    #[track_caller]
    pub fn signal_between_writes(&self, signals: impl Iterator<Item = (u32, Signal)>) {
        let side = std::fs::File::open(self.path("leases.db-lock")).unwrap();
        side.lock().unwrap();
        for (process, signal) in signals {
            // Tenure may have ended a watchdog that was stopped just before.
            let sent = nix::sys::signal::kill(nix::unistd::Pid::from_raw(process.cast_signed()), signal);
            assert!(matches!(sent, Ok(()) | Err(nix::errno::Errno::ESRCH)), "{sent:?}");
            if signal == Signal::SIGSTOP {
                // The other threads go on until the one that is told has its turn at a processor.
                wait_until("all threads to stop", || are_all_stopped(process));
            }
        }
    }

    /// Gives all files of a store another name. Under the first one, it is away then.
    pub fn move_store(&self, from: &str, to: &str) {
        for side in ["", "-wal", "-shm", "-lock"] {
            std::fs::rename(self.path(&format!("{from}{side}")), self.path(&format!("{to}{side}"))).unwrap();
        }
    }

    /// Writes a record where nobody holds one, as another version of tenure may have left it.
    pub fn plant(&self, key: &str, tenure: Option<Tenure>, metadata: Metadata) {
        let store = SqliteStore::open(SqliteConfig::new(self.store())).unwrap();
        let stamp = tenure::clock::system().now().wall;
        let record = Record { fence: Fence(stamp.0), nonce: Nonce(7), stamp, tenure, metadata };
        let write = Write { key: Key::new(key).unwrap(), expect: Expect::Vacant, record };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert!(matches!(runtime.block_on(store.write(write)).unwrap(), Outcome::Won { .. }));
    }

    /// Runs SQL on the store's file.
    pub fn sql(&self, sql: &str) {
        rusqlite::Connection::open(self.store()).unwrap().execute_batch(sql).unwrap();
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}
