//! A process of TableTheory's Go implementation: one lease, which it believes in until it is told otherwise.

use super::super::{BUFFER, PATIENCE, seconds_of};
use super::{ManagersEvent, ManagersWorld};
use crate::item::{self, ItemLease};
use crate::options::Names;
use crate::request::RequestExpressions;
use tenure_dynamodb::service::{number, text};

pub(super) struct GoPeer {
    /// How far its wall clock is ahead, in milliseconds.
    pub(super) ahead: u64,
    token: Option<String>,
    pub(super) call: u64,
}

/// A request of a peer's: it knows the second before it is sent.
#[derive(Debug, Clone)]
pub(super) enum PeerCall {
    Acquire { token: String, expires_at: i64, now: i64 },
    Refresh { token: String, expires_at: i64, now: i64 },
    Release { token: String },
}

impl GoPeer {
    pub(super) fn new(ahead: u64) -> GoPeer {
        GoPeer { ahead, token: None, call: 0 }
    }
}

impl ManagersWorld {
    pub(super) fn peer_wakes(&mut self, n: usize) {
        let now = seconds_of(self.at + self.peers[n].ahead);
        let expires_at = now + 2 + i64::try_from(self.rng.below(8)).unwrap();
        let give_up = self.rng.one_in(4) || !self.is_rough();
        let call = match self.peers[n].token.clone() {
            None => PeerCall::Acquire { token: self.draw(), expires_at, now },
            Some(token) if give_up => PeerCall::Release { token },
            Some(token) => PeerCall::Refresh { token, expires_at, now },
        };
        self.peers[n].call += 1;
        let number = self.peers[n].call;
        if !self.is_lost() {
            let there = self.flight();
            self.push(there, ManagersEvent::PeerLands(n, number, call.clone()));
        }
        self.push(PATIENCE, ManagersEvent::PeerHears(n, number, call, None));
    }

    pub(super) fn peer_lands(&mut self, n: usize, number_: u64, call: PeerCall) {
        let names = Names::default();
        let asked = |condition: &str, token: &str, now: i64| {
            RequestExpressions::new(
                condition,
                &[
                    ("#pk", &names.partition_key),
                    ("#lease_token", &names.token),
                    ("#lease_expires_at", &names.expires_at),
                    ("#ttl", &names.ttl),
                ],
                [(":token", text(token)), (":now", number(now))],
            )
        };
        let took_effect = match &call {
            PeerCall::Acquire { token, expires_at, now } => {
                let asked = asked("attribute_not_exists(#pk) OR #lease_expires_at <= :now", token, *now);
                let holds = self.table.holds(&asked);
                if holds {
                    let standing = ItemLease { token: token.clone(), expires_at: *expires_at };
                    self.table.0 = Some(item::written(&names, "job", "LOCK", &standing, Some(BUFFER)));
                }
                holds
            }
            PeerCall::Refresh { token, expires_at, now } => {
                let mut asked = asked("#lease_token = :token AND #lease_expires_at > :now", token, *now);
                let holds = self.table.holds(&asked);
                if holds {
                    asked.values.insert(":exp".into(), number(*expires_at));
                    asked.values.insert(":ttl".into(), number(expires_at.saturating_add_unsigned(BUFFER)));
                    asked.update = Some("SET #lease_expires_at = :exp, #ttl = :ttl".to_owned());
                    self.table.update(&asked);
                }
                holds
            }
            PeerCall::Release { token } => {
                let holds = self.table.holds(&asked("#lease_token = :token", token, 0));
                if holds {
                    self.table.0 = None;
                }
                holds
            }
        };
        if !self.is_lost() {
            let back = self.flight();
            self.push(back, ManagersEvent::PeerHears(n, number_, call, Some(took_effect)));
        }
    }

    pub(super) fn peer_hears(&mut self, n: usize, call: &PeerCall, took_effect: Option<bool>) {
        let peer = &mut self.peers[n];
        peer.call += 1;
        match (call, took_effect) {
            (PeerCall::Acquire { token, .. }, Some(true)) => {
                peer.token = Some(token.clone());
                self.counts.by_peers += 1;
            }
            (PeerCall::Refresh { .. }, Some(false)) | (PeerCall::Release { .. }, _) => peer.token = None,
            _ => {}
        }
        let next = 1 + self.rng.below(6_000);
        self.push(next, ManagersEvent::PeerWakes(n));
    }
}
