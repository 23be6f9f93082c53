//! A lease as its holder has it.

use super::error::{LeaseError, LeaseKey};
use std::time::Duration;
use tenure_core::{Fence, InvalidInput, Now, StoreError, Tick, Wall};

/// Until when a holder may believe: by its own elapsed time *and* by its wall clock, whichever says so first.
///
/// Peers compare wall clocks, so one that was set forward ends the belief as it ends the lease for all others. One that was set
/// back prolongs nothing, because elapsed time counts as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Belief {
    elapsed: Tick,
    wall: Wall,
}

impl Belief {
    /// No belief at all.
    pub const NONE: Belief = Belief { elapsed: Tick(0), wall: Wall(0) };

    /// What follows from a request that was sent at `sent` and set this expiry.
    pub(crate) fn of(sent: Now, expires_at: i64, skew: Duration) -> Belief {
        let millis = u64::try_from(expires_at).unwrap_or(0).saturating_mul(1000);
        let wall = Wall(millis.saturating_sub(u64::try_from(skew.as_millis()).unwrap_or(u64::MAX)));
        match wall.since(sent.wall) {
            Duration::ZERO => Belief::NONE,
            left => Belief { elapsed: sent.held.after(left), wall },
        }
    }

    /// The sooner of both.
    pub(crate) fn and(self, other: Belief) -> Belief {
        Belief { elapsed: self.elapsed.min(other.elapsed), wall: self.wall.min(other.wall) }
    }

    /// How long it may still be believed, as of a reading of the holder's clocks.
    #[must_use]
    pub fn remaining(&self, now: Now) -> Duration {
        self.elapsed.since(now.held).min(self.wall.since(now.wall))
    }
}

/// What became of the last refresh, or release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refreshes {
    /// It is known.
    Settled,
    /// It is not, and may take effect at any time. The next refresh changes the token, to this one once it is drawn, so that what
    /// comes late finds another and has no effect.
    Open(Option<NextToken>),
}

/// The token that a lease has once a refresh with it takes effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NextToken {
    pub(crate) token: String,
    /// What all of the requests with it let one believe, from when each was sent: any of them may be the one that took effect.
    pub(crate) meant: Belief,
}

/// A lease: plain data, which asks for nothing and tells no time by itself. It comes from a
/// [`Manager`](super::Manager), which also refreshes and releases it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLease {
    pub(crate) key: LeaseKey,
    pub(crate) token: String,
    pub(crate) expires_at: i64,
    pub(crate) belief: Belief,
    pub(crate) refreshes: Refreshes,
}

impl HeldLease {
    /// A lease of which only this is known, from another process or an earlier start. It isn't held before it was refreshed, and
    /// whoever had it must have stopped by then.
    #[must_use]
    pub fn known_by(pk: impl Into<String>, sk: impl Into<String>, token: impl Into<String>) -> HeldLease {
        HeldLease {
            key: LeaseKey { pk: pk.into(), sk: sk.into() },
            token: token.into(),
            expires_at: 0,
            belief: Belief::NONE,
            // Whether one is under way elsewhere can't be known here.
            refreshes: Refreshes::Settled,
        }
    }

    /// The item's keys.
    #[must_use]
    pub fn key(&self) -> &LeaseKey {
        &self.key
    }

    /// The token, which names this tenure. It stays the same until a refresh or a release is lost on its way.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// When it ends, in Unix seconds, as far as that is known; zero once it has been lost or given back.
    #[must_use]
    pub fn expires_at(&self) -> i64 {
        self.expires_at
    }

    /// Whether it is held, as of a reading of the holder's clocks.
    #[must_use]
    pub fn is_held(&self, now: Now) -> bool {
        !self.remaining(now).is_zero()
    }

    /// How long it is still held, as of a reading of the holder's clocks, unless it is refreshed.
    #[must_use]
    pub fn remaining(&self, now: Now) -> Duration {
        self.belief.remaining(now)
    }

    /// Until when it is held, for whoever has to watch it while it is being refreshed elsewhere.
    #[must_use]
    pub fn belief(&self) -> Belief {
        self.belief
    }

    /// There are no fences: peers replace the item at each acquisition and delete it at each release, so that nothing is
    /// left from which a number could grow.
    ///
    /// # Errors
    /// Always `Unsupported`, with the way to have fences.
    pub fn fence(&self) -> Result<Fence, LeaseError> {
        Err(LeaseError::Store(StoreError::unsupported(format!(
            "{}: TableTheory's leases have no fences, because acquiring replaces the item and releasing deletes it; for \
             fences, use tenure's own layout (leave dialect=tabletheory out)",
            self.key
        ))))
    }

    /// The token that a refresh under way may have given it.
    pub(crate) fn next(&self) -> Option<&NextToken> {
        match &self.refreshes {
            Refreshes::Open(next) => next.as_ref(),
            Refreshes::Settled => None,
        }
    }

    /// Whether nothing is under way that may change its item.
    pub(crate) fn is_settled(&self) -> bool {
        self.refreshes == Refreshes::Settled
    }

    /// Something is about to be sent that asks by its present token. Whether nothing else was under way.
    pub(crate) fn unsettle(&mut self) -> bool {
        let was_settled = self.is_settled();
        if was_settled {
            self.refreshes = Refreshes::Open(None);
        }
        was_settled
    }

    /// A refresh is about to be sent, with that belief should it take effect. The token that it is to set; none if it leaves the present one.
    pub(crate) fn open(
        &mut self,
        meant: Belief,
        draw: impl Fn() -> Result<String, InvalidInput>,
    ) -> Result<Option<String>, InvalidInput> {
        let next = match &mut self.refreshes {
            Refreshes::Settled => {
                self.unsettle();
                None
            }
            Refreshes::Open(Some(next)) => {
                next.meant = next.meant.and(meant);
                Some(next.token.clone())
            }
            Refreshes::Open(next) => Some(next.insert(NextToken { token: draw()?, meant }).token.clone()),
        };
        // Until it is known, the item may say the one or the other.
        self.belief = self.belief.and(meant);
        Ok(next)
    }

    /// The last refresh is known to have changed nothing. Of those before it, no more is known than before.
    pub(crate) fn undo(&mut self, before: Belief, was_settled: bool) {
        self.belief = before;
        if was_settled {
            self.refreshes = Refreshes::Settled;
        }
    }

    /// A refresh is known to have taken effect, and nothing else can.
    pub(crate) fn settle(&mut self, expires_at: i64, belief: Belief) {
        if let Refreshes::Open(Some(next)) = std::mem::replace(&mut self.refreshes, Refreshes::Settled) {
            self.token = next.token;
        }
        (self.expires_at, self.belief) = (expires_at, belief);
    }

    /// It is over for its holder, whatever the item says.
    pub(crate) fn end(&mut self) {
        self.belief = Belief::NONE;
        self.expires_at = 0;
    }
}

#[cfg(test)]
mod tests {
    //! Plan: belief ends by the written expiry less the margin, by elapsed time and by the wall, whichever is first; of two the
    //! sooner counts; what has ended before it was sent, or lies in another age, is no belief.
    use super::*;

    const SKEW: Duration = Duration::from_millis(500);

    fn at(elapsed_ms: u64, wall_ms: u64) -> Now {
        let tick = Tick(elapsed_ms * 1_000_000);
        Now { held: tick, waited: Tick(0), wall: Wall(wall_ms) }
    }

    #[test]
    fn belief_ends_by_the_written_expiry() {
        // Asked for 10 s at 1000.9 s: written is 1010.
        let belief = Belief::of(at(77_000, 1_000_900), 1010, SKEW);
        let left = |elapsed, wall| belief.remaining(at(elapsed, wall)).as_millis();
        assert_eq!(left(77_000, 1_000_900), 8600);
        assert_eq!(left(85_599, 1_009_499), 1);
        assert_eq!(left(85_600, 1_009_500), 0);
        assert_eq!(left(85_599, 900_000), 1, "set back: elapsed time counts");
        assert_eq!(left(77_001, 1_009_499), 1, "set forward: the wall counts");
        assert_eq!(left(77_001, 1_009_500), 0);
    }

    #[test]
    fn of_two_the_sooner_counts() {
        let (short, long) = (Belief::of(at(0, 5000), 7, SKEW), Belief::of(at(1000, 6000), 20, SKEW));
        assert_eq!(short.and(long), short);
        assert_eq!(long.and(short), short);
    }

    #[test]
    fn there_is_none_in_what_is_over() {
        for expires_at in [-1, 0, 4, 5, i64::MIN] {
            assert_eq!(Belief::of(at(0, 5000), expires_at, SKEW), Belief::NONE, "{expires_at}");
        }
        assert_eq!(Belief::of(at(0, 5000), 5, Duration::ZERO), Belief::NONE);
        assert_eq!(Belief::of(at(0, 5000), 5, Duration::MAX), Belief::NONE);
        assert!(!Belief::of(at(0, 5000), i64::MAX, SKEW).remaining(at(9, 9)).is_zero());
        assert!(Belief::NONE.remaining(at(0, 0)).is_zero());
    }
}
