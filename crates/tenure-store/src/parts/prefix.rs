//! Where the keys end that begin alike, for listings by ranges of bytes.

/// The first bytes after all those that begin with `prefix`; none if nothing comes after them.
#[must_use]
pub fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while end.pop_if(|byte| *byte == u8::MAX).is_some() {}
    *end.last_mut()? += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_what_no_longer_begins_with_it() {
        assert_eq!(end_of_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(end_of_prefix(b"a\xff"), Some(b"b".to_vec()));
        assert_eq!(end_of_prefix(b"\xff\xff"), None);
        assert_eq!(end_of_prefix(b""), None);
    }
}
