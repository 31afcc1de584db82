//! Phase of a request, and its graph, from its status: the objects that it followed from, such as a Job, may be
//! deleted.

use api_types::{
    annotations,
    conditions::request as condition,
    names,
    v1beta1::{DynamoGraphDeploymentRequest, RequestPhase},
};
use controller_kit::conditions::{Status, find, find_with};
use kube::ResourceExt;
use serde_json::Value;

use super::{model::RequestObserved, output::is_lost};

/// Phase of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestLifecycle {
    /// Nothing was started; also after a spec was invalid, because what was missing may be there by now.
    New,
    /// It failed, and its spec has changed since.
    Changed,
    /// The profiler was started.
    Profiling,
    /// The graph is known.
    Known,
    /// It failed, and only a change of the spec helps.
    Ended,
}

/// The phase of a request.
pub fn phase_of(request: &DynamoGraphDeploymentRequest) -> RequestLifecycle {
    let Some(status) = &request.status else { return RequestLifecycle::New };
    let refused = find_with(&status.conditions, condition::VALIDATION, Status::False).is_some();
    match status.phase {
        None | Some(RequestPhase::Pending) => RequestLifecycle::New,
        Some(RequestPhase::Profiling) => RequestLifecycle::Profiling,
        Some(RequestPhase::Ready | RequestPhase::Deploying | RequestPhase::Deployed) => RequestLifecycle::Known,
        Some(RequestPhase::Failed) if refused => RequestLifecycle::New,
        Some(RequestPhase::Failed) if status.observed_generation == request.metadata.generation => {
            RequestLifecycle::Ended
        }
        Some(RequestPhase::Failed) => RequestLifecycle::Changed,
    }
}

/// Whether a profiler is started now, or would be without an obstacle: only then its dependencies must be read.
pub fn begins(observed: &RequestObserved) -> bool {
    match phase_of(&observed.request) {
        RequestLifecycle::New => true,
        RequestLifecycle::Profiling => is_lost(observed),
        RequestLifecycle::Known => observed.selected().is_none() && is_lost(observed),
        RequestLifecycle::Changed | RequestLifecycle::Ended => false,
    }
}

/// Whether the graph existed for this profile. If it does not exist any more, it was deleted.
pub fn graph_was_there(request: &DynamoGraphDeploymentRequest) -> bool {
    let conditions = request.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let alive = [condition::DEPLOYMENT_IN_PROGRESS, condition::DEPLOYMENT_READY, condition::DEPLOYMENT_DEGRADED];
    find(conditions, condition::DEPLOYMENT_READY).is_some_and(|found| alive.contains(&found.reason.as_str()))
}

/// Name of the request's graph: as it was chosen before, else as the user says, else made from the request's.
pub fn graph_name(request: &DynamoGraphDeploymentRequest) -> String {
    let stored = request.status.as_ref().and_then(|status| status.dgd_name.clone()).filter(|name| !name.is_empty());
    stored.unwrap_or_else(|| desired_graph_name(request))
}

/// Name of the graph if none was chosen before.
pub fn desired_graph_name(request: &DynamoGraphDeploymentRequest) -> String {
    let given = request.spec.overrides.as_ref().and_then(|overrides| overrides.dgd.as_ref());
    let given = given.and_then(|graph| graph.pointer("/metadata/name")).and_then(Value::as_str);
    let given = given.filter(|name| !name.is_empty()).map(str::to_owned);
    given.unwrap_or_else(|| names::requested_graph(&request.name_any()))
}

/// Whether a graph was made for this request. Labels name the request; a later one of the same name has another uid.
/// The upstream operator leaves no uid.
pub fn is_graph_of<K: kube::Resource>(graph: &K, request: &DynamoGraphDeploymentRequest) -> bool {
    let label = |key: &str| graph.labels().get(key).cloned();
    let named = label(api_types::labels::REQUEST_NAME) == Some(names::label_value(&request.name_any()))
        && label(api_types::labels::REQUEST_NAMESPACE) == request.namespace();
    let uid = graph.annotations().get(annotations::REQUEST_UID);
    named && uid.is_none_or(|uid| Some(uid) == request.metadata.uid.as_ref())
}

/// The sentence about a graph of the desired name that is foreign.
pub fn taken(observed: &RequestObserved, name: &str) -> String {
    format!(
        "DynamoGraphDeployment {}/{name} exists and was not made for this request; delete it, or give the request's graph another \
         name with spec.overrides.dgd.metadata.name in a new request",
        observed.namespace
    )
}

#[cfg(test)]
mod tests {
    use api_types::v1beta1::DynamoGraphDeployment;
    use serde_json::json;

    use super::*;
    use crate::request::fixtures::request_with;

    fn lifecycle(status: Value) -> RequestLifecycle {
        phase_of(&request_with(|r| r["status"] = status))
    }

    #[test]
    fn the_status_determines_the_phase_of_a_request() {
        assert_eq!(lifecycle(Value::Null), RequestLifecycle::New);
        for (phase, expected) in [
            ("Pending", RequestLifecycle::New),
            ("Profiling", RequestLifecycle::Profiling),
            ("Ready", RequestLifecycle::Known),
            ("Deploying", RequestLifecycle::Known),
            ("Deployed", RequestLifecycle::Known),
            ("Failed", RequestLifecycle::Ended),
        ] {
            assert_eq!(lifecycle(json!({ "phase": phase, "observedGeneration": 1 })), expected, "{phase}");
        }
    }

    /// In the upstream operator nothing leads out of the phase Failed.
    #[test]
    fn a_failed_request_starts_anew_once_its_spec_changes() {
        assert_eq!(lifecycle(json!({ "phase": "Failed", "observedGeneration": 0 })), RequestLifecycle::Changed);
        let refused = json!([{ "type": "Validation", "status": "False", "reason": "ValidationFailed", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
        let status = json!({ "phase": "Failed", "observedGeneration": 1, "conditions": refused });
        assert_eq!(lifecycle(status), RequestLifecycle::New, "what was missing outside the spec may be there by now");
    }

    #[test]
    fn the_author_may_name_the_graph_and_a_stored_name_stays() {
        assert_eq!(graph_name(&request_with(|_| ())), "chat-dgd");
        let named = request_with(|r| r["spec"]["overrides"] = json!({ "dgd": { "metadata": { "name": "mine" } } }));
        assert_eq!(graph_name(&named), "mine");
        let stored = request_with(|r| r["status"] = json!({ "dgdName": "other" }));
        assert_eq!(graph_name(&stored), "other");
    }

    #[test]
    fn a_graph_of_an_earlier_request_of_the_same_name_is_not_ours() {
        let of = |uid: Option<&str>, name: &str| {
            let graph: DynamoGraphDeployment = serde_json::from_value(json!({ "metadata": { "name": "g",
                "labels": { "dgdr.nvidia.com/name": name, "dgdr.nvidia.com/namespace": "team-a" },
                "annotations": uid.map(|uid| json!({ "operator.dynamo/request-uid": uid })) },
                "spec": { "components": [] } }))
            .unwrap();
            is_graph_of(&graph, &request_with(|_| ()))
        };
        assert!(of(Some("request-uid"), "chat"));
        assert!(of(None, "chat"), "made by the Go operator");
        assert!(!of(Some("earlier"), "chat"));
        assert!(!of(None, "other"));
    }
}
