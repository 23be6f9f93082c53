//! What a cluster says of itself: its members, its alarms, how full it is, and whether its history is ever compacted. And a certificate of
//! one's own, which is read but once.

use crate::connect::MemberChannels;
use crate::error::Call;
use crate::pair;
use crate::wire::{
    AlarmMember, AlarmRequest, AlarmResponse, AlarmType, MemberListRequest, MemberListResponse, RangeRequest,
    RangeResponse, StatusRequest, StatusResponse, path,
};
use std::collections::BTreeSet;
use tenure_core::StoreError;
use tenure_store::parts::end_of_prefix;
use tenure_store::{Bearing, Inspection};

/// The quota of a cluster whose settings name none.
const QUOTA: i64 = 2 << 30;
/// So many revisions in a history that was never compacted: an hour of a hundred writes a second has more.
const LONG_HISTORY: i64 = 100_000;

/// Asks the cluster, and each member that the URL names by itself. Nothing is changed.
pub(crate) async fn inspect(channels: &MemberChannels, prefix: &str) -> Inspection {
    let mut found = Inspection::default();
    if let Some(file) = &channels.certificate {
        let text = format!(
            "{} and its key are read when the store is opened: restart processes once it is renewed, before the old one ends, or all of \
             their connections that are made anew are refused",
            file.display()
        );
        found.note("certificate", text);
    }
    let size = add_states(channels, &mut found).await;
    let parts = [
        ("members", add_members(channels, &mut found).await),
        ("alarms", add_alarms(channels, size, &mut found).await),
        ("history", add_history(channels, prefix, &mut found).await),
    ];
    for (about, asked) in parts {
        if let Err(error) = asked {
            found.note(about, format!("can't be told: {error}"));
        }
    }
    found
}

/// Each member's own state. Returns the size of the largest database, and the quota where a member tells it.
async fn add_states(channels: &MemberChannels, found: &mut Inspection) -> Option<(i64, Option<i64>)> {
    let states = channels.ask_each::<_, StatusResponse>(path::STATUS, StatusRequest {}).await;
    let (mut versions, mut clusters, mut size) = (BTreeSet::new(), BTreeSet::new(), None);
    for (endpoint, state) in states {
        let state = match state {
            Ok(state) => state,
            Err(error) if error.is_passing() => {
                found.hazard("members", format!("{endpoint} does not answer as it should: {error}"));
                continue;
            }
            Err(error) => {
                found.note("members", format!("the state of {endpoint} is not told to this user: {error}"));
                continue;
            }
        };
        clusters.extend(state.header.map(|header| header.cluster_id).filter(|cluster| *cluster != 0));
        if state.leader == 0 {
            found.hazard("members", format!("{endpoint} sees no leader: a majority must reach each other"));
        }
        if state.is_learner {
            found.hazard("members", format!("{endpoint} is a learner, which serves no clients; name voters"));
        }
        let quota = (state.db_size_quota > 0).then_some(state.db_size_quota);
        size = size.max(Some((state.db_size, quota)));
        versions.insert(state.version);
    }
    if clusters.len() > 1 {
        found.hazard(
            "members",
            "they are of several clusters, and each process uses the first that answers it: two may hold a lease; name members of one",
        );
    }
    if !versions.is_empty() {
        let versions = versions.into_iter().collect::<Vec<_>>().join(", ");
        found.fine("server", format!("etcd {versions}"));
    }
    size
}

async fn add_members(channels: &MemberChannels, found: &mut Inspection) -> Result<(), StoreError> {
    let answer: MemberListResponse = channels.ask(Call::Read, path::MEMBERS, MemberListRequest {}).await?;
    let voters = answer.members.iter().filter(|member| !member.is_learner).count();
    match voters {
        0 | 1 => found.hazard(
            "members",
            "one member only: while it is down nothing can be acquired or renewed, and its disk is the only copy",
        ),
        2 => found.hazard("members", "two members: both must be up; three bear the loss of one"),
        _ => found.fine("members", format!("{voters}, of which {} may be down", (voters - 1) / 2)),
    }
    let named = channels.endpoints.len();
    if named < voters {
        found
            .note("members", format!("the URL names {named} of {voters}; name all, so that any may be down"));
    }
    Ok(())
}

/// What stops it, and what will.
async fn add_alarms(
    channels: &MemberChannels,
    size: Option<(i64, Option<i64>)>,
    found: &mut Inspection,
) -> Result<(), StoreError> {
    let answer: AlarmResponse = channels.ask(Call::Read, path::ALARM, AlarmRequest::default()).await?;
    tell_alarms(&answer.alarms, found);
    if let Some((size, quota)) = size {
        let (bearing, text) = fullness(size, quota);
        found.add(bearing, "space", text);
    }
    Ok(())
}

fn tell_alarms(all: &[AlarmMember], found: &mut Inspection) {
    // One of no kind is none.
    let raised = || all.iter().filter(|alarm| alarm.alarm != AlarmType::None as i32);
    for alarm in raised() {
        let member = format!("member {:x}", alarm.member_id);
        let text = match AlarmType::try_from(alarm.alarm) {
            Ok(AlarmType::Nospace) => format!(
                "NOSPACE of {member}: it takes no writes; compact and defragment it, then `etcdctl alarm disarm`"
            ),
            Ok(AlarmType::Corrupt) => {
                format!(
                    "CORRUPT of {member}: its data differ from the others', and the cluster takes no writes; replace it by a new member, then \
                     `etcdctl alarm disarm`"
                )
            }
            _ => format!(
                "{member} has raised one that this program does not know ({}); see `etcdctl alarm list`",
                alarm.alarm
            ),
        };
        found.hazard("alarms", text);
    }
    if raised().next().is_none() {
        found.fine("alarms", "none");
    }
}

/// How near the database is to the size at which the cluster stops taking writes.
fn fullness(size: i64, told: Option<i64>) -> (Bearing, String) {
    let quota = told.unwrap_or(QUOTA).max(1);
    let share = size.saturating_mul(100) / quota;
    let whose = if told.is_some() { "" } else { ", unless --quota-backend-bytes says otherwise" };
    let text = format!("{} MiB, {share} % of its quota{whose}", size >> 20);
    if share < 80 {
        return (Bearing::Fine, text);
    }
    (
        Bearing::Hazard,
        format!(
            "{text}; once that is full it takes no writes: compact and defragment it, or raise the quota"
        ),
    )
}

/// Whether the revisions that leases leave behind are ever dropped.
async fn add_history(
    channels: &MemberChannels,
    prefix: &str,
    found: &mut Inspection,
) -> Result<(), StoreError> {
    let key = pair::below(prefix, "");
    let range_end = end_of_prefix(&key).unwrap_or_default();
    let latest = RangeRequest { key, range_end, limit: 1, keys_only: true, ..RangeRequest::default() };
    let first = RangeRequest { revision: 1, ..latest.clone() };
    let answer: RangeResponse = channels.ask(Call::Read, path::RANGE, latest).await?;
    let revision = answer.header.map_or(0, |header| header.revision);
    let is_whole = match channels.ask::<_, RangeResponse>(Call::Read, path::RANGE, first).await {
        Ok(_) => true,
        Err(error) if error.to_string().contains("compacted") => false,
        Err(error) => return Err(error),
    };
    let (bearing, text) = history(revision, is_whole);
    found.add(bearing, "history", text);
    Ok(())
}

fn history(revision: i64, is_whole: bool) -> (Bearing, String) {
    if !is_whole {
        return (Bearing::Fine, format!("it is compacted; {revision} revisions so far"));
    }
    let text = format!("it was never compacted in {revision} revisions");
    if revision <= LONG_HISTORY {
        return (
            Bearing::Note,
            format!("{text}; see that --auto-compaction-retention is set, as each write adds one"),
        );
    }
    (Bearing::Hazard, format!("{text}: it grows until it is full; set --auto-compaction-retention=1h"))
}

#[cfg(test)]
mod tests {
    //! Plan: each kind of alarm is a hazard that names the member and the remedy; when a database counts as nearly full, with a quota that is told and without; when a history counts as never compacted.
    use super::*;

    /// A corrupt member can't be had by asking for it, so this is what one would be told by.
    #[test]
    fn each_alarm_is_a_hazard_and_names_the_member_and_the_remedy() {
        let told = |kinds: &[i32]| {
            let alarms: Vec<AlarmMember> =
                kinds.iter().map(|&alarm| AlarmMember { member_id: 0x8e9e_05c5_2164_694d, alarm }).collect();
            let mut found = Inspection::default();
            tell_alarms(&alarms, &mut found);
            found.facts
        };
        let [corrupt, full, other] = &told(&[2, 1, 7])[..] else { panic!("one finding each") };
        let both = [
            (corrupt, "CORRUPT of member 8e9e05c52164694d: ", "replace it by a new member"),
            (full, "NOSPACE of member 8e9e05c52164694d: ", "defragment"),
        ];
        for (finding, begins, remedy) in both.into_iter().chain([(other, "member 8e9e05c52164694d ", "(7)")])
        {
            assert_eq!((finding.bearing, finding.about), (Bearing::Hazard, "alarms"));
            assert!(finding.text.starts_with(begins) && finding.text.contains(remedy), "{finding:?}");
        }
        for none in [&[][..], &[0]] {
            let found = told(none);
            assert!(found.len() == 1 && found[0].bearing == Bearing::Fine, "{found:?}");
        }
    }

    #[test]
    fn a_database_is_nearly_full_from_four_fifths_of_its_quota_on() {
        assert_eq!(fullness(100, Some(1000)).0, Bearing::Fine);
        assert_eq!(fullness(799, Some(1000)).0, Bearing::Fine);
        let (bearing, text) = fullness(800, Some(1000));
        assert!(bearing == Bearing::Hazard && text.contains("80 % of its quota;"), "{text}");
        assert_eq!(fullness(1 << 30, None).0, Bearing::Fine);
        let (bearing, text) = fullness(2 << 30, None);
        assert!(bearing == Bearing::Hazard && text.contains("unless --quota-backend-bytes"), "{text}");
    }

    #[test]
    fn a_long_history_that_is_whole_was_never_compacted() {
        assert_eq!(history(5, true).0, Bearing::Note);
        assert_eq!(history(LONG_HISTORY + 1, true).0, Bearing::Hazard);
        assert_eq!(history(LONG_HISTORY + 1, false).0, Bearing::Fine);
    }
}
