//! `bench`: how long leases take on a store, beside its bare conditional writes, which are the limit.

use super::spans::{Spans, millis};
use crate::config;
use crate::exit::{self, Failure};
use crate::nonces::nonces;
use crate::output;
use crate::stores::{Missing, Url};
use crate::supervise::signals::Signals;
use crate::text::{count, table};
use serde_json::{Value, json};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure::clock::boottime;
use tenure::store::{Expect, Nonce, Outcome, Record, StoreExt, Tenure, Version, Write};
use tenure::{Clock, ErrorKind, Fence, Key, Leases, Metadata, Store, StoreError, Ttl};
use tenure_core::Nonces;
use tokio::task::JoinSet;

/// What its keys begin with. `tenure ls` shows them while it runs.
const PREFIX: &str = "bench/";
/// Leases and bare writes take turns, so that what else the machine does falls on both.
const ROUNDS: u32 = 4;
/// No lease here lasts for long; if this is killed, what it held is free after as much.
const TTL: Duration = Duration::from_secs(10);

/// What all tasks measured.
#[derive(Debug, Default)]
struct Measured {
    acquire: Spans,
    renew: Spans,
    release: Spans,
    bare: Spans,
    /// For how long leases were measured.
    span: Duration,
    bare_span: Duration,
}

pub(crate) async fn bench(url: &Url, is_named: bool, config: config::BenchConfig) -> Result<u8, Failure> {
    if !is_named {
        return Err(Failure::usage(
            "no store is named to be measured; write tenure bench sqlite:/tmp/bench.db, for example",
        ));
    }
    if url.has_dialect() {
        return Err(Failure::usage(format!(
            "{}: bench measures tenure's own leases, which a table in another program's layout has none of; leave the dialect out",
            url.shown()
        )));
    }
    let clock: Arc<dyn Clock> = tenure::clock::system();
    let store = url.open(Missing::Create, Arc::clone(&clock)).await?;
    let leases = Leases::builder(store).clock(clock).start()?;
    let mut signals = Signals::listen()?;
    let state =
        Arc::new(BenchState { nonces: Mutex::new(nonces(&leases)), is_stopped: AtomicBool::new(false) });
    let measured = {
        let mut measuring = pin!(measure(&leases, &state, &config));
        tokio::select! {
            measured = measuring.as_mut() => measured,
            signal = signals.next() => {
                state.is_stopped.store(true, Ordering::SeqCst);
                // A write that is under way would land behind what removes them.
                let last_calls = async { drop(measuring.await) };
                signals.wait(TTL, last_calls).await;
                Err(Failure::by_signal(signal))
            }
        }
    };
    leases.stop().await;
    match clean(&leases, &state).await {
        Ok(0) => {}
        Ok(left) => output::note(format!(
            "{} below {PREFIX} can't be removed by this user; `tenure gc` takes what nobody has held for a day",
            count(left, "record")
        )),
        Err(error) => output::note(format!("what is left below {PREFIX} could not be removed: {error}")),
    }
    let measured = measured?;
    if config.json {
        output::json(&measured.document(url, &config))?;
    } else {
        output::print(&measured.text(url, &config))?;
    }
    Ok(exit::OK)
}

/// What all tasks share.
struct BenchState {
    /// Those of all bare writes.
    nonces: Mutex<Nonces>,
    /// Whether each task is to end with the call that it is at.
    is_stopped: AtomicBool,
}

impl BenchState {
    fn nonce(&self) -> Nonce {
        self.nonces.lock().unwrap_or_else(PoisonError::into_inner).draw()
    }

    fn goes_on(&self, until: Duration) -> bool {
        boottime() < until && !self.is_stopped.load(Ordering::SeqCst)
    }
}

async fn measure(
    leases: &Leases,
    state: &Arc<BenchState>,
    config: &config::BenchConfig,
) -> Result<Measured, Failure> {
    let slice = config.span / (2 * ROUNDS);
    let mut all = Measured::default();
    let mut stands: Vec<Option<Version>> = vec![None; config.tasks];
    for _ in 0..ROUNDS {
        if state.is_stopped.load(Ordering::SeqCst) {
            break;
        }
        let began = boottime();
        let mut tasks = JoinSet::new();
        for task in 0..config.tasks {
            let key = key(leases, "lease", task)?;
            tasks.spawn(lease_slice(leases.clone(), Arc::clone(state), key, began + slice));
        }
        while let Some(done) = tasks.join_next().await {
            let [acquire, renew, release] = ended(done)?;
            all.acquire.extend(acquire);
            all.renew.extend(renew);
            all.release.extend(release);
        }
        // The last round begins within its slice, and ends after it.
        all.span += boottime().saturating_sub(began);
        let began = boottime();
        let mut tasks = JoinSet::new();
        for (task, stand) in stands.iter().enumerate() {
            let (leases, state, key, stand) =
                (leases.clone(), Arc::clone(state), key(leases, "bare", task)?, *stand);
            tasks.spawn(async move {
                let (version, spans) = bare_slice(&leases, &state, key, stand, began + slice).await?;
                Ok((task, version, spans))
            });
        }
        while let Some(done) = tasks.join_next().await {
            let (task, version, spans) = ended(done)?;
            all.bare.extend(spans);
            if let Some(stand) = stands.get_mut(task) {
                *stand = Some(version);
            }
        }
        all.bare_span += boottime().saturating_sub(began);
    }
    Ok(all)
}

fn ended<T>(done: Result<Result<T, Failure>, tokio::task::JoinError>) -> Result<T, Failure> {
    done.map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?
}

fn key(leases: &Leases, what: &str, task: usize) -> Result<Key, Failure> {
    Ok(Key::new(format!("{}{what}/{task}", prefix(leases)))?)
}

fn prefix(leases: &Leases) -> String {
    format!("{PREFIX}{}/", leases.holder().as_str())
}

/// One task: leases of its key, one after the other, each a conditional write to acquire, one to renew, one to release.
async fn lease_slice(
    leases: Leases,
    state: Arc<BenchState>,
    key: Key,
    until: Duration,
) -> Result<[Spans; 3], Failure> {
    let mut spans = <[Spans; 3]>::default();
    while state.goes_on(until) {
        let [acquire, renew, release] = &mut spans;
        let began = boottime();
        let guard = leases.lock(key.as_str()).ttl(TTL).try_acquire().await?;
        acquire.add(boottime().saturating_sub(began));
        let began = boottime();
        // What makes it plain data is a renewal: it holds for a ttl from then on.
        let token = guard.into_token().await?;
        renew.add(boottime().saturating_sub(began));
        let began = boottime();
        if !leases.give_back(&token).await? {
            return Err(Failure::new(exit::LOST, format!("{key} was lost while it was measured")));
        }
        release.add(boottime().saturating_sub(began));
    }
    Ok(spans)
}

/// One task: bare writes of its key, each on the version that the last one left.
async fn bare_slice(
    leases: &Leases,
    state: &BenchState,
    key: Key,
    mut stand: Option<Version>,
    until: Duration,
) -> Result<(Version, Spans), Failure> {
    let mut spans = Spans::default();
    loop {
        let expect = stand.map_or(Expect::Vacant, Expect::Unchanged);
        let record = held(leases, state.nonce())?;
        let began = boottime();
        let outcome = leases.store().write(Write { key: key.clone(), expect, record }).await?;
        let Outcome::Won { version, .. } = outcome else {
            return Err(Failure::new(
                exit::HELD,
                format!("{key} was changed by another while it was measured"),
            ));
        };
        // The first one finds its way, as to the connection.
        if stand.replace(version).is_some() {
            spans.add(boottime().saturating_sub(began));
        }
        if !state.goes_on(until) {
            return Ok((version, spans));
        }
    }
}

/// A record as long as a lease's.
fn held(leases: &Leases, nonce: Nonce) -> Result<Record, Failure> {
    let stamp = leases.clock().now().wall;
    let tenure = Tenure::new(nonce, leases.holder().clone(), Ttl::new(TTL)?, stamp);
    Ok(Record { fence: Fence::floor(stamp), nonce, stamp, tenure: Some(tenure), metadata: Metadata::new() })
}

/// Removes all that was written; returns how many records this user may not remove. They are vacant then.
async fn clean(leases: &Leases, state: &BenchState) -> Result<usize, StoreError> {
    let (store, mut left) = (leases.store(), 0);
    for listed in store.list_all(&prefix(leases)).await? {
        let stored = listed.stored?;
        let mut version = stored.version;
        if stored.record.tenure.is_some() {
            let stamp = leases.clock().now().wall;
            let record = Record { nonce: state.nonce(), stamp, tenure: None, ..stored.record };
            let write = Write { key: listed.key.clone(), expect: Expect::Unchanged(version), record };
            match store.write(write).await? {
                Outcome::Won { version: vacant, .. } => version = vacant,
                Outcome::Lost(_) => {
                    left += 1;
                    continue;
                }
            }
        }
        match store.remove(&listed.key, version).await {
            Ok(true) => {}
            Ok(false) => left += 1,
            Err(error) if error.kind() == ErrorKind::Invalid => left += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(left)
}

impl Measured {
    /// Each kind of call with its name, and how many of them there were in a second.
    fn rows(&self) -> [(&'static str, &Spans, f64); 4] {
        let [acquire, renew, release] =
            [("acquire", &self.acquire), ("renew", &self.renew), ("release", &self.release)]
                .map(|(name, spans)| (name, spans, rate(spans.count(), self.span)));
        [acquire, renew, release, ("bare write", &self.bare, rate(self.bare.count(), self.bare_span))]
    }

    /// How many calls leases made in the time of a bare write.
    fn share(&self) -> f64 {
        let calls = self.acquire.count() + self.renew.count() + self.release.count();
        rate(calls, self.span) / rate(self.bare.count().max(1), self.bare_span)
    }

    fn document(&self, url: &Url, config: &config::BenchConfig) -> Value {
        let mut document = json!({
            "store": url.shown(), "tasks": config.tasks, "seconds": config.span.as_secs_f64(), "share_of_bare": self.share(),
        });
        for (what, spans, rate) in self.rows() {
            document[what.replace(' ', "_")] = json!({
                "count": spans.count(),
                "per_second": rate,
                "p50_us": micros(spans.percentile(50)),
                "p99_us": micros(spans.percentile(99)),
            });
        }
        document
    }

    fn text(&self, url: &Url, config: &config::BenchConfig) -> String {
        let row = |(what, spans, rate): (&str, &Spans, f64)| {
            let rate = format!("{rate:.0}");
            vec![what.to_owned(), millis(spans.percentile(50)), millis(spans.percentile(99)), rate]
        };
        let rows: Vec<Vec<String>> = self.rows().into_iter().map(row).collect();
        format!(
            "{}: {} for {} s, half of it bare writes, all by one store\n{}leases make {:.2} calls in the time of a bare write\n",
            url.shown(),
            count(config.tasks, "task"),
            config.span.as_secs_f64(),
            table(&["", "p50", "p99", "a second"], &rows),
            self.share(),
        )
    }
}

fn rate(calls: usize, within: Duration) -> f64 {
    calls as f64 / within.as_secs_f64().max(1e-9)
}

fn micros(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e7).round() / 10.0
}
