//! `tenure hold`: a lease for the program that has started this one, told of line by line.

use crate::config::{self, WaitLimit};
use crate::exit::{self, Failure};
use crate::output;
use crate::output::lines::OutputQueue;
use crate::stores::Url;
use crate::supervise::lease::ReleaseEnd;
use crate::supervise::opened::OpenedStore;
use crate::supervise::outage::Outage;
use crate::supervise::signals::Signals;
use crate::text::{brief, date};
use crate::verbs::run::holder;
use crate::verbs::waiting::{about_occupant, told};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{getpgrp, tcgetpgrp};
use serde_json::{Value, json};
use std::io::{IsTerminal, Read};
use std::os::fd::AsFd;
use std::pin::pin;
use std::time::Duration;
use tenure::clock::{boottime, boottime_line};
use tenure::{AcquireError, Guard, Key, Leases, Loss, Request, Wall};
use tenure_core::time::millis;
use tokio::sync::oneshot;

pub(crate) async fn hold(url: &Url, plan: config::HoldConfig) -> Result<u8, Failure> {
    url.check_ttl(plan.ttl)?;
    let mut signals = Signals::listen()?;
    let outage = Outage::new(plan.patience != WaitLimit::Try);
    let opened = signals.unless(OpenedStore::open(url, plan.await_store, outage)).await??;
    let leases = opened.leases().store_patience(Duration::MAX).start()?;
    let input = input_ends()?;
    let result = held(&leases, &plan, input, &opened, &mut signals).await;
    signals.farewell(&result, plan.ttl, leases.stop()).await;
    result
}

/// Told when standard input ends: whoever wanted the lease is done with it, or gone.
fn input_ends() -> Result<oneshot::Receiver<()>, Failure> {
    let (sender, ends) = oneshot::channel();
    let read = move || {
        let (mut input, mut buffer) = (std::io::stdin().lock(), [0; 4096]);
        // What is written there means nothing. What can't be read has ended.
        while is_not_for_us(&input) || matches!(input.read(&mut buffer), Ok(1..)) {}
        drop(sender);
    };
    let thread = std::thread::Builder::new().name("input".to_owned()).spawn(read);
    thread.map(|_| ends).map_err(Failure::no_thread)
}

/// Whether it is a terminal that has nothing for this process; returns soon then. To read it in the background would stop all of this process,
/// and no signal could end it.
fn is_not_for_us(input: &(impl AsFd + IsTerminal)) -> bool {
    const PAUSE: Duration = Duration::from_millis(200);
    if !input.is_terminal() {
        return false;
    }
    if tcgetpgrp(input).is_ok_and(|front| front != getpgrp()) {
        std::thread::sleep(PAUSE);
        return true;
    }
    let pause = PollTimeout::try_from(PAUSE).unwrap_or(PollTimeout::NONE);
    poll(&mut [PollFd::new(input.as_fd(), PollFlags::POLLIN)], pause) == Ok(0)
}

async fn held(
    leases: &Leases,
    plan: &config::HoldConfig,
    mut input: oneshot::Receiver<()>,
    opened: &OpenedStore,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let lock = leases.lock(plan.key.as_str()).ttl(plan.ttl).metadata(plan.about.metadata());
    let acquired = async {
        match plan.patience {
            WaitLimit::Try => lock.try_acquire().await,
            WaitLimit::Within(wait) => lock.acquire_within(wait).await,
            WaitLimit::Forever => lock.acquire().await,
        }
    };
    let keys = [&plan.key];
    let acquired = opened.file.unless_gone(plan.ttl, told(leases, &keys, plan.patience, acquired));
    let acquired = tokio::select! {
        acquired = signals.unless(acquired) => acquired??,
        // Nobody wants it any more. A try is over soon, and says more.
        _ = &mut input, if plan.patience != WaitLimit::Try => {
            let text = format!("{}: standard input ended before the lease was had", plan.key);
            return Err(Failure::new(exit::HELD, text));
        }
    };
    let about = match &acquired {
        Err(AcquireError::Held(Some(by))) => about_occupant(leases, &keys, by).await,
        _ => None,
    };
    let guard = acquired.map_err(|error| match error {
        AcquireError::Held(by) => {
            Failure::new(exit::HELD, format!("{} is held{}", plan.key, holder(by, about)))
        }
        AcquireError::Store(error) => Failure::about(&plan.key, error),
        error => error.into(),
    })?;
    let (lines, mut broken) = OutputQueue::start()?;
    let (holder, boot) = (leases.holder().as_str().to_owned(), boottime_line());
    let latest = plan.at_most.map_or(Duration::MAX, |longest| boottime().saturating_add(longest));
    let teller = HoldReporter { json: plan.json, holder, boot, lines, latest };
    let ended = tokio::select! {
        // Whoever reads this hears of the lease before it hears of its end, also where that has come already.
        biased;
        loss = tell_all(&teller, leases, &guard) => Ok(Some(loss)),
        Ok(failure) = &mut broken => {
            // Nobody is told any more, so nobody has the lease.
            let _given_back = signals.unless(tokio::time::timeout(plan.ttl, guard.release())).await;
            return Err(failure);
        }
        _ = &mut input => Ok(None),
        signal = signals.next() => Err(Failure::by_signal(signal)),
    };
    let ended = match ended {
        Err(failure) if plan.is_until_eof => part(&teller, &guard, &mut input, signals, failure).await,
        ended => ended,
    };
    if let Ok(Some(loss)) = ended {
        teller.lost(guard.key(), &loss.to_string(), Some(&loss));
        let text = format!("{}: {}", plan.key, output::Lost::of(&loss));
        if loss == Loss::Overran {
            // Nobody goes by it any more: no later deadline was told.
            let _given_back = signals.unless(tokio::time::timeout(plan.ttl, guard.release())).await;
        }
        // Why it ends is told by its status, too.
        let _told = signals.unless(teller.lines.end(broken, LAST_WORDS)).await;
        return Err(Failure::new(exit::LOST, text));
    }
    let key = guard.key().clone();
    let (mut is_given, left) = (false, teller.remaining(&guard));
    let release = async {
        is_given = guard.release().await;
        is_given
    };
    let release = ReleaseEnd::of(release, &opened.outage, left);
    let release_end = {
        let mut release = pin!(tokio::time::timeout(plan.ttl, release));
        match signals.unless(release.as_mut()).await {
            // Input has ended, and the first signal asks for no more than that has. A second one is obeyed at once.
            Err(_) if ended.is_ok() => match signals.unless(release).await {
                Err(failure) => return Err(Failure { is_urgent: true, ..failure }),
                end => end,
            },
            end => end,
        }
    };
    let is_lost = matches!(release_end, Ok(Ok(ReleaseEnd::FoundLost)));
    if is_given {
        teller.tell(json!({ "event": "released", "key": key.as_str() }), || format!("released {key}"));
    } else if is_lost {
        teller.lost(&key, FOUND_LATE, None);
    }
    let told = signals.unless(teller.lines.end(broken, LAST_WORDS)).await;
    if is_lost && ended.is_ok() {
        return Err(Failure::new(exit::LOST, format!("{key}: the lease is lost, {FOUND_LATE}")));
    }
    ended.and(told.and_then(|told| told)).map(|()| exit::OK)
}

/// A signal has come, which the reader may have got, too, and it acts under the lease still. So the lease is given back once the reader is done, or
/// can't believe in it any more: no deadline was told that is later than the lease's. A second signal is obeyed at once.
async fn part(
    teller: &HoldReporter,
    guard: &Guard,
    input: &mut oneshot::Receiver<()>,
    signals: &mut Signals,
    failure: Failure,
) -> Result<Option<Loss>, Failure> {
    let left = teller.remaining(guard);
    teller.asked(guard, Request::Revoke);
    tokio::select! {
        biased;
        loss = guard.lost() => Ok(Some(loss)),
        _ = input => Ok(None),
        () = tokio::time::sleep(left) => Err(failure),
        signal = signals.next() => Err(Failure::by_signal(signal)),
    }
}

/// Why it is lost where nothing more is known.
const FOUND_LATE: &str = "as was found when it was to be given up";

/// How long it is waited for that the last lines are read. Nobody may.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Tells what becomes of the lease, until it is lost. Who reads slowly is told the newest deadline, and not each.
async fn tell_all(teller: &HoldReporter, leases: &Leases, guard: &Guard) -> Loss {
    let now = || leases.clock().now().wall;
    let mut told = teller.deadline("acquired", guard, now());
    // A renewal comes in each third of a ttl.
    let pause = Duration::from_millis(5).max(teller.remaining(guard) / 20);
    loop {
        tokio::select! {
            biased;
            loss = guard.lost() => return loss,
            ask = guard.asked() => teller.asked(guard, ask),
            () = tokio::time::sleep(pause.min(teller.remaining(guard))) => {
                let left = teller.remaining(guard);
                if left.is_zero() && guard.is_held() {
                    return Loss::Overran;
                }
                let until = boottime() + left;
                if until > told + pause && !teller.lines.is_behind() {
                    told = teller.deadline("extended", guard, now());
                }
            }
        }
    }
}

/// Says what happens, as objects or in words.
struct HoldReporter {
    json: bool,
    holder: String,
    /// The name of this host's time line.
    boot: Option<String>,
    lines: OutputQueue,
    /// When it was had for as long as it may be, since boot.
    latest: Duration,
}

impl HoldReporter {
    fn tell(&self, object: Value, words: impl FnOnce() -> String) {
        let line = if self.json { output::json::line(&object) } else { words() };
        self.lines.tell(format!("{line}\n"));
    }

    /// How long its reader may go by it.
    fn remaining(&self, guard: &Guard) -> Duration {
        guard.remaining().min(self.latest.saturating_sub(boottime()))
    }

    /// The deadline that it tells, since boot.
    fn deadline(&self, event: &str, guard: &Guard, now: Wall) -> Duration {
        let (boot, left) = (boottime(), self.remaining(guard));
        let until = Wall(now.0.saturating_add(millis(left)));
        let mut object = json!({
            "event": event,
            "key": guard.key().as_str(),
            "fence": guard.fence().0,
            "remaining_ms": millis(left),
            "deadline": format!("{until:.3}"),
            "deadline_boottime_ms": millis(boot + left),
        });
        if let Some(line) = &self.boot {
            object["boot"] = line.as_str().into();
        }
        if event == "acquired" {
            object["holder"] = self.holder.as_str().into();
        }
        let (key, fence) = (guard.key(), guard.fence());
        self.tell(object, || {
            format!("{event} {key} with fence {fence} until {} ({})", date(until), brief(left))
        });
        boot + left
    }

    fn asked(&self, guard: &Guard, request: Request) {
        let what = request.to_string();
        let key = guard.key();
        self.tell(json!({ "event": "asked", "key": key.as_str(), "ask": what }), || {
            format!("asked of {key}: {what}")
        });
    }

    /// `loss`: where it is known.
    fn lost(&self, key: &Key, reason: &str, loss: Option<&Loss>) {
        let mut object = json!({ "event": "lost", "key": key.as_str(), "reason": reason });
        if let Some(loss) = loss {
            object["loss"] = loss.name().into();
        }
        self.tell(object, || format!("lost {key}: {reason}"));
    }
}
