//! The Job that profiles for a request.

use std::collections::BTreeMap;

use api_types::{annotations, env, labels, names, owner, v1beta1::DynamoGraphDeploymentRequest};
use k8s_openapi::{
    api::batch::v1::{Job, JobSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    config::{profiled_spec, profiler_config},
    of_json, overrides,
    overrides::{PROFILER, RELAY, mount},
};
use crate::{
    graph::plan::metadata,
    request::model::{RequestObserved, ValidRequest},
};

/// Folder of the profiler's output.
pub const OUTPUT_FOLDER: &str = "/data";
const OUTPUT: &str = "profiling-output";
const CACHE: &str = "model-cache";
const CONFIG: &str = "profiling-config";
const CONFIG_FOLDER: &str = "/config";
const CONFIG_FILE: &str = "disagg.yaml";
const USER: i64 = 1000;

/// Renders the Job, owned by the request.
pub fn render(request: &ValidRequest<'_>, observed: &RequestObserved) -> Job {
    // A profiler that fails once would fail again; one whose node is drained, or that is preempted, is started anew.
    let disrupted = json!([{ "type": "DisruptionTarget", "status": "True" }]);
    let mut spec: JobSpec = of_json(json!({
        "backoffLimit": 0,
        "podFailurePolicy": { "rules": [{ "action": "Ignore", "onPodConditions": disrupted }] },
        "template": { "spec": pod(request, observed) },
    }));
    if let Some(given) = &observed.request.spec.overrides {
        if let Some(job) = &given.profiling_job {
            overrides::lay_over(&mut spec, job);
        }
        if given.dgd.is_some() {
            overrides::add_override_tool(&mut spec, &observed.settings.args);
        }
    }
    Job { metadata: metadata_of(observed), spec: Some(spec), status: None }
}

fn metadata_of(observed: &RequestObserved) -> ObjectMeta {
    let labels = [
        (labels::APP, labels::PROFILER.to_owned()),
        (labels::REQUEST, names::label_value(&observed.name)),
        (labels::MODEL_MANAGED_BY, labels::OPERATOR.to_owned()),
    ];
    ObjectMeta {
        annotations: Some(BTreeMap::from([(annotations::PROFILED_SPEC.to_owned(), profiled_spec(&observed.spec))])),
        owner_references: Some(vec![owner::controller::<DynamoGraphDeploymentRequest>(&observed.name, &observed.uid)]),
        ..metadata(&observed.namespace, names::profiling_job(&observed.name), labels)
    }
}

fn pod(request: &ValidRequest<'_>, observed: &RequestObserved) -> Value {
    let claim = |volume: &str, name: &str, read_only: bool| {
        let source = json!({ "claimName": name, "readOnly": read_only.then_some(true) });
        json!({ "name": volume, "persistentVolumeClaim": source })
    };
    let mut volumes = vec![match request.output_claim.as_deref() {
        Some(name) => claim(OUTPUT, name, false),
        None => json!({ "name": OUTPUT, "emptyDir": {} }),
    }];
    if let Some(config) = &request.config_map {
        let file = json!({ "key": config.key, "path": CONFIG_FILE });
        volumes.push(json!({ "name": CONFIG, "configMap": { "name": config.name, "items": [file] } }));
    }
    if let Some((name, _)) = request.model_cache {
        volumes.push(claim(CACHE, name, true));
    }
    json!({
        "serviceAccountName": names::PROFILING_SERVICE_ACCOUNT,
        "restartPolicy": "Never",
        "securityContext": { "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER },
        "imagePullSecrets": [{ "name": "nvcr-imagepullsecret" }],
        "containers": [profiler(request, observed), relay(observed)],
        "volumes": volumes,
    })
}

fn profiler(request: &ValidRequest<'_>, observed: &RequestObserved) -> Value {
    let mut mounts = vec![mount(OUTPUT, OUTPUT_FOLDER, false)];
    mounts.extend(request.config_map.as_ref().map(|_| mount(CONFIG, CONFIG_FOLDER, true)));
    mounts.extend(request.model_cache.map(|(_, path)| mount(CACHE, path, true)));
    let config = profiler_config(&observed.spec, &request.hardware);
    json!({
        "name": PROFILER,
        "image": request.image,
        "command": ["python", "-m", "dynamo.profiler"],
        "args": ["--config", config, "--output-dir", OUTPUT_FOLDER],
        "workingDir": "/workspace",
        "env": environment(observed),
        "volumeMounts": mounts,
    })
}

/// By name, as the upstream operator has it.
fn environment(observed: &RequestObserved) -> Vec<Value> {
    let of_request =
        [(env::DGDR_NAME, &observed.name), (env::DGDR_NAMESPACE, &observed.namespace), (env::DGDR_UID, &observed.uid)];
    let infrastructure = observed.settings.infrastructure.iter().map(|(name, value)| (*name, value));
    let plain = of_request.into_iter().chain(infrastructure);
    let mut all: BTreeMap<_, _> = plain.map(|(name, value)| (name, json!({ "name": name, "value": value }))).collect();
    // Public models need none, and a pod waits for ever for a Secret that does not exist.
    let token = json!({ "secretKeyRef": { "name": "hf-token-secret", "key": "HF_TOKEN", "optional": true } });
    let name = env::HUGGING_FACE_HUB_TOKEN;
    all.insert(name, json!({ "name": name, "valueFrom": token }));
    all.into_values().collect()
}

fn relay(observed: &RequestObserved) -> Value {
    let args = &observed.settings.args;
    let flags = [
        "relay-output".to_owned(),
        format!("--folder={OUTPUT_FOLDER}"),
        format!("--request={}", observed.name),
        format!("--request-namespace={}", observed.namespace),
        format!("--request-uid={}", observed.uid),
    ];
    json!({
        "name": RELAY,
        "image": args.operator_image,
        "imagePullPolicy": args.operator_image_pull_policy,
        "command": ["/graph-controller"],
        "args": flags,
        "volumeMounts": [mount(OUTPUT, OUTPUT_FOLDER, true)],
    })
}

/// The fingerprint of the spec that a Job profiles for. The upstream operator leaves none.
pub fn profiled_for(job: &Job) -> Option<&str> {
    job.annotations().get(annotations::PROFILED_SPEC).map(String::as_str)
}
