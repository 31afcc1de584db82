//! Renders the Job that builds an image. Pure.

use std::{collections::BTreeMap, iter::once, time::Duration};

use api_types::{
    annotations, labels, owner,
    typed::typed,
    v1alpha1::{BuildTimeout, DynamoComponent},
};
use controller_kit::{pull_secrets::DATA_KEY, settings::GoDuration};
use k8s_openapi::api::{batch::v1::Job, core::v1::EnvVar};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::settings::{BuildEngine, BuildSettings, Defaults, whole_seconds};

/// The container that builds.
pub const BUILDER: &str = "builder";
/// Exit code of a build that trying again does not help.
const BUILD_FAILED: i32 = 42;
/// Time for which an ended Job is kept, in seconds.
const KEPT: i32 = 86400;
const CONTEXT: &str = "/workspace/buildcontext";
const DOCKERFILE: &str = "/workspace/buildcontext/env/docker/Dockerfile";
const DOCKER_CONFIG: &str = "/docker-config/.docker";
const USER: i64 = 1000;
/// Volume and path of the layers of a daemon in the pod. A volume of the image is mounted without devices on some
/// nodes.
const LAYERS: (&str, &str) = ("buildkit", "/home/user/.local/share/buildkit");

/// Everything that a Job is rendered from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The component.
    pub component: &'a DynamoComponent,
    /// Name of the Job.
    pub name: &'a str,
    /// Namespace of both.
    pub namespace: &'a str,
    /// Name of the image.
    pub image: &'a str,
    /// Address of the archive.
    pub download: &'a str,
    /// ServiceAccount that administrators labelled for builds.
    pub account: Option<&'a str>,
    /// Defaults of all builds.
    pub defaults: &'a Defaults,
    /// The operator's settings.
    pub settings: &'a BuildSettings,
}

/// Docker configuration Secret for lookups and pushes of the image.
pub fn docker_secret<'a>(component: &'a DynamoComponent, settings: &'a BuildSettings) -> Option<&'a str> {
    let own = component.spec.docker_config_json_secret_name.as_deref().filter(|name| !name.is_empty());
    own.or(settings.secret.as_deref())
}

/// Whether nodes have an identity of their own that may push the image: at Google, where no Secret is named.
pub fn nodes_log_in(component: &DynamoComponent, image: &str, settings: &BuildSettings) -> bool {
    is_google(image) && docker_secret(component, settings).is_none()
}

/// Returns the time limit of a build, in whole seconds; none if the component does not specify one.
///
/// # Errors
/// If it cannot be read.
pub fn timeout(component: &DynamoComponent) -> Result<Option<i64>, String> {
    let wrong = |why: String| format!("spec.imageBuildTimeout: {why}; give for example 20m");
    let duration = match &component.spec.image_build_timeout {
        None => return Ok(None),
        Some(BuildTimeout::Text(text)) => text.parse::<GoDuration>().map_err(wrong)?.0,
        Some(BuildTimeout::Nanoseconds(count)) => {
            Duration::from_nanos(u64::try_from(*count).map_err(|_| wrong(format!("{count} is negative")))?)
        }
    };
    Ok(whole_seconds(duration))
}

/// Deadline of a build, in seconds. Every Job has one: a build that hangs would block others.
fn deadline(input: Input<'_>) -> Result<i64, String> {
    let most = input.settings.max_timeout.clone()?;
    timeout(input.component)?.map_or_else(|| input.settings.timeout.clone(), |own| Ok(own.min(most)))
}

/// Renders the Job.
///
/// # Errors
/// The violation in the spec or in the operator's settings.
pub fn render(input: Input<'_>) -> Result<Job, String> {
    // Nothing else would report a violation in the concurrency.
    input.settings.concurrency.clone()?;
    if input.settings.plain_login && docker_secret(input.component, input.settings).is_none() {
        return Err("DOCKER_REGISTRY_USERNAME and DOCKER_REGISTRY_PASSWORD are not used, because builds run in the \
                    namespaces of users; keep the login in a docker configuration Secret, name it in \
                    DOCKER_REGISTRY_SECRET_NAME, and unset them"
            .to_owned());
    }
    let pod = pod(input)?;
    let component = &input.component.metadata;
    let (name, uid) = (component.name.as_deref().unwrap_or_default(), component.uid.as_deref().unwrap_or_default());
    let on_exit_codes = json!({ "containerName": BUILDER, "operator": "In", "values": [BUILD_FAILED] });
    let job = json!({
        "metadata": {
            "name": input.name,
            "namespace": input.namespace,
            "labels": own_labels(input),
            "annotations": { annotations::BUILD_REQUEST: input.name },
            "ownerReferences": [owner::controller::<DynamoComponent>(name, uid)],
        },
        "spec": {
            "activeDeadlineSeconds": deadline(input)?,
            "completions": 1,
            "parallelism": 1,
            "ttlSecondsAfterFinished": KEPT,
            "podFailurePolicy": { "rules": [{ "action": "FailJob", "onExitCodes": on_exit_codes }] },
            "template": pod,
        },
    });
    typed(job).map_err(|error| error.to_string())
}

fn own_labels(input: Input<'_>) -> BTreeMap<String, String> {
    let name = input.component.metadata.name.as_deref().unwrap_or_default();
    BTreeMap::from([
        (labels::COMPONENT.to_owned(), api_types::names::label_value(name)),
        (labels::IMAGE_BUILDER.to_owned(), labels::TRUE.to_owned()),
    ])
}

fn pod(input: Input<'_>) -> Result<Value, String> {
    let (spec, defaults) = (&input.component.spec, input.defaults);
    let own = spec.image_builder_extra_pod_spec.clone().unwrap_or_default();
    let extra = spec.image_builder_extra_pod_metadata.clone().unwrap_or_default();
    let merged = |default: &Option<BTreeMap<String, String>>, own: Option<BTreeMap<String, String>>| {
        let mut all = default.clone().unwrap_or_default();
        all.extend(own.unwrap_or_default());
        all
    };
    let mut labels = merged(&defaults.metadata.labels, extra.labels);
    labels.extend(own_labels(input));
    let mut annotations = merged(&defaults.metadata.annotations, extra.annotations);
    annotations.insert(annotations::BUILD_POD_REQUEST.to_owned(), input.name.to_owned());
    if input.settings.engine == Ok(BuildEngine::BuildkitRootless) {
        annotations.insert(annotations::BUILDER_APPARMOR.to_owned(), "unconfined".to_owned());
    }
    let account = own.service_account_name.or_else(|| defaults.pod.service_account_name.clone());
    let account = account.or_else(|| input.account.map(str::to_owned)).unwrap_or_else(|| "default".to_owned());
    let affinity = own.affinity.or_else(|| defaults.pod.affinity.clone()).map(|affinity| json!(affinity));
    let spread = own.topology_spread_constraints.or_else(|| defaults.pod.topology_spread_constraints.clone());
    Ok(json!({
        "metadata": { "labels": labels, "annotations": annotations },
        "spec": {
            "restartPolicy": "Never",
            "securityContext": { "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER },
            "serviceAccountName": account,
            "schedulerName": own.scheduler_name.or_else(|| defaults.pod.scheduler_name.clone()),
            "nodeSelector": own.node_selector.or_else(|| defaults.pod.node_selector.clone()),
            "affinity": affinity.unwrap_or_else(|| near_earlier_builds(input)),
            "tolerations": own.tolerations.or_else(|| defaults.pod.tolerations.clone()),
            "topologySpreadConstraints": spread,
            "priorityClassName": own.priority_class_name.or_else(|| defaults.pod.priority_class_name.clone()),
            "volumes": volumes(input),
            "initContainers": init_containers(input),
            "containers": [builder(input)?],
        },
    }))
}

/// The node of an earlier build may still have its layers.
fn near_earlier_builds(input: Input<'_>) -> Value {
    let name = input.component.metadata.name.as_deref().unwrap_or_default();
    let selector = json!({ "matchLabels": { labels::COMPONENT: api_types::names::label_value(name) } });
    let term = json!({ "labelSelector": selector, "topologyKey": "kubernetes.io/hostname" });
    let preferred = json!([{ "weight": 100, "podAffinityTerm": term }]);
    json!({ "podAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": preferred } })
}

fn volumes(input: Input<'_>) -> Vec<Value> {
    let empty = |name: &str| json!({ "name": name, "emptyDir": {} });
    let config = match docker_secret(input.component, input.settings) {
        None => empty("docker-config"),
        Some(secret) => {
            let items = json!([{ "key": DATA_KEY, "path": "config.json" }]);
            json!({ "name": "docker-config", "secret": { "secretName": secret, "items": items } })
        }
    };
    let layers = has_own_daemon(input.settings).then(|| empty(LAYERS.0));
    [empty("dynamo"), empty("workspace"), config].into_iter().chain(layers).collect()
}

/// Whether the daemon that builds is in the pod.
fn has_own_daemon(settings: &BuildSettings) -> bool {
    settings.engine == Ok(BuildEngine::BuildkitRootless) && settings.buildkit_url.is_none()
}

fn mount((name, path): (&str, &str)) -> Value {
    json!({ "name": name, "mountPath": path })
}

fn mounts() -> Vec<Value> {
    let paths = [("dynamo", "/dynamo"), ("workspace", "/workspace"), ("docker-config", DOCKER_CONFIG)];
    paths.map(mount).into()
}

fn extra_env(input: Input<'_>) -> Vec<EnvVar> {
    let own = input.component.spec.image_builder_extra_container_env.clone().unwrap_or_default();
    let named = |name: &str| own.iter().any(|variable| variable.name == name);
    let defaults = input.defaults.env.iter().filter(|variable| !named(&variable.name)).cloned().collect::<Vec<_>>();
    defaults.into_iter().chain(own).collect()
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

fn init_containers(input: Input<'_>) -> Vec<Value> {
    let mut env = vec![variable("AWS_EC2_METADATA_DISABLED", "true")];
    env.extend(extra_env(input));
    let downloader = json!({
        "name": "dynamocomponent-downloader",
        "image": input.settings.downloader_image,
        "command": ["sh", "-c", download_script(input.download)],
        "env": env,
        "envFrom": input.component.spec.downloader_container_env_from,
        "resources": {
            "requests": { "cpu": "100m", "memory": "1000Mi" },
            "limits": { "cpu": "1000m", "memory": "3000Mi" },
        },
        "volumeMounts": mounts(),
    });
    let google = nodes_log_in(input.component, input.image, input.settings);
    let login = google.then(|| {
        json!({
            "name": "gcp-init-docker-config",
            "image": input.settings.google_image,
            "command": ["sh", "-c", google_script(input.image)],
            "env": Some(extra_env(input)).filter(|env| !env.is_empty()),
            "volumeMounts": mounts(),
        })
    });
    once(downloader).chain(login).collect()
}

/// Quotes one word of a shell command.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn download_script(url: &str) -> String {
    let (url, file) = (quoted(url), "/tmp/downloaded.tar");
    let fetch = match url.trim_start_matches('\'').split_once("://").map(|(scheme, _)| scheme) {
        Some("s3") => format!("aws s3 cp {url} {file}"),
        Some("gs") => format!("gsutil cp {url} {file}"),
        _ => format!("curl --fail -L {url} --output {file}"),
    };
    format!("set -e\nmkdir -p {CONTEXT}\n{fetch}\ncd {CONTEXT}\ntar -xf {file}\nrm {file}\n")
}

fn is_google(image: &str) -> bool {
    let host = image.split('/').next().unwrap_or_default();
    host == "gcr.io" || [".gcr.io", ".pkg.dev", ".google.com"].iter().any(|end| host.ends_with(end))
}

fn google_script(image: &str) -> String {
    let host = quoted(image.split('/').next().unwrap_or_default());
    format!(
        "set -e\ntoken=$(gcloud auth print-access-token)\nauth=$(printf 'oauth2accesstoken:%s' \"$token\" | base64 -w0)\n\
         printf '{{\"auths\":{{\"%s\":{{\"auth\":\"%s\"}}}}}}' {host} \"$auth\" > {DOCKER_CONFIG}/config.json\n"
    )
}

fn builder(input: Input<'_>) -> Result<Value, String> {
    let settings = input.settings;
    let engine = settings.engine.clone()?;
    let command = match engine {
        BuildEngine::Kaniko => kaniko(input),
        BuildEngine::Buildkit | BuildEngine::BuildkitRootless => buildkit(input)?,
    };
    let mut env = vec![variable("IFS", "''"), variable("DOCKER_CONFIG", DOCKER_CONFIG)];
    env.extend((engine == BuildEngine::Kaniko && settings.estargz).then(|| variable("GGCR_EXPERIMENT_ESTARGZ", "1")));
    let own_daemon = has_own_daemon(settings);
    // Processes of a build have no procfs of their own where no container may mount one.
    let sandbox = own_daemon.then_some("--oci-worker-no-process-sandbox");
    let stargz = (engine != BuildEngine::Kaniko && settings.estargz).then_some("--oci-worker-snapshotter=stargz");
    let flags: Vec<&str> = sandbox.into_iter().chain(stargz).collect();
    env.extend((!flags.is_empty()).then(|| variable("BUILDKITD_FLAGS", &flags.join(" "))));
    env.extend(extra_env(input));
    let resources = input.component.spec.image_builder_container_resources.clone();
    // A sidecar of the mesh needs a moment before anything can be reached.
    let script = format!("sleep 15; {command} && exit 0 || exit {BUILD_FAILED}");
    let security_context = match engine {
        BuildEngine::Kaniko => json!({ "runAsUser": 0 }),
        // A daemon without root makes user namespaces, which the profile of the runtime forbids.
        BuildEngine::BuildkitRootless if own_daemon => json!({ "seccompProfile": { "type": "Unconfined" } }),
        BuildEngine::Buildkit | BuildEngine::BuildkitRootless => Value::Null,
    };
    let layers = own_daemon.then(|| mount(LAYERS));
    Ok(json!({
        "name": BUILDER,
        "image": settings.engine_image,
        "imagePullPolicy": "Always",
        "command": ["sh", "-c", script],
        "env": env,
        "resources": resources.or_else(|| input.defaults.resources.clone()),
        "securityContext": security_context,
        "stdin": true,
        "tty": true,
        "volumeMounts": mounts().into_iter().chain(layers).collect::<Vec<_>>(),
    }))
}

/// Whether queries of the registry and pushes to it use no TLS: the component or the
/// operator's settings say so.
pub fn is_insecure(component: &DynamoComponent, settings: &BuildSettings) -> bool {
    let said = component.annotations().get(annotations::INSECURE_REGISTRY);
    !settings.secure || said.is_some_and(|value| value == labels::TRUE)
}

/// Arguments of the Dockerfile: those of all builds, then the component's.
fn build_args(input: Input<'_>) -> impl Iterator<Item = String> {
    let own = input.component.spec.build_args.iter().flatten();
    input.defaults.build_args.iter().chain(own).map(|argument| quoted(argument))
}

fn kaniko(input: Input<'_>) -> String {
    let settings = input.settings;
    let repository = input.image.rsplit_once(':').map_or(input.image, |(repository, _)| repository);
    let cache = settings.kaniko_cache.as_deref().unwrap_or(repository);
    let mut words = vec![format!(
        "/kaniko/executor --context={CONTEXT} --verbosity=info --image-fs-extract-retry=3 --cache=false \
         --cache-repo={} --compressed-caching=false --compression=zstd --compression-level=-7 \
         --dockerfile={DOCKERFILE} --insecure={} --destination={}",
        quoted(cache),
        is_insecure(input.component, settings),
        quoted(input.image),
    )];
    words.extend(settings.kaniko_snapshots.as_ref().map(|mode| format!("--snapshot-mode={}", quoted(mode))));
    words.extend(build_args(input).map(|argument| format!("--build-arg={argument}")));
    words.extend(input.defaults.builder_args.iter().cloned());
    words.join(" ")
}

fn buildkit(input: Input<'_>) -> Result<String, String> {
    let settings = input.settings;
    let client = match &settings.buildkit_url {
        Some(daemon) => format!("buildctl --addr {}", quoted(daemon)),
        None if has_own_daemon(settings) => "buildctl-daemonless.sh".to_owned(),
        None => {
            let remedy = "give the address of the BuildKit daemon, or build with buildkit-rootless";
            return Err(format!("BUILDKIT_URL is not set; {remedy}"));
        }
    };
    let insecure = is_insecure(input.component, settings);
    let mut output = format!("type=image,name={},push=true,registry.insecure={insecure}", input.image);
    if settings.estargz {
        output += ",oci-mediatypes=true,compression=estargz,force-compression=true";
    }
    let mut words = vec![
        format!("{client} build --frontend dockerfile.v0"),
        format!("--local context={CONTEXT}"),
        format!("--local dockerfile={}", DOCKERFILE.trim_end_matches("/Dockerfile")),
        format!("--output {}", quoted(&output)),
    ];
    if let Some(cache) = &settings.buildkit_cache {
        let reference = format!("type=registry,ref={cache}:buildcache");
        let export = format!("{reference},mode=max,compression=zstd,ignore-error=true");
        words.push(format!("--export-cache {} --import-cache {}", quoted(&export), quoted(&reference)));
    }
    words.extend(build_args(input).map(|argument| format!("--opt build-arg:{argument}")));
    words.extend(input.defaults.builder_args.iter().cloned());
    Ok(words.join(" "))
}

#[cfg(test)]
mod environment_tests;
#[cfg(test)]
mod tests;
