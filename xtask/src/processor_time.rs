//! The processor time that children of this process have taken.

use std::time::Duration;

/// The processor time of all children that have ended, as Linux tells it, in hundredths of a second.
pub(crate) fn of_children() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is a name in brackets, in which anything may be; after it come the third and the others.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Duration::from_millis((user + system) * 10))
}

/// What they have taken since that was `before`.
pub(crate) fn of_children_since(before: Option<Duration>) -> Option<Duration> {
    of_children().zip(before).map(|(after, before)| after.saturating_sub(before))
}
