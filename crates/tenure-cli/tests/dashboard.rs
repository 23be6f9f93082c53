//! The agent's dashboard in a real browser. Pictures of it are kept in `target/dashboard`.
//!
//! Plan: what is shown is what `ls --json` says, of every kind of record; a key that is markup is text; nothing is shown without a token, and a token
//! is nowhere but in its tab; a fleet's map; changes are shown by themselves, the agent's own at once; an agent that is dead, or stands still, is shown as such, and so is
//! its return; what an operator does asks first, takes effect, is logged, and needs the token for it; 10,000 leases; the keyboard alone; a narrow window, light and dark.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]
#![allow(clippy::disallowed_methods, reason = "real processes are measured by real time")]

mod common;

use common::browser::Browser;
use common::{Bench, Process, takes_at_most, wait_for, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;
use tenure::sqlite::{SqliteConfig, SqliteStore};
use tenure::{Clock, Expect, Fence, HolderId, Key, Metadata, Nonce, Record, Store, Tenure, Ttl};

const FULL: &str = "full-token-0123456789";
const READ: &str = "read-token-0123456789";
const HOSTILE: &str = "<img src=x onerror=\"document.title='had'\">\u{202e}txt";

/// An agent on the loopback network.
struct Agent {
    process: Process,
    port: String,
}

impl Agent {
    fn start(bench: &Bench, port: &str) -> Agent {
        bench.write("full", FULL);
        bench.write("read", READ);
        let listen = format!("127.0.0.1:{port}");
        let tokens = ["--token-file", "full", "--read-token-file", "read"];
        // Nobody beats here.
        let arguments = [&["serve", "--ttl", "60s", "--listen", &listen][..], &tokens].concat();
        let said = std::fs::File::create(bench.path("agent.log")).unwrap();
        let child = bench.tenure(&arguments).stderr(said).spawn().unwrap();
        let port = wait_for("the agent", || {
            let said = bench.read("agent.log");
            Some(said.lines().next()?.rsplit_once("http://127.0.0.1:")?.1.to_owned())
        });
        Agent { process: child.into(), port }
    }

    fn address(&self) -> String {
        format!("http://127.0.0.1:{}/dashboard", self.port)
    }

    /// What is answered, all of it as text.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", self.port)).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn acquire(&self, key: &str) {
        let headers = format!("authorization: Bearer {FULL}\r\n");
        let answer = self.ask("POST", "/v1/leases", &headers, &json!({ "key": key }).to_string());
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }

    /// A browser that shows the page to whoever has this token.
    fn shown_to(&self, token: &str) -> Browser {
        let mut browser = Browser::start();
        browser.look(1200, 1500, false);
        browser.open(&self.address());
        browser.wait_for("the form", "!document.getElementById('enter').hidden");
        browser.eval("document.getElementById('token').focus()");
        browser.write(token);
        browser.press("Enter");
        browser.wait_for("the list", LIVE);
        browser
    }
}

const LIVE: &str =
    "document.getElementById('status').dataset.is === 'live' && !document.getElementById('main').hidden";

/// The texts of all rows that are in the page.
const ROWS: &str = "[...document.querySelectorAll('.row')].filter(row => !row.hidden)
    .sort((a, b) => a.dataset.at - b.dataset.at).map(row => [...row.children].map(cell => cell.textContent))";

/// Starts commands that stay, each in the background.
fn held(bench: &Bench, all: &[&[&str]]) -> Vec<Process> {
    let started: Vec<Process> =
        all.iter().map(|words| bench.start(&[*words, &["--", "sleep", "1000"]].concat())).collect();
    wait_until("all to be held", || {
        let leases = bench.run(&["ls", "--json"]).json()["leases"].as_array().unwrap().clone();
        leases.iter().filter(|lease| !lease["key"].as_str().unwrap().starts_with("session/")).count()
            >= all.len()
    });
    started
}

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

fn tab(browser: &mut Browser, view: &str) {
    browser.eval(&format!(
        "[...document.querySelectorAll('[role=tab]')].find(tab => tab.textContent === '{view}').click()"
    ));
}

#[test]
fn a_fleet_is_a_map_of_workers_and_units_and_a_worker_is_drained() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, "0");
    let units = ["--units", "a", "b", "c", "d"];
    let (one, two) = (bench.worker(&units, "sleep 1000"), bench.worker(&units, "sleep 1000"));
    bench.await_shares(&[(&one, 2), (&two, 2)]);
    let mut names = [bench.name_of(&one), bench.name_of(&two)];
    let drained = names[0].clone();
    names.sort();
    let mut browser = agent.shown_to(FULL);
    tab(&mut browser, "Fleets");
    let is = |label: String| {
        format!("document.querySelector('#map canvas')?.getAttribute('aria-label') === '{label}'")
    };
    browser.wait_for("the map", &is(format!("{}: 2; {}: 2", names[0], names[1])));
    browser.picture("fleet");
    // The first square is the first worker's first unit.
    let place = browser.eval("(box => [box.left + 6, box.top + 24])(document.querySelector('#map canvas').getBoundingClientRect())");
    for kind in ["mousePressed", "mouseReleased"] {
        let event = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
        browser.call("Input.dispatchMouseEvent", event);
    }
    browser.wait_for(
        "the unit",
        "document.querySelector('dialog[open] h2')?.textContent.startsWith('fleet/f/unit/')",
    );
    let details = browser.eval("document.querySelector('dialog').textContent");
    assert!(details.as_str().unwrap().contains(&names[0]), "{details}");
    browser.press("Escape");
    browser.wait_for("the end of it", "!document.querySelector('dialog').open");
    // What it costs to keep all of this.
    let leases = bench.run(&["ls", "--json"]).json()["leases"].as_array().unwrap().clone();
    let renewed = leases.iter().filter(|lease| lease["session"].is_null());
    let writes: f64 = renewed.filter_map(|lease| Some(3.0 * 86_400_000.0 / lease["ttl_ms"].as_f64()?)).sum();
    browser.eval("document.getElementById('price').focus()");
    browser.write("1000");
    let cost = format!("${:.2} a day", writes / 1000.0);
    browser.wait_for("the cost", &format!("document.getElementById('cost').textContent.endsWith('{cost}')"));
    // A unit goes where it is told to.
    let unit = bench.units().into_iter().find(|unit| unit["owner"] == drained.as_str()).unwrap();
    let key = format!("fleet/f/unit/{}", unit["unit"].as_str().unwrap());
    tab(&mut browser, "Units");
    browser.wait_for("the unit", &format!("{ROWS}.some(row => row[0] === '{key}')"));
    let other = bench.name_of(&two);
    let choose = format!("document.querySelector('dialog .ask select').value = '{other}'");
    act_on(&mut browser, &key, "Move", Some(&choose), "Yes");
    wait_until("it to move", || bench.unit(unit["unit"].as_str().unwrap())["owner"] == other.as_str());
    tab(&mut browser, "Sessions");
    let session = format!("fleet/f/worker/{drained}");
    browser.wait_for("the session", &format!("{ROWS}.some(row => row[0] === '{session}')"));
    act(&mut browser, &session, "Drain", "Yes");
    bench.await_shares(&[(&two, 4)]);
    tab(&mut browser, "Fleets");
    browser.wait_for("the map", &is(format!("{}: 4", bench.name_of(&two))));
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

/// Opens a record, presses the button of that name and answers the question.
fn act(browser: &mut Browser, key: &str, action: &str, answer: &str) {
    act_on(browser, key, action, None, answer);
}

/// With a choice, as what makes it in the page.
fn act_on(browser: &mut Browser, key: &str, action: &str, choice: Option<&str>, answer: &str) {
    let button = |text: &str| {
        format!(
            "[...document.querySelectorAll('dialog button')].find(button => button.checkVisibility() && button.textContent.startsWith('{text}')).click()"
        )
    };
    browser.eval(&format!("[...document.querySelectorAll('.row')].find(row => !row.hidden && row.children[0].textContent === '{key}').click()"));
    browser.eval(&button(action));
    if let Some(choice) = choice {
        browser.eval(choice);
    }
    browser.picture(action);
    browser.eval(&button(answer));
    if answer == "No" {
        browser.eval(&button("Close"));
        return;
    }
    browser
        .wait_for("an answer", "document.querySelector('dialog .said[role=status]').textContent.length > 3");
    let said = browser.eval("document.querySelector('dialog .said[role=status]').textContent");
    assert!(!said.as_str().unwrap().starts_with("Not done"), "{said}");
    browser.eval(&button("Close"));
}

#[test]
fn an_action_asks_first_takes_effect_and_is_logged() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, "0");
    let mut run = held(&bench, &[&["run", "--ttl", "3s", "obedient"], &["run", "--ttl", "3s", "hung"]]);
    let mut browser = agent.shown_to(FULL);
    let has = |key: &str| format!("{ROWS}.some(row => row[0] === '{key}' && row[1] === 'held')");
    browser.wait_for("both", &format!("{} && {}", has("obedient"), has("hung")));
    act(&mut browser, "obedient", "Revoke", "No");
    assert!(!bench.read("agent.log").contains("revoke"));
    act(&mut browser, "obedient", "Revoke", "Yes");
    browser.wait_for("its end", &format!("!{}", has("obedient")));
    assert_eq!(run[0].wait(), 76);
    // One that can't obey is waited out.
    bench.stop(&[run[1].id()]);
    act(&mut browser, "hung", "Release", "Yes");
    wait_until("the other to be free", || bench.state("hung") == "vacant");
    browser.wait_for("that to be shown", &format!("!{ROWS}.some(row => row[0] === 'hung')"));
    let log = bench.read("agent.log");
    for says in ["action=\"revoke\" key=\"obedient\"", "action=\"release\" key=\"hung\"", "vacated=true"] {
        wait_until(says, || bench.read("agent.log").contains(says));
    }
    assert!(!log.contains(FULL), "{log}");
    assert_eq!(browser.complaints(), [] as [String; 0]);
    // Who may look finds no button.
    let _other = held(&bench, &[&["run", "other"]]);
    let mut browser = agent.shown_to(READ);
    browser.wait_for("the lease", &has("other"));
    browser.eval(
        "[...document.querySelectorAll('.row')].find(row => row.children[0].textContent === 'other').click()",
    );
    let buttons = "[...document.querySelectorAll('dialog button')].filter(button => button.checkVisibility()).map(button => button.textContent)";
    assert_eq!(browser.eval(buttons), json!(["Close"]));
}

#[test]
fn an_action_is_for_the_tenure_that_was_seen() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, "0");
    let _held =
        held(&bench, &[&["run", "k"], &["run", "--permits", "2", "pool"], &["range", "mail", "0..ff"]]);
    let fence = bench.show("k")["fence"].as_u64().unwrap();
    let ask = |token: &str, key: &str, action: &str, body: Value| {
        let headers = format!("authorization: Bearer {token}\r\n");
        agent.ask("POST", &format!("/v1/records/{key}/{action}"), &headers, &body.to_string())
    };
    for action in ["revoke", "drain", "release"] {
        let of = |key: &str, fence: u64| ask(FULL, key, action, json!({ "fence": fence }));
        let other = of("k", fence - 1);
        assert!(other.starts_with("HTTP/1.1 409") && other.contains(&fence.to_string()), "{other}");
        assert!(of("none", 1).starts_with("HTTP/1.1 404"));
        let pool = of("semaphore%2Fpool", 1);
        assert!(pool.starts_with("HTTP/1.1 400") && pool.contains("session of a holder"), "{pool}");
        let section = of("section%2Fmail", 1);
        assert!(section.starts_with("HTTP/1.1 400") && section.contains("reclaim"), "{section}");
        assert!(ask(READ, "k", action, json!({ "fence": fence })).starts_with("HTTP/1.1 403"));
    }
    assert_eq!(bench.show("k")["mail"], 0, "nobody was told anything");
    assert_eq!(bench.read("agent.log").lines().count(), 1, "nothing was done");
}

/// Leases of others, straight in the store.
fn plant(bench: &Bench, count: usize) {
    let store = SqliteStore::open(SqliteConfig::new(bench.store())).unwrap();
    let now = tenure::clock::system().now().wall;
    let write = |n: usize| {
        let nonce = Nonce(n as u128 + 1);
        let holder = HolderId::new(format!("holder-{}", n % 100)).unwrap();
        let ttl = Ttl::new(std::time::Duration::from_secs(3600)).unwrap();
        let tenure = Some(Tenure::new(nonce, holder, ttl, now));
        let record = Record { fence: Fence(1), nonce, stamp: now, tenure, metadata: Metadata::new() };
        tenure::Write { key: Key::new(format!("lease/{n:05}")).unwrap(), expect: Expect::Vacant, record }
    };
    let writes: Vec<tenure::Write> = (0..count).map(write).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let batch = store.capabilities().batch;
    for writes in writes.chunks(batch) {
        runtime.block_on(store.write_many(writes.to_vec())).unwrap();
    }
}

#[test]
fn ten_thousand_leases_are_shown_within_a_second_and_searched() {
    let bench = Bench::new();
    plant(&bench, 10_000);
    let agent = Agent::start(&bench, "0");
    let mut browser = agent.shown_to(READ);
    let first = "performance.getEntriesByName('rows')[0]?.startTime ?? -1";
    // From the click to the first leases.
    takes_at_most(1000, || {
        browser.reload();
        browser.wait_for("rows", &format!("({first}) > 0"));
        let took = browser.eval(first).as_f64().unwrap();
        println!("first rows after {took} ms");
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
        println!("shown after {:?}", began.elapsed());
        i64::try_from(began.elapsed().as_millis()).unwrap()
    });
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
