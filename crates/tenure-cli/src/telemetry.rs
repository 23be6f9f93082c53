//! Logs and metrics of this process.

use crate::args::telemetry::{LogFormat, TelemetryArgs};
use crate::exit::{Failure, INTERNAL};
use crate::output;
use crate::text::escaped;
use std::{fmt, io};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

/// Begins to log, if that was asked for, or `unasked` is a filter.
pub(crate) fn log(typed: &TelemetryArgs, unasked: &str) -> Result<(), Failure> {
    let filter = typed.log.as_deref().unwrap_or(unasked);
    let filter: String = filter.split_whitespace().collect();
    if filter.is_empty() {
        return Ok(());
    }
    let wrong = |why: String| {
        let filter = escaped(&filter);
        Failure::usage(format!(
            "--log {filter}: {why}; write a level, as in info, or warn,tenure::lease=debug"
        ))
    };
    // It would be a part of that name, of which nothing is ever logged.
    let is_no_level = |word: &&str| !word.contains('=') && word.parse::<LevelFilter>().is_err();
    if let Some(word) = filter.split(',').find(is_no_level) {
        let levels = "off, error, warn, info, debug and trace";
        return Err(wrong(format!("{} is none of the levels {levels}", escaped(word))));
    }
    let filter: Targets = filter.parse().map_err(|error| wrong(format!("{error}")))?;
    output::tell_by_thread()?;
    let lines = layer().with_writer(|| LogEvents).with_ansi(false);
    let format = typed.log_format;
    let lines = match format {
        LogFormat::Text => lines.map_event_format(|lines| WithName { lines, format }).boxed(),
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true);
            lines.map_event_format(|lines| WithName { lines, format }).boxed()
        }
    };
    let all = tracing_subscriber::registry().with(lines.with_filter(filter));
    tracing::subscriber::set_global_default(all).map_err(|error| Failure::new(INTERNAL, error.to_string()))
}

/// Lines that end with the name of their event, by which pages and alarms call it.
struct WithName<F> {
    lines: F,
    format: LogFormat,
}

impl<S, N, F> FormatEvent<S, N> for WithName<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.lines.format_event(context, Writer::new(&mut line), event)?;
        let name = event.metadata().name();
        // One that was given none is named after its place in the source.
        if name.starts_with("event ") {
            return writer.write_str(&line);
        }
        let line = line.trim_end_matches('\n');
        match (self.format, line.strip_suffix('}')) {
            (LogFormat::Json, Some(open)) => {
                writeln!(writer, "{open},\"event_name\":{}}}", serde_json::Value::from(name))
            }
            _ => writeln!(writer, "{line} event_name={name}"),
        }
    }
}

/// Events on their way to standard error. Threads that renew leases log, too, and must not wait for who reads that.
struct LogEvents;

impl io::Write for LogEvents {
    /// One event, as the layer writes each in one piece.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        output::log(String::from_utf8_lossy(event).into_owned());
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How often this process has led: `tenure elect` holds a plain lease, of which the library does not know what it is for.
#[cfg(feature = "serve")]
pub(crate) mod leaderships {
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A term is under way, and its end is not counted yet. One process has one at a time.
    static LEADS: AtomicBool = AtomicBool::new(false);

    /// How a term of the command line's ends, as the library's do.
    const CAUSES: [&str; 4] = ["resigned", "stopping", "asked", "lost"];

    /// They are there from the start, as nobody sees a counter rise that begins with its first event.
    pub(crate) fn start() {
        metrics::counter!("tenure_leaderships_begun_total").increment(0);
        CAUSES.iter().for_each(|cause| add(cause, 0));
    }

    pub(crate) fn begun() {
        LEADS.store(true, Ordering::SeqCst);
        metrics::counter!("tenure_leaderships_begun_total").increment(1);
    }

    /// One of the causes. Nothing is counted without a term, or twice of one.
    pub(crate) fn ended(cause: &'static str) {
        if LEADS.swap(false, Ordering::SeqCst) {
            add(cause, 1);
        }
    }

    fn add(cause: &'static str, by: u64) {
        metrics::counter!("tenure_leaderships_ended_total", "cause" => cause).increment(by);
    }
}

/// Nothing is measured in this build.
#[cfg(not(feature = "serve"))]
pub(crate) mod leaderships {
    pub(crate) fn start() {}
    pub(crate) fn begun() {}
    pub(crate) fn ended(_: &'static str) {}
}

#[cfg(feature = "serve")]
pub(crate) use on::{AddressFrom, record, serve};

#[cfg(feature = "serve")]
mod on {
    use crate::exit::{Failure, INTERNAL};
    use crate::output;
    use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
    use std::net::SocketAddr;
    use std::sync::{Arc, OnceLock};
    use std::time::Duration;
    use tenure_agent::{MetricsServer, Scrape};

    /// Bounds of the histograms, in seconds: from a call on loopback to a wait of minutes.
    const BOUNDS: [f64; 13] =
        [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0];

    /// Records metrics from now on, once for the process. Inside a runtime.
    pub(crate) fn record() -> Result<Scrape, Failure> {
        static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
        let failed = |error: String| Failure::new(INTERNAL, error);
        if HANDLE.get().is_none() {
            let builder = PrometheusBuilder::new().set_buckets(&BOUNDS);
            let recorder = builder.map_err(|error| failed(error.to_string()))?.build_recorder();
            let handle = recorder.handle();
            metrics::set_global_recorder(recorder).map_err(|error| failed(error.to_string()))?;
            let upkeep = handle.clone();
            tokio::spawn(async move {
                // What was measured and not asked for is summed up, so that it does not pile up.
                loop {
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    upkeep.run_upkeep();
                }
            });
            // Nobody else has set it meanwhile: this is the main thread.
            let _ = HANDLE.set(handle);
        }
        let handle = HANDLE.get().cloned().ok_or_else(|| failed("metrics are not recorded".to_owned()))?;
        Ok(Arc::new(move || handle.render()))
    }

    /// Where the address comes from.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum AddressFrom {
        /// It is meant for this process.
        Option,
        /// Whoever was started with the same environment has the same address, and one of them can have it.
        Variable,
    }

    /// Records metrics, and serves them in the background. By the variable, only a verb that `stays` does, and if it can.
    /// `unmeasured` names a dialect of which there are none: an empty page would look healthy.
    pub(crate) async fn serve(
        address: SocketAddr,
        from: AddressFrom,
        stays: bool,
        unmeasured: Option<&str>,
    ) -> Result<(), Failure> {
        if from == AddressFrom::Variable && !stays {
            return Ok(());
        }
        if let Some(dialect) = unmeasured {
            let text = format!("nothing is measured on a table with {dialect}");
            if from == AddressFrom::Option {
                return Err(Failure::usage(format!("--metrics: {text}; leave it out, and see --log info")));
            }
            output::note(format!("TENURE_METRICS: {text}; this process serves no metrics"));
            return Ok(());
        }
        let server = match MetricsServer::open(address).await {
            Ok(server) => server,
            Err(error) if from == AddressFrom::Variable => {
                output::note(format!("TENURE_METRICS: {error}; this process serves no metrics"));
                return Ok(());
            }
            Err(error) => return Err(Failure::usage(format!("--metrics {error}"))),
        };
        let scrape = record()?;
        output::tell(format!("metrics at {server}"));
        tokio::spawn(async move { server.serve(scrape).await });
        Ok(())
    }
}
