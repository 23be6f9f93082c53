//! What is asked of a holder.

use std::fmt;
use tenure_core::Ask;

/// What [`Leases::request`](crate::Leases::request) asks of a holder, and [`Guard::asked`](crate::Guard::asked) tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Request {
    /// Please give the key up when it suits you.
    HandOver,
    /// The key is withdrawn: stop now. It is vacated, or no longer renewed, when the holder's validity ends.
    Revoke,
}

impl Request {
    /// What users are told of what a letter asks: none of what holders' machines answer by themselves.
    pub(crate) fn of(ask: Ask) -> Option<Request> {
        match ask {
            Ask::HandOver => Some(Request::HandOver),
            Ask::Revoke => Some(Request::Revoke),
            _ => None,
        }
    }
}

/// As a letter in a record has it.
impl From<Request> for Ask {
    fn from(request: Request) -> Ask {
        match request {
            Request::HandOver => Ask::HandOver,
            Request::Revoke => Ask::Revoke,
        }
    }
}

/// As `hand over`.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Request::HandOver => "hand over",
            Request::Revoke => "revoke",
        })
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what users ask is what holders are told; what machines ask of one another is neither.
    use super::*;

    #[test]
    fn what_machines_ask_of_one_another_is_no_request() {
        let all =
            Ask::ALL.map(|ask| Request::of(ask).map(|request| (Ask::from(request), request.to_string())));
        let told = |ask, text: &str| Some((ask, text.to_owned()));
        assert_eq!(all, [told(Ask::HandOver, "hand over"), told(Ask::Revoke, "revoke"), None, None]);
    }
}
