//! How long a key is without a holder when its holder is killed on a host that lives on: `tenure run`, and a client of the agent that
//! works alone. Its watchdogs, or the agent, see its end and give the key back; the ttl does not count.
//!
//! `cargo xtask bench given_back` starts PostgreSQL and etcd, and measures on SQLite and on these; `TENURE_KILLS` sets how often (100). With `TENURE_STORE` it
//! is that store alone, on keys that begin with `given-back/`. The waiter waits in this process, and is told by the store's push.
#![allow(missing_docs, reason = "a program")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tenure::registry::{Opening, Registry};
use tenure::{AnyStore, Leases};
use tenure_bench::command_line::build_with;
use tenure_bench::{Trouble, percentile, stopwatch};

const TTL: Duration = Duration::from_secs(10);
/// For how long a key is held and waited for before its holder is killed.
const SETTLES: Duration = Duration::from_millis(300);

fn main() -> Result<(), Trouble> {
    let args: Vec<String> = std::env::args().collect();
    if let [_, role, socket, key] = args.as_slice()
        && role == "client"
    {
        return client(Path::new(socket), key);
    }
    let kills: u32 = std::env::var("TENURE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(100);
    let program = build_with(&["--features", "all-stores"])?;
    if let Ok(url) = std::env::var("TENURE_STORE") {
        return measure(&program, &url, kills);
    }
    let dir = tempfile::tempdir()?;
    let server = |name: &str| {
        std::env::var(name).map_err(|_| format!("{name} is not set: cargo xtask bench given_back starts it"))
    };
    let own = format!("given_back_{}", std::process::id());
    let postgres = server("TENURE_TEST_POSTGRES")?;
    let join = if postgres.contains('?') { '&' } else { '?' };
    for url in [
        format!("sqlite:{}", dir.path().join("leases.db").display()),
        format!("{postgres}{join}schema={own}"),
        format!("{}/{own}", server("TENURE_TEST_ETCD")?),
    ] {
        measure(&program, &url, kills)?;
    }
    Ok(())
}

fn measure(program: &Path, url: &str, kills: u32) -> Result<(), Trouble> {
    let dir = tempfile::tempdir()?;
    let kind = url.split(':').next().unwrap_or_default();
    println!(
        "kill -9 of a holder on {kind}, ttl {TTL:?}, {kills} kills each: until the next one has its key, in ms"
    );
    println!("{:>28} {:>8} {:>8} {:>8} {:>8}", "", "min", "p50", "p99", "max");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let tenure = |arguments: &[&str]| {
        let mut command = Command::new(program);
        // A URL may hold a password, and arguments are seen by all.
        command
            .args(arguments)
            .env("TENURE_STORE", url)
            .env("TENURE_CONFIG", "/dev/null")
            .stdin(Stdio::null());
        command
    };
    runtime.block_on(open(url))?;
    let socket = dir.path().join("agent.sock");
    let listen = format!("unix:{}", socket.display());
    let mut agent = tenure(&["serve", "--listen", &listen, "--ttl", "10s"]).stderr(Stdio::null()).spawn()?;
    while UnixStream::connect(&socket).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let script = "echo held; exec sleep 600";
    let run = |key: &str| tenure(&["run", key, "--ttl", "10s", "--", "sh", "-c", script]);
    let of_agent = |key: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap_or_default());
        command.arg("client").arg(&socket).arg(key);
        command
    };
    let holders: [(&str, Holder<'_>); 2] = [("`tenure run`", &run), ("a client of the agent", &of_agent)];
    for (name, holder) in holders {
        let mut times = Vec::new();
        for n in 0..kills {
            let key = format!("given-back/{n}");
            let held = held(&mut holder(&key))?;
            times.push(runtime.block_on(episode(url, &key, held))?);
        }
        let mut share = |percent| percentile(&mut times, percent).as_secs_f64() * 1e3;
        println!("{name:>28} {:>8.1} {:>8.1} {:>8.1} {:>8.1}", share(0), share(50), share(99), share(100));
    }
    agent.kill()?;
    agent.wait()?;
    Ok(())
}

/// What holds a key.
type Holder<'h> = &'h dyn Fn(&str) -> Command;

/// A process that has said that it holds its key.
fn held(command: &mut Command) -> Result<Child, Trouble> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let said = child.stdout.take().ok_or("no pipe")?;
    let line = BufReader::new(said).lines().next().ok_or("the holder has died")??;
    if line == "held" { Ok(child) } else { Err(format!("the holder said {line:?}").into()) }
}

async fn open(url: &str) -> Result<AnyStore, Trouble> {
    let opening = Opening::default().create_table(!url.starts_with("sqlite:"));
    Ok(Registry::standard().open(url, opening).await?)
}

/// Waits for the key, kills its holder, and tells how long it took from the kill to the lease.
async fn episode(url: &str, key: &str, mut holder: Child) -> Result<Duration, Trouble> {
    let leases = Leases::builder(open(url).await?).session_ttl(TTL).start()?;
    let (waiter, wanted) = (leases.clone(), key.to_owned());
    let acquiring = tokio::spawn(async move { waiter.lock(wanted).ttl(TTL).acquire().await });
    tokio::time::sleep(SETTLES).await;
    holder.kill()?;
    let after = stopwatch();
    let guard = acquiring.await??;
    let took = after();
    holder.wait()?;
    guard.release().await;
    leases.stop().await;
    Ok(took)
}

/// A client that works alone: takes the lease, and beats no more, since it is killed long before its deadline.
fn client(socket: &Path, key: &str) -> Result<(), Trouble> {
    let mut stream = UnixStream::connect(socket)?;
    let body = format!("{{\"key\": \"{key}\", \"on_exit\": \"release\"}}");
    let length = body.len();
    write!(
        stream,
        "POST /v1/leases HTTP/1.1\r\nhost: tenure\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = BufReader::new(&stream);
    let mut line = String::new();
    answer.read_line(&mut line)?;
    if !line.starts_with("HTTP/1.1 201") {
        return Err(line.into());
    }
    println!("held");
    // Until it is killed, or the agent ends.
    answer.read_to_end(&mut Vec::new())?;
    Ok(())
}
