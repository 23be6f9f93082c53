//! Hints of changes: a watch for each subscriber, opened again whenever it ends, from where it had ended.

use crate::client::EtcdClient;
use crate::memo::MemoEntry;
use crate::pair;
use crate::wire::{
    Event, EventType, RequestUnion, ResponseHeader, WatchCreateRequest, WatchRequest, WatchResponse,
};
use std::sync::Arc;
use std::time::Duration;
use tenure_core::StoreError;
use tenure_core::op::Hint;
use tenure_store::Changes;
use tenure_store::parts::{Subscribers, end_of_prefix};
use tokio::sync::mpsc;

/// How long to wait before the watch is opened again: at first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// How often a watch looks whether calls have left its member. One that hangs on its disk answers pings, and tells of nothing.
const LEFT: Duration = Duration::from_secs(5);

/// Begins to watch keys that begin with `keys`, in the background.
pub(crate) fn start(inner: Arc<EtcdClient>, keys: &str) -> Result<Changes, StoreError> {
    let runtime = tokio::runtime::Handle::try_current()
        .map_err(|_| StoreError::unavailable("watching for changes needs a tokio runtime; poll instead"))?;
    let (hints, changes) = mpsc::channel(Subscribers::WAITING);
    let below = pair::below(&inner.prefix, keys);
    runtime.spawn(async move {
        let over = hints.clone();
        tokio::select! {
            () = watch_on(&inner, below, &hints) => {}
            () = over.closed() => {}
        }
    });
    Ok(changes)
}

async fn watch_on(inner: &EtcdClient, below: Vec<u8>, hints: &mpsc::Sender<Hint>) {
    let mut watch = PrefixWatch { inner, below, hints, next: 0 };
    let mut pause = AGAIN.0;
    loop {
        if watch.follow().await.unwrap_or(false) {
            pause = AGAIN.0;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(AGAIN.1);
    }
}

struct PrefixWatch<'a> {
    inner: &'a EtcdClient,
    below: Vec<u8>,
    hints: &'a mpsc::Sender<Hint>,
    /// The first revision that was not told yet; 0 if that is not known.
    next: i64,
}

/// How a watch goes on.
#[derive(Debug, PartialEq, Eq)]
enum Course {
    On,
    /// To be opened again.
    Over,
    /// The same with another pass: a message of the watch refuses one that is over.
    Refused,
}

impl PrefixWatch<'_> {
    /// Follows the changes until the stream ends. False if it never stood.
    async fn follow(&mut self) -> Result<bool, StoreError> {
        let create = WatchCreateRequest {
            key: self.below.clone(),
            range_end: end_of_prefix(&self.below).unwrap_or_default(),
            start_revision: self.next,
        };
        let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        let (mut stream, pass, turn) = self.inner.channels.watch(create).await?;
        let mut stood = false;
        let mut looks = tokio::time::interval(LEFT);
        loop {
            let told = tokio::select! {
                told = stream.message() => told,
                _ = looks.tick() => {
                    if turn.is_left() {
                        return Ok(stood);
                    }
                    continue;
                }
            };
            let Ok(Some(told)) = told else { break };
            if self.inner.channels.foreign(told.header.as_ref()).is_some() {
                break;
            }
            stood |= !told.canceled;
            match self.take(told) {
                Course::On => {}
                Course::Over => return Ok(stood),
                Course::Refused => {
                    self.inner.channels.refused(&pass);
                    return Ok(stood);
                }
            }
        }
        // A stream that fails tells of its member, as one of another cluster does.
        turn.went_wrong();
        Ok(stood)
    }

    fn take(&mut self, told: WatchResponse) -> Course {
        let revision = told.header.map_or(0, |header: ResponseHeader| header.revision);
        if told.canceled && told.compact_revision == 0 {
            // Some versions say that a right is missing, whatever is wrong with the pass.
            return Course::Refused;
        }
        if told.compact_revision > 0 || (told.created && revision + 1 < self.next) {
            // What came between is gone; or the cluster is an older copy, or this member is behind: begin with now.
            self.next = 0;
            return Course::Over;
        }
        if told.created && self.next == 0 {
            self.next = revision + 1;
            self.tell(Hint::Any);
        }
        for event in &told.events {
            self.event(event);
        }
        Course::On
    }

    fn event(&mut self, event: &Event) {
        let Some(pair) = &event.kv else { return };
        self.next = self.next.max(pair.mod_revision + 1);
        let Ok(key) = pair::key(&self.inner.prefix, &pair.key) else { return };
        if event.r#type == EventType::Delete as i32 {
            return self.tell(Hint::Key(key));
        }
        match pair::stored(&key, pair) {
            Ok(stored) => {
                self.inner.memo.told(&key, MemoEntry::of(pair, &stored));
                self.tell(Hint::Written(key, stored.version));
            }
            Err(_) => self.tell(Hint::Key(key)),
        }
    }

    fn tell(&self, hint: Hint) {
        // One that finds the queue full is lost, as for any subscriber.
        let _ = self.hints.try_send(hint);
    }
}
