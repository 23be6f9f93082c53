//! A fleet's metrics, served for Prometheus on loopback.
//!
//! Two workers share eight units. The metrics of both, told apart by the label `worker`, are at
//! `http://127.0.0.1:PORT/metrics` for a scraper; here the program scrapes itself, prints what it got, and ends. With
//! an address of its own it goes on serving until it is stopped.
//!
//! Run it with `cargo run --example fleet_metrics`, or `cargo run --example fleet_metrics -- 127.0.0.1:9000`.

use metrics_exporter_prometheus::PrometheusBuilder;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use tenure::fleet::{Fleet, NewUnit, Verdict};

/// Seconds, from a call on loopback to a wait of minutes; the alarms in ops/ ask for the 1.
const BOUNDS: [f64; 9] = [0.001, 0.005, 0.01, 0.1, 0.5, 1.0, 5.0, 60.0, 300.0];

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

#[tokio::main]
async fn main() -> Result<()> {
    let given = std::env::args().nth(1).map(|address| address.parse()).transpose()?;
    let address: SocketAddr = match given {
        Some(address) => address,
        // One that is free at this instant.
        None => TcpListener::bind("127.0.0.1:0")?.local_addr()?,
    };
    // Before the first worker: what was measured before there is a recorder is gone.
    // Without bounds, histograms are exported as summaries, of which no alarm can be made (ops/README.md).
    PrometheusBuilder::new().set_buckets(&BOUNDS)?.with_http_listener(address).install()?;

    let fleet = Fleet::new(tenure::memory(), "thumbnails")?;
    fleet.create_all((0..8).map(|n| NewUnit::named(format!("shard-{n}")))).await?;
    let workers = [
        fleet.join().ttl(Duration::from_secs(10)).start()?,
        fleet.join().ttl(Duration::from_secs(10)).start()?,
    ];
    let mut running = Vec::new();
    for worker in workers.clone() {
        running.push(tokio::spawn(async move {
            worker
                .run(|unit| async move {
                    unit.cancelled().await;
                    Verdict::Again
                })
                .await;
        }));
    }
    while workers.iter().any(|worker| worker.held().len() != 4) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    if given.is_some() {
        println!("http://{address}/metrics");
        let () = std::future::pending().await;
    }

    // Numbers tell the workers of one process apart.
    let held =
        [0, 1].map(|number| format!("tenure_fleet_held{{fleet=\"thumbnails\",worker=\"{number}\"}} 4"));
    let mut page = String::new();
    // What is held is counted a moment later.
    for _ in 0..1000 {
        page = tokio::task::spawn_blocking(move || scrape(address)).await??;
        if held.iter().all(|line| page.contains(line)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for line in page.lines().filter(|line| line.starts_with("tenure_fleet_")) {
        println!("{line}");
    }
    for line in held {
        assert!(page.lines().any(|found| found == line), "{line} is missing");
    }
    for worker in &workers {
        worker.leave().await;
    }
    for run in running {
        run.await?;
    }
    Ok(())
}

/// What a scraper does.
fn scrape(address: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}
