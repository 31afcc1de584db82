//! Cost of profiling: GPUs times the time for which they were held, by the profiler's own pod and by those of the
//! graphs that it starts to measure them. Pure.

use std::collections::BTreeSet;

use api_types::{
    GPU, labels, names,
    v1beta1::{ProfilerRuns, TrialGraphs},
};
use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{Container, Pod},
    },
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::{SignedDuration, Timestamp},
};
use kube::ResourceExt;
use rendering::JobEnd;

/// Interval of counting while the graphs stay the same. Each count is a write.
const STEP: SignedDuration = SignedDuration::from_secs(30);

/// Graphs that a profiler starts to measure them, as they are found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trials {
    /// Names of those that there are, sorted.
    running: Vec<String>,
    /// Names of those that are gone and have pods left.
    ending: Vec<String>,
    pods: Vec<HeldCost>,
}

/// GPUs that a pod holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeldCost {
    gpus: i64,
    /// Since it has a node.
    since: Timestamp,
    /// Until its last container ended.
    until: Option<Timestamp>,
}

impl Trials {
    /// Reads what is found: graphs by name, those that are remembered, and the pods of all of them.
    pub fn of(running: BTreeSet<String>, remembered: Option<&TrialGraphs>, pods: &[Pod]) -> Self {
        let has_pods = |name: &String| {
            let label = names::label_value(name);
            pods.iter().any(|pod| pod.labels().get(labels::GRAPH) == Some(&label))
        };
        let gone = known(remembered).filter(|name| !running.contains(*name));
        let ending: BTreeSet<String> = gone.filter(|name| has_pods(name)).cloned().collect();
        Self {
            ending: ending.into_iter().collect(),
            running: running.into_iter().collect(),
            pods: pods.iter().filter_map(held).collect(),
        }
    }
}

/// Names of all graphs that are remembered.
pub fn known(remembered: Option<&TrialGraphs>) -> impl Iterator<Item = &String> {
    remembered.into_iter().flat_map(|trials| trials.running.iter().chain(&trials.ending))
}

fn held(pod: &Pod) -> Option<HeldCost> {
    let status = pod.status.as_ref()?;
    let gpus = gpus(&pod.spec.as_ref()?.containers);
    let since = status.start_time.as_ref()?.0;
    let has_ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let containers = status.container_statuses.iter().flatten();
    let ends = containers.filter_map(|container| container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref());
    // One that was turned away by its node has run nothing.
    let until = has_ended.then(|| ends.map(|time| time.0).max().unwrap_or(since));
    (gpus > 0).then_some(HeldCost { gpus, since, until })
}

fn gpus(containers: &[Container]) -> i64 {
    let limits = containers.iter().filter_map(|container| container.resources.as_ref()?.limits.as_ref()?.get(GPU));
    limits.filter_map(|quantity| quantity.0.parse::<i64>().ok()).sum()
}

/// Counts up to now, from where was counted before. None if there never was a graph to count.
pub fn counted(before: Option<&TrialGraphs>, found: &Trials, now: Timestamp) -> Option<TrialGraphs> {
    // Times of the API have whole seconds; what is left of this one is counted next time.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let last = before.and_then(|before| before.counted_until.as_ref()).map(|time| time.0);
    let same = before.is_some_and(|before| before.running == found.running && before.ending == found.ending);
    if same && last.is_some_and(|last| now.duration_since(last) < STEP) {
        return before.cloned();
    }
    let seconds = found.pods.iter().map(|pod| {
        let from = last.map_or(pod.since, |last| last.max(pod.since));
        let until = pod.until.map_or(now, |end| end.min(now));
        pod.gpus.saturating_mul(until.duration_since(from).as_secs().max(0))
    });
    let more = seconds.fold(0, i64::saturating_add);
    let idle = found.running.is_empty() && found.ending.is_empty();
    if more == 0 && (same || before.is_none() && idle) {
        return before.cloned();
    }
    Some(TrialGraphs {
        gpu_seconds: before.map_or(0, |before| before.gpu_seconds).saturating_add(more),
        counted_until: Some(Time(now)),
        running: found.running.clone(),
        ending: found.ending.clone(),
    })
}

/// A run of the profiling Job: from its start until it ends, is suspended, or is gone.
struct Run {
    start: Timestamp,
    /// Of all its pods.
    gpus: i64,
    seconds: i64,
    has_ended: bool,
}

impl Run {
    /// None while the Job has not started.
    fn of(job: &Job, now: Timestamp) -> Option<Self> {
        let status = job.status.as_ref()?;
        let start = status.start_time.as_ref()?.0;
        let failed = JobEnd::Failed.of(job).and_then(|condition| condition.last_transition_time.as_ref());
        let end = status.completion_time.as_ref().or(failed);
        let spec = job.spec.as_ref()?;
        let of_pod: i64 = spec.template.spec.as_ref().map_or(0, |pod| gpus(&pod.containers));
        Some(Self {
            start,
            gpus: of_pod.saturating_mul(i64::from(spec.parallelism.unwrap_or(1))),
            seconds: end.map_or(now, |time| time.0).duration_since(start).as_secs().max(0),
            has_ended: end.is_some(),
        })
    }

    fn gpu_seconds(&self) -> i64 {
        self.seconds.saturating_mul(self.gpus)
    }
}

/// Counts the Job as it is now. What the runs before its present one have taken stays: of Jobs that are gone, and of
/// one that was suspended, whose time begins anew. None if there never was a run to count.
///
/// A Job that another client deletes is counted as far as it was before. One that is deleted in this step does not go
/// on (`goes_on`), and is counted to this moment.
pub fn profiled(
    before: Option<&ProfilerRuns>,
    job: Option<&Job>,
    goes_on: bool,
    now: Timestamp,
) -> Option<ProfilerRuns> {
    let Some(run) = job.and_then(|job| Run::of(job, now)) else { return before.cloned() };
    let started = Some(Time(run.start));
    let (last, earlier) = match before {
        Some(before) if before.started == started => (before.gpu_seconds, before.earlier_gpu_seconds),
        Some(before) => (0, before.earlier_gpu_seconds.saturating_add(before.gpu_seconds)),
        None => (0, 0),
    };
    let gpu_seconds = run.gpu_seconds().max(last);
    let same = before.is_some_and(|before| before.started == started);
    if same && goes_on && !run.has_ended && gpu_seconds - last < STEP.as_secs().saturating_mul(run.gpus) {
        return before.cloned();
    }
    Some(ProfilerRuns { started, gpu_seconds, earlier_gpu_seconds: earlier })
}

/// Minutes of the profiling Job's pods and of the graphs, rounded up. None while no Job has started.
pub fn minutes(runs: Option<&ProfilerRuns>, trials: Option<&TrialGraphs>) -> Option<i64> {
    let runs = runs?;
    let own = runs.earlier_gpu_seconds.saturating_add(runs.gpu_seconds);
    let all = own.saturating_add(trials.map_or(0, |trials| trials.gpu_seconds));
    Some(all.saturating_add(59) / 60)
}

#[cfg(test)]
mod tests;
