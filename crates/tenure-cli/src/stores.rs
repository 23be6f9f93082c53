//! Stores by URL.

pub(crate) mod away;
pub(crate) mod file;
mod least_ttl;
#[cfg(feature = "less")]
pub(crate) mod less;
mod missing;
pub(crate) mod pages;
mod removal;
pub(crate) mod rewrite;
mod secrets;
pub(crate) mod side_by_side;

pub(crate) use removal::{RecordRemoval, remove_patiently};

use crate::exit::Failure;
use crate::text::escaped;
use secrets::without_secrets;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
#[cfg(feature = "dynamodb")]
use tenure::dynamodb::Dialect;
use tenure::registry::{Opening, Registry, feature_of};
use tenure::{AnyStore, Clock, StoreError};

/// What `--version` tells: the version, and the stores that this build can open.
pub(crate) static VERSION: LazyLock<String> = LazyLock::new(|| {
    let stores = Registry::standard().ids().collect::<Vec<_>>().join(", ");
    format!("{}\nstores: {stores}", env!("CARGO_PKG_VERSION"))
});

/// A store as named by `--store`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Url {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// The one that nobody has named, whose directory is made with it.
    Default(PathBuf),
    /// This process's memory: gone when it ends.
    Memory,
    /// One behind a service, as the library's registry of stores understands it.
    Service(String),
}

/// Whether a store that isn't there yet is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Create,
    Refuse,
    /// Nor is one written, if this process can't.
    Look,
    /// Made, also where that costs money.
    CreateTable,
}

impl Missing {
    /// As one that only looks is treated.
    fn or_look(self) -> Missing {
        if self == Missing::Look { Missing::Refuse } else { self }
    }
}

/// What is said of a URL whose scheme is none of those that this build knows.
fn not_built_in(scheme: &str, known: &str) -> Failure {
    let scheme: String = scheme.chars().take(20).collect();
    Failure::usage(match feature_of(&scheme) {
        Some(feature) => format!(
            "this build of tenure can't open \"{scheme}:\" (it knows {known}); \
             install one with --features {feature}, or --features all-stores"
        ),
        None => format!("no store has the scheme \"{}:\"; this build knows {known}", escaped(&scheme)),
    })
}

impl Url {
    /// Reads a URL. Errors never repeat more of it than the scheme: the rest may hold a password.
    pub(crate) fn parse(text: &str) -> Result<Url, Failure> {
        let registry = Registry::standard();
        let services = || registry.ids().filter(|id| !["sqlite", "memory"].contains(id));
        let known = || {
            let services: String = services().map(|id| format!(", {id}://…")).collect();
            format!("sqlite:PATH, memory:{services}")
        };
        let Some((scheme, rest)) = text.split_once(':') else {
            let shown = escaped(text);
            let hint =
                if text.is_empty() { String::new() } else { format!("; for a file, write sqlite:{shown}") };
            return Err(Failure::usage(format!(
                "the store {shown:?} is not a URL{hint} (this build knows {})",
                known()
            )));
        };
        match scheme {
            "sqlite" => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                if path != rest && path.split('/').next().is_some_and(|host| host.contains('@')) {
                    return Err(Failure::usage(
                        "the store sqlite: is a file, and has no user and no host; write sqlite:PATH",
                    ));
                }
                if path.is_empty() || path.contains('\0') {
                    return Err(Failure::usage(
                        "the store sqlite: names no file; write sqlite:leases.db, for example",
                    ));
                }
                // A shell makes a directory of it at the beginning of a word only.
                if let Some(rest) = path.strip_prefix("~/")
                    && !std::path::Path::new("~").is_dir()
                {
                    return Err(Failure::usage(format!(
                        "the store sqlite:{}: ~ stands for nothing there; write the whole path, in a shell sqlite:$HOME/{}",
                        escaped(path),
                        escaped(rest)
                    )));
                }
                check_options(path)?;
                Ok(Url::Sqlite(PathBuf::from(path)))
            }
            "memory" if rest.is_empty() => Ok(Url::Memory),
            "memory" => Err(Failure::usage("the store memory: takes nothing after the colon")),
            scheme if services().any(|id| id == scheme) => Ok(Url::Service(text.to_owned())),
            scheme => Err(not_built_in(scheme, &known())),
        }
    }

    /// The file, if it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Url::Sqlite(path) | Url::Default(path) => Some(path),
            Url::Memory | Url::Service(_) => None,
        }
    }

    /// Its file, which was just opened, if it is one.
    pub(crate) fn watch(&self) -> file::FileWatch {
        file::FileWatch::of(self.path())
    }

    /// The table of less's, if this names one.
    #[cfg(feature = "less")]
    pub(crate) fn of_less(&self) -> Result<Option<less::LessLocation>, Failure> {
        less::LessLocation::of(&self.plain())
    }

    /// Over how many partition keys its records are spread, if it is a namespace of a DynamoDB table.
    pub(crate) fn shards(&self) -> Option<u16> {
        #[cfg(feature = "dynamodb")]
        if let Url::Service(url) = self
            && let Some(rest) = url.strip_prefix("dynamodb:")
        {
            return tenure::dynamodb::DynamoConfig::from_url(rest).ok().map(|config| config.shard_count());
        }
        None
    }

    /// The same without push, where that can be why it can't be opened: a user of Redis may lack the right to subscribe.
    pub(crate) fn without_push(&self) -> Option<Url> {
        let Url::Service(url) = self else { return None };
        let scheme = url.split(':').next().unwrap_or_default();
        if !["redis", "rediss"].contains(&scheme) || url.contains("push=") {
            return None;
        }
        let sign = if url.contains('?') { '&' } else { '?' };
        Some(Url::Service(format!("{url}{sign}push=off")))
    }

    /// Whether it names records in the layout of other programs.
    pub(crate) fn has_dialect(&self) -> bool {
        self.plain().split(['?', '&']).skip(1).any(|option| option.starts_with("dialect="))
    }

    /// The dialect of a table on which nothing is measured, if it is such a one.
    #[cfg(feature = "serve")]
    pub(crate) fn unmeasured(&self) -> Option<&'static str> {
        let options = self.plain();
        let named = |dialect| options.split(['?', '&']).skip(1).any(|option| option == dialect);
        ["dialect=kcl", "dialect=tabletheory"].into_iter().find(|dialect| named(*dialect))
    }

    /// What follows `dynamodb:`, if this is a table in the layout of that dialect.
    #[cfg(feature = "dynamodb")]
    pub(crate) fn of_dialect(&self, wanted: Dialect) -> Result<Option<&str>, Failure> {
        let Url::Service(url) = self else { return Ok(None) };
        let Some(rest) = url.strip_prefix("dynamodb:") else { return Ok(None) };
        Ok(Dialect::of_url(rest)?.filter(|dialect| *dialect == wanted).map(|_| rest))
    }

    /// Whether each read is paid for.
    pub(crate) fn bills_reads(&self) -> bool {
        matches!(self, Url::Service(url) if url.starts_with("dynamodb:"))
    }

    /// Whether several hosts use it, each with a clock of its own.
    pub(crate) fn is_of_hosts(&self) -> bool {
        matches!(self, Url::Service(_))
    }

    /// As it may be shown.
    pub(crate) fn shown(&self) -> String {
        match self {
            Url::Sqlite(path) | Url::Default(path) => format!("sqlite:{}", escaped(&path.to_string_lossy())),
            Url::Memory => "memory:".to_owned(),
            Url::Service(url) => escaped(&without_secrets(url)),
        }
    }

    /// Opens the store.
    pub(crate) async fn open(&self, missing: Missing, clock: Arc<dyn Clock>) -> Result<AnyStore, Failure> {
        if self.plain().split(['?', '&']).skip(1).any(|option| option == "dialect=less") {
            return Err(Failure::usage(if cfg!(feature = "less") {
                "the table of less holds elections only: use elect, leader or doctor on it"
            } else {
                "this build of tenure does not know less's table; install one with --features less, or --features all-stores"
            }));
        }
        if let (Some(path), Missing::Refuse) = (self.path(), missing.or_look()) {
            missing::look_for(path, matches!(self, Url::Default(_)))?;
        }
        let create_table = missing == Missing::CreateTable;
        if create_table && !matches!(self, Url::Service(_)) {
            return Err(Failure::usage(format!(
                "--create-table is for stores behind a service; {} is made when it is first used",
                self.shown()
            )));
        }
        if let (Url::Default(path), Missing::Create) = (self, missing) {
            missing::make_directory_of(path)?;
        }
        let look = missing == Missing::Look;
        if look && self.is_read_only() {
            let text =
                "is read-only for this process: it is shown as it is now, and nothing in it can be changed";
            crate::output::note(format!("{} {text}", self.shown()));
        } else if look && self.is_short_of_space() {
            let text =
                "has no space left on its disk: it is shown as it is now, and nothing may be changed in it";
            crate::output::note(format!("{} {text}", self.shown()));
        }
        let opening =
            Opening::default().create(missing == Missing::Create).create_table(create_table).here(true);
        Ok(Registry::standard().open(&self.plain(), opening.look(look).clock(clock)).await?)
    }

    /// Whether it is a file that this process can't write, or in a directory where it can't.
    pub(crate) fn is_read_only(&self) -> bool {
        use nix::unistd::{AccessFlags, access};
        self.path().is_some_and(|path| {
            let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
            path.exists() && [path, directory].iter().any(|path| access(path, AccessFlags::W_OK).is_err())
        })
    }

    /// Whether it is a file on a disk that is full.
    pub(crate) fn is_short_of_space(&self) -> bool {
        self.path().is_some_and(tenure::sqlite::is_full)
    }

    /// As another process of this program can read it; none if that could not open the same.
    pub(crate) fn told(&self) -> Option<String> {
        let is_text = self.path().is_none_or(|path| path.to_str().is_some());
        (is_text && *self != Url::Memory).then(|| self.plain())
    }

    /// As the library's registry of stores understands it.
    fn plain(&self) -> String {
        match self {
            Url::Sqlite(path) | Url::Default(path) => format!("sqlite:{}", path.to_string_lossy()),
            Url::Memory => "memory:".to_owned(),
            Url::Service(url) => url.clone(),
        }
    }
}

/// In a table of less's there are options; in a file of tenure's there are none. With one that is misspelt, a new file would be made, and nobody else
/// would look there for leases.
fn check_options(path: &str) -> Result<(), Failure> {
    if let Some((plain, options)) = path.split_once('?')
        && options.contains('=')
    {
        let plain = escaped(plain);
        let dialect = options.split('&').find_map(|option| option.strip_prefix("dialect="));
        return match dialect {
            Some("less") => Ok(()),
            Some(other) => Err(Failure::usage(format!(
                "there is no dialect \"{}\" of an SQLite file: write sqlite:{plain}, or sqlite:{plain}?dialect=less for the table of less's in it",
                escaped(other)
            ))),
            None => Err(Failure::usage(format!("a file of SQLite takes no options: write sqlite:{plain}"))),
        };
    }
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_like_options = name.contains(['?', '#']) || name.contains('&') && name.contains('=');
    if is_like_options && !std::path::Path::new(path).exists() {
        return Err(Failure::usage(format!(
            "there is no file {}, and an SQLite file takes no options: name it without them, or make it first if that is its name",
            escaped(path)
        )));
    }
    Ok(())
}

/// Between the attempts at a call whose failure may pass.
const PAUSES_MS: [u64; 5] = [50, 100, 200, 400, 800];

/// Repeats a call while its failure may pass, for some seconds.
pub(crate) async fn patiently<T>(
    mut call: impl AsyncFnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    for pause in PAUSES_MS {
        match call().await {
            Err(error) if error.is_passing() => tokio::time::sleep(Duration::from_millis(pause)).await,
            result => return result,
        }
    }
    call().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_named_by_url() {
        assert_eq!(Url::parse("sqlite:a b.db").unwrap(), Url::Sqlite("a b.db".into()));
        assert_eq!(Url::parse("sqlite:///var/x.db").unwrap(), Url::Sqlite("/var/x.db".into()));
        assert_eq!(Url::parse("sqlite:///v@r/x.db").unwrap(), Url::Sqlite("/v@r/x.db".into()));
        assert_eq!(Url::parse("sqlite:u@h/x.db").unwrap(), Url::Sqlite("u@h/x.db".into()));
        assert_eq!(Url::parse("sqlite:x.db?dialect=less").unwrap(), Url::Sqlite("x.db?dialect=less".into()));
        assert_eq!(Url::parse("memory:").unwrap(), Url::Memory);
        #[cfg(feature = "dynamodb")]
        assert_eq!(Url::parse("dynamodb://t?x=y").unwrap(), Url::Service("dynamodb://t?x=y".into()));
        for bad in [
            "",
            "leases.db",
            "sqlite:",
            "sqlite:x.db?mode=ro",
            "sqlite://u:secret@h/d",
            "memory:x",
            "paper://u:secret@h/d",
        ] {
            let error = Url::parse(bad).unwrap_err();
            assert_eq!(error.code, crate::exit::USAGE, "{bad}");
            assert!(!error.text.contains("secret"), "{error}");
        }
    }

    #[test]
    fn options_that_a_file_does_not_have_are_refused_before_they_name_a_new_one() {
        for (url, says) in [
            (
                "sqlite:j.db?dialect=les",
                "no dialect \"les\" of an SQLite file: write sqlite:j.db, or sqlite:j.db?dialect=less",
            ),
            ("sqlite:j.db?dialect=Less", "no dialect \"Less\""),
            ("sqlite:j.db?dialect=kcl", "no dialect \"kcl\""),
            ("sqlite:/d/j.db?skew_ms=5&dialect=tabletheory", "write sqlite:/d/j.db, or"),
            ("sqlite:j.db?Dialect=less", "takes no options: write sqlite:j.db"),
            ("sqlite:j.db?push", "there is no file j.db?push"),
            ("sqlite:j.db?", "there is no file j.db?,"),
            ("sqlite:j.db#x", "there is no file j.db#x"),
            ("sqlite:j.db&namespace=x", "there is no file j.db&namespace=x"),
        ] {
            let error = Url::parse(url).unwrap_err();
            assert!(error.code == crate::exit::USAGE && error.text.contains(says), "{url}: {error}");
        }
        // Directories may be called anything, and so may files that are there.
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("c#?").join("j.db?a");
        std::fs::create_dir(there.parent().unwrap()).unwrap();
        let url = |file: &Path| format!("sqlite:{}", file.display());
        assert!(Url::parse(&url(&there)).is_err());
        std::fs::write(&there, "").unwrap();
        for file in [there.clone(), there.with_file_name("j.db")] {
            assert_eq!(Url::parse(&url(&file)).unwrap(), Url::Sqlite(file));
        }
        assert!(Url::parse("sqlite:j.db?dialect=less&skew_ms=5").is_ok());
    }

    #[test]
    fn a_store_that_is_not_built_in_is_named_with_its_feature() {
        let known = "sqlite:PATH, memory:";
        for (scheme, feature) in [
            ("postgres", "postgres"),
            ("postgresql", "postgres"),
            ("redis", "redis"),
            ("rediss", "redis"),
            ("etcd", "etcd"),
            ("etcds", "etcd"),
            ("dynamodb", "dynamodb"),
        ] {
            let failure = not_built_in(scheme, known);
            let says = format!(
                "can't open \"{scheme}:\" (it knows {known}); install one with --features {feature},"
            );
            assert!(failure.code == crate::exit::USAGE && failure.text.contains(&says), "{failure}");
        }
        let failure = not_built_in("paper", known);
        assert!(failure.text.contains("no store has the scheme \"paper:\"; this build knows"), "{failure}");
    }
}
