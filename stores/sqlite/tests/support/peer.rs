//! Another process: this test program again, told by an environment variable what to do. It says what it was answered on its
//! standard output, one line each, and only afterwards.

use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tenure_core::{Nonce, Record};

const ROLE: &str = "TENURE_SQLITE_TEST_ROLE";
const FILE: &str = "TENURE_SQLITE_TEST_FILE";
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Another process, and what it says.
pub(crate) struct Peer {
    pub(crate) process: Child,
    pub(crate) input: ChildStdin,
    lines: Receiver<String>,
    /// What it has said so far, as far as it was listened to.
    pub(crate) said: Vec<String>,
}

impl Peer {
    /// Starts this program again, within the test of this name, in a role.
    pub(crate) fn start(test: &str, role: &str, file: &Path) -> Peer {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, role).env(FILE, file);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = process.stdout.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // The test harness has things to say, too.
                if let Some(said) = line.split_once("say ").map(|(_, said)| said.to_owned()) {
                    let _ = sender.send(said);
                }
            }
        });
        let input = process.stdin.take().unwrap();
        Peer { process, input, lines, said: Vec::new() }
    }

    /// Waits for it to say something more.
    pub(crate) fn hear(&mut self) {
        self.said.extend(self.lines.try_iter());
        self.said.push(self.lines.recv_timeout(PATIENCE).expect("a line from the other process"));
    }

    /// Asks something of it, and waits for what it says to that.
    pub(crate) fn ask(&mut self, question: &str) -> String {
        writeln!(self.input, "{question}").unwrap();
        self.lines.recv_timeout(PATIENCE).expect("an answer of the other process")
    }

    /// Everything that it says until it ends.
    pub(crate) fn hear_out(mut self) -> Vec<String> {
        drop(self.input);
        self.said.extend(self.lines.iter());
        assert!(self.process.wait().unwrap().success(), "the other process failed");
        self.said
    }

    /// Kills it. Everything that it said until then.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.said.extend(self.lines.iter());
        self.said
    }
}

pub(crate) fn say(line: &str) {
    // In one piece, so that a kill leaves a whole line or nothing.
    std::io::stdout().write_all(format!("say {line}\n").as_bytes()).unwrap();
    std::io::stdout().flush().unwrap();
}

/// What this process is to do, when a test has started it.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    let role = std::env::var(ROLE).ok()?;
    Some((role, std::env::var_os(FILE).expect("a file to work on").into()))
}

/// A record whose nonce no other process uses, and whose version none of another process has.
///
/// A version is nonce and fence, folded into one. The fence is a small number, as is the process's: beside each other, those
/// of two processes gave one version. So the process's number is spread over its half.
pub(crate) fn sign(record: Record) -> Record {
    let process = u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let nonce = Nonce((u128::from(process) << 64) | (record.nonce.0 & u128::from(u64::MAX)));
    let tenure = record.tenure.map(|tenure| tenure_core::Tenure { id: nonce, heartbeat: nonce, ..tenure });
    Record { nonce, tenure, ..record }
}
