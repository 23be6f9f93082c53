//! A lease as plain data: one process gets it, another goes on with it. Run it with `cargo run --example pass_on`.

use tenure::{LeaseToken, Leases};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = tenure::memory();
    let (first, second) = (Leases::new(store.clone())?, Leases::new(store)?);

    let guard = first.acquire("upload/42").await?;
    let fence = guard.fence();
    let text = serde_json::to_string(&guard.into_token().await?)?;
    println!("passed on as {} bytes of JSON", text.len());

    // In a queue's message, say, to another machine:
    let token: LeaseToken = serde_json::from_str(&text)?;
    let guard = second.adopt(&token).await?;
    println!("{} goes on with fence {}", second.holder(), guard.fence());
    assert_eq!(guard.fence(), fence);
    assert!(guard.release().await);
    Ok(())
}
