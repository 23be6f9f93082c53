//! Disputes: a worker's session has a digest of its units at the last renewal, and the planner compares it with the units' records.
//! A worker with different units is told to list everything itself.
//!
//! A digest is a sum. It may or may not count the units that came to a worker or left it lately. Each choice of these leaves
//! another *remainder* between the digest and the records. If one remainder is nothing, all is well. Otherwise it is a dispute, once the same
//! remainder was there before the worker's last renewal. So units on the move hide no missed unit, and are not taken for missed.

use crate::bugs::Bug;
use crate::fleet::digest::Digest;
use crate::fleet::worker::env::FleetEnv;
use crate::fleet::worker::listed::{Owner, Peer};
use crate::fleet::worker::listing::Listing;
use crate::values::fence::Nonce;
use crate::values::key::Key;
use crate::values::time::{Now, Tick, Ttl};
use std::collections::{BTreeMap, BTreeSet};

/// Of so many units, which are on the move, all choices are made. Where there are more, nothing is concluded.
const CHOICES: usize = 10;

/// By session, what each worker has by the units' records.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Disputes(BTreeMap<Key, Account>);

/// What the planner remembers of one worker.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
struct Account {
    /// The shares of its units in its digest, when all was listed last.
    listed: BTreeSet<u64>,
    /// Of those that came or left lately.
    lately: BTreeMap<u64, Move>,
    /// The heartbeat of its session when these remainders were left.
    before: Option<(Nonce, BTreeSet<Digest>)>,
}

/// What may be known to a worker, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Move {
    came: bool,
    /// When it was first seen, and the heartbeat of the worker's session then.
    since: Tick,
    beat: Nonce,
}

/// Whether a digest agrees with the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Agrees,
    /// It may be that it will, with the next renewal.
    Open,
    /// It leaves this.
    Disputed(Digest),
}

impl Account {
    /// All was listed, and these are its units by their records.
    fn list(&mut self, now: Now, peer: &Peer, shares: BTreeSet<u64>, is_first: bool) {
        let (since, beat) = (now.held, peer.heartbeat);
        // Two renewals may have told of it: the first one brings a letter.
        let long = peer.ttl.part(12) * 5;
        self.lately.retain(|_, moved| moved.beat == beat || now.held.since(moved.since) < long);
        if !is_first {
            let came = shares.difference(&self.listed).map(|share| (*share, true));
            let left = self.listed.difference(&shares).map(|share| (*share, false));
            self.lately.extend(came.chain(left).map(|(share, came)| (share, Move { came, since, beat })));
        }
        self.listed = shares;
    }

    /// What its session says that it has.
    fn compare(&mut self, has: Digest, heartbeat: Nonce) -> Found {
        let listed = self.listed.iter().fold(Digest::default(), |sum, share| sum.with(*share));
        if has == listed {
            self.before = None;
            return Found::Agrees;
        }
        if self.lately.len() > CHOICES {
            return Found::Open;
        }
        let mut left = BTreeSet::from([has.less(listed)]);
        for (share, moved) in &self.lately {
            // It may lack what came, and have what left.
            let chosen: Vec<Digest> = left
                .iter()
                .map(|rest| if moved.came { rest.with(*share) } else { rest.without(*share) })
                .collect();
            left.extend(chosen);
        }
        let is_explained = left.contains(&Digest::default());
        let Some((beat, before)) = &self.before else {
            self.before = Some((heartbeat, left));
            return Found::Open;
        };
        if *beat == heartbeat {
            return Found::Open;
        }
        let same =
            left.intersection(before).min_by_key(|rest| rest.size()).copied().filter(|_| !is_explained);
        match same {
            Some(same) => Found::Disputed(same),
            None => {
                self.before = Some((heartbeat, left));
                Found::Open
            }
        }
    }
}

impl Disputes {
    /// Those who have something else than their units' records show, with a number that tells this dispute from others; and when to list all again for
    /// those of whom that is open.
    pub(super) fn settle(
        &mut self,
        now: Now,
        env: &FleetEnv,
        listing: &Listing,
    ) -> (Vec<(Key, u64)>, Option<Tick>) {
        if env.has_bug(Bug::ForeignTenureIgnored) {
            return (Vec::new(), None);
        }
        let mut shares: BTreeMap<&Key, BTreeSet<u64>> = BTreeMap::new();
        for (key, unit) in listing.units.iter() {
            if let (Owner::Worker(session), Some(held)) = (&unit.owner, unit.held) {
                shares.entry(session).or_default().insert(Digest::share(key, held.into()));
            }
        }
        let (mut before, mut disputed) = (std::mem::take(&mut self.0), Vec::new());
        let mut open: Option<Ttl> = None;
        for (session, peer) in listing.peers.iter().filter(|(session, _)| **session != env.me) {
            let account = before.remove(session);
            let is_first = account.is_none();
            let mut account = account.unwrap_or_default();
            account.list(now, peer, shares.remove(session).unwrap_or_default(), is_first);
            match peer.has.map(|has| account.compare(has, peer.heartbeat)) {
                None | Some(Found::Agrees) => {}
                Some(Found::Open) => open = Some(open.map_or(peer.ttl, |ttl| ttl.min(peer.ttl))),
                Some(Found::Disputed(rest)) => disputed.push((session.clone(), rest.token())),
            }
            self.0.insert(session.clone(), account);
        }
        // What was listed while it moved is as it should be once it has been told of by a renewal, which comes no sooner where ttls differ.
        (disputed, open.map(|ttl| now.held.after(env.part(2).max(ttl.part(2)))))
    }
}

#[cfg(test)]
mod tests;
