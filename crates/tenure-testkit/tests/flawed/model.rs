//! Leases in this process's memory, with a flaw.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tenure_core::{Clock, Fence, StoreError, Tick};
use tenure_testkit::{LeaseRefusal, LeaseSubject, LostMessage, ManualClock, Tenant};

/// What is wrong with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// Not wrong, but what some layouts are like.
    NoFences,
    GivesToAll,
    GivesToTheHolderAgain,
    TouchesWhatItRefuses,
    FoldsCase,
    RenewsNothing,
    BelievesForEver,
    BelievesTooLittle,
    RepeatsFences,
    RaisesFencesAtRenewals,
    InventsFences,
    KeepsWhatIsReleased,
    BelievesAfterRelease,
    NeverExpires,
    ExpiresEarly,
    RenewsForOthers,
    CallsTheDeposedHeld,
    ReleasesForOthers,
    RefusesLateReleases,
    RenewsWhatIsFree,
    CallsItsOwnHeld,
    BelievesWithoutAnswer,
    LosesWhatIsUnanswered,
    ForgetsLostReleases,
    OverwritesTheDamaged,
    CallsTheDamagedHeld,
}

const TTL: Duration = Duration::from_secs(10);
/// What a holder's belief falls short of its record by.
const MARGIN: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    token: u64,
    holder: u64,
    until: Tick,
    is_damaged: bool,
    touched: u64,
}

type Rows = BTreeMap<String, Row>;

/// The leases of one check.
pub(crate) struct Model {
    flaw: Flaw,
    rows: Arc<Mutex<Rows>>,
    drawn: Arc<AtomicU64>,
    clock: Arc<ManualClock>,
}

pub(crate) struct Process {
    flaw: Flaw,
    id: u64,
    rows: Arc<Mutex<Rows>>,
    drawn: Arc<AtomicU64>,
    clock: Arc<ManualClock>,
    lost: Mutex<Option<LostMessage>>,
}

pub(crate) struct Lease {
    key: String,
    token: u64,
    fence: u64,
    until: Option<Tick>,
}

impl Model {
    pub(crate) fn new(flaw: Flaw) -> Model {
        Model { flaw, rows: Arc::default(), drawn: Arc::default(), clock: Arc::default() }
    }
}

impl LeaseSubject for Model {
    type Tenant = Process;

    async fn tenant(&self) -> Process {
        Process {
            flaw: self.flaw,
            id: self.drawn.fetch_add(1, Ordering::SeqCst),
            rows: self.rows.clone(),
            drawn: self.drawn.clone(),
            clock: self.clock.clone(),
            lost: Mutex::default(),
        }
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn takeover(&self) -> Duration {
        TTL
    }

    fn has_fences(&self) -> bool {
        !matches!(self.flaw, Flaw::NoFences | Flaw::InventsFences)
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    async fn raw(&self, key: &str) -> Option<String> {
        self.rows.lock().unwrap().get(key).map(|row| format!("{row:?}"))
    }

    async fn damage(&self, key: &str, way: usize) -> bool {
        if let (0, Some(row)) = (way, self.rows.lock().unwrap().get_mut(key)) {
            row.is_damaged = true;
            return true;
        }
        false
    }
}

impl Process {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn name(&self, key: &str) -> String {
        if self.has(Flaw::FoldsCase) { key.to_lowercase() } else { key.to_owned() }
    }

    /// Until when a record says that its holder has it, from now on.
    fn term(&self) -> Tick {
        let early = if self.has(Flaw::ExpiresEarly) { TTL / 2 } else { TTL };
        if self.has(Flaw::NeverExpires) { Tick::NEVER } else { self.clock.held().after(early) }
    }

    /// Until when its holder believes that.
    fn belief(&self) -> Option<Tick> {
        Some(match self.flaw {
            Flaw::BelievesForEver => Tick::NEVER,
            Flaw::BelievesTooLittle => self.clock.held().after(TTL / 3),
            _ => self.clock.held().after(TTL - MARGIN),
        })
    }

    /// The fate of a request that writes, which takes effect unless it is lost; false if it is not answered.
    fn send(&self, write: impl FnOnce()) -> bool {
        let lost = self.lost.lock().unwrap().take();
        if lost != Some(LostMessage::Request) {
            write();
        }
        lost.is_none()
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap()
    }

    fn damaged(&self, key: &str) -> Result<(), LeaseRefusal> {
        let is_damaged = self.rows().get(key).is_some_and(|row| row.is_damaged);
        if is_damaged && !self.has(Flaw::OverwritesTheDamaged) {
            return Err(LeaseRefusal::Store(StoreError::foreign(format!("{key} is damaged"))));
        }
        Ok(())
    }
}

impl Tenant for Process {
    type Lease = Lease;

    async fn try_acquire(&self, key: &str) -> Result<Lease, LeaseRefusal> {
        let key = self.name(key);
        if let Err(refusal) = self.damaged(&key) {
            return Err(if self.has(Flaw::CallsTheDamagedHeld) { LeaseRefusal::Held } else { refusal });
        }
        let token = self.drawn.fetch_add(1, Ordering::SeqCst) + 1;
        let believed = self.belief();
        for attempt in 0..3 {
            let now = self.clock.held();
            if let Some(row) = self.rows().get_mut(&key).filter(|row| row.until > now) {
                let again = self.has(Flaw::GivesToTheHolderAgain) && row.holder == self.id;
                let is_mine = row.token == token && !(attempt > 0 && self.has(Flaw::CallsItsOwnHeld));
                if self.has(Flaw::TouchesWhatItRefuses) {
                    row.touched += 1;
                }
                if !is_mine && !again && !self.has(Flaw::GivesToAll) {
                    return Err(LeaseRefusal::Held);
                }
            }
            let row = Row { token, holder: self.id, until: self.term(), is_damaged: false, touched: 0 };
            let answered = self.send(|| {
                self.rows().insert(key.clone(), row);
            });
            if answered || self.has(Flaw::BelievesWithoutAnswer) {
                let fence = if self.has(Flaw::RepeatsFences) { 1 } else { token };
                return Ok(Lease { key, token, fence, until: believed });
            }
        }
        Err(LeaseRefusal::Store(StoreError::unknown("no answer")))
    }

    async fn renew(&self, lease: &mut Lease) -> Result<(), LeaseRefusal> {
        if let Err(refusal) = self.damaged(&lease.key) {
            lease.until = None;
            return Err(refusal);
        }
        let now = self.clock.held();
        let (ours, free) = {
            let rows = self.rows();
            let row = rows.get(&lease.key);
            (row.is_some_and(|row| row.token == lease.token && row.until > now), row.is_none())
        };
        let anyway = self.has(Flaw::RenewsForOthers) && !free || self.has(Flaw::RenewsWhatIsFree) && free;
        if !ours && !anyway {
            lease.until = None;
            return Err(if self.has(Flaw::CallsTheDeposedHeld) {
                LeaseRefusal::Held
            } else {
                LeaseRefusal::NotOwned
            });
        }
        if self.has(Flaw::RenewsNothing) {
            return Ok(());
        }
        let row =
            Row { token: lease.token, holder: self.id, until: self.term(), is_damaged: false, touched: 0 };
        let answered = self.send(|| {
            self.rows().insert(lease.key.clone(), row);
        });
        if self.has(Flaw::RaisesFencesAtRenewals) {
            lease.fence += 1;
        }
        if answered || self.has(Flaw::BelievesWithoutAnswer) {
            lease.until = self.belief();
            return Ok(());
        }
        if self.has(Flaw::LosesWhatIsUnanswered) {
            lease.until = None;
            return Err(LeaseRefusal::NotOwned);
        }
        Err(LeaseRefusal::Store(StoreError::unknown("no answer")))
    }

    async fn release(&self, lease: &mut Lease) -> Result<(), LeaseRefusal> {
        if !self.has(Flaw::BelievesAfterRelease) {
            lease.until = None;
        }
        self.damaged(&lease.key)?;
        let ours = self.rows().get(&lease.key).is_some_and(|row| row.token == lease.token);
        if !ours && !self.has(Flaw::ReleasesForOthers) {
            let refused = Err(LeaseRefusal::Store(StoreError::invalid("not yours")));
            return if self.has(Flaw::RefusesLateReleases) { refused } else { Ok(()) };
        }
        let answered = self.send(|| {
            if !self.has(Flaw::KeepsWhatIsReleased) {
                self.rows().remove(&lease.key);
            }
        });
        if answered || self.has(Flaw::ForgetsLostReleases) {
            return Ok(());
        }
        Err(LeaseRefusal::Store(StoreError::unknown("no answer")))
    }

    fn is_held(&self, lease: &Lease) -> bool {
        lease.until > Some(self.clock.held())
    }

    fn fence(&self, lease: &Lease) -> Result<Fence, LeaseRefusal> {
        if self.has(Flaw::NoFences) {
            return Err(LeaseRefusal::Store(StoreError::unsupported("no fences here")));
        }
        Ok(Fence(lease.fence))
    }

    fn lose_next(&self, lost: LostMessage) {
        *self.lost.lock().unwrap() = Some(lost);
    }
}
