//! Prefill workers that manage no adapters: in an upgrade, an older one is covered by a newer one of the same graph,
//! which publishes the adapter for both. Pure.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use api_types::{
    labels,
    v1beta1::{BackendFramework, ComponentType, MAIN_CONTAINER},
};
use kube::ResourceExt;

use super::model::EnginePod;
use crate::engine::{Endpoint, state::AdapterState};

/// Workers that can replace each other, by name.
pub type WorkerGroup = Arc<str>;

/// The group of a pod, if it is a prefill worker of vLLM: its graph, or without one its workload.
pub fn group_of(pod: &EnginePod) -> Option<WorkerGroup> {
    let label = |key: &str| pod.labels().get(key).map(String::as_str).filter(|value| !value.is_empty());
    let mut role = label(labels::COMPONENT_TYPE)?;
    if role == ComponentType::Worker.as_str() {
        role = label(labels::SUB_COMPONENT_TYPE)?;
    }
    let main = pod.spec.containers.iter().find(|container| container.name == MAIN_CONTAINER)?;
    let framework = || rendering::framework_of(main.command.iter().chain(&main.args).flatten());
    if role != ComponentType::Prefill.as_str() || framework() != Some(BackendFramework::Vllm) {
        return None;
    }
    let owner = || pod.owner_references().iter().find(|owner| owner.controller == Some(true));
    if let Some(graph) = label(labels::GRAPH) {
        return Some(format!("graph:{graph}").into());
    }
    let workload = label(labels::SELECTOR).or_else(|| owner().map(|owner| owner.name.as_str()))?;
    Some(format!("workload:{workload}").into())
}

/// Pods that manage no adapters and are covered by one of their group that serves the adapter.
pub fn covered(
    endpoints: &[Endpoint],
    adapter_states: &HashMap<Arc<str>, AdapterState>,
    groups: &HashMap<Arc<str>, WorkerGroup>,
) -> HashSet<Arc<str>> {
    let in_state = |desired: AdapterState| {
        let ready = endpoints.iter().filter(|endpoint| endpoint.ready);
        ready.filter(move |endpoint| adapter_states.get(&endpoint.pod) == Some(&desired))
    };
    let capable: HashSet<&WorkerGroup> =
        in_state(AdapterState::Loaded).filter_map(|endpoint| groups.get(&endpoint.pod)).collect();
    let lame = in_state(AdapterState::Unmanaged);
    let lame = lame.filter(|endpoint| groups.get(&endpoint.pod).is_some_and(|group| capable.contains(group)));
    lame.map(|endpoint| Arc::clone(&endpoint.pod)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(labels: &[(&str, &str)], module: &str) -> EnginePod {
        let labels: HashMap<_, _> = labels.iter().copied().collect();
        serde_json::from_value(json!({
            "metadata": { "labels": labels, "ownerReferences": [
                { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": true } ] },
            "spec": { "containers": [{ "name": "main", "command": ["python3", "-m", module] }] },
        }))
        .unwrap()
    }

    #[test]
    fn only_prefill_workers_of_vllm_can_be_covered() {
        let (kind, sub) = (labels::COMPONENT_TYPE, labels::SUB_COMPONENT_TYPE);
        for (labels, module, group) in [
            (vec![(kind, "prefill"), (labels::GRAPH, "g")], "dynamo.vllm", Some("graph:g")),
            (vec![(kind, "worker"), (sub, "prefill"), (labels::GRAPH, "g")], "dynamo.vllm", Some("graph:g")),
            (vec![(kind, "prefill"), (labels::SELECTOR, "w")], "dynamo.vllm", Some("workload:w")),
            (vec![(kind, "prefill")], "dynamo.vllm", Some("workload:rs")),
            (vec![(kind, "prefill"), (labels::GRAPH, "g")], "dynamo.sglang", None),
            (vec![(kind, "decode"), (labels::GRAPH, "g")], "dynamo.vllm", None),
            (vec![(kind, "worker"), (labels::GRAPH, "g")], "dynamo.vllm", None),
            (vec![(labels::GRAPH, "g")], "dynamo.vllm", None),
        ] {
            assert_eq!(group_of(&pod(&labels, module)).as_deref(), group, "{labels:?} {module}");
        }
    }

    #[test]
    fn a_worker_is_covered_by_one_of_its_group_while_both_are_ready() {
        let endpoint = |pod: &str, ready| Endpoint {
            pod_name: pod.into(),
            pod: pod.into(),
            address: "10.0.0.1".parse().unwrap(),
            ready,
        };
        let groups = |pods: &[(&str, &str)]| -> HashMap<Arc<str>, WorkerGroup> {
            pods.iter().map(|(pod, group)| ((*pod).into(), (*group).into())).collect()
        };
        let adapter_states =
            HashMap::from([("old".into(), AdapterState::Unmanaged), ("new".into(), AdapterState::Loaded)]);
        for (old_ready, new_ready, groups, expected) in [
            (true, true, groups(&[("old", "g"), ("new", "g")]), 1),
            (false, true, groups(&[("old", "g"), ("new", "g")]), 0),
            (true, false, groups(&[("old", "g"), ("new", "g")]), 0),
            (true, true, groups(&[("old", "g"), ("new", "h")]), 0),
            (true, true, groups(&[("new", "g")]), 0),
        ] {
            let endpoints = [endpoint("old", old_ready), endpoint("new", new_ready)];
            assert_eq!(covered(&endpoints, &adapter_states, &groups).len(), expected);
        }
    }
}
