//! What DynamoDB's errors mean to the caller.
//!
//! Whether a call took effect is certain where the service refused it, or where it was never sent. All else is unknown for a
//! write. Texts name the table and the remedy. The service's own words are repeated only where they can't hold what was
//! signed.

use crate::layout::Layout;
use crate::location::TableLocation;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use std::error::Error;
use std::fmt;
use tenure_core::StoreError;
use tenure_store::parts::Call;

/// The error of a call to the service.
pub(crate) fn failed<E>(place: &TableLocation, call: Call, error: SdkError<E, HttpResponse>) -> StoreError
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let meaning = meaning(place, call, &error);
    let code = error.as_service_error().map(|refusal| refusal.code().unwrap_or(NO_CODE).to_owned());
    // The words of the service are in it.
    let source = error.into_source().ok().filter(|_| code.as_deref().is_none_or(is_plain));
    match (code.as_deref(), source) {
        (Some(ACCESS_DENIED), Some(source)) => meaning.because(Denial::Access(source)),
        (Some(code), _) if is_login(code) => meaning.because(Denial::Login),
        (_, Some(source)) => meaning.because(source),
        (_, None) => meaning,
    }
}

/// That the service refused whoever asked, and not what was asked for.
#[derive(Debug)]
enum Denial {
    /// It did not take the credentials. Its own words may hold what was signed.
    Login,
    /// It took them, and the role lacks the right.
    Access(Box<dyn Error + Send + Sync>),
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Denial::Login => "the credentials were refused",
            Denial::Access(_) => "the role lacks a right",
        })
    }
}

impl Error for Denial {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Denial::Login => None,
            Denial::Access(source) => Some(&**source),
        }
    }
}

/// Whether the service did not take the credentials.
pub(crate) fn is_turned_away(error: &StoreError) -> bool {
    matches!(denial(error), Some(Denial::Login))
}

/// Whether the service refused for want of a right.
pub(crate) fn is_denial(error: &StoreError) -> bool {
    matches!(denial(error), Some(Denial::Access(_)))
}

fn denial(error: &StoreError) -> Option<&Denial> {
    error.source()?.downcast_ref()
}

fn meaning<E>(place: &TableLocation, call: Call, error: &SdkError<E, HttpResponse>) -> StoreError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match error {
        SdkError::ServiceError(refusal) => {
            let status = refusal.raw().status().as_u16();
            refused(place, call, status, refusal.err().code(), refusal.err().message())
        }
        SdkError::ConstructionFailure(_) => not_sent(place, error),
        SdkError::DispatchFailure(failure) => {
            let was_sent =
                !(failure.is_user() || is_unsent(failure.as_connector_error().map(|e| e as &dyn Error)));
            if was_sent { unanswered(place, call, error) } else { not_sent(place, error) }
        }
        _ => unanswered(place, call, error),
    }
}

/// The service refused a call, by an error code of its own.
fn refused(
    place: &TableLocation,
    call: Call,
    status: u16,
    code: Option<&str>,
    message: Option<&str>,
) -> StoreError {
    // Whatever else comes, from something between or half an answer, does not say that nothing was done.
    let is_refusal = code.is_some() && (400..500).contains(&status);
    let code = code.unwrap_or(NO_CODE);
    let said = message.unwrap_or("no more was said");
    match code {
        "ResourceNotFoundException" => StoreError::unavailable(format!(
            "{place}: there is no such table; check its name and its region, or {}",
            place.layout.creation
        )),
        "ProvisionedThroughputExceededException"
        | "ThrottlingException"
        | "RequestLimitExceeded"
        | "LimitExceededException" => StoreError::unavailable(format!(
            "{place}: throttled ({code}); raise the table's capacity, or bill it on demand"
        )),
        ACCESS_DENIED => StoreError::invalid(format!(
            "{place}: access denied; the role needs {} on this table ({said})",
            place.layout.actions
        )),
        "ExpiredTokenException" | "ExpiredToken" => StoreError::unavailable(format!(
            "{place}: the credentials have expired; renew them (aws sso login, or a new session token)"
        )),
        "UnrecognizedClientException" | "InvalidClientTokenId" | "MissingAuthenticationTokenException" => {
            StoreError::invalid(format!(
                "{place}: the service does not know these credentials ({code}); check AWS_PROFILE or AWS_ACCESS_KEY_ID"
            ))
        }
        "InvalidSignatureException" if is_about_time(said) => clocks_apart(place, code),
        // What was signed holds the session's token, so the service's words are not repeated.
        "InvalidSignatureException" | "IncompleteSignatureException" => StoreError::invalid(format!(
            "{place}: the signature was refused ({code}); check the secret key, the region, and this host's clock"
        )),
        "RequestExpired" | "RequestTimeTooSkewed" | "RequestInTheFuture" => clocks_apart(place, code),
        "ItemCollectionSizeLimitExceededException" => StoreError::unavailable(format!(
            "{place}: what has the same HASH key has reached 10 GB, the limit of a table with local indexes; remove the \
             indexes, or {}",
            place.layout.removal
        )),
        "TransactionConflictException" | "TransactionInProgressException" => StoreError::unavailable(
            format!("{place}: a transaction is under way on the same item; nothing was written"),
        ),
        "ReplicatedWriteConflictException" => StoreError::unavailable(format!(
            "{place}: another region writes the same item; nothing was written"
        )),
        "ValidationException" if is_about_keys(said) => StoreError::invalid(wrong_keys(place, said)),
        "ValidationException" => {
            StoreError::invalid(format!("{place}: the service does not accept the request ({said})"))
        }
        _ if !is_refusal && call == Call::Write => StoreError::unknown(format!(
            "{place}: the service failed ({status} {code}); the write may or may not have taken effect"
        )),
        // Each error of the service's has a code.
        _ if code == NO_CODE => StoreError::unavailable(format!(
            "{place}: the service refused the request ({status} {code}); is DynamoDB what listens at the endpoint?"
        )),
        _ => StoreError::unavailable(format!("{place}: the service refused the request ({status} {code})")),
    }
}

/// What errors without a code of the service's have in its place.
const NO_CODE: &str = "no code";

/// What the service says to a role without the right.
const ACCESS_DENIED: &str = "AccessDeniedException";

/// Whether a code is about the credentials, or what was signed with them.
fn is_login(code: &str) -> bool {
    [
        "UnrecognizedClientException",
        "InvalidClientTokenId",
        "MissingAuthenticationTokenException",
        "InvalidSignatureException",
        "IncompleteSignatureException",
    ]
    .contains(&code)
}

/// Whether other credentials may help where the service refuses with this code and these words. They do not where only a clock is off.
pub(crate) fn is_about_credentials(code: &str, said: &str) -> bool {
    (is_login(code) && !is_about_time(said)) || ["ExpiredTokenException", "ExpiredToken"].contains(&code)
}

/// Whether the service's words with this code are for everybody: they can't hold what was signed, nor what nobody knows of yet.
fn is_plain(code: &str) -> bool {
    [
        "ResourceNotFoundException",
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "RequestLimitExceeded",
        "LimitExceededException",
        ACCESS_DENIED,
        "ItemCollectionSizeLimitExceededException",
        "TransactionConflictException",
        "TransactionInProgressException",
        "ReplicatedWriteConflictException",
        "ValidationException",
    ]
    .contains(&code)
}

/// What is signed is dated, and by its words alone the service tells a date that is off from a wrong key.
fn is_about_time(said: &str) -> bool {
    ["Signature expired", "Signature not yet current"].iter().any(|words| said.starts_with(words))
}

/// It passes: a machine that was suspended, or has just been started, has its clock set in a while.
fn clocks_apart(place: &TableLocation, code: &str) -> StoreError {
    StoreError::unavailable(format!(
        "{place}: the service's clock and this host's are too far apart ({code}); set this host's clock"
    ))
}

fn is_about_keys(said: &str) -> bool {
    let said = said.to_lowercase();
    // As when a table was replaced by another of the same name while in use.
    [
        "provided key element does not match",
        "missing the key",
        "key schema",
        "number of conditions on the keys",
    ]
    .iter()
    .any(|words| said.contains(words))
}

pub(crate) fn wrong_keys(place: &TableLocation, found: &str) -> String {
    let Layout { whose, creation, .. } = place.layout;
    let keys = place.layout.described();
    format!("{place}: the table's keys are not {whose}, {keys} ({found}); name another table, or {creation}")
}

/// The request never left this host, or was not even made.
fn not_sent(place: &TableLocation, error: &(dyn Error + 'static)) -> StoreError {
    let why = causes(error);
    let remedy = if why.contains("credential") || why.contains("identity") {
        "there are no credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    } else {
        "the service can't be reached; check the region, the endpoint and the network"
    };
    StoreError::unavailable(format!("{place}: {remedy} ({why})"))
}

fn unanswered(place: &TableLocation, call: Call, error: &(dyn Error + 'static)) -> StoreError {
    let why = causes(error);
    match call {
        Call::Read => StoreError::unavailable(format!("{place}: no answer ({why})")),
        Call::Write => StoreError::unknown(format!(
            "{place}: no answer to a write ({why}); it may or may not have taken effect"
        )),
    }
}

/// Whether a failure is one of those after which no byte of a request can have been sent.
///
/// What the system says does not tell. Linux also ends a connection that has sent for long with "host unreachable" or "connection refused", where a
/// router or a firewall answered what it sent again.
fn is_unsent(error: Option<&(dyn Error + 'static)>) -> bool {
    for cause in chain(error) {
        // What comes of credentials lies above a request of their own.
        if let Some(client) = cause.downcast_ref::<hyper_util::client::legacy::Error>() {
            return client.is_connect();
        }
        let said = cause.to_string();
        let unsent = ["HTTP connect timeout", "dns error", "credential", "identity resolver"];
        if unsent.iter().any(|words| said.contains(words)) {
            return true;
        }
    }
    false
}

fn chain<'e>(error: Option<&'e (dyn Error + 'static)>) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(error, |error: &&'e (dyn Error + 'static)| (*error).source())
}

/// An error with what caused it, in one line.
fn causes(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    for cause in chain(Some(error)) {
        let text = cause.to_string();
        // Many say again what their source says.
        if !texts.iter().any(|earlier| earlier.contains(&text)) {
            texts.push(text);
        }
    }
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    //! Plan: what an established connection may end with, and what precedes a connection. That one was refused: `tests/faults.rs`.
    use super::*;
    use std::io::{self, ErrorKind};

    #[derive(Debug)]
    struct Cause(&'static str, Option<Box<dyn Error + Send + Sync>>);

    impl fmt::Display for Cause {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Cause {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    #[test]
    fn what_the_system_says_of_a_connection_does_not_tell_that_nothing_was_sent() {
        for kind in [
            ErrorKind::HostUnreachable,
            ErrorKind::NetworkUnreachable,
            ErrorKind::ConnectionRefused,
            ErrorKind::TimedOut,
        ] {
            let sent = Cause("client error (SendRequest)", Some(io::Error::from(kind).into()));
            let failure = Cause("io error", Some(sent.into()));
            assert!(!is_unsent(Some(&failure)), "{kind}");
        }
        let resolver = Cause("the credential provider was not enabled", None);
        assert!(is_unsent(Some(&Cause("dispatch failure", Some(resolver.into())))));
        assert!(!is_unsent(None));
    }
}
