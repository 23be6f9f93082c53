//! The ring of workers: who watches whom. Its order is that of a hash, so that those who are likely to die together, with names
//! that are alike, don't stand together.

use crate::values::key::Key;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// How many of the live workers that stand before a dead one in the ring end its session at once.
const FIRST: usize = 3;

/// These sessions in the order of the ring, in which each worker watches some of those that come after it.
#[must_use]
pub fn in_ring<'a>(sessions: impl IntoIterator<Item = &'a Key>) -> Vec<&'a Key> {
    let ring: BTreeMap<_, _> = sessions.into_iter().map(|key| (place(key), key)).collect();
    ring.into_values().collect()
}

/// Those of the workers who come after `me` in the ring that it watches: at distances that double, so that of any number who
/// stand side by side and die together, each is watched by somebody else too.
pub(super) fn watched<'a>(
    me: &Key,
    others: impl Iterator<Item = &'a Key>,
    count: usize,
    side_by_side: bool,
) -> Vec<Key> {
    let ring: BTreeMap<_, _> = others.map(|key| (place(key), key)).collect();
    let me = place(me);
    let after = ring.range((Bound::Excluded(me.clone()), Bound::Unbounded));
    let after = after.chain(ring.range(..me)).map(|(_, key)| *key);
    if side_by_side {
        return after.take(count).cloned().collect();
    }
    let distances = distances(ring.len(), count);
    after.zip(1..).filter(|(_, distance)| distances.contains(distance)).map(|(key, _)| key.clone()).collect()
}

/// So many distances among `others`: the next one, then three quarters of the way around, half of that, and so on; and what
/// is left over, as close as can be.
fn distances(others: usize, count: usize) -> BTreeSet<usize> {
    let mut distances: BTreeSet<usize> = (1..=others.min(1)).collect();
    let mut far = others * 3 / 4;
    while far > 0 && distances.len() < count {
        distances.insert(far);
        far /= 2;
    }
    let mut near = 2..=others;
    while distances.len() < count
        && let Some(next) = near.next()
    {
        distances.insert(next);
    }
    distances
}

/// Whether it is `me` who is to end a dead one's session at once: one of those live workers who stand closest before it. The
/// others do so after a while, if nothing has come of it.
pub(super) fn is_first(me: &Key, live: &BTreeSet<Key>) -> impl Fn(&Key) -> bool + use<> {
    let ring: BTreeSet<_> = live.iter().map(place).collect();
    let places: Vec<_> = ring.into_iter().collect();
    // Where it stands, or would stand.
    let at = |places: &[_], key: &Key| places.binary_search(&place(key)).unwrap_or_else(|next| next);
    let me = at(&places, me);
    move |dead| (at(&places, dead) + places.len() - 1 - me) % places.len().max(1) < FIRST
}

/// Where in the ring a session stands.
pub(super) fn place(key: &Key) -> (u64, Key) {
    (mix(key), key.clone())
}

/// FNV-1a (Fowler, Noll, Vo 1991), which spreads names well enough for a ring, with a final mix.
fn mix(key: &Key) -> u64 {
    let hash = key
        .as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    //! Plan: whoever is alone watches nobody, few watch all; of a run of dead ones of up to half of the fleet, each is watched
    //! by somebody who lives; three end a dead one's session; the order is the same in every version.
    use super::*;

    #[test]
    fn few_watch_all_others_and_one_alone_nobody() {
        for others in 0..=8 {
            assert_eq!(distances(others, 8), (1..=others).collect(), "{others}");
        }
        assert_eq!(distances(5, 1), BTreeSet::from([1]));
        assert_eq!(distances(999, 8), BTreeSet::from([1, 11, 23, 46, 93, 187, 374, 749]));
    }

    #[test]
    fn each_of_half_a_fleet_that_dies_side_by_side_is_watched_by_somebody_who_lives() {
        for workers in 2..400 {
            let distances = distances(workers - 1, 8);
            let dead = workers / 2;
            // The first `dead` of the ring have died.
            for one in 0..dead {
                let watchers = distances.iter().map(|distance| (one + workers - distance) % workers);
                assert!(watchers.into_iter().any(|watcher| watcher >= dead), "{one} of {dead} in {workers}");
            }
        }
    }

    #[test]
    fn one_watches_those_at_the_distances_after_it() {
        let keys: Vec<Key> = (0..30).map(|n| Key::new(format!("w{n}")).unwrap()).collect();
        let ring = in_ring(&keys);
        for at in 0..30 {
            let others = keys.iter().filter(|key| *key != ring[at]);
            let watched = watched(ring[at], others, 8, false);
            let expected: Vec<&Key> = distances(29, 8).iter().map(|far| ring[(at + far) % 30]).collect();
            assert_eq!(watched.iter().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn those_three_who_stand_closest_before_a_dead_one_are_first() {
        let keys: Vec<Key> = (0..12).map(|n| Key::new(format!("w{n}")).unwrap()).collect();
        let ring: Vec<Key> = in_ring(&keys).into_iter().cloned().collect();
        for at in 0..12 {
            // It, and the one before it.
            let dead = [&ring[at], &ring[(at + 11) % 12]];
            let live: BTreeSet<Key> = keys.iter().filter(|key| !dead.contains(key)).cloned().collect();
            let first =
                |dead: &Key| live.iter().filter(|me| is_first(me, &live)(dead)).collect::<BTreeSet<_>>();
            let before: BTreeSet<_> = (2..5).map(|far| &ring[(at + 12 - far) % 12]).collect();
            assert_eq!((first(dead[0]), first(dead[1])), (before.clone(), before));
        }
        let alone = BTreeSet::from([keys[0].clone()]);
        assert!(is_first(&keys[0], &alone)(&keys[1]));
    }

    /// Workers of two versions side by side would watch others than each other thinks.
    #[test]
    fn the_order_is_the_same_in_every_version() {
        let keys: Vec<Key> = (0..8).map(|n| Key::new(format!("fleet/f/worker/w{n}")).unwrap()).collect();
        let ring: Vec<&str> = in_ring(&keys).into_iter().map(|key| &key.as_str()[15..]).collect();
        assert_eq!(ring, ["w1", "w6", "w0", "w3", "w4", "w7", "w2", "w5"]);
    }
}
