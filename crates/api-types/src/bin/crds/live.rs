//! The state of watched objects by name.

use std::collections::BTreeMap;

use kube::{ResourceExt, runtime::watcher::Event};

/// One value for each object of a watch.
#[derive(Debug)]
pub(crate) struct Live<V> {
    /// None until the first list is complete.
    known: Option<BTreeMap<String, V>>,
    /// The list that is being read.
    listed: BTreeMap<String, V>,
}

impl<V> Default for Live<V> {
    fn default() -> Self {
        Self { known: None, listed: BTreeMap::new() }
    }
}

impl<V> Live<V> {
    /// The objects that exist; none while that is not known.
    pub fn known(&self) -> Option<&BTreeMap<String, V>> {
        self.known.as_ref()
    }

    /// Takes in an event.
    pub fn take<K: ResourceExt>(&mut self, event: Event<K>, value: impl FnOnce(K) -> V) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                self.listed.insert(object.name_any(), value(object));
            }
            Event::InitDone => self.known = Some(std::mem::take(&mut self.listed)),
            Event::Apply(object) => {
                self.known.get_or_insert_default().insert(object.name_any(), value(object));
            }
            Event::Delete(object) => {
                self.known.get_or_insert_default().remove(&object.name_any());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectMeta;

    use super::*;

    fn named(name: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            ..ConfigMap::default()
        }
    }

    #[test]
    fn objects_are_known_when_the_list_is_complete_and_a_new_list_replaces_the_old_one() {
        let mut live = Live::default();
        for (event, known) in [
            (Event::Init, None),
            (Event::InitApply(named("a")), None),
            (Event::InitDone, Some("a")),
            (Event::Apply(named("b")), Some("a b")),
            (Event::Delete(named("a")), Some("b")),
            (Event::Init, Some("b")),
            (Event::InitApply(named("c")), Some("b")),
            (Event::InitDone, Some("c")),
        ] {
            live.take(event, |_| ());
            let names = live.known().map(|known| known.keys().cloned().collect::<Vec<_>>().join(" "));
            assert_eq!(names.as_deref(), known);
        }
    }
}
