//! The status of a request: computed from what was applied, never from what was desired.

use api_types::{
    conditions::{self, request as reason},
    names,
    v1beta1::{
        DeploymentInfo, DynamoGraphDeploymentRequestStatus as RequestStatus, ProfilingPhase, ProfilingResults,
        RequestPhase,
    },
};
use controller_kit::conditions::{Progress, Status, find, set_condition, set_progress};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};

use super::{
    cost,
    model::{PlannedPhase, Profiling, RequestApplied, RequestObserved},
};

/// Types about a profile and its graph; a request that is rejected or restarted has neither.
const OF_PROFILE: [&str; 4] =
    [reason::PROFILING, reason::SPEC_GENERATED, reason::DEPLOYMENT_READY, conditions::SPEC_SERVED];

/// The whole status.
pub fn status(observed: &RequestObserved, applied: &RequestApplied, now: Timestamp) -> RequestStatus {
    let mut status = observed.status();
    status.observed_generation = observed.request.metadata.generation;
    remember(&mut status, observed, applied, now);
    status.phase = Some(phase(&applied.phase, &status));
    let mut setter = Setter { status, now };
    set_planned(&mut setter, &applied.phase);
    set_drift(&mut setter, observed, applied);
    set_summary(&mut setter, &applied.phase);
    setter.status
}

/// The status of a request that cannot be read: as it was, and why nothing goes on.
pub fn of_unreadable(before: RequestStatus, generation: Option<i64>, message: &str, now: Timestamp) -> RequestStatus {
    let status = RequestStatus { observed_generation: generation, ..before };
    let mut setter = Setter { status, now };
    setter.set(reason::VALIDATION, false, reason::VALIDATION_FAILED, message);
    let stuck = Progress::stuck(reason::VALIDATION_FAILED, message);
    set_progress(&mut setter.status.conditions, &stuck, generation, now);
    setter.status
}

/// Records the data that conditions do not contain.
fn remember(status: &mut RequestStatus, observed: &RequestObserved, applied: &RequestApplied, now: Timestamp) {
    match &applied.phase {
        phase if phase.is_before_profiling() => {
            *status = RequestStatus {
                conditions: std::mem::take(&mut status.conditions),
                observed_generation: status.observed_generation,
                // What is spent stays spent.
                gpu_minutes: status.gpu_minutes,
                profiler_runs: status.profiler_runs.take(),
                trial_graphs: status.trial_graphs.take(),
                ..RequestStatus::default()
            };
        }
        PlannedPhase::Profiling(profiling) => {
            status.profiling_job_name = Some(names::profiling_job(&observed.name));
            status.profiling_phase =
                if profiling.begins { Some(ProfilingPhase::Initializing) } else { profiling.phase };
        }
        // Its last phase is shown, and is part of the reason.
        PlannedPhase::ProfilingFailed(_) | PlannedPhase::Ended => {}
        _ => status.profiling_phase = None,
    }
    if let Some(hardware) = &applied.findings.hardware {
        status.hardware = Some(hardware.clone());
    }
    if let Some((name, graph)) = &applied.findings.graph {
        status.dgd_name = Some(name.clone());
        let results = status.profiling_results.get_or_insert_with(ProfilingResults::default);
        results.selected_config = Some(graph.clone());
    }
    if let Some(found) = &observed.trials {
        status.trial_graphs = cost::counted(status.trial_graphs.as_ref(), found, now);
    }
    let job = applied.job.as_ref().filter(|job| observed.is_ours(*job));
    let goes_on = matches!(applied.phase, PlannedPhase::Profiling(_));
    status.profiler_runs = cost::profiled(status.profiler_runs.as_ref(), job, goes_on, now);
    if let Some(minutes) = cost::minutes(status.profiler_runs.as_ref(), status.trial_graphs.as_ref()) {
        // Definitions without a field for the runs, or a version that kept none, have forgotten some; what was reported
        // stays.
        status.gpu_minutes = status.gpu_minutes.max(Some(minutes));
    }
    match &applied.phase {
        PlannedPhase::Deleted(_) => {
            status.dgd_name = None;
            status.deployment_info = None;
        }
        PlannedPhase::Deployed | PlannedPhase::Deploying { stuck: false, .. } => {
            status.deployment_info = replicas(observed)
        }
        PlannedPhase::Ready | PlannedPhase::Deploying { .. } => status.deployment_info = None,
        _ => {}
    }
}

fn replicas(observed: &RequestObserved) -> Option<DeploymentInfo> {
    let components = &observed.graph.as_ref()?.status.as_ref()?.components;
    let sum = |count: fn(&api_types::v1beta1::ComponentReplicaStatus) -> i32| components.values().map(count).sum();
    Some(DeploymentInfo {
        replicas: Some(sum(|component| component.replicas)),
        available_replicas: Some(sum(|component| component.available_replicas.unwrap_or_default())),
    })
}

fn phase(planned: &PlannedPhase, status: &RequestStatus) -> RequestPhase {
    match planned {
        PlannedPhase::Waiting(_) | PlannedPhase::Blocked { .. } => RequestPhase::Pending,
        PlannedPhase::Profiling(_) => RequestPhase::Profiling,
        PlannedPhase::Ready => RequestPhase::Ready,
        PlannedPhase::Deploying { .. } => RequestPhase::Deploying,
        PlannedPhase::Deployed => RequestPhase::Deployed,
        PlannedPhase::Ended => status.phase.unwrap_or(RequestPhase::Failed),
        PlannedPhase::Invalid { .. }
        | PlannedPhase::JobRefused(_)
        | PlannedPhase::ProfilingFailed(_)
        | PlannedPhase::GenerationFailed(_)
        | PlannedPhase::Rejected(_)
        | PlannedPhase::Deleted(_) => RequestPhase::Failed,
    }
}

/// Sets conditions of a status, for the generation that it is of.
struct Setter {
    status: RequestStatus,
    now: Timestamp,
}

impl Setter {
    fn set(&mut self, type_: &str, value: bool, reason: &str, message: &str) {
        let generation = self.status.observed_generation;
        let value = Status::from(value);
        set_condition(&mut self.status.conditions, type_, value, reason, message, generation, self.now);
    }

    fn remove(&mut self, types: &[&str]) {
        self.status.conditions.retain(|condition| !types.contains(&condition.type_.as_str()));
    }
}

/// The steps before a graph is deployed, in their order: the condition, with reason and message once the step is done.
const STEPS: [(&str, &str, &str); 3] = [
    (reason::VALIDATION, reason::VALIDATION_PASSED, "the spec can be carried out"),
    (reason::PROFILING, reason::PROFILING_COMPLETED, "the profiler has ended well"),
    (reason::SPEC_GENERATED, reason::SPEC_GENERATED, "the graph is in status.profilingResults.selectedConfig"),
];

fn set_planned(setter: &mut Setter, planned: &PlannedPhase) {
    let begins = matches!(planned, PlannedPhase::Profiling(Profiling { begins: true, .. }));
    if begins || planned.is_before_profiling() {
        setter.remove(&OF_PROFILE);
    }
    let of = |done: usize, why: &str, message: &str| (done, why.to_owned(), message.to_owned());
    // The number of steps that are done, with reason and message of the next one.
    let (done, why, message) = match planned {
        PlannedPhase::Ended => return,
        PlannedPhase::Invalid { message, .. } => of(0, reason::VALIDATION_FAILED, message),
        PlannedPhase::Waiting(message) => of(1, reason::DISCOVERING_HARDWARE, message),
        PlannedPhase::Blocked { message, .. } | PlannedPhase::JobRefused(message) => {
            of(1, reason::JOB_CREATION_FAILED, message)
        }
        PlannedPhase::Profiling(profiling) => of(1, &profiling_reason(profiling), &profiling.message),
        PlannedPhase::ProfilingFailed(message) => {
            let doing = setter.status.profiling_phase.map(|phase| format!("{phase}Failed"));
            of(1, doing.as_deref().unwrap_or(reason::PROFILING_FAILED), message)
        }
        PlannedPhase::GenerationFailed(message) => of(2, reason::GENERATION_FAILED, message),
        PlannedPhase::Ready => of(3, "", ""),
        PlannedPhase::Deploying { reason, message, .. } => of(3, reason, message),
        PlannedPhase::Deployed => {
            let name = setter.status.dgd_name.as_deref().unwrap_or_default();
            of(3, reason::DEPLOYMENT_READY, &format!("DynamoGraphDeployment {name} serves"))
        }
        PlannedPhase::Rejected(message) => of(3, reason::DEPLOYMENT_REJECTED, message),
        PlannedPhase::Deleted(message) => of(3, reason::DEPLOYMENT_DELETED, message),
    };
    for (type_, why, message) in STEPS.into_iter().take(done) {
        setter.set(type_, true, why, message);
    }
    let next = STEPS.get(done).map_or(reason::DEPLOYMENT_READY, |(type_, ..)| *type_);
    if *planned == PlannedPhase::Ready {
        setter.remove(&[next]);
    } else {
        setter.set(next, *planned == PlannedPhase::Deployed, &why, &message);
    }
}

fn profiling_reason(profiling: &Profiling) -> String {
    match profiling.phase {
        _ if profiling.begins => reason::INITIALIZING.to_owned(),
        None | Some(ProfilingPhase::Initializing) => reason::PROFILING_RUNNING.to_owned(),
        Some(ProfilingPhase::Done) => reason::COMPLETED.to_owned(),
        Some(phase) => phase.to_string(),
    }
}

/// A spec that is no longer the one that was profiled for. While it is unknown, the condition stays.
fn set_drift(setter: &mut Setter, observed: &RequestObserved, applied: &RequestApplied) {
    match &applied.findings.drift {
        Some(message) => setter.set(conditions::SPEC_SERVED, false, reason::SPEC_CHANGE_REJECTED, message),
        None if observed.job.is_some() => setter.remove(&[conditions::SPEC_SERVED]),
        None => {}
    }
}

/// The conditions that summarize all others.
fn set_summary(setter: &mut Setter, planned: &PlannedPhase) {
    let phase = setter.status.phase;
    let (why, message) = summary(&setter.status.conditions, phase);
    let done = matches!(phase, Some(RequestPhase::Ready | RequestPhase::Deployed));
    setter.set(reason::SUCCEEDED, done, &why, &message);
    setter.set(conditions::READY, done, &why, &message);
    let progress = match (planned, phase) {
        (PlannedPhase::Blocked { reason, message }, _) => Progress::stuck(reason, message),
        (PlannedPhase::Profiling(Profiling { hindrance: Some(hindrance), .. }), _) => {
            Progress::stuck(reason::POD_CANNOT_START, hindrance)
        }
        (PlannedPhase::Deploying { reason, message, stuck: true }, _) => Progress::stuck(reason, message),
        (_, Some(RequestPhase::Failed)) => Progress::stuck(&why, &message),
        _ if done => Progress::Current,
        _ => Progress::Working { reason: why, message },
    };
    let generation = setter.status.observed_generation;
    set_progress(&mut setter.status.conditions, &progress, generation, setter.now);
}

/// Reason and message of `Succeeded`.
fn summary(conditions: &[Condition], phase: Option<RequestPhase>) -> (String, String) {
    let of = |type_: &str| find(conditions, type_).map(|found| found.message.clone()).unwrap_or_default();
    match phase {
        None | Some(RequestPhase::Pending) => (reason::PENDING.to_owned(), of(reason::PROFILING)),
        Some(RequestPhase::Profiling) => (reason::PROFILING.to_owned(), of(reason::PROFILING)),
        Some(RequestPhase::Ready) => (reason::SPEC_GENERATED.to_owned(), of(reason::SPEC_GENERATED)),
        Some(RequestPhase::Deploying) => (reason::DEPLOYING.to_owned(), of(reason::DEPLOYMENT_READY)),
        Some(RequestPhase::Deployed) => (reason::DEPLOYED.to_owned(), of(reason::DEPLOYMENT_READY)),
        Some(RequestPhase::Failed) => {
            let phases = [
                (reason::VALIDATION, "the spec cannot be carried out"),
                (reason::PROFILING, "profiling failed"),
                (reason::SPEC_GENERATED, "no graph was generated"),
                (reason::DEPLOYMENT_READY, "the graph was not deployed"),
            ];
            let failed = phases.iter().find_map(|(type_, what)| {
                let found = find(conditions, type_)?;
                let reported = found.status == "False" && !found.message.is_empty();
                reported.then(|| (found.reason.clone(), format!("{what}: {}", found.message)))
            });
            failed.unwrap_or_else(|| (reason::FAILED.to_owned(), String::new()))
        }
    }
}

#[cfg(test)]
mod tests;
