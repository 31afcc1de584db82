//! Causes in pods: what `rendering::diagnose` finds, with the remedy and what other objects show.

pub mod facts;

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::ResourceExt;
use rendering::{PodCause, diagnose};
use status_view::pods::{component_of, has_ended, is_ready};

use super::{
    model::{Cause, DiagnosisInputs, ObjectName, Weight},
    operator::seconds,
    placement, rules,
    rules::{CauseRule, ENDS, IMAGES, LOGS, SCHEDULING, SETUP, VOLUMES},
};
use crate::diagnosis;

/// Time a pod may take to end, in seconds, in addition to its own grace period.
const ENDING: i64 = 60;
/// After how many seconds a probe that fails is no longer normal: engines load models for long.
const LOADING: i64 = 30 * 60;
/// Time limit of a readiness probe after the container has started.
const STARTED: i64 = 5 * 60;
/// Events about volumes and networks.
const SETUP_EVENTS: [&str; 4] = ["FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox"];

/// Causes of all pods; those of one component that are alike are one.
pub fn causes(observed: &DiagnosisInputs, now: Timestamp) -> Vec<Cause> {
    let mut by_component: BTreeMap<Option<&str>, Vec<&Pod>> = BTreeMap::new();
    for pod in &observed.pods {
        by_component.entry(component_of(pod)).or_default().push(pod);
    }
    by_component.values().flat_map(|pods| of_component(observed, pods, now)).collect()
}

fn of_component(observed: &DiagnosisInputs, pods: &[&Pod], now: Timestamp) -> Vec<Cause> {
    // A pod that ended has mostly been replaced.
    let live: Vec<&Pod> = pods.iter().copied().filter(|pod| !has_ended(pod)).collect();
    let judged = if live.is_empty() { pods.to_vec() } else { live };
    let ready = judged.iter().filter(|pod| is_ready(pod)).count();
    let mut causes: Vec<(String, Cause)> = Vec::new();
    for pod in &judged {
        let Some(found) = of_pod(observed, pod, now) else { continue };
        // Pods differ in what their messages count and name; the code and the container are the same.
        let key = format!("{} {}", found.code, facts::container_in(&found.cause).unwrap_or_default());
        if let Some((_, cause)) = causes.iter_mut().find(|(known, _)| *known == key) {
            cause.others += 1;
            continue;
        }
        let mut chain = diagnosis::to_pod(observed, pod);
        chain.extend(found.chain);
        let mut cause = Cause { chain, ..found };
        if ready > 0 {
            cause.evidence.push(format!("{ready} of {} pods of the component are ready", judged.len()));
        }
        causes.push((key, cause));
    }
    causes.into_iter().map(|(_, cause)| cause).collect()
}

/// The cause of one pod; its chain is only the object that the pod lacks.
fn of_pod(observed: &DiagnosisInputs, pod: &Pod, now: Timestamp) -> Option<Cause> {
    if let Some(found) = on_lost_node(observed, pod) {
        return Some(found);
    }
    if let Some(deleted) = &pod.metadata.deletion_timestamp {
        return ending(pod, seconds(now, deleted.0));
    }
    let Some(diagnosis) = diagnose(std::slice::from_ref(pod)) else {
        return gates(pod).or_else(|| device_claim(observed, pod));
    };
    let prefix = format!("pod {}: ", pod.name_any());
    let message = diagnosis.message.strip_prefix(&prefix).unwrap_or(&diagnosis.message).to_owned();
    let mut found = match diagnosis.cause {
        PodCause::ImagePull => image(observed, pod, message),
        PodCause::Configuration => by_rule(SETUP, diagnosis.cause, message),
        PodCause::CrashLoop => ended(observed, pod, message),
        PodCause::Failed => by_rule(ENDS, diagnosis.cause, message),
        PodCause::Unschedulable => unschedulable(observed, pod, message),
        PodCause::Starting | PodCause::Volume => starting(observed, pod, diagnosis.cause, message),
        PodCause::Probe => probe(observed, pod, message, now),
        PodCause::OutOfMemory => {
            let mut found = by_rule(&[], diagnosis.cause, message);
            let limit = facts::container_in(&found.cause).and_then(|name| facts::memory_limit(pod, name));
            found.evidence.extend(limit.map(|limit| format!("its memory limit is {limit}")));
            found
        }
        PodCause::Refused | PodCause::Gated | PodCause::Preparing => by_rule(&[], diagnosis.cause, message),
    };
    if let Some(name) = facts::container_in(&found.cause).filter(|name| facts::is_init(pod, name)) {
        found.evidence.push(format!("container {name} is an init container: the others start after it"));
    }
    if found.chain.is_empty() {
        found.chain.extend(facts::missing_reference(observed, pod, &found.cause));
    }
    Some(found)
}

/// The cause as the first rule says that fits, else as the reason of the condition says.
fn by_rule(table: &'static [CauseRule], cause: PodCause, message: String) -> Cause {
    let rule = rules::matching(table, &message);
    let remedy = rule.map(|rule| rule.remedy).or_else(|| rules::by_reason(cause.reason())).unwrap_or("look at the pod");
    let code = rule.map_or(cause.reason(), |rule| rule.code);
    let weight = if cause.is_expected() { Weight::Waits } else { Weight::Blocks };
    Cause::new(code, weight, Vec::new(), message, remedy)
}

fn on_lost_node(observed: &DiagnosisInputs, pod: &Pod) -> Option<Cause> {
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    let nodes = observed.nodes.as_ref()?;
    let lost = || nodes.iter().filter(|node| node.not_ready);
    lost().find(|lost| lost.name == node)?;
    let (chain, text) = (vec![ObjectName::new("Node", node)], format!("node {node} is not ready"));
    let evidence = vec![format!("{} of {} nodes are not ready", lost().count(), nodes.len())];
    Some(Cause { evidence, ..Cause::new("NodeLost", Weight::Blocks, chain, text, rules::NODE) })
}

fn ending(pod: &Pod, waited: i64) -> Option<Cause> {
    if waited <= ENDING {
        return None;
    }
    let text = format!("it should have ended {waited} s ago");
    let remedy = "look at the node of the pod, and at what removes its finalizers";
    let mut cause = Cause::new("PodDoesNotEnd", Weight::Waits, Vec::new(), text, remedy);
    if !pod.finalizers().is_empty() {
        cause.evidence.push(format!("it has the finalizers {}", pod.finalizers().join(", ")));
    }
    Some(cause)
}

/// All containers are ready, and the pod is not.
fn gates(pod: &Pod) -> Option<Cause> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().find(|one| one.type_ == "Ready" && one.status == "False")?;
    if ready.reason.as_deref() != Some("ReadinessGatesNotReady") {
        return None;
    }
    let text = format!("a readiness gate is not open: {}", ready.message.as_deref().unwrap_or_default());
    let remedy = "look at the controller that sets the condition of the gate, such as a load balancer's";
    Some(Cause::new("ReadinessGate", Weight::Waits, Vec::new(), text, remedy))
}

/// The scheduler does not look at a pod before its claims for devices exist, and says nothing of it.
fn device_claim(observed: &DiagnosisInputs, pod: &Pod) -> Option<Cause> {
    pod.spec.as_ref().filter(|spec| spec.node_name.is_none())?;
    let found = |chain, cause: String, remedy: &str| Cause {
        evidence: vec!["the scheduler waits for the claim before it looks for a node".to_owned()],
        ..Cause::new("DeviceClaimMissing", Weight::Blocks, chain, cause, remedy)
    };
    if let Some(missing) = facts::device_claims(pod).find(|name| observed.device_claims.get(*name) == Some(&false)) {
        let remedy = "create the ResourceClaim, or correct its name in the pod template";
        let chain = vec![ObjectName::new("ResourceClaim", missing)];
        return Some(found(chain, format!("ResourceClaim {missing} does not exist"), remedy));
    }
    let warning = facts::warnings(observed, pod, &["FailedResourceClaimCreation"]).next()?;
    let remedy = "create the ResourceClaimTemplate, or correct its name in the pod template";
    Some(found(Vec::new(), warning.message.clone(), remedy))
}

fn image(observed: &DiagnosisInputs, pod: &Pod, message: String) -> Cause {
    // Older kubelets say the cause in the event only, and others beside it.
    let pulls = || facts::warnings(observed, pod, &["Failed"]).filter(|one| one.message.contains("pull"));
    let pulls = pulls().find(|one| rules::matching(IMAGES, &one.message).is_some()).or_else(|| pulls().next());
    let words = format!("{message} {}", pulls.map(|one| one.message.as_str()).unwrap_or_default());
    let rule = rules::matching(IMAGES, &words);
    let mut found = by_rule(&[], PodCause::ImagePull, message);
    if let Some(rule) = rule {
        (found.code, found.remedy) = (rule.code.to_owned(), rule.remedy.to_owned());
    }
    found.evidence.extend(pulls.map(|one| format!("event {}: {}", one.reason, one.message)));
    if let Some(secret) = facts::missing_pull_secret(observed, pod) {
        let create = format!("create the Secret {secret} of type kubernetes.io/dockerconfigjson in the namespace");
        let evidence = format!("imagePullSecrets names Secret {secret}, which does not exist");
        match rule.map(|rule| rule.code) {
            None | Some("RegistryLogin") => {
                (found.code, found.remedy) = ("PullSecretMissing".to_owned(), create);
                found.evidence.push(evidence);
                found.chain = vec![ObjectName::new("Secret", secret)];
            }
            // Some registries say so of private images.
            Some("ImageNotFound") => {
                found.remedy = format!("{}; if it is private, {create}", found.remedy);
                found.evidence.push(evidence);
            }
            Some(_) => {}
        }
    }
    if found.code == "ImageArchitecture" {
        found.evidence.extend(facts::architectures(observed));
    }
    found
}

fn ended(observed: &DiagnosisInputs, pod: &Pod, message: String) -> Cause {
    let container = facts::container_in(&message).unwrap_or_default().to_owned();
    let log = observed.logs.get(&(pod.name_any(), container.clone())).map(String::as_str);
    let killed = facts::warnings(observed, pod, &["Unhealthy"]).find(|one| one.message.starts_with("Liveness"));
    let by_log = log.and_then(cause_in).map(|(rule, line)| (rule, Some(line)));
    let by_words = rules::matching(LOGS, &message).map(|rule| (rule, None)).or(by_log);
    let table = if rules::is_of_runtime(&message) { SETUP } else { ENDS };
    let mut found = by_rule(table, PodCause::CrashLoop, message);
    let line = by_words.and_then(|(_, line)| line);
    if let Some((rule, _)) = by_words {
        (found.code, found.remedy) = (rule.code.to_owned(), rule.remedy.to_owned());
    } else if let Some(warning) = killed {
        found.code = "LivenessProbe".to_owned();
        found.remedy =
            "raise failureThreshold or timeoutSeconds of the liveness probe, or see why the engine hangs".to_owned();
        found.evidence.push(format!("event Unhealthy: {}", warning.message));
    } else if found.code == PodCause::CrashLoop.reason() {
        let previous = if facts::was_restarted(pod, &container) { " --previous" } else { "" };
        found.remedy = format!("kubectl logs {} --container {container}{previous}", pod.name_any());
    }
    let last = log.and_then(|log| log.lines().last());
    found.evidence.extend(line.filter(|line| Some(*line) != last).map(|line| format!("line of its log: {line}")));
    found.evidence.extend(last.map(|last| format!("last line of its log: {last}")));
    if found.code == "ImageArchitecture" {
        found.evidence.extend(facts::architectures(observed));
    }
    found
}

/// The cause that the end of a log names: in its last line, or in the last one before that is an error.
fn cause_in(log: &str) -> Option<(&'static CauseRule, &str)> {
    let is_error = |line: &str| {
        let line = line.to_lowercase();
        ["error", "exception", "fatal", "failed", "cannot"].iter().any(|word| line.contains(word))
    };
    let mut lines = log.lines().rev().enumerate().filter(|(index, line)| *index == 0 || is_error(line));
    lines.find_map(|(_, line)| Some((rules::matching(LOGS, line)?, line)))
}

fn unschedulable(observed: &DiagnosisInputs, pod: &Pod, message: String) -> Cause {
    let mut found = by_rule(SCHEDULING, PodCause::Unschedulable, message);
    let scheduler = vec![format!("the scheduler: {}", found.cause)];
    if (found.code.starts_with("Claim") || found.code == "Unschedulable")
        && let Some(claim) = placement::claims_of_pod(observed, pod)
    {
        return Cause { evidence: scheduler, ..claim };
    }
    if found.code == "NoGpu" {
        found.evidence.extend(facts::gpus(observed, pod));
    } else if placement::is_open(&found.code)
        && let Some(placement) = placement::of_pod(observed, pod)
    {
        return match placement.chain.is_empty() {
            true => Cause { cause: found.cause, evidence: vec![placement.cause], ..placement },
            false => Cause { evidence: scheduler, ..placement },
        };
    }
    found
}

fn starting(observed: &DiagnosisInputs, pod: &Pod, cause: PodCause, message: String) -> Cause {
    if let Some(warning) = facts::warnings(observed, pod, &SETUP_EVENTS).next() {
        let mut found = by_rule(VOLUMES, PodCause::Volume, warning.message.clone());
        found.evidence.push(format!("event {}, {} times", warning.reason, warning.count));
        return found;
    }
    if let Some(missing) = facts::missing_reference(observed, pod, "") {
        let mut found = by_rule(&[], PodCause::Volume, format!("{} {} does not exist", missing.kind, missing.name));
        found.code = format!("{}Missing", missing.kind);
        found.remedy = format!("create the {} in the namespace, or correct its name", missing.kind);
        found.chain = vec![missing];
        return found;
    }
    by_rule(&[], cause, message)
}

fn probe(observed: &DiagnosisInputs, pod: &Pod, message: String, now: Timestamp) -> Cause {
    let mut found = by_rule(&[], PodCause::Probe, message);
    let container = facts::container_in(&found.cause).unwrap_or_default();
    let is_startup = found.cause.contains("startup probe");
    let runs_for = facts::started(pod, container).map(|started| seconds(now, started));
    let failing = facts::warnings(observed, pod, &["Unhealthy"]).next();
    let limit = if is_startup { LOADING } else { STARTED };
    found.code = if is_startup { "StartupProbe" } else { "ReadinessProbe" }.to_owned();
    if failing.is_some() && runs_for.is_some_and(|seconds| seconds > limit) {
        found.weight = Weight::Blocks;
    }
    found.remedy = match is_startup {
        true => "wait until the model is loaded; if it takes longer than the probe allows, raise its failureThreshold",
        false => "look at the log of the container, and at path and port of its readiness probe",
    }
    .to_owned();
    found.evidence.extend(runs_for.map(|seconds| format!("the container has been running for {seconds} s")));
    found.evidence.extend(failing.map(|one| format!("event Unhealthy: {}", one.message)));
    found
}
