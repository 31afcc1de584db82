//! Causes that the status of an object says.

use api_types::conditions::{self as c, component, graph, model};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{
    model::{Cause, DiagnosisInputs, ObjectName, Subject, Weight},
    rules,
    rules::REJECTIONS,
};
use crate::diagnosis;

/// Reasons of `Reconciling` that pods explain.
const OF_PODS: [&str; 11] = [
    component::CONTAINER_CONFIG,
    component::VOLUME_NOT_MOUNTED,
    component::IMAGE_PULL_FAILED,
    component::OUT_OF_MEMORY,
    component::CRASH_LOOP,
    component::POD_FAILED,
    component::UNSCHEDULABLE,
    component::PODS_REFUSED,
    component::PODS_STARTING,
    component::SCHEDULING_GATED,
    component::PROBE_NOT_PASSED,
];
/// Those of them that are normal while pods come up.
const EXPECTED: [&str; 3] = [component::PODS_STARTING, component::SCHEDULING_GATED, component::PROBE_NOT_PASSED];
/// Reasons of `Reconciling` that say only that work goes on.
const GOES_ON: [&str; 3] = [graph::PROGRESSING, graph::SETTLED, c::checkpoint::CAPTURING];
/// Types of conditions that keep nothing from being ready.
const HARMLESS: [&str; 2] = [c::SPEC_SERVED, component::NODES_JOINED];
/// Types that repeat others.
const REPEATED: [&str; 8] = [
    c::READY,
    c::RECONCILING,
    c::STALLED,
    c::AVAILABLE,
    c::COMPONENT_READY,
    model::ENDPOINTS_READY,
    c::request::SUCCEEDED,
    c::checkpoint::JOB_CREATED,
];

/// API groups of workloads that span nodes.
const MULTINODE: [&str; 2] = ["leaderworkerset.x-k8s.io", "grove.io"];

/// Causes of the status of the object and its components, except those that a deeper cause explains.
pub fn causes(observed: &DiagnosisInputs, deeper: &[Cause]) -> Vec<Cause> {
    let (root, groups) = (&observed.root, observed.groups.as_deref());
    let mut causes = Vec::new();
    for component in observed.components.iter().map(Subject::of_component).filter(|one| one.name != root.name) {
        let chain = diagnosis::to_component(observed, &component.name);
        causes.extend(of_subject(&component, &chain, deeper, groups));
    }
    for checkpoint in observed.checkpoints.iter().map(Subject::of_checkpoint).filter(|one| one.name != root.name) {
        let chain = vec![root.object(), checkpoint.object()];
        causes.extend(of_subject(&checkpoint, &chain, deeper, groups));
    }
    let own = of_subject(root, &[root.object()], deeper, groups);
    // A graph repeats what its components say.
    let is_new = |cause: &Cause| {
        !causes.iter().any(|other: &Cause| other.chain.len() > 1 && cause.cause.contains(other.cause.as_str()))
    };
    let own: Vec<_> = own.into_iter().filter(is_new).collect();
    causes.extend(own);
    causes
}

/// The cause of an object that is not ready, where nothing else shows one.
pub fn unexplained(observed: &DiagnosisInputs) -> Cause {
    let root = &observed.root;
    let (reason, message) = match root.condition(c::READY) {
        Some(ready) => (ready.reason.as_str(), ready.message.as_str()),
        None => ("Unobserved", "it has no status"),
    };
    let remedy = rules::by_reason(reason).unwrap_or("wait; the status changes when its children do");
    Cause::new(reason, Weight::Waits, vec![root.object()], message, remedy)
}

fn of_subject(subject: &Subject, chain: &[ObjectName], deeper: &[Cause], groups: Option<&[String]>) -> Vec<Cause> {
    let mut found: Vec<(&Condition, Weight)> = Vec::new();
    // The more specific conditions go first: Stalled may repeat their messages.
    for condition in subject.conditions.iter().filter(|one| one.status == "False") {
        let type_ = condition.type_.as_str();
        // A message on the way: what blocks it is in Stalled.
        let is_progress = condition.reason == "Pending" || condition.reason == graph::TOPOLOGY_PENDING;
        if REPEATED.contains(&type_) || is_progress {
            continue;
        }
        found.push((condition, if HARMLESS.contains(&type_) { Weight::Notice } else { Weight::Blocks }));
    }
    if let Some(stalled) = subject.condition(c::STALLED).filter(|stalled| stalled.status == "True") {
        found.push((stalled, Weight::Blocks));
    }
    let is_below = |cause: &&Cause| cause.chain.starts_with(chain) && cause.chain.len() > chain.len();
    found.retain(|(condition, _)| !deeper.iter().filter(is_below).any(|one| condition.message.contains(&one.cause)));
    let reconciling = subject.condition(c::RECONCILING).filter(|one| one.status == "True");
    if let Some(reconciling) = reconciling.filter(|one| GOES_ON.contains(&one.reason.as_str()))
        && let Some(rule) = rules::matching(REJECTIONS, &reconciling.message)
        && !deeper.iter().filter(is_below).any(|cause| cause.code == rule.code)
    {
        // What the API server rejects is tried again, which is work that goes on.
        found.push((reconciling, Weight::Blocks));
    }
    if let Some(reconciling) = reconciling.filter(|one| !GOES_ON.contains(&one.reason.as_str())) {
        let by_pods = OF_PODS.contains(&reconciling.reason.as_str());
        let explained = deeper.iter().any(|cause| is_below(&cause));
        let waits = EXPECTED.contains(&reconciling.reason.as_str())
            || [graph::IMAGE_AWAITED, model::NO_ENDPOINTS].contains(&reconciling.reason.as_str());
        if !(by_pods && explained) {
            found.push((reconciling, if waits { Weight::Waits } else { Weight::Blocks }));
        }
    }
    let mut causes: Vec<Cause> = Vec::new();
    for (condition, weight) in found {
        let said = |one: &Cause| {
            one.cause.contains(condition.message.as_str()) || condition.message.contains(one.cause.as_str())
        };
        if condition.message.is_empty() || !causes.iter().any(said) {
            let mut cause = cause(subject, condition, weight, chain);
            if condition.reason == graph::API_MISSING {
                cause.evidence.extend(groups.iter().flat_map(|groups| served(groups)));
            }
            causes.push(cause);
        }
    }
    causes
}

/// Reports for each API of multi-node replicas whether the cluster serves it.
fn served(groups: &[String]) -> impl Iterator<Item = String> {
    MULTINODE.into_iter().map(|group| {
        let known = groups.iter().any(|served| served == group);
        format!("the cluster serves {}{group}", if known { "" } else { "no " })
    })
}

fn cause(subject: &Subject, condition: &Condition, weight: Weight, chain: &[ObjectName]) -> Cause {
    let rejected = [graph::FORBIDDEN, c::WEBHOOK_UNAVAILABLE, component::PODS_REFUSED, graph::PROGRESSING]
        .contains(&condition.reason.as_str());
    let rule = rules::matching(REJECTIONS, &condition.message).filter(|_| rejected);
    // Which API is missing, the reason of Ready says.
    let exact = subject.condition(c::READY).filter(|_| condition.reason == graph::API_MISSING);
    let exact = exact.map(|ready| ready.reason.as_str());
    let remedy = rule.map(|rule| rule.remedy);
    let remedy = remedy.or_else(|| exact.and_then(rules::by_reason)).or_else(|| rules::by_reason(&condition.reason));
    let text = if condition.message.is_empty() { &condition.reason } else { &condition.message };
    let code = rule.map_or(condition.reason.as_str(), |rule| rule.code);
    let evidence = vec![format!("condition {} = {} of {}", condition.type_, condition.status, subject.object())];
    Cause { evidence, ..Cause::new(code, weight, chain.to_vec(), text, remedy.unwrap_or("follow the message")) }
}
