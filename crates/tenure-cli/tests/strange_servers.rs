//! Servers that answer what no store's server does: whoever comes first can listen on a port, before any password or TLS.
//!
//! Plan: their words are told in one line, in which nothing steers a terminal: on standard error, in the log, in JSON, and by an agent. The user's own words, of
//! a URL and of a configuration file, are told so, too.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Ran};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use tenure_core::steers_terminals;

/// It changes a colour, a title and the direction of what follows, and begins a line.
const EVIL: &str = "\u{1b}[31mEVIL\u{1b}]0;pwn\u{7}\u{9b}2J\u{202e}rev";

/// The same as an option.
const EVIL_OPTION: &str = "--opt\u{1b}[31m\u{9b}2J\u{202e}rev";

/// Answers every connection, for as long as the test lives.
fn server(answer: impl Fn(&mut TcpStream, &[u8]) -> std::io::Result<()> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = std::sync::Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (answer, mut stream) = (answer.clone(), stream.unwrap());
            std::thread::spawn(move || {
                let mut asked = [0; 65536];
                while let Ok(n @ 1..) = stream.read(&mut asked) {
                    if answer(&mut stream, &asked[..n]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

fn redis() -> String {
    let port = server(|stream, _| stream.write_all(format!("-ERR {EVIL}\r\n").as_bytes()));
    format!("redis://127.0.0.1:{port}/0?namespace=n")
}

fn postgres() -> String {
    let port = server(|stream, asked| {
        // Whoever asks for TLS first goes on without.
        if asked.get(4..8) == Some(&[4, 210, 22, 47]) {
            return stream.write_all(b"N");
        }
        let body = format!("SFATAL\0VFATAL\0C28000\0M{EVIL}\nmore\0D{EVIL}\0H{EVIL}\0\0");
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        stream.write_all(&[b"E", &length[..], body.as_bytes()].concat())
    });
    format!("postgres://u@127.0.0.1:{port}/d")
}

fn dynamodb(kind: &str) -> String {
    let body =
        serde_json::json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{kind}"), "message": EVIL});
    let body = body.to_string();
    let head = "HTTP/1.1 400 Bad\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: ";
    let answer = format!("{head}{}\r\n\r\n{body}", body.len());
    let port = server(move |stream, _| stream.write_all(answer.as_bytes()));
    format!("dynamodb://tab1?region=eu-west-1&endpoint=http://127.0.0.1:{port}")
}

/// Whether a terminal shows just these lines.
#[track_caller]
fn is_harmless(ran: &Ran, most_lines: usize) {
    for text in [&ran.out, &ran.err] {
        let bad = text.chars().find(|c| *c != '\n' && steers_terminals(*c));
        assert_eq!(bad, None, "{ran:?}");
    }
    assert!(ran.err.lines().count() <= most_lines, "{ran:?}");
}

#[test]
fn a_server_s_words_do_not_steer_a_terminal() {
    let bench = Bench::new();
    let refused = ["ValidationException", "AccessDeniedException"].map(dynamodb);
    for url in [redis(), postgres()].into_iter().chain(refused) {
        let ran = |arguments: &[&str]| {
            let mut command = bench.tenure(arguments);
            command.env("AWS_ACCESS_KEY_ID", "x").env("AWS_SECRET_ACCESS_KEY", "x");
            Ran::of(command.env("TENURE_STORE", &url).output().unwrap())
        };
        let listed = ran(&["ls"]);
        assert!(listed.err.contains("\\u{1b}[31mEVIL\\u{1b}]0;pwn\\u{7}"), "{url}: {listed:?}");
        is_harmless(&listed, 1);
        for arguments in [
            &["run", "k", "--try", "--", "true"][..],
            &["doctor"],
            &["show", "k"],
            &["run", "k", "--try", "--log", "debug", "--", "true"],
        ] {
            let ran = ran(arguments);
            assert_ne!(ran.code, 0, "{url}: {ran:?}");
            is_harmless(&ran, usize::MAX);
        }
    }
}

#[test]
fn the_user_s_own_words_do_not_steer_a_terminal_either() {
    let bench = Bench::new();
    let host =
        Ran::of(bench.tenure(&["ls"]).env("TENURE_STORE", "postgres://\u{1b}[31mhost/d").output().unwrap());
    assert!(host.code != 0 && !host.err.is_empty(), "{host:?}");
    is_harmless(&host, 1);
    for arguments in [
        &["show", EVIL_OPTION][..],
        &[EVIL],
        &["show", "k", EVIL],
        &["run", "k", "--ttl", EVIL, "--", "true"],
        &["completions", EVIL],
    ] {
        let refused = bench.run(arguments);
        assert!(refused.code == 64 && refused.err.contains("u{202e}rev"), "{refused:?}");
        is_harmless(&refused, usize::MAX);
    }
    for text in ["\"\\u001b[31munknown\" = 1", "[defaults.\"\\u001b[31m\"]\nx = 1"] {
        bench.write("config.toml", text);
        let ran =
            Ran::of(bench.tenure(&["ls"]).env("TENURE_CONFIG", bench.path("config.toml")).output().unwrap());
        assert!(ran.code == 64 && ran.err.contains("u{1b}[31m"), "{text}: {ran:?}");
        is_harmless(&ran, usize::MAX);
    }
}
