//! Events on a request: what changed, once. Pure but for the sending.

use api_types::{
    conditions::{SPEC_SERVED, request as reason},
    v1beta1::{DynamoGraphDeploymentRequestStatus as Status, RequestPhase},
};
use controller_kit::{
    conditions::find,
    events::{Event, EventSink, EventType},
};
use kube::Resource;

use super::{apply::Acted, observe::Observed};

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Normal or Warning.
    pub type_: EventType,
    /// One CamelCase word.
    pub reason: &'static str,
    /// What was done, one CamelCase word.
    pub action: &'static str,
    /// What happened.
    pub note: String,
}

/// Publishes what changed.
pub fn publish(events: &EventSink, observed: &Observed, acted: &Acted, after: &Status) {
    let told = told(&observed.status(), after, acted.made_graph.as_deref());
    for Told { type_, reason, action, note } in told.into_iter().chain(beside(acted)) {
        let event = Event { type_, reason: reason.to_owned(), action: action.to_owned(), note };
        events.publish(&observed.request.object_ref(&()), event);
    }
}

/// What went wrong beside the way.
fn beside(acted: &Acted) -> Vec<Told> {
    let warning =
        |note: String| Told { type_: EventType::Warning, reason: "ConfigMapCreationFailed", action: "Create", note };
    let skipped = acted.learnt.skipped.iter().map(|kind| {
        warning(format!("the profiler proposes an object of kind {kind}, which is not made; only ConfigMaps are"))
    });
    acted.refused.iter().cloned().map(warning).chain(skipped).collect()
}

/// What is new in a status.
pub fn told(before: &Status, after: &Status, made_graph: Option<&str>) -> Vec<Told> {
    let reason_of = |status: &Status, type_: &str| find(&status.conditions, type_).map(|found| found.reason.clone());
    let message = |type_: &str| find(&after.conditions, type_).map(|found| found.message.clone()).unwrap_or_default();
    let became = |type_: &str, reason: &str| {
        reason_of(after, type_).as_deref() == Some(reason) && reason_of(before, type_).as_deref() != Some(reason)
    };
    let failed = after.phase == Some(RequestPhase::Failed) && before.phase != Some(RequestPhase::Failed);
    let graph = after.dgd_name.clone().unwrap_or_default();
    let mut all = Vec::new();
    let mut tell = |type_, reason, action, note| all.push(Told { type_, reason, action, note });
    use EventType::{Normal, Warning};
    if became(reason::VALIDATION, reason::VALIDATION_FAILED) {
        tell(Warning, "ValidationFailed", "Validate", message(reason::VALIDATION));
    }
    if became(reason::VALIDATION, reason::VALIDATION_PASSED) {
        tell(Normal, "Initialized", "Validate", message(reason::VALIDATION));
    }
    if became(reason::PROFILING, reason::INITIALIZING) {
        let job = after.profiling_job_name.clone().unwrap_or_default();
        tell(Normal, "ProfilingJobCreated", "Create", format!("Job {job} profiles"));
    }
    if became(reason::PROFILING, reason::JOB_CREATION_FAILED) {
        tell(Warning, "ProfilingJobFailed", "Create", message(reason::PROFILING));
    }
    let profiling = reason_of(after, reason::PROFILING).unwrap_or_default();
    if failed && profiling.ends_with("Failed") && profiling != reason::JOB_CREATION_FAILED {
        tell(Warning, "ProfilingCheckFailed", "Get", message(reason::PROFILING));
    }
    if became(reason::SPEC_GENERATED, reason::GENERATION_FAILED) {
        tell(Warning, "GenerationFailed", "Generate", message(reason::SPEC_GENERATED));
    }
    if became(reason::SPEC_GENERATED, reason::SPEC_GENERATED) {
        tell(Normal, "SpecGenerated", "Generate", message(reason::SPEC_GENERATED));
    }
    if became(SPEC_SERVED, reason::SPEC_CHANGE_REJECTED) {
        tell(Warning, "SpecChangeRejected", "Validate", message(SPEC_SERVED));
    }
    if let Some(made) = made_graph {
        tell(Normal, "DeploymentCreated", "Create", format!("made DynamoGraphDeployment {made}"));
    }
    for (why, event) in [
        (reason::DEPLOYMENT_REJECTED, "DeploymentCreationFailed"),
        (reason::NAME_TAKEN, "DeploymentCreationFailed"),
        (reason::DEPLOYMENT_DEGRADED, "DeploymentDegraded"),
        (reason::DEPLOYMENT_DELETED, "DeploymentDeleted"),
    ] {
        if became(reason::DEPLOYMENT_READY, why) {
            tell(Warning, event, "Deploy", message(reason::DEPLOYMENT_READY));
        }
    }
    if became(reason::DEPLOYMENT_READY, reason::DEPLOYMENT_READY) {
        tell(Normal, "DeploymentReady", "Deploy", format!("DynamoGraphDeployment {graph} serves"));
    }
    all
}
