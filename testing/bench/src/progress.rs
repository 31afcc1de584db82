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

/// A graph and the time at which its apply was sent.
pub(super) type Applied = Vec<(String, Instant)>;

/// Nothing has moved for so long: a phase is over.
const REST: Duration = Duration::from_secs(3);
/// A phase in which nothing moves for so long will never end.
const PATIENCE: Duration = Duration::from_secs(60);
/// What Kubernetes puts into every namespace.
const FURNITURE: [&str; 2] = ["default", "kube-root-ca.crt"];

/// What happened in one namespace.
#[derive(Debug, Clone, Default)]
struct Namespace {
    children: usize,
    last_child: Option<Instant>,
    last_workload: Option<Instant>,
    ready: Option<Instant>,
}

type Namespaces = Arc<Mutex<HashMap<String, Namespace>>>;

/// How long a graph took, from the sending of its apply.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) children: usize,
    pub(super) to_children: Duration,
    /// Until the last Deployment was there.
    pub(super) to_workloads: Duration,
    pub(super) to_ready: Duration,
}

pub(super) struct Progress {
    namespaces: Namespaces,
    /// When something moved last.
    moved: watch::Sender<Instant>,
    _watches: JoinSet<()>,
}

impl Progress {
    /// Watches graphs and what operators make for them. Returns when the watches are established.
    pub(super) async fn watch(client: &Client) -> Result<Self> {
        let (moved, _) = watch::channel(Instant::now());
        let mut this = Self { namespaces: Namespaces::default(), moved, _watches: JoinSet::new() };
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
        let note = |namespace: &mut Namespace, graph: &DynamoGraphDeployment| {
            if namespace.ready.is_none() && is_ready(graph) {
                namespace.ready = Some(Instant::now());
            }
        };
        self.spawn(Api::<DynamoGraphDeployment>::all(client.clone()), note);
    }

    fn watch_children<K>(&mut self, client: &Client)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    {
        // Resource versions tell a new object from a changed one no more than events do, but UIDs do.
        let mut seen = std::collections::HashSet::new();
        let note = move |namespace: &mut Namespace, object: &PartialObjectMeta<K>| {
            if !FURNITURE.contains(&object.name_any().as_str()) && seen.insert(object.uid()) {
                let now = Some(Instant::now());
                namespace.children += 1;
                namespace.last_child = now;
                if K::kind(&()) == Deployment::kind(&()) {
                    namespace.last_workload = now;
                }
            }
        };
        self.spawn(Api::<PartialObjectMeta<K>>::all(client.clone()), note);
    }

    fn spawn<K>(&mut self, api: Api<K>, mut note: impl FnMut(&mut Namespace, &K) + Send + 'static)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
    {
        let (namespaces, moved) = (Arc::clone(&self.namespaces), self.moved.clone());
        self._watches.spawn(async move {
            let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
            let mut events = std::pin::pin!(events.applied_objects());
            while let Some(event) = events.next().await {
                let Ok(object) = event else { continue };
                let mut namespaces = namespaces.lock().unwrap_or_else(PoisonError::into_inner);
                note(namespaces.entry(object.namespace().unwrap_or_default()).or_default(), &object);
                drop(namespaces);
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

    /// When something moved last.
    pub(super) fn last_moved(&self) -> Instant {
        *self.moved.borrow()
    }

    /// Returns when the graphs in all of the namespaces are Ready. `alive` fails when there is no use in waiting.
    pub(super) async fn all_ready(&self, namespaces: &[String], alive: impl Fn() -> Result<()>) -> Result<()> {
        let mut moved = self.moved.subscribe();
        loop {
            let unready = self.unready(namespaces);
            if unready.is_empty() {
                return Ok(());
            }
            alive()?;
            if timeout(PATIENCE, moved.changed()).await.is_err() {
                bail!(
                    "{} of {} graphs are not Ready and nothing moves any more; the first is in {}",
                    unready.len(),
                    namespaces.len(),
                    unready[0]
                );
            }
        }
    }

    fn unready(&self, names: &[String]) -> Vec<String> {
        let namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        let unready = names.iter().filter(|&name| namespaces.get(name).is_none_or(|found| found.ready.is_none()));
        unready.cloned().collect()
    }

    /// How long each graph took.
    pub(super) fn times(&self, applied: &Applied) -> Result<Vec<Times>> {
        let namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        let times = applied.iter().map(|(name, sent)| {
            let found = namespaces.get(name);
            let times = found.and_then(|found| {
                let since = |moment: Instant| moment - *sent;
                Some(Times {
                    children: found.children,
                    to_children: since(found.last_child?),
                    to_workloads: since(found.last_workload?),
                    to_ready: since(found.ready?),
                })
            });
            times.with_context(|| format!("the graph in {name} has no children"))
        });
        times.collect()
    }
}

fn is_ready(graph: &DynamoGraphDeployment) -> bool {
    let mut conditions = graph.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == conditions::READY && condition.status == "True")
}
