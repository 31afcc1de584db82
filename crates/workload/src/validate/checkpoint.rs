//! The checkpoint that a component starts from.

use super::{Invalid, Mistakes, SharedGpus};
use api_types::v1beta1::{CheckpointIdentity, CheckpointStartupPolicy, ComponentSpec, EngineMode, MAIN_CONTAINER};
use k8s_openapi::api::core::v1::PodSpec;

const FIELD: &str = "spec.experimental.checkpoint";

/// What a component says about its checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointUse<'a> {
    /// Name of the DynamoCheckpoint; `None` if there is none yet.
    pub reference: Option<&'a str>,
    /// What the checkpoint is of, where the component says that instead of a name.
    pub identity: Option<&'a CheckpointIdentity>,
    /// Whether pods wait for it.
    pub policy: CheckpointStartupPolicy,
    /// Container whose processes are restored.
    pub target: &'a str,
}

/// What the component says, `None` if it always starts cold.
///
/// # Errors
/// Every mistake.
pub(super) fn check<'a>(
    spec: &'a ComponentSpec,
    pod: &PodSpec,
    shared: Option<SharedGpus<'_>>,
) -> Result<Option<CheckpointUse<'a>>, Vec<Invalid>> {
    let experimental = spec.experimental.as_ref();
    let given = experimental.and_then(|experimental| experimental.checkpoint.as_ref());
    let Some(checkpoint) = given.filter(|checkpoint| checkpoint.enabled) else { return Ok(None) };
    let mut mistakes = Mistakes::default();
    if experimental.is_some_and(|experimental| experimental.failover.is_some()) {
        mistakes.push(invalid("", "", "cannot be combined with spec.experimental.failover", "remove one of the two"));
    }
    if shared.is_some_and(|shared| shared.mode == EngineMode::InterPod) {
        let problem = "cannot be combined with GPU memory that pods share";
        mistakes.push(invalid("", "", problem, "remove one of the two, or share the memory within a pod"));
    }
    let target = checkpoint.target_container_name.as_deref().unwrap_or(MAIN_CONTAINER);
    if pod.containers.iter().all(|container| container.name != target) {
        let problem = "names no container of spec.podTemplate.spec";
        mistakes.push(invalid(".targetContainerName", target, problem, "name the container that runs the engine"));
    }
    let mistakes = mistakes.into_inner();
    let reference = checkpoint.checkpoint_ref.as_deref().filter(|name| !name.is_empty());
    let identity = checkpoint.identity.as_ref().filter(|_| reference.is_none());
    let usage = CheckpointUse { reference, identity, policy: checkpoint.startup_policy, target };
    if mistakes.is_empty() { Ok(Some(usage)) } else { Err(mistakes) }
}

fn invalid(field: &str, value: &str, problem: &str, remedy: &str) -> Invalid {
    Invalid {
        field: format!("{FIELD}{field}"),
        value: value.to_owned(),
        problem: problem.to_owned(),
        remedy: remedy.to_owned(),
    }
}
