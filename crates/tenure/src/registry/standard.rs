//! The kinds of stores that a build has, and how each is opened.

use super::{Opener, Opening, opener};
use crate::clock;
#[cfg(any(feature = "dynamodb", feature = "etcd", feature = "postgres", feature = "redis"))]
use crate::home::Homed;
use std::collections::BTreeMap;
use tenure_core::StoreError;
use tenure_store::{AnyStore, MemoryStore};

/// All of them, by the schemes of their URLs.
pub(super) fn kinds() -> BTreeMap<String, Opener> {
    let mut kinds: BTreeMap<String, Opener> = BTreeMap::new();
    kinds.insert("memory".to_owned(), opener(memory));
    #[cfg(feature = "dynamodb")]
    kinds
        .insert("dynamodb".to_owned(), opener(|rest, opening| housed(opening.here, dynamodb(rest, opening))));
    #[cfg(feature = "etcd")]
    for id in ["etcd", "etcds"] {
        kinds.insert(
            id.to_owned(),
            opener(move |rest, opening| housed(opening.here, etcd(format!("{id}:{rest}")))),
        );
    }
    #[cfg(feature = "postgres")]
    for id in ["postgres", "postgresql"] {
        kinds.insert(id.to_owned(), opener(|rest, opening| housed(opening.here, postgres(rest, opening))));
    }
    #[cfg(feature = "redis")]
    for id in ["redis", "rediss"] {
        kinds.insert(
            id.to_owned(),
            opener(move |rest, opening| housed(opening.here, redis(id, rest, opening))),
        );
    }
    #[cfg(feature = "sqlite")]
    kinds.insert("sqlite".to_owned(), opener(sqlite));
    kinds
}

/// Opens the store of a server, on the thread that renews leases or here.
#[cfg(any(feature = "dynamodb", feature = "etcd", feature = "postgres", feature = "redis"))]
async fn housed<F>(here: bool, open: F) -> Result<AnyStore, StoreError>
where
    F: Future<Output = Result<AnyStore, StoreError>> + Send + 'static,
{
    if here { open.await } else { Homed::open(open).await }
}

/// What a URL says. It may name a file with a password, which is read once to see whether that can be done, and not by the thread that renews leases.
#[cfg(any(feature = "etcd", feature = "postgres", feature = "redis"))]
async fn understood<C: Send + 'static>(
    url: &str,
    parse: impl FnOnce() -> Result<C, StoreError> + Send + 'static,
) -> Result<C, StoreError> {
    if !url.contains("password-file") {
        return parse();
    }
    // The longest time that a URL can say for a call, which is not known yet.
    let limit = std::time::Duration::from_secs(60);
    tenure_store::parts::aside("reading the password file", limit, parse).await
}

pub(super) async fn memory(rest: String, opening: Opening) -> Result<AnyStore, StoreError> {
    if !rest.is_empty() {
        return Err(StoreError::invalid("the store memory: takes nothing after the colon"));
    }
    Ok(AnyStore::new(MemoryStore::new(format!("memory:{:016x}", clock::instance()), opening.clock)))
}

#[cfg(feature = "dynamodb")]
async fn dynamodb(rest: String, opening: Opening) -> Result<AnyStore, StoreError> {
    use tenure_dynamodb::{DynamoConfig, DynamoStore};
    let config = DynamoConfig::from_url(&rest)?;
    if opening.create_table {
        DynamoStore::create_table(&config).await?;
    }
    Ok(AnyStore::new(DynamoStore::open(config, opening.clock).await?))
}

#[cfg(feature = "etcd")]
async fn etcd(url: String) -> Result<AnyStore, StoreError> {
    use tenure_etcd::{EtcdConfig, EtcdStore};
    let config = understood(&url.clone(), move || EtcdConfig::from_url(&url)).await?;
    Ok(AnyStore::new(EtcdStore::open(config).await?))
}

#[cfg(feature = "postgres")]
async fn postgres(rest: String, opening: Opening) -> Result<AnyStore, StoreError> {
    use tenure_postgres::{PostgresConfig, PostgresStore};
    let config = understood(&rest.clone(), move || PostgresConfig::from_url(&rest)).await?;
    if opening.create_table {
        PostgresStore::migrate(&config).await?;
    }
    Ok(AnyStore::new(PostgresStore::open(config).await?))
}

#[cfg(feature = "redis")]
async fn redis(scheme: &'static str, rest: String, opening: Opening) -> Result<AnyStore, StoreError> {
    use tenure_redis::{RedisConfig, RedisStore};
    let config =
        understood(&rest.clone(), move || RedisConfig::from_url(&format!("{scheme}:{rest}"))).await?;
    Ok(AnyStore::new(RedisStore::open(config.create(opening.create || opening.create_table)).await?))
}

#[cfg(feature = "sqlite")]
async fn sqlite(rest: String, opening: Opening) -> Result<AnyStore, StoreError> {
    let path = rest.strip_prefix("//").unwrap_or(&rest);
    if path.is_empty() {
        return Err(StoreError::invalid(
            "the store sqlite: names no file; write sqlite:leases.db, for example",
        ));
    }
    let config = tenure_sqlite::SqliteConfig::new(path).create(opening.create).look(opening.look);
    // A thread of its own: the runtime's panic where there is none to be had.
    let (tell, opened) = tokio::sync::oneshot::channel();
    let open = move || {
        let _nobody_waits = tell.send(tenure_sqlite::SqliteStore::open(config));
    };
    let thread = std::thread::Builder::new().name("tenure-sqlite-open".to_owned()).spawn(open);
    thread.map_err(|error| StoreError::unavailable(format!("can't start a thread: {error}")))?;
    match opened.await {
        Ok(store) => Ok(AnyStore::new(store?)),
        Err(_) => Err(StoreError::unavailable("the store's code failed")),
    }
}

#[cfg(test)]
#[cfg(any(
    feature = "dynamodb",
    feature = "etcd",
    feature = "postgres",
    feature = "redis",
    feature = "sqlite"
))]
mod tests {
    use crate::registry::{Opening, Registry};

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn a_sqlite_file_is_opened_by_its_url() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("a.db").display());
        let stores = Registry::standard();
        let missing = Opening::default().create(false);
        assert!(stores.open(&url, missing.clone()).await.is_err());
        stores.open(&url, Opening::default()).await.unwrap();
        assert!(stores.open(&url, missing).await.is_ok());
        assert!(stores.open("sqlite:", Opening::default()).await.is_err());
    }

    #[cfg(feature = "etcd")]
    #[tokio::test]
    async fn an_etcd_url_is_checked_before_anything_is_asked() {
        let stores = Registry::standard();
        for (url, says) in [
            ("etcd:", "two slashes"),
            ("etcd://u:secret@10.0.0.7/p", "etcds: for TLS"),
            ("etcds://u:secret@10.0.0.7/p?tls=off", "contradict"),
        ] {
            let error = stores.open(url, Opening::default()).await.unwrap_err();
            let text = error.to_string();
            assert!(error.kind() == tenure_core::ErrorKind::Invalid && text.contains(says), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[cfg(feature = "postgres")]
    #[tokio::test]
    async fn a_postgres_url_is_checked_before_anything_is_asked() {
        let stores = Registry::standard();
        for (url, says) in [
            ("postgres:", "two slashes"),
            ("postgresql://u:secret@h/d?schema=public", "of tenure's own"),
            ("postgres://u:secret@h/d?shcema=x", "shcema"),
        ] {
            let error = stores.open(url, Opening::default()).await.unwrap_err();
            let text = error.to_string();
            assert!(error.kind() == tenure_core::ErrorKind::Invalid && text.contains(says), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[cfg(feature = "redis")]
    #[tokio::test]
    async fn a_redis_url_is_checked_before_anything_is_asked() {
        let stores = Registry::standard();
        for (url, says) in [
            ("redis:", "rediss://USER@HOST"),
            ("redis://u:secret@db.example", "plain text"),
            ("rediss://u:secret@db.example?nmaespace=x", "nmaespace"),
        ] {
            let error = stores.open(url, Opening::default()).await.unwrap_err();
            let text = error.to_string();
            assert!(error.kind() == tenure_core::ErrorKind::Invalid && text.contains(says), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[cfg(feature = "dynamodb")]
    #[tokio::test]
    async fn a_dynamodb_url_is_checked_before_anything_is_asked() {
        let stores = Registry::standard();
        for (url, says) in
            [("dynamodb:", "names no table"), ("dynamodb://jobs?regoin=x", "region, namespace")]
        {
            let error = stores.open(url, Opening::default()).await.unwrap_err();
            assert!(
                error.kind() == tenure_core::ErrorKind::Invalid && error.to_string().contains(says),
                "{error}"
            );
        }
    }
}
