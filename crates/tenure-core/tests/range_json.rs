//! Plan: the JSON form of ranges, against the shared vectors that LUCI's own code made, and back.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use tenure_core::range::KeyRange;

#[test]
fn every_vector_of_the_json_form_comes_out_the_same() {
    let mut lines = 0;
    for line in common::vectors("luci_partition.jsonl").iter().filter(|line| line["op"] == "from_json") {
        lines += 1;
        let parsed = serde_json::from_str::<KeyRange>(line["in"].as_str().unwrap());
        match (line["out"].as_str(), parsed) {
            (Some(text), Ok(range)) => assert_eq!(range.to_string(), text, "{line}"),
            (None, Err(_)) => {}
            (_, parsed) => panic!("{parsed:?}: {line}"),
        }
    }
    assert_eq!(lines, 3);
}

#[test]
fn the_json_form_is_the_quoted_text() {
    let range = KeyRange::universe_of_bytes(2);
    assert_eq!(serde_json::to_string(&range).unwrap(), "\"0_10000\"");
    assert_eq!(serde_json::from_str::<KeyRange>("\"0_10000\"").unwrap(), range);
}
