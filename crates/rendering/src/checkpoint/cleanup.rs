//! The Job that removes what a checkpoint kept.

use api_types::{labels, names, v1alpha1::DynamoCheckpoint};
use k8s_openapi::api::{
    batch::v1::{Job, JobSpec},
    core::v1::{Container, PodSpec},
};

use super::{CheckpointStorage, render_job, restore};
use crate::{
    metadata::{Pairs, pod_template},
    pod::env,
};

/// Image with a shell and `rm` where an administrator names none.
pub const DEFAULT_CLEANUP_IMAGE: &str = "busybox:1.36";

const CONTAINER: &str = "cleanup";
const FOLDER: &str = "CHECKPOINT_BASE_PATH";
const ID: &str = "CHECKPOINT_ID";
const DEADLINE_SECONDS: i64 = 300;
const KEEP_SECONDS: i32 = 300;
/// Removal command. The environment names the folder to remove, so that no part of a name is run as a command.
const REMOVE: &str = "rm -rf -- \"${CHECKPOINT_BASE_PATH%/}/${CHECKPOINT_ID:?}\"";

/// The Job that removes what a checkpoint kept, without owner; `None` if its identifier is not the name of a folder, so
/// that nothing was ever kept under it, or nothing that may be removed.
pub fn render_cleanup_job(
    checkpoint: &DynamoCheckpoint,
    id: &str,
    storage: &CheckpointStorage,
    image: &str,
) -> Option<Job> {
    if !is_folder_name(id) {
        return None;
    }
    let image = Some(image.trim()).filter(|image| !image.is_empty()).unwrap_or(DEFAULT_CLEANUP_IMAGE);
    let mut pod = PodSpec {
        restart_policy: Some("Never".to_owned()),
        containers: vec![Container {
            name: CONTAINER.to_owned(),
            image: Some(image.to_owned()),
            command: Some(vec!["/bin/sh".to_owned(), "-c".to_owned()]),
            args: Some(vec![REMOVE.to_owned()]),
            env: Some(vec![env::value(FOLDER, &storage.folder), env::value(ID, id)]),
            ..Container::default()
        }],
        ..PodSpec::default()
    };
    restore::mount_storage(&mut pod, CONTAINER, storage);
    let marks = Pairs::from([(labels::CHECKPOINT_ID.to_owned(), id.to_owned())]);
    let spec = JobSpec {
        active_deadline_seconds: Some(DEADLINE_SECONDS),
        ttl_seconds_after_finished: Some(KEEP_SECONDS),
        template: pod_template(marks, Pairs::new(), pod),
        ..JobSpec::default()
    };
    Some(render_job(checkpoint, names::checkpoint_cleanup_job(id), id, spec))
}

/// Whether an identifier can be the name of a folder below the storage's, and of nothing else.
fn is_folder_name(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !id.is_empty() && id.len() <= names::LABEL_MAX && id.chars().all(plain) && !id.starts_with('.')
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use serde_json::json;

    use super::*;

    fn job(id: &str, folder: &str) -> Option<Job> {
        let checkpoint = json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoCheckpoint",
            "metadata": {"name": "c", "namespace": "ns"},
            "spec": {"identity": {"model": "m", "backendFramework": "vllm"}, "job": {"podTemplateSpec": {}}}});
        let storage = CheckpointStorage { claim: "claim".to_owned(), folder: folder.to_owned() };
        render_cleanup_job(&serde_json::from_value(checkpoint).unwrap(), id, &storage, " ")
    }

    #[test]
    fn nothing_but_the_checkpoints_own_folder_can_be_named() {
        for id in ["", ".", "..", "../other", "a/b", ".hidden", "a b", "$(id)", &"x".repeat(64)] {
            assert_eq!(job(id, "/c"), None, "{id:?}");
        }
        assert!(job("Ab_c.1", "/c").is_some());
    }

    #[test]
    fn the_script_removes_the_folder_and_nothing_beside_it() {
        let folder = std::env::temp_dir().join(format!("cleanup-{}", std::process::id()));
        for name in ["mine/versions", "other"] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
        }
        let job = job("mine", folder.to_str().unwrap()).unwrap();
        let pod = job.spec.unwrap().template.spec.unwrap();
        let container = &pod.containers[0];
        let words: Vec<&String> = container.command.iter().flatten().chain(container.args.iter().flatten()).collect();
        let env = container.env.iter().flatten().map(|variable| (&variable.name, variable.value.as_ref().unwrap()));
        let status = Command::new(words[0]).args(&words[1..]).envs(env).status().unwrap();
        assert!(status.success());
        assert_eq!((folder.join("mine").exists(), folder.join("other").exists()), (false, true));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
