//! Checks NATS and etcd until the process stops, and removes in the background what is not in use any more.

use std::time::Duration;

use api_types::{labels, v1beta1::DynamoGraphDeployment};
use controller_kit::{
    context::Context,
    pods::NOT_ENDED,
    scope::Fence,
    store::{Key, Packed, Store, watch_metadata},
};
use futures::{
    channel::mpsc,
    stream::{BoxStream, StreamExt},
};
use k8s_openapi::api::core::v1::Pod;
use tokio::{sync::watch, time::Instant};
use tracing::{info, warn};

use super::{
    Health,
    leftovers::{Leftovers, RuntimePlace},
    observe::{PlaceCaches, ServerSource},
};

/// Interval of checks while the servers are healthy, and while they are not.
const HEALTHY_INTERVAL: Duration = Duration::from_secs(60);
const UNHEALTHY_INTERVAL: Duration = Duration::from_secs(10);
/// Namespace of the operator if neither `POD_NAMESPACE` nor `DYNAMO_SYSTEM_NAMESPACE` is set.
const OPERATOR_NAMESPACE: &str = "dynamo-system";

/// Receives the last health of NATS and etcd.
#[derive(Clone)]
pub struct HealthReceiver(watch::Receiver<Health>);

impl HealthReceiver {
    /// Of servers that are not checked.
    #[must_use]
    pub fn unchecked() -> Self {
        Self(watch::channel(Health::Unconfigured).1)
    }

    /// The last health.
    pub fn current(&self) -> Health {
        self.0.borrow().clone()
    }
}

/// Checks NATS and etcd until the process stops. Returns their health, and the keys of graphs to reconcile when it
/// changes.
pub fn start(context: &Context, mut places: PlaceCaches) -> (HealthReceiver, BoxStream<'static, Key>) {
    let settings = context.settings.infrastructure.clone();
    let configured = !settings.nats_address.is_empty() || !settings.etcd_address.is_empty();
    let (sender, receiver) = watch::channel(if configured { Health::Unknown } else { Health::Unconfigured });
    let (wake, keys) = mpsc::unbounded();
    if configured {
        let given = Some(settings.secret_namespace.clone()).filter(|namespace| !namespace.is_empty());
        let own = || ["POD_NAMESPACE", "DYNAMO_SYSTEM_NAMESPACE"].into_iter().find_map(|name| std::env::var(name).ok());
        let namespace = given.or_else(own).unwrap_or_else(|| OPERATOR_NAMESPACE.to_owned());
        let source = ServerSource { client: context.client.clone(), settings, namespace };
        let (shutdown, graphs, fence) = (context.shutdown.clone(), places.graphs.clone(), context.fence.clone());
        let alone = format!("{},!{}", labels::DYNAMO_NAMESPACE, labels::GRAPH);
        let (pods, watch) = watch_metadata::<Pod>(&context.source().with_identities(), Some(&alone), Some(NOT_ENDED));
        places.pods.push(pods);
        let watching = watch.for_each(|_| std::future::ready(()));
        let working = async move {
            // The cleanup begins before the servers are reported healthy, so that it misses nothing from then on.
            let cleaner = Cleaner::begin(places).await;
            futures::join!(follow(source.clone(), sender, graphs, wake), cleaner.run(source, &fence));
        };
        let work = futures::future::join(working, watching);
        tokio::spawn(async move {
            tokio::select! {
                _ = work => {}
                () = shutdown.requested() => {}
            }
        });
    }
    (HealthReceiver(receiver), keys.boxed())
}

/// Repeats the check. One failure after a success is checked again before it is reported.
async fn follow(
    source: ServerSource,
    sender: watch::Sender<Health>,
    graphs: Store<Packed<DynamoGraphDeployment>>,
    wake: mpsc::UnboundedSender<Key>,
) {
    let mut doubted = false;
    loop {
        let health = match source.health().await {
            Ok(health) => health,
            Err(error) => {
                info!(%error, "kept the last health of NATS and etcd");
                tokio::time::sleep(UNHEALTHY_INTERVAL).await;
                continue;
            }
        };
        let good = health == Health::Ready;
        let was_good = *sender.borrow() == Health::Ready;
        let is_confirmed = good || !was_good || doubted;
        doubted = !good && was_good && !doubted;
        let changed = is_confirmed && *sender.borrow() != health;
        if changed {
            match &health {
                Health::Ready => info!("NATS and etcd can be used, as far as they are configured"),
                Health::NotReady { reason, message } => warn!(reason, message, "NATS or etcd cannot be used"),
                Health::Unknown | Health::Unconfigured => {}
            }
            sender.send_replace(health);
            // Fails only while the process stops.
            graphs.keys().into_iter().for_each(|key| drop(wake.unbounded_send(key)));
        }
        tokio::time::sleep(if good { HEALTHY_INTERVAL } else { UNHEALTHY_INTERVAL }).await;
    }
}

/// Interval of reading which places are in use, from caches.
const INTERVAL: Duration = Duration::from_secs(5);

/// Cleans places that are not in use any more. It misses those of before its start, because nothing is persisted; keys
/// with a lease expire.
pub struct Cleaner {
    places: PlaceCaches,
    /// Changes of the caches that `leftovers` has seen.
    seen_changes: u64,
    start: Instant,
    leftovers: Leftovers,
}

impl Cleaner {
    /// Waits until it is known what is in use; misses nothing from then on.
    pub async fn begin(places: PlaceCaches) -> Self {
        places.known().await;
        let seen_changes = places.change_count();
        let mut leftovers = Leftovers::default();
        leftovers.see(places.in_use(), Duration::ZERO);
        Self { places, seen_changes, start: Instant::now(), leftovers }
    }

    /// Cleans until it is dropped. Of several replicas that act, the elected one cleans; the others record what it
    /// has to go on with when one of them is elected.
    pub async fn run(mut self, source: ServerSource, fence: &Fence) {
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

    fn due(&mut self) -> Vec<RuntimePlace> {
        // Counted first: a change in between is seen the next time.
        let changes = self.places.change_count();
        if std::mem::replace(&mut self.seen_changes, changes) == changes {
            return self.leftovers.due(self.start.elapsed());
        }
        self.leftovers.see(self.places.in_use(), self.start.elapsed())
    }
}

async fn remove(source: &ServerSource, place: &RuntimePlace) -> Result<(), String> {
    let servers = source.servers().await.map_err(|obstacle| obstacle.to_string())?;
    let (mut keys, mut streams) = (0, 0);
    match place {
        RuntimePlace::Namespace(namespace) => {
            if let Some(etcd) = &servers.etcd {
                keys = etcd.remove_namespace(namespace).await.map_err(|error| error.to_string())?;
            }
            if let Some(nats) = &servers.nats {
                streams = nats.remove_namespace(namespace).await.map_err(|error| error.to_string())?;
            }
        }
        RuntimePlace::Component { namespace, name } => {
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
    use std::net::TcpListener;

    use api_types::labels;
    use controller_kit::{settings::Infrastructure, store::Store};
    use futures::FutureExt;
    use k8s_openapi::api::core::v1::Pod;
    use kube::{Client, Config, core::PartialObjectMeta, runtime::watcher::Event};
    use serde_json::json;

    use super::*;
    use crate::nats_etcd::observe::Unavailable;

    /// Found defect: a second failure to read the Secret was reported to every graph, and an API server that was away
    /// for ten seconds took the condition from all of them.
    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_is_away_is_no_news_of_the_servers() {
        // Connections are accepted, and nothing is ever answered.
        let mute = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", mute.local_addr().unwrap());
        let mut settings = Infrastructure::default();
        (settings.nats_address, settings.secret_name) = ("nats:4222".to_owned(), "servers".to_owned());
        let client = Client::try_from(Config::new(address.parse().unwrap())).unwrap();
        let source = ServerSource { client, settings, namespace: "n".to_owned() };
        assert!(matches!(source.servers().await, Err(Unavailable::Transient(_))));
        let (sender, reported) = watch::channel(Health::Ready);
        let (wake, _keys) = mpsc::unbounded();
        let following = follow(source, sender, Store::new(), wake);
        tokio::time::timeout(HEALTHY_INTERVAL * 10, following).await.unwrap_err();
        assert_eq!(*reported.borrow(), Health::Ready);
    }

    /// Only what it has seen in use is cleaned, so its status may not claim the cleaning of the servers before it has
    /// seen all.
    #[tokio::test]
    async fn it_begins_once_every_pod_is_known() {
        let pods = Store::<PartialObjectMeta<Pod>>::new();
        let places = PlaceCaches { graphs: Store::new(), components: Store::new(), pods: vec![pods.clone()] };
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
        assert_eq!(cleaner.due(), [RuntimePlace::Namespace("team-x".to_owned())]);
    }
}
