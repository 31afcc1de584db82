//! Pods that start from a checkpoint.

use api_types::v1beta1::DynamoComponentDeployment;
use rendering::checkpoint::{CheckpointStorage, RestoreSource, Start, restore_pod};
use serde_json::{Value, json};

use crate::fixture::{Surroundings, component, json_of, merged, spec};

fn source() -> RestoreSource {
    RestoreSource {
        id: "4da999bc6c673b97".to_owned(),
        artifact_version: String::new(),
        storage: CheckpointStorage { claim: "checkpoints".to_owned(), folder: "/checkpoints".to_owned() },
        tells_storage: true,
        seccomp_profile: Some("profiles/block-iouring.json".to_owned()),
        shares_gpu_memory: false,
    }
}

fn starting(restore: Option<Start>) -> Surroundings {
    Surroundings { restore, ..Surroundings::default() }
}

fn worker(pod: Value, main: Value, metadata: Value) -> DynamoComponentDeployment {
    let mut spec = merged(spec("worker", pod, main), json!({"experimental": {"checkpoint": {"enabled": true}}}));
    spec["podTemplate"]["metadata"] = metadata;
    component(spec)
}

#[test]
fn a_template_that_restores_says_from_what_and_waits_for_it() {
    let template = json_of(&starting(Some(Start::Restored(Box::new(source())))).template(&worker(
        json!({}),
        json!({}),
        json!({}),
    )));
    let labels = &template["metadata"]["labels"];
    assert_eq!(labels["nvidia.com/snapshot-is-restore-target"], "true");
    assert_eq!(labels["nvidia.com/snapshot-checkpoint-id"], "4da999bc6c673b97");
    let expected = json!({
        "nvidia.com/snapshot-artifact-version": "1", "nvidia.com/snapshot-target-containers": "main",
        "nvidia.com/snapshot-storage-type": "pvc", "nvidia.com/snapshot-storage-base-path": "/checkpoints",
    });
    assert_eq!(template["metadata"]["annotations"], expected);
    let pod = &template["spec"];
    let profile = json!({"type": "Localhost", "localhostProfile": "profiles/block-iouring.json"});
    assert_eq!(pod["securityContext"], json!({"fsGroup": 1000, "seccompProfile": profile}));
    let main = &pod["containers"][0];
    let mounts = json!([{"name": "shared-memory", "mountPath": "/dev/shm"},
        {"name": "checkpoint-storage", "mountPath": "/checkpoints"},
        {"name": "snapshot-control", "mountPath": "/snapshot-control", "subPath": "main"}]);
    assert_eq!(main["volumeMounts"], mounts);
    let volumes = pod["volumes"].as_array().unwrap();
    assert_eq!(
        volumes[1],
        json!({"name": "checkpoint-storage", "persistentVolumeClaim": {"claimName": "checkpoints"}})
    );
    assert_eq!(volumes[2], json!({"name": "snapshot-control", "emptyDir": {}}));
    let added = &main["env"].as_array().unwrap()[main["env"].as_array().unwrap().len() - 2..];
    let expected = [
        json!({"name": "DYN_SNAPSHOT_CONTROL_DIR", "value": "/snapshot-control"}),
        json!({"name": "DYN_SNAPSHOT_RESTORE_STANDBY", "value": "1"}),
    ];
    assert_eq!(added, expected);
    assert_eq!(main["readinessProbe"]["periodSeconds"], 1);
    let startup = json!({"httpGet": {"path": "/live", "port": "system"}, "periodSeconds": 1, "timeoutSeconds": 5,
        "failureThreshold": 1800, "successThreshold": 1});
    assert_eq!(main["startupProbe"], startup);
}

#[test]
fn a_candidate_is_marked_and_otherwise_starts_cold() {
    let component = worker(json!({}), json!({}), json!({}));
    let cold = json_of(&starting(None).template(&component));
    let candidate = json_of(&starting(Some(Start::AtAdmission("ckpt".to_owned()))).template(&component));
    assert_eq!(candidate["spec"], cold["spec"], "its readiness rolls no pod");
    assert_eq!(candidate["metadata"]["labels"], cold["metadata"]["labels"]);
    let expected = json!({
        "nvidia.com/dynamo-checkpoint-restore-candidate": "true", "nvidia.com/dynamo-checkpoint-name": "ckpt",
        "nvidia.com/dynamo-checkpoint-startup-policy": "Immediate", "nvidia.com/snapshot-target-containers": "main",
    });
    assert_eq!(candidate["metadata"]["annotations"], expected);
}

#[test]
fn marks_of_a_restore_are_set_by_the_operator_alone() {
    let metadata = json!({
        "labels": {"nvidia.com/snapshot-checkpoint-id": "lie", "nvidia.com/snapshot-is-checkpoint-source": "true"},
        "annotations": {"nvidia.com/snapshot-restore-status.main": "completed", "own": "1",
            "nvidia.com/dynamo-checkpoint-name": "lie"},
    });
    let template = json_of(&starting(None).template(&worker(json!({}), json!({}), metadata)));
    assert_eq!(template["metadata"]["annotations"], json!({"own": "1"}));
    assert!(!template["metadata"]["labels"].to_string().contains("snapshot"));
}

#[test]
fn restoring_twice_is_restoring_once_and_keeps_what_the_author_has() {
    let main = json!({
        "env": [{"name": "DYN_SNAPSHOT_RESTORE_STANDBY", "valueFrom": {"fieldRef": {"fieldPath": "x"}}},
            {"name": "DYN_SNAPSHOT_CONTROL_DIR", "value": "/mine"}],
        "volumeMounts": [{"name": "snapshot-control", "mountPath": "/mine"}],
    });
    let volumes = json!({"volumes": [{"name": "snapshot-control", "hostPath": {"path": "/mine"}}]});
    let surroundings = starting(Some(Start::Restored(Box::new(source()))));
    let mut pod = surroundings.pod(&worker(volumes, main, json!({})));
    let once = pod.clone();
    restore_pod(&mut pod, &source(), &["main", "gone"]);
    assert_eq!(pod, once);
    let pod = json_of(&pod);
    assert_eq!(pod["volumes"][0]["hostPath"]["path"], "/mine");
    let env = pod["containers"][0]["env"].as_array().unwrap();
    let value = |name: &str| env.iter().find(|variable| variable["name"] == name).unwrap();
    assert_eq!(value("DYN_SNAPSHOT_CONTROL_DIR")["value"], "/mine");
    let standby = json!({"name": "DYN_SNAPSHOT_RESTORE_STANDBY", "value": "1"});
    assert_eq!(value("DYN_SNAPSHOT_RESTORE_STANDBY"), &standby);
}

#[test]
fn a_container_without_probes_is_probed_for_the_agents_sign() {
    let mut pod = serde_json::from_value(json!({"containers": [{"name": "engine", "image": "i"}]})).unwrap();
    let shared = RestoreSource { shares_gpu_memory: true, seccomp_profile: None, ..source() };
    restore_pod(&mut pod, &shared, &["engine"]);
    let pod = json_of(&pod);
    assert_eq!(
        pod["containers"][0]["startupProbe"]["exec"]["command"],
        json!(["cat", "/snapshot-control/restore-complete"])
    );
    assert_eq!(pod["initContainers"][0]["name"], "gms-server");
    assert_eq!(pod["containers"][0]["resources"], json!({"claims": [{"name": "intrapod-shared-gpu"}]}));
    assert_eq!(pod["securityContext"], Value::Null);
}
