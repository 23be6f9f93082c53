//! `work top`: a job, live, on a terminal.

use super::look::page;
use super::survey::of_job;
use crate::args::jobs as args;
use crate::exit::{self, Failure};
use crate::keys::JobName;
use crate::stores::Url;
use crate::supervise::signals::Signals;
use crate::text::date;
use crate::verbs::live::{self, Pressed, broken};
use crate::verbs::open_to_look;
use nix::sys::signal::Signal;
use ratatui::DefaultTerminal;
use ratatui::layout::{Constraint, Flex, Layout};
use ratatui::style::{Color, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;
use std::time::Duration;
use tenure::Leases;
use tenure::clock::boottime;

/// More units than anybody scrolls through.
const MOST: usize = 500;

struct WatchedJob<'l> {
    leases: &'l Leases,
    name: &'l JobName,
    interval: Duration,
}

pub(super) async fn top(url: &Url, typed: &args::WorkTopArgs) -> Result<u8, Failure> {
    let interval = live::interval(typed.interval, url)?;
    live::check_terminal("use `tenure work status`")?;
    let name = JobName::new(&typed.job)?;
    let leases = open_to_look(url).await?;
    let watched = WatchedJob { leases: &leases, name: &name, interval };
    let (first, took) = watched.look().await;
    let first = first?;
    let mut signals = Signals::listen()?;
    let mut terminal = ratatui::try_init().map_err(broken)?;
    let ended = watched.watch((first, took), &mut terminal, &mut signals).await;
    ratatui::try_restore().map_err(broken)?;
    ended
}

impl WatchedJob<'_> {
    /// What there is to see, and how long the look took.
    async fn look(&self) -> (Result<String, Failure>, Duration) {
        let began = boottime();
        let seen = self.page().await;
        (seen, boottime().saturating_sub(began))
    }

    async fn page(&self) -> Result<String, Failure> {
        let job = of_job(self.leases, self.name).await?.ok_or_else(|| super::absent(self.name))?;
        let now = self.leases.clock().now().wall;
        Ok(format!("{}\n{}", date(now), page(self.name, &job, MOST, now)))
    }

    async fn watch(
        &self,
        (first, took): (String, Duration),
        terminal: &mut DefaultTerminal,
        signals: &mut Signals,
    ) -> Result<u8, Failure> {
        let (mut text, mut trouble, mut scroll) = (first, None, 0_usize);
        let mut keys = live::keys()?;
        let again = async |pause| {
            tokio::time::sleep(pause).await;
            self.look().await
        };
        let mut look = Box::pin(again(live::pause(self.interval, took)));
        loop {
            draw(terminal, &text, trouble.as_deref(), scroll)?;
            tokio::select! {
                biased;
                signal = signals.next() => return Err(Failure::by_signal(signal)),
                key = keys.recv() => match key {
                    Some(Pressed::Scroll(lines)) => {
                        scroll = scroll.saturating_add_signed(lines).min(last_line(&text));
                    }
                    Some(Pressed::Interrupt) => return Err(Failure::by_signal(Signal::SIGINT as i32)),
                    Some(Pressed::Other) => {}
                    // Or the terminal is gone.
                    Some(Pressed::Quit) | None => return Ok(exit::OK),
                },
                (seen, took) = &mut look => {
                    let pause = match seen {
                        Ok(seen) => {
                            (text, trouble) = (seen, None);
                            scroll = scroll.min(last_line(&text));
                            live::pause(self.interval, took)
                        }
                        Err(failure) => {
                            trouble = Some(failure.text);
                            self.interval
                        }
                    };
                    look = Box::pin(again(pause));
                }
            }
        }
    }
}

fn last_line(text: &str) -> usize {
    text.lines().count().saturating_sub(1)
}

/// The page above, as much of it as there is room for; what fails and the keys are always below it.
fn draw(
    terminal: &mut DefaultTerminal,
    text: &str,
    trouble: Option<&str>,
    scroll: usize,
) -> Result<(), Failure> {
    let page: Vec<Line<'_>> = text.lines().skip(scroll).map(Line::from).collect();
    let below: Vec<Line<'_>> = trouble
        .map(|trouble| Line::from(crate::text::escaped(trouble)).fg(Color::Red))
        .into_iter()
        .chain([Line::from("q quit   ↑ ↓ scroll").fg(Color::DarkGray)])
        .collect();
    let rows = [page.len(), below.len()].map(|rows| u16::try_from(rows).unwrap_or(u16::MAX));
    terminal
        .draw(|frame| {
            let parts = Layout::vertical([Constraint::Max(rows[0]), Constraint::Length(rows[1])]);
            let [above, last] = parts.flex(Flex::Start).areas(frame.area());
            frame.render_widget(Paragraph::new(Text::from(page)), above);
            frame.render_widget(Paragraph::new(Text::from(below)), last);
        })
        .map_err(broken)?;
    Ok(())
}
