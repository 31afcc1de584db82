//! How many objects there are, by state: `resources_total`, counted from the caches at each scrape. The state of an
//! object is computed once, however often the metrics are read. A state without objects has no line, so nothing that is
//! gone keeps its last value.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};

use crate::{
    scope::Fence,
    store::{Key, Packed, Store},
};

/// Counts of one kind: namespace and state, and how many.
type KindCounts = BTreeMap<(String, &'static str), i64>;
type KindCount = Box<dyn Fn() -> KindCounts + Send + Sync>;

/// The states of objects. An entry holds no object in memory.
type States<K> = HashMap<Key, (Weak<Packed<K>>, &'static str)>;

/// What is counted, by kind. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Resources(Arc<Mutex<BTreeMap<String, KindCount>>>);

#[derive(Debug, EncodeLabelSet)]
struct Labels {
    resource_type: String,
    namespace: String,
    status: String,
}

impl Resources {
    /// Counts a kind from now on, in place of an earlier registration.
    pub(super) fn count<K>(
        &self,
        store: &Store<Packed<K>>,
        fence: &Fence,
        state: impl Fn(&Packed<K>) -> &'static str + Send + Sync + 'static,
    ) where
        K: kube::Resource + Send + Sync + 'static,
        K::DynamicType: Default,
    {
        let (kind, store, fence) = (store.kind().to_owned(), store.clone(), fence.clone());
        let states = Mutex::new(States::<K>::new());
        let count = move || {
            let mut counts = KindCounts::new();
            let mut known = states.lock().unwrap_or_else(PoisonError::into_inner);
            let mut current = States::new();
            for object in store.all() {
                let (key, identity) = (Key::of(&*object), Arc::downgrade(&object));
                let before = known.remove(&key).filter(|(before, _)| before.ptr_eq(&identity));
                let state = before.map_or_else(|| state(&object), |(_, state)| state);
                if fence.serves(&key.namespace) {
                    *counts.entry((key.namespace.clone(), state)).or_default() += 1;
                }
                current.insert(key, (identity, state));
            }
            *known = current;
            counts
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(kind, Box::new(count));
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resources(…)")
    }
}

impl Collector for Resources {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kinds.is_empty() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor("resources_total", "Objects, by state", None, MetricType::Gauge)?;
        for (kind, count) in kinds.iter() {
            for ((namespace, status), objects) in count() {
                let labels = Labels { resource_type: kind.clone(), namespace, status: status.to_owned() };
                ConstGauge::new(objects).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use k8s_openapi::api::apps::v1::Deployment;
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::super::Metrics;
    use crate::{
        scope::Fence,
        store::{Packed, Store},
    };

    #[test]
    fn what_is_gone_is_not_counted() {
        let store = Store::<Packed<Deployment>>::new();
        let metrics = Metrics::new();
        assert!(!metrics.text().contains("resources_total"));
        let state = |d: &Packed<Deployment>| if d.status()["readyReplicas"] == 1 { "ready" } else { "not_ready" };
        metrics.count_resources(&store, &Fence::unfenced(), state);
        let object = |name: &str, ready: u8| {
            let metadata = json!({ "namespace": "n", "name": name });
            Packed::from_value(json!({ "metadata": metadata, "status": { "readyReplicas": ready } })).unwrap()
        };
        let line = |status: &str, count: u8| {
            format!(
                "dynamo_operator_resources_total{{resource_type=\"Deployment\",namespace=\"n\",status=\"{status}\"}} {count}\n"
            )
        };
        store.handle(Event::Apply(object("a", 1)));
        store.handle(Event::Apply(object("b", 0)));
        let text = metrics.text();
        assert!(text.contains(&line("ready", 1)) && text.contains(&line("not_ready", 1)), "{text}");
        store.handle(Event::Delete(object("b", 0)));
        let text = metrics.text();
        assert!(text.contains(&line("ready", 1)) && !text.contains("not_ready"), "{text}");
    }

    /// Each scrape parsed the status of every object.
    #[test]
    fn the_state_of_an_object_is_computed_once() {
        let (store, metrics) = (Store::<Packed<Deployment>>::new(), Metrics::new());
        let computed = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&computed);
        metrics.count_resources(&store, &Fence::unfenced(), move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            "ready"
        });
        let object = |name: &str| {
            let metadata = json!({ "namespace": "n", "name": name });
            Packed::from_value(json!({ "metadata": metadata })).unwrap()
        };
        for number in 0..100 {
            store.handle(Event::Apply(object(&number.to_string())));
        }
        assert_eq!(metrics.text(), metrics.text());
        assert_eq!(computed.load(Ordering::Relaxed), 100);
        store.handle(Event::Apply(object("7")));
        store.handle(Event::Delete(object("8")));
        assert!(metrics.text().contains("status=\"ready\"} 99\n"));
        assert_eq!(computed.load(Ordering::Relaxed), 101, "one object has changed");
    }
}
