//! Defaults of `run` that don't fit what is typed, where no option excludes another but what both say. The defaults are left out: what is
//! typed counts.

use crate::args::RunArgs;
use clap::ArgMatches;
use clap::parser::ValueSource;

/// Which of its options were not typed.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct RunDefaults {
    min: bool,
    max: bool,
}

impl RunDefaults {
    pub(crate) fn of(matches: &ArgMatches) -> RunDefaults {
        let Some(run) = matches.subcommand_matches("run") else { return RunDefaults::default() };
        let is_default = |name| run.value_source(name) == Some(ValueSource::DefaultValue);
        RunDefaults { min: is_default("min"), max: is_default("max") }
    }

    pub(crate) fn fit(self, run: &mut RunArgs) {
        if run.max.zip(run.min).is_some_and(|(max, min)| max < min) {
            match self {
                RunDefaults { min: true, max: false, .. } => run.min = None,
                RunDefaults { min: false, max: true, .. } => run.max = None,
                // Both are typed, or the file contradicts itself: that is told.
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: of a least and a longest time, what is typed counts and what is not is left out; a file that contradicts itself is none
    //! of that.
    use super::*;
    use crate::args::{Args, Verb};
    use crate::settings::{Settings, SettingsFile};
    use clap::FromArgMatches;
    use std::path::Path;
    use std::time::Duration;

    fn run(file: &str, words: &[&str]) -> RunArgs {
        let (mut settings, path) = (Settings::default(), Path::new("/etc/x.toml"));
        settings.take_in(SettingsFile::parse(file, path).unwrap(), path).unwrap();
        let words = [&["tenure", "run"], words, &["--", "true"]].concat();
        let command = settings.apply(crate::args::command()).unwrap();
        let mut matches = command.try_get_matches_from(words).unwrap();
        let defaults = RunDefaults::of(&matches);
        let args = Args::<Verb>::from_arg_matches_mut(&mut matches).unwrap();
        let Verb::Run(mut run) = args.verb else { panic!("another verb") };
        defaults.fit(&mut run);
        run
    }

    #[test]
    fn of_a_least_and_a_longest_time_that_contradict_each_other_the_typed_one_counts() {
        let times = |file: &str, words: &[&str]| {
            let run = run(&format!("[defaults.run]\n{file}"), words);
            (run.min.map(|min| min.as_secs()), run.max.map(|max| max.as_secs()))
        };
        assert_eq!(times("min = \"2s\"", &["--max", "1s", "k"]), (None, Some(1)));
        assert_eq!(times("min = \"2s\"", &["--max", "2s", "k"]), (Some(2), Some(2)));
        assert_eq!(times("max = \"1s\"", &["--min", "2s", "k"]), (Some(2), None));
        assert_eq!(times("max = \"1s\"\nmin = \"2s\"", &["k"]), (Some(2), Some(1)));
        assert_eq!(times("", &["--max", "1s", "--min", "2s", "k"]), (Some(2), Some(1)));
        assert_eq!(run("", &["--min", "2s", "k"]).min, Some(Duration::from_secs(2)));
    }
}
