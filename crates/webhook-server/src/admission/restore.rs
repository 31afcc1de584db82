//! Pods that start from a checkpoint. Whatever is wrong, the pod is admitted as it is and starts from nothing: slower,
//! but it starts.

use std::collections::{BTreeMap, BTreeSet};

use api_types::{
    annotations, labels,
    typed::typed,
    v1alpha1::{AlphaEngineMode, DynamoCheckpoint},
};
use controller_kit::request::is_object_name;
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::PodSpec};
use rendering::checkpoint::{
    CheckpointStorage, RestoreSource, Start, checkpoint_id, restore_pod, share_gpu_memory, storage_of_agents,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Answer, Facts, Lookup, Operation, Request, field::FieldNode};

/// Returns the lookups for the restore of this pod; none for almost all pods.
pub(super) fn lookups(request: &Request, pod: &Value) -> Vec<Lookup> {
    let candidate = Candidate::of(request, pod).filter(|candidate| is_object_name(candidate.name));
    candidate.map(|candidate| vec![candidate.checkpoint(), candidate.agents()]).unwrap_or_default()
}

/// Answers for a pod.
pub(super) fn review(request: &Request, facts: &Facts) -> Answer {
    let Some(pod) = request.object.as_ref().filter(|_| facts.features.checkpoint) else { return Answer::admitted() };
    let Some(candidate) = Candidate::of(request, pod) else { return Answer::admitted() };
    match restored(pod, &candidate, facts) {
        Ok(Some(after)) => Answer::Allow { patch: json_patch::diff(pod, &after).0, warnings: Vec::new() },
        Ok(None) => Answer::admitted(),
        Err(reason) => {
            let warning = format!("the pod starts without its checkpoint {}: {reason}", candidate.name);
            Answer::Allow { patch: Vec::new(), warnings: vec![warning] }
        }
    }
}

/// A pod that may start from a checkpoint.
struct Candidate<'a> {
    namespace: &'a str,
    name: &'a str,
    targets: &'a str,
}

impl<'a> Candidate<'a> {
    fn of(request: &'a Request, pod: &'a Value) -> Option<Self> {
        if request.operation != Operation::Create {
            return None;
        }
        let metadata = FieldNode::root(pod).field("metadata");
        let label = |key| metadata.field("labels").key(key).text();
        let annotation = |key| metadata.field("annotations").key(key).text();
        let is_shaped = [labels::CHECKPOINT_ID, labels::CHECKPOINT_SOURCE].iter().any(|key| !label(key).is_empty());
        let is_selected = [labels::SELECTOR, labels::LEADER_WORKER_SET].iter().any(|key| !label(key).is_empty());
        let is_ours =
            is_selected && [labels::COMPONENT, labels::DYNAMO_NAMESPACE].iter().all(|key| !label(key).is_empty());
        let name = annotation(annotations::CHECKPOINT_NAME);
        let is_candidate = annotation(annotations::RESTORE_CANDIDATE) == labels::TRUE && !name.is_empty();
        let targets = annotation(annotations::SNAPSHOT_TARGETS);
        // The namespace that the API server has checked rights in, whatever the pod says.
        let namespace = request.namespace.as_str();
        (is_ours && is_candidate && !is_shaped).then_some(Self { namespace, name, targets })
    }

    fn checkpoint(&self) -> Lookup {
        Lookup::Checkpoint { namespace: self.namespace.to_owned(), name: self.name.to_owned() }
    }

    fn agents(&self) -> Lookup {
        Lookup::SnapshotAgents { namespace: self.namespace.to_owned() }
    }

    /// The containers to restore.
    fn containers(&self) -> Result<Vec<&'a str>, String> {
        let names: Vec<&str> = self.targets.split(',').map(str::trim).collect();
        let unique: BTreeSet<&str> = names.iter().copied().collect();
        if unique.contains("") || unique.len() < names.len() {
            return Err(format!("annotation {} does not name containers", annotations::SNAPSHOT_TARGETS));
        }
        Ok(names)
    }
}

/// The pod as it starts from its checkpoint; `None` if nothing can start from that.
fn restored(pod: &Value, candidate: &Candidate<'_>, facts: &Facts) -> Result<Option<Value>, String> {
    let found = facts.object(&candidate.checkpoint());
    let Some(object) = found.map_err(|reason| format!("it could not be read: {reason}"))? else { return Ok(None) };
    let checkpoint: DynamoCheckpoint = read(object)?;
    if !checkpoint.can_be_restored() {
        return Ok(None);
    }
    let targets = candidate.containers()?;
    let source = source(&checkpoint, candidate, facts)?;
    let mut after = pod.clone();
    say(&mut after, &source, &targets)?;
    shape(&mut after, &source, &targets, &checkpoint)?;
    Ok(Some(after))
}

fn source(checkpoint: &DynamoCheckpoint, candidate: &Candidate<'_>, facts: &Facts) -> Result<RestoreSource, String> {
    let service = checkpoint.spec.gpu_memory_service.as_ref().filter(|service| service.enabled);
    if service.is_some_and(|service| service.mode != AlphaEngineMode::IntraPod) {
        return Err("GPU memory that is shared between pods cannot be restored".to_owned());
    }
    let chosen = facts.checkpoints.storage.clone();
    let version = checkpoint.metadata.annotations.as_ref().and_then(|all| all.get(annotations::ARTIFACT_VERSION));
    Ok(RestoreSource {
        id: checkpoint_id(checkpoint),
        artifact_version: version.cloned().unwrap_or_default(),
        tells_storage: chosen.is_some(),
        storage: chosen.map_or_else(|| of_agents(facts, candidate), Ok)?,
        seccomp_profile: facts.checkpoints.seccomp_profile.clone(),
        shares_gpu_memory: service.is_some(),
    })
}

/// The storage that the agents of the pod's namespace have mounted.
fn of_agents(facts: &Facts, candidate: &Candidate<'_>) -> Result<CheckpointStorage, String> {
    let found = facts.object(&candidate.agents());
    let list = found.map_err(|reason| format!("the snapshot agents could not be read: {reason}"))?;
    let agents: Vec<DaemonSet> = list.map_or(Ok(Vec::new()), |list| read(&list["items"]))?;
    storage_of_agents(&agents)
        .ok_or_else(|| format!("no snapshot agent of namespace {} mounts storage for checkpoints", candidate.namespace))
}

/// Marks the pod as restored, in place of as a candidate.
fn say(pod: &mut Value, source: &RestoreSource, targets: &[&str]) -> Result<(), String> {
    let metadata = pod.get_mut("metadata").ok_or("the pod has no metadata")?;
    let restore = Start::Restored(Box::new(source.clone()));
    let mut pairs: BTreeMap<String, String> = read(&metadata["labels"])?;
    restore.label(&mut pairs);
    metadata["labels"] = json!(pairs);
    let mut pairs: BTreeMap<String, String> = read(&metadata["annotations"])?;
    restore.annotate(&mut pairs, &targets.join(","));
    metadata["annotations"] = json!(pairs);
    Ok(())
}

/// Gives the pod what a restore needs. Only what the restore changes is changed: types lack the fields of newer
/// Kubernetes releases, and must not lose them.
fn shape(
    pod: &mut Value,
    source: &RestoreSource,
    targets: &[&str],
    checkpoint: &DynamoCheckpoint,
) -> Result<(), String> {
    let before: PodSpec = read(&pod["spec"])?;
    if let Some(missing) = targets.iter().find(|target| before.containers.iter().all(|c| c.name != **target)) {
        return Err(format!("the pod has no container {missing}"));
    }
    let mut after = before.clone();
    restore_pod(&mut after, source, targets);
    let service = checkpoint.spec.gpu_memory_service.as_ref().filter(|service| service.enabled);
    let others = service.and_then(|service| service.extra_client_containers.as_deref()).unwrap_or_default();
    share_gpu_memory(&mut after, &others.iter().map(String::as_str).collect::<Vec<_>>());
    let difference = json_patch::diff(&json!(before), &json!(after));
    json_patch::patch(&mut pod["spec"], &difference).map_err(|error| error.to_string())
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    typed(value.clone()).map_err(|error| error.to_string())
}
