//! The Job whose pod is captured: it starts the engine, and an agent takes its processes when it is ready.

use api_types::{
    annotations, labels, names, quantity,
    v1alpha1::{DynamoCheckpoint, SharedMemory},
    violations::Violation,
};
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobSpec},
        core::v1::{Container, ExecAction, PodSpec, PodTemplateSpec, Probe},
    },
    apimachinery::pkg::api::resource::Quantity,
};

use super::{CheckpointStorage, FIRST_ARTIFACT, captured_pod, render_job, restore, restore::FOLDER};
use crate::{
    device_claims::{self, ContainerClaim},
    gpus,
    pod::{parts::find, volumes::mount_shared_memory},
    violation::keep_all,
};

const POD: &str = "spec.job.podTemplateSpec.spec";
/// Keeps the file by which several GPUs are captured together where the agent finds it.
const LAUNCH: &str = "\
set -eu
kept=$1
shift
: \"${CUDA_CHECKPOINT_JOB_FILE:?is not set; cuda-checkpoint --launch-job needs NVIDIA's driver 610 or later}\"
umask 077
cat -- \"$CUDA_CHECKPOINT_JOB_FILE\" >\"$kept\"
export CUDA_CHECKPOINT_JOB_FILE=\"$kept\"
exec \"$@\"";

/// Settings on which the Job depends in addition to the checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct CaptureSettings<'a> {
    /// Profile under which captured processes run; `None` for none.
    pub seccomp_profile: Option<&'a str>,
    /// Storage that an administrator chose; `None` leaves it to the agents.
    pub storage: Option<&'a CheckpointStorage>,
    /// GPUs that the captured container has through claims.
    pub claimed_gpus: u32,
}

/// Version of the artifact that a checkpoint specifies.
pub fn artifact_version(checkpoint: &DynamoCheckpoint) -> &str {
    let given = checkpoint.metadata.annotations.as_ref().and_then(|all| all.get(annotations::ARTIFACT_VERSION));
    given.map(|version| version.trim()).filter(|version| !version.is_empty()).unwrap_or(FIRST_ARTIFACT)
}

/// The Job of a checkpoint, without owner.
///
/// # Errors
/// Every violation of the checkpoint's user.
pub fn render_capture_job(
    checkpoint: &DynamoCheckpoint,
    id: &str,
    settings: CaptureSettings<'_>,
) -> Result<Job, Vec<Violation>> {
    let job = &checkpoint.spec.job;
    let target = job.target_container();
    check(checkpoint, settings)?;
    let mut template = job.pod_template_spec.clone();
    mark(&mut template, checkpoint, id, settings);
    let pod = template.spec.get_or_insert_default();
    share_memory(pod, target, job.shared_memory.as_ref());
    if let Some(storage) = settings.storage {
        restore::mount_storage(pod, target, storage);
    }
    pod.restart_policy = Some("Never".to_owned());
    restore::confine(pod, settings.seccomp_profile);
    restore::meet(pod, target);
    if let Some(container) = find(pod, target) {
        await_capture(container);
        if gpus::count(container.resources.as_ref()).unwrap_or(0) + settings.claimed_gpus > 1 {
            launch_together(container);
        }
    }
    let name = names::checkpoint_job(id, artifact_version(checkpoint));
    let spec = JobSpec { active_deadline_seconds: Some(job.deadline_seconds()), template, ..JobSpec::default() };
    Ok(render_job(checkpoint, name, id, spec))
}

fn check(checkpoint: &DynamoCheckpoint, settings: CaptureSettings<'_>) -> Result<(), Vec<Violation>> {
    let mut violations: Vec<Violation> = Vec::new();
    let target = checkpoint.spec.job.target_container();
    let pod = checkpoint.spec.job.pod_template_spec.spec.as_ref();
    match pod.and_then(|pod| pod.containers.iter().find(|container| container.name == target)) {
        None => {
            let problem = format!("holds no container named {target}");
            let remedy = "name the container whose processes are captured in spec.job.targetContainerName";
            violations.push(Violation::required(format!("{POD}.containers"), problem, remedy));
        }
        Some(container) => check_gpus(container, settings, &mut violations),
    }
    let size = checkpoint.spec.job.shared_memory.as_ref().and_then(|memory| memory.size.as_ref());
    if let Some(size) = size.filter(|size| quantity::nanos(&size.0).is_none_or(|size| size < 0)) {
        let remedy = "give a size such as 8Gi";
        violations.push(Violation::invalid("spec.job.sharedMemory.size", size.0.as_str(), "is no size", remedy));
    }
    keep_all(&mut violations, captured_pod::check_shared_gpu_memory(checkpoint));
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

fn check_gpus(container: &Container, settings: CaptureSettings<'_>, violations: &mut Vec<Violation>) {
    let at = format!("{POD}.containers[{}]", container.name);
    match gpus::count(container.resources.as_ref()) {
        Err(wrong) => violations.push(wrong.violation(&at)),
        Ok(count) if count + settings.claimed_gpus > 1 && container.command.iter().flatten().next().is_none() => {
            let problem = "is empty, and several GPUs are captured together by what starts the command";
            let remedy = "write the command that starts the engine";
            violations.push(Violation::required(format!("{at}.command"), problem, remedy));
        }
        Ok(_) => {}
    }
}

/// Says what the pod is for. The proxies of service meshes cannot be captured with it.
fn mark(template: &mut PodTemplateSpec, checkpoint: &DynamoCheckpoint, id: &str, settings: CaptureSettings<'_>) {
    let metadata = template.metadata.get_or_insert_default();
    let pod_labels = metadata.labels.get_or_insert_default();
    pod_labels.remove(labels::RESTORE_TARGET);
    let owner = checkpoint.metadata.name.clone().unwrap_or_default();
    pod_labels.insert(labels::SNAPSHOT_OWNER.to_owned(), owner);
    pod_labels.insert(labels::CHECKPOINT_SOURCE.to_owned(), labels::TRUE.to_owned());
    pod_labels.insert(labels::CHECKPOINT_ID.to_owned(), id.to_owned());
    let notes = metadata.annotations.get_or_insert_default();
    let mut note = |key: &str, value: &str| notes.insert(key.to_owned(), value.to_owned());
    note(annotations::LINKERD_INJECT, "disabled");
    note(annotations::ISTIO_INJECT, "false");
    note(annotations::ARTIFACT_VERSION, artifact_version(checkpoint));
    if let Some(storage) = settings.storage {
        note(annotations::SNAPSHOT_STORAGE_TYPE, "pvc");
        note(annotations::SNAPSHOT_STORAGE_PATH, &storage.folder);
    }
}

fn share_memory(pod: &mut PodSpec, target: &str, memory: Option<&SharedMemory>) {
    let given = memory.and_then(|memory| memory.size.as_ref());
    let given = given.filter(|size| quantity::nanos(&size.0).is_some_and(|size| size > 0)).cloned();
    let size = match memory.and_then(|memory| memory.disabled) {
        Some(true) => return,
        _ => given.unwrap_or_else(|| Quantity(crate::model::DEFAULT_SHARED_MEMORY.to_owned())),
    };
    if let Some(container) = pod.containers.iter_mut().find(|container| container.name == target) {
        mount_shared_memory(&mut pod.volumes, container, &size);
    }
}

/// The engine itself says when it can be captured; nothing may restart it before.
fn await_capture(container: &mut Container) {
    let command = vec!["cat".to_owned(), format!("{FOLDER}/ready-for-snapshot")];
    container.readiness_probe =
        Some(Probe { exec: Some(ExecAction { command: Some(command) }), period_seconds: Some(1), ..Probe::default() });
    container.liveness_probe = None;
    container.startup_probe = None;
}

/// Several GPUs are captured together if what starts the engine says so from the beginning.
fn launch_together(container: &mut Container) {
    let kept = format!("{FOLDER}/cuda-checkpoint-job");
    let before = ["--launch-job", "/bin/sh", "-c", LAUNCH, "capture", &kept].map(str::to_owned);
    let engine = container.command.take().into_iter().flatten().chain(container.args.take().into_iter().flatten());
    container.args = Some(before.into_iter().chain(engine).collect());
    container.command = Some(vec!["cuda-checkpoint".to_owned()]);
}

/// The claims through which the captured container may have GPUs.
pub fn claims_of(checkpoint: &DynamoCheckpoint) -> Vec<ContainerClaim> {
    let job = &checkpoint.spec.job;
    let Some(pod) = &job.pod_template_spec.spec else { return Vec::new() };
    let target = pod.containers.iter().find(|container| container.name == job.target_container());
    target.map(|container| device_claims::of(pod, container)).unwrap_or_default()
}
