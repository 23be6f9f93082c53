//! What the command line tells of itself, and what ops/ makes of it.
//!
//! Plan: each verb that holds something serves its metrics, of its renewals, too; `elect` tells of its terms; the agent at its socket, too; silent connections keep no scrape out, and are none of the agent's; logs as text and as JSON, with their filter, on standard error
//! alone, which may go unread; bad input by name; the dashboard and the alarms in ops/ name metrics that are documented; each alarm is set off by its trouble, as Prometheus reads it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::agent::Agent;
use crate::common::{Bench, Process, Ran, full_pipe, wait_for, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts it with metrics at a port of its own.
fn with_metrics(bench: &Bench, arguments: &[&str]) -> (Process, String) {
    let mut command = bench.tenure(&[&["--metrics", "127.0.0.1:0"], arguments].concat());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    let address = loop {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "{arguments:?} ended");
        if let Some(url) = line.trim().strip_prefix("tenure: metrics at http://") {
            break url.strip_suffix("/metrics").unwrap().to_owned();
        }
    };
    std::thread::spawn(move || said.lines().map_while(Result::ok).count());
    (child.into(), address)
}

fn scrape(address: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

/// A command of a tenure that serves metrics has the same environment, and so has whoever looks meanwhile.
#[test]
fn an_address_in_the_environment_is_had_by_one_and_hinders_nobody() {
    let bench = Bench::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let run = |arguments: &[&str]| {
        let mut command = bench.tenure(arguments);
        Ran::of(command.env("TENURE_METRICS", &address).output().unwrap())
    };
    let ran = run(&["run", "k", "--", "sh", "-c", "echo \"[$TENURE_METRICS]\""]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "[]\n"), "{ran:?}");
    assert!(ran.err.contains("TENURE_METRICS: ") && ran.err.contains("serves no metrics"), "{ran:?}");
    let looked = run(&["ls"]);
    assert!(looked.code == 0 && !looked.err.contains("METRICS"), "{looked:?}");
    assert_eq!(run(&["--metrics", &address, "run", "k", "--", "true"]).code, 64, "it was typed");
}

#[test]
fn each_verb_that_holds_something_serves_its_metrics() {
    let bench = Bench::new();
    for (arguments, tells) in [
        (&["hold", "h"] as &[&str], "tenure_leases_acquired_total{kind=\"lock\"} 1"),
        (&["run", "r", "--", "sleep", "600"], "tenure_leases_acquired_total{kind=\"lock\"} 1"),
        (&["elect", "e", "--", "sleep", "600"], "tenure_leases_acquired_total{kind=\"lock\"} 1"),
        (&["cron", "* * * * * *", "c", "--", "true"], "tenure_leases_released_total"),
        (&["range", "s", "0..f", "--", "sleep", "600"], "tenure_range_leases_held 1"),
        (
            &["work", "--forever", "--name", "f", "--units", "a", "b", "--", "sleep", "600"],
            "tenure_fleet_held{",
        ),
        (&["work", "--name", "j", "a", "b", "--", "sleep", "600"], "tenure_store_call_seconds_count"),
    ] {
        let (mut process, address) = with_metrics(&bench, arguments);
        // The first scrapes may come before the first call to the store has ended.
        for tells in [tells, "tenure_store_call_seconds_bucket{", "# HELP tenure_"] {
            wait_for(tells, || scrape(&address).contains(tells).then_some(()));
        }
        process.signal(Signal::SIGTERM);
        process.wait();
    }
}

/// What a verb has at stake ends with its renewals, whatever it is: none is without figures of them.
#[test]
fn each_verb_that_renews_something_tells_how_that_fares() {
    let bench = Bench::new();
    let verbs = [
        ("lease", &["hold", "--ttl", "4s", "h"] as &[&str]),
        ("lease", &["run", "--ttl", "4s", "r", "--", "sleep", "600"]),
        ("session", &["run", "--permits", "2", "--ttl", "4s", "p", "--", "sleep", "600"]),
        ("lease", &["elect", "--ttl", "4s", "e", "--", "sleep", "600"]),
        ("lease", &["cron", "--ttl", "4s", "* * * * * *", "c", "--", "sleep", "600"]),
        (
            "worker",
            &["work", "--forever", "--name", "f", "--ttl", "4s", "--units", "a", "--", "sleep", "600"],
        ),
        ("session", &["work", "--name", "j", "--ttl", "4s", "a", "--", "sleep", "600"]),
    ];
    // All at a time: each waits for its renewals.
    let started = verbs.map(|(of, arguments)| (of, arguments, with_metrics(&bench, arguments)));
    for (of, arguments, (mut process, address)) in started {
        let figure = |page: &str, name: &str| -> Option<f64> {
            let line = format!("{name}{{of=\"{of}\"}} ");
            page.lines().find_map(|shown| shown.strip_prefix(&line))?.parse().ok()
        };
        let page = wait_for("two renewals", || {
            let page = scrape(&address);
            let renewals = figure(&page, "tenure_renewal_remaining_seconds_count")?;
            (renewals >= 2.0).then_some(page)
        });
        // Right after a renewal 3.28 s are left of a ttl of 4 s. With 2 s, a busy machine lost the lease.
        let least = figure(&page, "tenure_renewal_remaining_least_seconds").unwrap();
        assert!(least > 0.0 && least < 3.28, "{arguments:?}: {least}");
        assert!(figure(&page, "tenure_renewal_seconds_sum").unwrap() > 0.0, "{arguments:?}: {page}");
        process.signal(Signal::SIGTERM);
        process.wait();
    }
}

#[test]
fn elect_tells_of_its_terms() {
    let bench = Bench::new();
    let elect = &["elect", "--ttl", "1s", "e", "--", "sleep", "600"];
    let (mut leader, leads) = with_metrics(&bench, elect);
    let shows = |address: &str, line: &str| {
        wait_for(line, || scrape(address).lines().any(|shown| shown == line).then_some(()));
    };
    shows(&leads, "tenure_leaderships_begun_total 1");
    let (mut standby, stands_by) = with_metrics(&bench, elect);
    for line in [
        "tenure_leases_waiting{kind=\"lock\"} 1",
        "tenure_leaderships_begun_total 0",
        "tenure_leaderships_ended_total{cause=\"lost\"} 0",
    ] {
        shows(&stands_by, line);
    }
    assert!(bench.run(&["release", "--yes", "e"]).code == 0);
    shows(&leads, "tenure_leaderships_ended_total{cause=\"asked\"} 1");
    shows(&stands_by, "tenure_leaderships_begun_total 1");
    shows(&stands_by, "tenure_lease_wait_seconds_count{kind=\"lock\"} 1");
    // What goes on is told once the other ends.
    for process in [&mut standby, &mut leader] {
        process.signal(Signal::SIGTERM);
        process.wait();
    }
}

/// A release by force is what an operator wants, and no alarm.
#[test]
fn a_term_that_is_ended_by_force_is_not_lost() {
    let bench = Bench::new();
    let (mut leader, leads) = with_metrics(&bench, &["elect", "--ttl", "1s", "e", "--", "sleep", "600"]);
    wait_until("the leader", || scrape(&leads).contains("\ntenure_leaderships_begun_total 1\n"));
    assert_eq!(bench.run(&["release", "--now", "--yes", "e"]).code, 0);
    let ended =
        |cause: &str, count: u8| format!("\ntenure_leaderships_ended_total{{cause=\"{cause}\"}} {count}\n");
    let page = wait_for("its end", || Some(scrape(&leads)).filter(|page| page.contains(&ended("asked", 1))));
    assert!(page.contains(&ended("lost", 0)), "{page}");
    leader.signal(Signal::SIGTERM);
    leader.wait();
}

/// The store is away for as long as this looks: nothing waits for the release to land.
#[test]
fn what_stops_a_command_is_counted_and_logged_while_the_store_is_away() {
    let bench = Bench::new();
    let arguments = ["--log", "warn", "--metrics", "127.0.0.1:0", "elect", "--ttl", "3s", "e"];
    let script = ["--", "sh", "-c", "touch began; exec sleep 600"];
    let mut leader = bench.tenure(&[&arguments[..], &script].concat());
    let log = std::fs::File::create(bench.path("log")).unwrap();
    let mut leader: Process = leader.stdin(Stdio::null()).stderr(log).spawn().unwrap().into();
    wait_until("the command", || bench.path("began").exists());
    let said = bench.read("log");
    let address =
        said.split("metrics at http://").nth(1).and_then(|rest| rest.split("/metrics").next()).unwrap();
    let writer = rusqlite::Connection::open(bench.store()).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let lost = "\ntenure_leases_lost_total{kind=\"lock\",reason=\"unreachable\"} ";
    let page =
        wait_for("the loss", || Some(scrape(address)).filter(|page| page.contains(&format!("{lost}1\n"))));
    for line in ["tenure_leaderships_ended_total{cause=\"lost\"} 1", "tenure_leases_held{kind=\"lock\"} 0"] {
        wait_until(line, || scrape(address).lines().any(|shown| shown == line));
    }
    assert!(
        page.contains("\ntenure_leases_released_total{kind=\"lock\"} 0\n"),
        "it is yet to be given up: {page}"
    );
    // By the name that docs/operate.md tells, with the word of the alarm.
    let is_told =
        |line: &str| line.contains("event_name=lease.lost") && line.contains("loss=\"unreachable\"");
    wait_until("the log", || bench.read("log").lines().any(is_told));
    writer.execute_batch("ROLLBACK").unwrap();
    wait_until("the next term", || scrape(address).contains("\ntenure_leaderships_begun_total 2\n"));
    let page = scrape(address);
    assert!(page.contains(&format!("{lost}1\n")) && page.contains("cause=\"lost\"} 1\n"), "once: {page}");
    leader.signal(Signal::SIGTERM);
    leader.wait();
}

#[test]
fn silent_connections_keep_no_scrape_out_and_are_none_of_the_agents() {
    let bench = Bench::new();
    let socket = bench.path("agent.sock");
    let listen = format!("unix:{}", socket.display());
    let (mut agent, address) = with_metrics(&bench, &["serve", "--ttl", "1s", "--listen", &listen]);
    let _silent: Vec<_> = (0..20).map(|_| std::net::TcpStream::connect(&address).unwrap()).collect();
    let _client = wait_for("the agent", || std::os::unix::net::UnixStream::connect(&socket).ok());
    for line in [
        "tenure_agent_connections 1",
        "tenure_agent_refused_total 0",
        "tenure_agent_strangers_closed_total 0",
        "tenure_agent_leases 0",
        // Nobody sees a counter rise that begins with its first event.
        "tenure_agent_operator_total{action=\"revoke\"} 0",
        "tenure_agent_operator_total{action=\"drain\"} 0",
        "tenure_agent_operator_total{action=\"release\"} 0",
        "tenure_agent_operator_total{action=\"move\"} 0",
    ] {
        wait_for(line, || scrape(&address).lines().any(|shown| shown == line).then_some(()));
    }
    agent.signal(Signal::SIGTERM);
    agent.wait();
}

#[test]
fn the_agent_tells_of_its_clients() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &[]);
    let mut client = agent.client();
    let told = client.acquire("k");
    let metrics =
        |client: &mut crate::common::agent::Client| client.get("/metrics").body.as_str().unwrap().to_owned();
    let page = metrics(&mut client);
    for line in [
        "tenure_agent_leases 1",
        "tenure_agent_connections 1",
        "tenure_leases_acquired_total{kind=\"lock\"} 1",
        // An alarm that looks for what rises would not see these begin.
        "tenure_agent_leases_ended_total{how=\"lapsed\"} 0",
        "tenure_agent_refused_total 0",
        "tenure_leases_lost_total{kind=\"lock\",reason=\"unreachable\"} 0",
        "tenure_leases_lost_total{kind=\"permit\",reason=\"unreachable\"} 0",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
    client.release(&told);
    let page = metrics(&mut client);
    for line in ["tenure_agent_leases 0", "tenure_agent_leases_ended_total{how=\"released\"} 1"] {
        assert!(page.contains(line), "{line}: {page}");
    }
}

#[test]
fn logs_are_text_or_json_on_standard_error() {
    let bench = Bench::new();
    let run = |more: &[&str]| bench.run(&[&["run", "k"], more, &["--", "echo", "out"]].concat());
    let silent = run(&[]);
    assert_eq!((silent.out.as_str(), silent.err.as_str()), ("out\n", ""));
    let text = run(&["--log", "tenure::lease=debug"]);
    assert!(
        text.out == "out\n" && text.err.contains("lease acquired") && text.err.contains("key=k"),
        "{text:?}"
    );
    let by_name =
        |line: &str| line.contains("lease acquired") && line.ends_with(" event_name=lease.acquired");
    assert!(text.err.lines().any(by_name), "{text:?}");
    let json = run(&["--log", "debug", "--log-format", "json"]);
    let lines: Vec<Value> = json.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let acquired = lines.iter().find(|line| line["message"] == "lease acquired").unwrap();
    assert!(
        acquired["key"] == "k" && acquired["level"] == "DEBUG" && acquired["fence"].is_string(),
        "{json:?}"
    );
    assert_eq!(acquired["event_name"], "lease.acquired", "{json:?}");
    let mut by_variable = bench.tenure(&["run", "k", "--", "true"]);
    let by_variable = by_variable.env("TENURE_LOG", "tenure::lease=debug").output().unwrap();
    assert!(String::from_utf8_lossy(&by_variable.stderr).contains("lease released"));
    for (arguments, names) in [
        (["--log", "tenure=loud"], "--log tenure=loud"),
        (["--log", "info, warning"], "warning is none of the levels"),
        (["--log-format", "xml"], "xml"),
        (["--metrics", "localhost:9000"], "write 127.0.0.1:9000"),
    ] {
        let ran = bench.run(&[&["run", "new"], &arguments[..], &["--", "true"]].concat());
        assert!(ran.code == 64 && ran.err.contains(names), "{ran:?}");
    }
}

/// Events by the hundred, more than a pipe holds, and renewals go on.
#[test]
fn who_does_not_read_the_log_holds_up_no_lease() {
    let bench = Bench::new();
    let (mut unread, full) = full_pipe();
    let script = "touch began; for n in 1 2 3; do sleep 1; touch $n; done";
    let mut verb: Process = bench
        .tenure(&["--log", "trace", "run", "--ttl", "1s", "k", "--", "sh", "-c", script])
        .stderr(full)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
        .into();
    wait_until("the command", || bench.path("2").exists());
    // What has waited comes, in order.
    let reader = std::thread::spawn(move || {
        let mut all = String::new();
        unread.read_to_string(&mut all).unwrap();
        all
    });
    assert_eq!(verb.wait(), 0);
    let all = reader.join().unwrap();
    let at = |what: &str| all.find(what).unwrap_or_else(|| panic!("{what}: {all}"));
    assert!(at("lease acquired") < at("lease released"));
}

fn root(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What a text calls metrics of tenure's.
fn named(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let parts = text.match_indices("tenure_").map(|(at, _)| {
        let name: String = text[at..].chars().take_while(|c| is_part(*c)).collect();
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        base.unwrap_or(&name).to_owned()
    });
    parts.collect()
}

/// The names in the tables of the libraries' pages.
fn documented() -> BTreeSet<String> {
    let pages =
        ["crates/tenure/src/lib.rs", "crates/tenure/src/fleet/mod.rs", "crates/tenure-agent/src/lib.rs"];
    let names = pages.iter().flat_map(|page| {
        let text = root(page);
        let names = text
            .lines()
            .filter_map(|line| line.strip_prefix("//! | `")?.split('`').next().map(str::to_owned));
        names.filter(|name| name.starts_with("tenure_")).collect::<Vec<_>>()
    });
    names.collect()
}

/// The alarms, as Prometheus itself reads them.
#[test]
fn each_trouble_sets_its_alarm_off_and_nothing_else_does() {
    let promtool = std::env::var_os("TENURE_TEST_PROMTOOL").unwrap_or_else(|| "promtool".into());
    let ops = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops");
    let run = |words: &[&str]| {
        let mut command = Command::new(&promtool);
        let output = command.args(words).current_dir(&ops).output();
        let output =
            output.expect("`cargo xtask services run` has promtool; else: apt-get install prometheus");
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let rules = root("ops/prometheus-alerts.yml").matches("- alert:").count();
    let checked = run(&["check", "rules", "prometheus-alerts.yml"]);
    assert!(checked.contains(&format!("{rules} rules found")), "{checked}");
    run(&["test", "rules", "prometheus-alerts.test.yml"]);
    let tested = root("ops/prometheus-alerts.test.yml");
    assert_eq!(tested.matches("labels: '{alertname=").count(), rules, "each alarm is set off");
}

/// An operator searches the log for what the table of alarms names.
#[test]
fn events_that_the_table_of_alarms_names_are_those_that_are_logged() {
    let page = root("docs/operate.md");
    let events = ["", "fleet/", "election/", "range/"].map(|part| match part {
        "" => root("crates/tenure/src/lib.rs"),
        part => root(&format!("crates/tenure/src/{part}mod.rs")),
    });
    let rows = page.lines().filter(|line| line.starts_with("| Tenure"));
    let named: Vec<&str> = rows
        .flat_map(|row| row.split('`').skip(1).step_by(2))
        .filter(|word| {
            word.split_once('.')
                .is_some_and(|(part, _)| ["lease", "fleet", "election", "range"].contains(&part))
        })
        .collect();
    assert!(named.len() >= 4, "{named:?}");
    for name in named {
        let row = format!("//! | `{name}` | ");
        assert!(events.iter().any(|table| table.contains(&row)), "{name} is no event");
    }
    let alarms = root("ops/prometheus-alerts.yml");
    for alarm in alarms.split("- alert: ").skip(1).filter_map(|rest| rest.lines().next()) {
        assert!(page.contains(&format!("\n| {alarm} |")), "{alarm} has no row");
    }
}

/// Whoever is woken looks the reason up: the alarm and its row name each, also those for which it is not set off.
#[test]
fn the_alarm_of_lost_leases_and_its_row_name_each_reason() {
    let (page, alarms) = (root("docs/operate.md"), root("ops/prometheus-alerts.yml"));
    let row = page.lines().find(|line| line.starts_with("| TenureLeasesLost |")).unwrap();
    let alarm = alarms.split("- alert: ").find(|rest| rest.starts_with("TenureLeasesLost\n")).unwrap();
    for (place, text) in [("docs/operate.md", row), ("ops/prometheus-alerts.yml", alarm)] {
        for name in tenure::Loss::COUNTED {
            let is_named = text.split(|c: char| !c.is_ascii_alphabetic()).any(|word| word == name);
            assert!(is_named, "{place} does not say what {name} is");
        }
    }
}

#[test]
fn the_dashboard_and_the_alarms_name_what_is_exported() {
    let dashboard: Value = serde_json::from_str(&root("ops/grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() >= 8 && panels.iter().all(|panel| panel["targets"][0]["expr"].is_string()));
    let alarms = root("ops/prometheus-alerts.yml");
    let known = documented();
    for (file, text) in [("grafana.json", dashboard.to_string()), ("prometheus-alerts.yml", alarms.clone())] {
        let unknown: Vec<String> = named(&text).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}, which no page documents");
    }
    // What is documented is shown.
    let shown = named(&dashboard.to_string());
    let unseen: Vec<&String> = known.difference(&shown).collect();
    assert!(unseen.is_empty(), "no panel shows {unseen:?}");
    // Buckets that alarms look at are there, and looked for as Prometheus 2 names them and as Prometheus 3 does.
    let telemetry = root("crates/tenure-cli/src/telemetry.rs");
    let bounds = telemetry.split("const BOUNDS").nth(1).and_then(|rest| rest.split(';').nth(1)).unwrap();
    assert!(!alarms.contains("le=\""), "a bound has one name there, and two in Prometheus");
    let looked_for: Vec<&str> =
        alarms.split("le=~\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(!looked_for.is_empty());
    for names in looked_for {
        let bound: f64 = names.split('|').next().unwrap().parse().unwrap();
        assert_eq!(names, format!("{bound}|{}", format!("{bound:?}").replace('.', r"\\.")));
        assert!(bounds.contains(&format!(" {bound:?},")), "{bound} is none of {bounds}");
    }
    let count = |what: &str| alarms.lines().filter(|line| line.trim_start().starts_with(what)).count();
    let rules = count("- alert:");
    assert!(rules >= 6, "{rules}");
    for part in ["expr:", "for:", "severity:", "summary:", "description:"] {
        assert_eq!(count(part), rules, "each alarm has one {part}");
    }
}
