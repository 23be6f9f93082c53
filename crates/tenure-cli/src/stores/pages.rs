//! A listing, page by page: a store may have more records than fit in memory.

use tenure::store::Listed;
use tenure::{AnyStore, Key, Store, StoreError};

/// Records in a page, and keys in one read.
pub(crate) const PAGE: usize = 1000;

/// How far a listing is.
#[derive(Default)]
pub(crate) struct Pages {
    after: Option<Key>,
    is_over: bool,
}

impl Pages {
    /// The next page of what begins so; none after the last one.
    pub(crate) async fn next(
        &mut self,
        store: &AnyStore,
        prefix: &str,
    ) -> Result<Option<Vec<Listed>>, StoreError> {
        if self.is_over {
            return Ok(None);
        }
        let page = store.list(prefix, self.after.as_ref(), PAGE).await?;
        self.is_over = page.len() < PAGE;
        self.after = page.last().map(|listed| listed.key.clone());
        Ok(Some(page))
    }
}
