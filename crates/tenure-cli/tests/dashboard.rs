//! The agent's dashboard in a real browser. Pictures of it are kept in `target/dashboard`.
//!
//! Plan: what is shown is what `ls --json` says, of every kind of record; a key that is markup is text; nothing is shown without a
//! token, and a token is nowhere but in its tab; changes are shown by themselves, the agent's own at once; an agent that is dead, or
//! stands still, and a store that fails, are shown as such, and so is their return; the keyboard alone; a narrow window, light and
//! dark.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::browser::Browser;
use crate::common::dashboard::{Agent, FULL, LIVE, READ, ROWS, held, tab};
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
            &["run", "--permits", "3", "pool"],
            &["elect", "primary"],
            &["range", "mail", "0..ffff"],
        ],
    );
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
fn a_store_that_fails_is_shown_as_such() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, "0");
    agent.acquire("k");
    let mut browser = agent.shown_to(READ);
    browser.wait_for("the lease", &format!("{ROWS}.some(row => row[0] === 'k')"));
    let is = |is: &str| format!("document.getElementById('status').dataset.is === '{is}'");
    let rename = |from: &str, to: &str| {
        for side in ["", "-wal", "-shm", "-lock"] {
            std::fs::rename(bench.path(&format!("{from}{side}")), bench.path(&format!("{to}{side}")))
                .unwrap();
        }
    };
    rename("leases.db", "aside");
    browser.wait_for("the trouble", &is("store"));
    let text = browser.eval("document.getElementById('status').textContent");
    let text = text.as_str().unwrap();
    assert!(text.contains("was removed") && text.contains("what is shown is of"), "{text}");
    assert_eq!(browser.eval("document.getElementById('list').hasAttribute('data-old')"), true);
    browser.wait_for("what was there", &format!("{ROWS}.some(row => row[0] === 'k')"));
    browser.picture("store");
    rename("aside", "leases.db");
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
    let mut stops = Vec::new();
    while browser.eval("document.activeElement.id") != "list" {
        browser.press("Tab");
        stops.push(browser.eval("document.activeElement.id || document.activeElement.textContent"));
        assert!(stops.len() < 30, "{stops:?}");
    }
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
