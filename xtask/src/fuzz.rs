//! `cargo xtask fuzz`: the tests that give whatever decodes records, and the machines that read them, arbitrary and damaged ones, for long.

use crate::simulator;
use crate::step::CheckStep;
use std::time::Duration;

/// Cases of each test, unless told otherwise: some minutes on one core.
const CASES: u32 = 20_000;

/// As many as anybody asks for take their time.
const LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// What the names of such tests of decoders begin with, by module.
const DECODERS: &[&str] = &["wire::", "codec::", "metadata::", "fence::"];

/// Understands the words after `fuzz`: how many cases.
pub(crate) fn parse(words: &[String]) -> Result<u32, String> {
    let mistake = || format!("\"fuzz\" takes how many cases of each test, from 1; not {words:?}");
    let cases = match words {
        [] => CASES,
        [cases] => cases.parse().map_err(|_| mistake())?,
        _ => return Err(mistake()),
    };
    if cases == 0 { Err(mistake()) } else { Ok(cases) }
}

/// The machines, and then the decoders by themselves.
pub(crate) fn steps(cases: u32) -> Vec<CheckStep> {
    let optimised = ["test", "--profile", simulator::PROFILE, "--package", "tenure-core"];
    let machines = [&optimised[..], &["--test", "core", "--", "hostile::"]].concat();
    let decoders = [&optimised[..], &["--package", "tenure-store", "--lib", "--"], DECODERS].concat();
    let step = |name: &str, args: &[&str]| {
        CheckStep::cargo(name, args).env("PROPTEST_CASES", &cases.to_string()).within(LIMIT).and_go_on()
    };
    vec![step("machines on spoilt records", &machines), step("decoders", &decoders)]
}

#[cfg(test)]
mod tests {
    //! Plan: what may be asked; the number of cases reaches the tests, which are there.
    use super::*;
    use crate::hidden;
    use crate::test::root;

    #[test]
    fn what_is_asked_is_understood() {
        let asked = |line| parse(&crate::words(line));
        assert_eq!((asked(""), asked("300")), (Ok(CASES), Ok(300)));
        for line in ["0", "many", "3 4", "-1"] {
            assert!(asked(line).unwrap_err().contains("takes how many"), "{line}");
        }
    }

    #[test]
    fn the_cases_reach_the_tests() {
        let shown: Vec<String> = steps(300).iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), 2);
        assert!(
            shown
                .iter()
                .all(|step| step.contains("PROPTEST_CASES='300'") || step.contains("PROPTEST_CASES=300")),
            "{shown:?}"
        );
        let tests = hidden::read(&root().join("crates/tenure-core/tests/main.rs")).unwrap();
        assert!(tests.contains("mod hostile;"));
    }
}
