//! Opening, and what is refused: each error names the place and the remedy, comes soon, repeats no password, and keeps the driver's
//! error as its source.
//!
//! Plan: tables come by migration only, once, also when two do it; functions that lack a setting get it; a schema of others and a newer one are left alone; wrong user,
//! database, authority, name in the certificate; no server, and one that never answers; a role with too few rights; a server that is
//! read-only; two schemas of one database; a password file that hangs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{admin, config, unique, url};
use std::error::Error;
use std::io::ErrorKind::ConnectionRefused;
use std::time::Duration;
use tenure_core::op::Hint;
use tenure_core::{ErrorKind, Key, StoreError};
use tenure_postgres::{PostgresConfig, PostgresStore, Tls};
use tenure_store::{Outcome, Store};
use tenure_testkit::{RecordFactory, hinted};

async fn refusal(config: PostgresConfig) -> StoreError {
    PostgresStore::open(config).await.map(drop).unwrap_err()
}

fn says(error: &StoreError, kind: ErrorKind, words: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(words.iter().all(|word| text.contains(word)) && !text.contains("hush"), "{text}");
    for cause in causes(error) {
        assert!(!format!("{cause} {cause:?}").contains("hush"), "{cause} {cause:?}");
    }
}

fn causes(error: &StoreError) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}

/// The tests' own server with other parts of its URL.
fn at(change: impl FnOnce(&str) -> String) -> PostgresConfig {
    PostgresConfig::from_url(&change(&url())).unwrap()
}

#[tokio::test]
async fn tables_come_by_migration_only_and_once() {
    let config = config(&unique("opening"));
    says(&refusal(config.clone()).await, ErrorKind::Invalid, &["tables are not there", "migrate", "schema"]);
    let made = tokio::join!(PostgresStore::migrate(&config), PostgresStore::migrate(&config));
    let mut made = [made.0.unwrap(), made.1.unwrap()];
    made.sort();
    assert_eq!(made, [false, true], "two at once");
    assert!(!PostgresStore::migrate(&config).await.unwrap(), "a third time");
    let (one, other) =
        (PostgresStore::open(config.clone()).await.unwrap(), PostgresStore::open(config).await.unwrap());
    assert_eq!(one.id(), other.id());
}

/// Tables of before functions had the setting.
#[tokio::test]
async fn functions_whose_plans_may_scan_the_table_are_told_and_mended() {
    let (name, admin) = (unique("opening"), admin().await);
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let store = PostgresStore::open(config(&name)).await.unwrap();
    let notes = async || {
        let found = store.inspect().await;
        found
            .facts
            .into_iter()
            .filter(|fact| fact.about == "tables")
            .map(|fact| fact.text)
            .collect::<Vec<_>>()
    };
    let set = "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
               WHERE n.nspname = $1 AND 'enable_seqscan=off' = ANY(p.proconfig)";
    let count = async || admin.query_one(set, &[&name]).await.unwrap().get::<_, i64>(0);
    assert_eq!(count().await, 3);
    assert!(!notes().await.concat().contains("all records"), "{:?}", notes().await);
    for function in ["write_absent", "write_unchanged"] {
        admin.batch_execute(&format!("ALTER FUNCTION {name}.{function} RESET ALL")).await.unwrap();
    }
    let told = notes().await.concat();
    assert!(told.contains("(write_absent, write_unchanged)") && told.contains("--create-table"), "{told}");
    assert!(PostgresStore::migrate(&config(&name)).await.unwrap());
    assert_eq!(count().await, 3);
    assert!(!PostgresStore::migrate(&config(&name)).await.unwrap(), "a second time");
}

#[tokio::test]
async fn a_schema_of_others_is_left_alone() {
    let (name, admin) = (unique("opening"), admin().await);
    admin.batch_execute(&format!("CREATE SCHEMA {name}; CREATE TABLE {name}.theirs (x int)")).await.unwrap();
    let error = PostgresStore::migrate(&config(&name)).await.unwrap_err();
    says(&error, ErrorKind::Foreign, &["aren't tenure's", "schema="]);
    let meta = format!("CREATE TABLE {name}.meta (name text, value text)");
    admin.batch_execute(&meta).await.unwrap();
    says(
        &PostgresStore::migrate(&config(&name)).await.unwrap_err(),
        ErrorKind::Foreign,
        &["aren't tenure's"],
    );
    says(&refusal(config(&name)).await, ErrorKind::Foreign, &["aren't tenure's"]);
}

#[tokio::test]
async fn newer_tables_are_left_alone() {
    let (name, admin) = (unique("opening"), admin().await);
    PostgresStore::migrate(&config(&name)).await.unwrap();
    admin
        .batch_execute(&format!("UPDATE {name}.meta SET value = '999' WHERE name = 'schema'"))
        .await
        .unwrap();
    says(&refusal(config(&name)).await, ErrorKind::Foreign, &["999", "upgrade"]);
    assert!(!PostgresStore::migrate(&config(&name)).await.unwrap(), "nothing to do, and nothing done");
}

#[tokio::test]
async fn what_is_wrong_with_the_url_is_said() {
    let user = at(|url| url.replace("postgres@", "nobody_here:hush@"));
    let error = refusal(user).await;
    says(&error, ErrorKind::Invalid, &["nobody_here"]);
    let refused = |cause: &(dyn Error + 'static)| cause.is::<tokio_postgres::error::DbError>();
    assert!(causes(&error).any(refused), "{error:?}");
    let asked = unique("asked");
    // The server of the tests asks members of this role for a password; other tests make it, too.
    let made = format!(
        "DO $$ BEGIN CREATE ROLE needs_password; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$; \
         CREATE ROLE {asked} LOGIN PASSWORD 'another' IN ROLE needs_password"
    );
    admin().await.batch_execute(&made).await.unwrap();
    let no_password = at(|url| url.replace("postgres@", &format!("{asked}@")));
    says(&refusal(no_password).await, ErrorKind::Invalid, &["password", "password-file=FILE"]);
    let database = at(|url| format!("{}/no_such_database", url.rsplit_once('/').unwrap().0));
    says(&refusal(database).await, ErrorKind::Invalid, &["no_such_database", "exists"]);
    let port = tenure_ports::unused_port().unwrap();
    let nobody = PostgresConfig::from_url(&format!("//u:hush@127.0.0.1:{port}/d")).unwrap();
    let error = refusal(nobody).await;
    says(&error, ErrorKind::Unavailable, &["is a PostgreSQL server listening there"]);
    let refused = |cause: &(dyn Error + 'static)| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ConnectionRefused)
    };
    assert!(causes(&error).any(refused), "{error:?}");
    let no_file = config("tenure").tls(Tls::Verified(Some("/nowhere/ca.pem".into())));
    says(&refusal(no_file).await, ErrorKind::Invalid, &["/nowhere/ca.pem"]);
}

/// The server's certificate is for `localhost`, signed by the authority whose file the tests are told.
#[tokio::test]
async fn a_certificate_is_verified() {
    let authority =
        std::env::var("TENURE_TEST_POSTGRES_CA").expect("`cargo xtask services run` says where it is");
    let name = unique("tls");
    PostgresStore::migrate(&config(&name)).await.unwrap();
    let known = Tls::Verified(Some(authority.into()));
    let localhost = || at(|url| url.replace("127.0.0.1", "localhost")).schema(&name);
    let store = PostgresStore::open(localhost().tls(known.clone())).await.unwrap();
    assert_eq!(store.read(&Key::new("a").unwrap()).await.unwrap(), None);
    assert!(store.changed("").is_ok());
    let unknown = refusal(localhost().tls(Tls::Verified(None))).await;
    says(&unknown, ErrorKind::Unavailable, &["invalid peer certificate"]);
    let other_name = refusal(config(&name).tls(known)).await;
    says(&other_name, ErrorKind::Unavailable, &["invalid peer certificate", "127.0.0.1"]);
}

/// One that takes connections and never says a word is waited for no longer than the timeout.
#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let url = format!("//u:hush@127.0.0.1:{port}/d?timeout-ms=200");
    let error = refusal(PostgresConfig::from_url(&url).unwrap()).await;
    says(&error, ErrorKind::Unavailable, &["127.0.0.1"]);
}

#[tokio::test]
async fn a_role_with_too_few_rights_is_told_which_it_needs() {
    let (name, admin) = (unique("rights"), admin().await);
    PostgresStore::migrate(&config(&name)).await.unwrap();
    admin.batch_execute(&format!("CREATE ROLE {name} LOGIN")).await.unwrap();
    let role = at(|url| url.replace("postgres@", &format!("{name}@"))).schema(&name);
    says(&refusal(role.clone()).await, ErrorKind::Invalid, &["permission denied", "grant"]);
    // What the documentation grants, and no more.
    let grants = tenure_postgres::grants(&name, &name);
    admin.batch_execute(&grants).await.unwrap();
    let (store, factory) = (PostgresStore::open(role).await.unwrap(), RecordFactory::new());
    let key = Key::new("a").unwrap();
    let Outcome::Won { version, .. } = store.write(factory.if_vacant(&key, factory.vacant(5))).await.unwrap()
    else {
        panic!("nothing stood there")
    };
    let Outcome::Won { version, .. } =
        store.write(factory.unchanged(&key, version, factory.held(6))).await.unwrap()
    else {
        panic!("nobody else wrote")
    };
    assert!(store.read(&key).await.unwrap().is_some());
    assert_eq!(store.list("", None, 10).await.unwrap().len(), 1);
    assert!(store.guard(&key, tenure_core::Fence(6)).hold(&admin).await.unwrap());
    // Only the role that collects garbage may remove.
    let unremoved = store.remove(&key, version).await.unwrap_err();
    says(&unremoved, ErrorKind::Invalid, &["permission denied", "also need DELETE"]);
    // What was granted and is taken away is given back: whoever waits is to wait on.
    for (taken, back) in [
        (format!("REVOKE UPDATE, INSERT ON {name}.record FROM {name}"), grants.clone()),
        (format!("REVOKE USAGE ON SCHEMA {name} FROM {name}"), grants.clone()),
        (
            format!("ALTER TABLE {name}.record RENAME TO away"),
            format!("ALTER TABLE {name}.away RENAME TO record"),
        ),
    ] {
        let write = async || store.write(factory.if_vacant(&key, factory.held(6))).await;
        admin.batch_execute(&taken).await.unwrap();
        let error = write().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{taken}: {error}");
        admin.batch_execute(&back).await.unwrap();
        assert!(matches!(write().await, Ok(Outcome::Lost(Some(_)))), "{taken}");
    }
    let refused = async |schema: &str| {
        let config = at(|url| url.replace("postgres@", &format!("{name}@"))).schema(schema);
        PostgresStore::migrate(&config).await.unwrap_err()
    };
    says(&refused("other_place").await, ErrorKind::Invalid, &["permission denied", "CREATE on the database"]);
    crate::support::to_version(1, &name).await;
    says(&refused(&name).await, ErrorKind::Invalid, &["by who made them"]);
}

#[tokio::test]
async fn a_read_only_server_is_read_and_says_what_it_is_to_writers() {
    let (name, admin) = (unique("standby"), admin().await);
    PostgresStore::migrate(&config(&name)).await.unwrap();
    admin
        .batch_execute(&format!(
            "CREATE ROLE {name} LOGIN SUPERUSER; ALTER ROLE {name} SET default_transaction_read_only = on"
        ))
        .await
        .unwrap();
    let store = PostgresStore::open(at(|url| url.replace("postgres@", &format!("{name}@"))).schema(&name))
        .await
        .unwrap();
    let (key, factory) = (Key::new("a").unwrap(), RecordFactory::new());
    assert_eq!(store.read(&key).await.unwrap(), None);
    let error = store.write(factory.if_vacant(&key, factory.held(5))).await.unwrap_err();
    says(&error, ErrorKind::Unavailable, &["read-only", "primary"]);
    // Whoever was read-only is not asked again: the next connection finds who takes writes by then.
    admin.batch_execute(&format!("ALTER ROLE {name} RESET default_transaction_read_only")).await.unwrap();
    let outcome = store.write(factory.if_vacant(&key, factory.held(5))).await.unwrap();
    assert!(matches!(outcome, Outcome::Won { .. }), "{outcome:?}");
}

/// The name of one schema begins with the other's.
#[tokio::test]
async fn schemas_do_not_mix() {
    let outer = unique("mix");
    let inner = format!("{outer}_b");
    let mut stores = Vec::new();
    for name in [&outer, &inner] {
        PostgresStore::migrate(&config(name)).await.unwrap();
        stores.push(PostgresStore::open(config(name)).await.unwrap());
    }
    let [outer, inner] = &stores[..] else { unreachable!() };
    assert_ne!(outer.id(), inner.id());
    let (key, factory) = (Key::new("k").unwrap(), RecordFactory::new());
    let mut changes = outer.changed("").unwrap();
    hinted(outer, &mut changes, "first").await;
    for (fence, store) in [(1, outer), (2, inner)] {
        let outcome = store.write(factory.absent(&key, factory.vacant(fence))).await.unwrap();
        assert!(matches!(outcome, Outcome::Won { .. }), "it stood there already");
    }
    for (fence, store) in [(1, outer), (2, inner)] {
        assert_eq!(store.read(&key).await.unwrap().unwrap().record.fence.0, fence);
    }
    assert_eq!(inner.list("", None, 10).await.unwrap().len(), 1);
    // What is told of the one is not told of the other: the next hint of this key is of the last write here.
    let standing = outer.read(&key).await.unwrap().unwrap();
    let last = factory.vacant(3);
    outer.write(factory.unchanged(&key, standing.version, last.clone())).await.unwrap();
    let told = async {
        let mut versions = Vec::new();
        while versions.last() != Some(&last.version()) {
            if let Hint::Written(of, version) = changes.recv().await.unwrap() {
                versions.extend((of == key).then_some(version));
            }
        }
        versions
    };
    let versions =
        tokio::time::timeout(std::time::Duration::from_secs(60), told).await.expect("no hint comes");
    assert_eq!(versions, [standing.version, last.version()]);
}

/// As one on a network mount that hangs. On this one thread, nothing else would go on if it were waited for here.
#[tokio::test]
async fn a_password_file_that_hangs_is_given_up_in_time() {
    let file = std::env::temp_dir().join(format!("tenure-{}", unique("pipe")));
    std::fs::write(&file, "hush\n").unwrap();
    let url = format!("{}?timeout-ms=300&password-file={}", url(), file.display());
    let config = PostgresConfig::from_url(&url).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    let pipe = file.clone();
    let writer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(20));
        drop(std::fs::File::options().write(true).open(pipe));
    });
    let error = refusal(config).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("was not read in time"), "{error}");
    std::fs::remove_file(&file).unwrap();
    assert!(!writer.is_finished(), "the writer of the pipe was waited for");
}
