//! Each violation of a user, with its field and on one line.

use api_types::v1beta1::DynamoComponentDeployment;
use rendering::validate;
use serde_json::{Value, json};

use crate::fixture::{component, merged, spec, worker};

fn lines(component: &DynamoComponentDeployment) -> Vec<String> {
    validate(component).map(|_| Vec::new()).unwrap_or_else(|all| all.iter().map(ToString::to_string).collect())
}

fn with(fields: Value) -> DynamoComponentDeployment {
    component(merged(spec("worker", json!({}), json!({})), fields))
}

fn annotated(key: &str, value: &str) -> DynamoComponentDeployment {
    let mut fields = spec("worker", json!({}), json!({}));
    fields["podTemplate"]["metadata"] = json!({"annotations": {key: value}});
    component(fields)
}

fn cached(cache: Value, pod: Value, main: Value) -> DynamoComponentDeployment {
    component(merged(spec("worker", pod, main), json!({"compilationCache": cache})))
}

/// Each row: a component with one violation, the field of it, and a word of what is said about it.
#[test]
fn one_violation_each() {
    let main = "spec.podTemplate.spec.containers[main]";
    let table: Vec<(DynamoComponentDeployment, String, &str)> = vec![
        (
            component(json!({"name": "w"})),
            "spec.podTemplate.spec.containers".into(),
            "add a container named main; name the image",
        ),
        (
            component(json!({"podTemplate": {"spec": {"containers": [{"name": "other", "image": "i"}]}}})),
            "spec.podTemplate.spec.containers".into(),
            "add a container named main; name the image",
        ),
        (worker(json!({}), json!({"image": ""})), format!("{main}.image"), "name the image that runs the component"),
        (
            worker(json!({}), json!({"volumeMounts": [{"name": "", "mountPath": "/a"}]})),
            format!("{main}.volumeMounts[0].name"),
            "is empty",
        ),
        (
            worker(json!({}), json!({"volumeMounts": [{"name": "a", "mountPath": ""}]})),
            format!("{main}.volumeMounts[0].mountPath"),
            "is empty",
        ),
        (
            worker(json!({}), json!({"resources": {"limits": {"nvidia.com/gpu": "one"}}})),
            format!("{main}.resources.limits[nvidia.com/gpu] (\"one\")"),
            "no quantity",
        ),
        (
            worker(json!({"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "-1"}}}]}), json!({})),
            "spec.podTemplate.spec.initContainers[i].resources.requests[cpu] (\"-1\")".into(),
            "is negative",
        ),
        (with(json!({"sharedMemorySize": "-1Gi"})), "spec.sharedMemorySize (\"-1Gi\")".into(), "is negative"),
        (with(json!({"sharedMemorySize": "8GB"})), "spec.sharedMemorySize (\"8GB\")".into(), "is no quantity"),
        (with(json!({"frontendSidecar": "api"})), "spec.frontendSidecar (\"api\")".into(), "names no container"),
        (with(json!({"frontendSidecar": "main"})), "spec.frontendSidecar (\"main\")".into(), "the component itself"),
        (
            with(json!({"experimental": {"checkpoint": {"enabled": true, "targetContainerName": "side"}}})),
            "spec.experimental.checkpoint.targetContainerName (\"side\")".into(),
            "names no container",
        ),
        (
            annotated("nvidia.com/deployment-rolling-update-max-surge", "many"),
            "spec.podTemplate.metadata.annotations[nvidia.com/deployment-rolling-update-max-surge] (\"many\")".into(),
            "neither a count nor a percentage",
        ),
        (
            annotated("nvidia.com/dynamo-discovery-backend", "consul"),
            "spec.podTemplate.metadata.annotations[nvidia.com/dynamo-discovery-backend] (\"consul\")".into(),
            "supported values: \"kubernetes\", \"etcd\"; leave the annotation out",
        ),
    ];
    one_line_each(table);
}

/// The same for the volume that keeps compiled kernels.
#[test]
fn one_violation_each_in_the_compilation_cache() {
    let cache = json!({"pvcName": "cache", "mountPath": "/c"});
    let at_c = |fields: Value| json!({"volumeMounts": [merged(json!({"mountPath": "/c"}), fields)]});
    let claim = |fields: Value| json!({"volumes": [{"name": "cache", "persistentVolumeClaim": fields}]});
    let table: Vec<(DynamoComponentDeployment, String, &str)> = vec![
        (cached(json!({"pvcName": ""}), json!({}), json!({})), "spec.compilationCache.pvcName".into(), "is empty"),
        (
            cached(json!({"pvcName": "cache"}), json!({}), json!({"args": ["python3 -m dynamo.sglang"]})),
            "spec.compilationCache.mountPath".into(),
            "no default",
        ),
        (
            cached(cache.clone(), json!({}), at_c(json!({"name": "other"}))),
            "spec.compilationCache.mountPath (\"/c\")".into(),
            "taken by volume other",
        ),
        (
            cached(cache.clone(), json!({}), at_c(json!({"name": "cache", "readOnly": true}))),
            "spec.compilationCache.mountPath (\"/c\")".into(),
            "read-only",
        ),
        (
            cached(cache.clone(), json!({"volumes": [{"name": "cache", "emptyDir": {}}]}), json!({})),
            "spec.compilationCache.pvcName (\"cache\")".into(),
            "no PersistentVolumeClaim",
        ),
        (
            cached(cache.clone(), claim(json!({"claimName": "x"})), json!({})),
            "spec.compilationCache.pvcName (\"cache\")".into(),
            "for the claim x",
        ),
        (
            cached(cache.clone(), claim(json!({"claimName": "cache", "readOnly": true})), json!({})),
            "spec.compilationCache.pvcName (\"cache\")".into(),
            "read-only volume",
        ),
        (
            cached(
                cache,
                json!({"volumes": [{"name": "cache", "emptyDir": {}}, {"name": "cache", "emptyDir": {}}]}),
                json!({}),
            ),
            "spec.compilationCache.pvcName (\"cache\")".into(),
            "several volumes",
        ),
    ];
    one_line_each(table);
}

/// The same for GPU memory that several processes share.
#[test]
fn one_violation_each_in_shared_gpus() {
    let service = "spec.experimental.gpuMemoryService";
    let sharing = |experimental: Value, main: Value| {
        let main = merged(json!({"command": ["python3", "-m", "dynamo.vllm"]}), main);
        component(merged(spec("worker", json!({}), main), json!({"experimental": experimental})))
    };
    let gpus = |count: &str| json!({"resources": {"limits": {"nvidia.com/gpu": count}}});
    let both = json!({"gpuMemoryService": {}, "failover": {}});
    let frontend = merged(spec("frontend", json!({}), gpus("1")), json!({"experimental": {"gpuMemoryService": {}}}));
    let table: Vec<(DynamoComponentDeployment, String, &str)> = vec![
        (component(frontend), service.into(), "worker, prefill or decode"),
        (sharing(both.clone(), json!({})), service.into(), "asks for none"),
        (
            sharing(both.clone(), gpus("1500m")),
            "spec.podTemplate.spec.containers[main].resources.limits[nvidia.com/gpu] (\"1500m\")".into(),
            "no whole number",
        ),
        (
            sharing(json!({"gpuMemoryService": {"extraClientContainers": ["main", "main"]}}), gpus("1")),
            format!("{service}.extraClientContainers[1] (\"main\")"),
            "twice",
        ),
        (
            sharing(json!({"gpuMemoryService": {"extraClientContainers": ["loader"]}}), gpus("1")),
            format!("{service}.extraClientContainers[0] (\"loader\")"),
            "names no container",
        ),
        (
            sharing(json!({"gpuMemoryService": {"mode": "InterPod"}}), gpus("1")),
            format!("{service}.mode (\"InterPod\")"),
            "needs Grove",
        ),
        (
            sharing(json!({"gpuMemoryService": {}, "failover": {}, "checkpoint": {"enabled": true}}), gpus("1")),
            "spec.experimental.checkpoint".into(),
            "do not cover engines with failover",
        ),
        (sharing(json!({"failover": {}}), gpus("1")), "spec.experimental.failover".into(), "needs the GPU memory"),
        (
            sharing(json!({"gpuMemoryService": {}, "failover": {"mode": "InterPod"}}), gpus("1")),
            "spec.experimental.failover.mode (\"InterPod\")".into(),
            "differs from",
        ),
        (
            sharing(both, merged(gpus("1"), json!({"command": ["python3", "-m", "dynamo.sglang"]}))),
            "spec.experimental.failover".into(),
            "for vLLM only, and the component runs sglang",
        ),
    ];
    one_line_each(table);
}

fn one_line_each(table: Vec<(DynamoComponentDeployment, String, &str)>) {
    for (component, field, word) in table {
        let lines = lines(&component);
        assert_eq!(lines.len(), 1, "{field}: {lines:?}");
        assert!(
            lines[0].starts_with(&format!("{field}: ")) && lines[0].contains(word),
            "{field}, {word}: {}",
            lines[0]
        );
    }
}

/// Type and framework of the spec, the command line, and the engine or the start of the complaint.
type FrameworkRow = (&'static str, Option<&'static str>, &'static str, Result<Option<&'static str>, &'static str>);

#[test]
fn frameworks_must_not_contradict_each_other() {
    let both = "python3 -m dynamo.vllm & python3 -m dynamo.sglang";
    let table: [FrameworkRow; 8] = [
        ("worker", None, "python3 -m dynamo.vllm", Ok(Some("vllm"))),
        ("worker", Some("vllm"), "./serve.sh", Ok(Some("vllm"))),
        ("worker", None, "./serve.sh", Ok(None)),
        ("frontend", Some("vllm"), "python3 -m dynamo.sglang", Ok(None)),
        ("decode", Some("trtllm"), "python3 -m dynamo.vllm", Err("spec.backendFramework (\"trtllm\"): contradicts")),
        ("worker", None, both, Err("spec.podTemplate.spec.containers[main].command")),
        ("worker", Some("sglang"), both, Ok(Some("sglang"))),
        ("prefill", Some("sglang"), "python3 -m dynamo.sglang", Ok(Some("sglang"))),
    ];
    for (component_type, explicit, line, expected) in table {
        let mut fields = spec(component_type, json!({}), json!({"command": ["/bin/sh", "-c"], "args": [line]}));
        if let Some(explicit) = explicit {
            fields["backendFramework"] = json!(explicit);
        }
        let component = component(fields);
        match (validate(&component), expected) {
            (Ok(valid), Ok(framework)) => assert_eq!(valid.framework.map(|f| f.as_str()), framework, "{line}"),
            (Err(violations), Err(start)) => assert!(violations[0].to_string().starts_with(start), "{}", violations[0]),
            (outcome, _) => panic!("{component_type} {explicit:?} {line}: {outcome:?}"),
        }
    }
}

#[test]
fn all_violations_are_reported_at_once_each_on_one_line() {
    let mut bad = component(json!({
        "type": "worker", "sharedMemorySize": "x\ny", "frontendSidecar": "none",
        "podTemplate": {"spec": {"containers": [{"name": "main", "volumeMounts": [{"name": "", "mountPath": ""}]}]}},
    }));
    bad.metadata.uid = None;
    let lines = lines(&bad);
    assert_eq!(lines.len(), 6, "{lines:#?}");
    assert!(lines.iter().all(|line| !line.contains('\n')), "{lines:#?}");
}
