//! The project's own chores: `cargo xtask test`, `quick`, `soak`, `api`, `audit`, `bench`, `dist`, `faults`, `fuzz`, `services`, `spec` and `mutants`.

mod again;
mod api;
mod audit;
mod background;
mod bench;
mod cited;
mod clients;
mod command;
mod dist;
mod faults;
mod features;
mod fuzz;
mod hidden;
mod lanes;
mod mutants;
mod processor_time;
mod program;
mod report;
mod services;
mod shipped;
mod simulator;
mod soak;
mod spec;
mod step;
mod stops;
mod suite;
mod test;
mod workspace;

use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask CHORE

  test           everything that must hold before a change goes in: format, lints, each crate by itself, all tests,
                 every example, documentation; stops at the first failure
  quick          a share of it that takes less than a minute where little has changed: format, lints, the core's tests but
                 slow ones, some worlds of the simulator
  soak N [--one-core | --stops]
                 all tests N times, whatever fails, with clients, faults and examples, but for tests in documentation
                 and the package that is installed; with --one-core, tests on the same one; with --stops, programs of
                 tests are stopped for up to half a second, at random
  api            writes the public items of each library to docs/api, which must be up to date
  audit          what must hold before a release: licences, bans, sources, unused dependencies, packages, the oldest Rust
                 (installs that, cargo-deny and cargo-machete where they are missing)
  bench [NAME…]  the figures: every bench program, or those whose name contains a NAME
  dist [--target TRIPLE | --check PROGRAM]
                 what users install, in target/dist: a Debian package and an archive, of an optimised build with all stores;
                 --check makes them of PROGRAM, installs the package in a root of its own, and runs the first example from it
  faults [OPTION…]
                 faults on real servers, in network namespaces: --help tells the options (installs what it needs; root)
  fuzz [CASES]   arbitrary and damaged records for all that reads them: so many cases of each test (20,000), which take
                 some minutes
  services up|down|fetch|run -- COMMAND
                 the servers that tests need, on loopback: started and left running, stopped, fetched only, or around one command
                 (DynamoDB Local, and the KCL beside it, fetched from Maven Central; PostgreSQL, PgBouncer, etcd and
                 Redis; installs what is missing of them, of a JDK and of Maven as root)
  spec [--without ASSUMPTION|each]
                 TLC checks docs/spec/Tenure.tla; and that a promise breaks where an assumption does not hold
                 (fetches TLC; needs java)
  mutants [--all]
                 small mistakes in what tenure-core has changed since main, or in all of it: tests must notice each
                 (installs cargo-mutants where it is missing; --all takes hours)
";

#[derive(Debug, PartialEq, Eq)]
enum Chore {
    Test,
    Quick,
    Soak(soak::SoakRequest),
    Api,
    Audit,
    Bench(Vec<String>),
    Dist(dist::DistRequest),
    Faults(Vec<String>),
    Fuzz(u32),
    Services(services::ServicesRequest),
    Spec(spec::SpecRequest),
    Mutants(mutants::Scope),
    Help,
}

impl Chore {
    fn parse(words: &[String]) -> Result<Chore, String> {
        let (chore, rest) = match words.split_first() {
            None => return Err(format!("name a chore\n\n{HELP}")),
            Some((first, rest)) => (first.as_str(), rest),
        };
        let chore = match chore {
            "bench" => return Ok(Chore::Bench(rest.to_vec())),
            "dist" => {
                return Ok(Chore::Dist(dist::parse(rest).map_err(|mistake| format!("{mistake}\n\n{HELP}"))?));
            }
            "faults" => return Ok(Chore::Faults(rest.to_vec())),
            "soak" => {
                return Ok(Chore::Soak(soak::parse(rest).map_err(|mistake| format!("{mistake}\n\n{HELP}"))?));
            }
            "fuzz" => {
                return Ok(Chore::Fuzz(fuzz::parse(rest).map_err(|mistake| format!("{mistake}\n\n{HELP}"))?));
            }
            "services" => {
                return Ok(Chore::Services(
                    services::parse(rest).map_err(|mistake| format!("{mistake}\n\n{HELP}"))?,
                ));
            }
            "spec" => {
                return Ok(Chore::Spec(spec::parse(rest).map_err(|mistake| format!("{mistake}\n\n{HELP}"))?));
            }
            "mutants" => {
                return Ok(Chore::Mutants(
                    mutants::parse(rest).map_err(|mistake| format!("{mistake}\n\n{HELP}"))?,
                ));
            }
            "test" => Chore::Test,
            "quick" => Chore::Quick,
            "api" => Chore::Api,
            "audit" => Chore::Audit,
            "help" | "-h" | "--help" => Chore::Help,
            other => return Err(format!("there is no chore {other:?}\n\n{HELP}")),
        };
        match rest.first() {
            None => Ok(chore),
            Some(word) => Err(format!("{:?} takes no {word:?}\n\n{HELP}", words[0])),
        }
    }

    fn run(self) -> Result<bool, String> {
        // What runs in the background ends when this does, however the steps ended.
        let mut servers = None;
        let steps = match self {
            Chore::Help => {
                print!("{HELP}");
                return Ok(true);
            }
            Chore::Test => test::steps(servers.insert(services::RunningServers::new()?))?,
            Chore::Quick => test::quick()?,
            Chore::Soak(asked) => soak::steps(asked, servers.insert(services::RunningServers::new()?))?,
            Chore::Api => vec![step::CheckStep::check("public items", || api::write(&test::root()))],
            Chore::Audit => audit::steps(),
            Chore::Bench(names) => bench::steps(&names, servers.insert(services::RunningServers::new()?))?,
            Chore::Dist(asked) => dist::steps(asked, &test::first_example(), test::EXAMPLE_LIMIT)?,
            Chore::Faults(options) => faults::steps(&options, &*services::RunningServers::new()?)?,
            Chore::Fuzz(cases) => fuzz::steps(cases),
            Chore::Services(asked) => {
                let (steps, started) = services::steps(asked)?;
                servers = started;
                steps
            }
            Chore::Spec(asked) => spec::steps(&asked),
            Chore::Mutants(scope) => mutants::steps(scope)?,
        };
        let report = step::run(steps);
        drop(servers);
        print!("{report}");
        Ok(report.is_pass())
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let passed = match Chore::parse(&words) {
        Ok(chore) => chore.run(),
        Err(mistake) => {
            eprintln!("xtask: {mistake}");
            return ExitCode::from(2);
        }
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What is typed, as a program gets it.
#[cfg(test)]
fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    //! Plan: each chore is understood; what isn't one is named in the answer, with the help.
    use super::*;

    fn parse(line: &str) -> Result<Chore, String> {
        Chore::parse(&crate::words(line))
    }

    #[test]
    fn chores_are_understood() {
        assert_eq!(parse("test"), Ok(Chore::Test));
        assert_eq!(parse("quick"), Ok(Chore::Quick));
        assert_eq!(parse("api"), Ok(Chore::Api));
        assert_eq!(parse("audit"), Ok(Chore::Audit));
        assert_eq!(parse("bench"), Ok(Chore::Bench(vec![])));
        assert_eq!(parse("bench pairs work"), Ok(Chore::Bench(vec!["pairs".into(), "work".into()])));
        assert_eq!(parse("faults --long"), Ok(Chore::Faults(vec!["--long".into()])));
        assert_eq!(parse("fuzz 300"), Ok(Chore::Fuzz(300)));
        assert_eq!(parse("services up"), Ok(Chore::Services(services::ServicesRequest::Up)));
        assert_eq!(parse("spec --without each"), Ok(Chore::Spec(spec::SpecRequest::WithoutEach)));
        assert_eq!(parse("mutants"), Ok(Chore::Mutants(mutants::Scope::Changed)));
        assert_eq!(parse("--help"), Ok(Chore::Help));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, says) in [
            ("", "name a chore"),
            ("tset", "no chore \"tset\""),
            ("test fast", "\"test\" takes no \"fast\""),
            ("soak", "takes how often"),
            ("mutants fast", "nothing or --all"),
            ("services", "up, down, fetch, or run"),
        ] {
            let mistake = parse(line).unwrap_err();
            assert!(mistake.contains(says), "{line:?}: {mistake}");
            assert!(mistake.ends_with(HELP));
        }
    }
}
