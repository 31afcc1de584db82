//! Index of the objects of a cache that name something, kept up to date with each event.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    sync::{Arc, Mutex},
};

use super::{CacheChange, Key, StaticKind, Watch};
use crate::sync::locked;

/// The keys of the objects that name an `N`. Cheap to clone; clones share the content.
#[derive(Debug, Clone)]
pub struct Index<N> {
    shared: Arc<Mutex<IndexContent<N>>>,
}

#[derive(Debug)]
struct IndexContent<N> {
    by_name: HashMap<N, BTreeSet<Key>>,
    by_object: HashMap<Key, Vec<N>>,
}

impl<N> Default for Index<N> {
    fn default() -> Self {
        let content = IndexContent { by_name: HashMap::new(), by_object: HashMap::new() };
        Self { shared: Arc::new(Mutex::new(content)) }
    }
}

impl<N: Eq + Hash + Clone> Index<N> {
    /// The keys of the objects that name it, in order.
    pub fn get(&self, name: &N) -> Vec<Key> {
        locked(&self.shared).by_name.get(name).into_iter().flatten().cloned().collect()
    }

    /// Takes in that an object names these, and nothing else. One that is gone names nothing.
    pub fn set(&self, object: &Key, names: Vec<N>) {
        let content = &mut *locked(&self.shared);
        for name in content.by_object.remove(object).unwrap_or_default() {
            if let Some(keys) = content.by_name.get_mut(&name) {
                keys.remove(object);
                if keys.is_empty() {
                    content.by_name.remove(&name);
                }
            }
        }
        if names.is_empty() {
            return;
        }
        for name in &names {
            content.by_name.entry(name.clone()).or_default().insert(object.clone());
        }
        content.by_object.insert(object.clone(), names);
    }
}

impl<O: StaticKind + Send + Sync + 'static> Watch<O> {
    /// Adds an index of what the objects of the watch name. An event costs one call of `names`.
    #[must_use]
    pub fn and_index<N>(self, names: impl Fn(&O) -> Vec<N> + Send + 'static) -> (Self, Index<N>)
    where
        N: Eq + Hash + Clone + Send + 'static,
    {
        let index = Index::default();
        let kept = index.clone();
        let keep = move |change: &CacheChange<O>| match (&change.before, &change.after) {
            (_, Some(object)) => kept.set(&Key::of(object.as_ref()), names(object)),
            (Some(object), None) => kept.set(&Key::of(object.as_ref()), Vec::new()),
            (None, None) => {}
        };
        (self.inspect_changes(keep), index)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::{StreamExt, stream};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;
    use crate::store::Packed;

    fn object(name: &str, version: u64, names: &[&str]) -> Packed<ConfigMap> {
        let annotations = json!({ "names": names.join(",") });
        let metadata = json!({ "namespace": "n", "name": name, "resourceVersion": version.to_string(), "annotations": annotations });
        Packed::from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn names(object: &Packed<ConfigMap>) -> Vec<String> {
        let named = &object.metadata.annotations.as_ref().unwrap()["names"];
        named.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// Found defect: each event unpacked every object of the namespace to find those that it concerns.
    #[tokio::test]
    async fn an_event_costs_one_look_at_its_own_object() {
        let looks = Arc::new(AtomicUsize::new(0));
        let listed = (0..100).map(|n| Event::InitApply(object(&format!("o{n:03}"), n, &["all", &format!("n{n}")])));
        let later = [
            Event::Apply(object("o000", 200, &["n1"])),
            Event::Delete(object("o002", 201, &["all", "n2"])),
            Event::Apply(object("o003", 202, &[])),
        ];
        let events = std::iter::once(Event::Init).chain(listed).chain([Event::InitDone]).chain(later);
        let watch = Watch::new(stream::iter(events.map(Ok).collect::<Vec<_>>()));
        let counted = Arc::clone(&looks);
        let (watch, index) = watch.and_index(move |object| {
            counted.fetch_add(1, Ordering::Relaxed);
            names(object)
        });
        assert_eq!(watch.count().await, 103);
        assert_eq!(looks.load(Ordering::Relaxed), 102, "a deletion needs none");
        let found = |name: &str| index.get(&name.to_owned()).into_iter().map(|key| key.name).collect::<Vec<_>>();
        assert_eq!(found("all").len(), 97);
        assert_eq!(found("n1"), ["o000", "o001"]);
        assert_eq!((found("n0"), found("n2"), found("n3")), (vec![], vec![], vec![]));
    }
}
