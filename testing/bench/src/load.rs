//! Applies graphs, at different paces. Unless they share namespaces, each has one of its own, so that what happens
//! there is on its account alone.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{
    Client,
    api::{Api, ListParams, ObjectMeta, PostParams},
    core::DynamicObject,
};
use local_operator::Running;
use test_cluster::{Cluster, wait};
use tokio::time::{Instant, sleep_until};

use super::{
    graph::{graph, graphs_in, without_pods},
    progress::{Applied, GraphId, Progress},
};

/// As many users at once.
const PARALLEL: usize = 32;
const LIMIT: Duration = Duration::from_secs(300);

/// Pace at which graphs are applied.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pace {
    /// Each after the one before is Ready.
    OneByOne,
    /// So many in a second.
    Rate(f64),
    /// As fast as the API server takes them.
    AllAtOnce,
}

pub(super) struct Load {
    client: Client,
    components: u8,
    /// The namespaces that graphs share, if they have none of their own.
    namespaces: usize,
    has_pods: bool,
    /// Graphs that have namespaces.
    pub(super) prepared: usize,
}

impl Load {
    pub(super) fn new(client: Client, components: u8) -> Self {
        Self { client, components, namespaces: usize::MAX, has_pods: true, prepared: 0 }
    }

    /// The same, with graphs that share so many namespaces.
    pub(super) fn sharing(self, namespaces: usize) -> Self {
        Self { namespaces, ..self }
    }

    /// The same, with graphs that have no pods: all work is that of the operator and of the API server.
    pub(super) fn without_pods(self) -> Self {
        Self { has_pods: false, ..self }
    }

    /// Makes namespaces for graphs, and waits until Kubernetes has furnished them.
    pub(super) async fn prepare(&mut self, count: usize) -> Result<Vec<GraphId>> {
        let graph = |index: usize| GraphId {
            namespace: format!("bench-{:05}", index % self.namespaces),
            name: format!("chat-{}", index / self.namespaces),
        };
        let first = self.prepared;
        self.prepared += count;
        let names: Vec<String> =
            (first..self.prepared.min(self.namespaces)).map(|index| graph(index).namespace).collect();
        let graphs = (first..self.prepared).map(graph).collect();
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let make = async |name: &String| {
            let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
            let namespace = Namespace { metadata, ..Namespace::default() };
            namespaces
                .create(&PostParams::default(), &namespace)
                .await
                .with_context(|| format!("make namespace {name}"))
        };
        stream::iter(&names).map(make).buffer_unordered(PARALLEL).try_for_each(async |_| Ok(())).await?;
        let accounts: Api<ServiceAccount> = Api::all(self.client.clone());
        let defaults = ListParams::default().fields("metadata.name=default");
        wait::until("the new namespaces to have their accounts", LIMIT, async || {
            let found = accounts.list_metadata(&defaults).await.map_err(|error| error.to_string())?.items;
            let ours = found
                .iter()
                .filter(|account| account.metadata.namespace.as_deref().is_some_and(|name| name.starts_with("bench-")));
            let count = ours.count();
            let expected = self.prepared.min(self.namespaces);
            if count == expected { Ok(()) } else { Err(format!("{count} of {expected}")) }
        })
        .await?;
        Ok(graphs)
    }

    /// Applies graphs.
    pub(super) async fn apply(&self, graphs: &[GraphId], pace: Pace, progress: &Progress) -> Result<Applied> {
        match pace {
            Pace::OneByOne => {
                let mut applied = Vec::new();
                for graph in graphs {
                    applied.push(self.create(graph).await?);
                    progress.all_ready(std::slice::from_ref(graph), || Ok(())).await?;
                }
                Ok(applied)
            }
            Pace::Rate(rate) => {
                let begin = Instant::now();
                let at = |index: u32| begin + Duration::from_secs_f64(f64::from(index) / rate);
                let turns = stream::iter((0..).zip(graphs)).then(async |(index, graph)| {
                    sleep_until(at(index)).await;
                    graph
                });
                turns.map(|graph| self.create(graph)).buffered(PARALLEL).try_collect().await
            }
            Pace::AllAtOnce => {
                let creations = stream::iter(graphs).map(|graph| self.create(graph));
                creations.buffered(PARALLEL).try_collect().await
            }
        }
    }

    /// Applies graphs at once, and returns the time until all are Ready.
    ///
    /// # Errors
    /// A graph is not accepted or does not become Ready, or the operator ends.
    pub(super) async fn settle(
        &self,
        graphs: &[GraphId],
        progress: &Progress,
        (cluster, operators): (&Cluster, &[Running]),
    ) -> Result<Duration> {
        let begin = Instant::now();
        self.apply(graphs, Pace::AllAtOnce, progress).await?;
        progress.all_ready(graphs, || operators.iter().try_for_each(|operator| operator.check(cluster))).await?;
        let took = begin.elapsed();
        progress.rests().await?;
        Ok(took)
    }

    async fn create(&self, id: &GraphId) -> Result<(GraphId, Instant)> {
        let graphs = graphs_in(&self.client, &id.namespace);
        let graph = graph(&id.name, self.components);
        let object: DynamicObject = serde_json::from_value(if self.has_pods { graph } else { without_pods(graph) })?;
        let sent = Instant::now();
        let created = graphs.create(&PostParams::default(), &object).await;
        created.with_context(|| format!("cannot create a graph in {}", id.namespace))?;
        Ok((id.clone(), sent))
    }
}
