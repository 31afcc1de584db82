//! Events of a request: what changed between two of its statuses, and warnings. Pure.

use api_types::{
    conditions::{SPEC_SERVED, request as reason},
    v1beta1::{DynamoGraphDeploymentRequestStatus as Status, RequestPhase},
};
use controller_kit::{conditions::find, events::Event};

use super::model::{RequestApplied, RequestObserved};

/// The events of a reconcile.
pub fn events(observed: &RequestObserved, applied: &RequestApplied, after: &Status) -> Vec<Event> {
    let mut all = of_status(&observed.status(), after, applied.made_graph.as_deref());
    all.extend(warnings(applied));
    all
}

/// Failures that did not stop the reconcile.
fn warnings(applied: &RequestApplied) -> Vec<Event> {
    let warning = |note: String| Event::warning("ConfigMapCreationFailed", "Create", note);
    let skipped = applied.findings.skipped.iter().map(|kind| {
        warning(format!("the profiler proposes an object of kind {kind}, which is not made; only ConfigMaps are"))
    });
    applied.refused.iter().cloned().map(warning).chain(skipped).collect()
}

/// The events between two statuses.
fn of_status(before: &Status, after: &Status, made_graph: Option<&str>) -> Vec<Event> {
    let became = |type_: &str, why: &str| {
        let is = |status: &Status| find(&status.conditions, type_).is_some_and(|found| found.reason == why);
        let found = find(&after.conditions, type_).filter(|_| is(after) && !is(before));
        found.map(|found| found.message.clone())
    };
    let warned = |type_: &str, why: &str, reason: &str, action: &str| {
        became(type_, why).map(|note| Event::warning(reason, action, note))
    };
    let reported = |type_: &str, why: &str, reason: &str, action: &str| {
        became(type_, why).map(|note| Event::normal(reason, action, note))
    };
    let job = after.profiling_job_name.as_deref().unwrap_or_default();
    let graph = after.dgd_name.as_deref().unwrap_or_default();
    let failed = after.phase == Some(RequestPhase::Failed) && before.phase != Some(RequestPhase::Failed);
    let profiling = find(&after.conditions, reason::PROFILING).filter(|_| failed);
    let profiling =
        profiling.filter(|found| found.reason.ends_with("Failed") && found.reason != reason::JOB_CREATION_FAILED);
    let all = [
        warned(reason::VALIDATION, reason::VALIDATION_FAILED, "ValidationFailed", "Validate"),
        reported(reason::VALIDATION, reason::VALIDATION_PASSED, "Initialized", "Validate"),
        became(reason::PROFILING, reason::INITIALIZING)
            .map(|_| Event::normal("ProfilingJobCreated", "Create", format!("Job {job} profiles"))),
        warned(reason::PROFILING, reason::JOB_CREATION_FAILED, "ProfilingJobFailed", "Create"),
        profiling.map(|found| Event::warning("ProfilingCheckFailed", "Get", &found.message)),
        warned(reason::SPEC_GENERATED, reason::GENERATION_FAILED, "GenerationFailed", "Generate"),
        reported(reason::SPEC_GENERATED, reason::SPEC_GENERATED, "SpecGenerated", "Generate"),
        warned(SPEC_SERVED, reason::SPEC_CHANGE_REJECTED, "SpecChangeRejected", "Validate"),
        made_graph
            .map(|made| Event::normal("DeploymentCreated", "Create", format!("made DynamoGraphDeployment {made}"))),
        warned(reason::DEPLOYMENT_READY, reason::DEPLOYMENT_REJECTED, "DeploymentCreationFailed", "Deploy"),
        warned(reason::DEPLOYMENT_READY, reason::NAME_TAKEN, "DeploymentCreationFailed", "Deploy"),
        warned(reason::DEPLOYMENT_READY, reason::DEPLOYMENT_DEGRADED, "DeploymentDegraded", "Deploy"),
        warned(reason::DEPLOYMENT_READY, reason::DEPLOYMENT_DELETED, "DeploymentDeleted", "Deploy"),
        became(reason::DEPLOYMENT_READY, reason::DEPLOYMENT_READY)
            .map(|_| Event::normal("DeploymentReady", "Deploy", format!("DynamoGraphDeployment {graph} serves"))),
    ];
    all.into_iter().flatten().collect()
}
