//! Ticks that are left out one after the other, while an earlier one runs for long.

use crate::output;
use tenure::Wall;

/// Each standby host leaves out every tick of that time. It says so of the first one, then ever more seldom, and at the end of all.
#[derive(Debug)]
pub(super) struct LeftOut<'k> {
    key: &'k str,
    count: u64,
    /// The last one that was not told.
    untold: Option<Wall>,
}

impl LeftOut<'_> {
    pub(super) fn of(key: &str) -> LeftOut<'_> {
        LeftOut { key, count: 0, untold: None }
    }

    /// Whether the next one that is added is told.
    pub(super) fn tells_next(&self) -> bool {
        (self.count + 1).is_power_of_two()
    }

    /// `by`: who runs the earlier one, in words that begin with a blank; nothing if that is not known.
    pub(super) fn add(&mut self, tick: Wall, by: &str) {
        let told = self.added(tick, by);
        self.tell(told);
    }

    /// The earlier one is over, or nobody here waits for it any more.
    pub(super) fn end(&mut self) {
        let told = self.ended();
        self.tell(told);
    }

    fn tell(&self, text: Option<String>) {
        text.into_iter().for_each(|text| output::note(format!("{}: {text}", self.key)));
    }

    /// What is to be told of it now, if anything.
    fn added(&mut self, tick: Wall, by: &str) -> Option<String> {
        let by = if by.is_empty() { String::new() } else { format!(": it is held{by}") };
        self.count += 1;
        self.untold = (!self.count.is_power_of_two()).then_some(tick);
        match (self.untold, self.count) {
            (Some(_), _) => None,
            (None, 1) => Some(format!("the tick {tick} is left out, as an earlier one still runs{by}")),
            (None, count) => Some(format!(
                "{count} ticks are left out by now, the last of {tick}, as an earlier one still runs{by}"
            )),
        }
    }

    fn ended(&mut self) -> Option<String> {
        let count = std::mem::take(&mut self.count);
        let last = self.untold.take()?;
        Some(format!("{count} ticks were left out, the last of {last}, as an earlier one still ran"))
    }
}

#[cfg(test)]
mod tests {
    //! Plan: of many ticks few are told, and the count of all; after that the first is told again.
    use super::*;

    fn told_if_foretold(left_out: &mut LeftOut<'_>, tick: Wall) -> Option<String> {
        let tells = left_out.tells_next();
        let told = left_out.added(tick, " by w");
        assert_eq!(told.is_some(), tells, "whoever asks who it is asks for each that is told, and no other");
        told
    }

    #[test]
    fn a_run_of_a_day_costs_a_standby_a_dozen_lines_and_none_is_left_uncounted() {
        let mut left_out = LeftOut::of("k");
        let tick = |minute: u64| Wall(minute * 60_000);
        let told: Vec<String> =
            (0..1440).filter_map(|minute| told_if_foretold(&mut left_out, tick(minute))).collect();
        assert_eq!(told.len(), 11, "{told:?}");
        assert!(told[0].starts_with("the tick 1970-01-01T00:00:00"), "{told:?}");
        assert!(told.iter().all(|text| text.ends_with(" still runs: it is held by w")), "{told:?}");
        assert!(
            told[10].starts_with("1024 ticks are left out by now, the last of 1970-01-01T17:03"),
            "{told:?}"
        );
        let all = left_out.ended();
        assert!(
            all.is_some_and(|all| all.starts_with("1440 ticks were left out, the last of 1970-01-01T23:59"))
        );
        assert_eq!(left_out.ended(), None);
        assert!(left_out.added(tick(2000), "").is_some_and(|text| text.ends_with("still runs")));
        assert_eq!(left_out.ended(), None, "all was told");
    }
}
