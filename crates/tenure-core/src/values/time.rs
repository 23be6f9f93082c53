//! The time model: how long a holder may believe, and how long others must wait.
//!
//! No two machines' clocks are ever compared for safety. A holder measures its own elapsed time from *before* it
//! sent the write that won and believes for `ttl·(1−ρ)/(1+ρ)`; a waiter measures its own elapsed time from *after* it
//! first saw a version and waits for a full ttl. With every clock's rate within ±ρ, the holder's belief ends no later
//! than `ttl/(1+ρ)` of true time after the write was sent, and the waiter's patience no earlier than `ttl/(1+ρ)` after
//! the write took effect, so the two never overlap whatever the clocks' offsets are.
//!
//! The argument is that of Gray and Cheriton, "Leases: an efficient fault-tolerant mechanism for distributed file
//! cache consistency" (1989), with the drift bound made explicit.

pub(crate) mod host;
pub(crate) mod jumps;

use crate::values::error::InvalidInput;
use host::Host;
use std::fmt;
use std::time::{Duration, SystemTime};

/// A point on one process's own time line, in nanoseconds since that process's clock began.
///
/// Ticks of two processes are not comparable.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// The end of time: later than any tick that a clock returns.
    pub const NEVER: Tick = Tick(u64::MAX);

    /// The tick that lies `span` later, saturating at [`Tick::NEVER`].
    #[must_use]
    pub fn after(self, span: Duration) -> Tick {
        Tick(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The time from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Tick) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Whole milliseconds, and the most that there are for what is longer.
#[must_use]
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A wall-clock reading in milliseconds since the Unix epoch. It stamps records and raises fences; it decides nothing
/// by itself.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Wall(pub u64);

impl Wall {
    /// The time from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Wall) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The same as the standard library has it; none if this system's time does not reach so far.
    #[must_use]
    pub fn to_system_time(self) -> Option<SystemTime> {
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(self.0))
    }
}

/// A date in UTC, in the form of RFC 3339: `2024-03-01T00:00:00Z`, and `9999-…` for what comes after that year. The precision is that of
/// the format, `{:.3}` for milliseconds.
impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, millis) = (self.0 / 1000, self.0 % 1000);
        let days = (secs / 86_400).min(2_932_896); // the end of the year 9999
        let (year, month, day) = civil(days);
        let of_day = secs % 86_400;
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        match f.precision() {
            None | Some(0) => f.write_str("Z"),
            Some(digits) => write!(f, ".{:0<digits$.digits$}Z", format!("{millis:03}")),
        }
    }
}

/// Year, month and day of a day since 1970 (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + u64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

/// What lies before 1970 is the beginning of it.
impl From<SystemTime> for Wall {
    fn from(time: SystemTime) -> Wall {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Wall(millis(since))
    }
}

/// One reading of a process's clocks.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Now {
    /// Elapsed time as a holder counts it: never less than what any of the machine's clocks says has passed.
    pub held: Tick,
    /// Elapsed time as a waiter counts it: never more than what any of the machine's clocks says has passed.
    pub waited: Tick,
    /// The wall clock.
    pub wall: Wall,
}

/// A wall clock that gains this much on elapsed time has seen time that the process's clocks have not.
const TRIPWIRE: Duration = Duration::from_secs(1);

impl Now {
    /// Whether time was hidden from this process since its clocks showed `held` and `wall`, as its wall clock tells.
    #[must_use]
    pub fn has_gap(&self, held: Tick, wall: Wall) -> bool {
        self.wall.since(wall) > self.held.since(held) + TRIPWIRE
    }

    /// When, on the holder's time line, the waiter's time line is expected to reach `waited`.
    ///
    /// Only a hint for a wake-up: the two lines may drift apart, and an early wake-up is harmless.
    #[must_use]
    pub fn expect(&self, waited: Tick) -> Tick {
        self.held.after(waited.since(self.waited))
    }
}

/// A source of time. Production code has one implementation (`tenure::clock`), the simulator another.
pub trait Clock: Send + Sync + 'static {
    /// Reads all clocks.
    fn now(&self) -> Now;

    /// The holder's elapsed time alone; this is on the path of `is_held()` and must cost a few nanoseconds.
    fn held(&self) -> Tick {
        self.now().held
    }

    /// The time line that all processes of this host share. None if there is none that its name tells apart from others.
    fn host(&self) -> Option<Host> {
        None
    }
}

/// How long a lease stays valid after its last renewal: between 10 ms and one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u32);

impl Ttl {
    /// The shortest ttl, 10 ms. A store may ask for more.
    pub const MIN: Ttl = Ttl(10);
    /// The longest ttl, one day.
    pub const MAX: Ttl = Ttl(86_400_000);

    /// A ttl of whole milliseconds.
    ///
    /// # Errors
    /// When `span` is under 10 ms, over one day, or not a whole number of milliseconds.
    pub fn new(span: Duration) -> Result<Ttl, InvalidInput> {
        let millis = u32::try_from(span.as_millis()).unwrap_or(u32::MAX);
        if span < Ttl::MIN.duration() || span > Ttl::MAX.duration() {
            return Err(InvalidInput::new(format!(
                "a ttl of {span:?} is outside 10 ms to 1 day; choose one within"
            )));
        }
        if Duration::from_millis(u64::from(millis)) != span {
            return Err(InvalidInput::new(format!(
                "a ttl of {span:?} is not a whole number of milliseconds"
            )));
        }
        Ok(Ttl(millis))
    }

    /// The ttl that a record claims, brought into the allowed range, so that a hostile record can neither block a key
    /// for ever nor give it away at once.
    #[must_use]
    pub fn clamped(millis: u64) -> Ttl {
        let millis = u32::try_from(millis).unwrap_or(u32::MAX);
        Ttl(millis.clamp(Ttl::MIN.0, Ttl::MAX.0))
    }

    /// This ttl as a span of time.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_millis(u64::from(self.0))
    }

    /// This ttl in milliseconds.
    #[must_use]
    pub fn millis(self) -> u64 {
        u64::from(self.0)
    }

    /// The ttl divided by `n`.
    #[must_use]
    pub fn part(self, n: u32) -> Duration {
        self.duration() / n.max(1)
    }
}

impl From<Ttl> for Duration {
    fn from(ttl: Ttl) -> Duration {
        ttl.duration()
    }
}

/// As by [`Ttl::new`].
impl TryFrom<Duration> for Ttl {
    type Error = InvalidInput;

    fn try_from(span: Duration) -> Result<Ttl, InvalidInput> {
        Ttl::new(span)
    }
}

/// As whole milliseconds.
#[cfg(feature = "serde")]
impl serde::Serialize for Ttl {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Ttl {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Ttl, D::Error> {
        let millis = u32::deserialize(deserializer)?;
        Ttl::new(Duration::from_millis(millis.into())).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.duration())
    }
}

/// ρ: how far a clock's *rate* may be off, in thousandths.
///
/// The default is 100 (10 %), because kernels slew clocks by as much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Drift(u16);

impl Default for Drift {
    fn default() -> Self {
        Drift(100)
    }
}

impl Drift {
    /// A drift bound in thousandths, from 0 to 500.
    ///
    /// # Errors
    /// When it is over 500 (50 %): a lease would hardly be usable.
    pub fn per_mille(rho: u16) -> Result<Drift, InvalidInput> {
        if rho > 500 {
            return Err(InvalidInput::new(format!("a clock drift of {rho} ‰ is over the limit of 500 ‰")));
        }
        Ok(Drift(rho))
    }

    /// How long a holder believes after it sent the write that won: `ttl·(1−ρ)/(1+ρ)`, 0.82 × ttl by default.
    #[must_use]
    pub fn belief(self, ttl: Ttl) -> Duration {
        self.least(ttl.duration())
    }

    /// What another clock may count at most, of what this one would count as `span`: `span·(1−ρ)/(1+ρ)`. Whoever counts so much by its own clock
    /// has certainly not counted `span` by this one.
    #[must_use]
    pub fn least(self, span: Duration) -> Duration {
        let rho = u128::from(self.0);
        let nanos = span.as_nanos() * (1000 - rho) / (1000 + rho);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The most that another clock can count while this one counts `elapsed`: `elapsed·(1+ρ)/(1−ρ)`, 1.22 × as much by default.
    #[must_use]
    pub fn most(self, elapsed: Duration) -> Duration {
        let rho = u128::from(self.0);
        let nanos = (elapsed.as_nanos() * (1000 + rho)).div_ceil(1000 - rho);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ‰", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_wall_clock_s_reading_is_a_date_for_people() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_999, "2000-02-28T23:59:59Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!(Wall(millis).to_string(), text);
            assert_eq!(Wall(millis).to_system_time().map(Wall::from), Some(Wall(millis)));
        }
        assert!(Wall(u64::MAX).to_string().starts_with("9999-"));
        let late = Wall(951_782_399_070);
        assert_eq!(
            [format!("{late:.1}"), format!("{late:.3}"), format!("{late:.6}")],
            ["2000-02-28T23:59:59.0Z", "2000-02-28T23:59:59.070Z", "2000-02-28T23:59:59.070000Z"]
        );
    }

    #[test]
    fn milliseconds_are_whole_and_as_many_as_there_are() {
        assert_eq!(millis(Duration::from_micros(2_999)), 2);
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }

    #[test]
    fn belief_is_082_of_the_ttl_by_default() {
        let ttl = Ttl::new(Duration::from_secs(11)).unwrap();
        assert_eq!(Drift::default().belief(ttl), Duration::from_secs(9));
    }

    #[test]
    fn a_ttl_outside_its_bounds_is_refused_by_name() {
        for bad in [Duration::ZERO, Duration::from_millis(9), Duration::from_secs(86_401), Duration::MAX] {
            let error = Ttl::new(bad).unwrap_err().to_string();
            assert!(error.contains("10 ms to 1 day"), "{error}");
        }
        assert!(Ttl::new(Duration::from_nanos(10_000_001)).is_err());
        assert_eq!(Ttl::new(Duration::from_secs(86_400)).unwrap(), Ttl::MAX);
    }

    #[test]
    fn a_drift_of_more_than_half_is_refused() {
        assert!(Drift::per_mille(500).is_ok());
        for bad in [501, u16::MAX] {
            let error = Drift::per_mille(bad).unwrap_err().to_string();
            assert!(error.contains("500"), "{error}");
        }
    }

    #[test]
    fn a_clock_tells_the_holders_time_alone_as_it_tells_all() {
        struct Stopped;
        impl Clock for Stopped {
            fn now(&self) -> Now {
                Now { held: Tick(7), waited: Tick(5), wall: Wall(3) }
            }
        }
        assert_eq!(Stopped.held(), Tick(7));
    }

    #[test]
    fn another_clock_counts_at_most_122_of_100_by_default() {
        let most = |nanos| Drift::default().most(Duration::from_nanos(nanos));
        assert_eq!(most(9_000_000_000), Duration::from_secs(11));
        assert_eq!(most(1), Duration::from_nanos(2), "rounded to the safe side");
        assert_eq!(Drift::per_mille(500).unwrap().most(Duration::from_secs(1)), Duration::from_secs(3));
        assert_eq!(Drift::default().most(Duration::MAX), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn hostile_durations_are_clamped() {
        assert_eq!(Ttl::clamped(0), Ttl::MIN);
        assert_eq!(Ttl::clamped(u64::MAX), Ttl::MAX);
        assert_eq!(Ttl::clamped(2_000).duration(), Duration::from_secs(2));
    }

    #[test]
    fn s1_belief_ends_before_patience_for_all_rates_within_rho() {
        // True time at which a holder with the slowest clock stops, against a waiter with the fastest.
        proptest!(|(millis in 10u64..86_400_000, rho in 0u16..=500)| {
            let ttl = Ttl::clamped(millis);
            let drift = Drift::per_mille(rho).unwrap();
            let rho = f64::from(rho) / 1000.0;
            let stops = drift.belief(ttl).as_secs_f64() / (1.0 - rho);
            let takes = ttl.duration().as_secs_f64() / (1.0 + rho);
            prop_assert!(stops <= takes * (1.0 + 1e-12), "{} > {}", stops, takes);
        });
    }

    #[test]
    fn s9_a_client_on_another_clock_stops_before_the_agents_deadline_for_all_rates_within_rho() {
        // The client counts from when it sends its request, the agent from when it answers, which is later. So if the client's clock is the slowest, and
        // the agent's the fastest, the client stops first in true time.
        proptest!(|(left in 0u64..86_400_000_000_000, rho in 0u16..=500)| {
            let left = Duration::from_nanos(left);
            let good_for = Drift::per_mille(rho).unwrap().least(left);
            let rho = f64::from(rho) / 1000.0;
            let (stops, over) = (good_for.as_secs_f64() / (1.0 - rho), left.as_secs_f64() / (1.0 + rho));
            prop_assert!(stops <= over * (1.0 + 1e-12), "{} > {}", stops, over);
            prop_assert!(good_for <= left);
        });
        assert_eq!(Drift::default().least(Duration::MAX), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn ticks_saturate() {
        assert_eq!(Tick(5).since(Tick(9)), Duration::ZERO);
        assert_eq!(Tick(5).after(Duration::MAX), Tick::NEVER);
        let now = Now { held: Tick(100), waited: Tick(40), wall: Wall(0) };
        assert_eq!(now.expect(Tick(50)), Tick(110));
    }
}
