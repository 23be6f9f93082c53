//! Which of the programs on a lease table are followed where they differ.

/// The programs whose conditions are followed where they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peers {
    /// The Kinesis Client Library and what is built like it: `checkpointOwner` is a handoff under way, rows with another
    /// `entityType` than `LEASE` are no leases, and an eviction raises the counter.
    Kcl,
    /// `a8m/lease`: every attribute but three is the users' own, and an eviction leaves the counter alone.
    A8m,
}

/// How "nobody" is written. Both, and the empty text, are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unowned {
    /// The attribute `leaseOwner` is left out, as the KCL does.
    Absent,
    /// It is the text `NULL`, as `a8m/lease` does.
    Null,
}

/// How the rows of a lease table are read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    pub(crate) peers: Peers,
    pub(crate) unowned: Unowned,
}

impl Format {
    /// As the KCL has it.
    #[must_use]
    pub fn kcl() -> Self {
        Format { peers: Peers::Kcl, unowned: Unowned::Absent }
    }

    /// As `a8m/lease` has it.
    #[must_use]
    pub fn a8m() -> Self {
        Format { peers: Peers::A8m, unowned: Unowned::Null }
    }

    /// With "nobody" written that way.
    #[must_use]
    pub fn unowned(self, unowned: Unowned) -> Self {
        Format { unowned, ..self }
    }

    /// The programs whose conditions are followed.
    #[must_use]
    pub fn peers(self) -> Peers {
        self.peers
    }

    /// Whether the layout is the KCL's own.
    pub(crate) fn is_kcl(self) -> bool {
        self.peers == Peers::Kcl
    }
}
