//! Copies labels of nodes to pods that ask for them. Pods are read one by one, and only while they lack something.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use api_types::grove;
use api_types::labels;
use api_types::v1beta1::DynamoGraphDeployment;
use controller_kit::apply::{Applier, Error, ObjectId};
use controller_kit::events::{EventSink, EventType};
use controller_kit::failure::Class;
use controller_kit::store::Store;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::{ApiResource, GroupVersionKind, PartialObjectMeta};
use kube::{Resource, ResourceExt};
use serde_json::Value;
use tracing::{debug, info};

use crate::graph::decide::topology::{Level, Wanted, changes, copies, levels, wanted};

/// Reason of the event on a pod whose node does not say where it is.
const MISSING: &str = "TopologyLabelMissing";

/// Copies labels of nodes to pods.
#[derive(Clone)]
pub struct Labeller {
    applier: Applier,
    events: EventSink,
    pods: Store<PartialObjectMeta<Pod>>,
    /// Pods whose nodes do not say everything, by uid: that was told, and looking again is of no use.
    told: Arc<Mutex<BTreeSet<String>>>,
}

impl Labeller {
    /// Works on these pods, which are those of workers that have not ended.
    pub fn new(applier: Applier, events: EventSink, pods: Store<PartialObjectMeta<Pod>>) -> Self {
        Self { applier, events, pods, told: Arc::default() }
    }

    /// Labels the pods of a graph whose workers shall know where they are. Says whether a pod is to be looked at again because
    /// of something that no watch shows.
    ///
    /// # Errors
    /// What the API server answered.
    pub async fn label(&self, graph: &DynamoGraphDeployment) -> Result<bool, Error> {
        let experimental = graph.spec.experimental.as_ref();
        if experimental.is_none_or(|experimental| experimental.kv_transfer_policy.is_none()) {
            return Ok(false);
        }
        let (namespace, name) = (graph.namespace(), graph.name_any());
        let mut again = false;
        for pod in self.pods.all() {
            if pod.namespace() != namespace || pod.labels().get(labels::GRAPH) != Some(&name) {
                continue;
            }
            if let Some(wanted) = wanted(&pod.metadata)
                && !self.is_told(&pod)
            {
                again |= self.label_pod(&pod, &wanted, &graph.uid().unwrap_or_default()).await?;
            }
        }
        Ok(again)
    }

    async fn label_pod(&self, pod: &PartialObjectMeta<Pod>, wanted: &Wanted, parent: &str) -> Result<bool, Error> {
        // Where it is stands in its spec, which no cache holds.
        let Some(live) = self.get::<Pod>(&pod.namespace().unwrap_or_default(), &pod.name_any()).await? else {
            return Ok(false);
        };
        let Some(node_name) = live.pointer("/spec/nodeName").and_then(Value::as_str).filter(|name| !name.is_empty())
        else {
            return Ok(false);
        };
        let levels = match &wanted.topology {
            None => Vec::new(),
            Some(topology) => match self.levels(topology).await? {
                Some(levels) => levels,
                None => return Ok(true),
            },
        };
        let node = match self.get::<Node>("", node_name).await {
            Ok(Some(node)) => node,
            Ok(None) => return Ok(true),
            Err(error) if error.class() == Class::Forbidden => {
                self.tell(pod, &format!("the labels of node {node_name} cannot be read: {error}"));
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let copies = copies(wanted, &levels, &labels_of(&live));
        let (changes, missing) = changes(&copies, &labels_of(&node));
        for copied in &missing {
            let note = format!("node {node_name} has no label {}; {} stays unknown to the pod", copied.from, copied.to);
            self.tell(pod, &note);
        }
        if !changes.is_empty() {
            let count = changes.len();
            self.applier.edit_fields(pod, parent, changes).await?;
            info!(pod = %pod.name_any(), node = node_name, labels = count, "told the pod where it is");
        }
        Ok(false)
    }

    /// The levels of a cluster topology; `None` if there is none of that name.
    async fn levels(&self, topology: &str) -> Result<Option<Vec<Level>>, Error> {
        let (group, version) = grove::API_VERSION.split_once('/').unwrap_or_default();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, "ClusterTopologyBinding"));
        let binding = self.applier.get(&resource, &id(&resource, "", topology)).await?;
        if binding.is_none() {
            debug!(topology, "there is no such cluster topology yet");
        }
        Ok(binding.map(|binding| levels(&binding)))
    }

    async fn get<K>(&self, namespace: &str, name: &str) -> Result<Option<Value>, Error>
    where
        K: Resource<DynamicType = ()>,
    {
        let resource = ApiResource::erase::<K>(&());
        self.applier.get(&resource, &id(&resource, namespace, name)).await
    }

    fn tell(&self, pod: &PartialObjectMeta<Pod>, note: &str) {
        self.events.publish(&pod.object_ref(&()), EventType::Warning, MISSING, "Update", note);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.extend(pod.uid());
    }

    /// Whether its node has been found wanting. Pods that are gone are forgotten on the way.
    fn is_told(&self, pod: &PartialObjectMeta<Pod>) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() > self.pods.len() {
            let live: BTreeSet<String> = self.pods.all().iter().filter_map(|pod| pod.uid()).collect();
            told.retain(|uid| live.contains(uid));
        }
        pod.uid().is_some_and(|uid| told.contains(&uid))
    }
}

fn id(resource: &ApiResource, namespace: &str, name: &str) -> ObjectId {
    ObjectId {
        group: resource.group.clone(),
        kind: resource.kind.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn labels_of(object: &Value) -> BTreeMap<String, String> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
