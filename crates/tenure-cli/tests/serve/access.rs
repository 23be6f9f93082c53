//! Who reaches the agent of `tenure serve`, and how much of it each client may take.
//!
//! Plan: a socket is one user's and has one agent; addresses that others reach; tokens, for all and for reading; secrets that others can read; a
//! client's share of leases, connections and files.

use crate::common::agent::{Agent, Client};
use crate::common::{Bench, Process, wait_for, wait_until};
use nix::sys::signal::Signal;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::process::{Command, Stdio};

#[test]
fn a_socket_is_this_users_alone_and_has_one_agent() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &[]);
    assert_eq!(agent.socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let listen = format!("unix:{}", agent.socket.display());
    let second = bench.run(&["serve", "--listen", &listen]);
    assert!(second.code == 64 && second.err.contains("another agent listens"), "{second:?}");
    assert_eq!(agent.client().get("/healthz").status, 200);
    // One that was killed leaves its socket, which is in nobody's way.
    agent.process.signal(Signal::SIGKILL);
    drop(agent);
    assert!(bench.path("agent.sock").exists());
    drop(Agent::start(&bench, &[]));
    bench.write("file", "mine");
    let on_a_file = bench.run(&["serve", "--listen", &format!("unix:{}", bench.path("file").display())]);
    assert!(on_a_file.code == 64 && on_a_file.err.contains("no socket"), "{on_a_file:?}");
    let long = bench.path("new").join("x".repeat(110));
    let too_long = bench.run(&["serve", "--listen", &format!("unix:{}", long.display())]);
    assert!(too_long.code == 64 && too_long.err.contains("name one of 100 bytes at most"), "{too_long:?}");
    assert!(!bench.path("new").exists(), "before anything is made");
    std::fs::create_dir(bench.path("open")).unwrap();
    std::fs::set_permissions(bench.path("open"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let open = bench.run(&["serve", "--listen", &format!("unix:{}/a.sock", bench.path("open").display())]);
    assert!(open.code == 64 && open.err.contains("nobody else can write"), "{open:?}");
    // Whoever can rename a safe directory, or owns a link to it, can put another there.
    std::fs::DirBuilder::new().mode(0o700).create(bench.path("open/safe")).unwrap();
    std::os::unix::fs::symlink(bench.path("open/safe"), bench.path("link")).unwrap();
    for way in ["open/safe", "link"] {
        let socket = bench.path(way).join("a.sock");
        let moved = bench.run(&["serve", "--listen", &format!("unix:{}", socket.display())]);
        assert!(moved.code == 64 && moved.err.contains("nobody else can write"), "{moved:?}");
    }
    assert!(!bench.path("leases.db-wal").exists() || bench.store().exists());
}

#[test]
fn an_address_that_others_reach_is_refused_without_a_token_or_a_certificate() {
    let bench = Bench::new();
    for (arguments, remedy) in [
        (&["--listen", "0.0.0.0:0"] as &[&str], "--tls-cert"),
        (&["--listen", "127.0.0.1:0"], "--token-file"),
        (&["--listen", "tcp"], "unix:PATH"),
        (&["--token-file", "none"], "none: "),
        (&["--max-leases", "0"], "--max-leases"),
    ] {
        let ran = bench.run(&[&["serve"], arguments].concat());
        assert!(ran.code == 64 && ran.err.contains(remedy), "{arguments:?}: {ran:?}");
    }
    bench.write("short", "tooshort");
    let ran = bench.run(&["serve", "--token-file", "short"]);
    assert!(ran.code == 64 && ran.err.contains("16 visible") && !ran.err.contains("tooshort"), "{ran:?}");
    bench.write("token", "0123456789abcdef\n");
    let both = bench.run(&["serve", "--token-file", "token", "--read-token-file", "token"]);
    assert!(both.code == 64 && both.err.contains("choose another"), "{both:?}");
    assert!(!bench.store().exists(), "nothing was opened");
}

#[test]
fn a_token_is_asked_for_on_the_loopback_network() {
    let bench = Bench::new();
    bench.write("full", "full-token-0123456789\n");
    bench.write("read", "read-token-0123456789\n");
    let listen = ["serve", "--listen", "127.0.0.1:0", "--token-file", "full", "--read-token-file", "read"];
    let mut child = bench.tenure(&listen).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let _process = Process::from(child);
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let port = line.trim().rsplit(':').next().unwrap().to_owned();
    let ask = |method: &str, path: &str, headers: &str| -> u16 {
        use std::io::{Read, Write};
        let mut stream =
            wait_for("a connection", || std::net::TcpStream::connect(format!("127.0.0.1:{port}")).ok());
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{headers}content-type: application/json\r\ncontent-length: 11\r\nconnection: close\r\n\r\n{{\"key\":\"k\"}}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    };
    let host = format!("host: localhost:{port}\r\n");
    let with = |token: &str| format!("{host}authorization: Bearer {token}\r\n");
    assert_eq!(ask("POST", "/v1/leases", &host), 401);
    assert_eq!(ask("POST", "/v1/leases", &with("read-token-0123456789")), 403);
    assert_eq!(ask("GET", "/v1/leases", &with("read-token-0123456789")), 200);
    assert_eq!(ask("POST", "/v1/leases", &with("full-token-0123456789")), 201);
    assert_eq!(ask("POST", "/v1/leases", &with("full-token-012345678")), 401);
    let evil = with("full-token-0123456789").replace("localhost", "evil.example");
    assert_eq!(ask("GET", "/v1/leases", &evil), 403);
    let page = format!("{}origin: http://evil.example\r\n", with("full-token-0123456789"));
    assert_eq!(ask("GET", "/v1/leases", &page), 403);
    assert_eq!(ask("GET", "/healthz", &host), 200);
}

#[test]
fn a_secret_that_every_user_can_read_is_told_of() {
    let bench = Bench::new();
    for (file, mode) in [("full", 0o644), ("read", 0o600)] {
        bench.write(file, format!("{file}-token-0123456789"));
        std::fs::set_permissions(bench.path(file), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let files = ["--token-file", "full", "--read-token-file", "read"];
    let log = std::fs::File::create(bench.path("agent.log")).unwrap();
    let mut command = bench.tenure(&[&["serve", "--listen", "127.0.0.1:0"], &files[..]].concat());
    let _agent = Process::from(command.stderr(log).spawn().unwrap());
    wait_until("it to be told", || {
        bench.read("agent.log").contains("full: its mode lets every user of this host read")
    });
    let said = bench.read("agent.log");
    assert!(!said.contains("read: ") && !said.contains("token-0123456789"), "{said}");
}

#[test]
fn no_client_takes_more_than_its_share() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--max-leases", "2", "--max-connections", "3"]);
    let mut client = agent.client();
    client.acquire("a");
    client.acquire("b");
    let third = client.post("/v1/leases", &json!({"key": "c"}));
    assert_eq!((third.status, &third.body["code"]), (429, &json!("too_many")), "{third:?}");
    let large = client.post("/v1/leases", &json!({"key": "x".repeat(70_000)}));
    assert_eq!(large.status, 413, "{large:?}");
    let mut others = [agent.client(), agent.client()];
    for other in &mut others {
        assert_eq!(other.get("/healthz").status, 200);
    }
    let mut fourth = Client::connect(&agent.socket);
    assert_eq!(fourth.line(), "", "it is closed at once");
    drop(others);
    wait_until("room for another", || {
        let mut next = Client::connect(&agent.socket);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| next.get("/healthz").status))
            .is_ok_and(|status| status == 200)
    });
}

#[test]
fn clients_do_not_use_up_the_files_that_the_agent_may_open() {
    let bench = Bench::new();
    let socket = bench.path("agent.sock");
    let limits = "ulimit -Hn 400; ulimit -Sn 64; exec \"$0\" serve --ttl 60s --listen \"unix:$1\"";
    let mut limited = Command::new("sh");
    limited.args(["-c", limits, env!("CARGO_BIN_EXE_tenure")]).arg(&socket);
    bench.settle(&mut limited).stdin(Stdio::null()).env("TENURE_STORE", "sqlite:leases.db");
    let agent = Agent::of(limited, socket);
    // More leases than there could be descriptors for, of one process that makes a connection for each.
    for n in 0..350 {
        let wish = json!({"key": format!("k/{n}"), "on_exit": "release"});
        let told = agent.client().post("/v1/leases", &wish);
        assert_eq!((told.status, told.body["on_exit"].as_str()), (201, Some("release")), "{n}: {told:?}");
    }
    let mut clients: Vec<Client> = (0..100).map(|_| agent.client()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/healthz").status, 200);
    }
}
