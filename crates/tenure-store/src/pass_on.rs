//! Methods of a store that pass calls on to another, for stores that wrap one.

/// Writes methods of [`Store`](crate::Store) that pass their calls on, unchanged, to the store in a field.
///
/// The trait has no default bodies, so that nothing is passed on by accident: the wrapper names what it passes on, and writes the rest itself.
///
/// ```
/// use tenure_store::{
///     Capabilities, Changes, Freshness, Image, Key, Listed, Outcome, Record, Store, StoreError, Stored, Version, Write,
/// };
///
/// /// A store that nobody may write to.
/// struct ReadOnly<S>(S);
///
/// fn refused<T>() -> Result<T, StoreError> {
///     Err(StoreError::unsupported("this store is only read here"))
/// }
///
/// impl<S: Store> Store for ReadOnly<S> {
///     tenure_store::pass_on!(0: capabilities, id, read, read_many, list, image, changed);
///
///     async fn write(&self, _: Write) -> Result<Outcome, StoreError> {
///         refused()
///     }
///     async fn write_many(&self, _: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
///         refused()
///     }
///     async fn remove(&self, _: &Key, _: Version) -> Result<bool, StoreError> {
///         refused()
///     }
///     async fn mend(&self, _: &Key, _: &Image, _: Option<Record>) -> Result<bool, StoreError> {
///         refused()
///     }
/// }
/// ```
#[macro_export]
macro_rules! pass_on {
    (@ $field:tt capabilities) => {
        fn capabilities(&self) -> $crate::Capabilities {
            self.$field.capabilities()
        }
    };
    (@ $field:tt id) => {
        fn id(&self) -> String {
            self.$field.id()
        }
    };
    (@ $field:tt read) => {
        async fn read(&self, key: &$crate::Key) -> Result<Option<$crate::Stored>, $crate::StoreError> {
            self.$field.read(key).await
        }
    };
    (@ $field:tt read_many) => {
        async fn read_many(
            &self,
            keys: &[$crate::Key],
            freshness: $crate::Freshness,
        ) -> Result<Vec<$crate::Listed>, $crate::StoreError> {
            self.$field.read_many(keys, freshness).await
        }
    };
    (@ $field:tt write) => {
        async fn write(&self, write: $crate::Write) -> Result<$crate::Outcome, $crate::StoreError> {
            self.$field.write(write).await
        }
    };
    (@ $field:tt write_many) => {
        async fn write_many(
            &self,
            writes: Vec<$crate::Write>,
        ) -> Result<Vec<$crate::Outcome>, $crate::StoreError> {
            self.$field.write_many(writes).await
        }
    };
    (@ $field:tt list) => {
        async fn list(
            &self,
            prefix: &str,
            after: Option<&$crate::Key>,
            limit: usize,
        ) -> Result<Vec<$crate::Listed>, $crate::StoreError> {
            self.$field.list(prefix, after, limit).await
        }
    };
    (@ $field:tt remove) => {
        async fn remove(
            &self,
            key: &$crate::Key,
            version: $crate::Version,
        ) -> Result<bool, $crate::StoreError> {
            self.$field.remove(key, version).await
        }
    };
    (@ $field:tt image) => {
        async fn image(&self, key: &$crate::Key) -> Result<Option<$crate::Image>, $crate::StoreError> {
            self.$field.image(key).await
        }
    };
    (@ $field:tt mend) => {
        async fn mend(
            &self,
            key: &$crate::Key,
            seen: &$crate::Image,
            instead: Option<$crate::Record>,
        ) -> Result<bool, $crate::StoreError> {
            self.$field.mend(key, seen, instead).await
        }
    };
    (@ $field:tt changed) => {
        fn changed(&self, prefix: &str) -> Result<$crate::Changes, $crate::StoreError> {
            self.$field.changed(prefix)
        }
    };
    ($field:tt: $($method:ident),+ $(,)?) => {
        $($crate::pass_on!(@ $field $method);)+
    };
}
