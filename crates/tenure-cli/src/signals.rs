//! The user's signals: the first asks for a clean stop, the second for one at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// INT, TERM and HUP, those of them that were not ignored when we were started (as nohup and `&` in scripts do).
pub(crate) struct Signals {
    streams: Vec<(i32, Signal)>,
}

impl Signals {
    pub(crate) fn listen() -> std::io::Result<Signals> {
        let ignored = ignored();
        let mut streams = Vec::new();
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            let number = kind.as_raw_value();
            if ignored & (1 << (number - 1)) == 0 {
                streams.push((number, signal(kind)?));
            }
        }
        Ok(Signals { streams })
    }

    /// The next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> i32 {
        std::future::poll_fn(|context| {
            for (number, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*number);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// The signals that were ignored when we were started, one bit each; none where the system doesn't tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// What a signal is called.
pub(crate) fn name(number: i32) -> &'static str {
    nix::sys::signal::Signal::try_from(number).map_or("a signal", nix::sys::signal::Signal::as_str)
}
