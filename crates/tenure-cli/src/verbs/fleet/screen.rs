//! What `fleet top` shows: a snapshot of the fleet, and what changed from one snapshot to the next.

use super::look::{UNIT_HEADING, WORKER_HEADING, unit_row, worker_row};
use super::snapshot::{Snapshot, UnitOwner, UnitSnapshot, UnitStage};
use crate::text::{count, cut, date, escaped, layout};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Row, Table, Widget};
use std::collections::BTreeMap;
use std::time::Duration;
use tenure::{Fence, HolderId, Wall};
use tenure_core::time::millis;
use unicode_width::UnicodeWidthStr as _;

/// What was seen to happen since the first snapshot.
#[derive(Debug, Default)]
pub(super) struct FleetHistory {
    owners: BTreeMap<String, (Fence, HolderId)>,
    /// When each worker was last known to have renewed, and its ttl.
    renewals: BTreeMap<HolderId, (Wall, Duration)>,
    /// Units that a live worker passed on.
    pub(super) moves: usize,
    /// Units that were taken over from one that had been silent for its ttl.
    pub(super) takeovers: usize,
}

impl FleetHistory {
    pub(super) fn observe(&mut self, snapshot: &Snapshot, now: Wall) {
        for unit in &snapshot.units {
            let (UnitOwner::Worker(_), Some(owner)) = (snapshot.owner(unit), snapshot.owner_of(unit)) else {
                continue;
            };
            let new = (unit.fence, owner.clone());
            let old = self.owners.insert(unit.name.to_string(), new);
            let Some((_, old)) = old.filter(|(fence, old)| *fence < unit.fence && old != owner) else {
                continue;
            };
            let since = unit.since.unwrap_or(now);
            // The living renew each third of a ttl. A read takes time, so that the last renewal seems to be as much later.
            let was_silent =
                self.renewals.get(&old).is_none_or(|(renewed, ttl)| since.since(*renewed) >= *ttl * 3 / 4);
            if was_silent { self.takeovers += 1 } else { self.moves += 1 }
        }
        for worker in &snapshot.workers {
            let age = millis(worker.age);
            self.renewals.insert(worker.holder.clone(), (Wall(now.0.saturating_sub(age)), worker.ttl));
        }
    }
}

/// One screen.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) store: String,
    pub(super) snapshot: Snapshot,
    pub(super) history: FleetHistory,
    pub(super) now: Wall,
    /// Why the snapshot is old.
    pub(super) trouble: Option<String>,
    /// How many units are above the first that is shown.
    pub(super) scroll: usize,
    /// Whether there are keys to press.
    pub(super) is_live: bool,
}

impl Screen {
    pub(super) fn renew(&mut self, snapshot: Snapshot, now: Wall) {
        self.history.observe(&snapshot, now);
        (self.snapshot, self.now, self.trouble) = (snapshot, now, None);
        self.scroll_by(0);
    }

    pub(super) fn scroll_by(&mut self, lines: isize) {
        let most = self.snapshot.units.len().saturating_sub(1);
        self.scroll = self.scroll.saturating_add_signed(lines).min(most);
    }

    /// How many lines it takes to show everything.
    pub(super) fn height(&self) -> u16 {
        let lines = self.snapshot.workers.len() + self.snapshot.units.len() + 7 + usize::from(self.is_live);
        u16::try_from(lines).unwrap_or(u16::MAX)
    }

    fn title(&self) -> Line<'_> {
        let name = format!("fleet {}", self.snapshot.name);
        Line::from(vec![name.bold(), format!("  {}  {}", self.store, date(self.now)).into()])
    }

    fn counts(&self) -> Line<'_> {
        let (snapshot, history) = (&self.snapshot, &self.history);
        let mut parts = vec![
            count(snapshot.alive(), "worker"),
            count(snapshot.units.len(), "unit"),
            format!("{} held", snapshot.count(UnitStage::Held)),
            format!("{} moving", snapshot.count(UnitStage::Moving)),
            format!("{} waiting", snapshot.count(UnitStage::Waiting)),
        ];
        for stage in [UnitStage::Uncovered, UnitStage::Done, UnitStage::Outside] {
            match snapshot.count(stage) {
                0 => {}
                n => parts.push(format!("{n} {}", stage.name())),
            }
        }
        let newer = snapshot.newer();
        for (n, what) in [(snapshot.damaged.len() - newer, "damaged"), (newer, "of a newer version")] {
            if n > 0 {
                parts.push(format!("{n} {what}"));
            }
        }
        let seen =
            format!("   seen: {}, {}", count(history.moves, "move"), count(history.takeovers, "takeover"));
        Line::from(parts.join(", ") + &seen)
    }

    /// Who plans, and what moves and why.
    fn planning(&self) -> Line<'_> {
        let moves = self.snapshot.causes_text().map(|causes| format!("moves: {causes}"));
        let parts: Vec<String> = self.snapshot.planning_text().into_iter().chain(moves).collect();
        Line::from(parts.join("; "))
    }

    /// Those first that something is to happen to.
    fn units(&self) -> Vec<(UnitStage, &UnitSnapshot)> {
        let mut units: Vec<(UnitStage, &UnitSnapshot)> =
            self.snapshot.units.iter().map(|unit| (self.snapshot.stage(unit), unit)).collect();
        let rank = |stage: UnitStage| match stage {
            UnitStage::Uncovered => 0,
            UnitStage::Waiting => 1,
            UnitStage::Moving => 2,
            UnitStage::Outside => 3,
            UnitStage::Held => 4,
            UnitStage::Done => 5,
        };
        units.sort_by_key(|(stage, _)| rank(*stage));
        units
    }
}

fn style_of(stage: UnitStage) -> Style {
    match stage {
        UnitStage::Held => Style::new(),
        UnitStage::Moving | UnitStage::Outside => Color::Yellow.into(),
        UnitStage::Waiting | UnitStage::Uncovered => Color::Red.into(),
        UnitStage::Done => Color::DarkGray.into(),
    }
}

/// Columns as wide as what is in them, or as there is room for.
fn table<'a, const N: usize>(heading: [&'a str; N], rows: Vec<(Style, Vec<String>)>, room: u16) -> Table<'a> {
    let cells: Vec<Vec<String>> = rows.iter().map(|(_, row)| row.clone()).collect();
    let columns = layout(&heading, &cells, usize::from(room));
    let length = |width: usize| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX));
    let widths: Vec<Constraint> = columns.iter().flatten().map(|width| length(*width)).collect();
    let shown = |row: Vec<String>| {
        let cells = row.into_iter().zip(&columns);
        cells.filter_map(|(cell, width)| Some(cut(&cell, (*width)?))).collect::<Vec<_>>()
    };
    let heading = shown(heading.map(str::to_owned).to_vec());
    let rows: Vec<Row<'_>> = rows.into_iter().map(|(style, row)| Row::new(shown(row)).style(style)).collect();
    Table::new(rows, widths).column_spacing(2).header(Row::new(heading).style(Style::new().bold()))
}

impl Widget for &Screen {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let rows = |n: usize| u16::try_from(n + 1).unwrap_or(u16::MAX);
        let (workers, units) = (rows(self.snapshot.workers.len()), rows(self.snapshot.units.len()));
        // Units need room, too, however many workers there are.
        let workers = workers.min((area.height / 2).max(area.height.saturating_sub(units + 6)));
        let [title, counts, trouble, of_workers, _, of_units, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(workers),
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(u16::from(self.is_live)),
        ])
        .areas(area);
        self.title().render(title, buffer);
        self.counts().render(counts, buffer);
        if let Some(text) = &self.trouble {
            Line::from(escaped(text)).style(Color::Red).render(trouble, buffer);
        } else {
            self.planning().render(trouble, buffer);
        }
        let style = |is_alive: bool| if is_alive { Style::new() } else { Color::Red.into() };
        let workers = self
            .snapshot
            .workers
            .iter()
            .map(|worker| (style(worker.is_alive()), worker_row(&self.snapshot, worker)));
        Widget::render(table(WORKER_HEADING, workers.collect(), area.width), of_workers, buffer);
        let units = self.units().into_iter().skip(self.scroll).take(usize::from(of_units.height));
        let units = units.map(|(stage, unit)| (style_of(stage), unit_row(&self.snapshot, unit)));
        Widget::render(table(UNIT_HEADING, units.collect(), area.width), of_units, buffer);
        if self.is_live {
            Line::from("q quit   ↑ ↓ scroll").style(Color::DarkGray).render(keys, buffer);
        }
    }
}

/// The screen as text, of this width and as long as it takes.
pub(super) fn text(screen: &Screen, width: u16) -> String {
    let area = Rect::new(0, 0, width, screen.height());
    let mut buffer = Buffer::empty(area);
    screen.render(area, &mut buffer);
    let mut text = String::new();
    for y in 0..area.height {
        let (mut line, mut x) = (String::new(), 0);
        while let Some(cell) = buffer.cell((x, y)) {
            line.push_str(cell.symbol());
            // Behind what is two columns wide stands an empty cell, which is none on a screen either.
            x += u16::try_from(cell.symbol().width()).unwrap_or(1).max(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::gather::FleetGathering;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use tenure::fleet::{About, FleetName, UnitSpec};
    use tenure::store::{Attachment, Listed, Record, Stored, Tenure};
    use tenure::{Key, Metadata, Ttl};
    use tenure_core::Nonces;

    /// Workers with the fence of their session and their age in ms; units with their fence, and whose they are.
    fn snapshot(workers: &[(&str, u64)], units: &[(&str, u64, Option<&str>)]) -> Snapshot {
        let mut nonces = Nonces::new(7);
        let mut record =
            |key: String, fence: u64, holder: Option<&str>, attachment: Option<Attachment>, age, metadata| {
                let nonce = nonces.draw();
                let tenure = holder.map(|holder| Tenure {
                    attachment,
                    ..Tenure::new(
                        nonce,
                        HolderId::new(holder).unwrap(),
                        Ttl::clamped(10_000),
                        Wall(1_000_000 + fence * 1000),
                    )
                });
                let record = Record { fence: Fence(fence), nonce, stamp: Wall(0), tenure, metadata };
                let stored = Stored::new(record).aged(Some(Duration::from_millis(age)));
                Listed { key: Key::new(key).unwrap(), stored: Ok(stored) }
            };
        let mut listing = Vec::new();
        for (unit, fence, owner) in units {
            let attachment = owner.map(|owner| Attachment {
                session: Key::new(format!("fleet/f/worker/{owner}")).unwrap(),
                fence: Fence(1),
            });
            let metadata = UnitSpec::default().compose(Metadata::new()).unwrap();
            listing.push(record(format!("fleet/f/unit/{unit}"), *fence, *owner, attachment, 0, metadata));
        }
        for (worker, age) in workers {
            let metadata = About::default().compose(Metadata::new());
            listing.push(record(format!("fleet/f/worker/{worker}"), 1, Some(worker), None, *age, metadata));
        }
        let mut gathering = FleetGathering::new(FleetName::new("f").unwrap());
        listing.into_iter().for_each(|listed| gathering.add(listed, Wall(1_000_000)));
        gathering.end()
    }

    fn screen(snapshot: Snapshot) -> Screen {
        Screen {
            store: "memory:".to_owned(),
            snapshot,
            history: FleetHistory::default(),
            now: Wall(1_000_000),
            trouble: None,
            scroll: 0,
            is_live: true,
        }
    }

    fn lines(screen: &Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| frame.render_widget(screen, frame.area())).unwrap();
        let shown = terminal.backend().to_string();
        shown.lines().map(|line| line.trim_matches('"').trim_end().to_owned()).collect()
    }

    #[test]
    fn everything_has_its_place() {
        let units = [("u0", 5, Some("a")), ("u1", 5, Some("a")), ("u2", 5, Some("a")), ("u3", 0, None)];
        let screen = screen(snapshot(&[("a", 300), ("b", 1500)], &units));
        assert_eq!(
            lines(&screen, 90, 14),
            [
                "fleet f  memory:  1970-01-01T00:16:40Z",
                "2 workers, 4 units, 2 held, 1 moving, 1 waiting   seen: 0 moves, 0 takeovers",
                "moves: 1 vacant, 1 join",
                "WORKER  STATE  UNITS  PLANNED  MOST  RENEWED    TTL  LABELS",
                "a       live   3      2        -     300ms ago  10s  -",
                "b       live   0      2        -     1.5s ago   10s  -",
                "",
                "UNIT  STATE    WORKER  GOES TO     FENCE  SINCE                 WEIGHT  NEEDS",
                "u3    waiting  -       b (vacant)  0      -                     1       -",
                "u0    moving   a       b (join)    5      1970-01-01T00:16:45Z  1       -",
                "u1    held     a       -           5      1970-01-01T00:16:45Z  1       -",
                "u2    held     a       -           5      1970-01-01T00:16:45Z  1       -",
                "",
                "q quit   ↑ ↓ scroll",
            ]
        );
    }

    #[test]
    fn at_80_columns_real_fences_leave_room_for_names() {
        let (unit, worker) = ("shard".repeat(10), "worker".repeat(10));
        let units = [(unit.as_str(), 1_795_000_000_000, Some(worker.as_str()))];
        let shown = lines(&screen(snapshot(&[(&worker, 300)], &units)), 80, 12);
        let row = shown.iter().find(|line| line.starts_with("shard")).unwrap();
        let names: Vec<&str> = row.split_whitespace().filter(|word| word.contains('…')).collect();
        assert!(names.len() == 2 && names.iter().all(|name| name.width() >= 14), "{shown:#?}");
    }

    #[test]
    fn at_80_columns_all_that_matters_of_a_long_name_is_there() {
        let long = format!("{}-17", "shard".repeat(10));
        let shown = lines(&screen(snapshot(&[("a", 300)], &[(&long, 5, Some("a"))])), 80, 12).join("\n");
        assert!(
            shown.contains("1970-01-01T00:16:45Z") && shown.contains("rd-17") && shown.contains("…"),
            "{shown}"
        );
        assert!(!shown.contains("WEIGHT"), "that is left out: {shown}");
    }

    #[test]
    fn a_small_screen_shows_what_fits_and_scrolls() {
        let units: Vec<(String, u64, Option<&str>)> =
            (0..20).map(|n| (format!("u{n:02}"), 5, Some("a"))).collect();
        let units: Vec<_> =
            units.iter().map(|(name, fence, owner)| (name.as_str(), *fence, *owner)).collect();
        let mut screen = screen(snapshot(&[("a", 300)], &units));
        let shown = lines(&screen, 60, 10);
        assert!(shown[7].starts_with("u00") && shown[8].starts_with("u01"), "{shown:#?}");
        screen.scroll_by(5);
        assert!(lines(&screen, 60, 10)[7].starts_with("u05"));
        screen.scroll_by(-9);
        assert!(lines(&screen, 60, 10)[7].starts_with("u00"));
        screen.scroll_by(99);
        assert!(lines(&screen, 60, 10)[7].starts_with("u19"), "the last one stays in sight");
        // Too small for anything: no panic.
        for (width, height) in [(1, 1), (3, 4), (200, 2)] {
            lines(&screen, width, height);
        }
        screen.renew(snapshot(&[], &[]), Wall(0));
        assert_eq!(screen.scroll, 0);
    }

    #[test]
    fn what_is_silent_and_what_could_not_be_looked_at_is_said() {
        let mut screen = screen(snapshot(&[("a", 12_000)], &[("u0", 5, Some("a"))]));
        screen.trouble = Some("gone\u{1b}[2J".to_owned());
        let shown = lines(&screen, 90, 10).join("\n");
        for text in ["0 workers", "1 uncovered", "gone\\u{1b}[2J", "a       silent", "(no worker)"] {
            assert!(shown.contains(text), "{text}: {shown}");
        }
    }

    #[test]
    fn moves_and_takeovers_are_told_apart() {
        let mut history = FleetHistory::default();
        let at = |secs: u64| Wall(1_000_000 + secs * 1000);
        history
            .observe(&snapshot(&[("a", 0), ("b", 0)], &[("u0", 1, Some("a")), ("u1", 1, Some("b"))]), at(1));
        // a is heard of at second 1, and loses u0 at second 2: that is a move.
        history
            .observe(&snapshot(&[("a", 0), ("b", 0)], &[("u0", 2, Some("b")), ("u1", 1, Some("b"))]), at(2));
        assert_eq!((history.moves, history.takeovers), (1, 0));
        // b is heard of for the last time at second 2, and loses both at second 13, its ttl being 10 s.
        history.observe(&snapshot(&[("a", 0)], &[("u0", 13, Some("a")), ("u1", 13, Some("a"))]), at(14));
        assert_eq!((history.moves, history.takeovers), (1, 2));
        // Of a read that takes 1 s, its last renewal seems to be by that later: it was heard of at 14, and is taken from at 22.
        let [late, taken] = [at(14), at(23)];
        let mut other = FleetHistory::default();
        other.observe(&snapshot(&[("a", 0), ("b", 0)], &[("u0", 13, Some("a"))]), late);
        other.observe(&snapshot(&[("b", 0)], &[("u0", 22, Some("b"))]), taken);
        assert_eq!((other.moves, other.takeovers), (0, 1));
        history.observe(&snapshot(&[("a", 0)], &[("u0", 14, Some("a")), ("u1", 13, Some("a"))]), at(15));
        assert_eq!(
            (history.moves, history.takeovers),
            (1, 2),
            "what comes back to the same worker has not moved"
        );
    }

    #[test]
    fn what_is_two_columns_wide_stays_in_line_as_text() {
        let units = [("日本", 1, Some("a")), ("u0", 1, Some("a"))];
        let text = text(&screen(snapshot(&[("a", 0)], &units)), 100);
        let column = |unit: &str| {
            let line = text.lines().find(|line| line.starts_with(unit)).unwrap();
            line.split_once("held").unwrap().0.width()
        };
        assert_eq!(column("日本"), column("u0"), "{text}");
    }

    #[test]
    fn a_screen_as_text_is_as_long_as_it_takes() {
        let mut screen = screen(snapshot(&[("a", 0)], &[("u0", 1, Some("a"))]));
        screen.is_live = false;
        let text = text(&screen, 100);
        assert_eq!(text.lines().count(), 8, "{text}");
        assert!(text.ends_with("1       -\n") && !text.contains("quit"), "{text}");
    }
}
