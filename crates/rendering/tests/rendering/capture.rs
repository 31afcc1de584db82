//! The Job whose pod is captured for a checkpoint.

use api_types::v1alpha1::DynamoCheckpoint;
use rendering::checkpoint::{CaptureSettings, CheckpointStorage, claims_of, render_capture_job};
use serde_json::{Value, json};

use crate::fixture::json_of;

const NONE: CaptureSettings<'_> = CaptureSettings { seccomp_profile: None, storage: None, claimed_gpus: 0 };

fn checkpoint(job: Value, service: Value) -> DynamoCheckpoint {
    serde_json::from_value(json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoCheckpoint",
        "metadata": {"name": "c", "namespace": "ns", "annotations": {"nvidia.com/snapshot-artifact-version": "2"}},
        "spec": {"identity": {"model": "m", "backendFramework": "vllm"}, "gpuMemoryService": service, "job": job},
    }))
    .unwrap()
}

fn pod(main: Value) -> Value {
    let mut container = json!({"name": "main", "image": "i", "command": ["engine"], "args": ["-x"],
        "livenessProbe": {}, "startupProbe": {}});
    container.as_object_mut().unwrap().extend(main.as_object().unwrap().clone());
    json!({"podTemplateSpec": {
        "metadata": {"labels": {"own": "1", "nvidia.com/snapshot-is-restore-target": "true"}},
        "spec": {"containers": [container, {"name": "side", "image": "s"}]},
    }})
}

fn rendered(checkpoint: &DynamoCheckpoint, settings: CaptureSettings<'_>) -> Value {
    json_of(&render_capture_job(checkpoint, "0123", settings).unwrap())
}

#[test]
fn the_pod_says_what_it_is_for_and_waits_to_be_captured() {
    let storage = CheckpointStorage { claim: "claim".to_owned(), folder: "/checkpoints".to_owned() };
    let settings = CaptureSettings { seccomp_profile: Some("p.json"), storage: Some(&storage), claimed_gpus: 0 };
    let job = rendered(&checkpoint(pod(json!({})), Value::Null), settings);
    assert_eq!(job["metadata"]["name"], "checkpoint-job-0123-2");
    assert_eq!((&job["spec"]["backoffLimit"], &job["spec"]["activeDeadlineSeconds"]), (&json!(0), &json!(3600)));
    let metadata = &job["spec"]["template"]["metadata"];
    let labels = json!({"own": "1", "nvidia.com/snapshot-owner": "c", "nvidia.com/snapshot-checkpoint-id": "0123",
        "nvidia.com/snapshot-is-checkpoint-source": "true"});
    assert_eq!(metadata["labels"], labels);
    let annotations = json!({"linkerd.io/inject": "disabled", "sidecar.istio.io/inject": "false",
        "nvidia.com/snapshot-artifact-version": "2", "nvidia.com/snapshot-storage-type": "pvc",
        "nvidia.com/snapshot-storage-base-path": "/checkpoints"});
    assert_eq!(metadata["annotations"], annotations);
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["restartPolicy"], "Never");
    assert_eq!(pod["securityContext"]["seccompProfile"]["localhostProfile"], "p.json");
    let main = &pod["containers"][0];
    assert_eq!((&main["livenessProbe"], &main["startupProbe"]), (&Value::Null, &Value::Null));
    assert_eq!(main["readinessProbe"]["exec"]["command"], json!(["cat", "/snapshot-control/ready-for-snapshot"]));
    let mounted: Vec<&str> =
        main["volumeMounts"].as_array().unwrap().iter().map(|mount| mount["name"].as_str().unwrap()).collect();
    assert_eq!(mounted, ["shared-memory", "checkpoint-storage", "snapshot-control"]);
    assert_eq!(pod["containers"][1], json!({"name": "side", "image": "s"}));
}

#[test]
fn shared_memory_is_as_large_as_said() {
    let sizes = [
        (Value::Null, Some("8Gi")),
        (json!({"size": "2Gi"}), Some("2Gi")),
        (json!({"size": "0"}), Some("8Gi")),
        (json!({"disabled": true, "size": "2Gi"}), None),
    ];
    for (memory, size) in sizes {
        let mut job = pod(json!({}));
        job["sharedMemory"] = memory.clone();
        let rendered = rendered(&checkpoint(job, Value::Null), NONE);
        let limit = &rendered["spec"]["template"]["spec"]["volumes"][0]["emptyDir"]["sizeLimit"];
        assert_eq!(limit.as_str(), size, "{memory}");
    }
}

#[test]
fn several_gpus_are_captured_together() {
    let gpus = |count: &str| pod(json!({"resources": {"limits": {"nvidia.com/gpu": count}}}));
    let one = rendered(&checkpoint(gpus("1"), Value::Null), NONE);
    assert_eq!(one["spec"]["template"]["spec"]["containers"][0]["command"], json!(["engine"]));
    let claimed = CaptureSettings { claimed_gpus: 1, ..NONE };
    for job in
        [rendered(&checkpoint(gpus("2"), Value::Null), NONE), rendered(&checkpoint(gpus("1"), Value::Null), claimed)]
    {
        let main = &job["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(main["command"], json!(["cuda-checkpoint"]));
        let args = main["args"].as_array().unwrap();
        assert_eq!(
            (&args[0], &args[5..]),
            (
                &json!("--launch-job"),
                &json!(["/snapshot-control/cuda-checkpoint-job", "engine", "-x"]).as_array().unwrap()[..]
            )
        );
    }
}

/// The script as the shell runs it: the file is kept, and the engine gets its path.
#[test]
fn the_launch_file_is_kept_and_the_engine_becomes_the_process() {
    let gpus = pod(json!({"resources": {"limits": {"nvidia.com/gpu": "2"}}}));
    let job = rendered(&checkpoint(gpus, Value::Null), NONE);
    let args = job["spec"]["template"]["spec"]["containers"][0]["args"].clone();
    let script = args[3].as_str().unwrap();
    let folder = std::env::temp_dir().join(format!("capture-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (given, kept) = (folder.join("given"), folder.join("kept"));
    std::fs::write(&given, "job").unwrap();
    let shell = |file: Option<&std::path::Path>| {
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", script, "capture"]).arg(&kept).args(["sh", "-c", "cat \"$CUDA_CHECKPOINT_JOB_FILE\""]);
        command.env_remove("CUDA_CHECKPOINT_JOB_FILE").envs(file.map(|file| ("CUDA_CHECKPOINT_JOB_FILE", file)));
        command.output().unwrap()
    };
    let output = shell(Some(&given));
    assert_eq!((output.stdout.as_slice(), std::fs::read(&kept).unwrap().as_slice()), (&b"job"[..], &b"job"[..]));
    let output = shell(None);
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("610"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn each_violation_is_reported_with_its_field() {
    let lines = |checkpoint: &DynamoCheckpoint, claimed_gpus| -> Vec<String> {
        let settings = CaptureSettings { claimed_gpus, ..NONE };
        let violations = render_capture_job(checkpoint, "0123", settings).unwrap_err();
        violations.iter().map(ToString::to_string).collect()
    };
    let mut elsewhere = pod(json!({}));
    elsewhere["targetContainerName"] = json!("engine");
    let table = [
        (
            checkpoint(elsewhere, Value::Null),
            0,
            "spec.job.podTemplateSpec.spec.containers: holds no container named engine",
        ),
        (
            checkpoint(pod(json!({"resources": {"limits": {"nvidia.com/gpu": "500m"}}})), Value::Null),
            0,
            "spec.job.podTemplateSpec.spec.containers[main].resources.limits[nvidia.com/gpu] (\"500m\"): is no whole",
        ),
        (
            checkpoint(pod(json!({"command": []})), Value::Null),
            2,
            "spec.job.podTemplateSpec.spec.containers[main].command: is empty",
        ),
        (
            checkpoint(pod(json!({})), json!({"enabled": true, "mode": "interPod"})),
            0,
            "spec.gpuMemoryService.mode (\"interPod\"): is not served",
        ),
    ];
    for (checkpoint, claimed, start) in table {
        let lines = lines(&checkpoint, claimed);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert!(lines[0].starts_with(start), "{}", lines[0]);
    }
    let unprepared = lines(&checkpoint(pod(json!({})), json!({"enabled": true})), 0);
    assert_eq!(unprepared.len(), 6, "claim, volume, three of the engine's, the server: {unprepared:#?}");
}

#[test]
fn the_claims_of_the_captured_container_are_found() {
    let mut job = pod(json!({"resources": {"claims": [{"name": "a"}, {"name": "gone"}]}}));
    job["podTemplateSpec"]["spec"]["resourceClaims"] =
        json!([{"name": "a", "resourceClaimTemplateName": "t"}, {"name": "b", "resourceClaimName": "c"}]);
    let claims = claims_of(&checkpoint(job, Value::Null));
    assert_eq!(format!("{claims:?}"), r#"[ContainerClaim { source: Template("t"), request: None }]"#);
}
