//! Data of a request's reconcile: what was observed, what is planned, what was applied, and the phase. Nothing here
//! decides.
//!
//! The phase is computed from the status of a request alone: the objects that it followed from, such as a Job, may be
//! deleted.

use std::{sync::Arc, time::Duration};

use api_types::{
    annotations,
    conditions::request as condition,
    names,
    v1beta1::{
        DynamoGraphDeployment, DynamoGraphDeploymentRequest, DynamoGraphDeploymentRequestStatus, Hardware,
        ProfilingPhase, RequestPhase,
    },
};
use controller_kit::{conditions::find, pods::JobWaits, store::controller_owner};
use k8s_openapi::{
    api::{batch::v1::Job, core::v1::ConfigMap},
    jiff::Timestamp,
};
use kube::{Resource, ResourceExt};
use serde_json::Value;

use super::{cost::Trials, settings::Settings};
use crate::graph::model::SharedAccount;

/// Whether the claim with the model's weights exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CacheClaim {
    /// It does, or there is none to look for.
    #[default]
    Present,
    /// It does not.
    Missing(String),
}

/// Result of the search for GPUs in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Search {
    /// Not searched.
    #[default]
    NotAsked,
    /// GPUs were found.
    Found(Box<Found>),
    /// None found, and why.
    Nothing(String),
    /// A source did not answer, and why.
    Unanswered(String),
}

/// Everything that is read for a request.
#[derive(Debug)]
pub struct Observed {
    /// The request.
    pub request: DynamoGraphDeploymentRequest,
    /// Its spec as it is stored.
    pub spec: Value,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid, which identifies its children.
    pub uid: String,
    /// The Job of the name of ours, of any origin.
    pub job: Option<Job>,
    /// The ConfigMap of the name of the profiler's output, of any origin.
    pub output: Option<ConfigMap>,
    /// ConfigMaps that were made for the request, without their data.
    pub config_maps: Vec<ConfigMap>,
    /// The graph of the desired name, of any origin.
    pub graph: Option<DynamoGraphDeployment>,
    /// Whether the claim with the model's weights exists; looked for before the Job is made.
    pub cache_claim: CacheClaim,
    /// GPUs of the cluster; looked up before the Job is created.
    pub hardware: Search,
    /// Reason for the Job's wait while its pod does not run.
    pub waits: JobWaits,
    /// Since when, by our clock, the profiler's Job has been complete without its output.
    pub output_missing_for: Duration,
    /// Descriptions of the ends of the containers of a failed Job.
    pub pod_failures: Vec<String>,
    /// Graphs that the profiler has started to measure them; none where they were not read.
    pub trials: Option<Trials>,
    /// Values of flags and configuration.
    pub settings: Arc<Settings>,
}

impl Observed {
    /// A request without any other object. `spec` is the stored one.
    pub fn of(request: DynamoGraphDeploymentRequest, spec: Value, settings: Arc<Settings>) -> Self {
        Self {
            spec,
            namespace: request.namespace().unwrap_or_default(),
            name: request.name_any(),
            uid: request.uid().unwrap_or_default(),
            request,
            settings,
            job: None,
            output: None,
            config_maps: Vec::new(),
            graph: None,
            cache_claim: CacheClaim::default(),
            hardware: Search::default(),
            waits: JobWaits::default(),
            output_missing_for: Duration::ZERO,
            pod_failures: Vec::new(),
            trials: None,
        }
    }

    /// Whether an object is the request's.
    pub fn is_ours<K: Resource>(&self, object: &K) -> bool {
        controller_owner(object).is_some_and(|owner| owner.uid == self.uid)
    }

    /// The status as it was.
    pub fn status(&self) -> DynamoGraphDeploymentRequestStatus {
        self.request.status.clone().unwrap_or_default()
    }

    /// The graph that the profiler proposed.
    pub fn selected(&self) -> Option<&Value> {
        self.request.status.as_ref()?.profiling_results.as_ref()?.selected_config.as_ref()
    }
}

/// Planned writes and deletions, in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// A Job of an earlier spec.
    pub delete_job: Option<Job>,
    /// Output of an earlier Job.
    pub delete_output: Option<ConfigMap>,
    /// The account of profilers, and what it may do.
    pub account: Option<SharedAccount>,
    /// The Job that profiles.
    pub job: Option<Job>,
    /// ConfigMaps that the graph will read.
    pub config_maps: Vec<ConfigMap>,
    /// The graph.
    pub graph: Option<Value>,
    /// ConfigMaps that become the graph's, which must not depend on the request.
    pub hand_over: Option<HandOver>,
    /// The stage after this.
    pub stage: Stage,
    /// Findings of this step that the status keeps.
    pub findings: Findings,
}

/// ConfigMaps that become a graph's.
#[derive(Clone, Debug, PartialEq)]
pub struct HandOver {
    /// The new owner.
    pub graph: Box<DynamoGraphDeployment>,
    /// ConfigMaps that it receives. Their data is read when they are written.
    pub config_maps: Vec<ConfigMap>,
}

/// Data that the status keeps beside the stage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// The hardware that is planned for.
    pub hardware: Option<Hardware>,
    /// The graph that the profiler proposes, and its name.
    pub graph: Option<(String, Value)>,
    /// Reason why the present spec is not the one that was profiled.
    pub drift: Option<String>,
    /// Kinds of objects that the profiler proposes and that are not created.
    pub skipped: Vec<String>,
}

/// Stage of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Stage {
    /// Failed before.
    #[default]
    Ended,
    /// The spec is invalid.
    Invalid {
        /// All that is wrong.
        message: String,
        /// Whether something outside the spec is missing.
        outside: bool,
    },
    /// Waits for a deletion or an answer.
    Waiting(String),
    /// The Job cannot be made before something outside the request changes.
    Blocked {
        /// Reason of `Stalled`.
        reason: &'static str,
        /// Required change and remedy.
        message: String,
    },
    /// The API server takes no Job of this form.
    JobRefused(String),
    /// The profiler runs.
    Profiling(Profiling),
    /// The profiler failed.
    ProfilingFailed(String),
    /// The profiler left no graph.
    GenerationFailed(String),
    /// The graph is known.
    Ready,
    /// The graph is not serving.
    Deploying {
        /// Reason of `DeploymentReady`.
        reason: &'static str,
        /// Reason for the wait.
        message: String,
        /// Whether it needs a change by a user or administrator.
        stuck: bool,
    },
    /// The graph serves.
    Deployed,
    /// The API server takes no graph of this form.
    Rejected(String),
    /// The graph was deleted.
    Deleted(String),
}

/// Progress of a profiler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profiling {
    /// Its phase.
    pub phase: Option<ProfilingPhase>,
    /// Its message, or why its pod does not run.
    pub message: String,
    /// Whether its Job was made just now.
    pub begins: bool,
    /// Reason why its pod does not run, if that requires a change.
    pub hindrance: Option<String>,
    /// Until when something is waited for that no watch would show to be missing.
    pub until: Option<Timestamp>,
}

/// Result of an applied plan.
#[derive(Debug)]
pub struct Applied {
    /// The stage.
    pub stage: Stage,
    /// Findings of this step.
    pub findings: Findings,
    /// The Job as it was made.
    pub job: Option<Job>,
    /// The graph that was made.
    pub made_graph: Option<String>,
    /// ConfigMaps that could not be written, one line each.
    pub refused: Vec<String>,
}

/// Hardware that was found for a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Hardware as a spec would contain it. Never the number of nodes alone.
    pub hardware: Hardware,
    /// Reason why the kind of GPU is unknown although GPUs were found.
    pub unknown_model: Option<String>,
}

/// Phase of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was started; also after a spec was refused, because what was missing may be there by now.
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
pub fn phase_of(request: &DynamoGraphDeploymentRequest) -> Phase {
    let Some(status) = &request.status else { return Phase::New };
    let refused = find(&status.conditions, condition::VALIDATION).is_some_and(|found| found.status == "False");
    match status.phase {
        None | Some(RequestPhase::Pending) => Phase::New,
        Some(RequestPhase::Profiling) => Phase::Profiling,
        Some(RequestPhase::Ready | RequestPhase::Deploying | RequestPhase::Deployed) => Phase::Known,
        Some(RequestPhase::Failed) if refused => Phase::New,
        Some(RequestPhase::Failed) if status.observed_generation == request.metadata.generation => Phase::Ended,
        Some(RequestPhase::Failed) => Phase::Changed,
    }
}

/// Whether the graph existed for this profile. If it does not exist any more, it was deleted.
pub fn graph_was_there(request: &DynamoGraphDeploymentRequest) -> bool {
    let conditions = request.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let alive = [condition::DEPLOYMENT_IN_PROGRESS, condition::DEPLOYMENT_READY, condition::DEPLOYMENT_DEGRADED];
    find(conditions, condition::DEPLOYMENT_READY).is_some_and(|found| alive.contains(&found.reason.as_str()))
}

/// Name of the request's graph: as it was decided before, else as the user says, else made from the request's.
pub fn graph_name(request: &DynamoGraphDeploymentRequest) -> String {
    let decided = request.status.as_ref().and_then(|status| status.dgd_name.clone()).filter(|name| !name.is_empty());
    decided.unwrap_or_else(|| desired_graph_name(request))
}

/// The same without what was decided before.
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

#[cfg(test)]
mod tests {
    use api_types::v1beta1::DynamoGraphDeployment;
    use serde_json::json;

    use super::*;
    use crate::request::fixtures::request_with;

    fn stands(status: Value) -> Phase {
        phase_of(&request_with(|r| r["status"] = status))
    }

    #[test]
    fn the_status_tells_where_a_request_stands() {
        assert_eq!(stands(Value::Null), Phase::New);
        for (phase, expected) in [
            ("Pending", Phase::New),
            ("Profiling", Phase::Profiling),
            ("Ready", Phase::Known),
            ("Deploying", Phase::Known),
            ("Deployed", Phase::Known),
            ("Failed", Phase::Ended),
        ] {
            assert_eq!(stands(json!({ "phase": phase, "observedGeneration": 1 })), expected, "{phase}");
        }
    }

    /// In the upstream operator nothing leads out of the phase Failed.
    #[test]
    fn a_failed_request_starts_anew_once_its_spec_changes() {
        assert_eq!(stands(json!({ "phase": "Failed", "observedGeneration": 0 })), Phase::Changed);
        let refused = json!([{ "type": "Validation", "status": "False", "reason": "ValidationFailed", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
        let status = json!({ "phase": "Failed", "observedGeneration": 1, "conditions": refused });
        assert_eq!(stands(status), Phase::New, "what was missing outside the spec may be there by now");
    }

    #[test]
    fn the_author_may_name_the_graph_and_a_decided_name_stays() {
        assert_eq!(graph_name(&request_with(|_| ())), "chat-dgd");
        let named = request_with(|r| r["spec"]["overrides"] = json!({ "dgd": { "metadata": { "name": "mine" } } }));
        assert_eq!(graph_name(&named), "mine");
        let decided = request_with(|r| r["status"] = json!({ "dgdName": "other" }));
        assert_eq!(graph_name(&decided), "other");
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
