//! Metrics of requests to engines.

use std::time::Duration;

use controller_kit::metrics::Metrics;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
};

use crate::engine::{Outcome, Request};

/// Upper bounds of the histogram, in seconds. Loading an adapter includes its download.
const BUCKETS: [f64; 10] = [0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 300.0];

/// Metrics of requests to engines. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EngineMetrics {
    requests: Family<RequestLabels, Counter>,
    duration: Family<OperationLabels, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    operation: String,
    result: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: String,
}

impl EngineMetrics {
    /// Adds the families to the registry of the process.
    pub fn register(metrics: &Metrics) -> Self {
        let own = Self {
            requests: Family::default(),
            duration: Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram),
        };
        metrics.register(|registry| {
            registry.register(
                "model_engine_requests",
                "Requests to inference engines about adapters, by what came of them",
                own.requests.clone(),
            );
            registry.register(
                "model_engine_request_duration_seconds",
                "Time until an engine answered",
                own.duration.clone(),
            );
        });
        own
    }

    /// Counts one request.
    pub fn request_finished(&self, request: &Request, outcome: &Outcome, took: Duration) {
        let operation = match request {
            Request::List { .. } => "list",
            Request::Load { .. } => "load",
            Request::Unload { .. } => "unload",
        };
        let result = match outcome {
            Outcome::Done | Outcome::Listed { .. } => "done",
            Outcome::NoList | Outcome::NotThere => "not_found",
            Outcome::Unmanaged => "unmanaged",
            Outcome::Refused { .. } => "refused",
            Outcome::Unreachable { .. } => "unreachable",
            Outcome::TimedOut => "timeout",
        };
        let labels = RequestLabels { operation: operation.to_owned(), result: result.to_owned() };
        self.requests.get_or_create(&labels).inc();
        let labels = OperationLabels { operation: operation.to_owned() };
        self.duration.get_or_create(&labels).observe(took.as_secs_f64());
    }
}
