//! What the tests of the binary share: a directory with a store of its own, commands in it, and conditions to wait for.
#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub, reason = "a test that can't go on fails")]
#![allow(clippy::disallowed_methods, reason = "real processes are measured by real time")]

pub mod agent;
pub mod browser;
pub mod dashboard;
pub mod every_store;
pub mod readme;
pub mod relay;
pub mod remote;
#[cfg(all(feature = "dynamodb", feature = "etcd", feature = "postgres", feature = "redis"))]
pub mod servers;
#[cfg(feature = "dynamodb")]
pub mod service;
pub mod successor;
pub mod toothless;

use nix::sys::signal::Signal;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Once, atomic::AtomicBool};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine.
pub const LONG: Duration = Duration::from_secs(180);

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

    /// Starts it in the background; its output is thrown away.
    pub fn start(&self, arguments: &[&str]) -> Process {
        let mut command = self.tenure(arguments);
        Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
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

    /// Runs SQL on the store's file.
    pub fn sql(&self, sql: &str) {
        rusqlite::Connection::open(self.store()).unwrap().execute_batch(sql).unwrap();
    }
}

/// Those of all its threads.
pub fn children_of(pid: i32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let is_one = |entry: std::fs::DirEntry| {
        let child: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent: i32 = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
        (parent == pid).then_some(child)
    };
    processes.filter_map(is_one).collect()
}

/// Or dead.
fn are_all_stopped(process: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return true };
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
        state.is_none_or(|state| matches!(state, 'T' | 'Z' | 'X'))
    })
}

#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: Output) -> Ran {
        Ran {
            code: shell_status(output.status),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A process that is killed at the end of its test if it is still there.
pub struct Process(Child);

impl From<Child> for Process {
    fn from(child: Child) -> Process {
        Process(child)
    }
}

impl Process {
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, signal: Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }

    /// Dies with all that it has started, its watchdogs among it, as when the host loses its power: nobody is left who could give
    /// anything back.
    pub fn die_with_its_host(&self) {
        self.signal(Signal::SIGSTOP);
        // It starts nothing any more.
        wait_until("it to stand still", || are_all_stopped(self.id()));
        let signal = |pid: i32, signal| nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
        // None of them may see another one's death, and act on it.
        let (mut todo, mut all) = (vec![self.id().cast_signed()], Vec::new());
        while let Some(pid) = todo.pop() {
            let _gone = signal(pid, Signal::SIGSTOP);
            todo.extend(children_of(pid));
            all.push(pid);
        }
        // Parents are the last: the system continues what is stopped in a group of which the last parent dies.
        for pid in all.into_iter().rev() {
            let _gone = signal(pid, Signal::SIGKILL);
        }
    }

    /// Once more, as a person does: what comes within 50 ms of the first is taken for the same.
    pub fn signal_again(&self, signal: Signal) {
        std::thread::sleep(Duration::from_millis(60));
        self.signal(signal);
    }

    /// Waits until it handles INT, and so all that it listens to: what comes before ends it like any program.
    #[track_caller]
    pub fn await_signals(&self) {
        wait_until("it to handle signals", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap_or_default();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 2 != 0)
        });
    }

    pub fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Its status, when it ends, as a shell tells it: its exit code, or 128 and the signal that ended it.
    #[track_caller]
    pub fn wait(&mut self) -> i32 {
        shell_status(self.wait_status())
    }

    /// How it ended.
    #[track_caller]
    pub fn wait_status(&mut self) -> ExitStatus {
        wait_for("the process to end", || self.0.try_wait().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _over = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// The first line that a command writes to standard error, after which it is killed.
pub fn first_words(command: &mut Command) -> String {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    line
}

/// A status as a shell tells it.
pub fn shell_status(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// Polls until there is something.
#[track_caller]
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < end, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Measures until it took at most so many milliseconds, but not for ever: a machine that stands still for a second is no fault
/// of what is measured, and does not do so each time.
#[track_caller]
pub fn takes_at_most(limit: i64, mut measure: impl FnMut() -> i64) {
    let mut all = Vec::new();
    while all.len() < 5 {
        let took = measure();
        if took <= limit {
            return;
        }
        all.push(took);
    }
    panic!("{all:?} ms, always more than {limit} ms");
}

/// Whether a process is there and not merely waiting to be reaped.
pub fn is_alive(pid: i32) -> bool {
    let stat =
        std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with(['Z', 'X']))
}

/// Now, in Unix milliseconds, as commands write it with `date +%s%3N`.
pub fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// Ticks into `ticks.UNIT` what fence it runs under and when, until it is killed; and is deaf to TERM, as are its children.
pub const TICKS: &str =
    "trap '' TERM; while :; do echo \"$TENURE_FENCE $(date +%s%3N)\" >> ticks.{}; sleep 0.02; done";
/// The same, but it ends when it is told to, and says so.
pub const OBEYS: &str = "trap 'echo {} >> told; exit' TERM; \
     while :; do echo \"$TENURE_FENCE $(date +%s%3N)\" >> ticks.{}; sleep 0.02; done";

/// A fleet named `f`, of workers whose commands tick.
impl Bench {
    /// A worker of it, with a short ttl, but not so short that it is lost when the machine stands still for two seconds.
    pub fn worker(&self, more: &[&str], script: &str) -> Process {
        self.worker_with("6s", more, script)
    }

    /// A worker with this ttl. What it says is added to the file `notes`.
    pub fn worker_with(&self, ttl: &str, more: &[&str], script: &str) -> Process {
        let base = ["work", "--forever", "--name", "f", "--ttl", ttl, "--grace", "1s", "--backoff", "50ms"];
        let mut command = self.tenure(&[&base, more, &["--", "sh", "-c", script]].concat());
        let notes = std::fs::OpenOptions::new().create(true).append(true).open(self.path("notes")).unwrap();
        Process(command.stdout(Stdio::null()).stderr(notes).spawn().unwrap())
    }

    /// Its units, as `fleet units` tells them.
    pub fn units(&self) -> Vec<serde_json::Value> {
        self.listed("units")
    }

    /// Its workers, as `fleet workers` tells them.
    pub fn workers(&self) -> Vec<serde_json::Value> {
        self.listed("workers")
    }

    fn listed(&self, what: &str) -> Vec<serde_json::Value> {
        let ran = self.run(&["fleet", what, "f", "--json"]);
        if ran.code != 0 {
            // There is no store, or no fleet yet.
            return Vec::new();
        }
        ran.json()[what].as_array().unwrap().clone()
    }

    pub fn unit(&self, name: &str) -> serde_json::Value {
        let found = self.units().into_iter().find(|unit| unit["unit"] == name);
        found.unwrap_or_else(|| panic!("no unit {name}"))
    }

    /// The name of the worker that is this process, once it has joined.
    pub fn name_of(&self, process: &Process) -> String {
        wait_for("the worker to join", || {
            let found = self.workers().into_iter().find(|worker| worker["fields"]["pid"] == process.id());
            Some(found?["worker"].as_str().unwrap().to_owned())
        })
    }

    /// Waits until each of these has so many units, and no other worker lives.
    pub fn await_shares(&self, shares: &[(&Process, u64)]) {
        wait_until("the shares", || {
            let live: Vec<_> =
                self.workers().into_iter().filter(|worker| worker["state"] == "live").collect();
            live.len() == shares.len()
                && shares.iter().all(|(process, share)| {
                    let is_so = |worker: &&serde_json::Value| {
                        worker["fields"]["pid"] == process.id() && worker["held"] == *share
                    };
                    live.iter().any(|worker| is_so(&worker))
                })
        });
    }

    /// Fence and time of each tick of a unit, in the order in which they were written.
    pub fn ticks(&self, unit: &str) -> Vec<(u64, i64)> {
        let text = self.read(&format!("ticks.{unit}"));
        let tick = |line: &str| {
            let (fence, at) = line.split_once(' ')?;
            Some((fence.parse().ok()?, at.parse().ok()?))
        };
        // The last line may be on its way yet.
        text.split_inclusive('\n').filter_map(|line| tick(line.strip_suffix('\n')?)).collect()
    }

    /// Fails if a unit's command ever ran while an older one did.
    pub fn no_overlaps(&self, units: &[&str]) {
        for unit in units {
            let ticks = self.ticks(unit);
            assert!(ticks.is_sorted_by_key(|(fence, _)| *fence), "{unit} ran twice at a time: {ticks:?}");
        }
    }

    /// Waits for a tick of the unit under a higher fence than this, and returns when it was.
    pub fn await_tick(&self, unit: &str, above: u64) -> (u64, i64) {
        wait_for("a tick", || self.ticks(unit).into_iter().find(|(fence, _)| *fence > above))
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
/// A pipe that takes no more, for as long as its reader is kept and does not read.
pub fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let (reader, mut writer) = std::io::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    for size in [4096, 1] {
        while std::io::Write::write(&mut writer, &vec![b'.'; size]).is_ok() {}
    }
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    (reader, writer)
}

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}
