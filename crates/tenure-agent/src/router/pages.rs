//! Pages of records.
//!
//! Plan: a page of long records is cut, and all of them are found page by page.

use super::tests::RouterFixture;
use serde_json::{Value, json};

#[test]
fn a_page_of_long_records_is_short_and_tells_where_it_goes_on() {
    const RECORDS: usize = 300;
    let served = RouterFixture::new();
    for n in 0..RECORDS {
        let lease = json!({"key": format!("{n:03}"), "about": {"text": "x".repeat(7000)}});
        assert_eq!(served.ask("POST", "/v1/leases", lease.to_string().into_bytes()).0, 201);
    }
    let (mut keys, mut pages, mut after) = (Vec::new(), 0, String::new());
    loop {
        let path = format!("/v1/leases?limit=1000&after={after}");
        let (status, page) = served.ask("GET", path.trim_end_matches("&after="), Vec::new());
        assert!(status == 200 && page.to_string().len() < 1_100_000, "{status}");
        let rows = page["leases"].as_array().unwrap();
        let found = rows.iter().filter_map(|row| row["key"].as_str()).map(str::to_owned);
        keys.extend(found.filter(|key| key.len() == 3));
        pages += 1;
        let Some(next) = page["next"].as_str() else { break };
        assert_eq!(rows.last().map(|row| &row["key"]), Some(&Value::from(next)));
        after = next.replace('/', "%2F");
    }
    assert!((keys.len(), pages) == (RECORDS, 3) && keys.is_sorted(), "{pages} pages: {keys:?}");
}
