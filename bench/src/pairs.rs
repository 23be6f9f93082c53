//! Who makes pairs of acquire and release, measured by turns and told in one table.

use crate::{cpu_time_of, percentile};
use std::future::Future;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::pin::Pin;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tenure::Leases;
use tenure::permits::Permits;
use tenure_core::Version;
use tenure_store::{Outcome, Store, Write};
use tenure_testkit::RecordFactory;

/// How many times each cell is measured.
pub const ROUNDS: u32 = 6;

/// One pair of a task; each task has a key of its own.
pub type Pair = Arc<dyn Fn(usize) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// As a [`Pair`].
pub fn pair<F: Future<Output = ()> + Send + 'static>(
    one: impl Fn(usize) -> F + Send + Sync + 'static,
) -> Pair {
    Arc::new(move |task| Box::pin(one(task)))
}

/// Whoever makes pairs.
pub enum PairMaker {
    /// In this process.
    Here(Pair),
    /// In a process of its own.
    Peer(PeerProgram),
}

/// A program that answers each line `WHAT TASKS MILLIS` with one line: how many there were, and the 50th and 99th percentile and the mean
/// of one in µs. It ends with its input.
pub struct PeerProgram {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What one round, or several, came to.
#[derive(Debug, Clone, Default)]
pub struct LatencyStats {
    /// How many there were.
    pub count: u64,
    /// Of one.
    pub mean: Duration,
    /// The median of one, and the 99th percentile; of several rounds, those of the round in the middle.
    pub percentiles: [Duration; 2],
}

impl LatencyStats {
    /// Of these.
    #[must_use]
    pub fn of(mut each: Vec<Duration>) -> LatencyStats {
        let percentiles = [50, 99].map(|percent| percentile(&mut each, percent));
        let mean = each.iter().sum::<Duration>() / each.len().max(1) as u32;
        LatencyStats { count: each.len() as u64, mean, percentiles }
    }

    /// Of several rounds.
    #[must_use]
    pub fn of_rounds(rounds: &[LatencyStats]) -> LatencyStats {
        let middle = |which: usize| {
            let mut all: Vec<Duration> = rounds.iter().map(|round| round.percentiles[which]).collect();
            percentile(&mut all, 50)
        };
        let count: u64 = rounds.iter().map(|round| round.count).sum();
        let total: f64 = rounds.iter().map(|round| round.mean.as_secs_f64() * round.count as f64).sum();
        let mean = Duration::from_secs_f64(total / count.max(1) as f64);
        LatencyStats { count, mean, percentiles: [middle(0), middle(1)] }
    }
}

impl PeerProgram {
    /// The program in `peers/go` with these locks on this server. `cargo xtask bench` builds it.
    ///
    /// # Errors
    /// It was not built, or did not start.
    pub fn go(locks: &str, server: &str) -> io::Result<PeerProgram> {
        PeerProgram::named("TENURE_BENCH_GO_PEERS", locks, server)
    }

    /// The program in `peers/rust`, likewise.
    ///
    /// # Errors
    /// It was not built, or did not start.
    pub fn rust(locks: &str, server: &str) -> io::Result<PeerProgram> {
        PeerProgram::named("TENURE_BENCH_RUST_PEERS", locks, server)
    }

    fn named(variable: &str, locks: &str, server: &str) -> io::Result<PeerProgram> {
        let program = std::env::var(variable)
            .map_err(|_| io::Error::other(format!("{variable} is not set; run `cargo xtask bench`")))?;
        PeerProgram::start(Command::new(program).args([locks, server]))
    }

    /// Starts one.
    ///
    /// # Errors
    /// It did not start.
    pub fn start(command: &mut Command) -> io::Result<PeerProgram> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        Ok(PeerProgram { process, input, output: BufReader::new(output) })
    }

    /// Has it measure something, with that many tasks.
    ///
    /// # Errors
    /// It has ended, or says something else.
    pub fn measure(&mut self, what: &str, tasks: usize, span: Duration) -> io::Result<LatencyStats> {
        writeln!(self.input, "{what} {tasks} {}", span.as_millis())?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [count, p50, p99, mean] = numbers[..] else {
            return Err(io::Error::other(format!("the peer says {line:?}")));
        };
        let mean = Duration::from_micros(mean);
        Ok(LatencyStats { count, mean, percentiles: [p50, p99].map(Duration::from_micros) })
    }

    /// Ends its input, and waits for its end.
    ///
    /// # Errors
    /// It can't be waited for.
    pub fn end(self) -> io::Result<()> {
        let PeerProgram { mut process, input, .. } = self;
        drop(input);
        process.wait().map(drop)
    }
}

impl PairMaker {
    /// A lease on a key of the task's, and its end.
    #[must_use]
    pub fn leases(leases: Leases) -> PairMaker {
        PairMaker::Here(pair(move |task| lease_pair(leases.clone(), task)))
    }

    /// The same with a fair lock.
    #[must_use]
    pub fn fair_locks(leases: Leases) -> PairMaker {
        PairMaker::permits(move |task| leases.fair_lock(format!("task/{task}")))
    }

    /// Permits of a name of the task's, and their end.
    #[must_use]
    pub fn permits(of: impl Fn(usize) -> Permits + Send + Sync + 'static) -> PairMaker {
        PairMaker::Here(pair(move |task| permits_pair(of(task))))
    }

    /// The two writes of that, by the store alone.
    #[must_use]
    pub fn store(store: impl Store + Clone) -> PairMaker {
        PairMaker::Here(pair(move |task| store_pair(store.clone(), task)))
    }

    /// The id of the process that makes the pairs.
    #[must_use]
    pub fn process(&self) -> String {
        match self {
            PairMaker::Here(_) => "self".to_owned(),
            PairMaker::Peer(peer) => peer.process.id().to_string(),
        }
    }

    /// Lets tasks make pairs at the same time, each on a key of its own.
    ///
    /// # Errors
    /// A peer has failed, or a pair.
    pub async fn measure(&mut self, tasks: usize, span: Duration) -> io::Result<LatencyStats> {
        let pair = match self {
            PairMaker::Here(pair) => pair,
            PairMaker::Peer(peer) => return peer.measure("pairs", tasks, span),
        };
        let start = Instant::now();
        let running: Vec<_> = (0..tasks)
            .map(|task| {
                let pair = Arc::clone(pair);
                tokio::spawn(async move {
                    let mut each = Vec::new();
                    while start.elapsed() < span {
                        let began = Instant::now();
                        pair(task).await;
                        each.push(began.elapsed());
                    }
                    each
                })
            })
            .collect();
        let mut all = Vec::new();
        for task in running {
            all.extend(task.await?);
        }
        Ok(LatencyStats::of(all))
    }
}

#[allow(clippy::expect_used, reason = "the task that fails tells the table")]
async fn lease_pair(leases: Leases, task: usize) {
    leases.acquire(format!("task/{task}")).await.expect("each key has one user").release().await;
}

#[allow(clippy::expect_used, reason = "the task that fails tells the table")]
async fn permits_pair(permits: Permits) {
    permits.acquire().await.expect("each name has one user").release().await;
}

#[allow(clippy::expect_used, reason = "the task that fails tells the table")]
async fn store_pair(store: impl Store, task: usize) {
    static FACTORY: LazyLock<RecordFactory> = LazyLock::new(RecordFactory::new);
    let key = FACTORY.key(&format!("store/{task}"));
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let (version, fence) = won(&store, FACTORY.if_vacant(&key, FACTORY.held(wall))).await;
    won(&store, FACTORY.unchanged(&key, version, FACTORY.vacant(fence))).await;
}

#[allow(clippy::expect_used, clippy::panic, reason = "the task that fails tells the table")]
async fn won(store: &impl Store, write: Write) -> (Version, u64) {
    match store.write(write).await.expect("a store for this alone") {
        Outcome::Won { version, fence } => (version, fence.0),
        lost => panic!("each key has one user, but {lost:?}"),
    }
}

/// Measures all by turns, so that what else the machine does falls on all, and prints the table. Shares are of the first one, which is
/// the limit.
///
/// # Errors
/// A contender has failed.
pub async fn table(contenders: &mut [(&str, PairMaker)], span: Duration) -> io::Result<()> {
    println!(
        "{:?} a cell, by turns; latencies are of pairs, client is its processor time for a pair, all in µs\n",
        span * ROUNDS
    );
    println!("| tasks | | pairs/s | p50 | p99 | client | of the limit |\n|---|---|---|---|---|---|---|");
    for (_, contender) in contenders.iter_mut() {
        contender.measure(32, span).await?;
    }
    for tasks in [1, 32] {
        let mut all: Vec<(Vec<LatencyStats>, Duration)> =
            contenders.iter().map(|_| Default::default()).collect();
        for _ in 0..ROUNDS {
            for ((_, contender), (rounds, client)) in contenders.iter_mut().zip(&mut all) {
                let process = contender.process();
                let before = cpu_time_of(&process);
                rounds.push(contender.measure(tasks, span).await?);
                *client += cpu_time_of(&process).saturating_sub(before);
            }
        }
        let limit = LatencyStats::of_rounds(&all[0].0).count as f64;
        for ((name, _), (rounds, client)) in contenders.iter().zip(&all) {
            let LatencyStats { count, percentiles, .. } = LatencyStats::of_rounds(rounds);
            let [p50, p99] = percentiles.map(|span| span.as_micros());
            let (count, each) = (count as f64, client.as_micros() as f64 / count as f64);
            println!(
                "| {tasks} | {name} | {:.0} | {p50} | {p99} | {each:.0} | {:.2} |",
                count / (span * ROUNDS).as_secs_f64(),
                count / limit,
            );
        }
    }
    Ok(())
}
