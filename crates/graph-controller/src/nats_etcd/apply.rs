//! Removes what is not in use any more from NATS and etcd, in the background.

use std::time::Duration;

use controller_kit::scope::Fence;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    leftovers::{Leftovers, Place},
    observe::{Places, Source},
};

/// Interval of reading which places are in use, from caches.
const INTERVAL: Duration = Duration::from_secs(5);

/// Cleans places that are not in use any more. It misses those of before its start, because nothing is persisted; keys
/// with a lease expire.
pub struct Cleaner {
    places: Places,
    start: Instant,
    leftovers: Leftovers,
}

impl Cleaner {
    /// Waits until it is known what is in use; misses nothing from then on.
    pub async fn begin(places: Places) -> Self {
        places.known().await;
        let mut leftovers = Leftovers::default();
        leftovers.see(places.in_use(), Duration::ZERO);
        Self { places, start: Instant::now(), leftovers }
    }

    /// Cleans until it is dropped. Of several replicas that act, the elected one cleans; the others know what it has to
    /// go on with when one of them is elected.
    pub async fn run(mut self, source: Source, fence: &Fence) {
        loop {
            for place in self.due().into_iter().filter(|_| fence.is_elected()) {
                match remove(&source, &place).await {
                    Ok(()) => self.leftovers.cleaned(&place),
                    Err(error) => {
                        let again = self.leftovers.failed(&place, self.start.elapsed());
                        warn!(?place, error, again, "cannot remove what is left in NATS or etcd");
                    }
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn due(&mut self) -> Vec<Place> {
        self.leftovers.see(self.places.in_use(), self.start.elapsed())
    }
}

async fn remove(source: &Source, place: &Place) -> Result<(), String> {
    let servers = source.servers().await.map_err(|obstacle| obstacle.to_string())?;
    let (mut keys, mut streams) = (0, 0);
    match place {
        Place::Namespace(namespace) => {
            if let Some(etcd) = &servers.etcd {
                keys = etcd.remove_namespace(namespace).await.map_err(|error| error.to_string())?;
            }
            if let Some(nats) = &servers.nats {
                streams = nats.remove_namespace(namespace).await.map_err(|error| error.to_string())?;
            }
        }
        Place::Component { namespace, name } => {
            if let Some(etcd) = &servers.etcd {
                keys = etcd.remove_component(namespace, name).await.map_err(|error| error.to_string())?;
            }
        }
    }
    if keys + streams > 0 {
        info!(?place, keys, streams, "removed what was left in NATS and etcd");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use api_types::labels;
    use controller_kit::store::Store;
    use futures::FutureExt;
    use k8s_openapi::api::core::v1::Pod;
    use kube::{core::PartialObjectMeta, runtime::watcher::Event};
    use serde_json::json;

    use super::*;

    /// Only what it has seen in use is cleaned, so its status may not claim the cleaning of the servers before it has
    /// seen all.
    #[tokio::test]
    async fn it_begins_once_every_pod_is_known() {
        let pods = Store::<PartialObjectMeta<Pod>>::new();
        let places = Places { graphs: Store::new(), components: Store::new(), pods: vec![pods.clone()] };
        places.graphs.handle(Event::InitDone);
        places.components.handle(Event::InitDone);
        let mut begin = Box::pin(Cleaner::begin(places));
        assert!((&mut begin).now_or_never().is_none(), "the pods are not known");
        let labels = json!({ labels::SELECTOR: "x", labels::DYNAMO_NAMESPACE: "inference" });
        let pod = json!({ "metadata": { "name": "x-1", "namespace": "team", "labels": labels } });
        pods.handle(Event::Init);
        pods.handle(Event::InitApply(serde_json::from_value(pod).unwrap()));
        assert!((&mut begin).now_or_never().is_none(), "not all pods are known");
        pods.handle(Event::InitDone);
        let mut cleaner = begin.now_or_never().unwrap();
        assert!(cleaner.due().is_empty());
        pods.handle(Event::Init);
        pods.handle(Event::InitDone);
        assert!(cleaner.due().is_empty(), "what ends may still write");
        cleaner.start -= Duration::from_secs(60);
        assert_eq!(cleaner.due(), [Place::Namespace("team-x".to_owned())]);
    }
}
