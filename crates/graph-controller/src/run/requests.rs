//! Caches of requests, what wakes one, and its loop.

use std::sync::Arc;

use api_types::{
    labels, names,
    v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentRequest},
};
use controller_kit::{
    context::Context,
    controller::{Outputs, Wiring},
    store::{
        Key, Packed, ServedApis, Store, Watch,
        keep::{self, Keep, is_a},
        watch,
    },
};
use futures::stream::BoxStream;
use k8s_openapi::{
    api::{batch::v1::Job, core::v1::ConfigMap},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Resource, ResourceExt};

use super::concerns;
use crate::{
    NAME,
    graph::caches::GraphCaches,
    request::{
        RequestReconciler,
        observe::{RequestCaches, RequestObserver},
        settings::{RequestArgs, RequestSettings},
    },
};

/// The store of requests and the watch that feeds it.
pub(super) struct Requests {
    store: Store<Packed<DynamoGraphDeploymentRequest>>,
    watch: Watch<Packed<DynamoGraphDeploymentRequest>>,
}

impl Requests {
    /// Opens the watch.
    pub(super) fn open(context: &Context) -> Self {
        let (store, watch) = watch::<DynamoGraphDeploymentRequest>(&context.source(), None);
        context.metrics.count_resources(&store, &context.fence, concerns::of_request);
        Self { store, watch }
    }

    /// The requests that a graph concerns, by its labels, or by its owners if their profilers started it.
    pub(super) fn concerned_by_graphs(
        &self,
        graphs: Watch<Packed<DynamoGraphDeployment>>,
    ) -> (Watch<Packed<DynamoGraphDeployment>>, BoxStream<'static, Key>) {
        let known = self.store.clone();
        graphs.and_keys(move |graph| {
            let namespace = graph.namespace().unwrap_or_default();
            let owners =
                graph.owner_references().iter().filter(|owner| owner.kind == DynamoGraphDeploymentRequest::kind(&()));
            let started_by = owners.map(|owner| Key::new(&namespace, &owner.name));
            named_by(&known, graph, labels::REQUEST_NAME).into_iter().chain(started_by).collect()
        })
    }

    /// Runs the controller of requests. `from_graphs` are the requests whose graphs changed.
    pub(super) async fn run(
        self,
        context: &Context,
        apis: &ServedApis,
        args: RequestArgs,
        graphs: &GraphCaches,
        from_graphs: BoxStream<'static, Key>,
    ) {
        let profilers = format!("{}={}", labels::APP, labels::PROFILER);
        let jobs_of_requests = keep::owned_or_orphaned::<DynamoGraphDeploymentRequest>;
        let known = self.store.clone();
        let of_job = move |job: &_| named_by(&known, job, labels::REQUEST);
        let known = self.store.clone();
        let of_map = move |map: &_| named_by(&known, map, labels::REQUEST_NAME);
        let mut wiring = Wiring::new(context, apis, self.watch);
        let caches = RequestCaches {
            requests: self.store,
            graphs: graphs.graphs.clone(),
            jobs: wiring.watched::<Job>(Some(&profilers), jobs_of_requests, of_job),
            config_maps: wiring.watched::<ConfigMap>(Some(labels::REQUEST_NAME), outputs_of_requests, of_map),
            accounts: graphs.accounts.clone(),
            bindings: graphs.bindings.clone(),
        };
        wiring.applies(&caches.graphs);
        wiring.applies(&caches.accounts);
        wiring.applies(&caches.bindings);
        let (controller, applier) = wiring.finish(NAME);
        let settings = Arc::new(RequestSettings::of(&context.settings, &context.scope, args));
        let observer = RequestObserver::new(context.client.clone(), applier.clone(), caches, settings);
        let outputs = Outputs::new(applier).notifying(context.notifier.as_ref());
        let reconciler = RequestReconciler { observer, outputs };
        controller.also(from_graphs).drive(context, Arc::new(reconciler)).await;
    }
}

/// Keeps what profilers have said. The other ConfigMaps of a request are read when they are written.
fn outputs_of_requests(map: &ObjectMeta) -> Keep {
    let is_output = |owner: &OwnerReference| {
        is_a::<DynamoGraphDeploymentRequest>(owner) && map.name.as_ref() == Some(&names::profiling_output(&owner.name))
    };
    if keep::controller_of(map).is_some_and(is_output) { Keep::UpTo(usize::MAX) } else { Keep::Identity }
}

/// The requests that a label of an object names. Long names are shortened in labels.
fn named_by<K: Resource>(requests: &Store<Packed<DynamoGraphDeploymentRequest>>, object: &K, label: &str) -> Vec<Key> {
    let (Some(name), Some(namespace)) = (object.labels().get(label), object.namespace()) else { return Vec::new() };
    let key = Key::new(&namespace, name);
    if name.len() < names::LABEL_MAX || requests.get(&key).is_some() {
        return vec![key];
    }
    let keys = requests.keys().into_iter();
    keys.filter(|key| key.namespace == namespace && names::label_value(&key.name) == *name).collect()
}
