//! What the connections to a file say of themselves: whether a commit is on the disk before it is answered.

use rusqlite::{Connection, MAIN_DB};
use tenure_core::StoreError;
use tenure_store::Inspection;

/// What of the connection matters to leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConnectionSettings {
    synchronous: i64,
    journal: String,
    /// It says nothing of how those write that do.
    only_reads: bool,
}

impl ConnectionSettings {
    pub(crate) fn of(connection: &Connection) -> rusqlite::Result<ConnectionSettings> {
        Ok(ConnectionSettings {
            synchronous: connection.query_row("PRAGMA synchronous", [], |row| row.get(0))?,
            journal: connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?,
            only_reads: connection.is_readonly(MAIN_DB)?,
        })
    }
}

pub(crate) fn told(settings: Result<ConnectionSettings, StoreError>) -> Inspection {
    /// `synchronous = FULL`.
    const FULL: i64 = 2;
    let mut found = Inspection::default();
    match settings {
        Ok(ConnectionSettings { only_reads: true, .. }) => {
            found.note("durability", "can't be told where the file can't be written");
        }
        Ok(ConnectionSettings { synchronous, journal, .. }) if synchronous >= FULL && journal == "wal" => {
            found.fine(
                "durability",
                "each commit is on the disk before it is answered (synchronous FULL, WAL)",
            );
        }
        Ok(ConnectionSettings { synchronous, journal, .. }) => found.hazard(
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
        let told = |synchronous, journal: &str, only_reads| {
            let settings = ConnectionSettings { synchronous, journal: journal.to_owned(), only_reads };
            told(Ok(settings)).hazards().count()
        };
        let writes = [(2, "wal"), (3, "wal"), (1, "wal"), (2, "delete")];
        assert_eq!(writes.map(|(synchronous, journal)| told(synchronous, journal, false)), [0, 0, 1, 1]);
        assert_eq!(told(2, "delete", true), 0, "it is another one's journal");
    }
}
