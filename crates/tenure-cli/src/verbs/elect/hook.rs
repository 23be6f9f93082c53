//! `--on-change`: a command that is run whenever another leads.

use crate::exit::{Failure, INTERNAL};
use crate::output;
use crate::supervise::hooks;
use crate::supervise::mark::mark_beside;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use tenure::election::Leader;
use tenure::{Fence, Key, Latest, Leases};
use tokio::sync::watch;

/// Who leads, as the hook is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaderInfo {
    pub(crate) id: String,
    /// None where the layout has no fences.
    pub(crate) fence: Option<Fence>,
}

impl LeaderInfo {
    /// This process if it leads, and else whoever was seen to. A lease is renewed by writes alone, so its holder leads on while it can read nothing.
    pub(crate) fn of(leases: &Leases, key: &Key, seen: Option<&Leader>) -> Option<LeaderInfo> {
        let own = leases.held().into_iter().find(|(held, _)| held == key).map(|(_, fence)| fence);
        let (holder, fence) = match own {
            Some(fence) => (leases.holder(), fence),
            // What is seen of this process is of before it lost the lease.
            None => seen
                .filter(|leader| leader.holder != *leases.holder())
                .map(|leader| (&leader.holder, leader.fence))?,
        };
        Some(LeaderInfo { id: holder.as_str().to_owned(), fence: Some(fence) })
    }
}

/// Runs the hook, once at a time, in a thread of its own: it must not hold up the candidate. When this is dropped, one that
/// runs is killed and waited for.
pub(crate) struct Hook {
    changes: Option<Sender<Option<LeaderInfo>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A hook that follows an election.
pub(crate) struct Following(tokio::task::JoinHandle<()>);

impl Following {
    /// With the task the hook is over, and a command that it runs.
    pub(crate) async fn end(self) {
        self.0.abort();
        let _aborted = self.0.await;
    }
}

/// What is told of an election, in whatever layout.
pub(crate) trait Changes: Send + 'static {
    type Told: Send;

    /// What was told last.
    fn latest(&mut self) -> Self::Told;

    /// Waits for the next. False: nothing more is told.
    fn goes_on(&mut self) -> impl Future<Output = bool> + Send;
}

impl<T: Clone + Send + Sync + 'static> Changes for Latest<T> {
    type Told = T;

    fn latest(&mut self) -> T {
        self.get_and_update()
    }

    async fn goes_on(&mut self) -> bool {
        self.changed().await.is_ok()
    }
}

impl<T: Clone + Send + Sync + 'static> Changes for watch::Receiver<T> {
    type Told = T;

    fn latest(&mut self) -> T {
        self.borrow_and_update().clone()
    }

    async fn goes_on(&mut self) -> bool {
        self.changed().await.is_ok()
    }
}

impl Hook {
    pub(crate) fn start(command: OsString, key: Key, me: String) -> Result<Hook, Failure> {
        let (sender, changes) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let run = move || run_all(&changes, &over, &command, &key, &me);
        let thread = std::thread::Builder::new().name("on-change".to_owned()).spawn(run);
        let thread =
            thread.map_err(|error| Failure::new(INTERNAL, format!("no thread for --on-change: {error}")))?;
        Ok(Hook { changes: Some(sender), is_over, thread: Some(thread) })
    }

    /// Tells it of each leader that `changes` shows.
    pub(crate) fn follow<C: Changes>(
        self,
        mut changes: C,
        leader: impl Fn(&C::Told) -> Option<LeaderInfo> + Send + 'static,
    ) -> Following {
        Following(tokio::spawn(async move {
            let mut last = None;
            loop {
                let now = leader(&changes.latest());
                if now != last {
                    self.tell(now.clone());
                    last = now;
                }
                if !changes.goes_on().await {
                    return;
                }
            }
        }))
    }

    fn tell(&self, leader: Option<LeaderInfo>) {
        // Its thread lives as long as this.
        let _told = self.changes.as_ref().map(|changes| changes.send(leader));
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Ends the wait for a next change.
        self.changes = None;
        if let Some(thread) = self.thread.take() {
            // Soon, as what it runs is killed.
            let _ended = thread.join();
        }
    }
}

fn run_all(
    changes: &Receiver<Option<LeaderInfo>>,
    is_over: &AtomicBool,
    command: &OsString,
    key: &Key,
    me: &str,
) {
    while let Ok(mut leader) = changes.recv() {
        while let Ok(later) = changes.try_recv() {
            leader = later;
        }
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        if let Err(error) = run(is_over, command, key, me, leader.as_ref()) {
            output::note(format!("--on-change: {error}"));
        }
    }
}

fn run(
    is_over: &AtomicBool,
    command: &OsString,
    key: &Key,
    me: &str,
    leader: Option<&LeaderInfo>,
) -> std::io::Result<()> {
    let role = if leader.is_some_and(|leader| leader.id == me) { "leader" } else { "standby" };
    let mut hook = hooks::shell(command);
    mark_beside(&mut hook, me);
    hook.env("TENURE_KEY", key.as_str()).env("TENURE_LEADER", leader.map_or("", |leader| &leader.id)).env(
        "TENURE_FENCE",
        leader.and_then(|leader| leader.fence).map_or_else(String::new, |fence| fence.to_string()),
    );
    // One that looks for one role, as by test(1), fails at the other: that is no trouble.
    hooks::run(hook.env("TENURE_ROLE", role), is_over).map(drop)
}

#[cfg(test)]
mod tests {
    //! Plan: who leads knows it without reading it, and no longer than it leads.
    use super::*;

    #[tokio::test]
    async fn a_leader_that_can_not_read_is_told_that_it_leads() {
        let leases = Leases::new(tenure::memory()).unwrap();
        let guard = leases.acquire("k").await.unwrap();
        let key = guard.key().clone();
        let own = LeaderInfo { id: leases.holder().as_str().to_owned(), fence: Some(guard.fence()) };
        assert_eq!(LeaderInfo::of(&leases, &key, None), Some(own));
        assert_eq!(LeaderInfo::of(&leases, &Key::new("other").unwrap(), None), None);
        let seen = leases.peek("k").await.unwrap();
        let seen = seen.map(Leader::from).unwrap();
        guard.release().await;
        assert_eq!(LeaderInfo::of(&leases, &key, None), None);
        assert_eq!(LeaderInfo::of(&leases, &key, Some(&seen)), None, "though it was seen to lead");
    }
}
