//! Plan: who plans and who stands by, and since when; what moves, from whom, to whom and why; what is attached to a session that can't be read,
//! is of another version, or is no worker's stays there, as for the planner; all of it as text and as JSON.
use super::super::UnitStage;
use super::*;
use crate::verbs::fleet::gather::FleetGathering;
use crate::verbs::fleet::health::health;
use tenure::fleet::{About, FleetName, Uncovered, UnitSpec};
use tenure::store::{Attachment, Listed, Nonce, Record, Stored, Tenure};
use tenure::{Fence, Key, Metadata, StoreError, Ttl, Value};

const NOW: Wall = Wall(1_000_000_000);

/// A fleet's records, in the order of keys.
#[derive(Default)]
struct Records(BTreeMap<String, Result<Stored, StoreError>>);

impl Records {
    fn put(&mut self, key: &str, tenure: Option<Tenure>, metadata: Metadata) {
        let nonce = tenure.as_ref().map_or(Nonce(1), |tenure| tenure.id);
        let record = Record { fence: Fence(1), nonce, stamp: Wall(NOW.0 - 3_000), tenure, metadata };
        self.0.insert(format!("fleet/f/{key}"), Ok(Stored::new(record).aged(Some(Duration::ZERO))));
    }

    /// A worker that joined so many seconds ago.
    fn worker(&mut self, name: &str, secs: u64, about: &About) {
        let tenure = tenure(name, Wall(NOW.0 - secs * 1000));
        self.put(&format!("worker/{name}"), Some(tenure), about.compose(Metadata::new()));
    }

    /// A unit that is attached to the session of this name.
    fn unit(&mut self, name: &str, owner: Option<&str>, spec: &UnitSpec) {
        let tenure = owner.map(|owner| {
            let session = Key::new(format!("fleet/f/worker/{owner}")).unwrap();
            Tenure { attachment: Some(Attachment { session, fence: Fence(1) }), ..tenure(owner, Wall(1)) }
        });
        self.put(&format!("unit/{name}"), tenure, spec.compose(Metadata::new()).unwrap());
    }

    fn board(&mut self, planner: &str, standbys: &[&str]) {
        let text = |text: &str| Value::from(text);
        let number = |n: u64| Value::from(i64::try_from(n).unwrap());
        let map = |fields: Vec<(&str, Value)>| {
            Value::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        };
        let session = text(&format!("fleet/f/worker/{planner}"));
        let plan = [("number", 7), ("workers", 3), ("units", 4), ("least", 10_000), ("most", 10_000)];
        let mut plan: Vec<_> = plan.into_iter().map(|(name, n)| (name, number(n))).collect();
        plan.push(("at", number(NOW.0 - 12_000)));
        let standbys = Value::List(standbys.iter().map(|name| text(name)).collect());
        let metadata = Metadata::from([
            ("planner".to_owned(), map(vec![("session", session), ("fence", number(1))])),
            ("plan".to_owned(), map(plan)),
            ("standbys".to_owned(), standbys),
        ]);
        self.put("board", None, metadata);
    }

    fn snapshot(self) -> Snapshot {
        let mut gathering = FleetGathering::new(FleetName::new("f").unwrap());
        for (key, stored) in self.0 {
            gathering.add(Listed { key: Key::new(key).unwrap(), stored }, NOW);
        }
        gathering.end()
    }
}

fn tenure(holder: &str, since: Wall) -> Tenure {
    Tenure::new(Nonce(7), HolderId::new(holder).unwrap(), Ttl::clamped(10_000), since)
}

/// Each unit's stage, whom it goes to or why it can't, and why it moves.
fn units(snapshot: &Snapshot) -> Vec<(String, UnitStage, String, Option<&'static str>)> {
    let of = |unit: &super::super::UnitSnapshot| {
        let target = match snapshot.target_of(unit) {
            Some(Ok(holder)) => holder.to_string(),
            Some(Err(why)) => why.to_string(),
            None => "-".to_owned(),
        };
        (unit.name.to_string(), snapshot.stage(unit), target, unit.why.map(Cause::name))
    };
    snapshot.units.iter().map(of).collect()
}

#[test]
fn it_tells_who_plans_and_stands_by_and_what_moves_from_whom_to_whom_and_why() {
    let mut records = Records::default();
    records.board("a", &["b", "dead"]);
    records.worker("a", 9_000, &About::default());
    let mut leaves = About::default();
    leaves.leaving = true;
    records.worker("b", 9_000, &leaves);
    records.worker("c", 20, &About::default());
    records.unit("u1", Some("a"), &UnitSpec::default());
    records.unit("u2", Some("a"), &UnitSpec::default());
    records.unit("u3", Some("a"), &UnitSpec::default());
    records.unit("u4", Some("b"), &UnitSpec::default());
    records.unit("u5", Some("gone"), &UnitSpec::default());
    records.unit("u6", None, &UnitSpec::default());
    let snapshot = records.snapshot();
    let told = snapshot.planning_text().unwrap();
    assert_eq!(told, "a plans, plan 7 was told 12s ago, b stands by, last change 3s ago");
    let moves: Vec<_> =
        units(&snapshot).into_iter().filter_map(|(name, _, _, why)| Some((name, why?))).collect();
    let why = |name: &str| moves.iter().find(|(unit, _)| unit == name).map(|(_, why)| *why);
    assert_eq!((why("u4"), why("u5"), why("u6")), (Some("leave"), Some("gone"), Some("vacant")));
    assert_eq!(snapshot.causes_text().unwrap(), "1 vacant, 1 gone, 1 leave");
    let json = Json::Object(snapshot.planning_json());
    assert_eq!(
        (&json["planner"], &json["standbys"], &json["plan"], &json["plan_age_ms"]),
        (&json!("a"), &json!(["b"]), &json!(7), &json!(12_000))
    );
    assert_eq!(json["plan_told"], json!(date(Wall(NOW.0 - 12_000))));
    assert_eq!(snapshot.causes_json(), json!({"vacant": 1, "gone": 1, "leave": 1}));
    let moves = snapshot.moves_json();
    let from =
        |from: Json| moves.as_array().unwrap().iter().find(|moves| moves["from"] == from).unwrap().clone();
    assert_eq!(from(json!("b")), json!({"from": "b", "to": "c", "why": "leave", "units": 1}));
    assert_eq!(from(Json::Null)["why"], "vacant");
    assert!(snapshot.moves_text().contains(&"1 unit from b to c: its worker is leaving".to_owned()));
}

#[test]
fn one_that_has_joined_is_told_from_evenness_by_how_long_ago_that_was() {
    let why = |secs| {
        let mut records = Records::default();
        records.worker("a", 9_000, &About::default());
        records.worker("b", secs, &About::default());
        records.unit("u1", Some("a"), &UnitSpec::default());
        records.unit("u2", Some("a"), &UnitSpec::default());
        records.snapshot().causes_json()
    };
    assert_eq!((why(99), why(101)), (json!({"join": 1}), json!({"evenness": 1})));
}

#[test]
fn what_is_behind_a_session_that_is_no_workers_of_this_version_stays_there_as_the_planner_has_it() {
    let mut records = Records::default();
    records.board("a", &[]);
    records.worker("a", 9_000, &About::default());
    records.worker("old", 9_000, &About::default());
    let Some(Ok(old)) = records.0.get_mut("fleet/f/worker/old") else { panic!() };
    if let Some(Value::Map(own)) = old.record.metadata.get_mut("tenure") {
        own.remove("layout");
    }
    records.put("worker/nobody", Some(tenure("nobody", Wall(1))), Metadata::new());
    records.0.insert("fleet/f/worker/torn".to_owned(), Err(StoreError::foreign("cut off")));
    for (unit, owner) in [("u1", "old"), ("u2", "nobody"), ("u3", "torn"), ("u4", "a")] {
        records.unit(unit, Some(owner), &UnitSpec::default());
    }
    let session = Key::new("session/elsewhere").unwrap();
    let attachment = Some(Attachment { session, fence: Fence(1) });
    let elsewhere = Tenure { attachment, ..tenure("elsewhere", Wall(1)) };
    records.put("unit/u5", Some(elsewhere), Metadata::new());
    let snapshot = records.snapshot();
    let [foreign, damaged] = [Uncovered::Foreign, Uncovered::Damaged].map(|why| why.to_string());
    let expected = [
        ("u1", UnitStage::Uncovered, foreign.as_str()),
        ("u2", UnitStage::Uncovered, foreign.as_str()),
        ("u3", UnitStage::Uncovered, damaged.as_str()),
        ("u4", UnitStage::Held, "a"),
        ("u5", UnitStage::Outside, "-"),
    ];
    let found = units(&snapshot);
    let found: Vec<_> =
        found.iter().map(|(name, stage, to, _)| (name.as_str(), *stage, to.as_str())).collect();
    assert_eq!(found, expected);
    let old = snapshot.workers.iter().find(|worker| worker.holder.as_str() == "old").unwrap();
    assert_eq!((old.state(), old.held, old.planned), ("other version", 1, 0));
    let problems = health(&snapshot).problems.join("; ");
    assert!(problems.contains("old is of another version") && problems.contains("3 units"), "{problems}");
    // Once it has been silent for its ttl it is gone, whatever version it was of.
    let mut records = Records::default();
    records.worker("a", 9_000, &About::default());
    records.put("worker/old", Some(tenure("old", Wall(1))), Metadata::new());
    if let Some(Ok(old)) = records.0.get_mut("fleet/f/worker/old") {
        *old = old.clone().aged(Some(Duration::from_secs(11)));
    }
    records.unit("u1", Some("old"), &UnitSpec::default());
    let found = units(&records.snapshot());
    assert_eq!(found, [("u1".to_owned(), UnitStage::Waiting, "a".to_owned(), Some("gone"))]);
}

#[test]
fn of_many_moves_the_largest_are_named() {
    let mut records = Records::default();
    records.worker("a", 9_000, &About::default());
    for n in 0..12 {
        records.unit(&format!("u{n:02}"), Some(&format!("gone{n:02}")), &UnitSpec::default());
    }
    records.unit("v", Some("gone07"), &UnitSpec::default());
    let lines = records.snapshot().moves_text();
    assert_eq!(lines.len(), 11, "{lines:?}");
    assert_eq!(lines[0], "2 units from gone07 to a: its worker is gone");
    assert_eq!(lines[10], "2 units more: see `tenure fleet units f`");
}
