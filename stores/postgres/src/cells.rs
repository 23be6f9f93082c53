//! Where the columns of an answer are found: side by side in a row, or all in one value, as in a function's answer.

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

/// Values in their order, each with a type of its own.
pub(crate) trait RowCells {
    /// The value at a place, or why there is none of this type.
    fn cell<'a, T: FromSql<'a>>(&'a self, place: usize) -> Result<T, String>;
}

impl RowCells for Row {
    fn cell<'a, T: FromSql<'a>>(&'a self, place: usize) -> Result<T, String> {
        self.try_get(place).map_err(|error| error.to_string())
    }
}

/// A row of the server's in its binary form, as `record_send` makes it.
pub(crate) struct Composite<'a>(Vec<(Type, Option<&'a [u8]>)>);

impl<'a> Composite<'a> {
    /// The number of values; then of each its type, its length and itself. A length below zero stands for none. None if it is cut off, or
    /// longer than it says.
    pub(crate) fn parse(raw: &'a [u8]) -> Option<Self> {
        let (count, mut rest) = raw.split_first_chunk()?;
        let mut cells = Vec::new();
        for _ in 0..i32::from_be_bytes(*count) {
            let (of, behind) = rest.split_first_chunk()?;
            let (length, behind) = behind.split_first_chunk()?;
            let of = Type::from_oid(u32::from_be_bytes(*of))?;
            let value = usize::try_from(i32::from_be_bytes(*length)).ok();
            let (value, behind) = match value {
                Some(length) => {
                    behind.split_at_checked(length).map(|(value, behind)| (Some(value), behind))?
                }
                None => (None, behind),
            };
            cells.push((of, value));
            rest = behind;
        }
        rest.is_empty().then_some(Composite(cells))
    }
}

impl RowCells for Composite<'_> {
    fn cell<'a, T: FromSql<'a>>(&'a self, place: usize) -> Result<T, String> {
        let (of, value) = self.0.get(place).ok_or_else(|| format!("no column {place}"))?;
        if !T::accepts(of) {
            return Err(format!("column {place} is of the type {of}"));
        }
        T::from_sql_nullable(of, *value).map_err(|error| format!("column {place}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what a server sends, cut off at each place, and longer than it says.
    use super::*;

    #[test]
    fn a_row_in_one_value_is_read_whole_or_refused() {
        let raw = b"\0\0\0\x02\0\0\0\x14\0\0\0\x08\0\0\0\0\0\0\0\x07\0\0\0\x11\xff\xff\xff\xff";
        let whole = Composite::parse(raw).unwrap();
        assert_eq!((whole.cell(0), whole.cell(1)), (Ok(7_i64), Ok(None::<Vec<u8>>)));
        assert!(whole.cell::<Vec<u8>>(0).is_err(), "of another type");
        assert!(whole.cell::<Vec<u8>>(1).is_err(), "none");
        assert!(whole.cell::<i64>(2).is_err(), "behind the last");
        for end in 0..raw.len() {
            assert!(Composite::parse(&raw[..end]).is_none(), "cut off at {end}");
        }
        assert!(Composite::parse(&[&raw[..], b"\0"].concat()).is_none());
    }
}
