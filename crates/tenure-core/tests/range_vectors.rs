//! Plan: every line of the shared vectors, which were made by running LUCI's own code, comes out the same here; where that code
//! panics, here there is an error or nothing. The JSON form is in `range_json.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use serde_json::Value;
use tenure_core::InvalidInput;
use tenure_core::range::{KeyRange, Point, RangeSet};

fn range(value: &Value) -> Result<KeyRange, InvalidInput> {
    value.as_str().unwrap().parse()
}

fn ranges(value: &Value) -> Vec<KeyRange> {
    value.as_array().unwrap().iter().map(|text| range(text).unwrap()).collect()
}

fn hex(value: &Value) -> Point {
    Point::from_hex(value.as_str().unwrap()).unwrap()
}

fn texts(ranges: impl IntoIterator<Item = KeyRange>) -> Value {
    ranges.into_iter().map(|range| range.to_string()).collect()
}

fn bytes(value: &Value) -> u16 {
    value.as_u64().unwrap().try_into().unwrap()
}

/// What comes out here for one line's input.
fn ours(op: &str, input: &Value) -> Result<Value, InvalidInput> {
    let number = |name: &str| input[name].as_u64().unwrap();
    Ok(match op {
        "universe" => KeyRange::universe_of_bytes(bytes(input)).to_string().into(),
        "from_string" => range(input)?.to_string().into(),
        "span_inclusive" => KeyRange::span_inclusive(hex(&input[0]), hex(&input[1]))?.to_string().into(),
        "query_bounds" => {
            let (low, high) = range(&input["P"])?.query_bounds(bytes(&input["N"]))?;
            vec![low, high].into()
        }
        "split" => texts(range(&input["P"])?.split(number("N"))),
        "educated_split_after" => {
            let (before, target, most) = (number("Before"), number("Target"), number("Max"));
            texts(range(&input["P"])?.educated_split_after(&hex(&input["Excl"]), before, target, most)?)
        }
        "exclude" => texts(range(&input["start"])?.exclude_all(&ranges(&input["exclude"]))),
        "only_in" => {
            let keys: Vec<&str> =
                input["keys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
            let digits = 2 * usize::from(bytes(&input["key_space_bytes"]));
            assert!(keys.iter().all(|key| key.len() == digits));
            let parts: RangeSet = ranges(&input["parts"]).into();
            parts.only_in(keys, |key| Point::from_hex(key).unwrap()).into()
        }
        other => panic!("the vectors have an operation {other:?} that this test doesn't know"),
    })
}

#[test]
fn every_vector_comes_out_the_same() {
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    for line in crate::common::vectors("luci_partition.jsonl") {
        let (op, theirs) = (line["op"].as_str().unwrap(), &line["out"]);
        *seen.entry(op.to_owned()).or_default() += 1;
        if op == "from_json" {
            continue;
        }
        match (theirs.as_object(), ours(op, &line["in"])) {
            (None, Ok(ours)) => assert_eq!(&ours, theirs, "{line}"),
            (None, Err(error)) => panic!("{error}: {line}"),
            (Some(_), Err(_)) => {}
            (Some(theirs), Ok(ours)) => {
                let nothing = theirs.contains_key("panic") && ours == Value::Array(vec![]);
                assert!(nothing, "{ours} instead of an error: {line}");
            }
        }
    }
    assert_eq!(seen.len(), 9, "{seen:?}");
    assert_eq!(seen.values().sum::<u32>(), 85, "{seen:?}");
}
