//! Records as people and programs are shown them.

use crate::exit::{DAMAGED, Failure};
use crate::keys::{JobName, UnitStatus, hex_of, kept_name, text_of};
use crate::output::about::SessionAbouts;
use crate::output::json::told;
use crate::output::permits::{PermitsView, session};
use crate::output::problem::RecordProblem;
use crate::output::section::SectionLeases;
use crate::output::silence::{Silences, TimeLeft};
use crate::text::{brief, count, date};
use serde_json::{Map, json};
use std::sync::Arc;
use std::time::Duration;
use tenure::fleet::FleetKey;
use tenure::liveness::{Liveness, SessionLives, time_left};
use tenure::range::{Entry, SectionLedger};
use tenure::store::reserved::SESSION;
use tenure::store::{Attachment, Listed, Record, Stored};
use tenure::{Clock, Key, Store, StoreError, Ttl, Wall};
use tenure_core::time::millis;

/// What a record says about its key now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// Held, as far as can be told from outside.
    Held,
    /// Nobody holds it.
    Vacant,
    /// Its holder has not been heard of for longer than the ttl: it may be taken.
    Expired,
    /// It can't be read.
    Damaged,
    /// The session that it is attached to can't be read.
    Unknown,
    /// A newer version has written it, which can read it.
    Newer,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Held => "held",
            State::Vacant => "vacant",
            State::Expired => "expired",
            State::Damaged => "damaged",
            State::Unknown => "unknown",
            State::Newer => "newer",
        }
    }
}

/// One record, judged.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) key: Key,
    pub(crate) state: State,
    /// How much longer it is held if nothing is renewed; an estimate.
    pub(crate) left: Option<Duration>,
    /// Held, but by two wall clocks it is over: its holder may be dead, and its clock may be behind as well. Only who watches asks.
    pub(crate) is_doubtful: bool,
    /// If it is a section: its leases.
    pub(crate) leased: Option<SectionLeases>,
    /// If it is a semaphore: its holders, and those who wait.
    pub(crate) shared: Option<PermitsView>,
    /// Why its state is not known, if it is [`State::Unknown`].
    pub(crate) doubt: Option<StoreError>,
    pub(crate) stored: Result<Stored, RecordProblem>,
}

/// Sessions, as they are needed to judge what is attached to them. Each is read once. Whoever holds one that can't be read may live.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    lives: SessionLives<TimeLeft>,
    /// What judges silence where the store doesn't; else wall clocks do.
    silences: Option<Silences>,
}

impl Sessions {
    /// Of who looks again and again, at few records. Where the store tells no ages, somebody is dead once that was seen for a whole ttl, and not by
    /// two wall clocks.
    pub(crate) fn watching(clock: &Arc<dyn Clock>) -> Sessions {
        Sessions { lives: SessionLives::default(), silences: Some(Silences::new(Arc::clone(clock))) }
    }

    /// To be called before each look.
    pub(crate) fn look_again(&mut self) {
        self.lives.clear();
        if let Some(silences) = &mut self.silences {
            silences.look_again();
        }
    }

    /// How much time is left to the leases of a section, if it is one.
    fn leased(&mut self, stored: &Stored, now: Wall) -> Result<Option<SectionLeases>, StoreError> {
        let untold = |entry: &Entry, by_wall| match &mut self.silences {
            Some(silences) => silences.left_of_entry(entry.id, entry.duration.duration(), by_wall),
            None => TimeLeft::told(by_wall),
        };
        SectionLeases::judged(stored, now, untold).transpose()
    }

    fn see(&mut self, listing: &[Listed], now: Wall) {
        let sessions = listing.iter().filter(|listed| is_session(&listed.key));
        self.lives.see(sessions, measure(&mut self.silences, now));
    }

    /// Takes those of a page, and reads all others that it names at once.
    pub(crate) async fn follow(
        &mut self,
        store: &impl Store,
        page: &[Listed],
        now: Wall,
    ) -> Result<(), StoreError> {
        self.see(page, now);
        self.lives.follow(store, page, measure(&mut self.silences, now)).await
    }

    async fn judge(
        &mut self,
        store: &impl Store,
        key: &Key,
        stored: &Stored,
        now: Wall,
    ) -> Liveness<TimeLeft> {
        let judged = self.lives.judge(store, key, stored, measure(&mut self.silences, now)).await;
        judged.unwrap_or_else(Liveness::Unknown)
    }

    async fn judge_permits(
        &mut self,
        store: &impl Store,
        permits: &PermitsView,
        now: Wall,
    ) -> Liveness<TimeLeft> {
        let judged = self.lives.judge_permits(store, &permits.0, measure(&mut self.silences, now)).await;
        judged.unwrap_or_else(Liveness::Unknown)
    }
}

/// How much of a ttl is left: by the store's clock if it tells, else by what was watched, else by the wall clocks.
fn measure(silences: &mut Option<Silences>, now: Wall) -> impl FnMut(&Key, &Stored, Ttl) -> TimeLeft {
    move |key, stored, ttl| {
        let left = time_left(stored, ttl, now);
        match silences {
            Some(silences) if stored.age().is_none() => {
                let tenure = stored.record.tenure.as_ref();
                let heartbeat = tenure.map_or(stored.record.nonce, |held| held.heartbeat);
                silences.left_of_record(key, heartbeat, ttl.duration(), left)
            }
            _ => TimeLeft::told(left),
        }
    }
}

/// Whether a key is that of a process's session.
pub(crate) fn is_session(key: &Key) -> bool {
    key.as_str().starts_with(SESSION) || matches!(FleetKey::of(key), Some((_, FleetKey::Worker(_))))
}

impl View {
    /// Judges one record of a page that `sessions` have followed; what it is attached to is read here, one by one, where they have not. A session's own
    /// record is judged like a lease's: [`is_session`] tells it apart.
    pub(crate) async fn of(store: &impl Store, sessions: &mut Sessions, listed: Listed, now: Wall) -> View {
        let Listed { key, stored } = listed;
        let unread = |key: Key, error: StoreError| {
            let problem = RecordProblem::of(&key, &error);
            let state = if problem.is_newer() { State::Newer } else { State::Damaged };
            let (is_doubtful, stored) = (false, Err(problem));
            View { key, state, left: None, is_doubtful, leased: None, shared: None, doubt: None, stored }
        };
        let stored = match stored {
            Ok(stored) => stored,
            Err(error) => return unread(key, error),
        };
        let leased = match sessions.leased(&stored, now) {
            Ok(leased) => leased,
            Err(error) => return unread(key, error),
        };
        let shared = match PermitsView::of(&stored).transpose() {
            Ok(shared) => shared,
            Err(error) => return unread(key, error),
        };
        let (mut doubt, mut is_doubtful) = (None, false);
        let mut judged = |left: TimeLeft| {
            is_doubtful = left.is_doubtful;
            judged(left.left)
        };
        let liveness = match &shared {
            Some(shared) => sessions.judge_permits(store, shared, now).await,
            None => sessions.judge(store, &key, &stored, now).await,
        };
        let (state, left) = match (&liveness, &leased) {
            (Liveness::Vacant, Some(leased)) if !leased.is_empty() => judged(TimeLeft {
                left: leased.left().unwrap_or_default(),
                is_doubtful: leased.is_doubtful(),
            }),
            (Liveness::Vacant, _) => (State::Vacant, None),
            (Liveness::Tenured(left), _) => judged(*left),
            (Liveness::Over | Liveness::SessionGone, _) => judged(TimeLeft::NONE),
            (Liveness::Unknown(error), _) => {
                doubt = Some(error.clone());
                (State::Unknown, None)
            }
        };
        View { key, state, left, is_doubtful, leased, shared, doubt, stored: Ok(stored) }
    }

    /// The sessions that its lease, or those of its permits, are attached to.
    pub(crate) fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        let own = self.stored.as_ref().ok().and_then(|stored| stored.record.tenure.as_ref());
        let own = own.and_then(|tenure| tenure.attachment.as_ref());
        own.into_iter().chain(self.shared.iter().flat_map(PermitsView::attachments))
    }

    /// What is stored, where only a record that can be read will do.
    pub(crate) fn sound(&self) -> Result<&Stored, Failure> {
        self.stored.as_ref().map_err(|problem| Failure::new(DAMAGED, format!("{}: {problem}", self.key)))
    }

    /// Its state, where one that is not known will not do.
    pub(crate) fn known(&self) -> Result<State, Failure> {
        let Some(error) = &self.doubt else { return Ok(self.state) };
        let failure = Failure::from(error.clone());
        let text = format!(
            "whether {} is held is not known, since the session that it is attached to can't be read",
            self.key
        );
        Err(Failure { text: format!("{text}: {}", failure.text), ..failure })
    }

    /// How many ranges are held, if it is a section in which some are.
    pub(crate) fn ranges(&self) -> Option<usize> {
        self.leased.as_ref().map(SectionLeases::ranges).filter(|ranges| *ranges > 0)
    }

    /// Where the unit of a job stands, if it is one's.
    fn unit_status(&self) -> Option<UnitStatus> {
        JobName::of_key(&self.key).and_then(|_| UnitStatus::of(&self.stored.as_ref().ok()?.record.metadata))
    }

    /// Its state in words.
    pub(crate) fn status(&self) -> String {
        // Of one that is held there is nothing more to say: it is being run.
        if let Some(status) = self.unit_status().filter(|_| self.state != State::Held) {
            return format!("{} ({})", self.state.name(), status.name());
        }
        if let Some(shared) = self.shared.as_ref().filter(|shared| !shared.is_empty()) {
            return format!("{} ({})", self.state.name(), shared.status());
        }
        match self.ranges() {
            Some(ranges) => format!("{} ({})", self.state.name(), count(ranges, "range")),
            None => self.state.name().to_owned(),
        }
    }

    pub(crate) fn heading() -> [&'static str; 7] {
        ["KEY", "STATE", "FENCE", "HOLDER", "SINCE", "LEFT", "ON SESSION"]
    }

    pub(crate) fn row(&self) -> Vec<String> {
        let dash = || "-".to_owned();
        let record = self.stored.as_ref().ok().map(|stored| &stored.record);
        let tenure = record.and_then(|record| record.tenure.as_ref());
        let leased = self.leased.as_ref();
        let holder = tenure.map(|tenure| tenure.holder.to_string());
        let since = tenure.map(|tenure| tenure.since);
        vec![
            self.key.to_string(),
            self.status(),
            record.map_or_else(dash, |record| record.fence.to_string()),
            holder
                .or_else(|| leased.and_then(SectionLeases::holders_shown))
                .or_else(|| self.shared.as_ref().and_then(PermitsView::holders_shown))
                .unwrap_or_else(dash),
            since
                .or_else(|| leased.and_then(SectionLeases::since))
                .or_else(|| self.shared.as_ref().and_then(PermitsView::since))
                .map_or_else(dash, date),
            self.left.map_or_else(dash, brief),
            tenure.and_then(|tenure| tenure.attachment.as_ref()).map_or_else(dash, |_| "yes".to_owned()),
        ]
    }

    pub(crate) fn json(&self, abouts: &SessionAbouts) -> serde_json::Value {
        let mut view = Map::new();
        view.insert("key".into(), self.key.as_str().into());
        if let Some((fleet, part)) = FleetKey::of(&self.key) {
            let unit = if let FleetKey::Unit(unit) = part { Some(unit) } else { None };
            view.insert("fleet".into(), json!({"name": fleet, "unit": unit}));
        }
        if let Some((job, unit)) = JobName::of_key(&self.key) {
            let status = self.unit_status().map(UnitStatus::name);
            let stored = self.stored.as_ref().ok();
            let kept = stored.and_then(|stored| kept_name(&self.key, &stored.record.metadata));
            let (name, digits) = (kept.map(text_of), kept.and_then(hex_of));
            view.insert(
                "job".into(),
                json!({"name": job, "unit": unit, "unit_name": name, "unit_hex": digits, "status": status}),
            );
        }
        view.insert("state".into(), self.state.name().into());
        match &self.stored {
            Err(problem) => {
                view.insert("problem".into(), problem.to_string().into());
            }
            Ok(stored) => self.describe(stored, abouts, &mut view),
        }
        view.into()
    }

    fn describe(&self, stored: &Stored, abouts: &SessionAbouts, view: &mut Map<String, serde_json::Value>) {
        let Record { fence, stamp, tenure, metadata, .. } = &stored.record;
        view.insert("fence".into(), fence.0.into());
        view.insert("written".into(), date(*stamp).into());
        view.insert("age_ms".into(), json!(stored.age().map(millis)));
        if let Some(tenure) = tenure {
            view.insert("holder".into(), tenure.holder.as_str().into());
            view.insert("since".into(), date(tenure.since).into());
            view.insert("ttl_ms".into(), tenure.ttl.millis().into());
            view.insert("left_ms".into(), json!(self.left.map(millis)));
            let session = tenure.attachment.as_ref().map(|attachment| session(attachment, abouts));
            view.insert("session".into(), json!(session));
            view.insert("mail".into(), tenure.mail.len().into());
        }
        if let Some(leased) = &self.leased {
            view.insert("left_ms".into(), json!(self.left.map(millis)));
            // The metadata are the same, encoded.
            view.insert("leases".into(), leased.json());
            return;
        }
        if let Some(shared) = &self.shared {
            view.extend(self.left.map(|left| ("left_ms".into(), json!(millis(left)))));
            view.insert("semaphore".into(), shared.json(abouts));
            return;
        }
        if let Ok(covered) = SectionLedger::covered(&stored.record) {
            let ranges: Vec<String> = covered.ranges().iter().map(ToString::to_string).collect();
            view.insert("covered".into(), json!(ranges));
            return;
        }
        view.insert("metadata".into(), told(&self.key, metadata));
    }
}

fn judged(left: Duration) -> (State, Option<Duration>) {
    if left.is_zero() { (State::Expired, None) } else { (State::Held, Some(left)) }
}

#[cfg(test)]
mod tests {
    //! Plan: what the dead have of a semaphore is told apart from what is held.
    use super::*;
    use crate::stepped_clock::SteppedClock;
    use tenure::{Leases, MemoryStore};
    use tenure_store::{Fault, FaultyStore};

    #[tokio::test(start_paused = true)]
    async fn permits_are_held_as_long_as_one_of_their_holders_lives() {
        let clock = SteppedClock::start();
        let store = MemoryStore::new("test", clock.clone());
        let state = async || {
            let key = Key::new("semaphore/s").unwrap();
            let stored = Ok(store.read(&key).await.unwrap().unwrap());
            let now = clock.now().wall;
            View::of(&store, &mut Sessions::default(), Listed { key, stored }, now).await.state
        };
        let leases = |store: FaultyStore<MemoryStore>| Leases::builder(store).clock(clock.clone()).start();
        let (dies, lives) = (FaultyStore::new(store.clone()), FaultyStore::new(store.clone()));
        let (one, other) = (leases(dies.clone()).unwrap(), leases(lives).unwrap());
        let _first = one.semaphore("s", 3).try_acquire().await.unwrap();
        let second = other.semaphore("s", 3).try_acquire().await.unwrap();
        dies.always(Fault::Hang);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(state().await, State::Held, "one of two lives");
        second.release().await;
        assert_eq!(state().await, State::Expired, "what is left is the dead one's");
    }
}
