//! What is watched live on a terminal: looks at it, again and again, and keys.

use crate::exit::{self, Failure};
use crate::stores::Url;
use crate::supervise::signals::Signals;
use nix::sys::signal::Signal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};
use std::io::IsTerminal;
use std::time::Duration;
use tenure::clock::boottime;
use tokio::sync::mpsc;

/// What is shown of what is seen.
pub(crate) trait LiveScreen<S> {
    fn draw(&self, frame: &mut Frame<'_>);

    fn scroll_by(&mut self, lines: isize);

    /// What was seen last, or why nothing was.
    fn take(&mut self, seen: Result<S, Failure>);
}

/// Shows what `look` sees, until somebody has seen enough. `took`: how long the look took of which the screen shows what was seen.
pub(crate) async fn watch<S>(
    screen: &mut impl LiveScreen<S>,
    look: impl AsyncFn() -> Result<S, Failure>,
    interval: Duration,
    took: Duration,
) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    let mut terminal = ratatui::try_init().map_err(broken)?;
    let ended = shown(screen, look, interval, took, &mut terminal, &mut signals).await;
    ratatui::try_restore().map_err(broken)?;
    ended
}

async fn shown<S>(
    screen: &mut impl LiveScreen<S>,
    look: impl AsyncFn() -> Result<S, Failure>,
    interval: Duration,
    took: Duration,
    terminal: &mut DefaultTerminal,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let mut keys = keys()?;
    let again = async |after| {
        tokio::time::sleep(after).await;
        let began = boottime();
        (look().await, boottime().saturating_sub(began))
    };
    let mut next = Box::pin(again(pause(interval, took)));
    loop {
        terminal.draw(|frame| screen.draw(frame)).map_err(broken)?;
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
            (seen, took) = &mut next => {
                let after = if seen.is_ok() { pause(interval, took) } else { interval };
                screen.take(seen);
                next = Box::pin(again(after));
            }
        }
    }
}

/// What somebody at the keyboard wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pressed {
    Quit,
    /// A terminal in raw mode sends no signal.
    Interrupt,
    /// By so many lines.
    Scroll(isize),
    /// The screen has another size, or nothing that is known was pressed.
    Other,
}

/// How often to look: as it was typed, or as it suits the store.
pub(crate) fn interval(typed: Option<Duration>, url: &Url) -> Result<Duration, Failure> {
    const SHORTEST: Duration = Duration::from_millis(100);
    const USUAL: Duration = Duration::from_secs(1);
    const WHERE_READS_ARE_BILLED: Duration = Duration::from_secs(10);
    match typed {
        Some(typed) if typed < SHORTEST => {
            Err(Failure::usage("--interval is below 100ms, which is often enough to look"))
        }
        Some(typed) => Ok(typed),
        None if url.bills_reads() => Ok(WHERE_READS_ARE_BILLED),
        None => Ok(USUAL),
    }
}

/// How long to wait after a look that took so long. Each reads all that it shows, which the store's other users pay for: looks take a tenth of the
/// time at the most. No pause is longer than a minute by that, as time for which the machine was suspended counts, too.
fn pause(interval: Duration, took: Duration) -> Duration {
    const LONGEST: Duration = Duration::from_secs(60);
    interval.max(took.saturating_mul(9).min(LONGEST))
}

/// Whether there is a terminal.
pub(crate) fn check_terminal(otherwise: &str) -> Result<(), Failure> {
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::usage(format!("top needs a terminal; for one snapshot as text, {otherwise}")))
}

fn broken(error: std::io::Error) -> Failure {
    Failure::new(exit::INTERNAL, format!("the terminal can't be used: {error}"))
}

/// What is pressed, read by a thread: it may block, and ends with the process.
fn keys() -> Result<mpsc::UnboundedReceiver<Pressed>, Failure> {
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

#[cfg(test)]
mod tests {
    //! Plan: how often is looked by what was typed, by the store, and by how long a look takes.
    use super::*;

    #[test]
    fn looks_take_a_tenth_of_the_time_at_the_most() {
        let ms = Duration::from_millis;
        for (interval, took, pause) in [
            (1000, 0, 1000),
            (1000, 111, 1000),
            (1000, 400, 3600),
            (100, 60_000, 60_000),
            (90_000, 60_000, 90_000),
        ] {
            assert_eq!(super::pause(ms(interval), ms(took)), ms(pause), "{interval} {took}");
        }
    }

    #[test]
    fn what_bills_reads_is_looked_at_less_often_unless_that_is_asked_for() {
        let ms = Duration::from_millis;
        let file = Url::parse("sqlite:x.db").unwrap();
        let table = Url::Service("dynamodb://t?region=eu-west-1".to_owned());
        assert_eq!((interval(None, &file).unwrap(), interval(None, &table).unwrap()), (ms(1000), ms(10_000)));
        assert_eq!(interval(Some(ms(500)), &table).unwrap(), ms(500));
        assert!(interval(Some(ms(99)), &file).is_err());
    }
}
