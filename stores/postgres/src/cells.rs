//! Where the columns of an answer are found: side by side in a row, or all in one column, as a function's answer is.
//!
//! A function that is called for each row of a `FROM` has its answer stored and read again; one that is called as a column has not.

use std::error::Error;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

/// Values in their order, each with a type of its own.
pub(crate) trait Cells {
    /// The value at a place, or why there is none of this type.
    fn cell<'a, T: FromSql<'a>>(&'a self, place: usize) -> Result<T, String>;
}

impl Cells for Row {
    fn cell<'a, T: FromSql<'a>>(&'a self, place: usize) -> Result<T, String> {
        self.try_get(place).map_err(|error| error.to_string())
    }
}

/// A record of the server's, as it sends one in a single column.
pub(crate) struct Composite<'a>(Vec<(Type, Option<&'a [u8]>)>);

impl<'a> FromSql<'a> for Composite<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        parse(raw).ok_or_else(|| "a record that is cut off".into())
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::RECORD
    }
}

/// The number of values; then of each its type, its length and itself. A length below zero stands for none.
fn parse(raw: &[u8]) -> Option<Composite<'_>> {
    let (count, mut rest) = raw.split_first_chunk()?;
    let mut cells = Vec::new();
    for _ in 0..i32::from_be_bytes(*count) {
        let (of, behind) = rest.split_first_chunk()?;
        let (length, behind) = behind.split_first_chunk()?;
        let of = Type::from_oid(u32::from_be_bytes(*of))?;
        let value = usize::try_from(i32::from_be_bytes(*length)).ok();
        let (value, behind) = match value {
            Some(length) => behind.split_at_checked(length).map(|(value, behind)| (Some(value), behind))?,
            None => (None, behind),
        };
        cells.push((of, value));
        rest = behind;
    }
    rest.is_empty().then_some(Composite(cells))
}

impl Cells for Composite<'_> {
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
    fn a_record_in_one_column_is_read_whole_or_refused() {
        let raw = b"\0\0\0\x02\0\0\0\x14\0\0\0\x08\0\0\0\0\0\0\0\x07\0\0\0\x11\xff\xff\xff\xff";
        let read = |raw| Composite::from_sql(&Type::RECORD, raw);
        let whole = read(raw).unwrap();
        assert_eq!((whole.cell(0), whole.cell(1)), (Ok(7_i64), Ok(None::<Vec<u8>>)));
        assert!(whole.cell::<Vec<u8>>(0).is_err(), "of another type");
        assert!(whole.cell::<Vec<u8>>(1).is_err(), "none");
        assert!(whole.cell::<i64>(2).is_err(), "behind the last");
        for end in 0..raw.len() {
            assert!(read(&raw[..end]).is_err(), "cut off at {end}");
        }
        assert!(read(&[&raw[..], b"\0"].concat()).is_err());
    }
}
