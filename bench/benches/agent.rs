//! The lease agent: pairs of acquire and release by its Unix socket, beside the library in process and beside the lock of etcd's gateway,
//! which speaks JSON over HTTP, too; and what many leases of many clients cost at rest.
//!
//! `cargo xtask bench agent` starts etcd; `TENURE_BENCH_MS` says for how long each of a cell's rounds runs. A client has one connection, over
//! which one request follows the other. Loss that is told in time is what `s9_rounds` tests, and `given_back` measures the end of clients.
#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench may fail")]

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tenure::registry::{Opening, Registry};
use tenure::{AnyStore, Leases};
use tenure_bench::command_line::build_with;
use tenure_bench::pairs::{PairMaker, pair, table};
use tenure_bench::{cpu_time_of, is_bench, span, stopwatch};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Mutex;

const MOST: usize = 32;
const TTL: &str = "10s";

#[tokio::main]
async fn main() {
    let span = span(Duration::from_secs(1)).unwrap();
    let etcd = std::env::var("TENURE_TEST_ETCD").expect("cargo xtask bench agent starts etcd");
    let program = build_with(&["--features", "all-stores"]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| format!("sqlite:{}", dir.path().join(name).display());
    let on_etcd = format!("{etcd}/bench-{}", std::process::id());
    let leases = Leases::new(open(&file("library.db")).await).unwrap();
    leases.begin_session();
    open(&file("agent.db")).await;
    let sockets = [dir.path().join("agent.sock"), dir.path().join("etcd.sock")];
    let mut agents =
        [start(&program, &file("agent.db"), &sockets[0]).await, start(&program, &on_etcd, &sockets[1]).await];
    let gateway = etcd.trim_start_matches("etcd://").split(',').next().unwrap_or_default().to_owned();
    let (first, second) = (Clients::of_agent(&sockets[0]).await, Clients::of_agent(&sockets[1]).await);
    let theirs = Arc::new(Gateway::new(&gateway).await);
    let mut contenders = [
        ("the library in process, SQLite", PairMaker::leases(leases.clone())),
        ("the agent, SQLite", PairMaker::Here(pair(move |task| Arc::clone(&first).pair(task)))),
        ("the agent, etcd", PairMaker::Here(pair(move |task| Arc::clone(&second).pair(task)))),
        ("the lock of etcd's gateway", PairMaker::Here(pair(move |task| Arc::clone(&theirs).pair(task)))),
    ];
    table(&mut contenders, span).await.unwrap();
    leases.stop().await;
    let (clients, each) = if is_bench() { (100, 100) } else { (4, 4) };
    at_rest(&sockets[0], &agents[0], clients, each).await;
    for agent in &mut agents {
        agent.kill().unwrap();
        agent.wait().unwrap();
    }
}

async fn open(url: &str) -> AnyStore {
    Registry::standard().open(url, Opening::default()).await.unwrap()
}

async fn start(program: &Path, url: &str, socket: &Path) -> Child {
    let listen = format!("unix:{}", socket.display());
    let mut command = Command::new(program);
    command
        .args(["serve", "--listen", &listen, "--ttl", TTL])
        .env("TENURE_STORE", url)
        .env("TENURE_CONFIG", "/dev/null");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    while UnixStream::connect(socket).await.is_err() {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "{program:?} on {url} has ended: {ended:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    child
}

/// One connection, by which one request follows the other.
struct Http<S>(BufReader<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Http<S> {
    async fn ask(&mut self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        self.0.write_all((head + &body).as_bytes()).await.unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("an answer");
        let mut length = 0;
        loop {
            line.clear();
            self.0.read_line(&mut line).await.unwrap();
            let header = line.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(told) = header.strip_prefix("content-length:") {
                length = told.trim().parse().unwrap();
            }
        }
        let mut answer = vec![0; length];
        self.0.read_exact(&mut answer).await.unwrap();
        (status, String::from_utf8(answer).unwrap())
    }

    async fn post(&mut self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask("POST", path, body).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        serde_json::from_str(&answer).unwrap()
    }
}

async fn connect(socket: &Path) -> Http<UnixStream> {
    Http(BufReader::new(UnixStream::connect(socket).await.unwrap()))
}

/// Clients of an agent, each with a key of its own.
struct Clients(Vec<Mutex<Http<UnixStream>>>);

impl Clients {
    async fn of_agent(socket: &Path) -> Arc<Clients> {
        let mut all = Vec::new();
        for _ in 0..MOST {
            all.push(Mutex::new(connect(socket).await));
        }
        Arc::new(Clients(all))
    }

    async fn pair(self: Arc<Self>, task: usize) {
        let mut client = self.0[task].lock().await;
        let told = client.post("/v1/leases", &json!({ "key": format!("task/{task}") })).await;
        let path = format!("/v1/leases/{}", told["id"].as_str().unwrap());
        let (status, answer) = client.ask("DELETE", &path, &Value::Null).await;
        assert_eq!(status, 200, "{answer}");
    }
}

/// Clients of etcd's gateway, each with a lease and a name of its own. Names and keys go in base64.
struct Gateway(Vec<Mutex<(Http<TcpStream>, Value)>>);

impl Gateway {
    async fn new(address: &str) -> Gateway {
        let mut all = Vec::new();
        for _ in 0..MOST {
            let stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut http = Http(BufReader::new(stream));
            let lease = http.post("/v3/lease/grant", &json!({ "TTL": 600 })).await["ID"].clone();
            all.push(Mutex::new((http, lease)));
        }
        Gateway(all)
    }

    async fn pair(self: Arc<Self>, task: usize) {
        let (http, lease) = &mut *self.0[task].lock().await;
        // Eight letters and digits are base64 as they stand, of some name of six bytes.
        let name = format!("bench{task:03}");
        let locked = http.post("/v3/lock/lock", &json!({ "name": name, "lease": lease })).await;
        http.post("/v3/lock/unlock", &json!({ "key": locked["key"] })).await;
    }
}

/// What clients that hold many leases cost: each beats for all of its own in time.
async fn at_rest(socket: &Path, agent: &Child, clients: usize, each: usize) {
    const SPAN: Duration = Duration::from_secs(20);
    let mut beating = Vec::new();
    for client in 0..clients {
        let mut http = connect(socket).await;
        let mut ids = Vec::new();
        for n in 0..each {
            let told = http.post("/v1/leases", &json!({ "key": format!("rest/{client}/{n}") })).await;
            ids.push(told["id"].clone());
        }
        let mut held = http.post("/v1/beats", &json!({ "ids": ids })).await;
        beating.push(tokio::spawn(async move {
            loop {
                let beats = held["leases"].as_array().unwrap_or_else(|| panic!("{held}"));
                assert!(beats.iter().all(|told| told["good_for_ms"].is_u64()), "one is lost: {held}");
                let soon = beats.iter().filter_map(|told| told["beat_in_ms"].as_u64()).min().unwrap_or(100);
                tokio::time::sleep(Duration::from_millis(soon)).await;
                held = http.post("/v1/beats", &json!({ "ids": ids })).await;
            }
        }));
    }
    let process = agent.id().to_string();
    let mut http = connect(socket).await;
    let span = if is_bench() { SPAN } else { Duration::from_millis(100) };
    let (before, cpu, time) = (writes(&mut http).await, cpu_time_of(&process), stopwatch());
    tokio::time::sleep(span).await;
    let (took, cpu) = (time(), cpu_time_of(&process).saturating_sub(cpu));
    let made = writes(&mut http).await - before;
    assert!(beating.iter().all(|beating| !beating.is_finished()), "a client has lost a lease");
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("?").trim();
    println!(
        "\n{} leases of {clients} clients, ttl {TTL}, at rest for {took:.0?}: {made} writes to the store, {:.1} % of a core, {memory}",
        clients * each,
        100.0 * cpu.as_secs_f64() / took.as_secs_f64()
    );
    beating.iter().for_each(tokio::task::JoinHandle::abort);
}

/// How many the agent has made, by its metrics.
async fn writes(http: &mut Http<UnixStream>) -> u64 {
    let (_, metrics) = http.ask("GET", "/metrics", &Value::Null).await;
    let calls = metrics.lines().filter(|line| line.starts_with("tenure_store_call_seconds_count"));
    let writes = calls.filter(|line| line.contains("operation=\"write"));
    writes.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}
