//! Sees when children of graphs appear and when graphs become Ready, by watching.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use api_types::{
    conditions,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment},
};
use futures::StreamExt;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Service, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Client, Resource, ResourceExt,
    api::{Api, PartialObjectMeta},
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout},
};

/// A graph of a benchmark.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct GraphId {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Graphs, and when the apply of each was sent.
pub(super) type Applied = Vec<(GraphId, Instant)>;

/// Nothing has moved for so long: a phase is over.
const REST: Duration = Duration::from_secs(3);
/// A phase in which nothing moves for so long will never end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Objects that Kubernetes creates in every namespace.
const FURNITURE: [&str; 2] = ["default", "kube-root-ca.crt"];

/// The children in one namespace.
#[derive(Debug, Clone, Default)]
struct Children {
    count: usize,
    last: Option<Instant>,
    last_workload: Option<Instant>,
}

/// Observed state.
#[derive(Debug, Default)]
struct Seen {
    children: HashMap<String, Children>,
    /// Time at which a graph was first Ready.
    ready: HashMap<GraphId, Instant>,
}

/// Durations for a graph, from the sending of its apply.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) children: usize,
    pub(super) to_children: Duration,
    /// Until the last Deployment was there.
    pub(super) to_workloads: Duration,
    pub(super) to_ready: Duration,
}

pub(super) struct Progress {
    seen: Arc<Mutex<Seen>>,
    /// Time of the last change.
    moved: watch::Sender<Instant>,
    _watches: JoinSet<()>,
}

impl Progress {
    /// Watches graphs and what operators make for them. Returns when the watches are established.
    pub(super) async fn watch(client: &Client) -> Result<Self> {
        let (moved, _) = watch::channel(Instant::now());
        let mut this = Self { seen: Arc::default(), moved, _watches: JoinSet::new() };
        this.watch_graphs(client);
        this.watch_children::<DynamoComponentDeployment>(client);
        this.watch_children::<Deployment>(client);
        this.watch_children::<Service>(client);
        this.watch_children::<ServiceAccount>(client);
        this.watch_children::<Role>(client);
        this.watch_children::<RoleBinding>(client);
        this.watch_children::<ConfigMap>(client);
        this.rests().await?;
        Ok(this)
    }

    fn watch_graphs(&mut self, client: &Client) {
        let note = |seen: &mut Seen, graph: &DynamoGraphDeployment| {
            if is_ready(graph) {
                let id = GraphId { namespace: graph.namespace().unwrap_or_default(), name: graph.name_any() };
                seen.ready.entry(id).or_insert_with(Instant::now);
            }
        };
        self.spawn(Api::<DynamoGraphDeployment>::all(client.clone()), note);
    }

    fn watch_children<K>(&mut self, client: &Client)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    {
        // Neither resource versions nor events distinguish a new object from a changed one, but UIDs do.
        let mut known = std::collections::HashSet::new();
        let note = move |seen: &mut Seen, object: &PartialObjectMeta<K>| {
            if !FURNITURE.contains(&object.name_any().as_str()) && known.insert(object.uid()) {
                let now = Some(Instant::now());
                let children = seen.children.entry(object.namespace().unwrap_or_default()).or_default();
                children.count += 1;
                children.last = now;
                if K::kind(&()) == Deployment::kind(&()) {
                    children.last_workload = now;
                }
            }
        };
        self.spawn(Api::<PartialObjectMeta<K>>::all(client.clone()), note);
    }

    fn spawn<K>(&mut self, api: Api<K>, mut note: impl FnMut(&mut Seen, &K) + Send + 'static)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
    {
        let (seen, moved) = (Arc::clone(&self.seen), self.moved.clone());
        self._watches.spawn(async move {
            let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
            let mut events = std::pin::pin!(events.applied_objects());
            while let Some(event) = events.next().await {
                let Ok(object) = event else { continue };
                note(&mut seen.lock().unwrap_or_else(PoisonError::into_inner), &object);
                moved.send_replace(Instant::now());
            }
        });
    }

    /// Returns when nothing has moved for three seconds.
    pub(super) async fn rests(&self) -> Result<()> {
        let mut moved = self.moved.subscribe();
        while timeout(REST, moved.changed()).await.is_ok() {}
        Ok(())
    }

    /// Returns the time of the last change.
    pub(super) fn last_moved(&self) -> Instant {
        *self.moved.borrow()
    }

    /// Returns when all of the graphs are Ready. `alive` fails when there is no use in waiting.
    pub(super) async fn all_ready(&self, graphs: &[GraphId], alive: impl Fn() -> Result<()>) -> Result<()> {
        let mut moved = self.moved.subscribe();
        loop {
            let unready = self.unready(graphs);
            if unready.is_empty() {
                return Ok(());
            }
            alive()?;
            if timeout(PATIENCE, moved.changed()).await.is_err() {
                bail!(
                    "{} of {} graphs are not Ready and nothing moves any more; the first is {}/{}",
                    unready.len(),
                    graphs.len(),
                    unready[0].namespace,
                    unready[0].name
                );
            }
        }
    }

    fn unready<'a>(&self, graphs: &'a [GraphId]) -> Vec<&'a GraphId> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        graphs.iter().filter(|graph| !seen.ready.contains_key(graph)).collect()
    }

    /// Returns the durations for each graph, if each has a namespace of its own.
    pub(super) fn times(&self, applied: &Applied) -> Result<Vec<Times>> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let times = applied.iter().map(|(graph, sent)| {
            let found = seen.children.get(&graph.namespace);
            let times = found.and_then(|found| {
                let since = |moment: Instant| moment - *sent;
                Some(Times {
                    children: found.count,
                    to_children: since(found.last?),
                    to_workloads: since(found.last_workload?),
                    to_ready: since(*seen.ready.get(graph)?),
                })
            });
            times.with_context(|| format!("the graph in {} has no children", graph.namespace))
        });
        times.collect()
    }
}

fn is_ready(graph: &DynamoGraphDeployment) -> bool {
    let mut conditions = graph.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == conditions::READY && condition.status == "True")
}
