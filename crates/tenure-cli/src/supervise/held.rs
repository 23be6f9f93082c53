//! `TENURE_HELD`: all leases under which a command runs, also those of commands around it. Each is a line of fence and key, as in `TENURE_FENCES`.
//!
//! Whatever inherits the environment has it, also what is not waited for any more: it tells who may wait for itself, and never who must.

use super::lease::Lease;
use tenure::{Fence, Key};

pub(super) const HELD: &str = "TENURE_HELD";

/// What a command is told that runs under this lease; none where the layout has no fences.
pub(super) fn with(lease: &(impl Lease + ?Sized)) -> Option<String> {
    let own = match (lease.fences(), lease.fence()) {
        (Some(fences), _) => fences,
        (None, Some(fence)) => line(fence, lease.key()),
        (None, None) => return None,
    };
    joined(&inherited(), &own)
}

/// The lines of both, but for the oldest where that would be much: the system starts no command with a variable of 128 KiB. None where our own
/// are too many.
fn joined(inherited: &str, own: &str) -> Option<String> {
    const MOST: usize = 32 << 10;
    let room = MOST.checked_sub(own.len())?;
    let mut kept = inherited;
    while kept.len() > room {
        kept = kept.split_once('\n').map_or("", |(_, later)| later);
    }
    Some(format!("{kept}{own}"))
}

/// Whether this process was started under that tenure of the key, as far as its environment tells.
pub(crate) fn is_ours(key: &Key, fence: Fence) -> bool {
    has(&inherited(), key, fence)
}

/// Whether this process was started under a lease of one of these keys, as far as its environment tells.
pub(crate) fn has_one_below(prefix: &str) -> bool {
    inherited().lines().any(|line| line.split_once(' ').is_some_and(|(_, key)| key.starts_with(prefix)))
}

fn inherited() -> String {
    std::env::var(HELD).unwrap_or_default()
}

fn has(held: &str, key: &Key, fence: Fence) -> bool {
    let sought = line(fence, key.as_str());
    held.split_inclusive('\n').any(|line| line == sought)
}

fn line(fence: Fence, key: &str) -> String {
    format!("{fence} {key}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_started_within_any_number_of_others() {
        let lines = |count: usize| (0..count).map(|n| format!("{n} key ü {n}\n")).collect::<String>();
        assert_eq!(joined(&lines(3), "7 k\n"), Some(lines(3) + "7 k\n"));
        assert_eq!(joined("", "7 k\n"), Some("7 k\n".to_owned()));
        let many = joined(&lines(20_000), "7 k\n").unwrap();
        assert!(many.len() <= 32 << 10 && many.len() > 31 << 10, "{}", many.len());
        assert!(lines(20_000).ends_with(many.strip_suffix("7 k\n").unwrap()));
        assert!(many.lines().all(|line| line == "7 k" || line.contains(" key ü ")), "whole lines");
        assert_eq!(joined("7 k\n", &lines(20_000)), None);
    }

    #[test]
    fn a_lease_is_known_by_its_fence_and_all_of_its_key() {
        let key = |key: &str| Key::new(key).unwrap();
        let held = "7 a b\n8 c\n";
        assert!(has(held, &key("a b"), Fence(7)) && has(held, &key("c"), Fence(8)));
        for (name, fence) in [("a b", 8), ("a", 7), ("c", 18), ("b", 7)] {
            assert!(!has(held, &key(name), Fence(fence)), "{name} {fence}");
        }
        assert!(!has("", &key("c"), Fence(8)));
    }
}
