//! Credentials have no place in a store's URL.

use tenure_core::StoreError;
use tenure_store::parts::check_nobody;

/// What a URL looks like, for who has written another one.
pub(crate) const HINT: &str = "write dynamodb://TABLE?region=REGION&namespace=NAME";

/// What follows `dynamodb:` in a URL, or all of it where that has been taken off already.
pub(crate) fn after_scheme(url: &str) -> &str {
    url.strip_prefix("dynamodb:").unwrap_or(url)
}

/// That what follows `dynamodb:` in a URL names nobody who calls, so that no part of a password is taken for something else, and shown.
pub(crate) fn check_credentials(rest: &str) -> Result<(), StoreError> {
    let belong = format!(
        "credentials don't belong in the URL of a DynamoDB store, where `ps` shows them: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY; {HINT}; an @ in an option is written %40"
    );
    check_nobody(rest, &belong)
}
