//! The `tenure` command: leases for people and scripts.

mod args;
mod completions;
mod config;
mod exit;
mod files;
mod keys;
mod manual;
mod nonces;
mod output;
mod pipe;
mod settings;
#[cfg(test)]
mod stepped_clock;
mod stores;
mod supervise;
mod telemetry;
mod text;
mod verbs;
mod work;

use args::{Args, RunVerb, Verb};
use clap::error::{ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Subcommand};
use exit::Failure;
use settings::fit::RunDefaults;
use settings::{Chosen, NAMESPACE_VARIABLE, STORE_VARIABLE, SettingSource, Settings, Sourced};
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use stores::Url;
use tenure_core::steers_terminals;
use text::escaped;

fn main() -> ExitCode {
    files::outlive_size_limit();
    let typed: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    // Helpers of ours, which nobody types.
    if let Some((verb, rest)) = typed.split_first()
        && let Some(helper) = helper(verb)
    {
        return ExitCode::from(if helper(rest).is_some() { exit::OK } else { exit::USAGE });
    }
    let typed = match parsed() {
        Ok(typed) => typed,
        Err(error) => {
            return ExitCode::from(tell_of(&error));
        }
    };
    // A fault of ours is told by the panic itself. Its own status would be taken for that of a command.
    let performed = std::panic::catch_unwind(AssertUnwindSafe(|| perform(typed)));
    let code = match performed.unwrap_or_else(|_| Err(Failure::silent(exit::INTERNAL))) {
        Ok(code) => code,
        Err(failure) => {
            if !failure.text.is_empty() && wants_json() {
                output::fail(failure.code, &failure.text);
            } else if !failure.text.is_empty() {
                output::note(&failure.text);
            }
            if let Some(by) = failure.by {
                output::finish();
                by.end();
            }
            failure.code
        }
    };
    output::finish();
    ExitCode::from(code)
}

/// Prints what is wrong with what was typed, or the help or version that was asked for.
fn tell_of(error: &clap::Error) -> u8 {
    if error.use_stderr() {
        if wants_json() {
            output::fail(exit::USAGE, error.render().to_string().trim_end());
        } else if steers(error) {
            output::plain(&error.render().to_string());
        } else {
            // It has nowhere else to go if this can't be written.
            let _unread = error.print();
        }
        return exit::USAGE;
    }
    let printed = error.print().and_then(|()| std::io::Write::flush(&mut std::io::stdout()));
    output::printed(printed).map_or_else(
        |failure| {
            if !failure.text.is_empty() {
                output::note(&failure.text);
            }
            failure.code
        },
        |()| exit::OK,
    )
}

/// Whether what was typed, as the error shows it, would steer a terminal.
fn steers(error: &clap::Error) -> bool {
    let steers = |text: &String| text.contains(steers_terminals);
    error.context().any(|(_, shown)| match shown {
        ContextValue::String(text) => steers(text),
        ContextValue::Strings(texts) => texts.iter().any(steers),
        _ => false,
    })
}

/// Takes arguments, and does nothing if they are not those that it knows.
type Helper = fn(&[String]) -> Option<()>;

/// What this program does beside a command, by its hidden verb.
fn helper(verb: &str) -> Option<Helper> {
    match verb {
        supervise::watchdog::VERB => Some(supervise::watchdog::main),
        supervise::keyboard::VERB => Some(supervise::keyboard::main),
        _ => None,
    }
}

/// Whether a program reads what is written.
fn wants_json() -> bool {
    std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json")
}

/// What was typed, and what holds besides.
struct Typed {
    args: Args,
    store: Option<Sourced<String>>,
    namespace: Option<Sourced<String>>,
    /// Whether the address for metrics was typed, or comes from the variable.
    #[cfg(feature = "serve")]
    metrics_from: telemetry::AddressFrom,
    /// Help is to be had also where they can't be read.
    settings: Result<Settings, Failure>,
}

impl Typed {
    /// Without any settings.
    fn of<V: Subcommand>(mut matches: ArgMatches) -> Result<Typed, clap::Error>
    where
        Args: From<Args<V>>,
    {
        let store = sourced(&matches, "store", "--store", STORE_VARIABLE);
        let namespace = sourced(&matches, "namespace", "--namespace", NAMESPACE_VARIABLE);
        #[cfg(feature = "serve")]
        let metrics_from = if is_of_variable(&matches, "metrics") {
            telemetry::AddressFrom::Variable
        } else {
            telemetry::AddressFrom::Option
        };
        let defaults = RunDefaults::of(&matches);
        let mut args: Args = Args::<V>::from_arg_matches_mut(&mut matches)?.into();
        if let Verb::Run(run) = &mut args.verb {
            defaults.fit(run);
        }
        let settings = Ok(Settings::default());
        Ok(Typed {
            args,
            store,
            namespace,
            #[cfg(feature = "serve")]
            metrics_from,
            settings,
        })
    }
}

/// What is typed. Where there is a command, what stands before it are units, also if they are called as the verbs below `work`.
fn parsed() -> Result<Typed, clap::Error> {
    let mut settings = Settings::read();
    let has_no_defaults = settings.as_ref().is_ok_and(|settings| settings.defaults.is_empty());
    if has_no_defaults && std::env::args_os().any(|word| word == "run") {
        // To describe all verbs to the parser takes half of all instructions before the store is asked. What is wrong is told below.
        let command = Args::<RunVerb>::command();
        if let Ok(typed) = command.try_get_matches().and_then(Typed::of::<RunVerb>) {
            return Ok(Typed { settings, ..typed });
        }
    }
    let mut applied = |command: fn() -> clap::Command| {
        let applied = match &settings {
            Ok(settings) => settings.apply(command()),
            Err(_) => Ok(command()),
        };
        applied.unwrap_or_else(|failure| {
            settings = Err(failure);
            command()
        })
    };
    // Examples are put in where help is asked for or something is wrong: to put them in costs as much as to parse.
    let matched_at_all = matched(applied(Args::<Verb>::command))
        .or_else(|_| matched(applied(args::command)))
        .or_else(|error| match error.kind() {
            // That is all of the help.
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Err(error),
            // What is typed of them, or is in the environment, would stand in the usage as if it had to be there.
            _ => matched(applied(|| args::command().mut_args(|option| option.hide(true)))),
        });
    let matches = matched_at_all.or_else(|error| {
        // A default that its option does not take is the file's mistake, and not of what was typed.
        let (false, Ok(without)) = (error.exit_code() == 0, matched(args::command())) else {
            return Err(error);
        };
        let reason = error.to_string();
        let reason = reason.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let refused = settings.as_ref().ok().and_then(|settings| settings.refused(&error));
        let place = refused.map_or_else(
            || "a default in a configuration file (see `tenure config`)".to_owned(),
            |default| format!("{}: {}", escaped(&default.file.to_string_lossy()), escaped(&default.shown())),
        );
        settings = Err(Failure::usage(format!("{place}: {reason}")));
        Ok(without)
    })?;
    Ok(Typed { settings, ..Typed::of::<Verb>(matches)? })
}

fn matched(mut command: clap::Command) -> Result<ArgMatches, clap::Error> {
    if std::env::args_os().any(|word| word == "--") {
        command = command.mut_subcommand("work", |work| {
            let verbs: Vec<String> = work.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
            // They can't be taken out; these are names that nobody types.
            let hidden = ["\n0", "\n1", "\n2", "\n3", "\n4"];
            let renamed = verbs.iter().zip(hidden);
            renamed.fold(work, |work, (verb, hidden)| work.mut_subcommand(verb, |it| it.name(hidden)))
        });
    }
    command.try_get_matches().map_err(|error| {
        let words: Vec<String> =
            std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        args::habits::told(error, &words)
    })
}

/// What is logged where nothing is said of logs: what operators do by an agent must be found afterwards, and so must what fails in it.
fn unasked_log(verb: &Verb) -> &'static str {
    match verb {
        #[cfg(feature = "serve")]
        Verb::Serve(_) => "tenure::agent=warn,tenure::agent::operator=info",
        _ => "",
    }
}

fn sourced(
    matches: &ArgMatches,
    name: &str,
    option: &'static str,
    variable: &'static str,
) -> Option<Sourced<String>> {
    let value = matches.get_one::<String>(name)?.clone();
    let source = if is_of_variable(matches, name) {
        SettingSource::Variable(variable)
    } else {
        SettingSource::Typed(option)
    };
    Some(Sourced { value, source })
}

fn is_of_variable(matches: &ArgMatches, name: &str) -> bool {
    matches.value_source(name) == Some(ValueSource::EnvVariable)
}

fn perform(typed: Typed) -> Result<u8, Failure> {
    match typed.args.verb {
        Verb::Completions(typed) => completions::completions(&typed),
        Verb::Sim(typed) => verbs::sim(&typed),
        Verb::Man(typed) => manual::manual(&typed),
        #[cfg(feature = "serve")]
        Verb::Ready(typed) => verbs::ready(&typed),
        verb => {
            let settings = typed.settings?;
            let own =
                verb.url().map(|url| Sourced { value: url.to_owned(), source: SettingSource::Typed("URL") });
            let chosen = settings.choose(own.or(typed.store), typed.namespace)?;
            if let Verb::Config(typed) = verb {
                return verbs::config(&settings, &chosen, &typed);
            }
            warn_of(&chosen, &verb);
            if verb.is_quiet() {
                output::be_quiet();
            }
            supervise::suspend::between_transactions();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
            telemetry::log(&typed.args.telemetry, unasked_log(&verb))?;
            let result = runtime.block_on(async {
                #[cfg(feature = "serve")]
                if let Some(address) = typed.args.telemetry.metrics {
                    let lacks = chosen.url.unmeasured();
                    telemetry::serve(address, typed.metrics_from, verb.stays(), lacks).await?;
                }
                on_store(&chosen.url, chosen.is_named(), verb).await
            });
            // What still hangs in a blocking call must not keep the process.
            runtime.shutdown_background();
            result
        }
    }
}

/// Says what of the chosen store its user may not expect.
fn warn_of(chosen: &Chosen, verb: &Verb) {
    /// Where the default store was before.
    const FORMER: &str = "leases.db";
    if chosen.url == Url::Memory && verb.excludes_others() {
        output::note(
            "memory: is this process's alone, so nobody else is excluded; name a store that others share",
        );
    }
    if !chosen.is_named() && std::path::Path::new(FORMER).exists() {
        let store = chosen.url.shown();
        output::note(format!(
            "the store is {store}, and not {FORMER} here as it once was: --store sqlite:{FORMER} names that"
        ));
    }
}

async fn on_store(url: &Url, is_named: bool, verb: Verb) -> Result<u8, Failure> {
    // On the heap: in this future, which is moved, there would be room for the largest of them.
    match verb {
        Verb::Run(typed) => Box::pin(verbs::run(url, typed.validated()?)).await,
        Verb::Elect(typed) => Box::pin(verbs::elect(url, typed.validated()?)).await,
        Verb::Cron(typed) => Box::pin(verbs::cron(url, typed.validated()?)).await,
        Verb::Hold(typed) => Box::pin(verbs::hold(url, typed.validated()?)).await,
        #[cfg(feature = "serve")]
        Verb::Serve(typed) => Box::pin(verbs::serve(url, typed.validated()?)).await,
        Verb::Leader(typed) => Box::pin(verbs::leader(url, &typed)).await,
        Verb::Range(typed) => Box::pin(verbs::range(url, typed.validated()?)).await,
        Verb::Work(args::WorkArgs { jobs: Some(typed), .. }) => Box::pin(verbs::jobs(url, typed)).await,
        Verb::Work(typed) if typed.forever => {
            Box::pin(work::fleet::forever(url, typed.validated_forever()?)).await
        }
        Verb::Fleet(typed) => Box::pin(verbs::fleet(url, is_named, typed)).await,
        Verb::Work(typed) => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            Box::pin(work::job::work(url, typed.validated(cores)?)).await
        }
        Verb::Ls(typed) => Box::pin(verbs::ls(url, &typed)).await,
        Verb::Show(typed) => Box::pin(verbs::show(url, &typed)).await,
        Verb::Wait(typed) => Box::pin(verbs::wait(url, &typed)).await,
        Verb::Rm(typed) => Box::pin(verbs::rm(url, &typed)).await,
        Verb::Release(typed) => Box::pin(verbs::release(url, &typed)).await,
        Verb::Reclaim(typed) => Box::pin(verbs::reclaim(url, &typed)).await,
        Verb::Revoke(typed) => Box::pin(verbs::revoke(url, &typed)).await,
        Verb::Gc(typed) => Box::pin(verbs::gc(url, &typed)).await,
        Verb::Doctor(typed) => Box::pin(verbs::doctor(url, &typed)).await,
        Verb::Bench(typed) => Box::pin(verbs::bench(url, is_named, typed.validated()?)).await,
        #[cfg(feature = "serve")]
        Verb::Ready(_) => Ok(exit::OK),
        Verb::Completions(_) | Verb::Config(_) | Verb::Man(_) | Verb::Sim(_) => Ok(exit::OK),
    }
}
