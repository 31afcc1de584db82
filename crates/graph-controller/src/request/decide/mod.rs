//! What becomes of a request, from one snapshot. Pure: no I/O, no clock.
//!
//! ```text
//!          spec is right      profiler ended well       autoApply            it serves
//! Pending ──────────────► Profiling ───────────► Ready ─────────► Deploying ◄─────────► Deployed
//!    ▲                       │                     │                  │ refused, deleted
//!    └── another spec ── Failed ◄──────────────────┴──────────────────┘
//! ```

mod config;
mod deployment;
pub mod generated;
pub mod job;
pub mod output;
mod override_tool;
mod overrides;
mod profiling;

#[cfg(test)]
mod job_tests;
#[cfg(test)]
mod tests;

use api_types::v1beta1::{DynamoGraphDeployment, Hardware, ProfilingPhase};
pub use deployment::taken;
use k8s_openapi::{
    api::{batch::v1::Job, core::v1::ConfigMap},
    jiff::Timestamp,
};
pub use profiling::{awaits_output, is_overdue};
use serde_json::Value;

use super::{
    observe::Observed,
    standing::{Standing, standing},
};
use crate::graph::model::SharedAccount;

/// What shall be done, in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
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
    /// ConfigMaps that become the graph's, which has to go on without the request.
    pub hand_over: Option<HandOver>,
    /// Where the request stands after this.
    pub stage: Stage,
    /// What was learnt on the way, and is remembered.
    pub learnt: Learnt,
}

/// ConfigMaps that become a graph's.
#[derive(Clone, Debug, PartialEq)]
pub struct HandOver {
    /// The new owner.
    pub graph: Box<DynamoGraphDeployment>,
    /// What it gets, as it is now.
    pub config_maps: Vec<ConfigMap>,
}

/// What the status remembers beside the stage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learnt {
    /// The hardware that is planned for.
    pub hardware: Option<Hardware>,
    /// The graph that the profiler proposes, and its name.
    pub graph: Option<(String, Value)>,
    /// Why the present spec is not the one that was profiled for.
    pub drift: Option<String>,
    /// Kinds of objects that the profiler proposes and nobody makes.
    pub skipped: Vec<String>,
}

/// Where a request stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Stage {
    /// It failed before, and stays so.
    #[default]
    Ended,
    /// The spec cannot be carried out.
    Invalid {
        /// All that is wrong.
        message: String,
        /// Whether something outside the spec is missing.
        outside: bool,
    },
    /// Something has to go first, or to answer.
    Waiting(String),
    /// Somebody has to change something outside the request before the Job can be made.
    Blocked {
        /// Reason of `Stalled`.
        reason: &'static str,
        /// What, and how.
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
        /// What is waited for.
        message: String,
        /// Whether somebody has to change something.
        stuck: bool,
    },
    /// The graph serves.
    Deployed,
    /// The API server takes no graph of this form.
    Rejected(String),
    /// Somebody deleted the graph.
    Deleted(String),
}

/// How far a profiler is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profiling {
    /// What it does.
    pub phase: Option<ProfilingPhase>,
    /// Its words on that, or why its pod does not run.
    pub message: String,
    /// Whether its Job was made just now.
    pub begins: bool,
    /// Why its pod does not run, if somebody has to help.
    pub hindrance: Option<String>,
    /// Until when something is waited for that no watch would show to be missing.
    pub until: Option<Timestamp>,
}

/// Decides on a request that is not being deleted.
pub fn decide(observed: &Observed, now: Timestamp) -> Decision {
    let mut decision = match standing(&observed.request) {
        Standing::New => profiling::begin(observed),
        Standing::Changed => profiling::begin_again(observed),
        Standing::Profiling => profiling::follow(observed, now),
        Standing::Known => deployment::follow(observed, now),
        Standing::Ended => profiling::generate_late(observed).unwrap_or_default(),
    };
    if matches!(standing(&observed.request), Standing::Profiling | Standing::Known) {
        decision.learnt.drift = profiling::drift(observed);
    }
    decision
}

/// Whether a profiler is started now, or would be if nothing were in the way: only then its surroundings have to be
/// looked at.
pub fn begins(observed: &Observed) -> bool {
    match standing(&observed.request) {
        Standing::New => true,
        Standing::Profiling => profiling::is_lost(observed),
        Standing::Known => observed.selected().is_none() && profiling::is_lost(observed),
        Standing::Changed | Standing::Ended => false,
    }
}

fn at(stage: Stage) -> Decision {
    Decision { stage, ..Decision::default() }
}
