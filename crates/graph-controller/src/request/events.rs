//! Events of a request: what changed between two of its statuses, and warnings. Pure.

use api_types::{
    conditions::{SPEC_SERVED, request as reason},
    v1beta1::{DynamoGraphDeploymentRequestStatus as Status, RequestPhase},
};
use controller_kit::{
    conditions::find,
    events::{Event, EventType},
};

use super::model::{Applied, Observed};

/// The events of a reconcile.
pub fn events(observed: &Observed, applied: &Applied, after: &Status) -> Vec<Event> {
    let mut all = of_status(&observed.status(), after, applied.made_graph.as_deref());
    all.extend(warnings(applied));
    all
}

/// Failures that did not stop the reconcile.
fn warnings(applied: &Applied) -> Vec<Event> {
    let warning = |note: String| Event::warning("ConfigMapCreationFailed", "Create", note);
    let skipped = applied.findings.skipped.iter().map(|kind| {
        warning(format!("the profiler proposes an object of kind {kind}, which is not made; only ConfigMaps are"))
    });
    applied.refused.iter().cloned().map(warning).chain(skipped).collect()
}

/// The events between two statuses.
pub fn of_status(before: &Status, after: &Status, made_graph: Option<&str>) -> Vec<Event> {
    let reason_of = |status: &Status, type_: &str| find(&status.conditions, type_).map(|found| found.reason.clone());
    let message = |type_: &str| find(&after.conditions, type_).map(|found| found.message.clone()).unwrap_or_default();
    let became = |type_: &str, reason: &str| {
        reason_of(after, type_).as_deref() == Some(reason) && reason_of(before, type_).as_deref() != Some(reason)
    };
    let failed = after.phase == Some(RequestPhase::Failed) && before.phase != Some(RequestPhase::Failed);
    let graph = after.dgd_name.clone().unwrap_or_default();
    let mut all = Vec::new();
    let mut add = |type_, reason: &str, action: &str, note| {
        all.push(Event { type_, reason: reason.to_owned(), action: action.to_owned(), note });
    };
    use EventType::{Normal, Warning};
    if became(reason::VALIDATION, reason::VALIDATION_FAILED) {
        add(Warning, "ValidationFailed", "Validate", message(reason::VALIDATION));
    }
    if became(reason::VALIDATION, reason::VALIDATION_PASSED) {
        add(Normal, "Initialized", "Validate", message(reason::VALIDATION));
    }
    if became(reason::PROFILING, reason::INITIALIZING) {
        let job = after.profiling_job_name.clone().unwrap_or_default();
        add(Normal, "ProfilingJobCreated", "Create", format!("Job {job} profiles"));
    }
    if became(reason::PROFILING, reason::JOB_CREATION_FAILED) {
        add(Warning, "ProfilingJobFailed", "Create", message(reason::PROFILING));
    }
    let profiling = reason_of(after, reason::PROFILING).unwrap_or_default();
    if failed && profiling.ends_with("Failed") && profiling != reason::JOB_CREATION_FAILED {
        add(Warning, "ProfilingCheckFailed", "Get", message(reason::PROFILING));
    }
    if became(reason::SPEC_GENERATED, reason::GENERATION_FAILED) {
        add(Warning, "GenerationFailed", "Generate", message(reason::SPEC_GENERATED));
    }
    if became(reason::SPEC_GENERATED, reason::SPEC_GENERATED) {
        add(Normal, "SpecGenerated", "Generate", message(reason::SPEC_GENERATED));
    }
    if became(SPEC_SERVED, reason::SPEC_CHANGE_REJECTED) {
        add(Warning, "SpecChangeRejected", "Validate", message(SPEC_SERVED));
    }
    if let Some(made) = made_graph {
        add(Normal, "DeploymentCreated", "Create", format!("made DynamoGraphDeployment {made}"));
    }
    for (why, event) in [
        (reason::DEPLOYMENT_REJECTED, "DeploymentCreationFailed"),
        (reason::NAME_TAKEN, "DeploymentCreationFailed"),
        (reason::DEPLOYMENT_DEGRADED, "DeploymentDegraded"),
        (reason::DEPLOYMENT_DELETED, "DeploymentDeleted"),
    ] {
        if became(reason::DEPLOYMENT_READY, why) {
            add(Warning, event, "Deploy", message(reason::DEPLOYMENT_READY));
        }
    }
    if became(reason::DEPLOYMENT_READY, reason::DEPLOYMENT_READY) {
        add(Normal, "DeploymentReady", "Deploy", format!("DynamoGraphDeployment {graph} serves"));
    }
    all
}
