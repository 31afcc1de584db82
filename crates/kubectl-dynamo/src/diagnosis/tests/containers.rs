//! Faults of what pods need before they run, of probes, and of containers that ended.

use serde_json::json;

use super::{
    Row,
    fixtures::{POD, ended, failed, init_ended, log, running, waiting, warn},
    row,
};
use crate::diagnosis::NodeFacts;

const AT_POD: &str = "Pod/chat-decode-a";

/// Rows for prerequisites of a pod, and for probes.
pub fn setup() -> Vec<Row> {
    vec![
        row(
            "Secret missing",
            |o| {
                waiting(o, "CreateContainerConfigError", "secret \"hf-token\" not found");
                o.secrets.insert("hf-token".to_owned(), false);
            },
            "SecretMissing",
            "Secret/hf-token",
            "create the Secret",
        ),
        row(
            "key of a Secret missing",
            |o| waiting(o, "CreateContainerConfigError", "couldn't find key token in Secret team/hf-token"),
            "SecretKeyMissing",
            AT_POD,
            "add the key",
        ),
        row(
            "ConfigMap missing",
            |o| {
                waiting(o, "ContainerCreating", "");
                warn(
                    o,
                    "Pod",
                    POD,
                    "FailedMount",
                    "MountVolume.SetUp failed for volume \"config\" : configmap \"engine-config\" not found",
                );
                o.config_maps.insert("engine-config".to_owned(), false);
            },
            "ConfigMapMissing",
            "ConfigMap/engine-config",
            "create the ConfigMap",
        ),
        row(
            "Secret missing before the kubelet says so",
            |o| {
                waiting(o, "ContainerCreating", "");
                o.secrets.insert("hf-token".to_owned(), false);
            },
            "SecretMissing",
            "Secret/hf-token",
            "create the Secret",
        ),
        row(
            "volume used by another node",
            |o| {
                waiting(o, "ContainerCreating", "");
                warn(
                    o,
                    "Pod",
                    POD,
                    "FailedAttachVolume",
                    "Multi-Attach error for volume \"pvc-1\" Volume is already used by pod(s) x",
                );
            },
            "VolumeInUse",
            AT_POD,
            "ReadWriteMany",
        ),
        row(
            "network of pods",
            |o| {
                waiting(o, "ContainerCreating", "");
                warn(
                    o,
                    "Pod",
                    POD,
                    "FailedCreatePodSandBox",
                    "Failed to create pod sandbox: plugin type=\"calico\" failed",
                );
            },
            "PodNetwork",
            AT_POD,
            "CNI",
        ),
    ]
}

/// Containers that cannot be started, and probes.
pub fn starts() -> Vec<Row> {
    vec![
        row(
            "image runs as root",
            |o| waiting(o, "CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
            "RunsAsRoot",
            AT_POD,
            "runAsUser",
        ),
        row(
            "command missing",
            |o| waiting(o, "RunContainerError", "exec: \"vllm\": executable file not found in $PATH"),
            "CommandMissing",
            AT_POD,
            "command and args",
        ),
        row(
            "GPU driver",
            |o| waiting(o, "RunContainerError", "nvidia-container-cli: initialization error: driver not loaded"),
            "GpuDriver",
            AT_POD,
            "driver",
        ),
        row(
            "startup probe fails for long",
            |o| {
                running(o, false);
                warn(o, "Pod", POD, "Unhealthy", "Startup probe failed: connection refused");
            },
            "StartupProbe",
            AT_POD,
            "failureThreshold",
        ),
        row(
            "readiness probe fails",
            |o| {
                running(o, true);
                warn(o, "Pod", POD, "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503");
            },
            "ReadinessProbe",
            AT_POD,
            "path and port",
        ),
        row(
            "readiness of one pod of two",
            |o| {
                let mut other = o.pods[1].clone();
                other.metadata.name = Some("chat-decode-b".to_owned());
                o.pods.push(other);
                running(o, true);
            },
            "ReadinessProbe",
            AT_POD,
            "log of the container",
        ),
    ]
}

/// Containers and pods that ended.
pub fn ends() -> Vec<Row> {
    vec![
        row(
            "crash with an exit code",
            |o| ended(o, json!({ "exitCode": 1, "reason": "Error" })),
            "CrashLoop",
            AT_POD,
            "kubectl logs chat-decode-a --container main --previous",
        ),
        row(
            "exceeded memory limit",
            |o| ended(o, json!({ "exitCode": 137, "reason": "OOMKilled" })),
            "OutOfMemory",
            AT_POD,
            "memory limit",
        ),
        row(
            "GPU memory exceeded",
            |o| {
                ended(o, json!({ "exitCode": 1 }));
                log(o, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB");
            },
            "GpuMemory",
            AT_POD,
            "GPU memory",
        ),
        row(
            "no login for the model",
            |o| {
                ended(o, json!({ "exitCode": 1 }));
                log(o, "OSError: You are trying to access a gated repo.");
            },
            "ModelLogin",
            AT_POD,
            "HF_TOKEN",
        ),
        row(
            "unknown argument in the message of the container",
            |o| ended(o, json!({ "exitCode": 2, "message": "error: unrecognized arguments: --foo" })),
            "ArgumentUnknown",
            AT_POD,
            "args",
        ),
        row(
            "image of another architecture",
            |o| ended(o, json!({ "exitCode": 255, "message": "exec /bin/sh: exec format error" })),
            "ImageArchitecture",
            AT_POD,
            "architecture",
        ),
        row(
            "GPU memory, named before the last line",
            |o| {
                ended(o, json!({ "exitCode": 1 }));
                let last = "RuntimeError: Engine core initialization failed. See root cause above.";
                log(o, &format!("INFO connected to NATS\nERROR CUDA out of memory. Tried to allocate 2 GiB\n{last}"));
            },
            "GpuMemory",
            AT_POD,
            "GPU memory",
        ),
        row(
            "words of a rule in a line that is no error",
            |o| {
                ended(o, json!({ "exitCode": 1 }));
                log(o, "INFO connected to NATS\nValueError: no available layout");
            },
            "CrashLoop",
            AT_POD,
            "--previous",
        ),
        row(
            "program that the runtime cannot start",
            |o| {
                let text = "failed to create containerd task: OCI runtime create failed: exec: \"pythn3\": executable file \
                            not found in $PATH";
                ended(o, json!({ "exitCode": 128, "reason": "StartError", "message": text }));
            },
            "CommandMissing",
            AT_POD,
            "correct command",
        ),
        row("program not in the image", |o| ended(o, json!({ "exitCode": 127 })), "CommandMissing", AT_POD, "command"),
        row(
            "liveness probe fails",
            |o| {
                ended(o, json!({ "exitCode": 137, "reason": "Error" }));
                warn(o, "Pod", POD, "Unhealthy", "Liveness probe failed: timeout");
            },
            "LivenessProbe",
            AT_POD,
            "liveness probe",
        ),
    ]
}

/// Pods that ended, and nodes.
pub fn pods() -> Vec<Row> {
    vec![
        row("init container", |o| init_ended(o, json!({ "exitCode": 3 })), "CrashLoop", AT_POD, "--container copy"),
        row(
            "evicted for disk",
            |o| failed(o, "Evicted", "The node was low on resource: ephemeral-storage."),
            "EvictedForDisk",
            AT_POD,
            "ephemeral-storage",
        ),
        row(
            "device plugin",
            |o| failed(o, "UnexpectedAdmissionError", "Allocate failed due to no healthy devices"),
            "DevicePlugin",
            AT_POD,
            "device plugin",
        ),
        row(
            "node lost",
            |o| {
                o.nodes = Some(vec![NodeFacts { name: "node-1".to_owned(), not_ready: true, ..NodeFacts::default() }]);
                o.pods.remove(0);
            },
            "NodeLost",
            "Node/node-1",
            "kubectl delete node",
        ),
        row(
            "readiness gate",
            |o| {
                let gate = json!({ "phase": "Running", "conditions": [
                    { "type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "message": "lb" },
                ] });
                o.pods[1].status = serde_json::from_value(gate).unwrap();
            },
            "ReadinessGate",
            AT_POD,
            "condition of the gate",
        ),
    ]
}
