//! Clients that are gone when they are answered, by a real socket.
//!
//! Plan: what is granted to a client that can't be told is nobody's afterwards; whatever comes behind a request that waits, its client's end is seen, and it gets nothing.

use crate::access::Access;
use crate::agent::Agent;
use crate::config::{Address, Limits};
use crate::door::Door;
use serde_json::{Value, json};
use std::net::Shutdown;
use std::time::Duration;
use tenure::Leases;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// Far longer than anything takes here.
const LONG: Duration = Duration::from_secs(60);

/// Serves clients who are told the socket.
async fn served(clients: impl AsyncFnOnce(&Agent, &str)) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent.sock");
    let agent = Agent::new(Leases::new(tenure::memory()).unwrap(), Limits::default(), None);
    let door = Door::open(Address::Unix(socket.clone()), None).await.unwrap();
    let access = Access { is_open: true, ..Access::default() };
    tokio::select! {
        () = agent.serve(&door, access) => unreachable!("it serves for ever"),
        done = tokio::time::timeout(LONG, clients(&agent, socket.to_str().unwrap())) => done.unwrap(),
    }
}

fn request(method: &str, path: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n"
    );
    format!("{head}connection: close\r\n\r\n{body}").into_bytes()
}

/// The status, and the answer.
async fn asked(socket: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let mut client = UnixStream::connect(socket).await.unwrap();
    client.write_all(&request(method, path, body)).await.unwrap();
    answered(&mut client).await
}

async fn answered(client: &mut UnixStream) -> (u16, Value) {
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.get(9..12).unwrap_or_default().parse().unwrap_or_default();
    (status, serde_json::from_str(body).unwrap_or_default())
}

async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(LONG, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("waited too long for {what}"));
}

#[tokio::test]
async fn what_is_granted_to_a_client_that_can_not_be_told_is_nobodys() {
    served(async |agent, socket| {
        for n in 0..300_u64 {
            let wish = json!({"range": format!("{n:04x}_{:04x}", n + 1), "for_ms": 86_400_000});
            let mut client = UnixStream::connect(socket).await.unwrap();
            client.write_all(&request("POST", "/v1/sections/s/leases", &wish)).await.unwrap();
            // At some moment of the time that the answer takes.
            for _ in 0..n % 30 {
                tokio::task::yield_now().await;
            }
            let client = client.into_std().unwrap();
            client.shutdown(Shutdown::Both).unwrap();
            let mut client = UnixStream::from_std(client).unwrap();
            let (status, told) = answered(&mut client).await;
            if status == 201 {
                let path = format!("/v1/leases/{}", told["id"].as_str().unwrap());
                assert_eq!(asked(socket, "DELETE", &path, &json!({})).await.0, 200);
            }
        }
        wait_until("all to be given back", || agent.held() == 0).await;
        let all = json!({"range": "0000_ffff", "for_ms": 1000, "all": true, "wait_ms": 30_000});
        let (status, told) = asked(socket, "POST", "/v1/sections/s/leases", &all).await;
        assert_eq!(status, 201, "{told}");
        assert_eq!(agent.held(), 1, "what was told is held, also after its connection");
    })
    .await;
}

#[tokio::test]
async fn a_client_that_is_gone_gets_nothing_whatever_it_has_sent_behind_its_request() {
    served(async |_, socket| {
        let pipelined = request("GET", "/healthz", &json!({}));
        for (n, behind) in [&b""[..], b"\r\n", &pipelined].into_iter().enumerate() {
            let key = json!({"key": format!("k{n}")});
            let (_, held) = asked(socket, "POST", "/v1/leases", &key).await;
            let mut gone = UnixStream::connect(socket).await.unwrap();
            let mut waits = key.clone();
            waits["wait_ms"] = json!(86_400_000);
            let request = request("POST", "/v1/leases", &waits);
            gone.write_all(&request).await.unwrap();
            // It waits by now, and nobody reads what comes.
            tokio::time::sleep(Duration::from_millis(50)).await;
            gone.write_all(behind).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            drop(gone);
            tokio::time::sleep(Duration::from_millis(500)).await;
            let path = format!("/v1/leases/{}", held["id"].as_str().unwrap());
            assert_eq!(asked(socket, "DELETE", &path, &json!({})).await.0, 200);
            tokio::time::sleep(Duration::from_millis(50)).await;
            let (status, answer) = asked(socket, "POST", "/v1/leases", &key).await;
            assert_eq!(status, 201, "{n}: {answer}");
        }
    })
    .await;
}
