//! `work top`: a job, live, on a terminal.

use super::look::page;
use super::survey::of_job;
use crate::args::jobs as args;
use crate::exit::Failure;
use crate::keys::JobName;
use crate::stores::Url;
use crate::text::{cut, date, escaped};
use crate::verbs::live::{self, LiveScreen};
use crate::verbs::open_to_look;
use ratatui::Frame;
use ratatui::layout::{Constraint, Flex, Layout};
use ratatui::style::{Color, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;
use tenure::Leases;
use tenure::clock::boottime;

/// More units than anybody scrolls through.
const MOST: usize = 500;

pub(super) async fn top(url: &Url, typed: &args::WorkTopArgs) -> Result<u8, Failure> {
    let interval = live::interval(typed.interval, url)?;
    live::check_terminal("use `tenure work status`")?;
    let name = JobName::new(&typed.job)?;
    let leases = open_to_look(url).await?;
    let began = boottime();
    let mut screen = JobScreen { text: seen(&leases, &name).await?, trouble: None, scroll: 0 };
    let took = boottime().saturating_sub(began);
    live::watch(&mut screen, async || seen(&leases, &name).await, interval, took).await
}

/// What there is to see of a job.
async fn seen(leases: &Leases, name: &JobName) -> Result<String, Failure> {
    let job = of_job(leases, name).await?.ok_or_else(|| super::absent(name))?;
    let now = leases.clock().now().wall;
    Ok(format!("{}\n{}", date(now), page(name, &job, MOST, now)))
}

struct JobScreen {
    text: String,
    trouble: Option<String>,
    scroll: usize,
}

impl LiveScreen<String> for JobScreen {
    fn scroll_by(&mut self, lines: isize) {
        self.scroll = self.scroll.saturating_add_signed(lines).min(last_line(&self.text));
    }

    fn take(&mut self, seen: Result<String, Failure>) {
        match seen {
            Ok(seen) => {
                (self.text, self.trouble) = (seen, None);
                self.scroll_by(0);
            }
            Err(failure) => self.trouble = Some(failure.text),
        }
    }

    /// The page above, as much of it as there is room for; what fails and the keys are always below it. Of a line that is too long both ends are
    /// shown: names are at the beginning, and what became of them is at the end.
    fn draw(&self, frame: &mut Frame<'_>) {
        let columns = usize::from(frame.area().width);
        let page = self.text.lines().skip(self.scroll).map(|line| Line::from(cut(line, columns)));
        let page: Vec<Line<'_>> = page.collect();
        let trouble =
            self.trouble.iter().map(|trouble| Line::from(cut(&escaped(trouble), columns)).fg(Color::Red));
        let keys = Line::from("q quit   ↑ ↓ scroll").fg(Color::DarkGray);
        let below: Vec<Line<'_>> = trouble.chain([keys]).collect();
        let rows = [page.len(), below.len()].map(|rows| u16::try_from(rows).unwrap_or(u16::MAX));
        let parts = Layout::vertical([Constraint::Max(rows[0]), Constraint::Length(rows[1])]);
        let [above, last] = parts.flex(Flex::Start).areas(frame.area());
        frame.render_widget(Paragraph::new(Text::from(page)), above);
        frame.render_widget(Paragraph::new(Text::from(below)), last);
    }
}

fn last_line(text: &str) -> usize {
    text.lines().count().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    //! Plan: at 80 columns, of a unit with a long name its beginning is shown, and who runs it.
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    #[test]
    fn of_a_long_line_both_ends_are_shown() {
        let name = format!("/data/{}/17.gz", "part".repeat(40));
        let text = format!("job      j\nrunning\n  {name}: for 3s, by host-17-4711\n");
        let screen = JobScreen { text, trouble: None, scroll: 0 };
        let mut terminal = Terminal::new(TestBackend::new(80, 8)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let shown = terminal.backend().to_string();
        let line = shown.lines().find(|line| line.contains("/data/")).unwrap();
        assert!(line.contains("17.gz: for 3s, by host-17-4711") && line.contains('…'), "{shown}");
    }
}
