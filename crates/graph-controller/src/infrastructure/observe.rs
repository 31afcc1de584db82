//! I/O in: whether NATS and etcd can be used, and which places in them are in use.

use std::{collections::BTreeSet, time::Duration};

use api_types::{
    conditions::infrastructure as reason,
    labels, names,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment},
};
use controller_kit::{
    failure::Class,
    pods::NOT_ENDED,
    process::Context,
    read::{ReadError, find},
    settings::Infrastructure,
    store::{Key, Packed, Store, watch_metadata_by},
};
use futures::{
    channel::mpsc,
    stream::{BoxStream, StreamExt},
};
use infrastructure::{Credentials, Etcd, Nats};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{Api, Client, ResourceExt, core::PartialObjectMeta};
use tokio::sync::watch;
use tracing::{info, warn};

use super::{
    apply::Cleaner,
    leftovers::{Place, places_of},
    status::Verdict,
};

/// How often a connection is tried that worked, and one that did not.
const GOOD_PAUSE: Duration = Duration::from_secs(60);
const BAD_PAUSE: Duration = Duration::from_secs(10);
/// Where the operator is installed unless it is told.
const OPERATOR_NAMESPACE: &str = "dynamo-system";

/// The newest verdict. Cheap to clone.
#[derive(Clone)]
pub struct Watched(watch::Receiver<Verdict>);

impl Watched {
    /// What was found last.
    pub fn verdict(&self) -> Verdict {
        self.0.borrow().clone()
    }
}

/// What shows which places are in use.
#[derive(Clone)]
pub struct Places {
    /// Graphs.
    pub graphs: Store<Packed<DynamoGraphDeployment>>,
    /// Their components.
    pub components: Store<Packed<DynamoComponentDeployment>>,
    /// Pods that have not ended: workers of graphs, and those of components that stand alone.
    pub pods: Vec<Store<PartialObjectMeta<Pod>>>,
}

impl Places {
    /// Returns once everything is known.
    pub async fn known(&self) {
        self.graphs.wait_until_ready().await;
        self.components.wait_until_ready().await;
        for pods in &self.pods {
            pods.wait_until_ready().await;
        }
    }

    /// The places in use. The namespace that all graphs share is nobody's.
    pub fn in_use(&self) -> BTreeSet<Place> {
        let mut places = BTreeSet::new();
        for graph in self.graphs.all() {
            let namespace = graph.namespace().unwrap_or_default();
            places.insert(Place::Namespace(names::dynamo_namespace(&namespace, &graph.name_any(), false)));
        }
        for component in self.components.all() {
            places.extend(places_of(&component.namespace().unwrap_or_default(), component.labels()));
        }
        for pod in self.pods.iter().flat_map(Store::all) {
            places.extend(places_of(&pod.namespace().unwrap_or_default(), pod.labels()));
        }
        let shared = names::dynamo_namespace("", "", true);
        places.retain(|place| match place {
            Place::Namespace(namespace) | Place::Component { namespace, .. } => *namespace != shared,
        });
        places
    }
}

/// The servers, as the configuration and the Secret describe them.
#[derive(Clone)]
pub struct Servers {
    /// NATS, if there is one.
    pub nats: Option<Nats>,
    /// etcd, if there is one.
    pub etcd: Option<Etcd>,
}

/// Why nobody knows how to reach the servers.
#[derive(Debug, thiserror::Error)]
pub enum Obstacle {
    /// Somebody has to put the Secret, a right or an address right.
    #[error("{0}")]
    Mistake(String),
    /// The API server is away. That says nothing of the servers.
    #[error(transparent)]
    Passing(ReadError),
}

/// Reads the Secret and knows the addresses.
#[derive(Clone)]
pub struct Source {
    client: Client,
    settings: Infrastructure,
    namespace: String,
}

impl Source {
    /// The servers with the credentials of the moment: they may be rotated.
    ///
    /// # Errors
    /// What is wrong with the Secret or an address, or that the Secret cannot be read just now.
    pub async fn servers(&self) -> Result<Servers, Obstacle> {
        let credentials = self.credentials().await?;
        let given = |address: &str| Some(address.to_owned()).filter(|address| !address.is_empty());
        let etcd = given(&self.settings.etcd_address).map(|address| Etcd::new(&address, &credentials)).transpose();
        let etcd = etcd.map_err(|error| Obstacle::Mistake(format!("etcd: {error}")))?;
        let nats = given(&self.settings.nats_address).map(|address| Nats::new(&address, &credentials));
        Ok(Servers { nats, etcd })
    }

    async fn credentials(&self) -> Result<Credentials, Obstacle> {
        let name = &self.settings.secret_name;
        if name.is_empty() {
            return Ok(Credentials::default());
        }
        let what = format!("Secret {}/{name}, which infrastructure.secretName names,", self.namespace);
        let mistake = |why: &str| Obstacle::Mistake(format!("{what} {why}"));
        let api: Api<Packed<Secret>> = Api::namespaced(self.client.clone(), &self.namespace);
        let secret = match find(name, || format!("read Secret {}/{name}", self.namespace), api.get_opt(name)).await {
            Ok(secret) => secret.ok_or_else(|| mistake("does not exist; create it"))?,
            Err(error) if error.error_type().class() == Class::Transient => return Err(Obstacle::Passing(error)),
            Err(error) => return Err(mistake(&format!("cannot be read; see to the rights of the operator: {error}"))),
        };
        let secret = secret.unpack().map_err(|_| mistake("cannot be read: it is no Secret"))?;
        let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect();
        Credentials::of_secret(&data).map_err(|why| mistake(&format!("cannot be used: {why}")))
    }

    /// What is to be told of the servers.
    ///
    /// # Errors
    /// If the API server is away, which is no news of them.
    async fn verdict(&self) -> Result<Verdict, ReadError> {
        let servers = match self.servers().await {
            Ok(servers) => servers,
            Err(Obstacle::Mistake(message)) => return Ok(not_ready(reason::UNUSABLE, message)),
            Err(Obstacle::Passing(error)) => return Err(error),
        };
        let mut wrong = Vec::new();
        if let Some(nats) = &servers.nats {
            wrong.extend(nats.check().await.err().map(|error| error.to_string()));
        }
        if let Some(etcd) = &servers.etcd {
            wrong.extend(etcd.check().await.err().map(|error| error.to_string()));
        }
        Ok(match wrong.is_empty() {
            true => Verdict::Ready,
            false => not_ready(reason::UNREACHABLE, wrong.join("; ")),
        })
    }
}

fn not_ready(reason: &'static str, message: String) -> Verdict {
    Verdict::NotReady { reason, message }
}

/// Starts to look after NATS and etcd until the process stops, and returns what is known of them and which graphs to
/// tell it.
pub fn start(
    context: &Context,
    own_namespace: Option<String>,
    mut places: Places,
) -> (Watched, BoxStream<'static, Key>) {
    let settings = context.settings.infrastructure.clone();
    let configured = !settings.nats_address.is_empty() || !settings.etcd_address.is_empty();
    let (sender, receiver) = watch::channel(if configured { Verdict::Unknown } else { Verdict::Unconfigured });
    let (wake, keys) = mpsc::unbounded();
    if configured {
        let given = Some(settings.secret_namespace.clone()).filter(|namespace| !namespace.is_empty());
        let namespace = given.or(own_namespace).unwrap_or_else(|| OPERATOR_NAMESPACE.to_owned());
        let source = Source { client: context.client.clone(), settings, namespace };
        let (shutdown, graphs) = (context.shutdown.clone(), places.graphs.clone());
        let alone = format!("{},!{}", labels::DYNAMO_NAMESPACE, labels::GRAPH);
        let (pods, watch) =
            watch_metadata_by::<Pod>(context.client.clone(), &context.scope, Some(&alone), Some(NOT_ENDED));
        places.pods.push(pods);
        let watching = watch.for_each(|_| std::future::ready(()));
        let working = async move {
            // Who is told that the servers can be used may rely on it that what is left in them from then on is cleared
            // away.
            let cleaner = Cleaner::begin(places).await;
            futures::join!(follow(source.clone(), sender, graphs, wake), cleaner.run(source));
        };
        let work = futures::future::join(working, watching);
        tokio::spawn(async move {
            tokio::select! {
                _ = work => {}
                () = shutdown.requested() => {}
            }
        });
    }
    (Watched(receiver), keys.boxed())
}

/// Asks again and again. One failure after a success is looked at a second time before it is told.
async fn follow(
    source: Source,
    sender: watch::Sender<Verdict>,
    graphs: Store<Packed<DynamoGraphDeployment>>,
    wake: mpsc::UnboundedSender<Key>,
) {
    let mut doubted = false;
    loop {
        let verdict = match source.verdict().await {
            Ok(verdict) => verdict,
            Err(error) => {
                info!(%error, "what was told of NATS and etcd stays");
                tokio::time::sleep(BAD_PAUSE).await;
                continue;
            }
        };
        let good = verdict == Verdict::Ready;
        let was_good = *sender.borrow() == Verdict::Ready;
        let tell = good || !was_good || doubted;
        doubted = !good && was_good && !doubted;
        let news = tell && *sender.borrow() != verdict;
        if news {
            match &verdict {
                Verdict::Ready => info!("NATS and etcd can be used, as far as they are configured"),
                Verdict::NotReady { reason, message } => warn!(reason, message, "NATS or etcd cannot be used"),
                Verdict::Unknown | Verdict::Unconfigured => {}
            }
            sender.send_replace(verdict);
            // Fails only when nobody listens any more.
            graphs.keys().into_iter().for_each(|key| drop(wake.unbounded_send(key)));
        }
        tokio::time::sleep(if good { GOOD_PAUSE } else { BAD_PAUSE }).await;
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use kube::Config;

    use super::*;

    /// Found defect: a second failure to read the Secret was told to every graph, and an API server that was away for
    /// ten seconds took the condition from all of them.
    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_is_away_is_no_news_of_the_servers() {
        // Connections are accepted, and nothing is ever answered.
        let mute = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", mute.local_addr().unwrap());
        let mut settings = Infrastructure::default();
        (settings.nats_address, settings.secret_name) = ("nats:4222".to_owned(), "servers".to_owned());
        let client = Client::try_from(Config::new(address.parse().unwrap())).unwrap();
        let source = Source { client, settings, namespace: "n".to_owned() };
        assert!(matches!(source.servers().await, Err(Obstacle::Passing(_))));
        let (sender, told) = watch::channel(Verdict::Ready);
        let (wake, _keys) = mpsc::unbounded();
        let following = follow(source, sender, Store::new(), wake);
        tokio::time::timeout(GOOD_PAUSE * 10, following).await.unwrap_err();
        assert_eq!(*told.borrow(), Verdict::Ready);
    }
}
