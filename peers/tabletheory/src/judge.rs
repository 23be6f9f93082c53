//! The rules: when a lease ends, and what an answer means. Nothing here does I/O or reads a clock.

use super::item::ItemLease;
use std::time::Duration;
use tenure_core::Wall;

/// Whole Unix seconds, as conditions compare them.
pub(crate) fn seconds(now: Wall) -> i64 {
    i64::try_from(now.0 / 1000).unwrap_or(i64::MAX)
}

/// When a lease of `duration` from `now` ends: cut to whole seconds.
pub(crate) fn expiry(now: Wall, duration: Duration) -> i64 {
    let millis = u128::from(now.0) + duration.as_millis();
    i64::try_from(millis / 1000).unwrap_or(i64::MAX)
}

/// What is found of a lease that one wants to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    /// It is the one that was asked for.
    Mine,
    /// Another holds it until then.
    Held(i64),
    /// Nobody does.
    Free,
}

/// Whoever asked by `token` at the second `now` finds this.
pub(crate) fn wanted(standing: Option<&ItemLease>, token: &str, now: i64) -> Availability {
    match standing {
        Some(standing) if standing.token == token => Availability::Mine,
        Some(standing) if standing.expires_at > now => Availability::Held(standing.expires_at),
        Some(_) | None => Availability::Free,
    }
}

/// What is found of a lease that one has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Still {
    /// It is still ours, until then.
    Ours(i64),
    /// It has the next token already, and is ours until then.
    Moved(i64),
    /// It is over, or another's.
    Gone,
}

/// Whoever has `token`, and may have changed it to `next`, finds this at the second `now`.
pub(crate) fn still(standing: Option<&ItemLease>, token: &str, next: Option<&str>, now: i64) -> Still {
    match standing {
        Some(ItemLease { expires_at, .. }) if *expires_at <= now => Still::Gone,
        Some(standing) if standing.token == token => Still::Ours(standing.expires_at),
        Some(standing) if Some(&*standing.token) == next => Still::Moved(standing.expires_at),
        Some(_) | None => Still::Gone,
    }
}

#[cfg(test)]
mod tests {
    //! Plan: rounding at the edges of seconds; what is found, at and around the second of the expiry.
    use super::*;

    #[test]
    fn times_are_cut_to_seconds() {
        for (now, millis, end) in
            [(999, 0, 0), (999, 1, 1), (1000, 1999, 2), (1500, 10_000, 11), (1999, 1, 2)]
        {
            assert_eq!(expiry(Wall(now), Duration::from_millis(millis)), end, "{now} + {millis}");
        }
        assert_eq!((seconds(Wall(999)), seconds(Wall(1000))), (0, 1));
        assert_eq!(expiry(Wall(u64::MAX), Duration::MAX), i64::MAX);
        assert_eq!(seconds(Wall(u64::MAX)), 18_446_744_073_709_551);
    }

    #[test]
    fn what_is_wanted_is_free_from_the_second_of_its_end() {
        let standing = ItemLease { token: "a".into(), expires_at: 10 };
        assert_eq!(wanted(None, "b", 9), Availability::Free);
        assert_eq!(wanted(Some(&standing), "b", 9), Availability::Held(10));
        assert_eq!(wanted(Some(&standing), "b", 10), Availability::Free);
        assert_eq!(wanted(Some(&standing), "a", 9), Availability::Mine);
        assert_eq!(wanted(Some(&standing), "a", 10), Availability::Mine, "nobody else has taken it");
    }

    #[test]
    fn what_is_kept_is_gone_from_the_second_of_its_end() {
        let standing = ItemLease { token: "a".into(), expires_at: 10 };
        assert_eq!(still(Some(&standing), "a", None, 9), Still::Ours(10));
        assert_eq!(still(Some(&standing), "a", None, 10), Still::Gone);
        assert_eq!(still(Some(&standing), "b", Some("a"), 9), Still::Moved(10));
        assert_eq!(still(Some(&standing), "b", Some("a"), 10), Still::Gone);
        assert_eq!(still(Some(&standing), "b", Some("c"), 9), Still::Gone);
        assert_eq!(still(None, "a", None, 9), Still::Gone);
    }
}
