//! The pods of a namespace as a watch shows them: which existed, and how many served at least.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
};

use api_types::labels;
use end_to_end::Harness;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    runtime::watcher::{Config, Event, watcher},
};
use tokio::task::JoinHandle;

/// Watches until it is dropped.
pub struct PodLog {
    task: JoinHandle<()>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// By uid, those that are gone too.
    pods: BTreeMap<String, Seat>,
    /// Those of a list that is not complete yet.
    listed: BTreeSet<String>,
    /// Fewest workers that served since [`PodLog::mark`].
    fewest: usize,
}

#[derive(Clone, Debug)]
struct Seat {
    component: String,
    image: String,
    exists: bool,
    serves: bool,
}

impl Seen {
    fn take(&mut self, pod: &Pod, exists: bool) {
        let (Some(uid), Some(component)) = (pod.uid(), pod.labels().get(labels::COMPONENT)) else { return };
        let image = pod.spec.iter().find_map(|spec| spec.containers.first()?.image.clone());
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let serves = exists && ready && pod.metadata.deletion_timestamp.is_none();
        let seat = Seat { component: component.clone(), image: image.unwrap_or_default(), exists, serves };
        self.pods.insert(uid, seat);
        self.fewest = self.fewest.min(self.serving());
    }

    fn forget_unlisted(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        for (_, seat) in self.pods.iter_mut().filter(|(uid, _)| !listed.contains(*uid)) {
            (seat.exists, seat.serves) = (false, false);
        }
    }

    fn serving(&self) -> usize {
        self.pods.values().filter(|seat| seat.serves && seat.component == super::scenarios::WORKERS).count()
    }
}

impl PodLog {
    /// Begins to watch.
    pub fn start(harness: &Harness) -> Self {
        let (api, seen) = (harness.api::<Pod>(), Arc::new(Mutex::new(Seen::default())));
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut events = pin!(watcher(api, Config::default()));
            while let Some(event) = events.next().await {
                let mut seen = shared.lock().unwrap_or_else(PoisonError::into_inner);
                match event {
                    Ok(Event::Init) => seen.listed.clear(),
                    Ok(Event::InitApply(pod)) => {
                        seen.listed.extend(pod.uid());
                        seen.take(&pod, true);
                    }
                    Ok(Event::InitDone) => seen.forget_unlisted(),
                    Ok(Event::Apply(pod)) => seen.take(&pod, true),
                    Ok(Event::Delete(pod)) => seen.take(&pod, false),
                    // It watches again by itself.
                    Err(_) => {}
                }
            }
        });
        Self { task, seen }
    }

    fn read<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on counts how many workers serve at least.
    pub fn mark(&self) {
        self.read(|seen| seen.fewest = seen.serving());
    }

    /// Fewest workers that served since [`Self::mark`].
    pub fn fewest(&self) -> usize {
        self.read(|seen| seen.fewest)
    }

    /// The pods of a component that exist, by uid.
    pub fn of(&self, component: &str) -> BTreeSet<String> {
        self.read(|seen| {
            let existing = seen.pods.iter().filter(|(_, seat)| seat.exists && seat.component == component);
            existing.map(|(uid, _)| uid.clone()).collect()
        })
    }

    /// Returns the number of pods of a component since the beginning.
    pub fn made(&self, component: &str) -> usize {
        self.read(|seen| seen.pods.values().filter(|seat| seat.component == component).count())
    }

    /// Images of the pods of a component that exist.
    pub fn images(&self, component: &str) -> Vec<String> {
        self.read(|seen| {
            let existing = seen.pods.values().filter(|seat| seat.exists && seat.component == component);
            existing.map(|seat| seat.image.clone()).collect()
        })
    }
}

impl Drop for PodLog {
    fn drop(&mut self) {
        self.task.abort();
    }
}
