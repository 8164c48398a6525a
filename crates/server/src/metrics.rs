//! Numbers for operators, in the format of Prometheus.
//!
//! Each server has its own recorder, so that several roles can run in one process. Handles are
//! created once: counting on the hot path is one atomic addition. No label names a task or a peer.
//! The metrics themselves are in [`table`].

#[cfg(test)]
mod alerts;
#[cfg(test)]
mod pages;
pub(crate) mod table;

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use sotto_protocol::{Fault, Rejection, Rejections};

use self::table::Metric;
use crate::environment::instant;

const METADATA: Metadata<'static> =
    Metadata::new("sotto_server", Level::INFO, Some(module_path!()));

/// Upper bounds of the buckets of durations, in seconds.
const DURATIONS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Creates handles and renders what they have counted.
pub(crate) struct MetricsRegistry {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
}

impl MetricsRegistry {
    pub(crate) fn new() -> Result<Self, Fault> {
        let recorder = PrometheusBuilder::new()
            .set_buckets(DURATIONS)
            .map_err(|error| Fault(error.to_string()))?
            .build_recorder();
        let handle = recorder.handle();
        Ok(Self { recorder, handle })
    }

    /// The text of `/metrics`.
    pub(crate) fn render(&self) -> String {
        self.handle.render()
    }

    /// Folds samples of histograms together. Otherwise they would pile up until the next scrape.
    pub(crate) fn upkeep(&self) {
        self.handle.run_upkeep();
    }

    pub(crate) fn counter(&self, metric: &Metric) -> Counter {
        self.describe_counter(metric);
        self.recorder.register_counter(&Key::from_static_name(metric.name), &METADATA)
    }

    pub(crate) fn gauge(&self, metric: &Metric) -> Gauge {
        self.describe_gauge(metric);
        self.recorder.register_gauge(&Key::from_static_name(metric.name), &METADATA)
    }

    /// Says which program this is.
    pub(crate) fn build_info(&self) {
        self.describe_gauge(&table::BUILD_INFO);
        let key = key(&table::BUILD_INFO, &[env!("CARGO_PKG_VERSION")]);
        self.recorder.register_gauge(&key, &METADATA).set(1.0);
    }

    fn describe_counter(&self, metric: &Metric) {
        self.recorder.describe_counter(metric.name.into(), None, metric.help.into());
    }

    fn describe_gauge(&self, metric: &Metric) {
        self.recorder.describe_gauge(metric.name.into(), None, metric.help.into());
    }

    fn labelled_counter(&self, metric: &Metric, values: &[&'static str]) -> Counter {
        self.recorder.register_counter(&key(metric, values), &METADATA)
    }

    /// One counter for each value of the metric's label.
    pub(crate) fn counters<const N: usize>(
        &self,
        metric: &Metric,
        values: [&'static str; N],
    ) -> [Counter; N] {
        self.describe_counter(metric);
        values.map(|value| self.labelled_counter(metric, &[value]))
    }

    /// One counter for each value of the metric's label, found by the value.
    pub(crate) fn by_name(
        &self,
        metric: &Metric,
        values: impl IntoIterator<Item = &'static str>,
    ) -> CountersByName {
        self.describe_counter(metric);
        let counter = |value| (value, self.labelled_counter(metric, &[value]));
        CountersByName(values.into_iter().map(counter).collect())
    }

    /// A counter for each reason to refuse a report.
    pub(crate) fn rejections(&self, metric: &Metric) -> CountersByName {
        self.by_name(metric, Rejection::ALL.map(Rejection::name))
    }

    /// Measures the requests that a handler answers.
    pub(crate) fn measured<H>(&self, route: &'static str, handler: H) -> Measured<H> {
        Measured { handler, metrics: Arc::new(self.route(route)) }
    }

    fn route(&self, route: &'static str) -> RouteMetrics {
        let (requests, duration) = (&table::HTTP_REQUESTS, &table::HTTP_DURATION);
        self.describe_counter(requests);
        self.recorder.describe_histogram(duration.name.into(), None, duration.help.into());
        let class = |class| self.labelled_counter(requests, &[route, class]);
        let duration = key(duration, &[route]);
        RouteMetrics {
            classes: ["2xx", "4xx", "5xx"].map(class),
            duration: self.recorder.register_histogram(&duration, &METADATA),
        }
    }
}

/// A metric with these values of its labels.
fn key(metric: &Metric, values: &[&'static str]) -> Key {
    let labels = metric.labels.iter().zip(values);
    let labels: Vec<_> =
        labels.map(|(name, value)| Label::from_static_parts(name, value)).collect();
    Key::from_parts(metric.name, labels)
}

/// A role, as the documents of metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Leader,
    Helper,
    Log,
    Witness,
    Relay,
    Gateway,
    Attester,
    Issuer,
}

/// Counters that differ in the value of one label.
pub(crate) struct CountersByName(Vec<(&'static str, Counter)>);

impl CountersByName {
    pub(crate) fn add(&self, name: &str, count: u64) {
        if let Some((_, counter)) = self.0.iter().find(|(known, _)| *known == name) {
            counter.increment(count);
        }
    }

    pub(crate) fn add_all(&self, rejections: &Rejections) {
        for (reason, count) in rejections.iter() {
            self.add(reason.name(), count);
        }
    }
}

/// A handler whose requests are measured.
#[derive(Clone)]
pub(crate) struct Measured<H> {
    handler: H,
    metrics: Arc<RouteMetrics>,
}

impl<H: Handler<T, S>, T: 'static, S: Send + 'static> Handler<T, S> for Measured<H> {
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: Request, state: S) -> Self::Future {
        Box::pin(async move {
            let start = instant();
            let response = self.handler.call(request, state).await;
            let seconds = (instant() - start).as_secs_f64();
            self.metrics.observe(response.status().as_u16(), seconds);
            response
        })
    }
}

/// The metrics of the requests to one resource.
struct RouteMetrics {
    classes: [Counter; 3],
    duration: Histogram,
}

impl RouteMetrics {
    fn observe(&self, status: u16, seconds: f64) {
        let [success, refused, failed] = &self.classes;
        match status {
            ..400 => success,
            400..500 => refused,
            500.. => failed,
        }
        .increment(1);
        self.duration.record(seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries_are_apart_and_render_what_was_counted() {
        let (one, other) = (MetricsRegistry::new().unwrap(), MetricsRegistry::new().unwrap());
        let counter = one.counter(&table::REPORTS_ACCEPTED);
        counter.increment(3);
        let refused = one.rejections(&table::REPORTS_REJECTED);
        refused.add(Rejection::ReportReplayed.name(), 1);
        one.route("upload").observe(204, 0.002);
        one.upkeep();
        let text = one.render();
        assert!(text.contains("sotto_reports_accepted_total 3"), "{text}");
        let line = r#"sotto_reports_rejected_total{reason="report_replayed"} 1"#;
        assert!(text.contains(line), "{text}");
        assert!(text.contains(r#"sotto_http_requests_total{route="upload",status="2xx"} 1"#));
        assert!(
            text.contains(r#"duration_seconds_bucket{route="upload",le="0.0025"} 1"#),
            "{text}"
        );
        assert!(!other.render().contains("accepted"));
    }
}
