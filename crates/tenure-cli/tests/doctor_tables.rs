//! `tenure doctor` on tables in the layouts of other programs, in DynamoDB Local, which `cargo xtask services up` starts.
//!
//! Plan: a table that is missing is told, and made when that is wanted, with the keys of its layout; on a lease table, who has how
//! many leases, those that nobody has though there is work beside live workers, and what is none, and who leads the KCL's processes; on TableTheory's, a wall clock that is off by more than the skew margin, which a service in
//! between that tells another time shows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Ran, service};
use serde_json::{Value, json};

struct Table {
    bench: Bench,
    name: String,
    endpoint: String,
    options: &'static str,
}

fn table(name: &str, options: &'static str) -> Table {
    let name = format!("cli-doctor-{name}-{}", std::process::id());
    Table { bench: Bench::new(), name, endpoint: service::endpoint(), options }
}

impl Table {
    fn at(&self, endpoint: &str, arguments: &[&str]) -> Ran {
        let url = format!("dynamodb://{}?region=eu-west-1&endpoint={endpoint}&{}", self.name, self.options);
        Ran::of(
            self.bench.tenure(&[&["doctor"], arguments].concat()).env("TENURE_STORE", url).output().unwrap(),
        )
    }

    fn doctor(&self, arguments: &[&str]) -> Ran {
        self.at(&self.endpoint, arguments)
    }

    fn put(&self, item: Value) {
        service::ask(&self.endpoint, "PutItem", &json!({"TableName": self.name, "Item": item}));
    }

    /// It is missing at first.
    fn made(&self, keys: &Value) {
        let ran = self.doctor(&[]);
        assert!(ran.code == 69 && ran.err.contains("doctor --create-table"), "{ran:?}");
        let ran = self.doctor(&["--create-table"]);
        assert!(ran.code == 0 && ran.out.contains("ok    table        it was made"), "{ran:?}");
        let ran = self.doctor(&["--create-table"]);
        assert!(ran.code == 0 && ran.out.contains("ok    table        it is there"), "{ran:?}");
        let described = service::ask(&self.endpoint, "DescribeTable", &json!({"TableName": self.name}));
        assert_eq!(described["Table"]["KeySchema"], *keys);
    }
}

#[test]
fn a_lease_table_is_made_and_its_owners_and_what_is_no_lease_are_told() {
    let table = table("kcl", "dialect=kcl");
    table.made(&json!([{"AttributeName": "leaseKey", "KeyType": "HASH"}]));
    let lease = |key: &str, owner: &str| {
        let mut item =
            json!({"leaseKey": {"S": key}, "leaseCounter": {"N": "7"}, "checkpoint": {"S": "TRIM_HORIZON"}});
        item["leaseOwner"] = json!({"S": owner});
        item
    };
    for (key, owner) in [("a", "one"), ("b", "two"), ("c", "one")] {
        table.put(lease(key, owner));
    }
    let mut free = lease("d", "");
    free.as_object_mut().unwrap().remove("leaseOwner");
    let mut read = free.clone();
    (read["leaseKey"], read["checkpoint"]) = (json!({"S": "z"}), json!({"S": "SHARD_END"}));
    table.put(free);
    table.put(read);
    let ran = table.doctor(&[]);
    for line in [
        "ok    leases       5 leases, 2 of them with no owner\n",
        "warn  unowned      1 lease with no owner beside 2 workers: ",
        "ok    owner        one has 2 leases\n",
        "ok    owner        two has 1 lease\n",
        "ok    leader       by the KCL's rule of 2.x it is one\n",
        "no fence",
    ] {
        assert!(ran.code == 2 && ran.out.contains(line), "{line}: {ran:?}");
    }
    table.put(lease("d", "two"));
    // As the KCL 3.x stores it beside the leases. With the second version, it goes by the rule of 2.x.
    let beside = format!("{}-CoordinatorState", table.name);
    let schema = json!({
        "TableName": beside, "BillingMode": "PAY_PER_REQUEST", "KeySchema": [{"AttributeName": "key", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "key", "AttributeType": "S"}],
    });
    service::ask(&table.endpoint, "CreateTable", &schema);
    for (version, code) in [("CLIENT_VERSION_3X_WITH_ROLLBACK", 2), ("CLIENT_VERSION_2X", 0)] {
        let state = json!({"key": {"S": "Migration3.0"}, "cv": {"S": version}});
        service::ask(&table.endpoint, "PutItem", &json!({"TableName": beside, "Item": state}));
        let ran = table.doctor(&[]);
        let is_warned =
            ran.out.contains("have agreed on CLIENT_VERSION_3X_WITH_ROLLBACK: their leader assigns all leases by the workers' metrics, and workers of tenure have none. End these, or go back to 2.x");
        assert!(ran.code == code && is_warned == (code == 2), "{ran:?}");
    }
    let ran = table.doctor(&[]);
    assert!(
        ran.code == 0 && !ran.out.contains("unowned"),
        "what was read to its end is nobody's for good: {ran:?}"
    );
    let mut strange = lease("e", "one");
    strange["leaseCounter"] = json!({"S": "many"});
    table.put(strange);
    let ran = table.doctor(&["--json"]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    let checks = told["checks"].as_array().unwrap();
    let failed: Vec<&Value> = checks.iter().filter(|check| check["grade"] == "fail").collect();
    assert!(ran.code == 1 && failed.len() == 1, "{ran:?}");
    assert!(
        failed[0]["check"] == "damaged" && failed[0]["detail"].as_str().unwrap().contains("\"e\""),
        "{ran:?}"
    );
    // As newer versions store it among the leases.
    let version = json!({"S": "CLIENT_VERSION_3X"});
    table.put(json!({"leaseKey": {"S": "Migration3.0"}, "entityType": {"S": "MIGRATION"}, "cv": version}));
    let ran = table.doctor(&[]);
    assert!(ran.out.contains("have agreed on CLIENT_VERSION_3X: "), "{ran:?}");
}

#[test]
fn a_table_of_table_theory_s_is_made_and_a_clock_that_is_off_is_told() {
    let table = table("tt", "dialect=tabletheory&pk_name=id");
    table.made(
        &json!([{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]),
    );
    let ran = table.doctor(&[]);
    assert!(ran.code == 0 && ran.out.contains("ok    clock        20"), "{ran:?}");
    for (date, says) in
        [("Sat, 01 Jan 2000 00:00:00 GMT", "ahead of"), ("Fri, 01 Jan 2100 00:00:00 GMT", "behind")]
    {
        let ran = table.at(&service::at_another_time(&table.endpoint, || date.to_owned()), &[]);
        assert!(ran.code == 1 && ran.out.contains("fail  clock") && ran.out.contains(says), "{ran:?}");
        assert!(ran.out.contains("500ms are allowed"), "{ran:?}");
    }
}
