//! What stores on servers read from their URLs alike.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;
use tenure_core::StoreError;

/// One option of a store's URL. Its errors name it, and never repeat a value that could hold a password.
#[derive(Debug, Clone, Copy)]
pub struct UrlOption<'a> {
    /// Whose URL it is, for people, such as "the Redis store's URL".
    pub url: &'a str,
    /// What stands before the `=`.
    pub name: &'a str,
    /// What stands after it.
    pub value: &'a str,
}

impl UrlOption<'_> {
    /// A whole number.
    ///
    /// # Errors
    /// `Invalid`, if it is none or over 32 bits.
    pub fn number(&self) -> Result<u32, StoreError> {
        self.value.parse().map_err(|_| self.refused("takes a whole number"))
    }

    /// A span in milliseconds.
    ///
    /// # Errors
    /// As [`Self::number`].
    pub fn millis(&self) -> Result<Duration, StoreError> {
        self.number().map(|millis| Duration::from_millis(u64::from(millis)))
    }

    /// True for the one word, false for the other.
    ///
    /// # Errors
    /// `Invalid`, for any other word.
    pub fn is(&self, yes: &str, no: &str) -> Result<bool, StoreError> {
        match self.value {
            value if value == yes => Ok(true),
            value if value == no => Ok(false),
            _ => Err(self.refused(&format!("is {yes} or {no}"))),
        }
    }

    /// `Invalid`: what is wrong with the option.
    #[must_use]
    pub fn refused(&self, why: &str) -> StoreError {
        StoreError::invalid(format!("{}: {} {why}", self.url, self.name))
    }
}

/// Whether a host's name or address is this host's own, so that no network lies between.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Refuses a span outside what makes sense; `what` it is, for people, such as "timeout".
///
/// # Errors
/// `Invalid`, with the bounds in whole milliseconds and whole seconds.
pub fn check_span(what: &str, span: Duration, within: RangeInclusive<Duration>) -> Result<(), StoreError> {
    if within.contains(&span) {
        return Ok(());
    }
    let (least, most) = (within.start().as_millis(), within.end().as_secs());
    Err(StoreError::invalid(format!(
        "a {what} of {span:?} is outside {least} ms to {most} s; choose one within"
    )))
}

#[cfg(test)]
mod tests {
    //! Plan: what an option says and what it may not say; what is this host; that bounds are within.
    use super::*;

    fn option<'a>(name: &'a str, value: &'a str) -> UrlOption<'a> {
        UrlOption { url: "the URL", name, value }
    }

    #[test]
    fn an_option_is_understood_or_refused_by_name() {
        assert_eq!(option("timeout-ms", "700").millis(), Ok(Duration::from_millis(700)));
        assert_eq!(
            (option("push", "on").is("on", "off"), option("push", "off").is("on", "off")),
            (Ok(true), Ok(false))
        );
        for (error, says) in [
            (option("n", "-1").number().unwrap_err(), "the URL: n takes a whole number"),
            (option("push", "secret").is("on", "off").unwrap_err(), "the URL: push is on or off"),
        ] {
            assert_eq!(error, StoreError::invalid(says));
        }
    }

    #[test]
    fn a_loopback_address_is_this_host() {
        for (host, is_own) in [
            ("localhost", true),
            ("127.0.0.9", true),
            ("::1", true),
            ("10.0.0.7", false),
            ("localhost.example", false),
        ] {
            assert_eq!(is_loopback(host), is_own, "{host}");
        }
    }

    #[test]
    fn a_span_is_within_its_bounds_or_refused_with_them() {
        let check = |span| check_span("timeout", span, Duration::from_millis(10)..=Duration::from_secs(60));
        assert_eq!((check(Duration::from_millis(10)), check(Duration::from_secs(60))), (Ok(()), Ok(())));
        for span in [Duration::from_millis(9), Duration::from_millis(60_001)] {
            let says = format!("a timeout of {span:?} is outside 10 ms to 60 s; choose one within");
            assert_eq!(check(span), Err(StoreError::invalid(says)));
        }
    }
}
