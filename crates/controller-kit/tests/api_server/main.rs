//! The apply engine, the caches and the controller loop against a real API server.

#![allow(clippy::unwrap_used, reason = "a test")]

mod applier;
mod consistent;
mod controller;
mod deep;
mod events;
mod leader;
mod metrics_access;
mod optional_api;
mod scale;
mod scope;
mod shards;
mod status_takeover;
mod takeover;
mod unstreamed;
mod whole_object;

use std::{fmt::Debug, sync::Arc};

use controller_kit::{
    apply::{Applier, ApplyOutcome, Desired, ObjectId},
    metrics::Metrics,
    store::CacheView,
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use test_cluster::TestNamespace;

const MANAGER: &str = "kit-test";

/// A namespace, a parent in it, and an applier.
struct Bench {
    namespace: TestNamespace,
    parent: ConfigMap,
    applier: Applier,
    metrics: Metrics,
}

impl Bench {
    async fn new(prefix: &str) -> Self {
        let namespace = TestNamespace::new(test_cluster::shared(&[]).await.unwrap(), prefix).await.unwrap();
        let api = Api::<ConfigMap>::namespaced(namespace.client(), namespace.name());
        let metadata = ObjectMeta { name: Some("parent".into()), ..Default::default() };
        let parent = ConfigMap { metadata, ..Default::default() };
        let parent = api.create(&PostParams::default(), &parent).await.unwrap();
        let metrics = Metrics::new();
        let applier = Applier::new(namespace.client(), MANAGER, metrics.clone(), Vec::new());
        Self { namespace, parent, applier, metrics }
    }

    fn with_caches(&self, caches: Vec<Arc<dyn CacheView>>) -> Applier {
        Applier::new(self.namespace.client(), MANAGER, self.metrics.clone(), caches)
    }

    fn uid(&self) -> String {
        self.parent.uid().unwrap()
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.namespace.client(), self.namespace.name())
    }

    /// An object of this namespace, with the parent as controller.
    fn desired<K>(&self, mut object: Value) -> Desired
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        object["metadata"]["namespace"] = json!(self.namespace.name());
        object["metadata"]["ownerReferences"] = json!([self.parent.controller_owner_ref(&()).unwrap()]);
        Desired::of(&serde_json::from_value::<K>(object).unwrap(), &self.uid()).unwrap()
    }

    async fn live<K>(&self, name: &str) -> Option<Value>
    where
        K: Resource<DynamicType = ()>,
    {
        let id = ObjectId {
            group: K::group(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: self.namespace.name().to_owned(),
            name: name.to_owned(),
        };
        self.applier.read(&ApiResource::erase::<K>(&()), &id).await.unwrap()
    }

    /// Applies as a reconcile does whose cache is up to date.
    async fn apply<K: Resource<DynamicType = ()>>(&self, desired: &Desired) -> ApplyOutcome {
        let live = self.live::<K>(&desired.id().name).await;
        self.applier.apply(desired, live.as_ref()).await.unwrap()
    }

    /// Another client changes something.
    async fn meddle<K>(&self, name: &str, patch: Value)
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

fn deployment(replicas: i32, image: &str) -> Value {
    json!({
        "metadata": { "name": "d", "labels": { "ours": "yes" } },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "d" } },
            "template": {
                "metadata": { "labels": { "app": "d" } },
                "spec": { "containers": [{ "name": "main", "image": image }] },
            },
        },
    })
}

type D = Deployment;
