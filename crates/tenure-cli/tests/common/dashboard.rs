//! The agent's dashboard as tests look at it: an agent on the loopback network, and what is in the page.

use super::browser::Browser;
use super::{Bench, Process, wait_for, wait_until};
use serde_json::json;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

pub const FULL: &str = "full-token-0123456789";
pub const READ: &str = "read-token-0123456789";

/// An agent on the loopback network.
pub struct Agent {
    pub process: Process,
    pub port: String,
}

impl Agent {
    pub fn start(bench: &Bench, port: &str) -> Agent {
        for (file, token) in [("full", FULL), ("read", READ)] {
            bench.write(file, token);
            // One that others can read is told of.
            std::fs::set_permissions(bench.path(file), Permissions::from_mode(0o600)).unwrap();
        }
        let listen = format!("127.0.0.1:{port}");
        let tokens = ["--token-file", "full", "--read-token-file", "read"];
        // Nobody beats here.
        let arguments = [&["serve", "--ttl", "60s", "--listen", &listen][..], &tokens].concat();
        let said = std::fs::File::create(bench.path("agent.log")).unwrap();
        let child = bench.tenure(&arguments).stderr(said).spawn().unwrap();
        let port = wait_for("the agent", || {
            let said = bench.read("agent.log");
            Some(said.split_once('\n')?.0.rsplit_once("http://127.0.0.1:")?.1.to_owned())
        });
        Agent { process: child.into(), port }
    }

    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/dashboard", self.port)
    }

    /// What is answered, all of it as text.
    pub fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
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

    pub fn acquire(&self, key: &str) {
        let headers = format!("authorization: Bearer {FULL}\r\n");
        let answer = self.ask("POST", "/v1/leases", &headers, &json!({ "key": key }).to_string());
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }

    /// A browser that shows the page to whoever has this token.
    pub fn shown_to(&self, token: &str) -> Browser {
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

pub const LIVE: &str =
    "document.getElementById('status').dataset.is === 'live' && !document.getElementById('main').hidden";

/// The texts of all rows that are in the page.
pub const ROWS: &str = "[...document.querySelectorAll('.row')].filter(row => !row.hidden)
    .sort((a, b) => a.dataset.at - b.dataset.at).map(row => [...row.children].map(cell => cell.textContent))";

/// Starts commands that stay, each in the background.
pub fn held(bench: &Bench, all: &[&[&str]]) -> Vec<Process> {
    let started: Vec<Process> =
        all.iter().map(|words| bench.start(&[*words, &["--", "sleep", "1000"]].concat())).collect();
    wait_until("all to be held", || {
        let leases = bench.run(&["ls", "--json"]).json()["leases"].as_array().unwrap().clone();
        leases.iter().filter(|lease| !lease["key"].as_str().unwrap().starts_with("session/")).count()
            >= all.len()
    });
    started
}

pub fn tab(browser: &mut Browser, view: &str) {
    browser.eval(&format!(
        "[...document.querySelectorAll('[role=tab]')].find(tab => tab.textContent === '{view}').click()"
    ));
}

/// Presses the tabulator until that has the focus which has this id or text.
#[track_caller]
pub fn tab_to(browser: &mut Browser, what: &str) -> Vec<serde_json::Value> {
    let mut stops = Vec::new();
    while browser.eval("document.activeElement.id || document.activeElement.textContent") != what {
        browser.press("Tab");
        stops.push(browser.eval("document.activeElement.id || document.activeElement.textContent"));
        assert!(stops.len() < 30, "no {what}: {stops:?}");
    }
    stops
}

/// Opens a record, presses the button of that name and answers the question.
pub fn act(browser: &mut Browser, key: &str, action: &str, answer: &str) {
    act_on(browser, key, action, None, answer);
}

/// With a choice, as what makes it in the page.
pub fn act_on(browser: &mut Browser, key: &str, action: &str, choice: Option<&str>, answer: &str) {
    let button = |text: &str| {
        format!(
            "[...document.querySelectorAll('dialog button')].find(button => button.checkVisibility() && button.textContent.startsWith('{text}')).click()"
        )
    };
    let row = format!(
        "[...document.querySelectorAll('.row')].find(row => !row.hidden && row.children[0].textContent === '{key}')"
    );
    // The page draws its rows after it has been told of them.
    browser.wait_for("the row", &format!("{row} !== undefined"));
    browser.eval(&format!("{row}.click()"));
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
