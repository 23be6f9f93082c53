//! What does more in a text than to be read.

use std::borrow::Cow;

/// Whether a character does something to a terminal or to the text around it: a control character, or an invisible one that reorders, breaks or
/// hides text. In what people are shown it is escaped.
#[must_use]
pub fn steers_terminals(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// A text in one line, in which nothing steers a terminal: what would is escaped.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    if !text.contains(steers_terminals) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if steers_terminals(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
}
