//! Diagnoses why pods do not serve, from their status.
//!
//! One pod is named: the one whose cause most needs a change. The message is constant as long as the cause is, so that
//! it is written only once: no counts of restarts, no times, no backoff.

use api_types::conditions::component as reason;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodStatus};

use crate::frameworks::WAITS_FOR_LEADER;

/// Most characters of a message of Kubernetes.
const LONGEST: usize = 400;
/// Texts in which the scheduler reports its attempts to make room: by claims for devices that it could release, by
/// preemption.
const ATTEMPTS: [&str; 4] =
    ["no new claims to deallocate", "still not schedulable", "deallocation of ResourceClaim completed", "preemption:"];

/// Reason why a pod does not serve, ordered by the certainty that something must be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodCause {
    /// The API server rejects pods: a quota or a policy.
    Refused,
    /// A Secret, a ConfigMap or a key of them is missing, or a container cannot be set up as it is written.
    Configuration,
    /// A volume cannot be mounted: the Secret or ConfigMap that it is of is missing, for example.
    Volume,
    /// An image cannot be pulled.
    ImagePull,
    /// A container exceeded its memory limit.
    OutOfMemory,
    /// A container exits again and again.
    CrashLoop,
    /// The pod ended and is not restarted.
    Failed,
    /// No node fits the pod.
    Unschedulable,
    /// The pod waits for the others of its gang.
    Gated,
    /// Its containers are being created: volumes are mounted, the network is set up.
    Starting,
    /// It runs, and a probe has not succeeded.
    Probe,
    /// One of its containers has to end before the others start: it waits for its leader, for example.
    Preparing,
}

impl PodCause {
    /// Reason of a condition and of an event.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Refused => reason::PODS_REFUSED,
            Self::Configuration => reason::CONTAINER_CONFIG,
            Self::Volume => reason::VOLUME_NOT_MOUNTED,
            Self::ImagePull => reason::IMAGE_PULL_FAILED,
            Self::OutOfMemory => reason::OUT_OF_MEMORY,
            Self::CrashLoop => reason::CRASH_LOOP,
            Self::Failed => reason::POD_FAILED,
            Self::Unschedulable => reason::UNSCHEDULABLE,
            Self::Gated => reason::SCHEDULING_GATED,
            Self::Starting | Self::Preparing => reason::PODS_STARTING,
            Self::Probe => reason::PROBE_NOT_PASSED,
        }
    }

    /// Whether the cause is normal while pods start.
    pub fn is_expected(self) -> bool {
        matches!(self, Self::Gated | Self::Starting | Self::Probe | Self::Preparing)
    }

    /// Whether the cause lasts until something is changed. A node may be added, a mount is retried, and a container
    /// restarted.
    pub fn needs_action(self) -> bool {
        matches!(self, Self::Refused | Self::Configuration | Self::ImagePull)
    }
}

/// Reason why pods do not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDiagnosis {
    /// The cause.
    pub cause: PodCause,
    /// The pod, the container and what Kubernetes says.
    pub message: String,
}

/// Diagnoses the pod with the first cause in order; `None` if all pods serve.
pub fn diagnose(pods: &[Pod]) -> Option<PodDiagnosis> {
    first_cause(pods).map(|(_, trouble)| trouble)
}

/// The pod that [`diagnose`] names, if its containers are being created. Its events have the cause.
pub fn pod_being_created(pods: &[Pod]) -> Option<&Pod> {
    first_cause(pods).filter(|(_, trouble)| trouble.cause == PodCause::Starting).map(|(pod, _)| pod)
}

impl PodDiagnosis {
    /// A volume of a pod cannot be mounted; `message` is the kubelet's.
    pub fn from_mount_warning(pod: &Pod, message: &str) -> Self {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        Self { cause: PodCause::Volume, message: cut(&format!("pod {name}: {message}")) }
    }

    /// The owner of pods, for example `StatefulSet w-0`, cannot create them; `message` is of its controller.
    pub fn from_creation_warning(owner: &str, message: &str) -> Self {
        Self { cause: PodCause::Refused, message: cut(&format!("{owner}: {message}")) }
    }
}

/// A pod that ended has mostly been replaced: it counts only if no live pod has a cause.
fn first_cause(pods: &[Pod]) -> Option<(&Pod, PodDiagnosis)> {
    let (ended, live): (Vec<&Pod>, Vec<&Pod>) = pods.iter().partition(|pod| has_ended(pod));
    first_cause_of(&live).or_else(|| first_cause_of(&ended))
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

fn first_cause_of<'a>(pods: &[&'a Pod]) -> Option<(&'a Pod, PodDiagnosis)> {
    let mut all: Vec<_> = pods.iter().filter_map(|pod| Some((trouble_of(pod)?, *pod))).collect();
    all.sort_by(|((a, _), one), ((b, _), other)| (a, &one.metadata.name).cmp(&(b, &other.metadata.name)));
    let ((cause, what), pod) = all.first()?;
    let alike = all.iter().filter(|((other, _), _)| other == cause).count();
    let others = if alike > 1 { ", and others like it" } else { "" };
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    Some((*pod, PodDiagnosis { cause: *cause, message: format!("pod {name}{others}: {what}") }))
}

fn trouble_of(pod: &Pod) -> Option<(PodCause, String)> {
    if pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let none = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&none);
    let first = status.init_container_statuses.iter().flatten().find(|init| holds_up(pod, init));
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let others = containers.filter(|other| first.is_none_or(|first| other.name != first.name && !is_held_up(other)));
    let mut found: Vec<_> = others.filter_map(of_container).collect();
    found.extend(first.map(preparing));
    found.extend(of_pod(status));
    // Of two containers with one cause, the first.
    found.into_iter().min_by_key(|(cause, _)| *cause)
}

/// Whether an init container runs that has to end before others start. Those that are started again run beside them.
fn holds_up(pod: &Pod, init: &ContainerStatus) -> bool {
    let runs = init.state.as_ref().is_some_and(|state| state.running.is_some());
    let spec = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten()).find(|c| c.name == init.name);
    runs && spec.is_none_or(|spec| spec.restart_policy.as_deref() != Some("Always"))
}

fn is_held_up(container: &ContainerStatus) -> bool {
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("PodInitializing"))
}

fn preparing(init: &ContainerStatus) -> (PodCause, String) {
    if init.last_state.as_ref().is_some_and(ends_badly) {
        return ended(init);
    }
    let name = &init.name;
    let text = match name == WAITS_FOR_LEADER {
        true => format!("it waits for the leader of its replica to answer (container {name})"),
        false => format!("container {name} runs, and the others start when it has ended"),
    };
    (PodCause::Preparing, text)
}

fn of_pod(status: &PodStatus) -> Option<(PodCause, String)> {
    if status.phase.as_deref() == Some("Failed") {
        let text = [&status.reason, &status.message].map(|text| text.as_deref().unwrap_or_default()).join(" ");
        return Some((PodCause::Failed, format!("it has failed {}", cut(text.trim()))));
    }
    let scheduled = status.conditions.iter().flatten().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    let message = scheduled.message.as_deref().unwrap_or_default();
    match scheduled.reason.as_deref() {
        Some("SchedulingGated") => {
            Some((PodCause::Gated, "it waits for the other pods of its gang to be placed".into()))
        }
        _ => Some((PodCause::Unschedulable, cut(without_attempts(message)))),
    }
}

/// The scheduler's words without what it tried after it found no node: that changes with every attempt.
fn without_attempts(message: &str) -> &str {
    let begin = ATTEMPTS.iter().filter_map(|words| message.find(words)).min();
    message[..begin.unwrap_or(message.len())].trim_end()
}

fn of_container(status: &ContainerStatus) -> Option<(PodCause, String)> {
    let name = &status.name;
    let state = status.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let (why, message) = (waiting.reason.as_deref()?, waiting.message.as_deref().unwrap_or_default());
        let (cause, text) = match why {
            "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" | "ErrImageNeverPull" | "RegistryUnavailable" => {
                let detail = message.rsplit("ErrImagePull: ").next().unwrap_or_default();
                (PodCause::ImagePull, format!("image {} cannot be pulled: {detail}", status.image))
            }
            "CrashLoopBackOff" => return Some(ended(status)),
            "ContainerCreating" | "PodInitializing" => {
                (PodCause::Starting, "is being created; what it waits for is in the pod's events".to_owned())
            }
            other => (PodCause::Configuration, format!("{other}: {message}")),
        };
        return Some((cause, cut(&format!("container {name}: {text}"))));
    }
    if state.terminated.as_ref().is_some_and(|end| end.exit_code != 0) {
        return Some(ended(status));
    }
    let runs = state.running.is_some() && !status.ready;
    // An engine that loads its model for minutes has started, and is only not ready.
    let probe = if status.started == Some(false) { "startup" } else { "readiness" };
    runs.then(|| match status.last_state.as_ref().filter(|last| ends_badly(last)) {
        Some(_) => ended(status),
        None => (PodCause::Probe, format!("container {name} runs, and its {probe} probe has not succeeded yet")),
    })
}

fn ends_badly(last: &ContainerState) -> bool {
    last.terminated.as_ref().is_some_and(|end| end.exit_code != 0)
}

/// A container that ended; it may have been started again.
fn ended(status: &ContainerStatus) -> (PodCause, String) {
    let name = &status.name;
    let end = |state: &Option<ContainerState>| state.as_ref().and_then(|state| state.terminated.clone());
    let Some(end) = end(&status.state).or_else(|| end(&status.last_state)) else {
        return (PodCause::CrashLoop, format!("container {name} ends again and again"));
    };
    if end.reason.as_deref() == Some("OOMKilled") {
        let text = format!("container {name} used more memory than its limit and was ended; raise the limit");
        return (PodCause::OutOfMemory, text);
    }
    let said = end.message.as_deref().map(|text| format!(": {}", text.trim())).unwrap_or_default();
    (PodCause::CrashLoop, cut(&format!("container {name} ended with exit code {}{said}", end.exit_code)))
}

fn cut(text: &str) -> String {
    let mut short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, status: Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": name }, "status": status })).unwrap()
    }

    fn container(state: Value) -> Value {
        let mut all =
            json!({ "name": "main", "image": "r/engine:1", "imageID": "", "ready": false, "restartCount": 3 });
        all.as_object_mut().unwrap().extend(state.as_object().unwrap().clone());
        json!({ "phase": "Pending", "containerStatuses": [all] })
    }

    fn waiting(reason: &str, message: &str) -> Value {
        container(json!({ "state": { "waiting": { "reason": reason, "message": message } } }))
    }

    fn unplaced(reason: &str, message: &str) -> Value {
        let condition = json!({ "type": "PodScheduled", "status": "False", "reason": reason, "message": message });
        json!({ "phase": "Pending", "conditions": [condition] })
    }

    fn diagnosed(statuses: impl IntoIterator<Item = Value>) -> Option<(PodCause, String)> {
        let named = statuses.into_iter().enumerate().map(|(index, status)| pod(&format!("w-{index}"), status));
        diagnose(&named.collect::<Vec<_>>()).map(|trouble| (trouble.cause, trouble.message))
    }

    #[test]
    fn every_cause_names_the_pod_and_what_to_look_at() {
        let not_found = "rpc error: not found";
        let crash = json!({ "state": { "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 5m0s" } },
            "lastState": { "terminated": { "exitCode": 1, "reason": "Error", "message": "no such model\n" } } });
        let killed = json!({ "state": { "waiting": { "reason": "CrashLoopBackOff" } },
            "lastState": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } });
        let again = json!({ "state": { "running": {} }, "lastState": { "terminated": { "exitCode": 2 } } });
        let loading = json!({ "state": { "running": {} }, "started": false });
        let table = [
            (
                waiting("ErrImagePull", not_found),
                PodCause::ImagePull,
                "container main: image r/engine:1 cannot be pulled: rpc error: not found",
            ),
            (
                waiting(
                    "ImagePullBackOff",
                    "Back-off pulling image \"r/engine:1\": ErrImagePull: rpc error: not found",
                ),
                PodCause::ImagePull,
                "container main: image r/engine:1 cannot be pulled: rpc error: not found",
            ),
            (
                waiting("CreateContainerConfigError", "secret \"hf\" not found"),
                PodCause::Configuration,
                "container main: CreateContainerConfigError: secret \"hf\" not found",
            ),
            (container(crash), PodCause::CrashLoop, "container main ended with exit code 1: no such model"),
            (container(again), PodCause::CrashLoop, "container main ended with exit code 2"),
            (
                container(killed),
                PodCause::OutOfMemory,
                "container main used more memory than its limit and was ended; raise the limit",
            ),
            (container(loading), PodCause::Probe, "container main runs, and its startup probe has not succeeded yet"),
            (
                waiting("ContainerCreating", ""),
                PodCause::Starting,
                "container main: is being created; what it waits for is in the pod's events",
            ),
            (
                unplaced("Unschedulable", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: no"),
                PodCause::Unschedulable,
                "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
            ),
            (
                unplaced(
                    "Unschedulable",
                    "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes",
                ),
                PodCause::Unschedulable,
                "0/1 nodes are available: 1 Insufficient cpu.",
            ),
            (
                unplaced("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu. still not schedulable"),
                PodCause::Unschedulable,
                "0/1 nodes are available: 1 Insufficient cpu.",
            ),
            (
                unplaced("Unschedulable", "persistentvolumeclaim \"models\" not found"),
                PodCause::Unschedulable,
                "persistentvolumeclaim \"models\" not found",
            ),
            (unplaced("SchedulingGated", ""), PodCause::Gated, "it waits for the other pods of its gang to be placed"),
            (
                json!({ "phase": "Failed", "reason": "Evicted", "message": "low on memory" }),
                PodCause::Failed,
                "it has failed Evicted low on memory",
            ),
        ];
        for (status, cause, message) in table {
            assert_eq!(diagnosed([status]), Some((cause, format!("pod w-0: {message}"))));
        }
    }

    #[test]
    fn the_pod_that_a_user_can_help_is_named_and_not_the_one_that_waits() {
        let loading = container(json!({ "state": { "running": {} } }));
        let image = waiting("ImagePullBackOff", "no");
        let (cause, message) = diagnosed([loading, image.clone(), image]).unwrap();
        assert_eq!(cause, PodCause::ImagePull);
        assert!(message.starts_with("pod w-1, and others like it: "), "{message}");
    }

    /// An evicted pod stays for weeks after another has taken its place.
    #[test]
    fn an_ended_pod_is_reported_only_if_no_existing_one_is() {
        let evicted = json!({ "phase": "Failed", "reason": "Evicted", "message": "low on memory" });
        let crashed = json!({ "phase": "Failed", "containerStatuses": [
            { "name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
              "state": { "terminated": { "exitCode": 1 } } }] });
        let loading = container(json!({ "state": { "running": {} } }));
        let serving = json!({ "phase": "Running", "containerStatuses": [
            { "name": "main", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": { "running": {} } }] });
        for ended in [evicted, crashed] {
            for (there, cause) in [
                (unplaced("Unschedulable", "no node"), PodCause::Unschedulable),
                (loading.clone(), PodCause::Probe),
                (waiting("ContainerCreating", ""), PodCause::Starting),
            ] {
                let (found, message) = diagnosed([ended.clone(), there]).unwrap();
                assert_eq!((found, message.starts_with("pod w-1: ")), (cause, true), "{message}");
            }
            let (_, message) = diagnosed([ended.clone(), serving.clone()]).unwrap();
            assert!(message.starts_with("pod w-0: "), "no other pod has a cause: {message}");
        }
    }

    #[test]
    fn a_container_that_has_to_end_first_is_what_the_others_wait_for() {
        let of = |name: &str, restart: Value, init: Value| -> Option<(PodCause, String)> {
            let status = |name: &str, state: Value| json!({ "name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state });
            let main = status("main", json!({ "waiting": { "reason": "PodInitializing" } }));
            let pod = serde_json::from_value(json!({
                "metadata": { "name": "w" },
                "spec": { "containers": [], "initContainers": [{ "name": name, "restartPolicy": restart }] },
                "status": { "phase": "Pending", "initContainerStatuses": [status(name, init)], "containerStatuses": [main] },
            }))
            .unwrap();
            diagnose(&[pod]).map(|trouble| (trouble.cause, trouble.message))
        };
        let running = json!({ "running": {} });
        let found = of("wait-for-leader-mp", Value::Null, running.clone()).unwrap();
        let text = "pod w: it waits for the leader of its replica to answer (container wait-for-leader-mp)";
        assert_eq!(found, (PodCause::Preparing, text.to_owned()));
        let found = of("copy", Value::Null, running.clone()).unwrap();
        assert_eq!(found.1, "pod w: container copy runs, and the others start when it has ended");
        let image = json!({ "waiting": { "reason": "ErrImagePull", "message": "no" } });
        assert_eq!(of("copy", Value::Null, image).unwrap().0, PodCause::ImagePull);
        assert_eq!(of("server", json!("Always"), running).unwrap().0, PodCause::Starting, "it runs beside the others");
    }

    #[test]
    fn events_are_read_only_of_a_pod_of_which_nothing_else_is_known() {
        let creating = pod("w-1", waiting("ContainerCreating", ""));
        let being_created = |pods: &[Pod]| pod_being_created(pods).and_then(|pod| pod.metadata.name.clone());
        assert_eq!(being_created(std::slice::from_ref(&creating)).as_deref(), Some("w-1"));
        assert_eq!(being_created(&[creating.clone(), pod("w-2", waiting("ErrImagePull", "no"))]), None);
        assert_eq!(being_created(&[pod("w-3", container(json!({ "state": { "running": {} } })))]), None);
        let message = "MountVolume.SetUp failed for volume \"hf\" : secret \"hf-token\" not found";
        let trouble = PodDiagnosis::from_mount_warning(&creating, message);
        assert_eq!((trouble.cause.reason(), trouble.message), ("VolumeNotMounted", format!("pod w-1: {message}")));
    }

    /// The pod that fails shows more than one that only waits for it.
    #[test]
    fn the_leader_is_reported_before_pods_that_wait_for_it() {
        let init = json!({ "name": "wait-for-leader-mp", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "running": {} } });
        let worker = json!({ "phase": "Pending", "initContainerStatuses": [init] });
        let leader = container(json!({ "state": { "running": {} }, "started": false }));
        assert_eq!(diagnosed([worker, leader]).unwrap().0, PodCause::Probe);
    }

    #[test]
    fn pods_that_serve_or_go_are_no_trouble() {
        let serving = json!({ "phase": "Running", "containerStatuses": [
            { "name": "main", "image": "i", "imageID": "", "ready": true, "restartCount": 1, "state": { "running": {} },
              "lastState": { "terminated": { "exitCode": 1 } } }] });
        assert_eq!(diagnosed([serving, json!({})]), None);
        let mut going = pod("w", waiting("ImagePullBackOff", "no"));
        going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(diagnose(&[going]), None);
    }
}
