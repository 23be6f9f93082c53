//! The options of a URL with a dialect: those of the dialect itself, and where the table is.

use super::Dialect;
use crate::config::DynamoConfig;
use crate::credentials::{after_scheme, check_credentials};
use std::collections::BTreeMap;
use tenure_core::StoreError;

impl Dialect {
    /// Reads a URL with this dialect, with or without its scheme: where the table is, and of the other options those called `own`.
    ///
    /// # Errors
    /// As [`DynamoConfig::from_url`]; the text of an option that nobody knows names `own` too.
    pub fn options(
        self,
        url: &str,
        own: &[&str],
    ) -> Result<(DynamoConfig, BTreeMap<String, String>), StoreError> {
        let bad = |text: String| StoreError::invalid(text);
        let rest = after_scheme(url);
        check_credentials(rest)?;
        if Dialect::of_url(rest)? != Some(self) {
            let name = self.name();
            return Err(bad(format!("the URL names another layout; add dialect={name} to its options")));
        }
        let (head, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut ours, mut place) = (BTreeMap::new(), url::form_urlencoded::Serializer::new(String::new()));
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "dialect" => {}
                "namespace" | "attested_ages" | "drift_per_mille" => {
                    return Err(bad(format!(
                        "the option {name} is of tenure's own layout; the dialect {} has nothing of the kind",
                        self.name()
                    )));
                }
                name if own.contains(&name) => {
                    ours.insert(name.to_owned(), value.into_owned());
                }
                "region" | "endpoint" | "profile" | "timeout_ms" | "plain_text" | "one_region" => {
                    place.append_pair(&name, &value);
                }
                other => {
                    return Err(bad(format!(
                        "the dialect {} has no option {other:?}; there are region, endpoint, profile, timeout_ms, plain_text, \
                         one_region, {}",
                        self.name(),
                        own.join(", ")
                    )));
                }
            }
        }
        let query = place.finish();
        let config = DynamoConfig::from_url(&if query.is_empty() {
            head.to_owned()
        } else {
            format!("{head}?{query}")
        })?;
        Ok((config, ours))
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a dialect's options and those of the place are told apart, and what belongs to neither is named.
    use super::*;

    #[test]
    fn options_are_the_dialect_s_or_the_place_s() {
        let read = |rest: &str| Dialect::Kcl.options(rest, &["x", "y"]);
        let (config, own) = read("//jobs?region=eu-west-1&x=a%26b&dialect=kcl&timeout_ms=50").unwrap();
        let place =
            DynamoConfig::new("jobs").region("eu-west-1").timeout(std::time::Duration::from_millis(50));
        assert_eq!((config, own), (place, [("x".to_owned(), "a&b".to_owned())].into()));
        let (config, _) = read("dynamodb://jobs?dialect=kcl").unwrap();
        assert_eq!(config, DynamoConfig::new("jobs"), "a whole URL is as good");
        for (rest, says) in [
            ("//jobs?region=eu-west-1", "add dialect=kcl"),
            ("//jobs?dialect=tabletheory", "add dialect=kcl"),
            ("//jobs?dialect=kcl&namespace=a", "namespace is of tenure's own layout"),
            ("//jobs?dialect=kcl&z=1", "no option \"z\"; there are region, endpoint"),
            ("//jobs?dialect=kcl&region=", "eu-west-1"),
            ("//k:hidden@jobs?dialect=kcl", "AWS_PROFILE"),
            ("dynamodb://k:hidden@jobs?dialect=kcl", "AWS_PROFILE"),
        ] {
            let error = read(rest).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("hidden"), "{rest}: {error}");
        }
    }
}
