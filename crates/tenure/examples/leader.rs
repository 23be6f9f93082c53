//! A leader from its start to Ctrl-C: it works while it leads, stands by while another does, and lets the next one lead at once when it
//! is stopped. Run it with `cargo run --example leader`; without Ctrl-C it stops after a second, so that it can be run as a test.

use std::time::Duration;
use tenure::{AcquireError, BodyError, Candidate, Held};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // In earnest, a store that all processes reach, as in `tenure::open("postgres://app@db/app?schema=leases")`.
    let candidate = Candidate::builder(tenure::memory()).key("scheduler").start()?;
    let leading = tokio::spawn(lead(candidate.clone()));
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed?,
        () = tokio::time::sleep(Duration::from_secs(1)) => {}
    }
    // The body is told to end, and then the key is free.
    candidate.stop().await;
    let terms = leading.await??;
    println!("led {terms} times");
    assert!(terms > 0);
    Ok(())
}

/// Works in each term, until the candidate is stopped. How often it led.
async fn lead(candidate: Candidate) -> Result<u32, BodyError<()>> {
    let mut terms = 0;
    loop {
        match candidate.run_while_leader(work).await {
            // The body has returned by itself, which this one never does: it would lead on, and begin again at once.
            Ok(()) => {}
            Err(BodyError::Interrupted { why, .. }) => {
                terms += 1;
                println!("leads no more: {why}");
            }
            Err(BodyError::Acquire(AcquireError::Stopped)) => return Ok(terms),
            Err(error) => return Err(error),
        }
    }
}

async fn work(held: Held) {
    println!("leads with fence {}", held.fence());
    let mut pieces = tokio::time::interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            () = held.cancelled() => return,
            _ = pieces.tick() => println!("works under fence {}", held.fence()),
        }
    }
}
