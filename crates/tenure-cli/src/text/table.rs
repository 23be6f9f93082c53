//! Rows in columns, also of characters that are two columns wide. On a terminal a row is one line: names that are too long are cut in the
//! middle, where they differ least. Elsewhere nothing is cut, as programs may read it; what is very long stands out of its column.

use ratatui::crossterm::terminal;
use std::io::IsTerminal;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Columns of names: they are cut where there is no room.
const NAMES: &[&str] =
    &["KEY", "HOLDER", "UNIT", "WORKER", "GOES TO", "LABELS", "NEEDS", "JOB", "FLEET", "VALUE", "FROM"];
/// Columns that one can do without: they are left out, the last ones first, before names become too short. `show` and `--json` have them.
const EXTRAS: [&str; 7] = ["ON SESSION", "WEIGHT", "MOST", "PLANNED", "WAITING", "WORKERS", "LAST RESULT"];
/// After them these are left out, in this order: of units, as names of two kinds stand beside it; of keys, as these are typed again.
const MORE_EXTRAS: &[(&str, &[&str])] = &[("UNIT", &["FENCE"]), ("KEY", &["FENCE", "SINCE"])];
/// Names that are typed again, so they are not cut as long as there are extras, or other names to be cut.
const TYPED: &[&str] = &["JOB", "KEY"];
/// Names are cut to no less than this, and to less than [`SHORT`] only when all extras are left out.
const LEAST: usize = 8;
const SHORT: usize = 14;
const GAP: usize = 2;
/// Off a terminal, no column of names is wider than this because of a few.
const MOST: usize = 64;

/// Rows under a heading, in columns; the last column is not padded.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    TextTable::new(heading).part(rows)
}

/// A table that is shown part by part. Columns grow with what comes, so only those parts are in line that came later.
pub(crate) struct TextTable {
    heading: Vec<String>,
    is_begun: bool,
    widths: Vec<usize>,
    /// Columns that are not shown.
    hidden: Vec<bool>,
    /// How many columns of characters there are.
    room: Option<usize>,
}

impl TextTable {
    pub(crate) fn new(heading: &[&str]) -> TextTable {
        let room = std::io::stdout().is_terminal().then(|| terminal::size().ok()).flatten();
        TextTable::within(heading, room.map(|(columns, _)| usize::from(columns)))
    }

    fn within(heading: &[&str], room: Option<usize>) -> TextTable {
        let widths = heading.iter().map(|title| title.width()).collect();
        let hidden = vec![false; heading.len()];
        let heading = heading.iter().map(|title| (*title).to_owned()).collect();
        TextTable { heading, is_begun: false, widths, hidden, room }
    }

    /// More rows, the first ones under the heading.
    pub(crate) fn part(&mut self, rows: &[Vec<String>]) -> String {
        let widths = self.lay_out(rows);
        let heading = (!std::mem::replace(&mut self.is_begun, true)).then_some(&self.heading);
        let mut out = String::new();
        for row in heading.into_iter().chain(rows) {
            let mut line = String::new();
            for ((cell, width), _) in
                row.iter().zip(&widths).zip(&self.hidden).filter(|(_, hidden)| !**hidden)
            {
                let cell = if self.room.is_some() { cut(cell, *width) } else { cell.clone() };
                line.push_str(&cell);
                line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width()) + GAP));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// The columns' widths, also with these rows. Which columns are shown is settled before the first row is.
    fn lay_out(&mut self, rows: &[Vec<String>]) -> Vec<usize> {
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let heading: Vec<&str> = self.heading.iter().map(String::as_str).collect();
        if let Some(room) = self.room.filter(|_| !self.is_begun) {
            hide(&heading, &self.widths, &mut self.hidden, room);
        }
        fitted(&heading, &self.widths, &self.hidden, self.room)
    }
}

fn total(widths: &[usize], hidden: &[bool]) -> usize {
    let shown = widths.iter().zip(hidden).filter(|(_, hidden)| !**hidden);
    shown.map(|(width, _)| width + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Leaves out what one can do without, as long as names would be too short.
fn hide(heading: &[&str], widths: &[usize], hidden: &mut [bool], room: usize) {
    let short = |title: &str, width: usize| match title {
        _ if TYPED.contains(&title) => width.min(MOST),
        _ if NAMES.contains(&title) => width.min(SHORT),
        _ => width,
    };
    let widths: Vec<usize> = heading.iter().zip(widths).map(|(title, width)| short(title, *width)).collect();
    let last = (0..heading.len()).rev().filter(|n| EXTRAS.contains(&heading[*n]));
    let more = MORE_EXTRAS.iter().filter(|(first, _)| heading.first() == Some(first));
    let more = more.flat_map(|(_, titles)| titles.iter());
    let more = more.filter_map(|extra| heading.iter().position(|title| title == extra));
    for n in last.chain(more) {
        if total(&widths, hidden) > room {
            hidden[n] = true;
        }
    }
}

/// Widths that fit, if names can be cut as much as that.
fn fitted(heading: &[&str], widths: &[usize], hidden: &[bool], room: Option<usize>) -> Vec<usize> {
    let mut widths = widths.to_vec();
    let is_name = |n: usize| !hidden[n] && NAMES.contains(&heading[n]);
    let Some(room) = room else {
        let most = |(n, width)| if is_name(n) { MOST.min(width) } else { width };
        return widths.into_iter().enumerate().map(most).collect();
    };
    while total(&widths, hidden) > room {
        let names = (0..widths.len()).filter(|n| is_name(*n) && widths[*n] > LEAST);
        let comes_first = |n: usize| widths[n] > SHORT && !TYPED.contains(&heading[n]);
        let Some(widest) = names.max_by_key(|n| (comes_first(*n), widths[*n])) else { break };
        widths[widest] -= 1;
    }
    widths
}

/// As [`TextTable`] does it, for a table that others draw: which columns are shown, and their widths.
pub(crate) fn layout(heading: &[&str], rows: &[Vec<String>], room: usize) -> Vec<Option<usize>> {
    let mut table = TextTable::within(heading, Some(room));
    let widths = table.lay_out(rows);
    widths.into_iter().zip(table.hidden).map(|(width, hidden)| (!hidden).then_some(width)).collect()
}

/// At most so many columns of it: both ends, and a mark between.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let taken = |room: usize, graphemes: &mut dyn Iterator<Item = &str>| -> usize {
        let mut left = room;
        let fits = graphemes.take_while(|grapheme| {
            let is_room = grapheme.width() <= left;
            left = left.saturating_sub(grapheme.width());
            is_room
        });
        fits.map(str::len).sum()
    };
    let room = width.saturating_sub(1);
    let head = taken(room.div_ceil(2), &mut text.graphemes(true));
    let tail = taken(room / 2, &mut text.graphemes(true).rev());
    let (head, tail) =
        (text.get(..head).unwrap_or_default(), text.get(text.len() - tail..).unwrap_or_default());
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(cells: &[&[&str]]) -> Vec<Vec<String>> {
        cells.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect()
    }

    #[test]
    fn a_table_is_aligned_and_not_padded_at_the_end() {
        let rows = rows(&[&["é", "x"], &["long", ""], &["日本", "y"]]);
        assert_eq!(TextTable::within(&["A", "B"], None).part(&rows), "A     B\né     x\nlong\n日本  y\n");
    }

    #[test]
    fn off_a_terminal_a_long_name_does_not_widen_all_lines() {
        let rows = rows(&[&[&"k".repeat(200), "held"], &["short", "held"]]);
        let shown = TextTable::within(&["KEY", "STATE"], None).part(&rows);
        let widths: Vec<usize> = shown.lines().map(str::len).collect();
        assert_eq!(widths, [MOST + GAP + 5, 200 + GAP + 4, MOST + GAP + 4], "{shown}");
    }

    #[test]
    fn a_job_s_name_is_whole_at_80_columns() {
        let job = format!("gunzip-{}", "0123456789abcdef".repeat(2));
        let row = [&job, "1000000", "999999", "12", "128", "1000000", "12", "90m", "2026-11-23T05:00:00Z"];
        let heading =
            ["JOB", "UNITS", "DONE", "FAILED", "RUNNING", "WAITING", "WORKERS", "LEFT", "LAST RESULT"];
        let shown = |room| TextTable::within(&heading, Some(room)).part(&rows(&[&row]));
        let narrow = shown(80);
        assert!(narrow.lines().all(|line| line.width() <= 80) && narrow.contains(&job), "{narrow}");
        assert!(narrow.contains("FAILED") && narrow.contains("LEFT"), "{narrow}");
        assert!(shown(200).contains("LAST RESULT"));
    }

    #[test]
    fn a_key_is_whole_at_80_columns_before_its_fence_is_shown() {
        let heading = ["KEY", "STATE", "FENCE", "HOLDER", "SINCE", "LEFT", "ON SESSION"];
        let holder = format!("vm-31302-{}", "0123456789abcdef".repeat(2));
        let shown = |key: &str, room| {
            let row = [key, "held", "1795950165617", &holder, "2026-11-29T05:00:00Z", "9.5s", "-"];
            let shown = TextTable::within(&heading, Some(room)).part(&rows(&[&row]));
            assert!(shown.lines().all(|line| line.width() <= room), "{shown}");
            shown
        };
        let short = shown("reports/2026-11-29/invoice", 80);
        assert!(short.contains("reports/2026-11-29/invoice  held") && short.contains("SINCE"), "{short}");
        assert!(!short.contains("FENCE") && short.contains("vm-"), "{short}");
        let long = "reports/europe/2026-11-29/monthly-invoices";
        let narrow = shown(long, 80);
        assert!(narrow.contains(&format!("{long}  held")) && narrow.contains("LEFT"), "{narrow}");
        assert!(!narrow.contains("SINCE") && shown(long, 160).contains("1795950165617"), "{narrow}");
    }

    #[test]
    fn names_are_cut_in_the_middle_where_there_is_no_room() {
        assert_eq!((cut("abcdefghij", 10).as_str(), cut("abcdefghij", 6).as_str()), ("abcdefghij", "abc…ij"));
        assert_eq!(cut("日本語日本語", 7), "日…語", "none is cut in two, nor is there more than fits");
        assert_eq!(cut("e\u{301}e\u{301}e\u{301}e\u{301}", 3), "e\u{301}…e\u{301}");
        let rows = rows(&[&[&"k".repeat(200), "held", &"h".repeat(30), "2026-11-23T05:00:00Z", "yes"]]);
        let heading = ["UNIT", "STATE", "HOLDER", "SINCE", "ON SESSION"];
        let shown = TextTable::within(&heading, Some(80)).part(&rows);
        assert!(shown.lines().all(|line| line.width() <= 80), "{shown}");
        assert!(shown.contains("2026-11-23T05:00:00Z") && shown.contains("k…k"), "{shown}");
        let narrow = TextTable::within(&heading, Some(60)).part(&rows);
        assert!(narrow.lines().all(|line| line.width() <= 60) && !narrow.contains("ON SESSION"), "{narrow}");
        assert!(
            TextTable::within(&heading, None).part(&rows).contains(&"k".repeat(200)),
            "programs read all of it"
        );
    }
}
