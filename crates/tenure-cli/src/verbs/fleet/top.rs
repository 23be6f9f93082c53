//! `fleet top`: the fleet, live, on a terminal.

use super::screen::{History, Screen, text};
use super::snapshot::Snapshot;
use crate::args::fleet as args;
use crate::config::fleet as config;
use crate::exit::{self, Failure};
use crate::output;
use crate::stores::{Missing, Url};
use crate::supervise::signals::Signals;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io::IsTerminal;
use std::time::Duration;
use tenure::Clock;
use tenure::fleet::Fleet;
use tokio::sync::mpsc;

pub(super) async fn top(url: &Url, typed: &args::Top) -> Result<u8, Failure> {
    const SHORTEST: Duration = Duration::from_millis(100);
    let name = config::name(&typed.fleet)?;
    if typed.interval < SHORTEST {
        return Err(Failure::usage("--interval is below 100ms, which is often enough to look"));
    }
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !typed.once && !is_terminal {
        return Err(Failure::usage("top needs a terminal; for one snapshot as text, say --once"));
    }
    let fleet = super::open(url, &name, Missing::Look).await?;
    let snapshot = super::snapshot_of_some(&fleet).await?;
    let now = tenure::clock::system().now().wall;
    let mut screen = Screen {
        store: url.shown(),
        snapshot,
        history: History::default(),
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
    let ended = watch(&fleet, &mut screen, &mut terminal, &mut signals, typed.interval).await;
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

fn broken(error: std::io::Error) -> Failure {
    Failure::new(exit::INTERNAL, format!("the terminal can't be used: {error}"))
}

async fn watch(
    fleet: &Fleet,
    screen: &mut Screen,
    terminal: &mut DefaultTerminal,
    signals: &mut Signals,
    interval: Duration,
) -> Result<u8, Failure> {
    let mut keys = keys().map_err(broken)?;
    let mut look = Box::pin(look(fleet, interval));
    loop {
        terminal.draw(|frame| frame.render_widget(&*screen, frame.area())).map_err(broken)?;
        tokio::select! {
            biased;
            signal = signals.next() => return Err(Failure::by_signal(signal)),
            key = keys.recv() => match key {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if let Some(ended) = press(screen, key) {
                        return ended;
                    }
                }
                Some(_) => {}
                // The terminal is gone.
                None => return Ok(exit::OK),
            },
            seen = &mut look => {
                match seen {
                    Ok(snapshot) => screen.take(snapshot, tenure::clock::system().now().wall),
                    Err(failure) => screen.trouble = Some(failure.text),
                }
                look = Box::pin(self::look(fleet, interval));
            }
        }
    }
}

async fn look(fleet: &Fleet, pause: Duration) -> Result<Snapshot, Failure> {
    tokio::time::sleep(pause).await;
    super::snapshot(fleet).await
}

fn press(screen: &mut Screen, key: KeyEvent) -> Option<Result<u8, Failure>> {
    const PAGE: isize = 10;
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return Some(Ok(exit::OK)),
        // A terminal in raw mode sends no signal.
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            return Some(Err(Failure::by_signal(nix::sys::signal::Signal::SIGINT as i32)));
        }
        KeyCode::Up | KeyCode::Char('k') => screen.scroll_by(-1),
        KeyCode::Down | KeyCode::Char('j') => screen.scroll_by(1),
        KeyCode::PageUp => screen.scroll_by(-PAGE),
        KeyCode::PageDown => screen.scroll_by(PAGE),
        KeyCode::Home => screen.scroll_by(isize::MIN),
        KeyCode::End => screen.scroll_by(isize::MAX),
        _ => {}
    }
    None
}

/// What is pressed, read by a thread: it may block, and ends with the process.
fn keys() -> std::io::Result<mpsc::UnboundedReceiver<Event>> {
    let (sender, keys) = mpsc::unbounded_channel();
    std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
        while let Ok(event) = event::read() {
            if sender.send(event).is_err() {
                return;
            }
        }
    })?;
    Ok(keys)
}
