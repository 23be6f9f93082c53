//! A process that competes for a key: it works on the resource while it believes that it holds it, and logs when it does.

use super::{leases, open, orders, say};
use crate::raw;
use std::path::PathBuf;
use std::time::Duration;
use tenure::Guard;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

/// How it competes, as it is told by its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContenderSettings {
    pub(crate) url: String,
    pub(crate) key: String,
    pub(crate) resource: PathBuf,
    pub(crate) ttl: Duration,
    /// Its lease renews itself; otherwise it is attached to a session.
    pub(crate) own_heartbeat: bool,
    /// On purpose: it goes on for four ttls after its lease is over.
    pub(crate) overstays: bool,
}

impl ContenderSettings {
    pub(crate) fn words(&self) -> Vec<String> {
        vec![
            self.url.clone(),
            self.key.clone(),
            self.resource.display().to_string(),
            self.ttl.as_millis().to_string(),
            self.own_heartbeat.to_string(),
            self.overstays.to_string(),
        ]
    }

    pub(super) fn parse(words: &[&str]) -> Option<ContenderSettings> {
        let [url, key, resource, ttl, own_heartbeat, overstays] = words else { return None };
        Some(ContenderSettings {
            url: (*url).to_owned(),
            key: (*key).to_owned(),
            resource: PathBuf::from(resource),
            ttl: Duration::from_millis(ttl.parse().ok()?),
            own_heartbeat: *own_heartbeat == "true",
            overstays: *overstays == "true",
        })
    }
}

/// What it tells. Times are those of [`raw::now`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ContenderEvent {
    /// The store is open.
    Ready,
    /// It held the key at that time, and had not before.
    Began { fence: u64, at: u64, long: bool },
    /// It still held it then.
    Held { fence: u64, at: u64 },
    /// It is over: given up, as the store has confirmed or not, or lost.
    Ended { fence: u64, confirmed: bool },
    /// It holds nothing and wants nothing.
    Rests,
    /// Why it could not have it.
    Trouble(String),
}

impl ContenderEvent {
    fn line(&self) -> String {
        match self {
            ContenderEvent::Ready => "ready".to_owned(),
            ContenderEvent::Began { fence, at, long } => format!("began {fence} {at} {long}"),
            ContenderEvent::Held { fence, at } => format!("held {fence} {at}"),
            ContenderEvent::Ended { fence, confirmed } => format!("ended {fence} {confirmed}"),
            ContenderEvent::Rests => "rests".to_owned(),
            ContenderEvent::Trouble(text) => format!("trouble {}", text.replace('\n', " ")),
        }
    }

    pub(crate) fn parse(line: &str) -> Option<ContenderEvent> {
        let mut words = line.split(' ');
        let said = match words.next()? {
            "ready" => ContenderEvent::Ready,
            "rests" => ContenderEvent::Rests,
            "trouble" => return Some(ContenderEvent::Trouble(line["trouble".len()..].trim().to_owned())),
            kind => {
                let fence = words.next()?.parse().ok()?;
                let word = words.next()?;
                match kind {
                    "began" => {
                        ContenderEvent::Began { fence, at: word.parse().ok()?, long: words.next()? == "true" }
                    }
                    "held" => ContenderEvent::Held { fence, at: word.parse().ok()? },
                    "ended" => ContenderEvent::Ended { fence, confirmed: word == "true" },
                    _ => return None,
                }
            }
        };
        Some(said)
    }
}

/// What it was told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContenderOrder {
    /// Hold nothing.
    Rest,
    /// Get the key, have it for some milliseconds, and give it to the others.
    Flow,
    /// Get the key, and keep it.
    Hold,
}

pub(super) async fn run(settings: ContenderSettings) -> Result<(), String> {
    let mut lines = orders();
    let store = open(&settings.url, false).await?;
    let leases = leases(store, settings.ttl)?;
    let stream = UnixStream::connect(&settings.resource).await;
    let stream = stream.map_err(|error| format!("{}: {error}", settings.resource.display()))?;
    let (answers, writes) = stream.into_split();
    let mut resource = ResourceClient { answers: BufReader::new(answers), writes };
    let (order, mut told) = watch::channel(ContenderOrder::Rest);
    tokio::spawn(async move {
        while let Some(line) = lines.recv().await {
            order.send_replace(match line.as_str() {
                "flow" => ContenderOrder::Flow,
                "hold" => ContenderOrder::Hold,
                _ => ContenderOrder::Rest,
            });
        }
    });
    say(&ContenderEvent::Ready.line());
    loop {
        if *told.borrow_and_update() == ContenderOrder::Rest {
            say(&ContenderEvent::Rests.line());
            // The sender lives as long as the process.
            let _ = told.changed().await;
            continue;
        }
        let lock = leases.lock(&settings.key);
        let lock = if settings.own_heartbeat { lock.ttl(settings.ttl) } else { lock };
        let acquired = tokio::select! {
            acquired = lock.acquire() => acquired,
            _ = told.wait_for(|order| *order == ContenderOrder::Rest) => continue,
        };
        match acquired {
            Ok(guard) => tenure(guard, &mut told, &mut resource, &settings).await?,
            Err(error) => say(&ContenderEvent::Trouble(error.to_string()).line()),
        }
        // Others wait for it, too.
        tokio::time::sleep(Duration::from_millis(1 + raw::noise(15))).await;
    }
}

/// Works under the lease until it is over or enough.
async fn tenure(
    guard: Guard,
    told: &mut watch::Receiver<ContenderOrder>,
    resource: &mut ResourceClient,
    settings: &ContenderSettings,
) -> Result<(), String> {
    let (fence, start) = (guard.fence().0, raw::now());
    let enough = Duration::from_millis(4 + raw::noise(8));
    let long = *told.borrow() == ContenderOrder::Hold;
    let (mut began, mut last) = (false, start);
    loop {
        let was_over = !guard.is_held();
        // The clock is read before the question: belief that is found after a pause was there before it, too.
        let at = raw::now();
        let overstays = settings.overstays && began && raw::since(last) < 4 * settings.ttl;
        if guard.is_held() {
            last = at;
        } else if !overstays {
            break;
        }
        say(&if began {
            ContenderEvent::Held { fence, at }
        } else {
            ContenderEvent::Began { fence, at, long }
        }
        .line());
        began = true;
        resource.write(fence).await?;
        let order = *told.borrow();
        let is_kept = long && order == ContenderOrder::Hold;
        let is_enough = order == ContenderOrder::Rest || (!is_kept && raw::since(start) >= enough);
        // On purpose, who was stopped within a round goes on for another, though it is told meanwhile that this is enough.
        let goes_on = settings.overstays && !was_over && !guard.is_held();
        if is_enough && !goes_on {
            break;
        }
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
    let confirmed = guard.release().await;
    if began {
        say(&ContenderEvent::Ended { fence, confirmed }.line());
    }
    Ok(())
}

struct ResourceClient {
    answers: BufReader<OwnedReadHalf>,
    writes: OwnedWriteHalf,
}

impl ResourceClient {
    /// A write with that fence. Whether it is refused is the resource's matter: it keeps count.
    async fn write(&mut self, fence: u64) -> Result<(), String> {
        let mut answer = String::new();
        let written = self.writes.write_all(format!("{fence}\n").as_bytes()).await;
        let answered = match written {
            Ok(()) => self.answers.read_line(&mut answer).await.map(drop),
            Err(error) => Err(error),
        };
        answered.map_err(|error| format!("the resource is gone: {error}"))
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what is told is understood as it was meant; what was torn is not; so with settings.
    use super::*;

    #[test]
    fn what_is_told_is_understood() {
        for said in [
            ContenderEvent::Ready,
            ContenderEvent::Rests,
            ContenderEvent::Began { fence: 3, at: 4, long: true },
            ContenderEvent::Held { fence: 3, at: 5 },
            ContenderEvent::Ended { fence: 3, confirmed: false },
            ContenderEvent::Trouble("no answer".into()),
        ] {
            assert_eq!(ContenderEvent::parse(&said.line()), Some(said));
        }
        for torn in ["", "beg", "began 3", "held x 4", "began 3 4"] {
            assert_eq!(ContenderEvent::parse(torn), None, "{torn:?}");
        }
    }

    #[test]
    fn settings_are_understood() {
        let settings = ContenderSettings {
            url: "memory:".into(),
            key: "k".into(),
            resource: "/tmp/r".into(),
            ttl: Duration::from_secs(1),
            own_heartbeat: true,
            overstays: false,
        };
        let words = settings.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(ContenderSettings::parse(&words), Some(settings));
        assert_eq!(ContenderSettings::parse(&words[1..]), None);
    }
}
