//! `tenure ready` by the real binary, as a probe of Kubernetes asks.
//!
//! Plan: nobody listens; somebody listens who is no agent, or who says nothing; an agent is ready, also by its default address and by TENURE_AGENT; it is
//! not while it is being stopped. An address that is no Unix socket is refused with what to do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::agent::Agent;
use crate::common::{Bench, Ran, wait_until};
use nix::sys::signal::Signal;
use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

fn address(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}

#[test]
fn an_agent_is_ready_until_it_is_being_stopped() {
    let bench = Bench::new();
    let nobody = bench.run(&["ready", &address(&bench.path("agent.sock"))]);
    assert!(nobody.code == 69 && nobody.err.contains("agent.sock is not ready: "), "{nobody:?}");
    let mut agent = Agent::start(&bench, &["--ttl", "8s"]);
    let at = address(&agent.socket);
    let mut client = agent.client();
    wait_until("it is ready", || bench.run(&["ready", &at]).code == 0);
    let quiet = bench.run(&["ready", &at]);
    assert_eq!((quiet.code, quiet.out.as_str(), quiet.err.as_str()), (0, "", ""));
    let told = Ran::of(bench.tenure(&["ready"]).env("TENURE_AGENT", &at).output().unwrap());
    assert_eq!(told.code, 0, "{told:?}");
    // It outlives what it has told.
    let _kept = client.acquire("kept");
    let mut events = agent.client().listen();
    agent.process.signal(Signal::SIGTERM);
    events.next("stopping");
    let stopping = bench.run(&["ready", &at]);
    assert!(stopping.code == 69 && stopping.err.contains("stop"), "{stopping:?}");
    agent.process.signal(Signal::SIGTERM);
    assert_eq!(agent.process.wait(), 143);
}

#[test]
fn without_an_address_it_is_asked_where_serve_listens() {
    let bench = Bench::new();
    let here = bench.path("");
    let mut agent: crate::common::Process =
        bench.tenure(&["serve"]).env("XDG_RUNTIME_DIR", &here).spawn().unwrap().into();
    wait_until("it is ready", || {
        Ran::of(bench.tenure(&["ready"]).env("XDG_RUNTIME_DIR", &here).output().unwrap()).code == 0
    });
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.wait(), 143);
}

#[test]
fn who_is_no_agent_is_not_ready() {
    let bench = Bench::new();
    for (name, says) in [("mail", "220 mail\r\n"), ("mute", "")] {
        let listener = UnixListener::bind(bench.path(name)).unwrap();
        let answers = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // The question is left unread, so the connection may be reset.
            stream.write_all(says.as_bytes()).unwrap();
        });
        let ran = bench.run(&["ready", &address(&bench.path(name))]);
        answers.join().unwrap();
        assert!(ran.code == 69 && ran.err.contains(&format!("{name} is not ready: ")), "{ran:?}");
    }
}

#[test]
fn what_is_no_unix_socket_is_refused() {
    let bench = Bench::new();
    for at in ["127.0.0.1:7070", "https://example.org:7", "/run/agent.sock", "unix:", ""] {
        let ran = bench.run(&["ready", at]);
        assert!(ran.code == 64 && ran.err.contains("unix:PATH"), "{at}: {ran:?}");
    }
}
