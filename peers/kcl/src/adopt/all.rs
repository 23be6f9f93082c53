//! Many units side by side, and the watch over what was moved.

use super::{Adopted, Adopter, AdoptionStep, Remade};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure_core::{ErrorKind, StoreError, Tick};
use tenure_store::parts::caught;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// How many units are moved side by side.
const AT_ONCE: usize = 250;
/// For how many watches in a row rows may be made again.
const MOST_WATCHES: u32 = 4;

/// What happens while units are moved.
#[derive(Debug)]
#[non_exhaustive]
pub enum AdoptionProgress<'p> {
    /// A step of a unit is done.
    Step(&'p str, AdoptionStep),
    /// A unit is dealt with.
    Done(&'p str, &'p Result<Adopted, StoreError>),
    /// All are; rows that are made again are deleted for that long.
    Watching(Duration),
    /// These rows were made again.
    Remade(&'p Remade),
    /// The table could not be looked at. It is tried again.
    LookFailed(&'p StoreError),
}

/// What became of many units.
#[derive(Debug, Default, Clone, PartialEq)]
#[non_exhaustive]
pub struct AdoptedAll {
    /// How many are in the fleet now that were not before.
    pub moved: usize,
    /// Why others are not.
    pub failed: BTreeMap<String, StoreError>,
    /// Which are closed still, as nobody knows who deleted their rows: [`Adopted::Doubtful`].
    pub doubtful: BTreeSet<String>,
    /// Which are in the table still, for the order of shards: [`Adopted::Resharding`].
    pub resharding: BTreeSet<String>,
    /// What became of the rows of those that are.
    pub remade: Remade,
}

impl Adopter {
    /// Moves units, many side by side, and then watches over their rows for `watch`: the KCL's leader, or a peer that writes without a
    /// condition, makes deleted rows again, which are deleted for as long as nobody has taken them. `known` are units that earlier adoptions have
    /// moved, which are watched as well. The watch begins anew with each row that is made again, for a limited time.
    ///
    /// # Errors
    /// The table can't be watched. What could not be moved is in the result.
    ///
    /// # Cancel safety
    /// What was moved is moved, and not watched any more; what was half way is found again.
    pub async fn adopt_all(
        &self,
        units: Vec<String>,
        known: BTreeSet<String>,
        watch: Duration,
        mut tell: impl FnMut(AdoptionProgress<'_>),
    ) -> Result<AdoptedAll, StoreError> {
        let (mut all, mut moved) = (AdoptedAll::default(), known);
        let (mut waiting, mut moving) = (units.into_iter(), JoinSet::new());
        let (steps, mut done) = mpsc::unbounded_channel();
        let period = (self.options.failover_time() / 10).max(Duration::from_millis(50));
        let mut looks = tokio::time::interval(period);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut watched: Option<WatchWindow> = None;
        // Until when each row that was made again may be made again.
        let mut doubtful: BTreeMap<String, Tick> = BTreeMap::new();
        loop {
            while moving.len() < AT_ONCE {
                let Some(unit) = waiting.next() else { break };
                let (adopter, steps) = (self.clone(), steps.clone());
                moving.spawn(async move {
                    let goes_on = |step| steps.send((unit.clone(), step)).is_ok();
                    // A caller's own client may panic: that is no reason to pass over the unit.
                    let adopted = caught(ErrorKind::Unknown, adopter.adopt(&unit, goes_on)).await;
                    (unit, adopted)
                });
            }
            let now = self.clock.now().waited;
            if moving.is_empty() && watched.is_none() {
                if moved.is_empty() {
                    return Ok(all);
                }
                tell(AdoptionProgress::Watching(watch));
                watched =
                    Some(WatchWindow { until: now.after(watch), last: now.after(watch * MOST_WATCHES) });
            }
            tokio::select! {
                Some((unit, step)) = done.recv() => tell(AdoptionProgress::Step(&unit, step)),
                Some(adopted) = moving.join_next() => {
                    let Ok((unit, adopted)) = adopted else { continue };
                    tell(AdoptionProgress::Done(&unit, &adopted));
                    match adopted {
                        Ok(Adopted::Moved | Adopted::Opened) => {
                            all.moved += 1;
                            moved.insert(unit);
                        }
                        Ok(Adopted::Doubtful) => drop(all.doubtful.insert(unit)),
                        Ok(Adopted::Resharding) => drop(all.resharding.insert(unit)),
                        Ok(_) => {}
                        Err(error) => drop(all.failed.insert(unit, error)),
                    }
                }
                _ = looks.tick(), if !moved.is_empty() => {
                    let found = match self.sweep(&moved).await {
                        Ok(found) => found,
                        Err(error) if error.is_passing() && watched.as_ref().is_none_or(|watch| now < watch.last) => {
                            tell(AdoptionProgress::LookFailed(&error));
                            continue;
                        }
                        Err(error) => return Err(error),
                    };
                    let is_known = |key| all.remade.taken.contains_key(key);
                    if !found.deleted.is_empty() || !found.taken.keys().all(is_known) {
                        tell(AdoptionProgress::Remade(&found));
                    }
                    doubtful.extend(found.deleted.iter().map(|key| (key.clone(), now.after(watch))));
                    all.remade.deleted.extend(found.deleted);
                    all.remade.taken.extend(found.taken);
                    let Some(watched) = &watched else { continue };
                    let until = doubtful.values().copied().fold(watched.until, Tick::max);
                    if now >= until.min(watched.last) {
                        doubtful.retain(|_, until| *until > now);
                        all.remade.restless = doubtful.into_keys().collect();
                        return Ok(all);
                    }
                }
            }
        }
    }
}

/// Until when rows are watched.
struct WatchWindow {
    /// If no more are made again.
    until: Tick,
    /// However many are.
    last: Tick,
}
