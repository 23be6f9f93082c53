//! What `--json` prints, document by document. Each is read strictly by `mod.rs`, which also writes the page on them.

mod fleets;
mod jobs;
mod records;
mod sim;
mod stores;

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

pub use fleets::*;
pub use jobs::*;
pub use records::*;
pub use sim::*;
pub use stores::*;

/// Anything that other programs have written.
type Any = serde_json::Value;
type Fields = BTreeMap<String, Any>;

/// On standard error, one line: why a verb failed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    /// Why it failed.
    pub error: Reason,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// The exit status.
    pub code: u8,
    /// In words.
    pub message: String,
}
