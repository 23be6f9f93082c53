//! Where a table is.

use crate::layout::Layout;
use aws_sdk_dynamodb::Client;
use std::fmt;

/// Where a table is, as messages name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableLocation {
    pub(crate) table: String,
    pub(crate) region: String,
    pub(crate) endpoint: Option<String>,
    pub(crate) layout: Layout,
}

impl TableLocation {
    /// Where `client` finds the table of this name, which has that layout.
    pub(crate) fn of(
        client: &Client,
        table: String,
        endpoint: Option<String>,
        layout: Layout,
    ) -> TableLocation {
        let region = client.config().region().map_or("an unknown region", |region| region.as_ref());
        TableLocation { table, region: region.to_owned(), endpoint, layout }
    }
}

impl fmt::Display for TableLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynamoDB table {:?} in {}", self.table, self.region)?;
        self.endpoint.iter().try_for_each(|endpoint| write!(f, " at {endpoint}"))
    }
}
