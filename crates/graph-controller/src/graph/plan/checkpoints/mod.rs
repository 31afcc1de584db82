//! Checkpoints: which one the pods of each component start from, and those that the graph makes.
//!
//! A worker has one checkpoint for each revision; its identifier follows from the revision. Once made, only what says
//! whose it is and what becomes of it changes: its pod is captured once.

use std::collections::BTreeMap;

use api_types::{
    LEGACY_FINALIZER, annotations, conditions, labels, names,
    names::RevisionSuffix,
    v1alpha1::{
        AlphaEngineMode, AlphaGpuMemoryService, CheckpointJobSpec, CheckpointPhase, DynamoCheckpoint,
        DynamoCheckpointSpec,
    },
    v1beta1::{
        CheckpointDeletionPolicy, CheckpointIdentity, CheckpointStartupPolicy, ComponentSpec, DEFAULT_DEVICE_CLASS,
    },
};
use controller_kit::{conditions::is_true, store::controller_owner};
use k8s_openapi::{
    api::{core::v1::PodTemplateSpec, resource::v1::ResourceClaimTemplate},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::ResourceExt;
use rendering::{
    CheckpointUse, RenderInput, ValidatedComponent,
    checkpoint::{
        CapturedComponent, FIRST_ARTIFACT, Start, artifact_version, checkpoint_id, graph_checkpoint_id,
        render_captured_pod,
    },
    validate_on,
};

use super::add_graph_label;
use crate::graph::{
    merge::{PlannedFields, checkpoint_engine, component_deployment},
    model::{Capture, ComponentCheckpoint, DesiredCheckpoint, GraphObserved, ValidGraph},
};

/// The checkpoint of a component, if it has one.
pub fn of<'a>(all: &'a [ComponentCheckpoint], component: &str) -> Option<&'a ComponentCheckpoint> {
    all.iter().find(|checkpoint| checkpoint.component == component)
}

/// Replicas of a component whose pods wait: no new ones, and those that run go on.
pub fn held(live: Option<i32>, desired: i32) -> i32 {
    live.unwrap_or(0).clamp(0, desired.max(0))
}

/// Plans the checkpoints of all components. `revision` is the desired one of workers.
pub fn checkpoints(
    graph: &ValidGraph<'_>,
    observed: &GraphObserved,
    revision: Option<&RevisionSuffix>,
    origin_version: &str,
) -> Vec<ComponentCheckpoint> {
    if graph.settings.checkpoints.is_none() {
        return Vec::new();
    }
    let components = graph.spec.components.iter();
    components.filter_map(|declared| of_component(graph, observed, declared, revision, origin_version)).collect()
}

/// Checkpoints that the graph made and that nothing starts from any more. While checkpoints are switched off nothing is
/// known to be desired, and nothing is deleted: what they kept is there when they are switched on again.
pub fn stale(
    graph: &ValidGraph<'_>,
    observed: &GraphObserved,
    desired: &[ComponentCheckpoint],
) -> Vec<DynamoCheckpoint> {
    if graph.settings.checkpoints.is_none() {
        return Vec::new();
    }
    let ours = observed.checkpoints.all.iter().filter(|found| observed.is_owner(*found) && is_automatic(found));
    let in_use =
        |name: &String| desired.iter().any(|one| one.name == *name) || observed.checkpoints.in_use.contains(name);
    ours.filter(|found| found.metadata.deletion_timestamp.is_none() && !in_use(&found.name_any())).cloned().collect()
}

fn is_automatic(checkpoint: &DynamoCheckpoint) -> bool {
    checkpoint.annotations().get(annotations::AUTO_CHECKPOINT).is_some_and(|value| value == labels::TRUE)
}

fn of_component(
    graph: &ValidGraph<'_>,
    observed: &GraphObserved,
    declared: &ComponentSpec,
    revision: Option<&RevisionSuffix>,
    origin_version: &str,
) -> Option<ComponentCheckpoint> {
    let placement = PlannedFields { origin_version, ..PlannedFields::default() };
    let mut object = component_deployment(graph, declared, placement);
    object.metadata.uid = observed.graph.uid();
    let running = validate_on(graph.provider, &object).ok()?;
    let usage = running.checkpoint?;
    let policy = usage.policy;
    let checkpoint = |name: &str, live: Option<&DynamoCheckpoint>, missing| ComponentCheckpoint {
        component: declared.name.clone(),
        name: name.to_owned(),
        id: live.map(checkpoint_id),
        ready: live.is_some_and(DynamoCheckpoint::can_be_restored),
        awaited: awaited(policy, name, live),
        failed: live.is_some_and(|live| phase(live) == CheckpointPhase::Failed),
        capture: capture(policy, live, missing),
        desired: None,
    };
    if let Some(name) = usage.reference {
        return Some(checkpoint(name, observed.checkpoints.named(name), Capture::Lost));
    }
    let revision = revision.filter(|_| declared.is_worker());
    let live = existing(graph, observed, declared, revision);
    let id = live.map_or_else(|| new_id(graph, observed, declared, revision), checkpoint_id);
    let name = live.map_or_else(|| names::checkpoint(&id), ResourceExt::name_any);
    let made = Made { graph, observed, declared, running: &running, usage, revision, id: &id, name: &name, live };
    let desired = Some(made.render(origin_version)?);
    let mut found = checkpoint(&name, live, Capture::Idle);
    if live.is_none() {
        found.awaited = waits(policy).then(|| format!("DynamoCheckpoint {name}, which is being made"));
    }
    Some(ComponentCheckpoint { id: Some(id), desired, ..found })
}

fn waits(policy: CheckpointStartupPolicy) -> bool {
    policy == CheckpointStartupPolicy::WaitForCheckpoint
}

fn phase(checkpoint: &DynamoCheckpoint) -> CheckpointPhase {
    checkpoint.status.as_ref().and_then(|status| status.phase).unwrap_or(CheckpointPhase::Pending)
}

/// Returns the progress of a capture; `missing` if there is no checkpoint. Workers are removed in favor of a capture
/// that is reported as running, so the report must be certain: a checkpoint that is being deleted keeps its phase, and
/// one that has begun can be stalled.
fn capture(policy: CheckpointStartupPolicy, live: Option<&DynamoCheckpoint>, missing: Capture) -> Capture {
    if !waits(policy) {
        return Capture::Idle;
    }
    let Some(live) = live else { return missing };
    let stalled = live.status.as_ref().is_some_and(|status| is_true(&status.conditions, conditions::STALLED));
    match phase(live) {
        _ if live.metadata.deletion_timestamp.is_some() => Capture::Lost,
        CheckpointPhase::Ready => Capture::Done,
        CheckpointPhase::Failed => Capture::Lost,
        _ if stalled => Capture::Lost,
        CheckpointPhase::Creating => Capture::Running,
        CheckpointPhase::Pending => Capture::Idle,
    }
}

/// Returns the reason why pods wait. Without the checkpoint that the user names, no pod starts, under any policy.
fn awaited(policy: CheckpointStartupPolicy, name: &str, live: Option<&DynamoCheckpoint>) -> Option<String> {
    let Some(live) = live else { return Some(format!("DynamoCheckpoint {name}, which does not exist")) };
    if !waits(policy) || live.can_be_restored() {
        return None;
    }
    if live.metadata.deletion_timestamp.is_some() {
        return Some(format!("DynamoCheckpoint {name}, which is being deleted"));
    }
    let message = live.status.as_ref().and_then(|status| status.message.as_deref()).filter(|text| !text.is_empty());
    let message = message.map(|text| format!(": {text}")).unwrap_or_default();
    Some(format!("DynamoCheckpoint {name}, which is {:?}{message}", phase(live)))
}

/// The checkpoint that is there for this revision: that of the live component, whose pods may have started from it,
/// else one that says so. A graph that was deleted and applied again has another identifier, and its pods must not roll
/// for that.
fn existing<'a>(
    graph: &ValidGraph<'_>,
    observed: &'a GraphObserved,
    declared: &ComponentSpec,
    revision: Option<&RevisionSuffix>,
) -> Option<&'a DynamoCheckpoint> {
    let object = names::component_deployment(&graph.name, &declared.name, revision);
    let live = observed.present().find(|d| d.name_any() == object);
    let named = live.and_then(|d| d.spec.component.checkpoint()?.checkpoint_ref.as_deref());
    let ours = |found: &&DynamoCheckpoint| {
        let labelled = |key| found.labels().get(key).map(String::as_str);
        is_automatic(found)
            && (observed.is_owner(*found) || controller_owner(*found).is_none())
            && labelled(labels::COMPONENT) == Some(declared.name.as_str())
            && labelled(labels::WORKER_HASH) == revision.map(RevisionSuffix::as_str)
    };
    let of_name = |name: &str| observed.checkpoints.named(name).filter(ours);
    let left = |found: &&DynamoCheckpoint| {
        found.labels().get(labels::GRAPH) == Some(&graph.name)
            && found.metadata.deletion_timestamp.is_none()
            && (observed.is_owner(*found) || !is_retained(found))
    };
    let by_label = || {
        let all = observed.checkpoints.all.iter().filter(ours).filter(left);
        all.min_by_key(|found| (found.metadata.creation_timestamp.clone(), found.name_any()))
    };
    let formula = || of_name(&names::checkpoint(&new_id(graph, observed, declared, revision)));
    named.and_then(of_name).or_else(formula).or_else(by_label)
}

/// Returns whether a checkpoint is kept on purpose. Such a checkpoint has no owner, unless the user names it.
fn is_retained(checkpoint: &DynamoCheckpoint) -> bool {
    checkpoint.annotations().get(annotations::CHECKPOINT_DELETION_POLICY).is_some_and(|policy| policy == RETAIN)
}

const DELETE: &str = "Delete";
const RETAIN: &str = "Retain";

fn new_id(
    graph: &ValidGraph<'_>,
    observed: &GraphObserved,
    declared: &ComponentSpec,
    revision: Option<&RevisionSuffix>,
) -> String {
    let uid = observed.graph.uid().unwrap_or_default();
    graph_checkpoint_id(&graph.namespace, &graph.name, &uid, &declared.name, revision.map(RevisionSuffix::as_str))
}

/// A checkpoint that the graph makes.
struct Made<'a> {
    graph: &'a ValidGraph<'a>,
    observed: &'a GraphObserved,
    declared: &'a ComponentSpec,
    running: &'a ValidatedComponent<'a>,
    usage: CheckpointUse<'a>,
    revision: Option<&'a RevisionSuffix>,
    id: &'a str,
    name: &'a str,
    live: Option<&'a DynamoCheckpoint>,
}

impl Made<'_> {
    fn render(&self, origin_version: &str) -> Option<DesiredCheckpoint> {
        let goes_with_graph = self.declared.checkpoint()?.deletion_policy == CheckpointDeletionPolicy::Delete;
        let (template, mut claim) = self.captured_pod(origin_version)?;
        if let Some(claim) = &mut claim {
            add_graph_label(claim, self.graph);
        }
        let mut object = DynamoCheckpoint::new(self.name, self.spec(template)?);
        if let Some(live) = self.live {
            object.spec.clone_from(&live.spec);
        }
        object.metadata = ObjectMeta {
            name: Some(self.name.to_owned()),
            namespace: Some(self.graph.namespace.clone()),
            labels: Some(self.labels()),
            annotations: Some(self.annotations(goes_with_graph)),
            finalizers: Some(vec![LEGACY_FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        };
        Some(DesiredCheckpoint { object, goes_with_graph, claim })
    }

    fn spec(&self, template: PodTemplateSpec) -> Option<DynamoCheckpointSpec> {
        let (graph, declared) = (self.graph, self.declared);
        let extra = [
            ("dgdUID", self.observed.graph.uid().unwrap_or_default()),
            ("component", declared.name.clone()),
            ("checkpointID", self.id.to_owned()),
        ];
        Some(DynamoCheckpointSpec {
            identity: CheckpointIdentity {
                model: format!("{}/{}", graph.namespace, graph.name),
                backend_framework: checkpoint_engine(self.running, graph.framework)?,
                dynamo_version: None,
                tensor_parallel_size: 1,
                pipeline_parallel_size: 1,
                dtype: None,
                max_model_len: None,
                extra_parameters: Some(extra.map(|(key, value)| (key.to_owned(), value)).into()),
            },
            gpu_memory_service: self.gpu_memory_service(),
            job: CheckpointJobSpec {
                pod_template_spec: template,
                target_container_name: Some(self.usage.target.to_owned()),
                ..CheckpointJobSpec::default()
            },
        })
    }

    fn gpu_memory_service(&self) -> Option<AlphaGpuMemoryService> {
        let service = self.declared.gpu_memory_service()?;
        let class = Some(service.device_class_name.clone()).filter(|class| !class.is_empty());
        Some(AlphaGpuMemoryService {
            enabled: true,
            mode: AlphaEngineMode::IntraPod,
            device_class_name: class.unwrap_or_else(|| DEFAULT_DEVICE_CLASS.to_owned()),
            extra_client_containers: Some(self.usage.clients.to_vec()).filter(|clients| !clients.is_empty()),
            extra_client_pods: None,
        })
    }

    /// The component alone: without what other containers, pods and nodes are for.
    fn captured_pod(&self, origin_version: &str) -> Option<(PodTemplateSpec, Option<ResourceClaimTemplate>)> {
        let mut alone = self.declared.clone();
        (alone.experimental, alone.frontend_sidecar, alone.multinode) = (None, None, None);
        let mut alone =
            component_deployment(self.graph, &alone, PlannedFields { origin_version, ..PlannedFields::default() });
        alone.metadata.uid = self.observed.graph.uid();
        let alone = validate_on(self.graph.provider, &alone).ok()?;
        let input = RenderInput {
            settings: &self.graph.settings.pods,
            pull_secrets: &self.observed.grove.pull_secrets,
            fallback_service_account: None,
            legacy_type_is_worker: false,
            restore: &Start::Cold,
            // It runs alone, without the addresses of other nodes.
            claimed_gpus: 0,
        };
        let mut labels = self.labels();
        labels.remove(labels::CHECKPOINT_ID);
        let component =
            CapturedComponent { declared: self.declared, alone: &alone, running: self.running, id: self.id, labels };
        render_captured_pod(&input, &component)
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::from([
            (labels::CHECKPOINT_ID.to_owned(), self.id.to_owned()),
            (labels::GRAPH.to_owned(), self.graph.name.clone()),
            (labels::COMPONENT.to_owned(), self.declared.name.clone()),
        ]);
        all.extend(self.revision.map(|suffix| (labels::WORKER_HASH.to_owned(), suffix.to_string())));
        all
    }

    /// The version of the capture, set once at the beginning; another version is another capture.
    fn annotations(&self, goes_with_graph: bool) -> BTreeMap<String, String> {
        let version = self.live.map_or(FIRST_ARTIFACT, artifact_version);
        let policy = if goes_with_graph { DELETE } else { RETAIN };
        [
            (annotations::AUTO_CHECKPOINT, labels::TRUE),
            (annotations::CHECKPOINT_DELETION_POLICY, policy),
            (annotations::ARTIFACT_VERSION, version),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }
}

#[cfg(test)]
mod tests;
