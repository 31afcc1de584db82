//! Metrics of a controller process, in the families the reference dashboards use, and ours.
//!
//! `resources_total` is the number of objects by state, counted from the caches at each scrape. The state of an object
//! is computed once, however often the metrics are read. A state without objects has no line, so a state that no longer
//! occurs does not keep its last value.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use clap::ValueEnum;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text::encode},
    metrics::{MetricType, counter::Counter, family::Family, gauge::ConstGauge, histogram::Histogram},
    registry::Registry,
};
use serde::Serialize;

use crate::{
    failure::ErrorType,
    scope::Fence,
    store::{Key, Packed, StaticKind, Store},
    sync::locked,
};

/// Upper bounds of the reconcile histogram, in seconds.
const BUCKETS: [f64; 13] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Result of a reconcile: the label `result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReconcileResult {
    /// Done until something changes.
    Success,
    /// Done, and to be looked at again later.
    Requeue,
    /// Failed.
    Error,
}

/// Kind of the write that was sent: the label `verb`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteVerb {
    /// A server-side apply of an object that the cache does not have.
    Create,
    /// A server-side apply of an existing object.
    Update,
    /// A deletion.
    Delete,
    /// A write of a status block.
    Status,
    /// A removal of a finalizer.
    Finalizer,
    /// A change of replicas through the scale subresource.
    Scale,
}

/// The metrics and the registry they are in. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    duration: Family<Labels<3>, Histogram, fn() -> Histogram>,
    total: Family<Labels<3>, Counter>,
    errors: Family<Labels<3>, Counter>,
    writes: Family<Labels<3>, Counter>,
    skipped: Family<Labels<1>, Counter>,
    resources: ResourceCounts,
}

/// Names and values of the labels of a series.
type Labels<const N: usize> = [(&'static str, String); N];

impl Metrics {
    /// A registry with the families of this crate in it.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("dynamo_operator");
        let duration = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram);
        let (total, errors, writes, skipped) =
            (Family::default(), Family::default(), Family::default(), Family::default());
        // Counters get `_total` appended when they are written out.
        registry.register("reconcile_duration_seconds", "Time one reconcile took", duration.clone());
        registry.register("reconcile", "Reconciles, by how they ended", Family::clone(&total));
        registry.register("reconcile_errors", "Failed reconciles, by why they failed", Family::clone(&errors));
        registry.register("api_writes", "Writes sent to the API server", Family::clone(&writes));
        registry.register("api_writes_skipped", "Writes not sent, because nothing differed", Family::clone(&skipped));
        let resources = ResourceCounts::default();
        registry.register_collector(Box::new(resources.clone()));
        Self { registry: Arc::new(Mutex::new(registry)), duration, total, errors, writes, skipped, resources }
    }

    /// Adds metrics of a controller's own. Names get the prefix `dynamo_operator_`.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut locked(&self.registry));
    }

    /// Counts the objects of a cache by namespace and state, whenever the metrics are read, and without those in
    /// namespaces that another operator has marked: it counts them. Replaces an earlier call for the kind.
    pub fn count_resources<K>(
        &self,
        store: &Store<Packed<K>>,
        fence: &Fence,
        state: impl Fn(&Packed<K>) -> &'static str + Send + Sync + 'static,
    ) where
        K: StaticKind + Send + Sync + 'static,
    {
        let (kind, store, fence) = (store.kind().to_owned(), store.clone(), fence.clone());
        let states = Mutex::new(States::new());
        let count = move || {
            let mut counts = KindCounts::new();
            let mut known = locked(&states);
            let mut current = States::new();
            for (key, version) in store.versions() {
                let before = known.remove(&key).filter(|(before, _)| version == Some(*before));
                let state = before.map(|(_, state)| state).or_else(|| store.get(&key).map(|object| state(&object)));
                let Some(state) = state else { continue };
                if fence.serves(&key.namespace) {
                    *counts.entry((key.namespace.clone(), state)).or_default() += 1;
                }
                if let Some(version) = version {
                    current.insert(key, (version, state));
                }
            }
            *known = current;
            counts
        };
        locked(&self.resources.0).insert(kind, Box::new(count));
    }

    /// Everything in the OpenMetrics text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let registry = locked(&self.registry);
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }

    /// Counts a reconcile that ended without error.
    pub fn reconciled(&self, resource_type: &str, namespace: &str, result: ReconcileResult, took: Duration) {
        let labels = labels(resource_type, namespace, "result", result);
        self.duration.get_or_create(&labels).observe(took.as_secs_f64());
        self.total.get_or_create(&labels).inc();
    }

    /// Counts a reconcile that failed.
    pub fn failed(&self, resource_type: &str, namespace: &str, error_type: ErrorType, took: Duration) {
        self.reconciled(resource_type, namespace, ReconcileResult::Error, took);
        self.errors.get_or_create(&labels(resource_type, namespace, "error_type", error_type)).inc();
    }

    /// Drops the series of a namespace that has no objects of this kind any more: others would grow with every
    /// namespace that ever was.
    pub fn forget(&self, resource_type: &str, namespace: &str) {
        for result in [ReconcileResult::Success, ReconcileResult::Requeue, ReconcileResult::Error] {
            let labels = labels(resource_type, namespace, "result", result);
            self.duration.remove(&labels);
            self.total.remove(&labels);
        }
        for error_type in ErrorType::value_variants() {
            self.errors.remove(&labels(resource_type, namespace, "error_type", error_type));
        }
    }

    /// Counts a write that the API server accepted or refused.
    pub fn write(&self, verb: WriteVerb, kind: &str, accepted: bool) {
        let verb = SerdeName(verb).to_string();
        let labels = [("verb", verb), ("kind", kind.to_owned()), ("accepted", accepted.to_string())];
        self.writes.get_or_create(&labels).inc();
    }

    /// Counts a write that was not needed.
    pub fn write_skipped(&self, kind: &str) {
        self.skipped.get_or_create(&[("kind", kind.to_owned())]).inc();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// The labels of a series that counts by kind, namespace, and one thing more.
fn labels(resource_type: &str, namespace: &str, more: &'static str, value: impl Serialize) -> Labels<3> {
    [
        ("resource_type", resource_type.to_owned()),
        ("namespace", namespace.to_owned()),
        (more, SerdeName(value).to_string()),
    ]
}

/// The name that serde gives a value.
struct SerdeName<T>(T);

impl<T: Serialize> fmt::Display for SerdeName<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.serialize(f)
    }
}

/// Counts of one kind: namespace and state, and how many.
type KindCounts = BTreeMap<(String, &'static str), i64>;
type KindCount = Box<dyn Fn() -> KindCounts + Send + Sync>;

/// The states of objects, each with the version of which it is.
type States = HashMap<Key, (u64, &'static str)>;

/// Counted objects, by kind. Cheap to clone.
#[derive(Clone, Default)]
struct ResourceCounts(Arc<Mutex<BTreeMap<String, KindCount>>>);

impl fmt::Debug for ResourceCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resources(…)")
    }
}

impl Collector for ResourceCounts {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let kinds = locked(&self.0);
        if kinds.is_empty() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor("resources_total", "Objects, by state", None, MetricType::Gauge)?;
        for (kind, count) in kinds.iter() {
            for ((namespace, status), objects) in count() {
                let labels = labels(kind, &namespace, "status", status);
                ConstGauge::new(objects).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
