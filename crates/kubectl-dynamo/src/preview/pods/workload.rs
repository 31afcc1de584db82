//! Workloads that run pods: a Deployment, a LeaderWorkerSet, or a PodClique or scaling group of Grove, as far as their
//! pods depend on them.

use std::collections::BTreeMap;

use api_types::{
    grove::{ENGINE_GROUP, POD_CLIQUE},
    labels,
    quantity::nanos,
};
use controller_kit::apply::fingerprint;
use serde_json::{Value, json};

use super::{Pod, grove};
use crate::preview::objects::{ObjectKey, PreviewObjects, owners};

/// Groups and plurals of the kinds of workloads of components.
const KINDS: [(&str, &str); 2] = [("apps", "deployments"), ("leaderworkerset.x-k8s.io", "leaderworkersets")];

/// Amounts of resources in billionths.
pub type Amounts = BTreeMap<String, i128>;

/// A workload.
pub struct PreviewWorkload {
    /// Object key.
    pub key: ObjectKey,
    /// Its desired replicas.
    pub replicas: usize,
    /// Replicas above, and below, the desired ones while it changes.
    pub surge: usize,
    pub unavailable: usize,
    /// Whether pods of an older template go only when a user deletes them.
    pub on_delete: bool,
    /// Fingerprint of its pod templates.
    pub template: String,
    /// Its pod templates, each with the number of pods of it in a replica.
    templates: Vec<(i64, Value)>,
    object: Value,
}

/// All workloads of components and of Grove.
pub fn all(objects: &PreviewObjects) -> Vec<PreviewWorkload> {
    let of_kind = |(group, plural)| objects.of_kind(group, plural);
    let is_of_component = |object: &Value| owners(object).any(|owner| owner["kind"] == "DynamoComponentDeployment");
    let owned = KINDS.into_iter().flat_map(of_kind).filter(|(_, object)| is_of_component(object));
    let of_components = owned.map(|(key, object)| PreviewWorkload::new(key, object));
    let of_grove = grove::children(objects).into_iter().filter_map(|child| {
        let object = objects.get(&child.key)?;
        Some(PreviewWorkload::of_grove(child, object))
    });
    of_components.chain(of_grove).collect()
}

impl PreviewWorkload {
    fn new(key: &ObjectKey, object: &Value) -> Self {
        let replicas = replicas(object);
        let (step, templates) = match is_set(key) {
            true => ("/spec/rolloutStrategy/rollingUpdateConfiguration", "/spec/leaderWorkerTemplate"),
            false => ("/spec/strategy/rollingUpdate", "/spec/template"),
        };
        let step = object.pointer(step);
        let surge = amount(step.and_then(|step| step.get("maxSurge")), replicas, true);
        let unavailable = amount(step.and_then(|step| step.get("maxUnavailable")), replicas, false);
        let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
        let template = object.pointer(templates).map(fingerprint).unwrap_or_default();
        let (key, templates, object) = (key.clone(), templates_of(object), object.clone());
        Self { key, replicas, surge, unavailable, on_delete: false, template, templates, object }
    }

    /// Grove deletes a pod, or a replica of a group, before it makes the next one.
    fn of_grove(child: grove::GroveChild, object: &Value) -> Self {
        Self {
            replicas: replicas(object),
            surge: 0,
            unavailable: 1,
            on_delete: child.on_delete,
            template: child.fingerprint(),
            templates: child.templates,
            key: child.key,
            object: object.clone(),
        }
    }

    /// Whether all old pods go before new ones come.
    pub fn recreates(&self) -> bool {
        self.object.pointer("/spec/strategy/type").is_some_and(|type_| type_ == "Recreate")
    }

    /// Whether its spec is not the one that was read.
    pub fn is_changed(&self, objects: &PreviewObjects) -> bool {
        let spec = |object: &Value| object.get("spec").cloned();
        if objects.before(&self.key).and_then(spec) != spec(&self.object) {
            return true;
        }
        is_of_grove(&self.key) && grove::template_before(objects, &self.key).as_ref() != Some(&self.template)
    }

    /// Pods of the present template, by its status.
    pub fn updated(&self) -> usize {
        self.count("updatedReplicas")
    }

    /// Its pods as its status counts them.
    pub fn counted_pods(&self) -> Vec<Pod> {
        let ready = self.count("readyReplicas").max(self.count("availableReplicas"));
        let pod = |index: usize| Pod {
            name: format!("{} ({})", self.key.name, index + 1),
            ready: index < ready,
            ..self.new_pod(0)
        };
        (0..self.count("replicas")).map(pod).collect()
    }

    fn count(&self, field: &str) -> usize {
        let count = self.object.pointer("/status").and_then(|status| status.get(field)).and_then(Value::as_u64);
        count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default()
    }

    /// Its pods among live ones, the newest first.
    pub fn pods(&self, live: &[Value]) -> Vec<Pod> {
        if is_group(&self.key) {
            return self.replicas_of_group(live);
        }
        let key = match self.key.plural.as_str() {
            "leaderworkersets" => labels::LEADER_WORKER_SET,
            "podcliques" => POD_CLIQUE,
            _ => labels::SELECTOR,
        };
        // A group counts as its leader.
        let leads = |pod: &&Value| !is_set(&self.key) || label(pod, labels::WORKER_INDEX) == "0";
        let own = self.present(live, key).into_iter().filter(leads);
        let made = |pod: &Value| {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            Pod { name, ready: is_ready(pod), labels: strings(&pod["metadata"]["labels"]), ..self.new_pod(0) }
        };
        own.map(made).collect()
    }

    /// Live replicas of a scaling group, the newest first. One serves when all its pods do.
    fn replicas_of_group(&self, live: &[Value]) -> Vec<Pod> {
        let [group, replica, _] = ENGINE_GROUP;
        let mut all: Vec<Pod> = Vec::new();
        for pod in self.present(live, group) {
            let name = format!("{}-{}", self.key.name, label(pod, replica));
            match all.iter_mut().find(|known| known.name == name) {
                Some(known) => known.ready &= is_ready(pod),
                None => all.push(Pod {
                    name,
                    ready: is_ready(pod),
                    labels: strings(&pod["metadata"]["labels"]),
                    ..self.new_pod(0)
                }),
            }
        }
        all
    }

    /// Live pods with this label of the workload's name, the newest first.
    fn present<'a>(&self, live: &'a [Value], key: &str) -> Vec<&'a Value> {
        let is_own = |pod: &&Value| {
            let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
            pod["metadata"]["namespace"] == self.key.namespace.as_str()
                && label(pod, key) == self.key.name
                && pod.pointer("/metadata/deletionTimestamp").is_none()
                && !["Succeeded", "Failed"].contains(&phase)
        };
        let mut own: Vec<&Value> = live.iter().filter(is_own).collect();
        own.sort_by_key(|pod| std::cmp::Reverse(pod["metadata"]["creationTimestamp"].as_str().unwrap_or_default()));
        own
    }

    /// A pod that is made now.
    pub fn new_pod(&self, number: usize) -> Pod {
        let first = self.templates.first();
        let mut all_labels = first.map(|(_, template)| strings(&template["metadata"]["labels"])).unwrap_or_default();
        if is_set(&self.key) {
            all_labels.insert(labels::LEADER_WORKER_SET.to_owned(), self.key.name.clone());
        }
        let mut requests = Amounts::new();
        for (count, template) in &self.templates {
            for (name, amount) in requested(&template["spec"]) {
                *requests.entry(name).or_default() += amount * i128::from(*count);
            }
        }
        Pod {
            name: format!("{}-new-{number}", self.key.name),
            workload: self.key.clone(),
            component: all_labels.get(labels::COMPONENT).cloned().unwrap_or_default(),
            labels: all_labels,
            requests,
            template: self.template.clone(),
            ready: false,
        }
    }

    /// Its status with these pods.
    pub fn status(&self, pods: usize, updated: usize, ready: usize) -> Value {
        if is_of_grove(&self.key) {
            return grove::status_of_child(&self.object, (pods, updated, ready), is_group(&self.key));
        }
        let is_complete = pods == self.replicas && updated == pods && ready == pods;
        let is_available = ready >= self.replicas.saturating_sub(self.unavailable);
        let condition = |type_: &str, holds: bool, reason: &str| {
            let status = if holds { "True" } else { "False" };
            json!({ "type": type_, "status": status, "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" })
        };
        let progress = if is_complete { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" };
        let mut status = json!({
            "observedGeneration": self.object["metadata"]["generation"],
            "replicas": pods,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "conditions": [condition("Available", is_available, "MinimumReplicasAvailable"),
                condition("Progressing", true, progress)],
        });
        if !is_set(&self.key) {
            status["availableReplicas"] = json!(ready);
            status["unavailableReplicas"] = json!(pods.saturating_sub(ready));
        }
        status
    }
}

fn is_set(key: &ObjectKey) -> bool {
    key.plural == "leaderworkersets"
}

fn is_group(key: &ObjectKey) -> bool {
    key.plural == "podcliquescalinggroups"
}

fn is_of_grove(key: &ObjectKey) -> bool {
    key.plural == "podcliques" || is_group(key)
}

fn replicas(object: &Value) -> usize {
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
    usize::try_from(replicas).unwrap_or(usize::MAX)
}

/// The pod templates of a Deployment or a LeaderWorkerSet.
fn templates_of(object: &Value) -> Vec<(i64, Value)> {
    let pointers =
        ["/spec/template", "/spec/leaderWorkerTemplate/leaderTemplate", "/spec/leaderWorkerTemplate/workerTemplate"];
    let size = object.pointer("/spec/leaderWorkerTemplate/size").and_then(Value::as_i64).unwrap_or(1);
    let templates: Vec<_> = pointers.into_iter().filter_map(|pointer| object.pointer(pointer)).cloned().collect();
    let has_leader = templates.len() > 1;
    let count = |index| match (has_leader, index) {
        (false, _) => size,
        (true, 0) => 1,
        (true, _) => size - 1,
    };
    templates.into_iter().enumerate().map(|(index, template)| (count(index), template)).collect()
}

fn label(pod: &Value, key: &str) -> String {
    pod["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.is_some_and(|all| all.iter().any(|it| it["type"] == "Ready" && it["status"] == "True"))
}

/// A count, or a percentage of the replicas; 25 % where nothing is said, as for Deployments.
fn amount(given: Option<&Value>, replicas: usize, up: bool) -> usize {
    let percentage = |percent: usize| {
        let part = replicas * percent;
        if up { part.div_ceil(100) } else { part / 100 }
    };
    match given {
        Some(Value::Number(count)) => count.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or_default(),
        Some(Value::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|digits| digits.parse().ok());
            percent.map_or_else(|| text.parse().unwrap_or_default(), percentage)
        }
        _ => percentage(25),
    }
}

/// Returns the requests of the containers of a pod; sidecars count, and of the other init containers the largest.
fn requested(spec: &Value) -> Amounts {
    let containers = |list: &str| spec[list].as_array().cloned().unwrap_or_default();
    let is_sidecar = |container: &Value| container["restartPolicy"] == "Always";
    let (sidecars, init): (Vec<_>, Vec<_>) = containers("initContainers").into_iter().partition(is_sidecar);
    let mut total = Amounts::new();
    for container in containers("containers").iter().chain(&sidecars) {
        for (name, amount) in amounts(container) {
            *total.entry(name).or_default() += amount;
        }
    }
    for container in &init {
        for (name, amount) in amounts(container) {
            let most = total.entry(name).or_default();
            *most = amount.max(*most);
        }
    }
    total
}

/// Returns the requests of a container: a limit without a request counts as a request.
fn amounts(container: &Value) -> Amounts {
    let read = |list: &str| -> Amounts {
        let all = container["resources"][list].as_object().into_iter().flatten();
        let amount = |value: &Value| nanos(value.as_str().map_or_else(|| value.to_string(), str::to_owned).trim());
        all.filter_map(|(name, value)| Some((name.clone(), amount(value)?))).collect()
    };
    let mut amounts = read("limits");
    amounts.extend(read("requests"));
    amounts
}

fn strings(map: &Value) -> BTreeMap<String, String> {
    let all = map.as_object().into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
