//! What is watched live on a terminal: its keys.

use crate::exit::{self, Failure};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::io::IsTerminal;
use std::time::Duration;
use tokio::sync::mpsc;

/// What somebody at the keyboard wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressed {
    Quit,
    /// A terminal in raw mode sends no signal.
    Interrupt,
    /// By so many lines.
    Scroll(isize),
    /// The screen has another size, or nothing that is known was pressed.
    Other,
}

/// Whether it makes sense to look that often.
pub(crate) fn check_interval(interval: Duration) -> Result<(), Failure> {
    const SHORTEST: Duration = Duration::from_millis(100);
    if interval < SHORTEST {
        return Err(Failure::usage("--interval is below 100ms, which is often enough to look"));
    }
    Ok(())
}

/// Whether there is a terminal.
pub(crate) fn check_terminal(otherwise: &str) -> Result<(), Failure> {
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::usage(format!("top needs a terminal; for one snapshot as text, {otherwise}")))
}

pub(crate) fn broken(error: std::io::Error) -> Failure {
    Failure::new(exit::INTERNAL, format!("the terminal can't be used: {error}"))
}

/// What is pressed, read by a thread: it may block, and ends with the process.
pub(crate) fn keys() -> Result<mpsc::UnboundedReceiver<Pressed>, Failure> {
    let (sender, keys) = mpsc::unbounded_channel();
    let read = move || {
        while let Ok(event) = event::read() {
            if sender.send(pressed(&event)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("keys".to_owned()).spawn(read).map_err(broken)?;
    Ok(keys)
}

fn pressed(event: &Event) -> Pressed {
    const PAGE: isize = 10;
    let Event::Key(key) = event else { return Pressed::Other };
    if key.kind == KeyEventKind::Release {
        return Pressed::Other;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Pressed::Quit,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Pressed::Interrupt,
        KeyCode::Up | KeyCode::Char('k') => Pressed::Scroll(-1),
        KeyCode::Down | KeyCode::Char('j') => Pressed::Scroll(1),
        KeyCode::PageUp => Pressed::Scroll(-PAGE),
        KeyCode::PageDown => Pressed::Scroll(PAGE),
        KeyCode::Home => Pressed::Scroll(isize::MIN),
        KeyCode::End => Pressed::Scroll(isize::MAX),
        _ => Pressed::Other,
    }
}
