//! Data of a request's reconcile: what was observed, what is planned, what was applied. Nothing here plans.

use std::{sync::Arc, time::Duration};

use api_types::v1beta1::{
    DynamoGraphDeployment, DynamoGraphDeploymentRequest, DynamoGraphDeploymentRequestStatus, Hardware, ProfilingPhase,
};
use controller_kit::{pods::JobWaits, store::is_controlled_by};
use k8s_openapi::{
    api::{batch::v1::Job, core::v1::ConfigMap},
    jiff::Timestamp,
};
use kube::{Resource, ResourceExt};
use serde_json::Value;

use super::{cost::Trials, settings::RequestSettings};
use crate::graph::model::SharedAccount;

/// Result of the search for GPUs in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Search {
    /// Not searched.
    #[default]
    NotAsked,
    /// GPUs were found.
    Found(Box<FoundHardware>),
    /// None found, and why.
    Nothing(String),
    /// A source did not answer, and why.
    Unanswered(String),
}

/// Everything that is read for a request.
#[derive(Debug)]
pub struct RequestObserved {
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
    /// The claim with the model's weights that does not exist; looked for before the Job is made.
    pub missing_claim: Option<String>,
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
    pub settings: Arc<RequestSettings>,
}

impl RequestObserved {
    /// A request without any other object. `spec` is the stored one.
    pub fn of(request: DynamoGraphDeploymentRequest, spec: Value, settings: Arc<RequestSettings>) -> Self {
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
            missing_claim: None,
            hardware: Search::default(),
            waits: JobWaits::default(),
            output_missing_for: Duration::ZERO,
            pod_failures: Vec::new(),
            trials: None,
        }
    }

    /// Whether an object is the request's.
    pub fn is_ours<K: Resource>(&self, object: &K) -> bool {
        is_controlled_by(object, &self.uid)
    }

    /// The profiler's Job, if it is the request's.
    pub fn own_job(&self) -> Option<&Job> {
        self.job.as_ref().filter(|job| self.is_ours(*job))
    }

    /// The profiler's output, if it is the request's.
    pub fn own_output(&self) -> Option<&ConfigMap> {
        self.output.as_ref().filter(|output| self.is_ours(*output))
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

/// A request for which a profiler can run.
#[derive(Debug)]
pub struct ValidRequest<'a> {
    /// Image of the profiler.
    pub image: &'a str,
    /// The hardware that is planned for, as JSON of the spec.
    pub hardware: Value,
    /// Hardware for the status.
    pub shown_hardware: Option<Hardware>,
    /// Claim that keeps the profiler's output; only v1alpha1 can name one.
    pub output_claim: Option<String>,
    /// A file for the profiler; only v1alpha1 can name one.
    pub config_map: Option<ConfigFile>,
    /// The claim with the model's weights, and where it is mounted.
    pub model_cache: Option<(&'a str, &'a str)>,
}

/// A file in a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    /// Name of the ConfigMap.
    pub name: String,
    /// Key of the file.
    pub key: String,
}

/// Planned writes and deletions, in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestPlan {
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
    /// ConfigMaps that become the graph's, which must not depend on the request. Their data is read when they are
    /// written.
    pub hand_over: Vec<ConfigMap>,
    /// The phase after this.
    pub phase: PlannedPhase,
    /// Findings of this step that the status keeps.
    pub findings: RequestFindings,
}

/// Data that the status keeps beside the phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestFindings {
    /// The hardware that is planned for.
    pub hardware: Option<Hardware>,
    /// The graph that the profiler proposes, and its name.
    pub graph: Option<(String, Value)>,
    /// Reason why the present spec is not the one that was profiled.
    pub drift: Option<String>,
    /// Kinds of objects that the profiler proposes and that are not created.
    pub skipped: Vec<String>,
}

/// PlannedPhase of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum PlannedPhase {
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

impl PlannedPhase {
    /// Whether no profiler was started for the present spec.
    pub fn is_before_profiling(&self) -> bool {
        matches!(self, Self::Invalid { .. } | Self::Waiting(_) | Self::Blocked { .. } | Self::JobRefused(_))
    }
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
pub struct RequestApplied {
    /// The phase.
    pub phase: PlannedPhase,
    /// Findings of this step.
    pub findings: RequestFindings,
    /// The Job as it was made.
    pub job: Option<Job>,
    /// The graph that was made.
    pub made_graph: Option<String>,
    /// ConfigMaps that could not be written, one line each.
    pub refused: Vec<String>,
}

/// Hardware that was found for a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundHardware {
    /// Hardware as a spec would contain it. Never the number of nodes alone.
    pub hardware: Hardware,
    /// Reason why the kind of GPU is unknown although GPUs were found.
    pub unknown_model: Option<String>,
}
