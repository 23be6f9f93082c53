//! A hundred races of compare-and-set: of those who write at once on the same condition, one has to win.

use super::probe::Probe;
use crate::stores::{Missing, Url};
use std::sync::Arc;
use std::time::Duration;
use tenure::clock::boottime;
use tenure::store::{Expect, Outcome, Record, Tenure, Version, Write};
use tenure::{AnyStore, Fence, HolderId, Key, Store, StoreError, Ttl};

const RACES: usize = 100;
/// Each has a connection of its own, where the store has connections.
const CONTENDERS: usize = 4;
/// On a store that is far away there are fewer races.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the record stands between two races.
struct Stand {
    version: Version,
    fence: Fence,
    is_held: bool,
}

/// Runs them on the probe's record, which is vacant before and after. Returns what there is to say.
pub(super) async fn run(url: &Url, probe: &mut Probe<'_>, version: Version) -> Result<String, String> {
    let mut stores = vec![probe.leases.store().clone()];
    while stores.len() < CONTENDERS {
        let opened = match url {
            Url::Memory => Ok(probe.leases.store().clone()),
            _ => url.open(Missing::Refuse, Arc::clone(probe.leases.clock())).await,
        };
        stores.push(opened.map_err(|error| format!("a further connection: {error}"))?);
    }
    let mut stand = Stand { version, fence: Fence(0), is_held: false };
    let (start, mut races, mut fences) = (boottime(), 0, 0);
    // An even number, so that the record is vacant in the end.
    while races < RACES && (stand.is_held || boottime().saturating_sub(start) < PATIENCE) {
        let next =
            race(&stores, probe, &stand).await.map_err(|text| format!("race {}: {text}", races + 1))?;
        fences += usize::from(next.is_held);
        stand = next;
        races += 1;
    }
    Ok(format!(
        "{races} of {CONTENDERS} at once: one winner each; {fences} fences, each higher than the last"
    ))
}

/// One race: for a vacant record, or to write over the one that stands.
async fn race(stores: &[AnyStore], probe: &mut Probe<'_>, stand: &Stand) -> Result<Stand, String> {
    let expect = if stand.is_held { Expect::Unchanged(stand.version) } else { Expect::Vacant };
    let mut writes = Vec::new();
    for _ in stores {
        let fence = if stand.is_held { stand.fence } else { Probe::FLOOR };
        let mut record = probe.vacant(fence);
        if !stand.is_held {
            claim(&mut record, probe.leases.holder()).map_err(|error| error.to_string())?;
        }
        writes.push(Write { key: probe.key.clone(), expect, record });
    }
    let running: Vec<_> = stores
        .iter()
        .cloned()
        .zip(writes)
        .map(|(store, write)| tokio::spawn(async move { store.write(write).await }))
        .collect();
    let mut outcomes = Vec::new();
    for task in running {
        outcomes.push(task.await.map_err(|error| error.to_string())?);
    }
    judge(&probe.key, outcomes, stand)
}

fn claim(record: &mut Record, holder: &HolderId) -> Result<(), tenure::InvalidInput> {
    record.tenure =
        Some(Tenure::new(record.nonce, holder.clone(), Ttl::new(Ttl::MIN.duration())?, record.stamp));
    Ok(())
}

/// What came of it: one winner, of which all losers heard, and with a higher fence than the last holder's.
fn judge(key: &Key, outcomes: Vec<Result<Outcome, StoreError>>, before: &Stand) -> Result<Stand, String> {
    let (mut won, mut lost) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Ok(Outcome::Won { version, fence }) => won.push((version, fence)),
            Ok(Outcome::Lost(seen)) => lost.push(seen),
            Err(error) => return Err(format!("a write was not answered: {error}")),
        }
    }
    let [(version, fence)] = won[..] else {
        return Err(format!(
            "{} won, where one has to: conditions do not hold here, and no lease is safe",
            won.len()
        ));
    };
    if let Some(seen) = lost.iter().find(|seen| seen.as_ref().is_none_or(|seen| seen.version != version)) {
        let seen = seen.as_ref().map_or("nothing".to_owned(), |seen| format!("{:?}", seen.version));
        return Err(format!("a loser was shown {seen} under {key}, and not what won ({version:?})"));
    }
    let is_held = !before.is_held;
    if is_held && fence <= before.fence {
        return Err(format!("the fence {} is not higher than the last one, {}", fence.0, before.fence.0));
    }
    Ok(Stand { version, fence, is_held })
}

#[cfg(test)]
mod tests {
    //! Plan: what is no race as it should be: nobody wins, two do, a loser is shown something else, a fence that does not grow, no
    //! answer.
    use super::*;
    use tenure::store::{Nonce, Stored};
    use tenure::{Metadata, Wall};

    fn seen(nonce: u128) -> Stored {
        Stored::new(Record {
            fence: Fence(8),
            nonce: Nonce(nonce),
            stamp: Wall(0),
            tenure: None,
            metadata: Metadata::new(),
        })
    }

    fn won(nonce: u128, fence: u64) -> Result<Outcome, StoreError> {
        Ok(Outcome::Won { version: seen(nonce).version, fence: Fence(fence) })
    }

    #[test]
    fn a_race_has_one_winner_that_all_see_and_its_fence_is_higher() {
        let key = Key::new("doctor/x").unwrap();
        let before = |is_held| Stand { version: seen(9).version, fence: Fence(7), is_held };
        let lost = |nonce| Ok(Outcome::Lost(Some(seen(nonce))));
        let judged = |outcomes, is_held| judge(&key, outcomes, &before(is_held));
        let next = judged(vec![lost(1), won(1, 8), lost(1)], false).unwrap_or_else(|text| panic!("{text}"));
        assert!(next.is_held && next.fence == Fence(8) && next.version == seen(1).version);
        assert!(
            judged(vec![lost(1), won(1, 7)], true).is_ok_and(|next| !next.is_held),
            "to vacate keeps the fence"
        );
        for (outcomes, says) in [
            (vec![won(1, 8), won(2, 9)], "2 won"),
            (vec![lost(1), lost(1)], "0 won"),
            (vec![won(1, 8), lost(2)], "a loser was shown"),
            (vec![won(1, 8), Ok(Outcome::Lost(None))], "a loser was shown nothing"),
            (vec![won(1, 7), lost(1)], "not higher"),
            (vec![won(1, 8), Err(StoreError::unknown("lost"))], "not answered"),
        ] {
            let text = judged(outcomes, false).err().unwrap_or_default();
            assert!(text.contains(says), "{says}: {text}");
        }
    }
}
