//! `fleet top`: the fleet, live, on a terminal.

use super::screen::{FleetHistory, Screen, text};
use super::snapshot::Snapshot;
use crate::args::fleet as args;
use crate::config::fleet as config;
use crate::exit::{self, Failure};
use crate::output;
use crate::stores::{Missing, Url};
use crate::verbs::live::{self, LiveScreen};
use ratatui::Frame;
use std::io::IsTerminal;
use tenure::Clock;
use tenure::clock::boottime;

pub(super) async fn top(url: &Url, typed: &args::FleetTopArgs) -> Result<u8, Failure> {
    let name = config::name(&typed.fleet)?;
    let interval = live::interval(typed.interval, url)?;
    if !typed.once {
        live::check_terminal("say --once")?;
    }
    let fleet = super::open(url, &name, Missing::Look).await?;
    let began = boottime();
    let snapshot = super::snapshot_of_some(&fleet).await?;
    let took = boottime().saturating_sub(began);
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
    live::watch(&mut screen, async || super::snapshot(&fleet).await, interval, took).await
}

fn once(screen: &Screen) -> Result<u8, Failure> {
    /// Wide enough for everything but very long names.
    const WIDTH: u16 = 160;
    let width =
        if std::io::stdout().is_terminal() { ratatui::crossterm::terminal::size().ok() } else { None };
    output::print(&text(screen, width.map_or(WIDTH, |(width, _)| width)))?;
    Ok(exit::OK)
}

impl LiveScreen<Snapshot> for Screen {
    fn draw(&self, frame: &mut Frame<'_>) {
        frame.render_widget(self, frame.area());
    }

    fn scroll_by(&mut self, lines: isize) {
        Screen::scroll_by(self, lines);
    }

    fn take(&mut self, seen: Result<Snapshot, Failure>) {
        match seen {
            Ok(snapshot) => self.renew(snapshot, tenure::clock::system().now().wall),
            Err(failure) => self.trouble = Some(failure.text),
        }
    }
}
