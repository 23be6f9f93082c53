//! `tenure serve` with TLS, for clients on other hosts.
//!
//! Plan: what is missing or wrong is refused with what to do, before anything is opened. A client that verifies has leases, with deadlines by its own clock;
//! who believes another authority, or calls the agent by another name, breaks off; who speaks plain text, has no token or names another host gets nothing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, wait_for};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Error, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::Arc;

const TOKEN: &str = "full-token-0123456789";
const NAME: &str = "agent.example";

/// A certificate for this name that holds until that year, and its key, in the bench's directory.
fn certificate(bench: &Bench, file: &str, name: &str, until: i32) {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().unwrap();
    bench.write(&format!("{file}.pem"), params.self_signed(&key).unwrap().pem());
    bench.write(&format!("{file}.key"), key.serialize_pem());
}

#[test]
fn what_is_missing_or_wrong_is_refused_before_anything_is_opened() {
    let bench = Bench::new();
    bench.write("token", TOKEN);
    for (file, until) in [("good", 2100), ("other", 2100), ("old", 2021)] {
        certificate(&bench, file, NAME, until);
    }
    let tls = ["--tls-cert", "good.pem", "--tls-key", "good.key"];
    let with = |certificate, key| ["--tls-cert", certificate, "--tls-key", key, "--token-file", "token"];
    let anywhere = ["--listen", "0.0.0.0:0"];
    for (arguments, says) in [
        (&[&anywhere[..], &["--token-file", "token"]].concat()[..], "name a certificate with --tls-cert"),
        (&[&anywhere[..], &tls].concat(), "so a token is needed"),
        (&[&["--listen", "127.0.0.1:0"][..], &tls].concat(), "so a token is needed"),
        (&[&anywhere[..], &with("none.pem", "good.key")].concat(), "none.pem: No such file"),
        (&[&anywhere[..], &with("good.pem", "other.key")].concat(), "other.key: it is not the key of"),
        (&[&anywhere[..], &with("good.key", "good.key")].concat(), "good.key: it holds no certificate"),
        (&[&anywhere[..], &with("old.pem", "old.key")].concat(), "old.pem: it has expired at 2021-01-01"),
        (&[&anywhere[..], &tls[..2]].concat(), "--tls-key"),
        (&tls, "no Unix socket speaks TLS"),
    ] {
        let ran = bench.run(&[&["serve"], arguments].concat());
        assert!(ran.code == 64 && ran.err.contains(says), "{arguments:?}: {ran:?}");
        assert!(!ran.err.contains("PRIVATE"), "{ran:?}");
    }
    assert!(!bench.store().exists(), "nothing was opened");
}

struct Agent {
    _process: Process,
    port: u16,
}

impl Agent {
    fn start(bench: &Bench) -> Agent {
        certificate(bench, "cert", NAME, 2100);
        bench.write("token", TOKEN);
        let listen = ["serve", "--listen", "0.0.0.0:0", "--tls-cert", "cert.pem", "--tls-key", "cert.key"];
        let mut command = bench.tenure(&[&listen[..], &["--token-file", "token"]].concat());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let process = Process::from(child);
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let (_, port) = line.trim().split_once("https://0.0.0.0:").unwrap_or_else(|| panic!("{line}"));
        Agent { _process: process, port: port.parse().unwrap() }
    }

    fn connect(&self) -> TcpStream {
        wait_for("a connection", || TcpStream::connect(("127.0.0.1", self.port)).ok())
    }

    /// What a client is answered that believes this authority, and calls the agent so.
    fn ask(&self, authority: &[u8], name: &str, request: &str) -> Result<String, Error> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(client, self.connect());
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

fn request(host: &str, token: &str) -> String {
    let body = json!({ "key": "k" }).to_string();
    format!(
        "POST /v1/leases HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn a_client_on_another_host_has_leases_by_tls_and_a_token() {
    let bench = Bench::new();
    let agent = Agent::start(&bench);
    let authority = bench.read("cert.pem").into_bytes();
    let status = |host: &str, token: &str| {
        let answer = agent.ask(&authority, NAME, &request(host, token)).unwrap();
        (answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap(), answer)
    };
    assert_eq!(status(NAME, "another-token-0123456").0, 401);
    assert_eq!(status("evil.example", TOKEN).0, 403);
    assert_eq!(status("localhost", TOKEN).0, 403, "its certificate does not call it so");
    let (code, answer) = status(&format!("{NAME}:{}", agent.port), TOKEN);
    assert_eq!(code, 201, "{answer}");
    let told: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert!(told["good_for_ms"].as_u64().unwrap() > 0, "{told}");
    // Nobody's process can be seen from here, so nothing is concluded from its end.
    assert_eq!(told["on_exit"], "lapse", "{told}");
}

#[test]
fn whoever_does_not_believe_the_agent_or_speaks_plain_text_says_and_gets_nothing() {
    let bench = Bench::new();
    let agent = Agent::start(&bench);
    certificate(&bench, "other", NAME, 2100);
    let other = bench.read("other.pem").into_bytes();
    let asked = agent.ask(&other, NAME, &request(NAME, TOKEN)).unwrap_err().to_string();
    assert!(asked.contains("certificate"), "{asked}");
    let own = bench.read("cert.pem").into_bytes();
    let asked = agent.ask(&own, "other.example", &request(NAME, TOKEN)).unwrap_err().to_string();
    assert!(asked.contains("certificate"), "{asked}");
    let mut plain = agent.connect();
    plain.write_all(request(NAME, TOKEN).as_bytes()).unwrap();
    let mut answer = Vec::new();
    // The connection may be reset, as not all that was sent was read.
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP"), "{answer:?}");
    assert_eq!(bench.run(&["show", "k"]).code, 66, "nobody has had it");
}
