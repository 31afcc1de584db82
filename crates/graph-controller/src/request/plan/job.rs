//! The Job that profiles for a request.

use std::collections::BTreeMap;

use api_types::{annotations, env, labels, names, owner, v1beta1::DynamoGraphDeploymentRequest};
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule},
        core::v1::{
            ConfigMapVolumeSource, Container, EmptyDirVolumeSource, EnvVar, EnvVarSource, KeyToPath,
            LocalObjectReference, PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec, PodTemplateSpec,
            SecretKeySelector, Volume,
        },
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::ResourceExt;

use super::{
    config::{profiled_spec, profiler_config},
    overrides,
    overrides::{PROFILER, RELAY, mount},
};
use crate::request::{model::RequestObserved, validate::ValidRequest};

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
    let spec = JobSpec {
        backoff_limit: Some(0),
        pod_failure_policy: Some(disruptions_are_no_failures()),
        template: PodTemplateSpec { metadata: None, spec: Some(pod(request, observed)) },
        ..JobSpec::default()
    };
    let mut job = Job { metadata: metadata(observed), spec: Some(spec), status: None };
    let given = observed.request.spec.overrides.as_ref();
    if let (Some(spec), Some(given)) = (&mut job.spec, given.and_then(|given| given.profiling_job.as_ref())) {
        overrides::lay_over(spec, given);
    }
    if let (Some(spec), Some(_)) = (&mut job.spec, given.and_then(|given| given.dgd.as_ref())) {
        overrides::add_override_tool(spec, &observed.settings.args);
    }
    job
}

/// A profiler that fails once would fail again; one whose node is drained, or that is preempted, is
/// started anew.
fn disruptions_are_no_failures() -> PodFailurePolicy {
    let disrupted = PodFailurePolicyOnPodConditionsPattern {
        type_: "DisruptionTarget".to_owned(),
        status: Some("True".to_owned()),
    };
    let rule = PodFailurePolicyRule {
        action: "Ignore".to_owned(),
        on_pod_conditions: Some(vec![disrupted]),
        ..PodFailurePolicyRule::default()
    };
    PodFailurePolicy { rules: vec![rule] }
}

fn metadata(observed: &RequestObserved) -> ObjectMeta {
    let labels = [
        (labels::APP, labels::PROFILER.to_owned()),
        (labels::REQUEST, names::label_value(&observed.name)),
        (labels::MODEL_MANAGED_BY, labels::OPERATOR.to_owned()),
    ];
    ObjectMeta {
        name: Some(names::profiling_job(&observed.name)),
        namespace: Some(observed.namespace.clone()),
        labels: Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        annotations: Some(BTreeMap::from([(annotations::PROFILED_SPEC.to_owned(), profiled_spec(&observed.spec))])),
        owner_references: Some(vec![owner::controller::<DynamoGraphDeploymentRequest>(&observed.name, &observed.uid)]),
        ..ObjectMeta::default()
    }
}

fn pod(request: &ValidRequest<'_>, observed: &RequestObserved) -> PodSpec {
    let claim = |name: &str, read_only: bool| PersistentVolumeClaimVolumeSource {
        claim_name: name.to_owned(),
        read_only: read_only.then_some(true),
    };
    let volume = |name: &str| Volume { name: name.to_owned(), ..Volume::default() };
    let output = match request.output_claim.as_deref() {
        Some(name) => Volume { persistent_volume_claim: Some(claim(name, false)), ..volume(OUTPUT) },
        None => Volume { empty_dir: Some(EmptyDirVolumeSource::default()), ..volume(OUTPUT) },
    };
    let mut volumes = vec![output];
    if let Some(config) = &request.config_map {
        let file = KeyToPath { key: config.key.clone(), path: CONFIG_FILE.to_owned(), mode: None };
        let source = ConfigMapVolumeSource {
            name: config.name.clone(),
            items: Some(vec![file]),
            ..ConfigMapVolumeSource::default()
        };
        volumes.push(Volume { config_map: Some(source), ..volume(CONFIG) });
    }
    if let Some((name, _)) = request.model_cache() {
        volumes.push(Volume { persistent_volume_claim: Some(claim(name, true)), ..volume(CACHE) });
    }
    PodSpec {
        service_account_name: Some(names::PROFILING_SERVICE_ACCOUNT.to_owned()),
        restart_policy: Some("Never".to_owned()),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            fs_group: Some(USER),
            ..PodSecurityContext::default()
        }),
        image_pull_secrets: Some(vec![LocalObjectReference { name: "nvcr-imagepullsecret".to_owned() }]),
        containers: vec![profiler(request, observed), relay(observed)],
        volumes: Some(volumes),
        ..PodSpec::default()
    }
}

fn profiler(request: &ValidRequest<'_>, observed: &RequestObserved) -> Container {
    let mut mounts = vec![mount(OUTPUT, OUTPUT_FOLDER, false)];
    mounts.extend(request.config_map.as_ref().map(|_| mount(CONFIG, CONFIG_FOLDER, true)));
    mounts.extend(request.model_cache().map(|(_, path)| mount(CACHE, path, true)));
    let config = profiler_config(&observed.spec, &request.hardware);
    let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    Container {
        name: PROFILER.to_owned(),
        image: Some(request.image.to_owned()),
        command: words(&["python", "-m", "dynamo.profiler"]),
        args: words(&["--config", &config, "--output-dir", OUTPUT_FOLDER]),
        working_dir: Some("/workspace".to_owned()),
        env: Some(environment(observed)),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

/// By name, as the upstream operator has it.
fn environment(observed: &RequestObserved) -> Vec<EnvVar> {
    let plain = |(name, value): (&str, String)| EnvVar { name: name.to_owned(), value: Some(value), value_from: None };
    let of_request = [
        (env::DGDR_NAME, observed.name.clone()),
        (env::DGDR_NAMESPACE, observed.namespace.clone()),
        (env::DGDR_UID, observed.uid.clone()),
    ];
    let mut all: Vec<EnvVar> =
        of_request.into_iter().chain(observed.settings.infrastructure.iter().cloned()).map(plain).collect();
    all.push(EnvVar {
        name: env::HUGGING_FACE_HUB_TOKEN.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: "hf-token-secret".to_owned(),
                key: "HF_TOKEN".to_owned(),
                // Public models need none, and a pod waits for ever for a Secret that does not exist.
                optional: Some(true),
            }),
            ..EnvVarSource::default()
        }),
    });
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn relay(observed: &RequestObserved) -> Container {
    let args = &observed.settings.args;
    let flags = [
        "relay-output".to_owned(),
        format!("--folder={OUTPUT_FOLDER}"),
        format!("--request={}", observed.name),
        format!("--request-namespace={}", observed.namespace),
        format!("--request-uid={}", observed.uid),
    ];
    Container {
        name: RELAY.to_owned(),
        image: Some(args.operator_image.clone()),
        image_pull_policy: Some(args.operator_image_pull_policy.clone()),
        command: Some(vec!["/graph-controller".to_owned()]),
        args: Some(flags.to_vec()),
        volume_mounts: Some(vec![mount(OUTPUT, OUTPUT_FOLDER, true)]),
        ..Container::default()
    }
}

/// The fingerprint of the spec that a Job profiles for. The upstream operator leaves none.
pub fn profiled_for(job: &Job) -> Option<&str> {
    job.annotations().get(annotations::PROFILED_SPEC).map(String::as_str)
}
