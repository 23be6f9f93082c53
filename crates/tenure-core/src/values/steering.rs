//! What does more in a text than to be read.

/// Whether a character does something to a terminal or to the text around it: a control character, or an invisible one that reorders, breaks or
/// hides text. In what people are shown it is escaped.
#[must_use]
pub fn steers_terminals(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
