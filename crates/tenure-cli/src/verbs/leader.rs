//! `leader`: who leads, once or for as long as one wants to know.

use super::look::{doubt, found_among};
use crate::args;
use crate::config;
use crate::exit::{self, Failure};
use crate::output;
use crate::output::json::fields;
use crate::output::view::{Sessions, State};
use crate::stores::{Missing, Url};
use crate::supervise::outage::Outage;
use crate::supervise::signals::Signals;
use crate::text::date;
use crate::verbs::elect::hook::Changes;
use crate::verbs::elect::watch::LeaderWatch;
use serde_json::json;
use std::time::Duration;
use tenure::election::Leader;
use tenure::{Key, Leases, Sighting};

pub(crate) async fn leader(url: &Url, typed: &args::LeaderArgs) -> Result<u8, Failure> {
    let key = config::key(&typed.key)?;
    #[cfg(feature = "less")]
    if let Some(place) = url.of_less()? {
        return of_less(&place, &key, typed).await;
    }
    if typed.follow {
        return follow(url, &key, typed.json).await;
    }
    let leases = super::open_to_look(url).await?;
    let leader = present(&leases, &key).await?;
    if typed.json {
        output::json(&document(&leases, &key, leader.as_ref()))?;
    }
    match leader {
        Some(leader) if !typed.json => output::print(&format!("{}\n", leader.holder))?,
        Some(_) => {}
        None if typed.json => return Err(Failure::silent(exit::ABSENT)),
        None => return Err(Failure::new(exit::ABSENT, format!("nobody leads {key}"))),
    }
    Ok(exit::OK)
}

/// Who leads by the record as it stands. A key that was never led has no leader either. Whoever is dead by two wall clocks alone is watched
/// for a ttl.
async fn present(leases: &Leases, key: &Key) -> Result<Option<Leader>, Failure> {
    /// Between two looks: a leader renews its lease every third of the ttl.
    const LOOKS: u32 = 12;
    const MOST: Duration = Duration::from_secs(1);
    let (mut sessions, mut pause) = (Sessions::watching(leases.clock()), None);
    loop {
        sessions.look_again();
        let view = match found_among(leases, key, &mut sessions).await? {
            Some(view) => view,
            None => return Ok(None),
        };
        let stored = view.sound()?;
        let is_held = view.known()? == State::Held;
        match view.left.filter(|_| view.is_doubtful) {
            None => return Ok(Sighting::of(&stored.record).filter(|_| is_held).map(Leader::from)),
            Some(left) => {
                let pause = *pause.get_or_insert_with(|| {
                    output::note(doubt(&view));
                    (left / LOOKS).min(MOST)
                });
                tokio::time::sleep(pause.min(left)).await;
            }
        }
    }
}

async fn follow(url: &Url, key: &Key, as_json: bool) -> Result<u8, Failure> {
    /// For how long a leader is believed in that can't be seen, and whose ttl could not be read.
    const BELIEVED: Duration = Duration::from_secs(10);
    /// Between two looks at whether anybody reads this.
    const OFTEN: Duration = Duration::from_millis(500);
    let mut signals = Signals::listen()?;
    let clock = tenure::clock::system();
    let store = signals.unless(url.open(Missing::Look, clock.clone())).await??;
    let (outage, file) = (Outage::new(true), url.watch());
    let leases = &Leases::builder(outage.watch(store)).clock(clock).start()?;
    let mut last = signals.unless(present(leases, key)).await??;
    let mut watch = LeaderWatch::start(leases, key, &outage, BELIEVED)?.knowing(last.clone());
    print(leases, key, last.as_ref(), as_json)?;
    let gone = file.gone(super::GONE);
    tokio::pin!(gone);
    loop {
        tokio::select! {
            signal = signals.next() => return Err(Failure::by_signal(signal)),
            failure = &mut gone => return Err(failure),
            goes_on = watch.goes_on() => {
                if !goes_on {
                    return Err(Failure::new(exit::INTERNAL, "the observer has ended"));
                }
            }
            () = tokio::time::sleep(OFTEN) => {}
        }
        // As in `tenure leader KEY --follow | head -1`.
        if output::is_unread() {
            return Err(Failure::silent(exit::OK));
        }
        let leader = watch.latest();
        if leader != last {
            print(leases, key, leader.as_ref(), as_json)?;
            last = leader;
        }
    }
}

fn print(leases: &Leases, key: &Key, leader: Option<&Leader>, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return output::print(&format!("{}\n", output::json::line(&document(leases, key, leader))));
    }
    let now = date(leases.clock().now().wall);
    match leader {
        Some(leader) => output::print(&format!("{now} {} {}\n", leader.holder, leader.fence)),
        None => output::print(&format!("{now} - -\n")),
    }
}

fn document(leases: &Leases, key: &Key, leader: Option<&Leader>) -> serde_json::Value {
    let leader = leader.map(|leader| {
        json!({
            "id": leader.holder.as_str(),
            "fence": leader.fence.0,
            "since": date(leader.since),
            "labels": fields(&leader.metadata),
        })
    });
    json!({"key": key.as_str(), "at": date(leases.clock().now().wall), "leader": leader})
}

/// Who leads by the row of less's table as it stands.
#[cfg(feature = "less")]
async fn of_less(
    place: &crate::stores::less::LessLocation,
    key: &Key,
    typed: &args::LeaderArgs,
) -> Result<u8, Failure> {
    use tenure::Clock as _;
    if typed.follow {
        return Err(Failure::usage(
            "--follow is not for less's table; `tenure elect --on-change` tells of leaders",
        ));
    }
    let clock = tenure::clock::system();
    let seen = place.open(clock.clone()).await?.look(key.as_str()).await?;
    let leader = crate::stores::less::leader(seen);
    if typed.json {
        let shown = leader.as_ref().map(|(id, until)| json!({"id": id, "until": date(*until)}));
        output::json(&json!({"key": key.as_str(), "at": date(clock.now().wall), "leader": shown}))?;
    }
    match leader {
        Some((id, _)) if !typed.json => output::print(&format!("{}\n", crate::text::escaped(&id)))?,
        Some(_) => {}
        None if typed.json => return Err(Failure::silent(exit::ABSENT)),
        None => return Err(Failure::new(exit::ABSENT, format!("nobody leads {key}"))),
    }
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    //! Plan: where the store tells no ages, a leader whose clock is behind leads, and a dead one does not, however wrong the clocks are.
    use super::*;
    use crate::verbs::ageless::Ageless;

    const TTL: Duration = Duration::from_millis(900);

    #[tokio::test]
    async fn s1_a_leader_whose_clock_is_behind_is_not_taken_for_dead() {
        let world = Ageless::new().await;
        let guard = world.there.lock("k").ttl(TTL).acquire().await.unwrap();
        let leader = present(&world.here, guard.key()).await.unwrap();
        assert_eq!(leader.map(|leader| leader.fence), Some(guard.fence()));
        let key = Key::new("dead").unwrap();
        world.left(&key, Some(TTL)).await;
        assert_eq!(present(&world.here, &key).await.unwrap(), None);
    }
}
