//! The one room that reads clocks and draws randomness.
//!
//! `std::time::Instant` is CLOCK_MONOTONIC on Linux, which stops while the machine is suspended. A holder must count that
//! time, so its clock is CLOCK_BOOTTIME; a waiter must not, so its clock is CLOCK_MONOTONIC.
#![allow(clippy::disallowed_methods, reason = "this is the room that the ban points to")]

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tenure_core::time::millis;
use tenure_core::{Clock, HolderId, InvalidInput, Wall};

pub use tenure_core::{Host, Now, Tick};

/// The machine's clocks, counted from when this value was made.
#[derive(Debug)]
pub struct SystemClock {
    boot: Duration,
    monotonic: Duration,
}

impl SystemClock {
    /// Starts counting now.
    #[must_use]
    pub fn new() -> Self {
        SystemClock { boot: read::boot(), monotonic: read::monotonic() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        let boot = read::boot().saturating_sub(self.boot);
        let monotonic = read::monotonic().saturating_sub(self.monotonic);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now {
            held: Tick(0).after(boot.max(monotonic)),
            waited: Tick(0).after(boot.min(monotonic)),
            wall: Wall(millis(wall)),
        }
    }

    /// One clock is enough here: the kernel defines CLOCK_BOOTTIME as CLOCK_MONOTONIC plus the time suspended, so it
    /// never gains less.
    fn held(&self) -> Tick {
        Tick(0).after(read::boot().saturating_sub(self.boot))
    }

    /// On Linux, from the kernel's boot id and the time namespace, whose clocks are off by what it was made with.
    fn host(&self) -> Option<Host> {
        let (held, waited) = (Tick(0).after(self.boot), Tick(0).after(self.monotonic));
        boot_name().map(|boot| Host { boot, held, waited })
    }
}

/// The machine's clocks, to be shared.
#[must_use]
pub fn system() -> Arc<SystemClock> {
    Arc::new(SystemClock::new())
}

/// Time since the machine was started, suspended or not; on systems without such a clock, the monotonic one's.
#[must_use]
pub fn boottime() -> Duration {
    read::boot()
}

/// Names the time line of [`boottime`], as other programs can find it out themselves: the boot id, a slash, and the inode of the time namespace. Two
/// processes may compare their readings where both have one name. None where the system has none.
#[must_use]
pub fn boottime_line() -> Option<String> {
    let (boot, namespace) = read::time_line()?;
    Some(format!("{boot}/{namespace}"))
}

/// The same as a number.
fn boot_name() -> Option<u64> {
    let (boot, namespace) = read::time_line()?;
    let (high, low) = uuid::Uuid::try_parse(&boot).ok()?.as_u64_pair();
    Some(high ^ low ^ namespace)
}

/// 64 random bits for this process instance.
pub(crate) fn instance() -> u64 {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    high.rotate_left(32) ^ low
}

/// A new UUID of version 4, as text: lower case, with hyphens.
#[must_use]
pub fn uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// A name for this process instance that no other start has: the host's name, the process id, and random bits.
#[must_use]
pub fn holder_name() -> String {
    format!("{}-{}-{}", host_name(), std::process::id(), uuid::Uuid::new_v4().simple())
}

/// What a process is to be called, or a [name](holder_name) that no other start has.
pub(crate) fn holder_of(named: Option<&str>) -> Result<HolderId, InvalidInput> {
    named.map_or_else(|| HolderId::new(holder_name()), HolderId::new)
}

/// What the host calls itself, at most 100 bytes of it.
#[must_use]
pub fn host_name() -> String {
    let mut name = read::host_name();
    while name.len() > 100 {
        name.pop();
    }
    if name.is_empty() { "host".to_owned() } else { name }
}

#[cfg(unix)]
mod read {
    use rustix::time::{ClockId, Timespec, clock_gettime};
    use std::time::Duration;

    fn duration(time: Timespec) -> Duration {
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn boot() -> Duration {
        duration(clock_gettime(ClockId::Boottime))
    }

    /// What names the time line of this boot, its id and the inode of the time namespace: none where nothing does.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn time_line() -> Option<(String, u64)> {
        use std::os::unix::fs::MetadataExt;
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        // A kernel without time namespaces has one line.
        let namespace = std::fs::metadata("/proc/self/ns/time").map_or(0, |file| file.ino());
        Some((id.trim().to_owned(), namespace))
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn time_line() -> Option<(String, u64)> {
        None
    }

    // Elsewhere CLOCK_MONOTONIC is the best there is.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn boot() -> Duration {
        monotonic()
    }

    pub(super) fn monotonic() -> Duration {
        duration(clock_gettime(ClockId::Monotonic))
    }

    pub(super) fn host_name() -> String {
        rustix::system::uname().nodename().to_string_lossy().into_owned()
    }
}

#[cfg(not(unix))]
mod read {
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    static ORIGIN: OnceLock<Instant> = OnceLock::new();

    pub(super) fn boot() -> Duration {
        ORIGIN.get_or_init(Instant::now).elapsed()
    }

    pub(super) fn monotonic() -> Duration {
        boot()
    }

    pub(super) fn time_line() -> Option<(String, u64)> {
        None
    }

    pub(super) fn host_name() -> String {
        std::env::var("COMPUTERNAME").unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holders_time_never_falls_behind_the_waiters() {
        let clock = SystemClock::new();
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now.held >= now.waited);
            assert!(clock.held() >= now.held);
        }
        assert!(clock.now().wall > Wall(1_600_000_000_000));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_processes_of_a_host_share_its_time_line() {
        let (earlier, later) = (SystemClock::new(), SystemClock::new());
        let (first, second) = (earlier.host().unwrap(), later.host().unwrap());
        assert!(first.boot == second.boot && first.waited <= second.waited && first.held <= second.held);
        // Two clocks that began at different times show one line.
        let (a, b, c) = (first.mark(earlier.now()), second.mark(later.now()), first.mark(earlier.now()));
        assert!(a.waited <= b.waited && b.waited <= c.waited && a.held <= b.held && b.held <= c.held);
    }

    #[test]
    fn names_and_instances_differ_between_starts() {
        assert_ne!(holder_name(), holder_name());
        assert_ne!(instance(), instance());
        assert!(!host_name().is_empty() && host_name().len() <= 100);
    }
}
