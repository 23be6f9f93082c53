//! The agent's dashboard in a real browser. Pictures of it are kept in `target/dashboard`.
//!
//! Plan: what is shown is what `ls --json` says, of every kind of record, with the time that is left, ranges and queues; a key that is markup is text; nothing is shown without a
//! token, and a token is nowhere but in its tab; changes are shown by themselves, the agent's own at once, what events have missed is read, and changes are known after a reload; an agent that is dead, or
//! stands still, and a store that fails, are shown as such, and so is their return; the keyboard alone; a narrow window, light and
//! dark.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::browser::Browser;
use crate::common::dashboard::{Agent, FULL, LIVE, READ, ROWS, held, tab, tab_to};
use crate::common::{Bench, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const HOSTILE: &str = "<img src=x onerror=\"document.title='had'\">\u{202e}txt";

/// What the page should show of what `ls --json` says.
fn said_by_ls(bench: &Bench) -> Vec<Vec<String>> {
    let listing = bench.run(&["ls", "--json"]).json();
    let row = |lease: &Value| {
        let mut state = lease["state"].as_str().unwrap().to_owned();
        let mut holder = lease["holder"].as_str().map(str::to_owned);
        if let Some(semaphore) = lease.get("semaphore") {
            let holders = semaphore["holders"].as_array().unwrap();
            let taken: u64 = holders.iter().map(|claim| claim["permits"].as_u64().unwrap()).sum();
            state += &format!(" {taken}/{}", semaphore["permits"]);
            let waiting = semaphore["queue"].as_array().unwrap().len();
            if waiting > 0 {
                state += &format!(", {waiting} wait");
            }
            holder = holders.first().map(|claim| claim["holder"].as_str().unwrap().to_owned());
        }
        if let Some(ranges) = lease.get("leases") {
            holder = ranges[0]["holder"].as_str().map(str::to_owned);
        }
        let key = lease["key"].as_str().unwrap().replace('\u{202e}', "\\u{202e}");
        vec![key, state, lease["fence"].to_string(), holder.unwrap_or_default()]
    };
    listing["leases"].as_array().unwrap().iter().map(row).collect()
}

/// How many seconds are left of what `ls --json` says, in its order.
fn left_by_ls(bench: &Bench) -> Vec<Option<f64>> {
    let listing = bench.run(&["ls", "--json"]).json();
    let left = |lease: &Value| {
        let ranges = lease["leases"].as_array().into_iter().flatten();
        let most = ranges.filter_map(|lease| lease["left_ms"].as_f64()).reduce(f64::max);
        Some(most.or(lease["left_ms"].as_f64())? / 1000.0)
    };
    listing["leases"].as_array().unwrap().iter().map(left).collect()
}

/// The same as the page words it: "7.5 s", "48 s" or "3 min", which is how near they have to be.
fn is_worded(left: Option<f64>, text: &str) -> bool {
    let (Some(left), Some((number, unit))) = (left, text.split_once(' ')) else {
        return left.is_none() == text.is_empty();
    };
    let shown: f64 = number.parse().unwrap();
    // Some time goes by from the one to the other.
    (shown - left / if unit == "s" { 1.0 } else { 60.0 }).abs() < 2.5
}

/// Holders and queue of a semaphore, or ranges of a section, as the page's lines of what `show --json` says.
fn parts_by_show(bench: &Bench, key: &str) -> Vec<Vec<String>> {
    let record = bench.show(key);
    let list =
        |parts: &Value, line: &dyn Fn(&Value) -> String| parts.as_array().unwrap().iter().map(line).collect();
    let text = |part: &Value, name: &str| part[name].as_str().unwrap().to_owned();
    if let Some(semaphore) = record.get("semaphore").filter(|semaphore| semaphore.is_object()) {
        let waits = |claim: &Value| format!("{}: {} of the permits", text(claim, "holder"), claim["permits"]);
        let holds = |claim: &Value| format!("{}, fence {}", waits(claim), claim["fence"]);
        return vec![list(&semaphore["holders"], &holds), list(&semaphore["queue"], &waits)];
    }
    let range = |lease: &Value| {
        let ranges =
            lease["ranges"].as_array().unwrap().iter().map(|range| range.as_str().unwrap().to_owned());
        format!(
            "{}: {}, fence {}",
            ranges.collect::<Vec<_>>().join(", "),
            text(lease, "holder"),
            lease["fence"]
        )
    };
    vec![list(&record["leases"], &range)]
}

#[test]
fn the_page_shows_what_ls_says_and_a_key_that_is_markup_does_nothing() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, "0");
    assert_eq!(bench.run(&["run", "vacant", "--", "true"]).code, 0);
    let _held = held(
        &bench,
        &[
            &["run", "nightly"],
            &["run", HOSTILE],
            &["run", "--permits", "3", "--ttl", "60s", "pool"],
            &["elect", "primary"],
            &["range", "mail", "0..ffff"],
        ],
    );
    let _waits = bench.start(&["run", "--permits", "3", "--take", "3", "--ttl", "60s", "pool", "--", "true"]);
    let queue = || bench.show("semaphore/pool")["semaphore"]["queue"].as_array().unwrap().clone();
    wait_until("one to wait", || queue().len() == 1);
    agent.acquire("of a client");
    let headers = format!("authorization: Bearer {FULL}\r\n");
    let led = agent.ask("POST", "/v1/elections/led%20by%20a%20client/campaign", &headers, "{}");
    assert!(led.starts_with("HTTP/1.1 201"), "{led}");
    let mut browser = agent.shown_to(FULL);
    wait_until("the page to show what ls says", || {
        let shown: Vec<Vec<String>> = serde_json::from_value(browser.eval(ROWS)).unwrap();
        let shown: Vec<Vec<String>> = shown.into_iter().map(|row| row[..4].to_vec()).collect();
        let said = said_by_ls(&bench);
        said.len() >= 8 && shown == said
    });
    let times = format!("{ROWS}.map(row => row[4])");
    wait_until("the same times", || {
        let shown: Vec<String> = serde_json::from_value(browser.eval(&times)).unwrap();
        let said = left_by_ls(&bench);
        assert!(said.iter().filter(|left| left.is_some()).count() >= 6, "{said:?}");
        shown.len() == said.len() && said.iter().zip(&shown).all(|(left, text)| is_worded(*left, text))
    });
    assert_eq!(browser.eval("document.querySelectorAll('img').length"), 0);
    assert_eq!(browser.eval("document.title"), "tenure");
    let time = "[...document.querySelectorAll('.row')].find(row => row.children[0].textContent === 'nightly').children[4].textContent";
    assert!(browser.eval(time).as_str().unwrap().ends_with(" s"), "{}", browser.eval(time));
    browser.picture("everything");
    // What nobody holds is shown to who asks for it, and each view has its own.
    browser.eval("document.getElementById('all').click()");
    browser.wait_for("what nobody holds", &format!("{ROWS}.some(row => row[0] === 'vacant')"));
    for (view, key) in [("Semaphores", "semaphore/pool"), ("Sections", "section/mail")] {
        tab(&mut browser, view);
        browser.wait_for(
            view,
            &format!("JSON.stringify({ROWS}.map(row => row[0])) === JSON.stringify(['{key}'])"),
        );
        browser.eval("document.querySelector('.row').click()");
        browser.wait_for(
            "the holder",
            "document.querySelector('dialog[open] ol li').textContent.includes('fence')",
        );
        let lines = "[...document.querySelectorAll('dialog[open] h3')].filter(head => !head.textContent.startsWith('Seen'))
            .map(head => [...head.nextElementSibling.children].map(line => line.textContent))";
        let lines: Vec<Vec<String>> = serde_json::from_value(browser.eval(lines)).unwrap();
        // How much is left of ranges is compared in the list.
        let cut = |line: &String| line.split(", about").next().unwrap().to_owned();
        let lines: Vec<Vec<String>> = lines.iter().map(|list| list.iter().map(cut).collect()).collect();
        assert_eq!(lines, parts_by_show(&bench, key), "{key}");
        if view == "Sections" {
            let bar = browser.eval("document.querySelector('dialog canvas').getAttribute('aria-label')");
            assert!(bar.as_str().unwrap().starts_with("0 to ffff: "), "{bar}");
        }
        browser.picture(view);
        browser.eval("document.querySelector('dialog').close()");
    }
    tab(&mut browser, "Elections");
    let keys = |keys: &str| format!("JSON.stringify({ROWS}.map(row => row[0])) === '{keys}'");
    browser.wait_for("the client's", &keys(r#"["led by a client"]"#));
    browser.eval("document.getElementById('prefixes').focus()");
    browser.write("prim");
    browser.wait_for("both", &keys(r#"["led by a client","primary"]"#));
    assert_eq!(browser.complaints(), [] as [String; 0]);
}

#[test]
fn nothing_is_shown_without_a_token_and_the_token_stays_in_its_tab() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, "0");
    agent.acquire("secret key");
    for file in ["/dashboard/", "/dashboard/main.js", "/dashboard/style.css"] {
        let answer = agent.ask("GET", file, "", "");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("default-src 'none'"), "{answer}");
        let evil = agent.ask("GET", file, "origin: http://evil.example\r\n", "");
        assert!(evil.starts_with("HTTP/1.1 403"), "{evil}");
    }
    assert!(agent.ask("GET", "/dashboard/nothing", "", "").starts_with("HTTP/1.1 401"));
    assert!(agent.ask("POST", "/dashboard/", "", "").starts_with("HTTP/1.1 401"));
    let mut browser = Browser::start();
    browser.open(&agent.address());
    browser.wait_for("the form", "!document.getElementById('enter').hidden");
    browser.picture("token");
    assert_eq!(browser.eval("document.getElementById('main').hidden"), true);
    browser.eval("document.getElementById('token').focus()");
    browser.write("wrong-token-0123456789");
    browser.press("Enter");
    browser.wait_for("the refusal", "document.getElementById('refused').textContent.includes('not one of')");
    browser.write(READ);
    browser.press("Enter");
    browser.wait_for("the lease", &format!("{ROWS}.some(row => row[0] === 'secret key')"));
    browser.wait_for("what it may", "document.getElementById('may').textContent.includes('may look')");
    let tells = "location.href + document.documentElement.outerHTML + JSON.stringify(localStorage) + document.cookie + document.getElementById('token').value";
    assert!(!browser.eval(tells).as_str().unwrap().contains(READ));
    // It is there after a reload, and gone when it is told to be.
    browser.reload();
    browser.wait_for("the list", LIVE);
    browser.eval("document.getElementById('leave').click()");
    browser.wait_for(
        "the form",
        "!document.getElementById('enter').hidden && !document.getElementById('token').value",
    );
    assert_eq!(browser.eval("JSON.stringify(sessionStorage)"), "{}");
    assert_eq!(browser.complaints(), [] as [String; 0]);
}

#[test]
fn changes_are_shown_and_a_dead_agent_is_shown_as_such() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, "0");
    let mut browser = agent.shown_to(READ);
    let has = |key: &str| format!("{ROWS}.some(row => row[0] === '{key}' && row[1] === 'held')");
    // Not by reading everything again: that is switched off.
    browser.wait_for("the session", &format!("{ROWS}.length > 0"));
    browser.eval("(pace => { pace.value = '0'; pace.dispatchEvent(new Event('change')) })(document.getElementById('pace'))");
    agent.acquire("by an event");
    browser.wait_for("an event", &has("by an event"));
    browser.eval("(pace => { pace.value = 'auto'; pace.dispatchEvent(new Event('change')) })(document.getElementById('pace'))");
    let run = held(&bench, &[&["run", "by another"]]);
    browser.wait_for("another's lease", &has("by another"));
    run[0].signal(Signal::SIGTERM);
    browser.wait_for("its end", &format!("!{}", has("by another")));
    let changes =
        "[...document.querySelectorAll('[role=tab]')].find(tab => tab.textContent === 'Changes').click()";
    browser.eval(changes);
    browser.wait_for("both", &format!("{ROWS}.filter(row => row[0] === 'by another').length >= 2"));
    let is = |is: &str| format!("document.getElementById('status').dataset.is === '{is}'");
    let is_old = "document.getElementById('list').hasAttribute('data-old')";
    // It stands still, and goes on.
    agent.process.signal(Signal::SIGSTOP);
    browser.wait_for("it to be dead", &is("dead"));
    assert_eq!(browser.eval(is_old), true);
    agent.process.signal(Signal::SIGCONT);
    browser.wait_for("it to live", &is("live"));
    assert_eq!(browser.eval(is_old), false);
    let port = agent.port.clone();
    agent.process.signal(Signal::SIGKILL);
    browser.wait_for("it to be dead", &is("dead"));
    browser.picture("dead");
    let text = browser.eval("document.getElementById('status').textContent");
    assert!(text.as_str().unwrap().contains("does not answer; what is shown is of"), "{text}");
    drop(agent);
    let agent = Agent::start(&bench, &port);
    browser.wait_for("the next one", &is("live"));
    agent.acquire("of the next");
    browser.wait_for("its event", &format!("{ROWS}.some(row => row[0] === 'of the next')"));
    assert_eq!(browser.complaints(), [] as [String; 0]);
}

#[test]
fn what_events_have_missed_is_read_once_though_nothing_is_read_again() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, "0");
    let mut browser = agent.shown_to(READ);
    let has = |key: &str| format!("{ROWS}.some(row => row[0] === '{key}' && row[1] === 'held')");
    browser.wait_for("all", "document.getElementById('count').textContent.includes('as of')");
    browser.eval("(pace => { pace.value = '0'; pace.dispatchEvent(new Event('change')) })(document.getElementById('pace'))");
    let look_away = |browser: &mut Browser, away: bool| {
        browser.eval(&format!("Object.defineProperty(document, 'hidden', {{ value: {away}, configurable: true }}); document.dispatchEvent(new Event('visibilitychange'))"));
    };
    let heard = format!("{ROWS}.length");
    // What was being read when the pace was chosen.
    browser.wait_for("the last reading", "new Promise(done => setTimeout(() => done(true), 1000))");
    let before = browser.eval(&heard);
    look_away(&mut browser, true);
    agent.acquire("meanwhile");
    assert_eq!(browser.eval(&heard), before, "nobody looks");
    // From here on the events are the test's.
    browser.eval(
        "(fetched => window.fetch = (path, options) => {
            if (!path.startsWith('/v1/events')) return fetched(path, options);
            const body = new ReadableStream({ start: (stream) => window.say = (text) => stream.enqueue(new TextEncoder().encode(text)) });
            return Promise.resolve(new Response(body));
        })(window.fetch) && null",
    );
    look_away(&mut browser, false);
    browser.wait_for("what came meanwhile", &has("meanwhile"));
    agent.acquire("missed");
    browser.eval("window.say('event: missed\\ndata: {\"event\":\"missed\",\"count\":3}\\n\\n')");
    browser.wait_for("what was missed", &has("missed"));
    // What nobody tells is not read.
    agent.acquire("untold");
    browser.wait_for("a turn", "new Promise(done => setTimeout(() => done(true), 1500))");
    assert_eq!(browser.eval(&has("untold")), false);
    assert_eq!(browser.complaints(), [] as [String; 0]);
}

#[test]
fn of_what_was_held_when_it_was_last_read_only_that_is_said_once_its_time_is_over() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, "0");
    let mut browser = agent.shown_to(READ);
    browser.wait_for("all", "document.getElementById('count').textContent.includes('as of')");
    browser.eval("(pace => { pace.value = '0'; pace.dispatchEvent(new Event('change')) })(document.getElementById('pace'))");
    let _held = held(&bench, &[&["run", "--ttl", "1s", "k"]]);
    let time = |says: &str| {
        format!("{ROWS}.some(row => row[0] === 'k' && row[1] === 'held' && {says}.test(row[4]))")
    };
    browser.wait_for("its time", &time(r"/^0\.\d s$/"));
    browser.wait_for("when it was read", &time(r"/^as of \d\d:\d\d:\d\d$/"));
    assert_eq!(bench.show("k")["state"], "held");
    assert_eq!(browser.complaints(), [] as [String; 0]);
}

#[test]
fn what_has_become_of_leases_is_known_after_a_reload() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, "0");
    let mut browser = agent.shown_to(READ);
    let has = |key: &str| format!("{ROWS}.some(row => row[0] === '{key}' && row[1] === 'held')");
    let run = held(&bench, &[&["run", "of another"]]);
    browser.wait_for("another's lease", &has("of another"));
    run[0].signal(Signal::SIGTERM);
    browser.wait_for("its end", &format!("!{}", has("of another")));
    agent.acquire("of a client");
    browser.wait_for("the client's", &has("of a client"));
    browser.reload();
    browser.wait_for("the list", LIVE);
    tab(&mut browser, "Changes");
    let told = |key: &str, what: &str| {
        format!("{ROWS}.some(row => row[0] === '{key}' && row[1].startsWith('{what}'))")
    };
    browser.wait_for(
        "another's",
        &format!("{} && {}", told("of another", "has it"), told("of another", "nobody has it")),
    );
    browser.wait_for("the client's", &told("of a client", "has it"));
    let holder = bench.show("of another")["fence"].to_string();
    let fences = format!("{ROWS}.filter(row => row[0] === 'of another').every(row => row[2] === '{holder}')");
    assert_eq!(browser.eval(&fences), true);
    browser.picture("changes");
    // A record tells its own.
    browser.eval("[...document.querySelectorAll('.row')].find(row => !row.hidden && row.children[0].textContent === 'of another').click()");
    browser.wait_for(
        "both in its details",
        "document.querySelectorAll('dialog[open] ol:last-child li').length === 2",
    );
    // One that begins is told once, by whoever has seen it.
    browser.press("Escape");
    agent.acquire("late");
    browser.wait_for("the late one", &told("late", "has it"));
    browser.reload();
    browser.wait_for("the list", LIVE);
    tab(&mut browser, "Changes");
    browser.wait_for("the late one again", &told("late", "has it"));
    assert_eq!(browser.eval(&format!("{ROWS}.filter(row => row[0] === 'late').length")), 1);
    assert_eq!(browser.complaints(), [] as [String; 0]);
}

#[test]
fn a_store_that_fails_is_shown_as_such() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, "0");
    agent.acquire("k");
    let mut browser = agent.shown_to(READ);
    browser.wait_for("the lease", &format!("{ROWS}.some(row => row[0] === 'k')"));
    let is = |is: &str| format!("document.getElementById('status').dataset.is === '{is}'");
    bench.move_store("leases.db", "aside");
    browser.wait_for("the trouble", &is("store"));
    let text = browser.eval("document.getElementById('status').textContent");
    let text = text.as_str().unwrap();
    assert!(text.contains("was removed") && text.contains("what is shown is of"), "{text}");
    assert_eq!(browser.eval("document.getElementById('list').hasAttribute('data-old')"), true);
    browser.wait_for("what was there", &format!("{ROWS}.some(row => row[0] === 'k')"));
    browser.picture("store");
    bench.move_store("aside", "leases.db");
    browser.wait_for("its return", &is("live"));
}

#[test]
fn the_keyboard_is_enough_and_so_is_a_narrow_window() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, "0");
    for key in ["a", "b", &"long/".repeat(90)] {
        agent.acquire(key);
    }
    let mut browser = agent.shown_to(FULL);
    browser.wait_for("rows", &format!("{ROWS}.length === 4"));
    let stops = tab_to(&mut browser, "list");
    assert!(stops.contains(&json!("search")) && stops.contains(&json!("Semaphores")), "{stops:?}");
    browser.press("ArrowDown");
    browser.press("Enter");
    browser.wait_for("the second", "document.querySelector('dialog[open] h2')?.textContent === 'b'");
    browser.press("Escape");
    browser.wait_for(
        "the list",
        "!document.querySelector('dialog').open && document.activeElement.id === 'list'",
    );
    let selected = "document.getElementById(document.getElementById('list').getAttribute('aria-activedescendant')).children[0].textContent";
    assert_eq!(browser.eval(selected), "b");
    browser.press("/");
    assert_eq!(browser.eval("document.activeElement.id"), "search");
    let mut backs = Vec::new();
    for is_dark in [false, true] {
        let name = if is_dark { "narrow-dark" } else { "narrow" };
        browser.look(400, 800, is_dark);
        browser.wait_for("all of it", "document.documentElement.scrollWidth <= 400 && innerWidth === 400");
        browser.picture(name);
        browser.eval(
            "[...document.querySelectorAll('.row')].find(row => row.textContent.includes('long/')).click()",
        );
        browser.wait_for("details", "document.querySelector('dialog').open");
        assert_eq!(browser.eval("document.documentElement.scrollWidth <= 400"), true);
        assert_eq!(
            browser.eval(
                "(dialog => dialog.scrollWidth <= dialog.clientWidth)(document.querySelector('dialog'))"
            ),
            true
        );
        browser.picture(&format!("{name}-details"));
        browser.press("Escape");
        browser.wait_for("the list", "!document.querySelector('dialog').open");
        backs.push(browser.eval("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(backs[0], backs[1]);
    assert_eq!(browser.complaints(), [] as [String; 0]);
}
