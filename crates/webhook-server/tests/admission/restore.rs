//! Pods that start from a checkpoint.

use rendering::checkpoint::CheckpointStorage;
use serde_json::{Value, json};
use webhook_server::admission::{AdmissionPath, Answer, Facts, Features, Lookup, Operation, Request, lookups, review};

use crate::support::*;

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": "decode-", "namespace": "team",
            "labels": {
                "nvidia.com/dynamo-component": "decode", "nvidia.com/dynamo-namespace": "team-llama",
                "nvidia.com/selector": "llama-decode",
            },
            "annotations": {
                "nvidia.com/dynamo-checkpoint-restore-candidate": "true",
                "nvidia.com/dynamo-checkpoint-name": "warm",
                "nvidia.com/dynamo-checkpoint-startup-policy": "Immediate",
                "nvidia.com/snapshot-target-containers": "main",
                "nvidia.com/snapshot-restore-status.main": "failed",
            },
        },
        "spec": { "containers": [
            {
                "name": "main", "image": "vllm:1.5.0", "livenessProbe": { "httpGet": { "port": 1 }, "initialDelaySeconds": 9 },
                "resources": { "limits": { "nvidia.com/gpu": "1", "cpu": "4" } },
                "fieldOfTomorrow": true,
            },
            { "name": "side", "image": "side:1" },
        ] },
    })
}

fn checkpoint(phase: &str) -> Value {
    json!({
        "metadata": { "annotations": { "nvidia.com/snapshot-artifact-version": "3" } },
        "spec": { "identity": { "model": "m", "backendFramework": "vllm" }, "job": { "podTemplateSpec": {} } },
        "status": { "phase": phase, "checkpointID": "abc" },
    })
}

fn agents() -> Value {
    json!({ "items": [{ "spec": { "template": { "spec": {
        "containers": [{ "name": "agent", "volumeMounts": [{ "name": "checkpoints", "mountPath": "/images/" }] }],
        "volumes": [{ "name": "checkpoints", "persistentVolumeClaim": { "claimName": "images" } }],
    } } } }] })
}

fn warm() -> Lookup {
    Lookup::Checkpoint { namespace: "team".to_owned(), name: "warm".to_owned() }
}

fn of_team() -> Lookup {
    Lookup::SnapshotAgents { namespace: "team".to_owned() }
}

fn ready() -> Facts {
    let mut facts = facts_with(|features| features.checkpoint = true);
    facts.checkpoints.seccomp_profile = Some("profiles/block-iouring.json".to_owned());
    facts.found.insert(warm(), Ok(Some(checkpoint("Ready"))));
    facts.found.insert(of_team(), Ok(Some(agents())));
    facts
}

fn restored(pod: Value, facts: &Facts) -> Value {
    patched(AdmissionPath::RestorePod, &creation(pod), facts)
}

#[test]
fn candidates_become_restored_pods() {
    let pod = restored(pod(), &ready());
    let labels = &pod["metadata"]["labels"];
    assert_eq!(labels["nvidia.com/snapshot-is-restore-target"], "true");
    assert_eq!(labels["nvidia.com/snapshot-checkpoint-id"], "abc");
    let expected = json!({
        "nvidia.com/snapshot-artifact-version": "3",
        "nvidia.com/snapshot-target-containers": "main",
    });
    assert_eq!(pod["metadata"]["annotations"], expected);
    let spec = &pod["spec"];
    let profile = json!({ "type": "Localhost", "localhostProfile": "profiles/block-iouring.json" });
    assert_eq!(spec["securityContext"]["seccompProfile"], profile);
    let volumes = json!([
        { "name": "checkpoint-storage", "persistentVolumeClaim": { "claimName": "images" } },
        { "name": "snapshot-control", "emptyDir": {} },
    ]);
    assert_eq!(spec["volumes"], volumes);
    let main = &spec["containers"][0];
    let mounts = json!([
        { "name": "checkpoint-storage", "mountPath": "/images" },
        { "name": "snapshot-control", "mountPath": "/snapshot-control", "subPath": "main" },
    ]);
    assert_eq!(main["volumeMounts"], mounts);
    let env = json!([
        { "name": "DYN_SNAPSHOT_CONTROL_DIR", "value": "/snapshot-control" },
        { "name": "DYN_SNAPSHOT_RESTORE_STANDBY", "value": "1" },
    ]);
    assert_eq!(main["env"], env);
    let probe =
        json!({ "httpGet": { "port": 1 }, "periodSeconds": 1, "failureThreshold": 1800, "successThreshold": 1 });
    assert_eq!(main["startupProbe"], probe);
    assert_eq!(main["fieldOfTomorrow"], true);
    assert_eq!(spec["containers"][1], json!({ "name": "side", "image": "side:1" }));
}

/// Upstream: a LeaderWorkerSet selects its pods itself, and they were never restored for lack of the label of others.
#[test]
fn pods_of_leader_worker_sets_are_restored_like_all_others() {
    let of_set = edited(&pod(), |pod| {
        let labels = pod["metadata"]["labels"].as_object_mut().unwrap();
        labels.remove("nvidia.com/selector");
        labels.insert("leaderworkerset.sigs.k8s.io/name".to_owned(), json!("llama-decode-0"));
    });
    let labels = restored(of_set, &ready())["metadata"]["labels"].clone();
    assert_eq!(labels["nvidia.com/snapshot-is-restore-target"], "true");
    // A pod without a selector's labels is no pod of a component.
    let stray = edited(&pod(), |pod| pod["metadata"]["labels"]["nvidia.com/selector"] = json!(""));
    assert_eq!(review(AdmissionPath::RestorePod, &creation(stray), &ready()), Answer::admitted());
}

#[test]
fn a_restored_pod_without_probes_waits_for_a_file() {
    let bare = edited(&pod(), |p| p["spec"]["containers"][0]["livenessProbe"] = json!(null));
    let probe = restored(bare, &ready())["spec"]["containers"][0]["startupProbe"].clone();
    assert_eq!(probe["exec"]["command"], json!(["cat", "/snapshot-control/restore-complete"]));
}

#[test]
fn storage_may_be_named_by_the_installation() {
    let mut facts = ready();
    facts.found.remove(&of_team());
    facts.checkpoints.storage = Some(CheckpointStorage { claim: "mine".to_owned(), folder: "/ckpt".to_owned() });
    let pod = restored(pod(), &facts);
    assert_eq!(pod["metadata"]["annotations"]["nvidia.com/snapshot-storage-type"], "pvc");
    assert_eq!(pod["metadata"]["annotations"]["nvidia.com/snapshot-storage-base-path"], "/ckpt");
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "mine");
}

#[test]
fn shared_gpu_memory_is_restored_with_its_server() {
    let mut facts = ready();
    let sharing = edited(&checkpoint("Ready"), |c| {
        c["spec"]["gpuMemoryService"] = json!({ "enabled": true, "extraClientContainers": ["side", "gone"] });
    });
    facts.found.insert(warm(), Ok(Some(sharing)));
    let spec = restored(pod(), &facts)["spec"].clone();
    let server = &spec["initContainers"][0];
    assert_eq!(
        (&server["name"], &server["image"], &server["restartPolicy"]),
        (&json!("gms-server"), &json!("vllm:1.5.0"), &json!("Always"))
    );
    assert_eq!(spec["volumes"][2], json!({ "name": "gms-intrapod-control", "emptyDir": {} }));
    for user in [server, &spec["containers"][0], &spec["containers"][1]] {
        assert_eq!(user["resources"]["claims"], json!([{ "name": "intrapod-shared-gpu" }]));
        let mounts = user["volumeMounts"].as_array().unwrap();
        assert!(mounts.contains(&json!({ "name": "gms-intrapod-control", "mountPath": "/gms-intrapod-control" })));
        let env = user["env"].as_array().unwrap();
        assert!(env.contains(&json!({ "name": "GMS_SOCKET_DIR", "value": "/gms-intrapod-control" })));
    }
    assert_eq!(spec["containers"][0]["resources"]["limits"], json!({ "cpu": "4" }));
}

/// Whatever is wrong, the pod starts.
#[test]
fn pods_that_cannot_be_restored_start_from_nothing() {
    let (labels, annotations) = ("labels", "annotations");
    for (map, key, value, reported) in [
        (labels, "nvidia.com/snapshot-checkpoint-id", json!("x"), false),
        (labels, "nvidia.com/snapshot-is-checkpoint-source", json!("true"), false),
        (labels, "nvidia.com/selector", json!(null), false),
        (labels, "nvidia.com/dynamo-component", json!(""), false),
        (annotations, "nvidia.com/dynamo-checkpoint-restore-candidate", json!("yes"), false),
        (annotations, "nvidia.com/dynamo-checkpoint-name", json!(""), false),
        (annotations, "nvidia.com/dynamo-checkpoint-name", json!("other"), false),
        (annotations, "nvidia.com/snapshot-target-containers", json!("main,,side"), true),
        (annotations, "nvidia.com/snapshot-target-containers", json!("main,main"), true),
        (annotations, "nvidia.com/snapshot-target-containers", json!("engine"), true),
    ] {
        let pod = edited(&pod(), |p| p["metadata"][map][key] = value);
        let answer = review(AdmissionPath::RestorePod, &creation(pod.clone()), &ready());
        assert_eq!(warnings(&answer).len(), usize::from(reported), "{pod} {answer:?}");
        assert_eq!(patched(AdmissionPath::RestorePod, &creation(pod.clone()), &ready()), pod);
    }
}

#[test]
fn the_answer_depends_on_what_was_found() {
    let admits = |edit: &dyn Fn(&mut Facts), reported: bool| {
        let mut facts = ready();
        edit(&mut facts);
        let answer = review(AdmissionPath::RestorePod, &creation(pod()), &facts);
        let Answer::Allow { patch, warnings } = answer else { panic!("{answer:?}") };
        assert!(patch.is_empty());
        assert_eq!(warnings.len(), usize::from(reported), "{warnings:?}");
    };
    admits(&|facts| facts.features.checkpoint = false, false);
    admits(&|facts| drop(facts.found.insert(warm(), Ok(Some(checkpoint("Creating"))))), false);
    // What it kept is being removed.
    let going = edited(&checkpoint("Ready"), |c| c["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    admits(&|facts| drop(facts.found.insert(warm(), Ok(Some(going.clone())))), false);
    admits(&|facts| drop(facts.found.insert(warm(), Ok(None))), false);
    admits(&|facts| drop(facts.found.insert(warm(), Err("not allowed".to_owned()))), true);
    admits(&|facts| drop(facts.found.insert(of_team(), Ok(None))), true);
    admits(&|facts| drop(facts.found.insert(of_team(), Ok(Some(json!({ "items": [] }))))), true);
    let between = edited(&checkpoint("Ready"), |c| {
        c["spec"]["gpuMemoryService"] = json!({ "enabled": true, "mode": "interPod" })
    });
    admits(&|facts| drop(facts.found.insert(warm(), Ok(Some(between.clone())))), true);
}

fn on() -> Facts {
    Facts { features: Features { checkpoint: true, ..Features::default() }, ..Facts::default() }
}

#[test]
fn only_candidates_are_looked_up() {
    let named = |pod: Value| lookups(AdmissionPath::RestorePod, &creation(pod), &on());
    assert_eq!(named(pod()), [warm(), of_team()]);
    assert!(named(edited(&pod(), |p| p["metadata"]["annotations"] = json!({}))).is_empty());
    let without_namespace = edited(&pod(), |p| p["metadata"]["namespace"] = json!(null));
    let request = Request { namespace: "team".to_owned(), ..creation(without_namespace) };
    assert_eq!(lookups(AdmissionPath::RestorePod, &request, &on()), [warm(), of_team()]);
    assert!(
        lookups(AdmissionPath::RestorePod, &Request { operation: Operation::Update, ..creation(pod()) }, &on())
            .is_empty()
    );
    assert!(lookups(AdmissionPath::RestorePod, &creation(pod()), &Facts::default()).is_empty(), "checkpoints are off");
}

/// A request that no API server sends could name any object.
#[test]
fn only_names_in_the_namespace_of_the_request_are_looked_up() {
    let victim = edited(&pod(), |p| p["metadata"]["namespace"] = json!("victim"));
    let request = Request { namespace: "team".to_owned(), ..creation(victim) };
    assert_eq!(lookups(AdmissionPath::RestorePod, &request, &on()), [warm(), of_team()]);
    for name in ["..", "warm?watch=true", "../../victim/dynamocheckpoints/warm", "Warm", "warm/status"] {
        let named = edited(&pod(), |p| p["metadata"]["annotations"]["nvidia.com/dynamo-checkpoint-name"] = json!(name));
        assert!(lookups(AdmissionPath::RestorePod, &creation(named), &on()).is_empty(), "{name}");
    }
}
