//! What the store can do as it is opened, and what follows from that.

use super::findings::{Findings, Grade};
use crate::text::brief;
use tenure::store::{Capabilities, Expiry};

pub(super) fn check(can: &Capabilities, findings: &mut Findings) {
    match can.expiry {
        Expiry::AttestedAge => {
            findings.add(Grade::Ok, "takeover", "at first sight: the store tells the age of records");
            // Where any ttl is long enough, there is nothing to choose.
            if let Some(least) = can.least_ttl_of_small_looks().filter(|least| *least > can.least_ttl) {
                let text = format!(
                    "a ttl of {} or more suits fleets: with a shorter one, workers that die together with their planner and those who \
                     stand by it are noticed a ttl later, as ages fall short by up to {}",
                    brief(least),
                    brief(can.age_error)
                );
                findings.add(Grade::Ok, "fleets' ttl", text);
            }
        }
        Expiry::ObservedSilence => {
            findings.add(
                Grade::Note,
                "takeover",
                "slower: the store can't tell the age of records here, so silence is observed for a full ttl",
            );
            findings.add(
                Grade::Note,
                "gc",
                "slower: `tenure gc` watches all records for as long as --older-than says, by default for a day",
            );
        }
        other => findings.add(Grade::Note, "takeover", format!("{other:?}")),
    }
    if can.watch {
        findings.add(Grade::Ok, "wake-ups", "waiters are woken when a lease is released");
    } else {
        findings.add(Grade::Note, "wake-ups", "none: waiters look once in a while");
    }
    findings.can(can.rows());
}
