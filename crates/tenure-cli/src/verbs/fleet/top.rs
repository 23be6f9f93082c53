//! `fleet top`: the fleet, live, on a terminal.

use super::screen::{FleetHistory, Screen, text};
use super::snapshot::Snapshot;
use crate::args::fleet as args;
use crate::config::fleet as config;
use crate::exit::{self, Failure};
use crate::output;
use crate::stores::{Missing, Url};
use crate::supervise::signals::Signals;
use crate::verbs::live::{self, Pressed, broken};
use nix::sys::signal::Signal;
use ratatui::DefaultTerminal;
use std::io::IsTerminal;
use std::time::Duration;
use tenure::Clock;
use tenure::clock::boottime;
use tenure::fleet::Fleet;

pub(super) async fn top(url: &Url, typed: &args::FleetTopArgs) -> Result<u8, Failure> {
    let name = config::name(&typed.fleet)?;
    let interval = live::interval(typed.interval, url)?;
    if !typed.once {
        live::check_terminal("say --once")?;
    }
    let fleet = super::open(url, &name, Missing::Look).await?;
    let began = boottime();
    let snapshot = super::snapshot_of_some(&fleet).await?;
    let pause = live::pause(interval, boottime().saturating_sub(began));
    let now = tenure::clock::system().now().wall;
    let mut screen = Screen {
        store: url.shown(),
        snapshot,
        history: FleetHistory::default(),
        now,
        trouble: None,
        scroll: 0,
        is_live: !typed.once,
    };
    screen.history.observe(&screen.snapshot, now);
    if typed.once {
        return once(&screen);
    }
    let mut signals = Signals::listen()?;
    let mut terminal = ratatui::try_init().map_err(broken)?;
    let ended = watch(&fleet, &mut screen, &mut terminal, &mut signals, (interval, pause)).await;
    ratatui::try_restore().map_err(broken)?;
    ended
}

fn once(screen: &Screen) -> Result<u8, Failure> {
    /// Wide enough for everything but very long names.
    const WIDTH: u16 = 160;
    let width =
        if std::io::stdout().is_terminal() { ratatui::crossterm::terminal::size().ok() } else { None };
    output::print(&text(screen, width.map_or(WIDTH, |(width, _)| width)))?;
    Ok(exit::OK)
}

async fn watch(
    fleet: &Fleet,
    screen: &mut Screen,
    terminal: &mut DefaultTerminal,
    signals: &mut Signals,
    (interval, pause): (Duration, Duration),
) -> Result<u8, Failure> {
    let mut keys = live::keys()?;
    let mut look = Box::pin(look(fleet, pause));
    loop {
        terminal.draw(|frame| frame.render_widget(&*screen, frame.area())).map_err(broken)?;
        tokio::select! {
            biased;
            signal = signals.next() => return Err(Failure::by_signal(signal)),
            key = keys.recv() => match key {
                Some(Pressed::Scroll(lines)) => screen.scroll_by(lines),
                Some(Pressed::Interrupt) => return Err(Failure::by_signal(Signal::SIGINT as i32)),
                Some(Pressed::Other) => {}
                // Or the terminal is gone.
                Some(Pressed::Quit) | None => return Ok(exit::OK),
            },
            (seen, took) = &mut look => {
                let pause = match seen {
                    Ok(snapshot) => {
                        screen.take(snapshot, tenure::clock::system().now().wall);
                        live::pause(interval, took)
                    }
                    Err(failure) => {
                        screen.trouble = Some(failure.text);
                        interval
                    }
                };
                look = Box::pin(self::look(fleet, pause));
            }
        }
    }
}

/// A look after a pause, and how long it took.
async fn look(fleet: &Fleet, pause: Duration) -> (Result<Snapshot, Failure>, Duration) {
    tokio::time::sleep(pause).await;
    let began = boottime();
    let seen = super::snapshot(fleet).await;
    (seen, boottime().saturating_sub(began))
}
