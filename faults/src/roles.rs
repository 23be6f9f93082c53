//! The processes that a run starts besides servers: this program again, in another role.

mod contender;
mod leader;
mod probe;
mod proxy;

pub(crate) use contender::{ContenderEvent, ContenderSettings};

use std::sync::Arc;
use std::time::Duration;
use tenure::registry::{Opening, Registry};
use tenure::{AnyStore, Leases, clock};
use tokio::sync::mpsc;

/// Runs one, if the words name one.
pub(crate) fn run(words: &[String]) -> Option<Result<(), String>> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (role, rest) = words.split_first()?;
    let act = async {
        match *role {
            "contend" => Some(contender::run(ContenderSettings::parse(rest)?).await),
            "probe" => Some(probe::run(rest).await),
            "proxy" => Some(proxy::run(rest).await),
            _ => None,
        }
    };
    if *role == "lead" {
        return Some(leader::run(rest));
    }
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(act),
        Err(error) => Some(Err(error.to_string())),
    }
}

/// What it is told, line by line. The end of that is the end of the process, as whoever started it is gone.
fn orders() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
        std::process::exit(0);
    });
    receiver
}

/// Tells whoever started it. One line is one write, so that a kill can't tear it.
fn say(line: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    if out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

async fn open(url: &str, create_table: bool) -> Result<AnyStore, String> {
    let opening = Opening::default().create_table(create_table);
    Registry::standard().open(url, opening).await.map_err(|error| error.to_string())
}

fn leases(store: AnyStore, ttl: Duration) -> Result<Leases, String> {
    let builder = Leases::builder(store).session_ttl(ttl).poll(Duration::from_millis(40));
    let builder = builder.clock(Arc::new(clock::SystemClock::new())).store_patience(Duration::MAX);
    builder.start().map_err(|error| error.to_string())
}
