//! Causes for which no node accepts a pod, where the scheduler's message is ambiguous, and causes of unbound
//! PersistentVolumeClaims.
//!
//! The scheduler's message contains one reason for each node, and most clusters have nodes that are not intended for
//! the pod: those of the control plane, or of other teams.

use k8s_openapi::api::core::v1::{
    NodeSelectorRequirement, NodeSelectorTerm, PersistentVolumeClaim, Pod, PodSpec, Taint,
};

use super::{
    model::{Cause, DiagnosisInputs, NodeFacts, ObjectName, Weight},
    rules,
    rules::SCHEDULING,
};

/// Codes of the scheduler's words of which several may be there at a time, whatever the cause is.
const OPEN: [&str; 4] = ["NodeSelector", "Taint", "NodesCordoned", "Unschedulable"];
/// Taint of nodes on which no pods of users run.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// Taints of nodes that are not ready.
const LOST: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Obstacle that prevents one node from accepting a pod, in the order of reporting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Hold {
    Pressure,
    Lost,
    Cordoned,
    Taint,
    ControlPlane,
}

/// Whether the nodes give more detail than the words from which a code follows.
pub fn is_open(code: &str) -> bool {
    OPEN.contains(&code)
}

/// Returns the obstacle on all nodes that a pod selects; none if one of them accepts the pod, or if the nodes are
/// unknown. Its chain is the node with the cause, if it is one.
pub fn of_pod(observed: &DiagnosisInputs, pod: &Pod) -> Option<Cause> {
    let (nodes, spec) = (observed.nodes.as_ref().filter(|nodes| !nodes.is_empty())?, pod.spec.as_ref()?);
    let by_code = |code| rules::by_code(SCHEDULING, code).unwrap_or_default();
    let selected: Vec<&NodeFacts> = nodes.iter().filter(|node| is_selected(spec, node)).collect();
    if selected.is_empty() {
        let cause = format!("none of {} nodes has the labels that the pod selects", nodes.len());
        return Some(Cause::new("NodeSelector", Weight::Blocks, Vec::new(), cause, by_code("NodeSelector")));
    }
    let held: Option<Vec<(Hold, &NodeFacts)>> = selected.iter().map(|node| Some((hold(spec, node)?, *node))).collect();
    let held = held?;
    let (first, node) = held.iter().min_by_key(|(hold, _)| *hold)?;
    let alike = || held.iter().filter(|(hold, _)| hold == first).map(|(_, node)| node.name.as_str());
    let names = alike().take(3).collect::<Vec<_>>().join(", ");
    let own = vec![ObjectName::new("Node", &node.name)];
    let (code, chain, cause, remedy) = match first {
        Hold::Pressure => {
            let cause = format!("node {} reports {}", node.name, node.pressures.join(", "));
            ("NodePressure", own, cause, rules::PRESSURE)
        }
        Hold::Lost => ("NodeLost", own, format!("node {} is not ready", node.name), rules::NODE),
        Hold::Cordoned => {
            let cause = format!("of the nodes that the pod selects, {} are cordoned: {names}", alike().count());
            ("NodesCordoned", Vec::new(), cause, by_code("NodesCordoned"))
        }
        Hold::Taint | Hold::ControlPlane => {
            let taints = node.taints.iter().filter(|taint| !is_tolerated(spec, taint));
            let taints = taints.map(|taint| taint.key.as_str()).collect::<Vec<_>>().join(", ");
            let cause = format!("of the nodes that the pod selects, {} have taints: {taints}", alike().count());
            ("Taint", Vec::new(), cause, by_code("Taint"))
        }
    };
    Some(Cause::new(code, Weight::Blocks, chain, cause, remedy))
}

fn hold(spec: &PodSpec, node: &NodeFacts) -> Option<Hold> {
    let open = || node.taints.iter().filter(|taint| taint.effect != "PreferNoSchedule" && !is_tolerated(spec, taint));
    if !node.pressures.is_empty() && open().any(|taint| taint.key.ends_with("-pressure")) {
        return Some(Hold::Pressure);
    }
    if open().any(|taint| LOST.contains(&taint.key.as_str())) {
        return Some(Hold::Lost);
    }
    if node.cordoned {
        return Some(Hold::Cordoned);
    }
    open().map(|taint| if taint.key == CONTROL_PLANE { Hold::ControlPlane } else { Hold::Taint }).max()
}

fn is_tolerated(spec: &PodSpec, taint: &Taint) -> bool {
    spec.tolerations.iter().flatten().any(|one| {
        let key = one.key.as_deref().is_none_or(|key| key.is_empty() || key == taint.key);
        let effect = one.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == taint.effect);
        let exists = one.operator.as_deref() == Some("Exists");
        key && effect && (exists || one.value.as_deref() == taint.value.as_deref())
    })
}

fn is_selected(spec: &PodSpec, node: &NodeFacts) -> bool {
    let has = |(key, value): (&String, &String)| node.labels.get(key) == Some(value);
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_ref());
    spec.node_selector.iter().flatten().all(has)
        && required.is_none_or(|required| required.node_selector_terms.iter().any(|term| fits(term, node)))
}

fn fits(term: &NodeSelectorTerm, node: &NodeFacts) -> bool {
    let label = |one: &NodeSelectorRequirement| is_met(one, node.labels.get(&one.key).map(String::as_str));
    let field = |one: &NodeSelectorRequirement| is_met(one, Some(node.name.as_str()));
    term.match_expressions.iter().flatten().all(label) && term.match_fields.iter().flatten().all(field)
}

fn is_met(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = || requirement.values.iter().flatten();
    let is_in = value.is_some_and(|value| values().any(|one| one == value));
    let number = |text: &str| text.parse::<i64>().ok();
    let pair = value.and_then(number).zip(values().next().and_then(|limit| number(limit)));
    match requirement.operator.as_str() {
        "In" => is_in,
        "NotIn" => !is_in,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => pair.is_some_and(|(value, limit)| value > limit),
        "Lt" => pair.is_some_and(|(value, limit)| value < limit),
        _ => false,
    }
}

/// The first claim of a pod that cannot be used; it is the chain of the cause.
pub fn claims_of_pod(observed: &DiagnosisInputs, pod: &Pod) -> Option<Cause> {
    names(pod).find_map(|name| of_claim(observed, name, observed.claims.get(name)?.as_ref()))
}

/// Names of the claims that a pod mounts.
pub fn names(pod: &Pod) -> impl Iterator<Item = &str> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.as_str()))
}

fn of_claim(observed: &DiagnosisInputs, name: &str, claim: Option<&PersistentVolumeClaim>) -> Option<Cause> {
    let found = |code, weight, cause: String, remedy| {
        Some(Cause::new(code, weight, vec![ObjectName::new("PersistentVolumeClaim", name)], cause, remedy))
    };
    let Some(claim) = claim else {
        let text = format!("PersistentVolumeClaim {name} does not exist");
        let remedy = "create the claim, or correct its name in the pod template";
        return found("ClaimMissing", Weight::Blocks, text, remedy);
    };
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    if phase == "Lost" {
        let text = format!("PersistentVolumeClaim {name} has lost its volume");
        return found("ClaimLost", Weight::Blocks, text, "restore the volume, or create the claim anew");
    }
    if claim.metadata.deletion_timestamp.is_some() {
        let text = format!("PersistentVolumeClaim {name} is being deleted");
        return found("ClaimDeleted", Weight::Blocks, text, "delete the pods that use it, and create it anew");
    }
    if phase == "Bound" {
        return None;
    }
    let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    if let Some(classes) = &observed.storage_classes {
        match class {
            Some(class) if !class.is_empty() && !classes.contains_key(class) => {
                let text = format!("PersistentVolumeClaim {name} is pending: StorageClass {class} does not exist");
                let remedy = "create the StorageClass, or create the claim anew with one that exists";
                return found("StorageClassMissing", Weight::Blocks, text, remedy);
            }
            None if !classes.values().any(|default| *default) => {
                let text = format!(
                    "PersistentVolumeClaim {name} is pending: it names no StorageClass, and the cluster has no \
                    default one"
                );
                let remedy = "name a storageClassName in the claim, or mark a StorageClass as the default one";
                return found("NoStorageClass", Weight::Blocks, text, remedy);
            }
            _ => {}
        }
    }
    let warnings = || observed.warnings.iter().filter(|one| one.kind == "PersistentVolumeClaim" && one.name == name);
    if let Some(warning) = warnings().next() {
        let text = format!("PersistentVolumeClaim {name} is pending: {}", warning.message);
        let remedy = "look at the provisioner of the storage class, and at the size and access modes of the claim";
        return found("ProvisioningFailed", Weight::Blocks, text, remedy);
    }
    let text = format!("PersistentVolumeClaim {name} is pending");
    let remedy = "wait for the provisioner of the storage class, or create a volume for it";
    found("ClaimPending", Weight::Waits, text, remedy)
}
