//! `cargo xtask soak`: all tests again and again, with clients, faults and examples, for those that fail once in many runs.

use crate::services::RunningServers;
use crate::step::CheckStep;
use crate::suite::Cores;
use crate::test;
use std::rc::Rc;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SoakRequest {
    times: u32,
    on: Cores,
}

/// Understands the words after `soak`.
pub(crate) fn parse(words: &[String]) -> Result<SoakRequest, String> {
    let mistake = || format!("\"soak\" takes how often, from 1, and --one-core or --stops; not {words:?}");
    let (times, on) = match words {
        [times] => (times, Cores::All),
        [times, option] if option == "--one-core" => (times, Cores::One),
        [times, option] if option == "--stops" => (times, Cores::Stopped),
        _ => return Err(mistake()),
    };
    let times: u32 = times.parse().map_err(|_| mistake())?;
    if times == 0 { Err(mistake()) } else { Ok(SoakRequest { times, on }) }
}

/// Builds the tests, starts the servers and runs the tests as often as asked.
pub(crate) fn steps(asked: SoakRequest, servers: &Rc<RunningServers>) -> Result<Vec<CheckStep>, String> {
    test::soak(asked.times, asked.on, servers)
}

#[cfg(test)]
mod tests {
    //! Plan: what may be asked; the tests are run as often.
    use super::*;

    fn asked(line: &str) -> Result<SoakRequest, String> {
        parse(&crate::words(line))
    }

    #[test]
    fn what_is_asked_is_understood() {
        assert_eq!(asked("20"), Ok(SoakRequest { times: 20, on: Cores::All }));
        assert_eq!(asked("3 --one-core"), Ok(SoakRequest { times: 3, on: Cores::One }));
        assert_eq!(asked("3 --stops"), Ok(SoakRequest { times: 3, on: Cores::Stopped }));
        for line in ["", "0", "often", "3 --two-cores", "3 --one-core 4"] {
            assert!(asked(line).unwrap_err().contains("takes how often"), "{line}");
        }
    }

    #[test]
    fn the_tests_are_run_as_often() {
        let steps = steps(asked("2").unwrap(), &RunningServers::new().unwrap()).unwrap();
        let names: Vec<String> = steps.iter().map(ToString::to_string).collect();
        let all = ["1", "2"].map(|n| format!("tests, clients, faults and examples, {n} of 2"));
        assert_eq!(names[names.len() - 2..], all);
        assert!(names.iter().any(|name| name.starts_with("toolchain and page for")), "{names:?}");
        assert!(names.contains(&"build of the tests".to_owned()), "{names:?}");
    }
}
