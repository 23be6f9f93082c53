//! Room for connections: so many in all, and who leaves for others where it is full.

use crate::permit::{ConnectionPermit, CountedAs};
use crate::strangers::{Stranger, Strangers};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The places of an agent's connections, at all its addresses together.
#[derive(Debug)]
pub(crate) struct ConnectionRoom {
    places: Arc<Semaphore>,
    strangers: Arc<Strangers>,
    counts: CountedAs,
}

/// The place of one that is let in.
#[derive(Debug)]
pub(crate) enum ConnectionPlace {
    /// Its client may do all, and leaves for nobody.
    Known(#[allow(dead_code, reason = "held, not used")] ConnectionPermit),
    /// Its client has shown no token yet, or one that may only look.
    Stranger(Arc<Stranger>),
}

impl ConnectionRoom {
    /// For so many connections of clients, of which so many have shown no token at the most, and so many one that may only look.
    pub(crate) fn of_clients(most: usize, most_strangers: usize, most_readers: usize) -> Arc<ConnectionRoom> {
        ConnectionRoom::new(
            most,
            Strangers::new(most_strangers, most_readers, CountedAs::Clients),
            CountedAs::Clients,
        )
    }

    /// For so many connections of which all make room for others: nobody is asked for a token.
    pub(crate) fn of_strangers(most: usize) -> Arc<ConnectionRoom> {
        ConnectionRoom::new(most, Strangers::new(most, 0, CountedAs::Nothing), CountedAs::Nothing)
    }

    fn new(most: usize, strangers: Arc<Strangers>, counts: CountedAs) -> Arc<ConnectionRoom> {
        let places = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        Arc::new(ConnectionRoom { places, strangers, counts })
    }

    /// How many more could come, and be known.
    pub(crate) fn free(&self) -> usize {
        self.places.available_permits() + self.strangers.count()
    }

    /// Lets one in. Where there is no place left, it has that of whoever has shown no token for longest, or else has only looked for longest.
    /// Where all are known, the connection is to be closed.
    pub(crate) fn enter(&self, is_open: bool) -> Option<ConnectionPlace> {
        let free = Arc::clone(&self.places).try_acquire_owned().ok();
        let free = free.map(|permit| ConnectionPermit::new(permit, self.counts));
        let Some(permit) = free.or_else(|| self.strangers.make_room()) else {
            self.counts.add_refused();
            return None;
        };
        Some(if is_open {
            ConnectionPlace::Known(permit)
        } else {
            ConnectionPlace::Stranger(Arc::new(self.strangers.enter(permit)))
        })
    }
}

impl ConnectionPlace {
    pub(crate) fn stranger(&self) -> Option<&Arc<Stranger>> {
        match self {
            ConnectionPlace::Known(_) => None,
            ConnectionPlace::Stranger(stranger) => Some(stranger),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: in a full room a newcomer has the place of the stranger that came first, else of the reader that came first, and is refused among those who are
    //! known; there are never more places than the room has.
    use super::*;
    use std::time::Duration;

    async fn is_to_go(place: &ConnectionPlace) -> bool {
        let asked = place.stranger().unwrap().makes_room();
        tokio::time::timeout(Duration::ZERO, asked).await.is_ok()
    }

    #[tokio::test]
    async fn a_newcomer_has_the_place_of_a_stranger_else_of_a_reader_and_of_nobody_who_is_known() {
        let room = ConnectionRoom::of_clients(4, 64, 2);
        let mut places: Vec<ConnectionPlace> = (0..4).map(|_| room.enter(false).unwrap()).collect();
        assert_eq!(room.free(), 4);
        assert!(places[0].stranger().unwrap().is_known());
        assert!(places[1].stranger().unwrap().is_reader());
        assert_eq!(room.free(), 3, "who may only look makes room, too");
        // Of two strangers, the first goes, and then the other.
        for first in [2, 3] {
            places.push(room.enter(false).unwrap());
            assert!(is_to_go(&places[first]).await, "{first}");
            assert!(places.last().unwrap().stranger().unwrap().is_known());
        }
        // No stranger is left. Whoever needs no token has the reader's place.
        let local = room.enter(true).unwrap();
        assert!(is_to_go(&places[1]).await);
        assert!(room.enter(false).is_none() && room.enter(true).is_none());
        // Those that went had no place any more to leave behind.
        for gone in [3, 2, 1] {
            drop(places.remove(gone));
            assert!(room.enter(false).is_none());
        }
        for known in &places {
            assert!(!is_to_go(known).await);
        }
        drop(local);
        assert!(room.enter(false).is_some() && room.enter(true).is_some());
    }

    #[tokio::test]
    async fn a_stranger_that_is_to_go_gives_its_place_up_once() {
        let room = ConnectionRoom::of_clients(1, 64, 1);
        let first = room.enter(false).unwrap();
        let second = room.enter(false).unwrap();
        // Its token was looked at in that very moment.
        let stays = [first.stranger().unwrap().is_reader(), first.stranger().unwrap().is_known()];
        assert_eq!(stays, [false, false], "what it asks for is begun");
        assert!(second.stranger().unwrap().is_known());
        assert!(room.enter(false).is_none());
    }
}
