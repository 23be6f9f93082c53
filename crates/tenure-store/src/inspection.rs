//! What a store's server says of itself, as far as leases depend on it: for `tenure doctor`, and for people.

use std::time::Duration;
use tenure_core::{Wall, harmless};

/// How a fact bears on leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Bearing {
    /// As it should be.
    Fine,
    /// Worth knowing, and no danger.
    Note,
    /// Leases can be lost by it, or can't be had.
    Hazard,
}

/// One thing that a server says of itself, or that it does not tell.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Fact {
    /// How it bears on leases.
    pub bearing: Bearing,
    /// What it is about, in a word or two.
    pub about: &'static str,
    /// A sentence for people, with the remedy where there is one. Nothing secret is in it, and nothing that steers a terminal.
    pub text: String,
}

/// What a server's own clock showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ServerClock {
    /// At some time while it was asked.
    pub wall: Wall,
    /// The clock may have been this much further on: a second where it is told in whole seconds.
    pub resolution: Duration,
}

impl ServerClock {
    /// One that showed this, and may have been so much further on.
    #[must_use]
    pub fn new(wall: Wall, resolution: Duration) -> ServerClock {
        ServerClock { wall, resolution }
    }
}

/// All that a store's server says of itself. What this user may not see is among the facts, as a note.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Inspection {
    /// What was found, in the order in which it was asked.
    pub facts: Vec<Fact>,
    /// The server's clock, where it has one that it tells. Nothing depends on it.
    pub clock: Option<ServerClock>,
}

impl Inspection {
    /// Adds what is as it should be.
    pub fn fine(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Bearing::Fine, about, text);
    }

    /// Adds what is worth knowing.
    pub fn note(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Bearing::Note, about, text);
    }

    /// Adds what leases can be lost by.
    pub fn hazard(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Bearing::Hazard, about, text);
    }

    /// Adds a fact. What would steer a terminal is escaped in its text: servers' own words stand in it.
    pub fn add(&mut self, bearing: Bearing, about: &'static str, text: impl Into<String>) {
        self.facts.push(Fact { bearing, about, text: harmless(&text.into()).into_owned() });
    }

    /// The sentences of all hazards.
    pub fn hazards(&self) -> impl Iterator<Item = &str> {
        self.facts.iter().filter(|fact| fact.bearing == Bearing::Hazard).map(|fact| &*fact.text)
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a server's words are in facts of each kind.
    use super::*;

    #[test]
    fn a_server_s_words_in_a_fact_do_not_steer_a_terminal() {
        let said = "7\u{1b}]0;pwn\u{7}\n\u{9b}2J\u{202e}";
        let mut found = Inspection::default();
        found.fine("server", said);
        found.note("server", said);
        found.hazard("server", said);
        for fact in &found.facts {
            assert_eq!(fact.text, "7\\u{1b}]0;pwn\\u{7}\\n\\u{9b}2J\\u{202e}", "{:?}", fact.bearing);
        }
    }
}
