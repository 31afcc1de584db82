//! Figures about requests, in the families of the reference's dashboards, and about conversions.

use std::time::Duration;

use controller_kit::metrics::Metrics;
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};

use crate::admission::{AdmissionPath, Answer, Operation};

/// Upper bounds in seconds. The budget for an admission is 3 ms, for an object's conversion 0.1 ms.
const BUCKETS: [f64; 14] = [0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0];

/// Name and value.
type Label = (&'static str, &'static str);

/// Counts requests and answers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RequestMetrics {
    duration: Family<[Label; 2], Histogram, fn() -> Histogram>,
    requests: Family<[Label; 3], Counter>,
    denials: Family<[Label; 3], Counter>,
    conversion: Histogram,
    objects: Counter,
    failures: Counter,
}

impl RequestMetrics {
    /// Registers the families.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let this = Self {
            duration: Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram),
            requests: Family::default(),
            denials: Family::default(),
            conversion: Histogram::new(BUCKETS),
            objects: Counter::default(),
            failures: Counter::default(),
        };
        let own = this.clone();
        metrics.register(|registry| {
            // Counters get `_total` appended when they are written out.
            registry.register("webhook_duration_seconds", "Time one admission took", own.duration);
            registry.register("webhook_requests", "Admissions, by how they ended", own.requests);
            registry.register("webhook_denials", "Refused admissions, by reason", own.denials);
            registry.register("conversion_duration_seconds", "Time one conversion request took", own.conversion);
            registry.register("conversion_objects", "Converted objects", own.objects);
            registry.register("conversion_failures", "Conversion requests that failed", own.failures);
        });
        this
    }

    /// Counts an admission. It goes by its path, of which there are few: what a request says of its kind may be
    /// anything.
    pub fn admitted(&self, path: AdmissionPath, operation: Operation, answer: &Answer, took: Duration) {
        let [kind, operation] = [("resource_type", path.kind()), ("operation", operation.as_str())];
        self.duration.get_or_create(&[kind, operation]).observe(took.as_secs_f64());
        let is_denied = matches!(answer, Answer::Deny { .. });
        let result = if is_denied { "denied" } else { "allowed" };
        self.requests.get_or_create(&[kind, operation, ("result", result)]).inc();
        if is_denied {
            self.denials.get_or_create(&[kind, operation, ("reason", "validation")]).inc();
        }
    }

    /// Counts a conversion request of so many objects; `None`: it failed.
    pub fn converted(&self, objects: Option<usize>, took: Duration) {
        self.conversion.observe(took.as_secs_f64());
        match objects {
            Some(objects) => self.objects.inc_by(u64::try_from(objects).unwrap_or(u64::MAX)),
            None => self.failures.inc(),
        };
    }
}
