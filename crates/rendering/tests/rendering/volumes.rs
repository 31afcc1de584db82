//! Shared memory, claims and the compilation cache.

use serde_json::{Value, json};

use crate::fixture::{component, json_of, main_of, merged, pod, spec, worker};

fn memory(size: &str) -> Value {
    json!({"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": size}})
}

#[test]
fn shared_memory_has_the_requested_size() {
    let table = [
        (json!({}), Some("8Gi")),
        (json!({"sharedMemorySize": "2Gi"}), Some("2Gi")),
        (json!({"sharedMemorySize": "0"}), None),
        (json!({"sharedMemorySize": "0Gi"}), None),
    ];
    for (size, expected) in table {
        let rendered = pod(&component(merged(spec("worker", json!({}), json!({})), size.clone())));
        let expected_volumes = expected.map_or(Value::Null, |size| json!([memory(size)]));
        assert_eq!(json_of(&rendered.volumes), expected_volumes, "{size}");
        assert_eq!(rendered.containers[0].volume_mounts.is_some(), expected.is_some(), "{size}");
    }
}

#[test]
fn shared_memory_takes_the_place_of_the_authors() {
    let volumes = json!({"volumes": [{"name": "shared-memory", "emptyDir": {}}, {"name": "dshm", "emptyDir": {}}]});
    let mounts = json!({"volumeMounts": [
        {"name": "dshm", "mountPath": "/dev/shm"}, {"name": "shared-memory", "mountPath": "/elsewhere"},
    ]});
    let rendered = pod(&worker(volumes, mounts));
    assert_eq!(json_of(&rendered.volumes), json!([memory("8Gi"), {"name": "dshm", "emptyDir": {}}]));
    let mounts = json_of(&rendered.containers[0].volume_mounts);
    assert_eq!(mounts, json!([{"name": "shared-memory", "mountPath": "/dev/shm"}]));
}

#[test]
fn volumes_follow_mains_mounts_and_a_mount_without_a_volume_is_a_claim() {
    let volumes = json!({"volumes": [
        {"name": "unused", "emptyDir": {}}, {"name": "scratch", "emptyDir": {}}, {"name": "cfg", "configMap": {"name": "c"}},
    ]});
    let mounts = json!({"volumeMounts": [
        {"name": "cfg", "mountPath": "/cfg"}, {"name": "models", "mountPath": "/m"}, {"name": "models", "mountPath": "/n"},
        {"name": "scratch", "mountPath": "/s"},
    ]});
    let rendered = pod(&worker(volumes, mounts));
    let names: Vec<_> = rendered.volumes.iter().flatten().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["cfg", "models", "scratch", "shared-memory", "unused"]);
    let claim = rendered.volumes.as_ref().unwrap()[1].persistent_volume_claim.as_ref().unwrap();
    assert_eq!(claim.claim_name, "models");
}

/// Each row: fields of the spec, fields of the main container, the mounts beside `/dev/shm`.
#[test]
fn the_compilation_cache_is_mounted_once() {
    let vllm = json!({"command": ["python3", "-m", "dynamo.vllm"]});
    let mount = |path: &str| json!({"name": "cache", "mountPath": path});
    let with = |mounts: Value| merged(vllm.clone(), json!({"volumeMounts": mounts}));
    let default = json!({"pvcName": "cache"});
    let table = [
        (default.clone(), vllm.clone(), vec![mount("/root/.cache/vllm")]),
        (json!({"pvcName": "cache", "mountPath": "/c"}), vllm.clone(), vec![mount("/c")]),
        (default.clone(), with(json!([mount("")])), vec![mount("/root/.cache/vllm")]),
        (default.clone(), with(json!([mount("/root/.cache/vllm"), mount("")])), vec![mount("/root/.cache/vllm")]),
        (default, with(json!([mount("/also")])), vec![mount("/also"), mount("/root/.cache/vllm")]),
    ];
    for (cache, main, expected) in table {
        let fields = merged(spec("worker", json!({}), main.clone()), json!({"compilationCache": cache}));
        let rendered = pod(&component(fields));
        let mut mounts = json_of(&rendered.containers[0].volume_mounts);
        mounts.as_array_mut().unwrap().retain(|mount| mount["name"] == "cache");
        assert_eq!(mounts, json!(expected), "{main}");
        let volumes = json_of(&rendered.volumes);
        assert_eq!(volumes[0], json!({"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}), "{main}");
        assert_eq!(volumes.as_array().unwrap().len(), 2, "cache and shared memory");
    }
}

#[test]
fn vllm_learns_where_its_cache_is_and_others_do_not() {
    let cache = json!({"compilationCache": {"pvcName": "cache", "mountPath": "/c"}});
    for (module, expected) in [("dynamo.vllm", Some("/c")), ("dynamo.sglang", None), ("dynamo.mocker", None)] {
        let main = json!({"command": ["python3", "-m", module]});
        let env = main_of(&component(merged(spec("worker", json!({}), main), cache.clone()))).env.unwrap();
        let root = env.iter().find(|e| e.name == "VLLM_CACHE_ROOT").and_then(|e| e.value.as_deref());
        assert_eq!(root, expected, "{module}");
    }
}
