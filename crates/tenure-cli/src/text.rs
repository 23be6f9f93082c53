//! Texts in and out: spans of time, dates, names that must not steer a terminal, tables.

mod table;

pub(crate) use table::{TextTable, cut, layout, table};

use std::time::Duration;
use tenure::Wall;
use tenure_core::harmless;

/// A span of time as typed: `500ms`, `30s`, `5m`, `1h30m`, `1d`, or a bare number of seconds.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let (mut rest, mut millis) = (text, 0.0);
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let number: f64 = number
            .parse()
            .map_err(|_| "not a span of time; write it as in 500ms, 30s, 5m, 1h30m or 1d".to_owned())?;
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(letters);
        // A bare number is one by itself.
        let is_first = rest.len() == text.len();
        millis += number
            * match unit {
                "ms" => 1.0,
                "" if is_first => 1e3,
                "s" => 1e3,
                "m" | "min" => 60e3,
                "h" => 3600e3,
                "d" => 86_400e3,
                "" => {
                    return Err(format!(
                        "\"{}\" lacks a unit at its end; use ms, s, m, h or d",
                        escaped(text)
                    ));
                }
                _ => {
                    let unit = escaped(unit);
                    return Err(format!("\"{unit}\" is no unit of time; use ms, s, m, h or d, as in 30s"));
                }
            };
        rest = next;
        if rest.is_empty() {
            break;
        }
    }
    let millis = millis.round();
    if millis > 1e15 {
        return Err("longer than any span of time that makes sense here".to_owned());
    }
    Ok(Duration::from_millis(millis as u64))
}

/// A span of time for people: the largest unit, with one decimal where that says something.
pub(crate) fn brief(span: Duration) -> String {
    let secs = span.as_secs_f64();
    match secs {
        s if s < 0.9995 => format!("{:.0}ms", s * 1e3),
        s if s < 99.95 => trimmed(s, "s"),
        s if s < 5_970.0 => trimmed(s / 60.0, "m"),
        s if s < 172_800.0 => trimmed(s / 3600.0, "h"),
        s => trimmed(s / 86_400.0, "d"),
    }
}

/// A rate in the largest unit of time in which it is one or more.
pub(crate) fn per_time(per_second: f64) -> String {
    let (n, unit) = match per_second {
        n if n >= 1.0 => (n, "s"),
        n if n * 60.0 >= 1.0 => (n * 60.0, "m"),
        n => (n * 3600.0, "h"),
    };
    if n >= 99.5 { format!("{n:.0}/{unit}") } else { format!("{n:.1}/{unit}") }
}

fn trimmed(number: f64, unit: &str) -> String {
    let text = format!("{number:.1}");
    format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
}

/// A wall-clock reading as a date.
pub(crate) fn date(wall: Wall) -> String {
    wall.to_string()
}

/// `text` with control characters, also the invisible ones that reorder text, escaped.
pub(crate) fn escaped(text: &str) -> String {
    harmless(text).into_owned()
}

/// The same for lines: they end, and have tabs.
pub(crate) fn escaped_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(['\n', '\t']) {
        let end = piece.trim_end_matches(['\n', '\t']).len();
        out.push_str(&escaped(&piece[..end]));
        out.push_str(&piece[end..]);
    }
    out
}

/// The same for what may be no text: bytes that are none are left as they are.
pub(crate) fn escaped_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.extend_from_slice(escaped(chunk.valid()).as_bytes());
        out.extend_from_slice(chunk.invalid());
    }
    out
}

/// Two digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `n thing` or `n things`.
pub(crate) fn count(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_typed() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("1.5s", 1500),
            ("5m", 300_000),
            ("1d", 86_400_000),
            ("0", 0),
            ("7", 7000),
            ("1m30s", 90_000),
            ("1h30m0.5s", 5_400_500),
        ] {
            assert_eq!(span(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "s", "10x", "-1s", "1s2", "1m s", "1e9", "..s", "999999999999999999d"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn spans_are_told_briefly() {
        for (millis, text) in [
            (5, "5ms"),
            (1000, "1s"),
            (1500, "1.5s"),
            (90_000, "90s"),
            (600_000, "10m"),
            (86_400_000, "24h"),
            (864_000_000, "10d"),
        ] {
            assert_eq!(brief(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn a_rate_is_told_in_the_unit_of_time_that_fits() {
        for (rate, told) in [(1234.4, "1234/s"), (2.0, "2.0/s"), (0.5, "30.0/m"), (0.001, "3.6/h")] {
            assert_eq!(per_time(rate), told);
        }
    }

    #[test]
    fn nothing_that_steers_a_terminal_gets_through() {
        assert_eq!(escaped("a\u{1b}[2J\r\n\u{202e}é"), "a\\u{1b}[2J\\r\\n\\u{202e}é");
    }
}
