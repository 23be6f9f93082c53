//! What can be chosen about a candidate, checked before any I/O.

use std::time::Duration;
use tenure_core::{Drift, InvalidInput, Ttl};

/// What can be chosen about a [`Candidate`](crate::Candidate). The defaults are less's own, and all of a key's candidates should have
/// the same times, whichever program they are part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CandidateOptions {
    pub(crate) key: String,
    pub(crate) id: Option<String>,
    pub(crate) ttl: Duration,
    pub(crate) follow: Duration,
    pub(crate) hold: Duration,
    pub(crate) errors: u32,
    pub(crate) skew: Duration,
}

impl Default for CandidateOptions {
    fn default() -> Self {
        CandidateOptions {
            key: "default".to_owned(),
            id: None,
            ttl: Duration::from_secs(10),
            follow: Duration::from_secs(2),
            hold: Duration::from_secs(2),
            errors: 3,
            skew: Duration::from_millis(500),
        }
    }
}

impl CandidateOptions {
    /// The longest skew margin.
    pub const MAX_SKEW: Duration = Duration::from_secs(3600);

    /// All as less has it by default.
    #[must_use]
    pub fn new() -> Self {
        CandidateOptions::default()
    }

    /// What is led: `default`, unless said otherwise. For several keys, start several candidates on one storage.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Self {
        CandidateOptions { key: key.into(), ..self }
    }

    /// The candidate's id, which is the row's value while it leads: a new UUID, unless said otherwise. No two candidates may have the
    /// same, nor may one that is started anew have that of its predecessor.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        CandidateOptions { id: Some(id.into()), ..self }
    }

    /// How long a leader that has died still counts as one: 10 s, unless said otherwise.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        CandidateOptions { ttl, ..self }
    }

    /// How often a follower looks at the row: every 2 s, unless said otherwise.
    #[must_use]
    pub fn follow_every(self, follow: Duration) -> Self {
        CandidateOptions { follow, ..self }
    }

    /// How often a leader renews: every 2 s, unless said otherwise.
    #[must_use]
    pub fn hold_every(self, hold: Duration) -> Self {
        CandidateOptions { hold, ..self }
    }

    /// After how many failed renewals in a row a leader follows again: 3, unless said otherwise. Its deadline ends its leadership in
    /// any case.
    #[must_use]
    pub fn errors_to_fallback(self, errors: u32) -> Self {
        CandidateOptions { errors, ..self }
    }

    /// How far the clocks of those who use the table may be apart: 0.5 s, unless said otherwise. A leader believes that much less
    /// long, and a row is taken that much later.
    #[must_use]
    pub fn skew_margin(self, skew: Duration) -> Self {
        CandidateOptions { skew, ..self }
    }

    /// How long a leader believes after it sent the write that made it one.
    pub(crate) fn belief(&self) -> Duration {
        let span = self.ttl.saturating_sub(self.skew).as_millis();
        Drift::default().belief(Ttl::clamped(u64::try_from(span).unwrap_or(u64::MAX)))
    }

    /// Whether all fits together.
    ///
    /// # Errors
    /// Names the option and what to choose instead.
    pub fn check(&self) -> Result<(), InvalidInput> {
        let bad = |text: String| Err(InvalidInput::new(text));
        for (name, text) in [("key", Some(&self.key)), ("id", self.id.as_ref())] {
            let Some(text) = text else { continue };
            if text.is_empty() || text.len() > 512 || text.contains('\0') {
                return bad(format!(
                    "the {name} is 1 to 512 bytes of text without NUL; choose such a {name}"
                ));
            }
        }
        Ttl::new(self.ttl)?;
        if self.skew > Self::MAX_SKEW {
            return bad(format!("a skew margin of {:?} is over an hour; set the clocks instead", self.skew));
        }
        let least = Duration::from_millis(10);
        for (name, span) in [("follow rate", self.follow), ("hold rate", self.hold)] {
            if span < least {
                return bad(format!("a {name} of {span:?} is under {least:?}; choose a longer one"));
            }
        }
        if self.follow > self.ttl {
            let (follow, ttl) = (self.follow, self.ttl);
            return bad(format!(
                "a follow rate of {follow:?} is over the ttl of {ttl:?}; choose a shorter one"
            ));
        }
        if self.errors == 0 {
            return bad("the errors to fall back are at least 1".to_owned());
        }
        // Else a single late answer ends the leadership.
        if self.belief() < self.hold.saturating_mul(2) {
            return bad(format!(
                "with a ttl of {:?} and a skew margin of {:?}, a leader believes for {:?} after a renewal, so a hold rate of {:?} leaves \
                 no room for a second attempt; choose {:?} or a longer ttl",
                self.ttl,
                self.skew,
                self.belief(),
                self.hold,
                self.belief() / 3
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Plan: less's defaults are taken; each setting that can't work is refused, with its name and what to choose.
    use super::*;

    #[test]
    fn the_defaults_of_less_fit_together() {
        let options = CandidateOptions::new();
        assert_eq!(options.check(), Ok(()));
        assert_eq!((options.key.as_str(), options.ttl), ("default", Duration::from_secs(10)));
        assert!(options.belief() < Duration::from_secs(8) && options.belief() > Duration::from_secs(7));
    }

    #[test]
    fn what_can_not_work_is_refused_by_name() {
        let ms = Duration::from_millis;
        let refused = [
            (CandidateOptions::new().key(""), "key"),
            (CandidateOptions::new().key("a\0b"), "key"),
            (CandidateOptions::new().id("x".repeat(513)), "id"),
            (CandidateOptions::new().ttl(ms(5)), "ttl"),
            (CandidateOptions::new().skew_margin(Duration::from_secs(3601)), "skew margin"),
            (CandidateOptions::new().follow_every(ms(0)), "follow rate"),
            (CandidateOptions::new().follow_every(Duration::from_secs(11)), "follow rate"),
            (CandidateOptions::new().hold_every(ms(0)), "hold rate"),
            (CandidateOptions::new().hold_every(Duration::from_secs(5)), "hold rate"),
            (CandidateOptions::new().hold_every(Duration::MAX), "hold rate"),
            (CandidateOptions::new().ttl(ms(900)).follow_every(ms(100)), "skew margin"),
            (CandidateOptions::new().errors_to_fallback(0), "errors"),
        ];
        for (options, name) in refused {
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(name), "{error} does not name the {name}");
        }
    }
}
