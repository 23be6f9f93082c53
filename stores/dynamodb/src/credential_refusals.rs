//! Credentials that the service does not take are not used any more, whatever end they tell.
//!
//! It is the service that knows their end: by this host's clock they may have a minute left. And somebody may have changed them where they come from.

use crate::credential_cache::CredentialCache;
use crate::error::is_about_credentials;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::config::interceptors::{
    AfterDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use std::sync::Arc;

/// Looks at the answers to all requests of a client for those that refuse its credentials.
#[derive(Debug)]
pub(crate) struct CredentialRefusals(pub(crate) Arc<CredentialCache>);

/// Which credentials a request was signed with, kept beside it until its answer comes.
#[derive(Debug, Clone, Copy)]
struct SignedWith(u64);

impl Storable for SignedWith {
    type Storer = StoreReplace<SignedWith>;
}

impl Intercept for CredentialRefusals {
    fn name(&self) -> &'static str {
        "tenure-credentials"
    }

    fn read_before_transmit(
        &self,
        _request: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // It was signed just now. If others have come in between, they are too new to be refused.
        if let Some(number) = self.0.number() {
            bag.interceptor_state().store_put(SignedWith(number));
        }
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        answer: &AfterDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let is_refused = says(answer.response()).is_some_and(|(code, said)| is_about_credentials(code, said));
        if let (true, Some(SignedWith(number))) = (is_refused, bag.load::<SignedWith>().copied()) {
            self.0.refuse(number);
        }
        Ok(())
    }
}

/// The error code of an answer, and what is said with it. What the SDK makes of them has another type for each action.
fn says(answer: &HttpResponse) -> Option<(&str, &str)> {
    if answer.status().is_success() {
        return None;
    }
    let body = std::str::from_utf8(answer.body().bytes()?).ok()?;
    let value = |name: &str| body.split_once(name)?.1.split('"').nth(1);
    // As `com.amazon.coral.service#ExpiredTokenException`.
    let code = value("\"__type\"")?.rsplit('#').next()?;
    Some((code, value("\"message\"").or_else(|| value("\"Message\"")).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    //! Plan: codes with and without what stands before them, and what has none; what is said with them, in either spelling.
    use super::*;
    use aws_smithy_types::body::SdkBody;

    #[test]
    fn the_code_of_a_refusal_is_found() {
        let refusal = |body: &'static str| {
            let mut answer = HttpResponse::new(400_u16.try_into().unwrap(), SdkBody::from(body));
            let found = says(&answer).map(|(code, said)| (code.to_owned(), said.to_owned()));
            *answer.status_mut() = 200_u16.try_into().unwrap();
            assert_eq!(says(&answer), None, "that is none");
            found
        };
        for (body, found) in [
            (
                r#"{"__type":"com.amazon.coral.service#ExpiredToken","message":"m"}"#,
                Some(("ExpiredToken", "m")),
            ),
            (r#"{"Message": "m", "__type" : "ExpiredToken"}"#, Some(("ExpiredToken", "m"))),
            (r#"{"__type":"ExpiredToken"}"#, Some(("ExpiredToken", ""))),
            (r#"{"message":"no \"__type\":\"ExpiredToken\""}"#, None),
            (r#"{"__type":7}"#, None),
            ("<html>", None),
            ("", None),
        ] {
            let refused = refusal(body);
            let refused = refused.as_ref().map(|(code, said)| (code.as_str(), said.as_str()));
            assert_eq!(refused, found, "{body}");
        }
    }
}
