//! Pods that start from a checkpoint, and the folder in which agent and engine meet.

use api_types::{annotations, env as names, labels};
use k8s_openapi::api::core::v1::{Container, ExecAction, PodSpec, Probe, SeccompProfile, VolumeMount};

use super::{CheckpointStorage, FIRST_ARTIFACT, RestoreSource, Start};
use crate::{
    metadata::Pairs,
    pod::{
        env, gpu_memory,
        parts::{add, find},
        volumes::{empty_dir, mount_of, of_claim},
    },
};

const PROBE_EVERY_SECONDS: i32 = 1;
const LONGEST_RESTORE_SECONDS: i32 = 1800;

/// Labels and annotations that an earlier restore may have left in a template; never the user's.
const OWNED_LABELS: [&str; 3] = [labels::CHECKPOINT_ID, labels::CHECKPOINT_SOURCE, labels::RESTORE_TARGET];
const OWNED_ANNOTATIONS: [&str; 7] = [
    annotations::ARTIFACT_VERSION,
    annotations::SNAPSHOT_TARGETS,
    annotations::SNAPSHOT_STORAGE_TYPE,
    annotations::SNAPSHOT_STORAGE_PATH,
    annotations::RESTORE_CANDIDATE,
    annotations::CHECKPOINT_NAME,
    annotations::CHECKPOINT_STARTUP_POLICY,
];

impl Start {
    /// Labels pods that start from a checkpoint, and takes such labels off all others.
    pub fn label(&self, pod_labels: &mut Pairs) {
        pod_labels.retain(|key, _| !OWNED_LABELS.contains(&key.as_str()));
        if let Self::Restored(source) = self {
            source.label(pod_labels);
        }
    }

    /// Annotates pods whose container `target` starts from a checkpoint, and takes such annotations off all others.
    pub fn annotate(&self, pod_annotations: &mut Pairs, target: &str) {
        pod_annotations.retain(|key, _| {
            !OWNED_ANNOTATIONS.contains(&key.as_str()) && !key.starts_with(annotations::RESTORE_PROGRESS_PREFIX)
        });
        match self {
            Self::Cold | Self::Awaited(_) => return,
            Self::AtAdmission(checkpoint) => {
                insert(pod_annotations, annotations::RESTORE_CANDIDATE, labels::TRUE);
                insert(pod_annotations, annotations::CHECKPOINT_NAME, checkpoint);
                insert(pod_annotations, annotations::CHECKPOINT_STARTUP_POLICY, "Immediate");
            }
            Self::Restored(source) => source.annotate(pod_annotations),
        }
        insert(pod_annotations, annotations::SNAPSHOT_TARGETS, target);
    }
}

impl RestoreSource {
    /// Labels a pod as one to be restored from this checkpoint.
    pub fn label(&self, pod_labels: &mut Pairs) {
        insert(pod_labels, labels::RESTORE_TARGET, labels::TRUE);
        insert(pod_labels, labels::CHECKPOINT_ID, &self.id);
    }

    /// Names the artifact that agents restore a pod from; another annotation names the containers.
    pub fn annotate(&self, pod_annotations: &mut Pairs) {
        let version = Some(self.artifact_version.trim()).filter(|version| !version.is_empty());
        insert(pod_annotations, annotations::ARTIFACT_VERSION, version.unwrap_or(FIRST_ARTIFACT));
        if self.tells_storage {
            insert(pod_annotations, annotations::SNAPSHOT_STORAGE_TYPE, "pvc");
            insert(pod_annotations, annotations::SNAPSHOT_STORAGE_PATH, &self.storage.folder);
        }
    }
}

/// Shapes a pod whose containers of these names start from a checkpoint. Names of containers that the pod does not have
/// are skipped. Doing it again changes nothing.
pub fn restore_pod(pod: &mut PodSpec, source: &RestoreSource, targets: &[&str]) {
    confine(pod, source.seccomp_profile.as_deref());
    for target in targets {
        if find(pod, target).is_none() {
            continue;
        }
        mount_storage(pod, target, &source.storage);
        meet(pod, target);
        if let Some(container) = find(pod, target) {
            env::set(container, env::value(names::DYN_SNAPSHOT_RESTORE_STANDBY, "1"));
            probe_restored(container);
        }
        if source.shares_gpu_memory {
            gpu_memory::join(pod, target);
        }
    }
}

/// Lets further containers of a restored pod use its GPU memory. Names of containers that the pod does not have are
/// skipped.
pub fn share_gpu_memory(pod: &mut PodSpec, containers: &[&str]) {
    for container in containers {
        if find(pod, container).is_some() {
            gpu_memory::join(pod, container);
        }
    }
}

/// A restored process serves within seconds, so it is probed every second, and given long until the first answer.
fn probe_restored(container: &mut Container) {
    let own = [&container.startup_probe, &container.liveness_probe, &container.readiness_probe];
    let own = own.into_iter().flatten().next().cloned();
    let probe = own.unwrap_or_else(|| Probe {
        exec: Some(ExecAction { command: Some(vec!["cat".to_owned(), format!("{FOLDER}/restore-complete")]) }),
        timeout_seconds: Some(1),
        ..Probe::default()
    });
    container.startup_probe = Some(Probe {
        initial_delay_seconds: None,
        period_seconds: Some(PROBE_EVERY_SECONDS),
        failure_threshold: Some(LONGEST_RESTORE_SECONDS),
        success_threshold: Some(1),
        ..probe
    });
    if let Some(readiness) = &mut container.readiness_probe {
        readiness.period_seconds = Some(PROBE_EVERY_SECONDS);
    }
}

fn insert(pairs: &mut Pairs, key: &str, value: &str) {
    pairs.insert(key.to_owned(), value.to_owned());
}

/// The folder, in every container that takes part.
pub(super) const FOLDER: &str = "/snapshot-control";

const CONTROL: &str = "snapshot-control";
const STORAGE: &str = "checkpoint-storage";

/// Lets agent and container meet; each container has a folder of its own. What the user has there stays.
pub(super) fn meet(pod: &mut PodSpec, container: &str) {
    add(&mut pod.volumes, empty_dir(CONTROL), |volume| volume.name == CONTROL);
    let Some(container) = find(pod, container) else { return };
    let mount = VolumeMount { sub_path: Some(container.name.clone()), ..mount_of(CONTROL, FOLDER) };
    add(&mut container.volume_mounts, mount, |mount| mount.name == CONTROL);
    let folder = env::value(names::DYN_SNAPSHOT_CONTROL_DIR, FOLDER);
    add(&mut container.env, folder, |variable| variable.name == names::DYN_SNAPSHOT_CONTROL_DIR);
}

/// Mounts the storage of checkpoints. What the user has under its name stays.
pub(super) fn mount_storage(pod: &mut PodSpec, container: &str, storage: &CheckpointStorage) {
    add(&mut pod.volumes, of_claim(STORAGE, &storage.claim), |volume| volume.name == STORAGE);
    if let Some(container) = find(pod, container) {
        add(&mut container.volume_mounts, mount_of(STORAGE, &storage.folder), |mount| mount.name == STORAGE);
    }
}

/// Runs the pod under a profile that keeps processes from what cannot be captured.
pub(super) fn confine(pod: &mut PodSpec, profile: Option<&str>) {
    let Some(profile) = profile else { return };
    pod.security_context.get_or_insert_default().seccomp_profile =
        Some(SeccompProfile { type_: "Localhost".to_owned(), localhost_profile: Some(profile.to_owned()) });
}
