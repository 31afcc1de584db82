//! From a spec to the profiler's proposal.

use api_types::{conditions, conditions::request as reason, names};
use controller_kit::conditions::find;
use k8s_openapi::{
    api::{batch::v1::Job, core::v1::ConfigMap},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::Timestamp,
};
use kube::ResourceExt;
use rendering::JobEnd;

use super::{at, config::profiled_spec, generated, job, overrides::RELAY};
use crate::{
    graph::plan::discovery::shared_account,
    request::{
        model::{PlannedPhase, Profiling, RequestObserved, RequestPlan},
        output,
        output::{PATIENCE, is_overdue},
        phase::desired_graph_name,
        validate::validate,
    },
};

/// Starts the profiler, as soon as the spec is right and nothing of an earlier one is left.
pub(super) fn begin(observed: &RequestObserved) -> RequestPlan {
    let valid = match validate(observed) {
        Ok(valid) => valid,
        Err(obstacles) if obstacles.unanswered => return at(PlannedPhase::Waiting(obstacles.messages.join("\n"))),
        Err(obstacles) => {
            return at(PlannedPhase::Invalid { message: obstacles.messages.join("\n"), outside: obstacles.outside });
        }
    };
    let mut plan = at(PlannedPhase::Profiling(Profiling { begins: true, ..Profiling::default() }));
    plan.findings.hardware = valid.shown_hardware.clone();
    match &observed.job {
        Some(live) if !observed.is_ours(live) => taken("Job", live, observed),
        Some(live) if live.metadata.deletion_timestamp.is_some() => at(PlannedPhase::Waiting(going("Job", live))),
        // The status was not written after it was made.
        Some(live) if is_of_this_spec(live, observed) => plan,
        Some(live) => clear(observed, going("Job", live)),
        None => match &observed.output {
            Some(stale) if !observed.is_ours(stale) => taken("ConfigMap", stale, observed),
            Some(stale) => clear(observed, going("ConfigMap", stale)),
            None => {
                let role = observed.settings.profiling_role.as_deref();
                let account = |role| shared_account(&observed.namespace, names::PROFILING_SERVICE_ACCOUNT, role);
                plan.account = role.map(account);
                plan.job = Some(job::render(&valid, observed));
                plan
            }
        },
    }
}

/// A failed request whose spec has changed. Only what was profiled for the same spec is kept.
pub(super) fn begin_again(observed: &RequestObserved) -> RequestPlan {
    let same = observed.job.as_ref().is_some_and(|job| job::profiled_for(job) == Some(&profiled_spec(&observed.spec)));
    if same && observed.selected().is_some() {
        return generated::follow(observed);
    }
    clear(observed, "waiting for what is left of the last profile to go".to_owned())
}

/// Removes what is left of an earlier profile.
fn clear(observed: &RequestObserved, waits: String) -> RequestPlan {
    let job = observed.own_job().filter(|job| job.metadata.deletion_timestamp.is_none());
    let output = observed.own_output().filter(|map| map.metadata.deletion_timestamp.is_none());
    RequestPlan { delete_job: job.cloned(), delete_output: output.cloned(), ..at(PlannedPhase::Waiting(waits)) }
}

fn going<K: ResourceExt>(kind: &str, object: &K) -> String {
    format!("waiting for {kind} {} of an earlier profile to go", object.name_any())
}

fn taken<K: ResourceExt>(kind: &str, object: &K, observed: &RequestObserved) -> RequestPlan {
    let what = format!("{kind} {}/{}", observed.namespace, object.name_any());
    let message = format!("{what} exists and is not of this request; delete or rename it");
    at(PlannedPhase::Blocked { reason: reason::NAME_TAKEN, message })
}

fn is_of_this_spec(job: &Job, observed: &RequestObserved) -> bool {
    job::profiled_for(job).is_none_or(|spec| spec == profiled_spec(&observed.spec))
}

/// Returns the reason why the present spec is not the one that the Job profiles.
pub(super) fn drift(observed: &RequestObserved) -> Option<String> {
    let job = observed.own_job()?;
    let note = "the spec was changed after profiling had begun, which has no effect; take the change back, or make a new request";
    (!is_of_this_spec(job, observed)).then(|| note.to_owned())
}

/// A request that failed for lack of an output, or because of it, and has one by now.
pub(super) fn generate_late(observed: &RequestObserved) -> Option<RequestPlan> {
    let status = observed.request.status.as_ref()?;
    find(&status.conditions, reason::SPEC_GENERATED).filter(|found| found.reason == reason::GENERATION_FAILED)?;
    let reported = output::read(observed.own_output());
    reported.config.filter(|_| reported.failure.is_none()).map(|config| generate(observed, Some(config)))
}

/// Follows the profiler.
pub(super) fn follow(observed: &RequestObserved, now: Timestamp) -> RequestPlan {
    let reported = output::read(observed.own_output());
    let Some(job) = observed.own_job() else {
        // Jobs may be removed once they have ended; what the profiler left is what counts.
        return match (reported.failure, reported.succeeded) {
            (Some(failure), _) => at(PlannedPhase::ProfilingFailed(failure.to_owned())),
            (None, true) => generate(observed, reported.config),
            (None, false) => begin(observed),
        };
    };
    if let Some(failed) = JobEnd::Failed.of(job) {
        let why = failed.message.as_deref().unwrap_or_default();
        let words = reported.failure.map_or_else(|| failure_of(why, observed), str::to_owned);
        return at(PlannedPhase::ProfilingFailed(words));
    }
    if JobEnd::Complete.of(job).is_some() {
        return match (reported.failure, reported.config) {
            (Some(failure), _) => at(PlannedPhase::ProfilingFailed(failure.to_owned())),
            (None, Some(config)) => generate(observed, Some(config)),
            (None, None) => wait_for_output(observed, now),
        };
    }
    let trouble = observed.waits.trouble.as_ref();
    // What the profiler said last, it said before its pod was in trouble.
    let message = trouble.map_or(reported.message, |trouble| trouble.message.as_str());
    at(PlannedPhase::Profiling(Profiling {
        phase: reported.phase.or(observed.status().profiling_phase),
        message: message.to_owned(),
        hindrance: trouble.filter(|trouble| trouble.cause.needs_action()).map(|trouble| trouble.message.clone()),
        ..Profiling::default()
    }))
}

fn failure_of(why: &str, observed: &RequestObserved) -> String {
    let why = if why.is_empty() { "the profiling Job failed" } else { why };
    [why].into_iter().chain(observed.pod_failures.iter().map(String::as_str)).collect::<Vec<_>>().join("; ")
}

fn wait_for_output(observed: &RequestObserved, now: Timestamp) -> RequestPlan {
    let name = names::profiling_output(&observed.name);
    if is_overdue(observed) {
        return at(PlannedPhase::GenerationFailed(format!(
            "the profiling Job ended well, but ConfigMap {name} holds no {}; see the log of its container {RELAY}",
            output::CONFIG
        )));
    }
    at(PlannedPhase::Profiling(Profiling {
        phase: observed.status().profiling_phase,
        message: format!("waiting for ConfigMap {name}"),
        until: now.checked_add(PATIENCE.saturating_sub(observed.output_missing_for)).ok(),
        ..Profiling::default()
    }))
}

/// The profiler has ended well.
pub(super) fn generate(observed: &RequestObserved, config: Option<&str>) -> RequestPlan {
    let name = desired_graph_name(&observed.request);
    let generated = match generated::read(config.unwrap_or_default(), &name) {
        Ok(generated) => generated,
        Err(error) => return at(PlannedPhase::GenerationFailed(error)),
    };
    let phase = if observed.request.spec.auto_apply {
        let message = format!("DynamoGraphDeployment {name} is about to be made");
        PlannedPhase::Deploying { reason: conditions::request::DEPLOYING, message, stuck: false }
    } else {
        PlannedPhase::Ready
    };
    let mut plan = at(phase);
    plan.config_maps = generated.config_maps.into_iter().map(|map| tracked(map, observed)).collect();
    plan.findings.graph = Some((name, generated.graph));
    plan.findings.skipped = generated.skipped;
    plan
}

/// A ConfigMap of the proposal in the namespace of the request, found again by labels.
fn tracked(map: ConfigMap, observed: &RequestObserved) -> ConfigMap {
    let mut labels = map.metadata.labels.unwrap_or_default();
    labels.extend(generated::tracking_labels(&observed.name, &observed.namespace));
    ConfigMap {
        metadata: ObjectMeta {
            name: map.metadata.name,
            namespace: Some(observed.namespace.clone()),
            labels: Some(labels),
            annotations: map.metadata.annotations,
            ..ObjectMeta::default()
        },
        ..map
    }
}
