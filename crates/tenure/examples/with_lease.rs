//! A body that ends before its lease does: it is told to stop when the lease is withdrawn, finishes what it is at, and only
//! then does the lease go to the next. Run it with `cargo run --example with_lease`.

use std::time::Duration;
use tenure::{BodyError, Leases, Request};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = tenure::memory();
    let (worker, operator) = (Leases::new(store.clone())?, Leases::new(store)?);

    let (begun, begins) = tokio::sync::oneshot::channel();
    let job = worker.lock("reports/nightly").ttl(Duration::from_secs(5));
    let running = tokio::spawn(job.with_lease(|held| async move {
        let _heard = begun.send(());
        let mut pages = 0;
        while !held.cancelled().is_cancelled() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            pages += 1;
        }
        println!("told to stop after {pages} pages, with {:?} left to finish", held.remaining());
        pages
    }));

    begins.await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    operator.request("reports/nightly", Request::Revoke).await?;
    let next = operator.acquire("reports/nightly").await?;
    println!("the operator has it now, with fence {}", next.fence());
    match running.await? {
        Err(BodyError::Interrupted { why, value }) => {
            println!("the job ended first: {why:?}, {value:?} pages")
        }
        other => return Err(format!("the job was not interrupted: {other:?}").into()),
    }
    next.release().await;
    Ok(())
}
