//! Writes that are asked for in one moment go to the server in one script: a call costs both sides more than a write.
//!
//! A write goes at once if no other is under way. Else, whoever asks first begins a task, which lets all that can run do so once, and then
//! sends what has come together. Its own future may be looked at much later, or never again. Nobody waits for the answers to calls that
//! are under way, so a write takes no longer by this than by itself.

use crate::client::RedisClient;
use crate::write::{ScriptDraft, WriteResult, send};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure_core::StoreError;
use tenure_core::op::{Outcome, Write};
use tokio::sync::oneshot;

/// A script holds the server up for all while it runs, for less than 10 µs a write.
const MOST: usize = 64;

/// Writes that are to go in the next script.
pub(crate) struct ScriptBatch {
    client: Arc<RedisClient>,
    waiting: Mutex<Vec<WaitingWrite>>,
    /// How many have no answer yet, whether they were sent or not.
    unanswered: AtomicUsize,
}

struct WaitingWrite {
    draft: ScriptDraft,
    reply: oneshot::Sender<Result<Outcome, StoreError>>,
}

impl ScriptBatch {
    pub(crate) fn new(client: Arc<RedisClient>) -> ScriptBatch {
        ScriptBatch { client, waiting: Mutex::default(), unanswered: AtomicUsize::new(0) }
    }

    /// One write, together with others of this moment if there are any.
    pub(crate) async fn write(self: &Arc<ScriptBatch>, write: Write) -> Result<Outcome, StoreError> {
        let draft = ScriptDraft::new(write)?;
        let (_unanswered, is_alone) = UnansweredWrite::begin(&self.unanswered);
        if is_alone {
            // The future of a write that goes with others would be five times as large by this.
            return Box::pin(alone(&self.client, draft)).await;
        }
        let (reply, outcome) = oneshot::channel();
        let waiting = WaitingWrite { draft, reply };
        // Who gives up here may find its own write before the replicas have it: so it is in doubt from then on, whatever becomes of the script.
        let doubt = self.client.connections.unconfirmed_write();
        // It may be a connection that is dead, and the others may be more patient than this caller.
        let mut under_way = self.client.connections.under_way();
        let count = {
            let mut gathered = self.lock();
            gathered.push(waiting);
            gathered.len()
        };
        if count >= MOST {
            self.send_all();
        } else if count == 1 {
            self.send_soon();
        }
        let outcome = under_way.waited(outcome).await;
        under_way.is_over = true;
        // What is not known of it is in doubt by the script's own account.
        doubt.nothing_done();
        outcome.unwrap_or_else(|_| {
            Err(StoreError::unknown(format!(
                "{}: a write was broken off with its runtime",
                self.client.connections.place
            )))
        })
    }

    /// Sends what is to go once all that can run have done so, in the background.
    fn send_soon(self: &Arc<ScriptBatch>) {
        let leader = BatchLeader(Arc::clone(self));
        // Without a runtime nobody waits, either: they hear that it has ended.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                tokio::task::yield_now().await;
                let (client, gathered) = (Arc::clone(&leader.0.client), leader.0.take());
                // What comes together from now on has a leader of its own.
                drop(leader);
                if !gathered.is_empty() {
                    perform(&client, gathered).await;
                }
            });
        }
    }

    /// Sends what is to go now, in the background.
    fn send_all(&self) {
        let gathered = self.take();
        if gathered.is_empty() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let client = Arc::clone(&self.client);
            runtime.spawn(async move { perform(&client, gathered).await });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<WaitingWrite>> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to go now. What nobody waits for any more does not.
    fn take(&self) -> Vec<WaitingWrite> {
        let mut all = std::mem::take(&mut *self.lock());
        all.retain(|waiting| !waiting.reply.is_closed());
        all
    }
}

/// One write by itself.
async fn alone(inner: &RedisClient, draft: ScriptDraft) -> Result<Outcome, StoreError> {
    let (sent, confirmed) = send(inner, &[&draft]).await?;
    confirmed?;
    let outcome = sent.into_iter().next().map(|sent| sent.outcome);
    outcome.unwrap_or_else(|| {
        Err(StoreError::unknown(format!("{}: a write had no outcome", inner.connections.place)))
    })
}

/// A write that has no answer yet.
struct UnansweredWrite<'a>(&'a AtomicUsize);

impl UnansweredWrite<'_> {
    /// True if there is no other one.
    fn begin(unanswered: &AtomicUsize) -> (UnansweredWrite<'_>, bool) {
        let others = unanswered.fetch_add(1, Ordering::SeqCst);
        (UnansweredWrite(unanswered), others == 0)
    }
}

impl Drop for UnansweredWrite<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The task that sends what has come together. If it ends with its runtime before that, those who wait hear of it.
struct BatchLeader(Arc<ScriptBatch>);

impl Drop for BatchLeader {
    fn drop(&mut self) {
        self.0.send_all();
    }
}

async fn perform(inner: &RedisClient, gathered: Vec<WaitingWrite>) {
    let drafts: Vec<&ScriptDraft> = gathered.iter().map(|waiting| &waiting.draft).collect();
    let (sent, confirmed) = match send(inner, &drafts).await {
        Ok(sent) => sent,
        Err(error) => {
            for waiting in gathered {
                // Who has gone away needs no answer.
                let _ = waiting.reply.send(Err(error.clone()));
            }
            return;
        }
    };
    for (waiting, WriteResult { is_done, outcome }) in gathered.into_iter().zip(sent) {
        let outcome = match &confirmed {
            Err(error) if is_done => Err(error.clone()),
            // What it shows may be a write of this process that has arrived late, and fewer replicas have it than were asked for.
            Err(error) if matches!(outcome, Ok(Outcome::Lost(Some(_)))) => {
                Err(StoreError::unavailable(error.to_string()))
            }
            _ => outcome,
        };
        let _ = waiting.reply.send(outcome);
    }
}
