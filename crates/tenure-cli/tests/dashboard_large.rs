//! The agent's dashboard of a store with very many records, in a real browser. Pictures of it are kept in `target/dashboard`.
//!
//! Plan: 10,000 leases are there within a second, and so is a change of one; what other processes take, and a unit that is moved, are shown soon among them; a fleet of 100,000 units is shown, scrolled, searched and drawn as a map without
//! a long stand-still. With `--nocapture` it prints how long each took.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]
#![allow(clippy::disallowed_methods, reason = "real processes are measured by real time")]

use crate::common::browser::Browser;
use crate::common::dashboard::{Agent, FULL, READ, ROWS, tab};
use crate::common::{Bench, takes_at_most, wait_for, wait_until};
use std::time::Instant;
use tenure::sqlite::{SqliteConfig, SqliteStore};
use tenure::store::{Attachment, Expect, Nonce, Record, Tenure};
use tenure::{Clock, Fence, HolderId, Key, Metadata, Store, Ttl, Wall};

/// What others hold, straight in the store: keys, holders, and the sessions that they go with.
fn plant(bench: &Bench, all: impl Iterator<Item = (String, String, Option<String>)>) {
    let store = SqliteStore::open(SqliteConfig::new(bench.store())).unwrap();
    let now: Wall = tenure::clock::system().now().wall;
    let write = |(n, (key, holder, session)): (usize, (String, String, Option<String>))| {
        let nonce = Nonce(n as u128 + 1);
        let ttl = Ttl::new(std::time::Duration::from_secs(3600)).unwrap();
        let mut tenure = Tenure::new(nonce, HolderId::new(holder).unwrap(), ttl, now);
        tenure.attachment =
            session.map(|session| Attachment { session: Key::new(session).unwrap(), fence: Fence(1) });
        let record =
            Record { fence: Fence(1), nonce, stamp: now, tenure: Some(tenure), metadata: Metadata::new() };
        tenure::store::Write { key: Key::new(key).unwrap(), expect: Expect::Vacant, record }
    };
    let writes: Vec<tenure::store::Write> = all.enumerate().map(write).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for writes in writes.chunks(store.capabilities().batch) {
        runtime.block_on(store.write_many(writes.to_vec())).unwrap();
    }
}

#[test]
fn ten_thousand_leases_are_shown_within_a_second_and_searched() {
    let bench = Bench::new();
    plant(&bench, (0..10_000).map(|n| (format!("lease/{n:05}"), format!("holder-{}", n % 100), None)));
    let agent = Agent::start(&bench, "0");
    let mut browser = agent.shown_to(READ);
    let first = "performance.getEntriesByName('rows')[0]?.startTime ?? -1";
    // From the click to the first leases.
    takes_at_most(1000, || {
        browser.reload();
        browser.wait_for("rows", &format!("({first}) > 0"));
        let took = browser.eval(first).as_f64().unwrap();
        println!("10,000 leases: first rows after {took:.0} ms");
        took as i64
    });
    browser.wait_for(
        "all",
        "document.getElementById('count').textContent.startsWith('10,001 records of 10,001')",
    );
    assert!(browser.eval("document.querySelectorAll('.row').length").as_u64().unwrap() < 100);
    browser.picture("many");
    browser.eval("document.getElementById('list').focus()");
    browser.press("End");
    browser.wait_for("the last", &format!("{ROWS}.at(-1)[0].startsWith('session/')"));
    browser.press("ArrowUp");
    browser.press("Enter");
    browser.wait_for(
        "the last lease",
        "document.querySelector('dialog[open] h2').textContent === 'lease/09999'",
    );
    browser.press("Escape");
    browser.wait_for("it to close", "!document.querySelector('dialog').open");
    browser.press("/");
    browser.write("holder-77");
    browser.wait_for(
        "what is sought",
        "document.getElementById('count').textContent.startsWith('100 records of ')",
    );
    // Until a change is seen, with all of them there.
    let mut n = 0;
    takes_at_most(1000, || {
        n += 1;
        let key = format!("news/{n}");
        browser.eval(&format!("(search => {{ search.value = '{key}'; search.dispatchEvent(new Event('input')) }})(document.getElementById('search'))"));
        browser.wait_for("none", &format!("{ROWS}.length === 0"));
        let began = Instant::now();
        agent.acquire(&key);
        browser.wait_for("it", &format!("{ROWS}.some(row => row[0] === '{key}')"));
        println!("10,000 leases: one that a client takes is shown after {} ms", began.elapsed().as_millis());
        i64::try_from(began.elapsed().as_millis()).unwrap()
    });
}

#[test]
fn what_other_processes_do_is_shown_soon_though_ten_thousand_leases_are_there() {
    /// The agent is as the tests are built, and no person waits for longer.
    const SOON: i64 = 2500;
    let bench = Bench::new();
    plant(&bench, (0..10_000).map(|n| (format!("lease/{n:05}"), format!("holder-{}", n % 100), None)));
    let agent = Agent::start(&bench, "0");
    let units = ["--units", "u"];
    let (one, two) = (bench.worker(&units, "sleep 1000"), bench.worker(&units, "sleep 1000"));
    let names = [bench.name_of(&one), bench.name_of(&two)];
    let mut browser = agent.shown_to(READ);
    let all = "document.getElementById('count').textContent.startsWith('10,0') && document.getElementById('count').textContent.includes('as of')";
    browser.wait_for("all", all);
    // Nothing is read again by the page.
    browser.eval("(pace => { pace.value = '0'; pace.dispatchEvent(new Event('change')) })(document.getElementById('pace'))");
    let search = |browser: &mut Browser, text: &str| {
        browser.eval(&format!("(search => {{ search.value = '{text}'; search.dispatchEvent(new Event('input')) }})(document.getElementById('search'))"));
    };
    let (mut n, mut running) = (0, Vec::new());
    takes_at_most(SOON, || {
        n += 1;
        let key = format!("news/{n}");
        search(&mut browser, &key);
        browser.wait_for("none", &format!("{ROWS}.length === 0"));
        running.push(bench.start(&[
            "run",
            &key,
            "--",
            "sh",
            "-c",
            &format!("echo > had.{n}; exec sleep 1000"),
        ]));
        wait_until("it to be had", || bench.path(&format!("had.{n}")).exists());
        let began = Instant::now();
        browser.wait_for("it", &format!("{ROWS}.some(row => row[0] === '{key}' && row[1] === 'held')"));
        println!(
            "10,000 leases: one that `tenure run` takes is shown after {} ms",
            began.elapsed().as_millis()
        );
        i64::try_from(began.elapsed().as_millis()).unwrap()
    });
    // A unit goes from one worker to the other and back.
    search(&mut browser, "fleet/f/unit/u");
    let owner = || wait_for("an owner", || Some(bench.unit("u")["owner"].as_str()?.to_owned()));
    takes_at_most(SOON, || {
        let next = names.iter().find(|name| **name != owner()).unwrap();
        let fence = bench.show("fleet/f/unit/u")["fence"].clone();
        let headers = format!("authorization: Bearer {FULL}\r\n");
        let body = serde_json::json!({"fence": fence, "worker": next}).to_string();
        let moved = agent.ask("POST", "/v1/records/fleet%2Ff%2Funit%2Fu/move", &headers, &body);
        assert!(moved.starts_with("HTTP/1.1 200"), "{moved}");
        wait_until("it to go", || owner() == *next);
        let began = Instant::now();
        browser.wait_for("it", &format!("{ROWS}.some(row => row[1] === 'held' && row[3] === '{next}')"));
        println!("10,000 leases: a unit that has moved is shown after {} ms", began.elapsed().as_millis());
        i64::try_from(began.elapsed().as_millis()).unwrap()
    });
    assert_eq!(browser.complaints(), [] as [String; 0]);
}

/// How many milliseconds go by until an action is seen, and the longest that the page stood still meanwhile.
fn times(browser: &mut Browser, action: &str, seen: &str) -> (u64, u64) {
    let took = browser.eval(&format!(
        "new Promise((done) => {{
            const began = performance.now();
            let [last, longest] = [began, 0];
            ({action})();
            const turn = () => {{
                const now = performance.now();
                longest = Math.max(longest, now - last);
                last = now;
                if (({seen}) || now - began > 20000) done([now - began, longest]);
                else setTimeout(turn, 4);
            }};
            setTimeout(turn, 0);
        }})"
    ));
    let at = |n: usize| took[n].as_f64().unwrap().ceil() as u64;
    (at(0), at(1))
}

#[test]
fn a_fleet_of_100_000_units_is_shown_scrolled_searched_and_drawn() {
    const UNITS: usize = 100_000;
    const WORKERS: usize = 10;
    let bench = Bench::new();
    let session = |n: usize| format!("fleet/big/worker/w{}", n % WORKERS);
    let workers = (0..WORKERS).map(|n| (session(n), format!("w{n}"), None));
    let units = (0..UNITS)
        .map(|n| (format!("fleet/big/unit/u{n:06}"), format!("w{}", n % WORKERS), Some(session(n))));
    plant(&bench, workers.chain(units));
    let agent = Agent::start(&bench, "0");
    let mut browser = agent.shown_to(READ);
    browser.reload();
    let began = Instant::now();
    let first = "performance.getEntriesByName('rows')[0]?.startTime ?? -1";
    browser.wait_for("rows", &format!("({first}) > 0"));
    let first = browser.eval(first).as_f64().unwrap();
    let count = "document.getElementById('count').textContent";
    browser.wait_for(
        "all",
        &format!("{count}.startsWith('100,011 records of 100,011') && {count}.includes('as of')"),
    );
    println!(
        "100,000 units: first rows after {first:.0} ms, all of them after {:.1} s",
        began.elapsed().as_secs_f64()
    );
    assert!(browser.eval("document.querySelectorAll('.row').length").as_u64().unwrap() < 100);
    let told = |browser: &mut Browser, what: &str, action: &str, seen: &str| {
        let (took, longest) = times(browser, action, seen);
        println!("{what}: {took} ms, of which it stood still for {longest} at the most");
        // A browser that draws by software, on a machine that others use, too.
        assert!(took < 10_000, "{what}: {took} ms, {}", browser.eval(&format!("{ROWS}.slice(0, 3)")));
    };
    let shows = |key: &str| format!("{ROWS}.some(row => row[0] === '{key}')");
    // A row is 34 pixels high.
    let scroll = "() => document.getElementById('list').scrollTop = 34 * 50000";
    told(&mut browser, "scrolled to the middle", scroll, &shows("fleet/big/unit/u050020"));
    let page = "() => { window.steps = 0; const step = () => { document.getElementById('list').scrollTop += 400; if (++steps < 100) setTimeout(step, 0); }; step(); }";
    told(&mut browser, "100 steps of a scroll", page, "steps === 100");
    let search = |text: &str| {
        format!(
            "() => {{ const box = document.getElementById('search'); box.value = '{text}'; box.dispatchEvent(new Event('input')); }}"
        )
    };
    told(&mut browser, "searched a unit", &search("u099999"), &format!("{count}.startsWith('1 record of ')"));
    told(
        &mut browser,
        "searched a worker",
        &search("W7"),
        &format!("{count}.startsWith('10,001 records of ')"),
    );
    told(
        &mut browser,
        "searched nothing",
        &search(""),
        &format!("{count}.startsWith('100,011 records of ')"),
    );
    let fleets = "() => [...document.querySelectorAll('[role=tab]')].find(tab => tab.textContent === 'Fleets').click()";
    let drawn = "document.querySelector('#map canvas')?.getAttribute('aria-label').endsWith('w9: 10000')";
    told(&mut browser, "drawn as a map", fleets, drawn);
    browser.picture("huge-fleet");
    tab(&mut browser, "Units");
    browser.eval("document.getElementById('list').focus()");
    browser.press("End");
    browser.wait_for("the last unit", &shows("fleet/big/unit/u099999"));
    assert_eq!(browser.complaints(), [] as [String; 0]);
}
