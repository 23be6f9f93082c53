//! What doctor tells of servers that can lose leases, and of users who may not do everything; on servers of the tests' own where they
//! have to be broken for it.
//!
//! Plan: a user who may only read is told so, and is shown all the rest; Redis that evicts, is nearly full, has a replica or a Sentinel;
//! etcd that is full; PostgreSQL whose triggers or functions are off or gone, and are made anew as it says, or may not be called; less's table where nothing can be written;
//! nothing is told where it can't be known.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::remote::{Remote, psql, told};
use crate::common::servers::{etcd, etcdctl, redis, redis_cli};
use crate::common::wait_until;
use std::process::Command;

/// What doctor says, and that it ends as with a hazard.
#[track_caller]
fn warned(place: &Remote, says: &[&str]) -> String {
    let ran = place.run(&["doctor"]);
    for says in says {
        assert!(ran.code == 2 && ran.out.contains(says), "{says:?} is not said: {ran:?}");
    }
    assert!(!ran.out.contains("hush"), "{ran:?}");
    ran.out
}

fn one_record(place: &Remote) {
    assert_eq!(place.run(&["run", "k", "--", "true"]).code, 0);
}

#[test]
fn who_may_only_read_postgres_is_told_so_and_shown_the_rest() {
    let name = format!("reads_{}", std::process::id());
    let place = Remote::made(format!("{}?schema={name}&timeout-ms=60000", told("TENURE_TEST_POSTGRES")));
    one_record(&place);
    psql(&format!("CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA {name} TO {name}"));
    psql(&format!("GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO {name}"));
    let reader = Remote::at(place.url.replace("postgres@", &format!("{name}@")));
    let says = ["it lacks INSERT, UPDATE, DELETE", "this user may not write", "a read takes", "1 vacant"];
    let said = warned(&reader, &says);
    assert!(!said.contains("races"), "{said}");
    psql(&format!("ALTER TABLE {name}.record DISABLE TRIGGER fence_grows"));
    warned(&place, &["the trigger fence_grows is switched off", "one winner each"]);
    // As set-ups of replication do.
    psql(&format!("ALTER TABLE {name}.record ENABLE REPLICA TRIGGER fence_grows"));
    let said = warned(&place, &["the trigger fence_grows is switched off"]);
    assert!(!said.contains("triggers refuse a lower fence"), "{said}");
    psql(&format!("DROP TRIGGER fence_grows ON {name}.record"));
    warned(&place, &["no trigger refuses a lower fence (fence_grows)", "doctor --create-table"]);
    psql(&format!("DROP FUNCTION {name}.refuse CASCADE; DROP FUNCTION {name}.write_absent"));
    let ran = place.run(&["doctor"]);
    assert!(ran.out.contains("functions that write are gone (write_absent)"), "{ran:?}");
    // The remedy that it names is one.
    let made = place.run(&["doctor", "--create-table"]);
    assert!(made.out.contains("up to date; triggers refuse a lower fence"), "{made:?}");
    let ran = place.run(&["doctor"]);
    assert!(ran.out.contains("up to date; triggers refuse a lower fence"), "{ran:?}");
    let lower = Command::new("psql")
        .args([&told("TENURE_TEST_POSTGRES"), "-qc", &format!("UPDATE {name}.record SET fence = 1")])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&lower.stderr).contains("can't go back"), "{lower:?}");
}

#[test]
fn who_may_not_call_the_functions_of_postgres_is_told_so() {
    let name = format!("calls_{}", std::process::id());
    let place = Remote::made(format!("{}?schema={name}&timeout-ms=60000", told("TENURE_TEST_POSTGRES")));
    one_record(&place);
    psql(&format!("CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA {name} TO {name}"));
    psql(&format!("GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA {name} TO {name}"));
    psql(&format!("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {name} FROM PUBLIC"));
    let user = Remote::at(place.url.replace("postgres@", &format!("{name}@")));
    let lacks = [
        "it lacks EXECUTE on",
        "write_absent",
        "GRANT EXECUTE ON ALL FUNCTIONS",
        "and EXECUTE on its functions",
    ];
    let said = warned(&user, &lacks);
    assert!(!said.contains("all that leases need"), "{said}");
    psql(&format!("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {name} TO {name}"));
    let ran = user.run(&["doctor"]);
    assert!(ran.out.contains("all that leases need"), "{ran:?}");
}

#[test]
fn who_may_only_read_redis_is_told_so_and_shown_the_rest() {
    let server = redis("--appendonly yes");
    let place = Remote::at(format!("redis://127.0.0.1:{}?namespace=jobs&timeout-ms=60000", server.port));
    one_record(&place);
    let rights = "on >hush resetkeys ~tenure:{jobs}:* resetchannels -@all +ping +info +select +evalsha +eval +time +hget +hmget \
                  +hlen +hkeys +zcard +zrangebylex";
    let words: Vec<&str> =
        ["ACL", "SETUSER", "reader"].into_iter().chain(rights.split_whitespace()).collect();
    assert!(redis_cli(server.port, &words).status.success());
    let reader = Remote::at(place.url.replace("//", "//reader:hush@"));
    let says = [
        "with push=off only",
        "this user may not write",
        "is not told to this user",
        "a read takes",
        "1 vacant",
    ];
    warned(&reader, &says);
}

#[test]
fn who_may_only_read_etcd_is_told_so_and_shown_the_rest() {
    let server = etcd(&[], None);
    let place = Remote::at(format!("etcd://127.0.0.1:{}/p?timeout-ms=60000", server.port));
    one_record(&place);
    for line in [
        "user add root:other",
        "user grant-role root root",
        "role add reads",
        "role grant-permission reads --prefix=true read p:",
        "user add reader:hush",
        "user grant-role reader reads",
        "auth enable",
    ] {
        assert!(etcdctl(server.port, &line.split(' ').collect::<Vec<_>>()).status.success(), "{line}");
    }
    let reader = Remote::at(place.url.replace("//", "//reader:hush@"));
    warned(&reader, &["this user may not write", "a read takes", "1 vacant"]);
}

#[test]
fn what_redis_can_lose_leases_by_is_told() {
    let server = redis("--appendonly no --maxmemory 100mb --maxmemory-policy allkeys-lru");
    let place = Remote::at(format!("redis://127.0.0.1:{}?eviction=accept&timeout-ms=60000", server.port));
    one_record(&place);
    let two = "two may hold a lease then: fences protect";
    let said = warned(
        &place,
        &["it drops keys when its memory is full", "appendonly no", "% of its memory is used"],
    );
    let hazards =
        |said: &str, words: &str| said.lines().any(|line| line.contains(words) && line.contains(two));
    assert!(hazards(&said, "it drops keys") && hazards(&said, "appendonly no"), "{said}");
    let set = |name: &str, value: &str| {
        assert!(redis_cli(server.port, &["CONFIG", "SET", name, value]).status.success());
    };
    set("maxmemory-policy", "noeviction");
    set("maxmemory", "500kb");
    let ran = place.run(&["doctor"]);
    let told = ["nothing can be acquired or renewed: raise maxmemory", "its memory is full"];
    assert!(ran.code == 1 && told.iter().all(|told| ran.out.contains(told)), "{ran:?}");
    set("maxmemory", "0");
    let replica = redis(&format!("--replicaof 127.0.0.1 {}", server.port));
    // What a Sentinel does on each server that it watches.
    let mut sentinel = Command::new("redis-cli")
        .args(["-p", &server.port.to_string(), "SUBSCRIBE", "__sentinel__:hello"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the replica and the subscriber", || {
        let answer =
            |words: &[&str]| String::from_utf8_lossy(&redis_cli(server.port, words).stdout).into_owned();
        answer(&["INFO", "replication"]).contains("connected_slaves:1")
            && answer(&["PUBSUB", "NUMSUB", "__sentinel__:hello"]).trim_end().ends_with('1')
    });
    let said = warned(&place, &["follow asynchronously", "min-replicas-to-write 0", "Sentinels watch it"]);
    assert!(hazards(&said, "follow asynchronously"), "{said}");
    set("appendonly", "yes");
    set("appendfsync", "everysec");
    assert!(hazards(&warned(&place, &[]), "appendfsync everysec"));
    sentinel.kill().unwrap();
    sentinel.wait().unwrap();
    drop(replica);
}

#[test]
fn an_etcd_that_is_full_is_told_and_so_is_whether_it_is_compacted() {
    let server = etcd(&["--quota-backend-bytes", "600000"], None);
    let place = Remote::at(format!("etcd://127.0.0.1:{}/p?timeout-ms=60000", server.port));
    one_record(&place);
    warned(&place, &["one member only", "alarms       none", "it was never compacted"]);
    assert!(etcdctl(server.port, &["compact", "2"]).status.success());
    warned(&place, &["it is compacted"]);
    let long = "x".repeat(60_000);
    wait_until("it to be full", || !etcdctl(server.port, &["put", "x", &long]).status.success());
    let ran = place.run(&["doctor"]);
    assert!(ran.code == 1 && ran.out.contains("NOSPACE") && ran.out.contains("space exceeded"), "{ran:?}");
}

#[cfg(feature = "less")]
#[test]
fn where_no_candidate_can_lead_is_told() {
    let name = format!("less_reads_{}", std::process::id());
    let place = Remote::at(format!("{}?dialect=less", told("TENURE_TEST_POSTGRES")));
    assert_eq!(place.run(&["doctor", "--create-table"]).code, 0);
    psql(&format!(
        "CREATE ROLE {name} LOGIN SUPERUSER; ALTER ROLE {name} SET default_transaction_read_only = on"
    ));
    let reader = Remote::at(place.url.replace("postgres@", &format!("{name}@")));
    let said = warned(&reader, &["it is read-only", "name the primary"]);
    assert!(!said.contains("all that a candidate needs"), "{said}");
}
