//! From the profiler's proposal to a graph that serves.

use api_types::{
    annotations,
    conditions::{self, request as reason},
    names,
    v1beta1::{DynamoGraphDeployment, GraphState, RequestPhase},
};
use controller_kit::{conditions::find, store::controller_owner};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{at, generated};
use crate::request::{
    model::{HandOver, Observed, Plan, Stage},
    phase::{graph_name, graph_was_there, is_graph_of},
};

/// Makes the graph that was selected, or follows it.
pub(super) fn follow(observed: &Observed) -> Plan {
    let deployed = observed.status().phase == Some(RequestPhase::Deployed);
    if !observed.request.spec.auto_apply && !deployed {
        return at(Stage::Ready);
    }
    let name = graph_name(&observed.request);
    match &observed.graph {
        Some(graph) if is_graph_of(graph, &observed.request) => serving(observed, graph),
        Some(_) => at(Stage::Deploying { reason: reason::NAME_TAKEN, message: taken(observed, &name), stuck: true }),
        None if graph_was_there(&observed.request) => at(Stage::Deleted(format!(
            "DynamoGraphDeployment {name} was deleted and is not made again; change the spec, or make a new request, to have it back"
        ))),
        None => make(observed, &name),
    }
}

/// The sentence about a graph of the desired name that is foreign.
pub fn taken(observed: &Observed, name: &str) -> String {
    format!(
        "DynamoGraphDeployment {}/{name} exists and was not made for this request; delete it, or give the request's graph another \
         name with spec.overrides.dgd.metadata.name in a new request",
        observed.namespace
    )
}

fn make(observed: &Observed, name: &str) -> Plan {
    let message = format!("DynamoGraphDeployment {name} is being made");
    let mut plan = at(Stage::Deploying { reason: reason::DEPLOYMENT_IN_PROGRESS, message, stuck: false });
    let version = observed.request.spec.runtime_version_override.as_deref();
    let mut graph = generated::with_runtime(observed.selected().cloned().unwrap_or_default(), version);
    if let Some(fields) = graph.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = graph.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name".to_owned(), json!(name));
        metadata.insert("namespace".to_owned(), json!(observed.namespace));
        for (key, value) in generated::tracking_labels(&observed.name, &observed.namespace) {
            add(metadata, "labels", &key, value);
        }
        add(metadata, "annotations", annotations::REQUEST_UID, observed.uid.clone());
    }
    plan.graph = Some(graph);
    plan
}

fn add(metadata: &mut serde_json::Map<String, Value>, what: &str, key: &str, value: String) {
    let all = metadata.entry(what).or_insert_with(|| json!({}));
    if all.is_null() {
        *all = json!({});
    }
    if let Some(all) = all.as_object_mut() {
        all.insert(key.to_owned(), Value::String(value));
    }
}

fn serving(observed: &Observed, graph: &DynamoGraphDeployment) -> Plan {
    let status = graph.status.as_ref();
    let successful = status.is_some_and(|status| status.state == GraphState::Successful);
    let before = observed.status();
    let known = find(&before.conditions, reason::DEPLOYMENT_READY).map(|found| found.reason.as_str());
    let degraded = before.phase == Some(RequestPhase::Deployed) || known == Some(reason::DEPLOYMENT_DEGRADED);
    let stage = if successful {
        Stage::Deployed
    } else {
        let reason = if degraded { reason::DEPLOYMENT_DEGRADED } else { reason::DEPLOYMENT_IN_PROGRESS };
        let words = status.and_then(|status| find(&status.conditions, conditions::READY));
        let words = words.map(|found| format!(": {}", found.message)).unwrap_or_default();
        let message = format!("DynamoGraphDeployment {} does not serve{words}", graph.name_any());
        Stage::Deploying { reason, message, stuck: false }
    };
    let mut plan = at(stage);
    let orphans = observed.config_maps.iter().filter(|map| is_to_be_handed_over(map, observed));
    let config_maps: Vec<ConfigMap> = orphans.cloned().collect();
    if !config_maps.is_empty() && graph.metadata.deletion_timestamp.is_none() {
        plan.hand_over = Some(HandOver { graph: Box::new(graph.clone()), config_maps });
    }
    plan
}

/// ConfigMaps of the proposal that have no owner, except the one to which the profiler's output is copied.
fn is_to_be_handed_over(map: &ConfigMap, observed: &Observed) -> bool {
    map.name_any() != names::profiling_output(&observed.name)
        && controller_owner(map).is_none()
        && map.metadata.deletion_timestamp.is_none()
}
