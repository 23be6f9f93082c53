//! What etcd's errors mean to the caller.
//!
//! What etcd itself refuses was certainly not done, unless it has no space left. A connection that ended, an answer that did not come, and whatever etcd says when it
//! gives up on a request that it had passed on to its cluster, leave a write unknown.

use tenure_core::StoreError;
pub(crate) use tenure_store::parts::Call;
use tonic::{Code, Status};

/// What came of one attempt at one member.
#[derive(Debug, Clone)]
pub(crate) enum AttemptError {
    /// Certainly not done: there was no connection to send it by. Another member may do it.
    Unreached(StoreError),
    /// Certainly not done here, as the member itself says; another one may do it.
    Elsewhere(StoreError),
    /// The pass was not accepted: certainly not done, and may be with a new one.
    Pass(StoreError),
    /// Refused for good, and certainly not done.
    Refused(StoreError),
    /// Refused for lack of space: not done, unless it is a write by which that came about.
    Full(StoreError),
    /// Nobody knows what became of it.
    Broken(StoreError),
}

impl AttemptError {
    pub(crate) fn of(place: &str, status: &Status) -> AttemptError {
        match AttemptError::meaning(place, status) {
            AttemptError::Unreached(error) => AttemptError::Unreached(error.because(status.clone())),
            AttemptError::Elsewhere(error) => AttemptError::Elsewhere(error.because(status.clone())),
            AttemptError::Pass(error) => AttemptError::Pass(error.because(status.clone())),
            AttemptError::Refused(error) => AttemptError::Refused(error.because(status.clone())),
            AttemptError::Full(error) => AttemptError::Full(error.because(status.clone())),
            AttemptError::Broken(error) => AttemptError::Broken(error.because(status.clone())),
        }
    }

    fn meaning(place: &str, status: &Status) -> AttemptError {
        if never_connected(status) {
            return AttemptError::Unreached(strange(place, &words(status)));
        }
        let says = status.message();
        let refused =
            |remedy: &str| AttemptError::Refused(StoreError::invalid(format!("{place}: {says}; {remedy}")));
        match status.code() {
            Code::Unauthenticated => AttemptError::Pass(StoreError::unavailable(format!("{place}: {says}"))),
            _ if wants_user(says) => {
                let remedy = "name a user, with password-file= or a client certificate";
                AttemptError::Pass(StoreError::invalid(format!("{place}: {says}; {remedy}")))
            }
            Code::PermissionDenied => {
                refused("grant the user's role readwrite on all keys that begin with the prefix and \":\"")
            }
            _ if is_wrong_login(status) => refused("check the user, and the password or its file"),
            Code::InvalidArgument if says.contains("request is too large") => refused(
                "the cluster's --max-request-bytes is below its default of 1.5 MiB, which tenure needs",
            ),
            Code::InvalidArgument if says.contains("too many operations") => {
                refused("the cluster's --max-txn-ops is below its default of 128, which tenure needs")
            }
            Code::ResourceExhausted if says.contains("space exceeded") => {
                AttemptError::Full(StoreError::unavailable(format!(
                    "{place}: {says}; compact and defragment it, then `etcdctl alarm disarm`; a higher --quota-backend-bytes or \
                     --auto-compaction-retention keeps that from coming again"
                )))
            }
            // It says so before it passes anything on. A connection that ends has this code, too, and then anything may have come of it.
            Code::ResourceExhausted if says == "etcdserver: too many requests" => {
                AttemptError::Elsewhere(StoreError::unavailable(format!("{place}: {says}")))
            }
            // It says so before it passes anything on.
            Code::Unavailable if says == "etcdserver: no leader" => {
                AttemptError::Elsewhere(StoreError::unavailable(format!(
                    "{place}: {says}; a majority of the members must reach each other"
                )))
            }
            // It has no vote yet, and passes nothing on.
            Code::Unavailable if says.contains("not supported for learner") => {
                AttemptError::Elsewhere(StoreError::unavailable(format!(
                    "{place}: {says}; it is a member that is still learning: name the voting members, or `etcdctl member promote` it"
                )))
            }
            Code::Unimplemented => refused("it has no such service: is it etcd 3.4 or newer?"),
            Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound | Code::OutOfRange => {
                AttemptError::Refused(StoreError::invalid(format!("{place}: {says}")))
            }
            _ => AttemptError::Broken(StoreError::unavailable(format!(
                "{place}: {}{}",
                words(status),
                not_etcd(status)
            ))),
        }
    }

    /// What is left to say of it after all attempts at a call.
    pub(crate) fn into_error(self, call: Call) -> StoreError {
        match self {
            AttemptError::Broken(error) if call == Call::Write => {
                StoreError::unknown(format!("a write was not answered: {error}")).because(error)
            }
            AttemptError::Full(error) if call == Call::Write => unclear(&error),
            AttemptError::Unreached(error)
            | AttemptError::Elsewhere(error)
            | AttemptError::Pass(error)
            | AttemptError::Refused(error)
            | AttemptError::Full(error)
            | AttemptError::Broken(error) => error,
        }
    }

    /// A call had no answer in time. It was never sent where nothing but connections were tried.
    pub(crate) fn unanswered(place: &str, sent: bool) -> AttemptError {
        let error = StoreError::unavailable(format!(
            "{place}: no answer in time; is etcd listening for clients there, and do most of its members run and reach each other?"
        ));
        if sent { AttemptError::Broken(error) } else { AttemptError::Elsewhere(error) }
    }
}

/// A full cluster refused a write that may be the one by which it became full: see [`crate::full`].
pub(crate) fn unclear(error: &StoreError) -> StoreError {
    StoreError::unknown(format!("{error}; whether this write was still done is not known"))
        .because(error.clone())
}

/// Whether etcd does not let this user in, or any without a name.
pub(crate) fn is_turned_away(error: &StoreError) -> bool {
    status_of(error).is_some_and(|status| wants_user(status.message()) || is_wrong_login(status))
}

fn status_of(error: &StoreError) -> Option<&Status> {
    std::error::Error::source(error)?.downcast_ref()
}

fn wants_user(says: &str) -> bool {
    says.contains("user name is empty") || says.contains("revision of auth store is old")
}

fn is_wrong_login(status: &Status) -> bool {
    status.code() == Code::InvalidArgument && status.message().contains("invalid user ID or password")
}

/// Whether there was no connection that a request could have been sent by.
fn never_connected(status: &Status) -> bool {
    causes(status).any(|cause| cause.is::<tonic::ConnectError>())
}

/// What is at the other end is no member that may be used, or none at all.
fn strange(place: &str, says: &str) -> StoreError {
    let remedy = if says.contains("invalid peer certificate") {
        "name the host as its certificate does, or the authority that signed it with ca=FILE"
    } else {
        "is etcd listening for clients there, and does it speak what the URL says (etcd:, etcds:)?"
    };
    StoreError::unavailable(format!("{place}: {says}; {remedy}"))
}

fn not_etcd(status: &Status) -> &'static str {
    let is_strange = std::error::Error::source(status).is_some() || status.message().contains("HTTP status");
    if is_strange { "; is that etcd, and does it speak what the URL says (etcd:, etcds:)?" } else { "" }
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(std::error::Error::source(status), |error| error.source())
}

/// An error with its causes: the library's own text leaves them out.
fn words(status: &Status) -> String {
    let mut text = status.message().to_owned();
    for cause in causes(status) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = if text.is_empty() { cause } else { format!("{text}: {cause}") };
        }
    }
    if text.is_empty() { status.code().to_string() } else { text }
}

#[cfg(test)]
mod tests {
    //! Plan: what is certainly not done, what is not known, and that only a write is unknown.
    use super::*;
    use tenure_core::ErrorKind;

    #[test]
    fn a_certificate_that_is_not_trusted_has_a_remedy_of_its_own() {
        for (says, remedy, other) in [
            ("invalid peer certificate: UnknownIssuer", "ca=FILE", "listening"),
            (
                "invalid peer certificate: certificate not valid for name \"h\"",
                "name the host as",
                "listening",
            ),
            ("connection refused", "listening", "certificate"),
        ] {
            let text = strange("there", says).to_string();
            assert!(
                text.contains(says) && text.contains(remedy) && !text.replace(says, "").contains(other),
                "{text}"
            );
        }
        // The port may be wrong, too.
        let silent = AttemptError::unanswered("there", false).into_error(Call::Read).to_string();
        assert!(silent.contains("is etcd listening") && silent.contains("most of its members"), "{silent}");
    }

    #[test]
    fn only_what_etcd_refuses_is_certainly_not_done() {
        let kind = |code, text: &str| {
            AttemptError::of("there", &Status::new(code, text)).into_error(Call::Write).kind()
        };
        for (code, text, expected) in [
            (Code::PermissionDenied, "etcdserver: permission denied", ErrorKind::Invalid),
            (Code::InvalidArgument, "etcdserver: duplicate key given in txn request", ErrorKind::Invalid),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", ErrorKind::Unknown),
            (Code::ResourceExhausted, "etcdserver: too many requests", ErrorKind::Unavailable),
            (Code::ResourceExhausted, "h2 protocol error: http2 error", ErrorKind::Unknown),
            (Code::Unavailable, "etcdserver: no leader", ErrorKind::Unavailable),
            (Code::Unavailable, "etcdserver: rpc not supported for learner", ErrorKind::Unavailable),
            (Code::Unavailable, "etcdserver: request timed out", ErrorKind::Unknown),
            (Code::Unavailable, "etcdserver: leader changed", ErrorKind::Unknown),
            (Code::Unavailable, "etcdserver: server stopped", ErrorKind::Unknown),
            (Code::Unknown, "raft: proposal dropped", ErrorKind::Unknown),
            (Code::Cancelled, "", ErrorKind::Unknown),
            (Code::DeadlineExceeded, "context deadline exceeded", ErrorKind::Unknown),
            (Code::Internal, "stream terminated", ErrorKind::Unknown),
        ] {
            assert_eq!(kind(code, text), expected, "{code:?} {text}");
        }
        for code in [Code::Internal, Code::ResourceExhausted] {
            let read = AttemptError::of("there", &Status::new(code, "")).into_error(Call::Read);
            assert_eq!(read.kind(), ErrorKind::Unavailable);
        }
    }
}
