//! Content of a graph's status beside its components: rejections by the API server, and fields that have no effect.
//! Pure.

use api_types::{
    annotations,
    conditions::graph as reason,
    v1beta1::{ComponentSpec, DynamoGraphDeployment},
};
use controller_kit::{apply::RequestError, failure::Class};
use kube::ResourceExt;
use rendering::WorkloadProvider;

use crate::graph::model::{ClusterApis, GraphObstacle, ObstacleProgress};

/// One obstacle for all rejections of a reconcile, with the most urgent reason. `None` if all failures are transient:
/// those change no status.
pub fn rejection<'a>(failed: impl IntoIterator<Item = &'a RequestError>) -> Option<GraphObstacle> {
    let mut refused: Vec<_> = failed.into_iter().filter_map(|error| Some((classify(error.class())?, error))).collect();
    refused.sort_by_key(|((urgency, ..), _)| *urgency);
    let ((_, ready_reason, progress), _) = *refused.first()?;
    let messages: Vec<_> = refused.iter().map(|(_, error)| error.to_string()).collect();
    Some(GraphObstacle { ready_reason, progress, message: messages.join("; ") })
}

/// The urgency of a rejection (the lower, the more urgent), the reason of `Ready`, and the progress. `None` for what
/// changes no status.
fn classify(class: Class) -> Option<(u8, &'static str, ObstacleProgress)> {
    match class {
        Class::Foreign => Some((0, reason::FAILED, ObstacleProgress::Stalled(reason::NAME_TAKEN))),
        Class::Invalid => Some((1, reason::FAILED, ObstacleProgress::Stalled(reason::INVALID_SPEC))),
        // Both end without a change of the spec, and the rest continues.
        Class::Forbidden => Some((2, reason::SOME_NOT_READY, ObstacleProgress::Reconciling(reason::FORBIDDEN))),
        Class::Webhook => Some((3, reason::SOME_NOT_READY, ObstacleProgress::Reconciling(reason::WEBHOOK_UNAVAILABLE))),
        Class::Transient => None,
    }
}

/// Suffix of the path of a checkpoint.
const SWITCHED_OFF: &str =
    " (checkpoints are switched off; an administrator sets checkpoint.enabled in the operator's configuration)";

/// Suffix of the path of a topology that must not be read.
const HIDDEN: &str = " (the operator has no right to get clustertopologybindings.grove.io, so that pods have only the \
                      domain that the graph names, which may have no label; an administrator grants it, in a \
                      namespace-restricted install by dynamo-operator.namespaceRestriction.clusterReads=true)";

/// Paths of the fields without effect under this provider, in the order of the object, each with its reason where that
/// is not the provider; empty for most graphs.
pub fn unserved_fields(graph: &DynamoGraphDeployment, provider: WorkloadProvider, served: ClusterApis) -> Vec<String> {
    let (spec, as_components) = (&graph.spec, provider == WorkloadProvider::Component);
    let pinned = graph.annotations().get(annotations::WORKLOAD_PROVIDER);
    let elsewhere = pinned.is_some_and(|pinned| pinned != provider.as_str());
    let of_graph = [
        (as_components && spec.provider_override.is_some(), "spec.providerOverride"),
        (as_components && spec.priority_class_name.is_some(), "spec.priorityClassName"),
        (as_components && spec.topology_constraint.is_some(), "spec.topologyConstraint"),
    ];
    let annotation = elsewhere.then(|| format!("metadata.annotations[{}]", annotations::WORKLOAD_PROVIDER));
    let hidden =
        served.topology_hidden.then(|| format!("spec.experimental.kvTransferPolicy.clusterTopologyName{HIDDEN}"));
    let set = of_graph.into_iter().filter(|(is_set, _)| *is_set).map(|(_, field)| field.to_owned());
    let mut fields: Vec<String> = annotation.into_iter().chain(set).chain(hidden).collect();
    for component in &spec.components {
        let at = format!("spec.components[{}]", component.name);
        if !served.checkpoints && component.enabled_checkpoint().is_some() {
            fields.push(format!("{at}.experimental.checkpoint{SWITCHED_OFF}"));
        }
        fields.extend(of_component(component, as_components).into_iter().map(|field| format!("{at}.{field}")));
    }
    fields
}

fn of_component(component: &ComponentSpec, as_components: bool) -> Vec<&'static str> {
    let nodes = component.multinode.as_ref();
    let leader = nodes.and_then(|nodes| nodes.leader.as_ref()?.provider_override.as_ref());
    let worker = nodes.and_then(|nodes| nodes.worker.as_ref()?.provider_override.as_ref());
    let fields = [
        (as_components && component.provider_override.is_some(), "providerOverride"),
        (as_components && component.min_available.is_some(), "minAvailable"),
        (as_components && leader.is_some(), "multinode.leader.providerOverride"),
        (as_components && worker.is_some(), "multinode.worker.providerOverride"),
        (as_components && component.topology_constraint.is_some(), "topologyConstraint"),
        (as_components && component.forces_scaling_group(), "experimental.grove.forceScalingGroup"),
    ];
    fields.into_iter().filter(|(is_set, _)| *is_set).map(|(_, field)| field).collect()
}

#[cfg(test)]
mod tests {
    use controller_kit::apply::ObjectId;
    use kube::core::Status;

    use super::*;

    fn object(kind: &str) -> ObjectId {
        ObjectId { group: String::new(), kind: kind.into(), namespace: "team-a".into(), name: "chat".into() }
    }

    fn answer(kind: &str, code: u16, message: &str) -> RequestError {
        let source = kube::Error::Api(Status::failure(message, "").with_code(code).boxed()).into();
        RequestError::Api { action: "apply", object: object(kind), source }
    }

    const UNREACHABLE: &str =
        "Internal error occurred: failed calling webhook \"v.example.com\": no endpoints available";

    /// Reference: another client writes at the same time, and the graph is `failed`.
    #[test]
    fn transient_failures_are_no_obstacle() {
        for (code, message) in [(409, ""), (429, ""), (500, "etcdserver: leader changed"), (503, ""), (504, "")] {
            assert_eq!(rejection(&[answer("Role", code, message)]), None, "{code} {message}");
        }
        assert_eq!(rejection(&[RequestError::Changed { object: object("Role") }]), None);
        assert_eq!(rejection(&[RequestError::Timeout { action: "create", object: object("Role") }]), None);
        assert_eq!(rejection(&[]), None);
    }

    #[test]
    fn answers_about_one_object_name_it_under_a_reason() {
        let foreign = RequestError::Foreign { object: object("Role"), reason: "it has no owner".to_owned() };
        for (error, ready, progress) in [
            (foreign, reason::FAILED, ObstacleProgress::Stalled(reason::NAME_TAKEN)),
            (answer("Role", 422, "x"), reason::FAILED, ObstacleProgress::Stalled(reason::INVALID_SPEC)),
            (answer("Role", 413, "x"), reason::FAILED, ObstacleProgress::Stalled(reason::INVALID_SPEC)),
            (answer("Role", 403, "x"), reason::SOME_NOT_READY, ObstacleProgress::Reconciling(reason::FORBIDDEN)),
            (
                answer("Role", 500, UNREACHABLE),
                reason::SOME_NOT_READY,
                ObstacleProgress::Reconciling(reason::WEBHOOK_UNAVAILABLE),
            ),
        ] {
            let found = rejection([&error]).unwrap();
            assert_eq!((found.ready_reason, found.progress), (ready, progress), "{error}");
            assert!(found.message.contains("Role team-a/chat"), "{}", found.message);
        }
    }

    #[test]
    fn all_rejections_are_in_the_message_and_the_most_urgent_gives_the_reason() {
        let failed = [
            answer("Ingress", 500, UNREACHABLE),
            answer("Role", 503, "the server is away"),
            answer("ServiceAccount", 422, "a bad name"),
        ];
        let found = rejection(&failed).unwrap();
        assert_eq!(found.progress, ObstacleProgress::Stalled(reason::INVALID_SPEC));
        let expected = format!(
            "cannot apply ServiceAccount team-a/chat: a bad name; cannot apply Ingress team-a/chat: {UNREACHABLE}"
        );
        assert_eq!(found.message, expected);
    }
}

#[cfg(test)]
mod ignored_fields_tests {
    use serde_json::json;

    use super::*;
    use crate::graph::fixtures::{graph, graph_with};

    #[test]
    fn an_ordinary_graph_is_served_whole() {
        assert_eq!(
            unserved_fields(&graph(), WorkloadProvider::Component, ClusterApis::default()),
            Vec::<String>::new()
        );
    }

    #[test]
    fn every_field_without_effect_is_named() {
        let graph = graph_with(|g| {
            g["spec"]["priorityClassName"] = json!("high");
            g["spec"]["components"][0]["minAvailable"] = json!(1);
            let worker = &mut g["spec"]["components"][1];
            worker["topologyConstraint"] = json!({ "packDomain": "rack" });
            worker["experimental"] = json!({ "grove": { "forceScalingGroup": true } });
            let fragment = json!({ "apiVersion": "grove.io/v1alpha1", "target": "PodClique", "value": {} });
            worker["multinode"] = json!({ "nodeCount": 2, "leader": { "providerOverride": fragment } });
        });
        let expected = [
            "spec.priorityClassName",
            "spec.components[Frontend].minAvailable",
            "spec.components[Decode].multinode.leader.providerOverride",
            "spec.components[Decode].topologyConstraint",
            "spec.components[Decode].experimental.grove.forceScalingGroup",
        ];
        assert_eq!(unserved_fields(&graph, WorkloadProvider::Component, ClusterApis::default()), expected);
    }

    #[test]
    fn a_checkpoint_is_named_where_checkpoints_are_switched_off() {
        let graph = graph_with(|g| {
            g["spec"]["components"][1]["experimental"] = json!({ "checkpoint": { "enabled": true } });
        });
        let reported = unserved_fields(&graph, WorkloadProvider::Component, ClusterApis::default());
        assert!(
            reported.len() == 1 && reported[0].starts_with("spec.components[Decode].experimental.checkpoint ("),
            "{reported:?}"
        );
        let served = ClusterApis { checkpoints: true, ..ClusterApis::default() };
        assert_eq!(unserved_fields(&graph, WorkloadProvider::Component, served), Vec::<String>::new());
    }

    #[test]
    fn a_topology_that_may_not_be_read_is_named_with_the_right_and_who_grants_it() {
        let served = ClusterApis { topology_hidden: true, ..ClusterApis::default() };
        let reported = unserved_fields(&graph(), WorkloadProvider::Grove, served);
        assert_eq!(reported.len(), 1, "{reported:?}");
        for part in ["kvTransferPolicy.clusterTopologyName", "clustertopologybindings.grove.io", "clusterReads=true"] {
            assert!(reported[0].contains(part), "{reported:?}");
        }
    }

    #[test]
    fn grove_serves_more_and_an_annotation_that_live_objects_contradict_is_named() {
        let graph = graph_with(|g| {
            g["metadata"]["annotations"] = json!({ annotations::WORKLOAD_PROVIDER: "component" });
            g["spec"]["priorityClassName"] = json!("high");
            g["spec"]["components"][0]["minAvailable"] = json!(1);
        });
        let expected = ["metadata.annotations[nvidia.com/workload-provider]"];
        assert_eq!(unserved_fields(&graph, WorkloadProvider::Grove, ClusterApis::default()), expected);
    }
}
