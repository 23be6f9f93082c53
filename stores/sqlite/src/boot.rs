//! The host's time line, which all processes on it share: time since boot, suspend included.
//!
//! The only file of this crate that reads a clock.

use std::sync::Arc;
use std::time::Duration;
use tenure_core::Times;

/// A point on the time line of one boot of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootTime {
    /// Names the boot: another number after each start of the machine.
    pub boot: u128,
    /// Time since that start, suspend included.
    pub elapsed: Duration,
}

/// The present, as records are dated and judged by it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Present {
    pub(crate) time: BootTime,
    /// Whether all who can write to the file run on this kernel.
    is_one_kernel: bool,
}

impl Present {
    /// When a record was written, and the present; nothing where that was by another kernel's time line.
    ///
    /// On one kernel the boot makes no difference. Containers may have a boot id of their own on its time line. What was written
    /// before the machine was restarted is older than the present boot, and so than the difference.
    pub(crate) fn times(self, written: BootTime) -> Option<Times> {
        let is_comparable = self.is_one_kernel || self.time.boot == written.boot;
        // A boot's name is random.
        let clock = if self.is_one_kernel { 0 } else { self.time.boot as u64 };
        let micros = |count: u128| u64::try_from(count).unwrap_or(u64::MAX);
        let (written, now) = (written.elapsed.as_nanos().div_ceil(1000), self.time.elapsed.as_micros());
        is_comparable.then(|| Times { clock, written: micros(written), now: micros(now) })
    }

    /// Whether a record was written before this machine was last started: its date is still to come. Until then its age
    /// would be told as zero, so whoever sees it first dates it anew.
    pub(crate) fn precedes(self, written: BootTime) -> bool {
        self.is_one_kernel && self.time.boot != written.boot && self.time.elapsed < written.elapsed
    }
}

/// What the ages of one file's records are told by.
#[derive(Clone)]
pub(crate) struct RecordAges {
    pub(crate) clock: Arc<dyn BootClock>,
    pub(crate) is_one_kernel: bool,
}

impl RecordAges {
    pub(crate) fn now(&self) -> Option<Present> {
        self.clock.now().map(|time| Present { time, is_one_kernel: self.is_one_kernel })
    }
}

/// Tells the host's time. Processes that share a file must all have a clock of the same time line.
pub trait BootClock: Send + Sync + 'static {
    /// Now; nothing where the host has no such clock, and records' ages are not told.
    fn now(&self) -> Option<BootTime>;
}

/// CLOCK_BOOTTIME and the kernel's boot id, on Linux; elsewhere, nothing.
#[derive(Debug, Clone, Copy)]
pub struct HostClock {
    boot: Option<u128>,
    /// How far this process's time namespace is ahead of the machine, in nanoseconds.
    ahead: i128,
}

impl HostClock {
    /// Reads what does not change while the machine is up.
    #[must_use]
    pub fn new() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let boot = if cfg!(target_os = "linux") { read("/proc/sys/kernel/random/boot_id") } else { None };
        // A kernel without time namespaces has no such file, and no offsets.
        let ahead = read("/proc/self/timens_offsets").as_deref().and_then(parse_offset);
        HostClock { boot: boot.as_deref().and_then(parse_uuid), ahead: ahead.unwrap_or(0) }
    }
}

impl Default for HostClock {
    fn default() -> Self {
        Self::new()
    }
}

impl BootClock for HostClock {
    #[cfg(target_os = "linux")]
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the room for it: the host's time line, for records' ages"
    )]
    fn now(&self) -> Option<BootTime> {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let nanos = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec) - self.ahead;
        let elapsed = Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
        self.boot.map(|boot| BootTime { boot, elapsed })
    }

    #[cfg(not(target_os = "linux"))]
    fn now(&self) -> Option<BootTime> {
        None
    }
}

fn parse_uuid(text: &str) -> Option<u128> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32)
}

/// The line `boottime <seconds> <nanoseconds>`.
fn parse_offset(text: &str) -> Option<i128> {
    let line = text.lines().find(|line| line.starts_with("boottime"))?;
    let mut numbers = line.split_whitespace().skip(1).map(str::parse::<i128>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(seconds)), Some(Ok(nanos))) => Some(seconds * 1_000_000_000 + nanos),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boot: u128, micros: u64) -> BootTime {
        BootTime { boot, elapsed: Duration::from_micros(micros) }
    }

    fn age(now: BootTime, written: BootTime) -> Duration {
        Present { time: now, is_one_kernel: true }.times(written).unwrap().age()
    }

    #[test]
    fn an_age_is_rounded_down_and_never_negative() {
        assert_eq!(age(at(1, 12_999), at(1, 10_001)), Duration::from_millis(2));
        assert_eq!(age(at(1, 10_000), at(1, 10_001)), Duration::ZERO);
        let read =
            Present { time: BootTime { boot: 1, elapsed: Duration::from_nanos(8_999) }, is_one_kernel: true };
        let written = BootTime { boot: 1, elapsed: Duration::from_nanos(5_001) };
        assert_eq!(read.times(written), Some(Times { clock: 0, written: 6, now: 8 }), "rounded apart");
    }

    #[test]
    fn s1_an_age_is_a_lower_bound_whatever_the_boot_id_says() {
        // A container's own boot id, on the kernel's time line: written two milliseconds ago.
        assert_eq!(age(at(2, 999_002_000), at(1, 999_000_000)), Duration::from_millis(2));
        // An earlier boot, which lasted for less or for more than the present one so far.
        assert_eq!(age(at(2, 9_000), at(1, 4_000)), Duration::from_millis(5));
        assert_eq!(age(at(2, 5_000), at(1, 999_000_000)), Duration::ZERO);
    }

    #[test]
    fn another_kernel_s_time_line_tells_no_age() {
        let present = |is_one_kernel| Present { time: at(2, 9_000), is_one_kernel };
        let times = |clock| Some(Times { clock, written: 4_000, now: 9_000 });
        assert_eq!(present(true).times(at(1, 4_000)), times(0));
        assert_eq!(present(false).times(at(1, 4_000)), None);
        assert_eq!(
            present(false).times(at(2, 4_000)),
            times(2),
            "other kernels' readings are never compared with these"
        );
        assert_eq!([true, false].map(|one| present(one).precedes(at(1, 9_001))), [true, false]);
        assert!(!present(true).precedes(at(2, 9_001)) && !present(true).precedes(at(1, 9_000)));
    }

    #[test]
    fn the_kernel_s_texts_are_read() {
        assert_eq!(
            parse_uuid("01234567-89ab-cdef-0123-456789abcdef\n"),
            Some(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef)
        );
        assert_eq!(parse_uuid("0123"), None);
        assert_eq!(parse_offset("monotonic  -5 0\nboottime   -86400  7\n"), Some(-86_399_999_999_993));
        assert_eq!(parse_offset("nonsense"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_host_has_a_boot_and_its_time_moves() {
        let clock = HostClock::new();
        let first = clock.now().unwrap();
        assert!(first.elapsed > Duration::ZERO);
        while clock.now().unwrap().elapsed == first.elapsed {}
        assert_eq!(clock.now().unwrap().boot, HostClock::new().now().unwrap().boot);
    }
}
