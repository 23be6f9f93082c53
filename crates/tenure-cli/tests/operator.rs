//! What an operator does by the agent's dashboard, in a real browser. Pictures of it are kept in `target/dashboard`.
//!
//! Plan: an action asks first, takes effect, also by the keyboard alone, is logged, needs the token for it, and touches no later tenure than the one that was
//! shown; where no answer comes, it is said that it may have been done, and a release that is left undone is told; a fleet's map shows what `fleet units` says, and from it units are moved and workers drained.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::dashboard::{Agent, FULL, READ, ROWS, act, act_on, held, tab, tab_to};
use crate::common::{Bench, wait_until};
use serde_json::{Value, json};

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
    for says in [
        "action=\"revoke\" by=\"127.0.0.1:",
        "\" key=\"obedient\"",
        "action=\"release\" by=\"127.0.0.1:",
        "\" key=\"hung\"",
        "vacated=true",
    ] {
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
fn the_keyboard_is_enough_to_act() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, "0");
    let mut run = held(&bench, &[&["run", "--ttl", "3s", "a"], &["run", "--ttl", "3s", "b"]]);
    let mut browser = agent.shown_to(FULL);
    browser.wait_for("both", &format!("['a', 'b'].every(key => {ROWS}.some(row => row[0] === key))"));
    tab_to(&mut browser, "list");
    browser.press("Home");
    browser.press("ArrowDown");
    browser.press("Enter");
    browser.wait_for("the second", "document.querySelector('dialog[open] h2')?.textContent === 'b'");
    // Whoever presses Enter without a look at the question has done nothing.
    let asked = "!document.querySelector('dialog .ask').hidden";
    tab_to(&mut browser, "Revoke…");
    browser.press("Enter");
    browser.wait_for("the question", asked);
    assert_eq!(browser.eval("document.activeElement.textContent"), "No");
    browser.press("Enter");
    browser.wait_for("its end", &format!("!({asked})"));
    assert!(!bench.read("agent.log").contains("revoke"));
    tab_to(&mut browser, "Revoke…");
    browser.press("Enter");
    browser.wait_for("the question", asked);
    tab_to(&mut browser, "Yes, do it");
    browser.press("Enter");
    assert_eq!(run[1].wait(), 76);
    browser.press("Escape");
    browser.wait_for(
        "it to be gone",
        &format!("!{ROWS}.some(row => row[0] === 'b') && {ROWS}.some(row => row[0] === 'a')"),
    );
    assert!(run[0].is_running());
    assert_eq!(browser.complaints(), [] as [String; 0]);
}

#[test]
fn an_action_that_is_not_answered_may_have_been_done() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, "0");
    let mut run = held(&bench, &[&["run", "--ttl", "3s", "k"]]);
    let mut browser = agent.shown_to(FULL);
    browser.wait_for("it", &format!("{ROWS}.some(row => row[0] === 'k' && row[1] === 'held')"));
    // The agent hears of it, and its answer is lost.
    browser.eval(
        "(fetched => window.fetch = async (path, options) => {
            const answer = await fetched(path, options);
            if (options?.method === 'POST') throw new TypeError('cut off');
            return answer;
        })(window.fetch) && null",
    );
    act(&mut browser, "k", "Revoke", "Yes");
    let said = browser.eval("document.querySelector('dialog .said[role=status]').textContent");
    assert_eq!(said, "No answer: it may have been done; look at the record.");
    assert_eq!(run[0].wait(), 76);
    assert_eq!(browser.complaints(), [] as [String; 0]);
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
fn who_has_asked_by_the_socket_is_logged() {
    let bench = Bench::new();
    let socket = bench.path("agent.sock");
    let listen = format!("unix:{}", socket.display());
    let said = std::fs::File::create(bench.path("agent.log")).unwrap();
    let mut command = bench.tenure(&["serve", "--log-format", "json", "--listen", &listen]);
    let process = crate::common::Process::from(command.stderr(said).spawn().unwrap());
    wait_until("the agent", || bench.read("agent.log").contains("serving"));
    let agent = crate::common::agent::Agent { process, socket };
    let mut client = agent.client();
    let fence = client.acquire("k").number("fence");
    assert_eq!(client.post("/v1/records/k/revoke", &json!({ "fence": fence })).status, 202);
    let line = crate::common::wait_for("the line", || {
        bench.read("agent.log").lines().find_map(|line| {
            serde_json::from_str::<Value>(line).ok().filter(|line| line["action"] == "revoke")
        })
    });
    let by = format!("uid {} pid {}", nix::unistd::geteuid(), std::process::id());
    assert_eq!(
        (&line["by"], &line["key"], &line["fence"]),
        (&json!(by), &json!("k"), &json!(fence)),
        "{line}"
    );
    assert!(line["target"] == "tenure::agent::operator" && line["timestamp"].is_string(), "{line}");
}

#[test]
fn a_forced_release_that_an_agent_leaves_undone_is_told() {
    let bench = Bench::new();
    let mut agent = Agent::start(&bench, "0");
    let mut run = held(&bench, &[&["run", "--ttl", "60s", "hung"]]);
    // It can't obey.
    bench.stop(&[run[0].id()]);
    let fence = bench.show("hung")["fence"].clone();
    let headers = format!("authorization: Bearer {FULL}\r\n");
    let body = json!({ "fence": fence }).to_string();
    let begun = agent.ask("POST", "/v1/records/hung/release", &headers, &body);
    assert!(begun.starts_with("HTTP/1.1 202"), "{begun}");
    agent.process.signal(nix::sys::signal::Signal::SIGTERM);
    agent.process.wait();
    // It did not outlast the minute. Whoever asked reads that it was not done.
    assert_eq!(bench.state("hung"), "held");
    let log = bench.read("agent.log");
    let told = log.lines().find(|line| line.contains("given up")).unwrap_or_default();
    assert!(told.contains("key=\"hung\"") && told.contains(&format!("fence={fence}")), "{log}");
    run[0].signal(nix::sys::signal::Signal::SIGKILL);
    run[0].wait();
}
