//! What is wrong with a URL, a server or a user's rights, on real servers, through the command line: a clear error that names the remedy,
//! within five seconds, with no secret in it.
//!
//! Plan: a table for each store. It has a wrong password, an unknown database, a missing table, no permission, a wrong TLS name; a
//! replica, a full or evicting server, a namespace that is another's, a server of another kind; a port where nobody answers, and a
//! host that swallows packets. The same for tables of less's. Then: what `bench` and `doctor` are asked for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::remote::told;
use crate::common::servers::{Swallower, etcd, etcdctl, redis, redis_cli, swallower};
use crate::common::{Bench, Ran, now_ms, service, takes_at_most};
use serde_json::json;
use std::process::Command;
use tenure_ports::unused_port;

/// What is in no message. Every URL here has it for a password, if it has one.
const SECRET: &str = "hush";

struct Case {
    /// What is wrong.
    what: &'static str,
    url: String,
    code: i32,
    /// What the message has to say.
    says: &'static [&'static str],
    /// The command that is to show it.
    verb: &'static [&'static str],
}

fn case(what: &'static str, url: impl Into<String>, code: i32, says: &'static [&'static str]) -> Case {
    Case { what, url: url.into(), code, says, verb: &["ls"] }
}

/// It shows only when something is written.
fn writing(what: &'static str, url: impl Into<String>, code: i32, says: &'static [&'static str]) -> Case {
    Case { verb: &["run", "k", "--try", "--", "true"], ..case(what, url, code, says) }
}

/// On less's table, which holds elections only.
fn of_election(what: &'static str, url: impl Into<String>, code: i32, says: &'static [&'static str]) -> Case {
    Case { verb: &["leader", "k"], ..case(what, url, code, says) }
}

/// Each is told, and in time: a machine that stands still for a second is no fault of what is measured.
fn refuse(cases: &[Case]) {
    const LIMIT: i64 = 5_000;
    let bench = Bench::new();
    for Case { what, url, code, says, verb } in cases {
        takes_at_most(LIMIT, || {
            let began = now_ms();
            let ran = Ran::of(bench.tenure(verb).env("TENURE_STORE", url).output().unwrap());
            let took = now_ms() - began;
            assert_eq!(ran.code, *code, "{what}: {ran:?}");
            for says in *says {
                assert!(ran.err.contains(says), "{what}: {says:?} is not said: {ran:?}");
            }
            assert!(!ran.err.contains(SECRET) && !ran.out.contains(SECRET), "{what}: {ran:?}");
            took
        });
    }
}

fn port_of(url: &str) -> u16 {
    url.rsplit(':').next().unwrap().split(['/', '?']).next().unwrap().parse().unwrap()
}

fn postgres_port() -> u16 {
    port_of(&told("TENURE_TEST_POSTGRES"))
}

fn etcd_port() -> u16 {
    port_of(&told("TENURE_TEST_ETCD"))
}

fn redis_port() -> u16 {
    port_of(&told("TENURE_TEST_REDIS"))
}

/// What an operator does with PostgreSQL's own client.
fn psql(sql: &str) {
    let ran = Command::new("psql").args([&told("TENURE_TEST_POSTGRES"), "-qc", sql]).output().unwrap();
    assert!(ran.status.success(), "{sql}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// What doctor makes is there from then on.
fn made(url: &str) {
    let ran = Bench::new().run(&["doctor", "--create-table", "-s", url]);
    assert!([0, 2].contains(&ran.code), "{ran:?}");
}

#[test]
fn of_postgres() {
    let (id, port, Swallower { port: swallows, .. }) = (std::process::id(), postgres_port(), &swallower());
    let server = |user: &str| format!("postgres://{user}:{SECRET}@127.0.0.1:{port}/postgres?schema=bad_{id}");
    made(&server("postgres"));
    psql(
        "DO $$ BEGIN CREATE ROLE needs_password; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$",
    );
    psql(&format!("CREATE ROLE asked_{id} LOGIN PASSWORD 'another' IN ROLE needs_password"));
    psql(&format!(
        "CREATE ROLE poor_{id} LOGIN; CREATE SCHEMA other_{id}; CREATE TABLE other_{id}.meta (x int)"
    ));
    psql(&format!("CREATE ROLE replica_{id} LOGIN SUPERUSER"));
    psql(&format!("ALTER ROLE replica_{id} SET default_transaction_read_only = on"));
    psql(&format!("CREATE ROLE crowded_{id} LOGIN CONNECTION LIMIT 0"));
    let full = server("postgres").replace("bad_", "full_");
    made(&full);
    psql(&format!(
        "CREATE FUNCTION full_{id}.extend() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100', \
         MESSAGE = 'could not extend file \"base/5/16384\": No space left on device'; END $$; \
         CREATE TRIGGER extend BEFORE INSERT ON full_{id}.record FOR EACH ROW EXECUTE FUNCTION full_{id}.extend()"
    ));
    made(&format!("{}?dialect=less", told("TENURE_TEST_POSTGRES")));
    let of_less = server("postgres").replace(&format!("bad_{id}"), "less");
    let refused = Bench::new().run(&["doctor", "--create-table", "-s", &of_less]);
    assert!(refused.code == 65 && refused.err.contains("aren't tenure's"), "less's own schema: {refused:?}");
    let to = |port: u16| format!("postgres://u:{SECRET}@127.0.0.1:{port}/d");
    let ca = told("TENURE_TEST_POSTGRES_CA");
    refuse(&[
        case(
            "wrong password",
            server(&format!("asked_{id}")),
            64,
            &["password authentication failed", "pg_hba.conf"],
        ),
        case("unknown user", server("nobody"), 64, &["\"nobody\" does not exist", "check user"]),
        case(
            "unknown database",
            server("postgres").replace("/postgres?", "/nowhere?"),
            64,
            &["\"nowhere\" does not exist", "name a database that exists"],
        ),
        case(
            "unknown database behind a pooler",
            format!("{}?schema=bad_{id}", told("TENURE_TEST_PGBOUNCER").replace("/postgres", "/nowhere")),
            64,
            &["\"nowhere\" does not exist", "name a database that exists", "the pooler"],
        ),
        case(
            "missing table",
            server("postgres").replace("bad_", "none_"),
            64,
            &["tables are not there", "doctor --create-table"],
        ),
        case(
            "no permission",
            server(&format!("poor_{id}")),
            64,
            &["permission denied", "grant the role USAGE"],
        ),
        case(
            "wrong TLS name",
            format!("{}&sslmode=verify-full&sslrootcert={ca}", server("postgres")),
            69,
            &["invalid peer certificate", "127.0.0.1", "name the host as its certificate does"],
        ),
        case(
            "unknown authority",
            format!(
                "{}&sslmode=verify-full&sslrootcert={}",
                server("postgres"),
                told("TENURE_TEST_REDIS_CA")
            ),
            69,
            &["invalid peer certificate", "sslrootcert=FILE"],
        ),
        case(
            "a reserved word",
            server("postgres").replace(&format!("bad_{id}"), "user"),
            64,
            &["reserved word"],
        ),
        writing("a replica", server(&format!("replica_{id}")), 69, &["read-only", "name the primary"]),
        case(
            "another program's schema",
            server("postgres").replace("bad_", "other_"),
            65,
            &["aren't tenure's", "schema="],
        ),
        case("less's schema beside its tables", of_less, 64, &["schema \"less\"", "tables are not there"]),
        case(
            "no connection left",
            server(&format!("crowded_{id}")),
            69,
            &["too many connections", "CONNECTION LIMIT", "connections="],
        ),
        writing("a full disk", full, 69, &["No space left", "disk is full: make room"]),
        case("etcd", to(etcd_port()), 69, &["is a PostgreSQL server listening there"]),
        case("Redis", to(redis_port()), 69, &["is a PostgreSQL server listening there"]),
        case("nobody answers", to(unused_port().unwrap()), 69, &["is a PostgreSQL server listening there"]),
        case("swallows packets", to(*swallows), 69, &["is a PostgreSQL server listening there"]),
    ]);
}

#[test]
fn of_redis() {
    let (id, port, swallows) = (std::process::id(), redis_port(), swallower());
    let shared = |words: &[&str]| assert!(redis_cli(port, words).status.success());
    let user = format!("bad-{id}");
    shared(&["ACL", "SETUSER", &user, "on", ">another"]);
    shared(&["ACL", "SETUSER", &format!("{user}-poor"), "on", &format!(">{SECRET}")]);
    shared(&["SET", &format!("tenure:{{bad-{id}}}:records"), "mine"]);
    shared(&["SET", &format!("tenure:{{bad-{id}}}:meta"), "mine"]);
    let (primary, evicts) = (redis(""), redis("--maxmemory 100mb --maxmemory-policy allkeys-lru"));
    shared(&["SET", &format!("tenure:{{bad-records-{id}}}:records"), "mine"]);
    let crowded = redis("--maxclients 1");
    let _only = std::net::TcpStream::connect(("127.0.0.1", crowded.port)).unwrap();
    let replica = redis(&format!("--replicaof 127.0.0.1 {}", primary.port));
    let full = redis("--maxmemory-policy noeviction");
    assert_eq!(
        Bench::new().run(&["run", "k", "-s", &format!("redis://127.0.0.1:{}", full.port), "--", "true"]).code,
        0
    );
    redis_cli(full.port, &["CONFIG", "SET", "maxmemory", "1"]);
    let to = |port: u16| format!("redis://:{SECRET}@127.0.0.1:{port}");
    let at = |port: u16| format!("redis://127.0.0.1:{port}");
    let by_number = told("TENURE_TEST_REDISS").replace("localhost", "127.0.0.1");
    refuse(&[
        case(
            "wrong password",
            format!("redis://{user}:{SECRET}@127.0.0.1:{port}"),
            64,
            &["password is wrong", "ACL LIST"],
        ),
        case("unknown database", format!("{}/99", at(port)), 64, &["name a database that exists"]),
        case(
            "never used",
            format!("{}?namespace=none-{id}", at(port)),
            64,
            &["never used", "check its name"],
        ),
        case(
            "no permission",
            format!("redis://{user}-poor:{SECRET}@127.0.0.1:{port}"),
            64,
            &["tenure_redis::acl"],
        ),
        case(
            "wrong TLS name",
            format!("{by_number}?ca={}", told("TENURE_TEST_REDIS_CA")),
            69,
            &["invalid peer certificate", "127.0.0.1", "name the host as its certificate does"],
        ),
        case(
            "unknown authority",
            format!("{}?ca={}", told("TENURE_TEST_REDISS"), told("TENURE_TEST_POSTGRES_CA")),
            69,
            &["invalid peer certificate", "ca=FILE"],
        ),
        case("no TLS there", format!("rediss://127.0.0.1:{port}"), 69, &["does it speak TLS"]),
        case("no client slot left", at(crowded.port), 69, &["maxclients"]),
        case(
            "another program's records",
            format!("{}?namespace=bad-records-{id}", at(port)),
            65,
            &["another program", "namespace="],
        ),
        case("a replica", at(replica.port), 69, &["read-only replica", "name the primary"]),
        writing("a full server", at(full.port), 69, &["memory is full", "raise maxmemory"]),
        case("an evicting server", at(evicts.port), 64, &["allkeys-lru", "noeviction"]),
        writing(
            "another program's keys",
            format!("{}?namespace=bad-{id}", at(port)),
            65,
            &["another program", "namespace="],
        ),
        case("PostgreSQL", to(postgres_port()), 69, &["is a Redis server listening there"]),
        case("etcd", to(etcd_port()), 69, &["is a Redis server listening there"]),
        case("nobody answers", to(unused_port().unwrap()), 69, &["is a Redis server listening there"]),
        case("swallows packets", to(swallows.port), 69, &["is a Redis server listening there"]),
    ]);
}

#[test]
fn of_etcd() {
    let (asks, full) = (etcd(&[], None), etcd(&["--quota-backend-bytes", "600000"], None));
    for line in [
        "user add root:other",
        "user grant-role root root",
        "user add app:other",
        "user add poor:hush",
        "auth enable",
    ] {
        assert!(etcdctl(asks.port, &line.split(' ').collect::<Vec<_>>()).status.success(), "{line}");
    }
    let long = "x".repeat(60_000);
    crate::common::wait_until("it to be full", || !etcdctl(full.port, &["put", "x", &long]).status.success());
    let certificate = told("TENURE_TEST_REDIS_CA");
    let secured = etcd(&[], Some((&certificate, &certificate.replace(".crt", ".key"))));
    let (id, swallows) = (std::process::id(), swallower());
    assert!(etcdctl(etcd_port(), &["put", &format!("bad-{id}:k"), "another program's"]).status.success());
    let to = |port: u16| format!("etcd://u:{SECRET}@127.0.0.1:{port}/p");
    let tls = |host: &str| format!("etcds://{host}:{}/p?ca={certificate}", secured.port);
    crate::common::wait_until("TLS", || Bench::new().run(&["ls", "-s", &tls("localhost")]).code == 0);
    refuse(&[
        case(
            "wrong password",
            format!("etcd://app:{SECRET}@127.0.0.1:{}/p", asks.port),
            64,
            &["check the user", "password"],
        ),
        case("no user", format!("etcd://127.0.0.1:{}/p", asks.port), 64, &["name a user"]),
        case(
            "no permission",
            format!("etcd://poor:{SECRET}@127.0.0.1:{}/p", asks.port),
            64,
            &["permission denied", "grant"],
        ),
        case(
            "wrong TLS name",
            tls("127.0.0.1"),
            69,
            &["invalid peer certificate", "127.0.0.1", "name the host as its certificate does"],
        ),
        case(
            "unknown authority",
            tls("localhost").replace(&certificate, &told("TENURE_TEST_POSTGRES_CA")),
            69,
            &["invalid peer certificate", "ca=FILE"],
        ),
        writing(
            "a full server",
            format!("etcd://127.0.0.1:{}/p", full.port),
            69,
            &["space exceeded", "compact"],
        ),
        writing("another program's keys", format!("etcd://127.0.0.1:{}/bad-{id}", etcd_port()), 65, &["k: "]),
        case("PostgreSQL", to(postgres_port()), 69, &["does it speak what the URL says"]),
        case("Redis", to(redis_port()), 69, &["does it speak what the URL says"]),
        case("nobody answers", to(unused_port().unwrap()), 69, &["is etcd listening"]),
        case("swallows packets", to(swallows.port), 69, &["is etcd listening"]),
    ]);
}

#[test]
fn of_dynamodb() {
    let (id, swallows) = (std::process::id(), swallower());
    let endpoint = told("TENURE_TEST_DYNAMODB");
    let at = |table: &str, endpoint: &str| format!("dynamodb://{table}?region=eu-west-1&endpoint={endpoint}");
    let table = format!("bad-{id}");
    let body = json!({
        "TableName": table, "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "leaseKey", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "leaseKey", "KeyType": "HASH"}],
    });
    service::ask(&endpoint, "CreateTable", &body);
    let poor = service::that_refuses(&endpoint, "DescribeTable");
    let port = |port: u16| format!("http://127.0.0.1:{port}");
    refuse(&[
        case("a password in the URL", format!("dynamodb://key:{SECRET}@jobs"), 64, &["AWS_PROFILE"]),
        case(
            "an option that is none",
            format!("dynamodb://jobs?password={SECRET}"),
            64,
            &["no option \"password\""],
        ),
        case("plain text", at("jobs", "http://10.1.2.3"), 64, &["plain_text=yes"]),
        case("missing table", at("none", &endpoint), 69, &["no such table", "doctor --create-table"]),
        case(
            "another program's table",
            at(&table, &endpoint),
            64,
            &["keys are not", "leaseKey", "another table"],
        ),
        case("no permission", at("jobs", &poor), 64, &["access denied", "the role needs"]),
        case("PostgreSQL", at("jobs", &port(postgres_port())), 69, &["127.0.0.1"]),
        case("etcd", at("jobs", &port(etcd_port())), 69, &["is DynamoDB what listens"]),
        case("nobody answers", at("jobs", &port(unused_port().unwrap())), 69, &["can't be reached"]),
        case("swallows packets", at("jobs", &port(swallows.port)), 69, &["can't be reached"]),
    ]);
}

#[cfg(feature = "less")]
#[test]
fn of_less() {
    let (id, port, swallows) = (std::process::id(), postgres_port(), swallower());
    let server = |user: &str, database: &str| {
        format!("postgres://{user}:{SECRET}@127.0.0.1:{port}/{database}?dialect=less")
    };
    made(&server("postgres", "postgres"));
    psql(
        "DO $$ BEGIN CREATE ROLE needs_password; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$",
    );
    psql(&format!("CREATE ROLE less_asked_{id} LOGIN PASSWORD 'another' IN ROLE needs_password"));
    psql(&format!("CREATE ROLE less_poor_{id} LOGIN"));
    psql(&format!("CREATE DATABASE less_none_{id}"));
    psql(&format!("CREATE DATABASE less_other_{id}"));
    let other = server("postgres", &format!("less_other_{id}"));
    let ran = Command::new("psql")
        .args([
            other.split('?').next().unwrap(),
            "-qc",
            "CREATE SCHEMA less; CREATE TABLE less.record (x int)",
        ])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let to = |port: u16| format!("postgres://u:{SECRET}@127.0.0.1:{port}/d?dialect=less");
    let bench = Bench::new();
    let file = |name: &str| format!("sqlite:{}?dialect=less", bench.path(name).display());
    bench.write("text", format!("{SECRET}, and no database: {}", "x".repeat(600)));
    assert_eq!(
        bench.run(&["run", "k", "-s", &file("leases").replace("?dialect=less", ""), "--", "true"]).code,
        0
    );
    refuse(&[
        of_election(
            "wrong password",
            server(&format!("less_asked_{id}"), "postgres"),
            64,
            &["password authentication failed", "pg_hba.conf"],
        ),
        of_election("unknown database", server("postgres", "nowhere"), 64, &["name a database that exists"]),
        of_election(
            "missing table",
            server("postgres", &format!("less_none_{id}")),
            64,
            &["no table less.record", "doctor --create-table"],
        ),
        of_election("another program's table", other, 65, &["less.record", "columns", "another database"]),
        of_election(
            "no permission",
            server(&format!("less_poor_{id}"), "postgres"),
            64,
            &["permission denied", "grant the role USAGE"],
        ),
        case("not an election", server("postgres", "postgres"), 64, &["elections only"]),
        of_election("etcd", to(etcd_port()), 69, &["is a PostgreSQL server listening there"]),
        of_election(
            "nobody answers",
            to(unused_port().unwrap()),
            69,
            &["is a PostgreSQL server listening there"],
        ),
        of_election("swallows packets", to(swallows.port), 69, &["is a PostgreSQL server listening there"]),
        of_election(
            "no such file",
            "sqlite:/nowhere/jobs.db?dialect=less",
            64,
            &["does not exist", "name the file"],
        ),
        of_election("a directory", "sqlite:/tmp?dialect=less", 64, &["is a directory", "name a file in it"]),
        of_election("no database", file("text"), 65, &["not a database"]),
        of_election(
            "missing table in a file",
            file("leases"),
            64,
            &["no table less_record", "migration makes it"],
        ),
        of_election("another store", "redis://localhost?dialect=less", 64, &["sqlite: and postgres:"]),
    ]);
}

#[test]
fn of_sqlite_and_of_what_is_asked_for() {
    let bench = Bench::new();
    let refused = |arguments: &[&str], says: &str| {
        let ran = bench.run(arguments);
        assert!(ran.code == 64 && ran.err.contains(says), "{arguments:?}: {ran:?}");
    };
    // It writes a lot, so a store that nobody has named is not measured.
    let unnamed = Ran::of(bench.tenure(&["bench"]).env_remove("TENURE_STORE").output().unwrap());
    assert!(unnamed.code == 64 && unnamed.err.contains("no store is named"), "{unnamed:?}");
    refused(&["bench", "memory:", "--tasks", "0"], "--tasks 0 is outside 1 to 1024");
    refused(&["bench", "memory:", "--tasks", "1025"], "outside 1 to 1024");
    refused(&["bench", "memory:", "--seconds", "0"], "--seconds 0 is outside");
    refused(&["bench", "memory:", "--seconds", "NaN"], "--seconds NaN is outside");
    refused(&["bench", "sqlite:x.db?dialect=less"], "leave the dialect out");
    refused(&["bench", "paper:x"], "no store has the scheme");
    refused(&["doctor", "memory:", "--read-only", "--create-table"], "cannot be used with");
    let made = std::fs::read_dir(bench.path(".")).unwrap().count();
    assert_eq!(made, 0, "nothing was made");
    bench.write(
        "text",
        format!(
            "{SECRET}, and no database: long enough to be taken for one at first sight, {}",
            "x".repeat(600)
        ),
    );
    refuse(&[
        case("no such file", "sqlite:/nowhere/leases.db", 69, &["there is no store at"]),
        writing("no such directory", "sqlite:/nowhere/leases.db", 64, &["does not exist", "mkdir -p"]),
        case("a directory", "sqlite:/tmp", 64, &["is a directory", "name a file in it"]),
        case(
            "no database",
            format!("sqlite:{}", bench.path("text").display()),
            65,
            &["is not an SQLite database"],
        ),
    ]);
    let ran = bench.run(&["bench", "memory:", "--tasks", "3", "--seconds", "0.2"]);
    assert!(ran.code == 0 && ran.out.contains("bare write") && ran.out.contains("3 tasks"), "{ran:?}");
    let ran = bench.run(&["doctor", "memory:"]);
    assert!(ran.code == 0 && ran.out.contains("100 of 4 at once"), "{ran:?}");
}
