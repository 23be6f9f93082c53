//! `doctor` on less's table: whether it is there, what may be done with it, and how far its clock is from this host's.

use super::findings::{Findings, Grade, OPEN, UNBOUND};
use crate::exit::Failure;
use crate::stores::less::LessLocation;
use crate::text::brief;
use std::sync::Arc;
use std::time::Duration;
use tenure::{Clock, ErrorKind};
use tenure_less::Micros;

/// What no check can make better.
pub(super) const LIMITS: [&str; 4] = [
    "less's candidates compare deadlines with their own wall clocks, renew whatever row is there, and believe until they hear otherwise: \
     among them, and between them and ours, two may lead for a while. Ours never do among each other while clock rates stay within 10 %, \
     and while the server loses no row: after a failover to a standby that lags, two may lead until the old primary is shut out.",
    "less's table has no fences. What a deposed leader must never write needs tenure's own layout.",
    UNBOUND,
    OPEN,
];

/// What less elects for, unless it is told otherwise.
const USUAL_KEY: &str = "default";
/// What nobody elects for.
const NO_KEY: &str = "";

/// Looks at the table; makes it before, if that is wanted.
pub(super) async fn examine(
    place: &LessLocation,
    create: bool,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let clock: Arc<dyn Clock> = tenure::clock::system();
    if create {
        place.migrate().await?;
    }
    findings.add_commands();
    let storage = place.open(Arc::clone(&clock)).await?;
    add_rights(&place.lacking().await?, place.is_read_only().await?, findings);
    let mut sent = clock.now();
    let (seen, damaged) = match storage.look(USUAL_KEY).await {
        Err(error) if error.kind() == ErrorKind::Foreign => {
            // One row is damaged. The table's clock can be read all the same.
            sent = clock.now();
            (storage.look(NO_KEY).await?, Some(error.to_string()))
        }
        seen => (seen?, None),
    };
    let took = clock.now().held.since(sent.held);
    findings.add(Grade::Ok, "table", format!("it is there, and was read in {}", brief(took)));
    findings.damaged(damaged.as_slice());
    let here = Micros(i64::try_from(sent.wall.0.saturating_mul(1000)).unwrap_or(i64::MAX));
    add_clock(here, seen.now, took, place.skew(), findings);
    Ok(())
}

/// How far this host's clock, which showed `here` when the other was asked, is from that, which showed `there` no more than `took` later.
/// Ours don't go by it; less's candidates on this host do, when they write and when they compare.
fn add_clock(here: Micros, there: Micros, took: Duration, skew: Duration, findings: &mut Findings) {
    let (ahead, behind) = (here.since(there), there.since(here.after(took)));
    let off = ahead.max(behind);
    if off > skew {
        let side = if ahead > behind { "ahead of" } else { "behind" };
        let (off, skew) = (brief(off), brief(skew));
        let text = format!(
            "this host's is {off} {side} the server's or more, where {skew} are allowed (skew_ms): less's candidates on this host write and \
             compare deadlines by it, so that two may lead; set the clock"
        );
        return findings.add(Grade::Warn, "clock", text);
    }
    let text =
        format!("this host's is at most {} from the one that ours write deadlines by", brief(off + took));
    findings.add(Grade::Ok, "clock", text);
}

fn add_rights(lacking: &[String], is_read_only: bool, findings: &mut Findings) {
    const ABOUT: &str = "rights";
    if is_read_only {
        findings.add(
            Grade::Warn,
            "server",
            "it is read-only: a standby, or transactions are so for this role (default_transaction_read_only); no candidate can lead: name the primary",
        );
    }
    match lacking {
        [] if is_read_only => {}
        [] => findings.add(Grade::Ok, ABOUT, "all that a candidate needs"),
        [one] if one == "DELETE" => findings.add(
            Grade::Warn,
            ABOUT,
            "it lacks DELETE on less.record, which less itself does not need: a candidate that stops can't give its row back, and the next leader waits \
             until that is dead; grant it",
        ),
        _ => {
            let text = format!("it lacks {} on less.record: no candidate can lead; grant them", lacking.join(", "));
            findings.add(Grade::Warn, ABOUT, text);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what keeps candidates from leading is told, and only where nothing does are they said to have all that they need; a clock
    //! that is off by more than the margin is told, to either side, and not what the time of the request explains.
    use super::*;

    #[test]
    fn a_clock_that_is_off_by_more_than_the_margin_is_told() {
        let at = |ms: i64| Micros(1_795_330_800_000_000 + ms * 1000);
        let ms = Duration::from_millis;
        for (there, says) in [
            (0, "at most 100ms"),
            (600, "at most 600ms"),
            (-500, "at most 600ms"),
            (-501, "501ms ahead of"),
            (601, "501ms behind"),
            (-3_600_000, "60m ahead of the server's or more, where 500ms are allowed"),
        ] {
            let mut findings = Findings::default();
            add_clock(at(0), at(there), ms(100), ms(500), &mut findings);
            let told = findings.told();
            assert!(told[0].1.contains(says), "{there}: {told:?}");
            assert_eq!(told[0].0 == Grade::Ok, says.starts_with("at most"), "{there}: {told:?}");
        }
    }

    #[test]
    fn what_keeps_candidates_from_leading_is_told() {
        let all = ["SELECT", "INSERT", "UPDATE", "DELETE"];
        for (lacking, is_read_only, says) in [
            (&[][..], false, &["all that a candidate needs"][..]),
            (&[], true, &["name the primary"]),
            (&["DELETE"], false, &["grant it"]),
            (&["DELETE"], true, &["name the primary", "grant it"]),
            (&all, true, &["name the primary", "SELECT, INSERT, UPDATE, DELETE on less.record"]),
        ] {
            let lacking: Vec<String> = lacking.iter().map(ToString::to_string).collect();
            let mut findings = Findings::default();
            add_rights(&lacking, is_read_only, &mut findings);
            let told = findings.told();
            assert_eq!(told.len(), says.len(), "{told:?}");
            for ((grade, text), says) in told.iter().zip(says) {
                assert!(text.contains(says), "{text}");
                assert_eq!(*grade == Grade::Ok, says.starts_with("all"), "{text}");
            }
        }
    }
}
