//! News of the store: records that have another tenure, or other data, than before, whoever wrote them. They are found once for all who listen.
//!
//! A store's push tells of what others wait for, and of some changes not at all: where a vacant key is taken, for example. So everything is read again and
//! again, too, and what is compared are digests. That costs the store a part of the time that is bounded. A store without a push may well ask money for each
//! read, and is left alone.

mod compared;
#[cfg(test)]
mod tests;

use crate::history::TenureHistory;
use crate::lease_table::LeaseTable;
use crate::listing::{self, RecordRow};
use compared::Compared;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure::clock::Tick;
use tenure::store::{Changes, Freshness, Hint, Listed};
use tenure::{Key, Leases, Store, StoreError};
use tokio::sync::broadcast;
use tokio::task::AbortHandle;
use utoipa::ToSchema;

/// Records that have changed.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Changed {
    /// `changed`. An event `watching` has no other fields: all is to be read once, as what changed before may not have been told.
    pub(crate) event: &'static str,
    /// As a page of records has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) leases: Vec<RecordRow>,
    /// Keys that have no record any more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) gone: Vec<String>,
}

impl Changed {
    /// As it goes over the wire.
    fn line(&self) -> Arc<str> {
        let data = serde_json::to_string(self).unwrap_or_default();
        format!("event: {}\ndata: {data}\n\n", self.event).into()
    }
}

/// Events that a listener has not taken. With more it is told that it has missed some.
const UNREAD: usize = 256;
/// Records in one event.
const TOGETHER: usize = 100;
/// Between two readings of everything, where nothing is told.
const REST: Duration = Duration::from_secs(1);
/// The same, where the store tells that something has changed.
const SOON: Duration = Duration::from_millis(200);
/// What reading may take of the time, as one part in so many.
const SHARE: u32 = 10;
/// How long changes are waited for that come together.
const GATHER: Duration = Duration::from_millis(50);
/// More keys that change at once are read with all others.
const MOST_KEYS: usize = 100;
/// How long it goes on when nobody listens: a page that is loaded anew is there again soon.
const LINGER: Duration = Duration::from_secs(5);

/// Those who listen, and the task that looks for news while there are any.
pub(crate) struct NewsFeed {
    lines: broadcast::Sender<Arc<str>>,
    reader: Mutex<Option<AbortHandle>>,
}

impl NewsFeed {
    pub(crate) fn new() -> Arc<NewsFeed> {
        Arc::new(NewsFeed { lines: broadcast::channel(UNREAD).0, reader: Mutex::default() })
    }

    fn reader(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        // No code that can panic runs under the lock.
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What changes from now on, as lines of events.
    pub(crate) fn listen(
        self: &Arc<Self>,
        leases: &Leases,
        table: &Arc<LeaseTable>,
        history: &Arc<TenureHistory>,
    ) -> broadcast::Receiver<Arc<str>> {
        let mut reader = self.reader();
        let lines = self.lines.subscribe();
        if leases.store().capabilities().watch && reader.as_ref().is_none_or(AbortHandle::is_finished) {
            let found = NewsReader {
                leases: leases.clone(),
                table: Arc::clone(table),
                compared: Compared::new(Arc::clone(history)),
                hints: None,
                wanted: ReadRequest::default(),
                all: ReadTiming::default(),
                some: ReadTiming::default(),
            };
            *reader = Some(tokio::spawn(found.run(Arc::clone(self))).abort_handle());
        }
        lines
    }

    /// Nobody is told anything any more.
    pub(crate) fn stop(&self) {
        if let Some(reader) = self.reader().take() {
            reader.abort();
        }
    }

    fn tell(&self, changed: &Changed) {
        // Nobody may be listening.
        let _ = self.lines.send(changed.line());
    }
}

/// What is to be read.
#[derive(Default)]
struct ReadRequest {
    is_all: bool,
    keys: BTreeSet<Key>,
    /// When the first of these keys was told.
    since: Tick,
}

impl ReadRequest {
    fn add(&mut self, hint: Hint, now: Tick) {
        if self.keys.is_empty() {
            self.since = now;
        }
        match hint {
            Hint::Key(key) | Hint::Written(key, _) if self.keys.len() < MOST_KEYS => {
                self.keys.insert(key);
            }
            _ => self.is_all = true,
        }
    }
}

/// How the last reading went.
#[derive(Debug, Clone, Copy, Default)]
struct ReadTiming {
    ended: Tick,
    took: Duration,
}

impl ReadTiming {
    /// When the next one may begin.
    fn next(self, least: Duration) -> Tick {
        self.ended.after(self.took.saturating_mul(SHARE).max(least))
    }
}

struct NewsReader {
    leases: Leases,
    table: Arc<LeaseTable>,
    compared: Compared,
    hints: Option<Changes>,
    wanted: ReadRequest,
    all: ReadTiming,
    some: ReadTiming,
}

impl NewsReader {
    fn now(&self) -> Tick {
        self.leases.clock().now().held
    }

    async fn run(mut self, news: Arc<NewsFeed>) {
        // Whether all has been told that was found.
        let mut is_whole = false;
        let mut listened = self.now();
        loop {
            if self.hints.is_none() {
                // Without hints it goes by its rests alone, until the next reading tries again.
                self.hints = self.leases.store().changed("").ok();
            }
            match self.read(&news).await {
                Ok(true) if !is_whole => {
                    is_whole = true;
                    news.tell(&Changed { event: "watching", ..Changed::default() });
                }
                Ok(_) => {}
                // The store's trouble is told by others. Some of what has changed may not have been.
                Err(_) => is_whole = false,
            }
            self.rest().await;
            if news.lines.receiver_count() > 0 {
                listened = self.now();
            } else if self.now().since(listened) > LINGER {
                let mut reader = news.reader();
                // Whoever comes after this starts another one.
                if news.lines.receiver_count() == 0 {
                    *reader = None;
                    return;
                }
            }
        }
    }

    /// Reads what is wanted, and tells what has changed. False: nothing was wanted.
    async fn read(&mut self, news: &NewsFeed) -> Result<bool, StoreError> {
        let wanted = std::mem::take(&mut self.wanted);
        let began = self.now();
        if wanted.is_all || !self.compared.is_whole() {
            let came = self.read_all(news).await;
            let ended = self.now();
            self.all = ReadTiming { ended, took: ended.since(began) };
            return came.map(|()| true);
        }
        if wanted.keys.is_empty() {
            return Ok(false);
        }
        let keys: Vec<Key> = wanted.keys.into_iter().collect();
        let found = self.leases.store().read_many(&keys, Freshness::Latest).await?;
        let gone = keys.iter().filter(|key| !found.iter().any(|listed| listed.key == **key));
        let gone = gone.filter_map(|key| self.compared.removed(key)).collect();
        let changed = self.compared.changed(found);
        let came = self.tell(news, changed, gone).await;
        let ended = self.now();
        self.some = ReadTiming { ended, took: ended.since(began) };
        came.map(|()| true)
    }

    async fn read_all(&mut self, news: &NewsFeed) -> Result<(), StoreError> {
        const PAGE: usize = 1000;
        let is_first = !self.compared.is_whole();
        self.compared.begin();
        let mut after: Option<Key> = None;
        loop {
            let page = self.leases.store().list("", after.as_ref(), PAGE).await?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|last| last.key.clone());
            let changed = self.compared.changed(page);
            if !is_first {
                self.tell(news, changed, Vec::new()).await?;
            }
            if is_last {
                break;
            }
        }
        let gone = self.compared.end();
        self.tell(news, Vec::new(), gone).await
    }

    async fn tell(&self, news: &NewsFeed, changed: Vec<Listed>, gone: Vec<Key>) -> Result<(), StoreError> {
        for gone in gone.chunks(TOGETHER) {
            let gone = gone.iter().map(|key| key.as_str().to_owned()).collect();
            news.tell(&Changed { event: "changed", gone, ..Changed::default() });
        }
        let mut changed = changed.into_iter().peekable();
        while changed.peek().is_some() {
            let some = changed.by_ref().take(TOGETHER).collect();
            let mut leases = listing::judged(&self.leases, some).await?;
            self.table.mark_held(&mut leases);
            news.tell(&Changed { event: "changed", leases, gone: Vec::new() });
        }
        Ok(())
    }

    /// Until there is something to read, or to see whether anybody listens still.
    async fn rest(&mut self) {
        let now = self.now();
        let at_rest = self.all.next(REST);
        let look_up = now.after(REST);
        loop {
            let now = self.now();
            let all = if self.wanted.is_all { self.all.next(SOON) } else { at_rest };
            let keys = (!self.wanted.keys.is_empty())
                .then(|| self.wanted.since.after(GATHER).max(self.some.next(Duration::ZERO)));
            if now >= all {
                self.wanted.is_all = true;
                return;
            }
            if keys.is_some_and(|at| now >= at) && !self.wanted.is_all || now >= look_up {
                return;
            }
            let next = keys.unwrap_or(all).min(all).min(look_up);
            tokio::select! {
                hint = next_of(&mut self.hints) => match hint {
                    Some(hint) => self.wanted.add(hint, self.leases.clock().now().held),
                    None => self.hints = None,
                },
                () = tokio::time::sleep(next.since(now)) => {}
            }
        }
    }
}

/// None when there are no more. Without any it never comes.
async fn next_of(hints: &mut Option<Changes>) -> Option<Hint> {
    match hints {
        Some(hints) => hints.recv().await,
        None => std::future::pending().await,
    }
}
