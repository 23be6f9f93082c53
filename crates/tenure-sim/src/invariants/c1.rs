//! C1, cost: holding costs O(processes), not O(leases): one renewal write a process per ttl/3, whatever it holds.
//!
//! Source: the promise C1. Leases that are attached are written when they are taken, changed and given up, and at no other time. Where
//! processes only try, the session is asked about what stands for long ever more seldom, however many tries there are.

use crate::kernel::clock::True;
use crate::leases::node::{LeaseStage, Node};
use std::collections::BTreeMap;
use tenure_core::Key;
use tenure_core::op::Write;

/// A process sends a write.
pub(crate) fn sent(node: &Node, keys: &[Key], write: &Write) -> Result<(), String> {
    let record = &write.record;
    if record.tenure.as_ref().is_none_or(|tenure| tenure.id == record.nonce) {
        return Ok(());
    }
    let idle = |view: &&crate::leases::node::LeaseView| {
        let held = matches!(view.stage, LeaseStage::Held(belief) if belief.fence == record.fence);
        view.is_attached && held && !view.updating && keys[view.key] == write.key
    };
    match node.own.views.iter().find(idle) {
        Some(view) => Err(format!("{} renews k{}, which is attached to its session", node.who, view.key)),
        None => Ok(()),
    }
}

/// How often sessions were asked about the claims that stand.
#[derive(Debug, Default)]
pub(crate) struct ClaimQuestions {
    /// For each key: since when its tenure stands, and how often its session was asked about it.
    asked: BTreeMap<usize, (True, u32)>,
}

impl ClaimQuestions {
    pub(crate) fn begins(&mut self, key: usize, t: True) {
        self.asked.insert(key, (t, 0));
    }

    /// Somebody asks. From two ttls on, once for each time that it has stood twice as long; two more, as those who ask at the
    /// same time don't know of each other.
    pub(crate) fn again(&mut self, key: usize, t: True, ttl: True) -> Result<(), String> {
        let (since, count) = self.asked.entry(key).or_insert((t, 0));
        *count += 1;
        let ttls = (t - *since) / ttl;
        let most = ttls.checked_ilog2().unwrap_or(0) + ttls.div_ceil(64) as u32 + 2;
        if *count <= most {
            return Ok(());
        }
        Err(format!("a session was asked about its claim of k{key} {count} times in {ttls} ttls"))
    }
}

/// How often a process asked the store about one key within about a ttl.
#[derive(Debug, Default, Clone)]
pub(crate) struct KeyRequests {
    began: True,
    asked: BTreeMap<Key, u32>,
    /// Of what the store refuses for good and no lease of the process is about: which process, since when, and how often.
    refused: (u32, True, u32),
}

/// So many requests about one key are allowed in a ttl, and as many for each lease of the process: it tries, looks again ever less
/// often where the store is in trouble, and follows hints. What goes on as fast as the store answers would send thousands.
const REQUESTS: u32 = 100;

impl KeyRequests {
    pub(crate) fn again(&mut self, key: &Key, t: True, ttl: True, leases: u32) -> Result<(), String> {
        if t >= self.began + ttl {
            self.began = t;
            self.asked.clear();
        }
        let count = self.asked.entry(key.clone()).or_insert(0);
        *count += 1;
        if *count <= REQUESTS * (leases + 1) {
            return Ok(());
        }
        Err(format!(
            "a process of {leases} leases has asked the store about {key} {count} times within a ttl"
        ))
    }

    /// Somebody asks the process about the key that the store refuses: it looks again, and begins anew.
    pub(crate) fn told_of_refused(&mut self, t: True) {
        (self.refused.1, self.refused.2) = (t, 0);
    }

    /// A process (by its life) asks about a key that the store refuses for good. If nobody there wants it, it does so ever more seldom: at
    /// first after half a ttl, then after twice as long each time, up to 32 ttls.
    pub(crate) fn refused(
        &mut self,
        (life, is_nobodys): (u32, bool),
        key: &Key,
        t: True,
        ttl: True,
    ) -> Result<(), String> {
        if self.refused.0 != life || !is_nobodys {
            self.refused = (life, t, 0);
            return Ok(());
        }
        self.refused.2 += 1;
        let (_, since, count) = self.refused;
        let ttls = (t - since) / ttl;
        if u64::from(count) <= 4 + 2 * u64::from((ttls + 1).ilog2()) + ttls / 16 {
            return Ok(());
        }
        Err(format!(
            "a process asked {count} times in {ttls} ttls about {key}, which it is refused and nobody there wants"
        ))
    }
}
