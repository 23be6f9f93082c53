//! Spans and metrics by OpenTelemetry, with the usual bridges: `tracing-opentelemetry`, and `metrics-exporter-opentelemetry`.
//!
//! What a body does is in the trace of whoever asked for its lease, also where it runs as a task of its own. The exporters here keep all in memory, and
//! the program prints what they got. In a service, exporters of `opentelemetry-otlp` take their place, and nothing else changes. Spans go out in batches, from a
//! thread of the exporter's own: a simple exporter would keep whoever ends a span waiting, and that may be the thread that renews leases.
//!
//! Run it with `cargo run --example opentelemetry --features metrics`.

use metrics::Recorder as _;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use metrics_exporter_opentelemetry::Recorder;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use tenure::Leases;
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

#[tokio::main]
async fn main() -> Result<()> {
    let spans = InMemorySpanExporter::default();
    let traces = SdkTracerProvider::builder().with_batch_exporter(spans.clone()).build();
    tracing_subscriber::registry()
        .with(tracing_opentelemetry::layer().with_tracer(traces.tracer("billing")))
        .init();
    let measured = InMemoryMetricExporter::default();
    let meters = SdkMeterProvider::builder().with_periodic_exporter(measured.clone()).build();
    // Before the first lease: what was measured before there is a recorder is gone.
    let bridge = Recorder::with_meter(meters.meter("billing"));
    metrics::set_global_recorder(Instruments::over(bridge))?;

    let leases = Leases::new(tenure::memory())?;
    let invoices = tracing::info_span!("invoices of the night");
    let invoiced = leases.lock("billing/nightly").with_lease(|lease| async move {
        let charging = tracing::info_span!("charge", fence = lease.fence().0);
        async { tracing::info!("charged") }.instrument(charging).await;
        3
    });
    let invoiced = invoiced.instrument(invoices).await?;
    let kept = leases.acquire("billing/weekly").await?;
    traces.force_flush()?;
    meters.force_flush()?;

    let spans = spans.get_finished_spans()?;
    let named = |name: &str| spans.iter().find(|span| span.name == name).ok_or(format!("no span {name:?}"));
    let (outer, inner) = (named("invoices of the night")?, named("charge")?);
    println!("{invoiced} invoices in the trace {:?}", outer.span_context.trace_id());
    println!("  {:?}, with {:?}", inner.name, events(inner));
    if inner.parent_span_id != outer.span_context.span_id() {
        return Err("the body is not in the span of whoever asked for the lease".into());
    }
    let values = values(&measured.get_finished_metrics()?);
    for name in ["tenure_leases_acquired_total", "tenure_leases_released_total", "tenure_leases_held"] {
        println!("{name} {}", values.get(name).ok_or(format!("no {name}"))?);
    }
    if (values["tenure_leases_acquired_total"], values["tenure_leases_held"]) != (2.0, 1.0) {
        return Err(format!("the metrics say other than what has been: {values:?}").into());
    }
    kept.release().await;
    leases.stop().await;
    Ok(())
}

fn events(span: &SpanData) -> Vec<&str> {
    span.events.iter().map(|event| event.name.as_ref()).collect()
}

/// The sums and gauges that were exported last, over all labels.
fn values(exported: &[ResourceMetrics]) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    let metrics =
        exported.last().into_iter().flat_map(|last| last.scope_metrics()).flat_map(|scope| scope.metrics());
    for metric in metrics {
        let value: f64 = match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                sum.data_points().map(|point| point.value() as f64).sum()
            }
            AggregatedMetrics::F64(MetricData::Gauge(gauge)) => {
                gauge.data_points().map(|point| point.value()).sum()
            }
            _ => continue,
        };
        let one_of_each = values.insert(metric.name().to_owned(), value).is_none();
        assert!(one_of_each, "{} is there twice", metric.name());
    }
    values
}

/// One instrument for each name and labels, always described in the same way. The bridge alone makes a new one for each request, of which only the
/// first is described: gauges that count up and down would forget what they counted, and sums fall apart.
struct Instruments {
    bridge: Recorder,
    said: Mutex<BTreeMap<KeyName, (Option<Unit>, SharedString)>>,
    counters: Mutex<BTreeMap<Key, Counter>>,
    gauges: Mutex<BTreeMap<Key, Gauge>>,
    histograms: Mutex<BTreeMap<Key, Histogram>>,
}

impl Instruments {
    fn over(bridge: Recorder) -> Instruments {
        let (said, counters, gauges, histograms) = Default::default();
        Instruments { bridge, said, counters, gauges, histograms }
    }

    fn say(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(name, (unit, text));
    }

    /// The one of this key, or what the bridge makes once it was told what it is.
    fn one<I: Clone>(
        &self,
        known: &Mutex<BTreeMap<Key, I>>,
        key: &Key,
        make: impl FnOnce(&Recorder) -> I,
    ) -> I {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let made = known.entry(key.clone()).or_insert_with(|| {
            let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((name, (unit, text))) = said.get_key_value(key.name()) {
                // It keeps one description for a name, whatever the kind.
                self.bridge.describe_counter(name.clone(), *unit, text.clone());
            }
            make(&self.bridge)
        });
        made.clone()
    }
}

impl metrics::Recorder for Instruments {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.say(name, unit, text);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.say(name, unit, text);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.say(name, unit, text);
    }

    fn register_counter(&self, key: &Key, from: &Metadata<'_>) -> Counter {
        self.one(&self.counters, key, |bridge| bridge.register_counter(key, from))
    }

    fn register_gauge(&self, key: &Key, from: &Metadata<'_>) -> Gauge {
        self.one(&self.gauges, key, |bridge| bridge.register_gauge(key, from))
    }

    fn register_histogram(&self, key: &Key, from: &Metadata<'_>) -> Histogram {
        self.one(&self.histograms, key, |bridge| bridge.register_histogram(key, from))
    }
}
