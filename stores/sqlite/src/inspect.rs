//! What the connections to a file say of themselves: whether a commit is on the disk before it is answered.

use rusqlite::Connection;
use tenure_core::StoreError;
use tenure_store::Inspection;

/// What of the connection matters to leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConnectionSettings {
    synchronous: i64,
    journal: String,
}

impl ConnectionSettings {
    pub(crate) fn of(connection: &Connection) -> rusqlite::Result<ConnectionSettings> {
        Ok(ConnectionSettings {
            synchronous: connection.query_row("PRAGMA synchronous", [], |row| row.get(0))?,
            journal: connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?,
        })
    }
}

pub(crate) fn told(settings: Result<ConnectionSettings, StoreError>) -> Inspection {
    /// `synchronous = FULL`.
    const FULL: i64 = 2;
    let mut found = Inspection::default();
    match settings {
        Ok(ConnectionSettings { synchronous, journal }) if synchronous >= FULL && journal == "wal" => {
            found.fine(
                "durability",
                "each commit is on the disk before it is answered (synchronous FULL, WAL)",
            );
        }
        Ok(ConnectionSettings { synchronous, journal }) => found.hazard(
            "durability",
            format!("a power cut can lose the last commits (synchronous {synchronous}, journal {journal})"),
        ),
        Err(error) => found.note("durability", format!("can't be told: {error}")),
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_power_cut_can_lose_is_told() {
        let told = |synchronous, journal: &str| {
            told(Ok(ConnectionSettings { synchronous, journal: journal.to_owned() })).hazards().count()
        };
        assert_eq!([told(2, "wal"), told(3, "wal"), told(1, "wal"), told(2, "delete")], [0, 0, 1, 1]);
    }
}
