//! What the contenders of a cell have told, all in one place.

use crate::check::ContenderTenure;
use crate::process::{NetNamespace, OwnedProcess};
use crate::raw;
use crate::roles::{ContenderEvent, ContenderSettings};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Shared by those who listen to contenders.
#[derive(Debug, Default)]
pub(crate) struct ContenderLedger {
    told: Mutex<LedgerState>,
    news: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct LedgerState {
    /// In the order in which they were told.
    pub(crate) tenures: Vec<ContenderTenure>,
    /// Who has the store open, and who holds and wants nothing.
    pub(crate) ready: BTreeMap<String, bool>,
    /// The last thing that each could not do.
    pub(crate) troubles: BTreeMap<String, String>,
    /// How many tenures the store has confirmed the end of.
    pub(crate) released: usize,
}

impl LedgerState {
    /// The tenures of that contender, or of all others, that began after then.
    pub(crate) fn since(&self, start: u64, who: impl Fn(&str) -> bool) -> Option<&ContenderTenure> {
        self.tenures.iter().find(|tenure| tenure.begin > start && who(&tenure.who))
    }

    /// The tenure that it keeps until it is told otherwise, if it has it.
    pub(crate) fn kept(&self, who: &str) -> Option<&ContenderTenure> {
        self.tenures.iter().rev().find(|tenure| tenure.who == who).filter(|tenure| tenure.long)
    }

    fn hear(&mut self, who: &str, said: ContenderEvent) {
        let who = who.to_owned();
        match said {
            ContenderEvent::Ready => drop(self.ready.insert(who, false)),
            ContenderEvent::Rests => drop(self.ready.insert(who, true)),
            ContenderEvent::Began { fence, at, long } => {
                self.ready.insert(who.clone(), false);
                self.tenures.push(ContenderTenure { who, fence, begin: at, end: at, long });
            }
            ContenderEvent::Held { fence, at } => {
                let mut of_fence = self.tenures.iter_mut().rev().filter(|tenure| tenure.fence == fence);
                if let Some(tenure) = of_fence.find(|tenure| tenure.who == who) {
                    tenure.end = at;
                }
            }
            ContenderEvent::Ended { confirmed, .. } => self.released += usize::from(confirmed),
            ContenderEvent::Trouble(text) => drop(self.troubles.insert(who, text)),
        }
    }
}

impl ContenderLedger {
    pub(crate) fn read<T>(&self, look: impl FnOnce(&LedgerState) -> T) -> T {
        look(&self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn hear(&self, who: &str, said: ContenderEvent) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).hear(who, said);
        self.news.notify_all();
    }

    /// Waits until `look` finds something.
    pub(crate) fn until<T>(&self, limit: Duration, look: impl Fn(&LedgerState) -> Option<T>) -> Option<T> {
        let start = raw::now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(found) = look(&told) {
                return Some(found);
            }
            let left = limit.checked_sub(raw::since(start))?;
            told = self.news.wait_timeout(told, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A contender's process.
#[derive(Debug)]
pub(crate) struct ContenderProcess {
    pub(crate) name: String,
    pub(crate) process: OwnedProcess,
}

impl ContenderProcess {
    /// Starts one; it has the store open when the ledger says so.
    pub(crate) fn start(
        name: &str,
        place: &NetNamespace,
        env: &[(&str, String)],
        settings: &ContenderSettings,
        ledger: &Arc<ContenderLedger>,
    ) -> Result<ContenderProcess, String> {
        let mut command = place.command(&own_program()?, None, env);
        command.arg("contend").args(settings.words());
        let (ledger, who) = (Arc::clone(ledger), name.to_owned());
        let process = OwnedProcess::talking(&mut command, move |line| {
            if let Some(said) = ContenderEvent::parse(line) {
                ledger.hear(&who, said);
            }
        })?;
        Ok(ContenderProcess { name: name.to_owned(), process })
    }

    /// `flow`, `hold` or `rest`.
    pub(crate) fn tell(&mut self, order: &str) -> Result<(), String> {
        self.process.tell(order).map_err(|error| format!("{}: {error}", self.name))
    }
}

/// A helper that is told a line and answers with one: the probe, or a proxy.
#[derive(Debug)]
pub(crate) struct Helper {
    pub(crate) process: OwnedProcess,
    answers: std::sync::mpsc::Receiver<String>,
}

impl Helper {
    pub(crate) fn start(
        place: &NetNamespace,
        env: &[(&str, String)],
        words: &[String],
    ) -> Result<Helper, String> {
        let mut command = place.command(&own_program()?, None, env);
        command.args(words);
        let (sender, answers) = std::sync::mpsc::channel();
        let process = OwnedProcess::talking(&mut command, move |line| {
            // That nobody listens any more is as good.
            let _ = sender.send(line.to_owned());
        })?;
        Ok(Helper { process, answers })
    }

    /// Waits until it is ready.
    pub(crate) fn ready(self, limit: Duration) -> Result<Helper, String> {
        let start = raw::now();
        let mut last = String::new();
        while let Some(left) = limit.checked_sub(raw::since(start)) {
            match self.answers.recv_timeout(left) {
                Ok(line) if line == "ready" => return Ok(self),
                Ok(line) => last = line,
                Err(_) => break,
            }
        }
        Err(format!("not ready after {} s: {last}", limit.as_secs()))
    }

    /// Tells it a line; its answer, or why there is none.
    pub(crate) fn ask(&mut self, line: &str) -> Result<String, String> {
        /// Longer than any call of its own.
        const LIMIT: Duration = Duration::from_secs(20);
        self.process.tell(line)?;
        let answer = self.answers.recv_timeout(LIMIT).map_err(|_| format!("{line:?} is not answered"))?;
        answer.strip_prefix("trouble ").map_or(Ok(answer.clone()), |trouble| Err(trouble.to_owned()))
    }

    /// Its answer's number, as in `vacant 7`.
    pub(crate) fn number(&mut self, line: &str) -> Result<(String, u64), String> {
        let answer = self.ask(line)?;
        let (word, number) = answer.split_once(' ').ok_or_else(|| format!("{line:?}: {answer:?}"))?;
        Ok((word.to_owned(), number.parse().map_err(|error| format!("{answer:?}: {error}"))?))
    }
}

/// This program.
pub(crate) fn own_program() -> Result<std::path::PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("this program does not know where it is: {error}"))
}

/// Writes what a cell's contenders told into a file, for whoever looks for the cause of a violation.
pub(crate) fn keep(ledger: &ContenderLedger, path: &Path) -> Result<(), String> {
    let lines: Vec<String> = ledger.read(|told| {
        told.tenures
            .iter()
            .map(|ContenderTenure { who, fence, begin, end, long }| {
                format!("{fence} {who} {begin} {end} {long}\n")
            })
            .collect()
    });
    std::fs::write(path, lines.concat()).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    //! Plan: a tenure lasts from what began it to the last time at which it was held; who rests, and who keeps one, is known.
    use super::*;

    #[test]
    fn a_tenure_lasts_until_it_was_last_held() {
        let ledger = ContenderLedger::default();
        ledger.hear("a", ContenderEvent::Ready);
        ledger.hear("a", ContenderEvent::Began { fence: 3, at: 10, long: false });
        ledger.hear("a", ContenderEvent::Held { fence: 3, at: 20 });
        ledger.hear("a", ContenderEvent::Ended { fence: 3, confirmed: true });
        ledger.hear("b", ContenderEvent::Began { fence: 4, at: 30, long: true });
        ledger.hear("a", ContenderEvent::Held { fence: 3, at: 25 });
        ledger.read(|told| {
            assert_eq!((told.tenures[0].begin, told.tenures[0].end), (10, 25));
            assert_eq!(told.kept("b").map(|tenure| tenure.fence), Some(4));
            assert!(told.kept("a").is_none() && told.released == 1);
            assert_eq!(told.since(20, |_| true).map(|tenure| tenure.fence), Some(4));
            assert!(told.since(20, |who| who == "a").is_none());
        });
        ledger.hear("b", ContenderEvent::Rests);
        assert_eq!(ledger.until(Duration::ZERO, |told| told.ready.get("b").copied()), Some(true));
        assert_eq!(ledger.until(Duration::from_millis(5), |told| told.since(30, |_| true).cloned()), None);
    }
}
