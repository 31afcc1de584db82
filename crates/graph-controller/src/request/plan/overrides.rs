//! The user's part of the profiling Job, and the program with which the profiler lays the user's part of a graph over
//! its own.
//!
//! Fields of the Job that are listed here may be set; everything else is left as it is. An init container copies the
//! program out of the operator's image, so that the rules are those of the operator.

use std::collections::BTreeMap;

use api_types::{env, labels};
use k8s_openapi::{
    DeepMerge,
    api::{
        batch::v1::JobSpec,
        core::v1::{Container, EnvVar, PodSecurityContext, PodSpec, ResourceRequirements, Volume, VolumeMount},
    },
};
use serde_json::json;

use super::of_json;
use crate::request::settings::RequestArgs;

/// Name of the container that profiles.
pub const PROFILER: &str = "profiler";
/// Name of the container that copies the profiler's output.
pub const RELAY: &str = "output-copier";

/// Labels by which the operator finds its own.
const PROTECTED: [&str; 5] =
    [labels::APP, labels::REQUEST, labels::REQUEST_NAME, labels::REQUEST_NAMESPACE, labels::MODEL_MANAGED_BY];
const TOKEN: &str = "output-copier-kube-api-access";
const TOKEN_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_SECONDS: i64 = 3600;

/// Lays the user's part over the Job.
pub fn lay_over(job: &mut JobSpec, given: &JobSpec) {
    replace(&mut job.backoff_limit, &given.backoff_limit);
    replace(&mut job.active_deadline_seconds, &given.active_deadline_seconds);
    replace(&mut job.ttl_seconds_after_finished, &given.ttl_seconds_after_finished);
    replace(&mut job.completions, &given.completions);
    replace(&mut job.parallelism, &given.parallelism);
    replace(&mut job.suspend, &given.suspend);
    if let Some(metadata) = &given.template.metadata {
        let own = job.template.metadata.get_or_insert_default();
        let free = metadata.labels.iter().flatten().filter(|(key, _)| !PROTECTED.contains(&key.as_str()));
        add(&mut own.labels, free);
        add(&mut own.annotations, metadata.annotations.iter().flatten());
    }
    if let (Some(pod), Some(given)) = (&mut job.template.spec, &given.template.spec) {
        lay_over_pod(pod, given);
        if pod.automount_service_account_token == Some(false) {
            keep_token_of_relay(pod);
        }
    }
}

fn replace<T: Clone>(own: &mut Option<T>, given: &Option<T>) {
    if given.is_some() {
        own.clone_from(given);
    }
}

fn replace_filled<T: Clone>(own: &mut Option<T>, given: &Option<T>, is_empty: fn(&T) -> bool) {
    if given.as_ref().is_some_and(|given| !is_empty(given)) {
        own.clone_from(given);
    }
}

fn add<'a>(own: &mut Option<BTreeMap<String, String>>, given: impl Iterator<Item = (&'a String, &'a String)>) {
    for (key, value) in given {
        own.get_or_insert_default().insert(key.clone(), value.clone());
    }
}

/// Same name, replaced; another one, appended.
fn merge<T: Clone>(own: &mut Vec<T>, given: &[T], name: impl Fn(&T) -> &str) {
    for item in given {
        match own.iter_mut().find(|own| name(own) == name(item)) {
            Some(own) => own.clone_from(item),
            None => own.push(item.clone()),
        }
    }
}

fn merge_list<T: Clone>(own: &mut Option<Vec<T>>, given: &Option<Vec<T>>, name: impl Fn(&T) -> &str) {
    if let Some(given) = given.as_ref().filter(|given| !given.is_empty()) {
        merge(own.get_or_insert_default(), given, name);
    }
}

fn lay_over_pod(pod: &mut PodSpec, given: &PodSpec) {
    replace_filled(&mut pod.tolerations, &given.tolerations, Vec::is_empty);
    replace_filled(&mut pod.node_selector, &given.node_selector, BTreeMap::is_empty);
    replace(&mut pod.affinity, &given.affinity);
    replace_filled(&mut pod.priority_class_name, &given.priority_class_name, String::is_empty);
    replace_filled(&mut pod.service_account_name, &given.service_account_name, String::is_empty);
    replace(&mut pod.runtime_class_name, &given.runtime_class_name);
    replace_filled(&mut pod.dns_policy, &given.dns_policy, String::is_empty);
    replace(&mut pod.dns_config, &given.dns_config);
    replace(&mut pod.termination_grace_period_seconds, &given.termination_grace_period_seconds);
    replace_filled(&mut pod.topology_spread_constraints, &given.topology_spread_constraints, Vec::is_empty);
    replace(&mut pod.automount_service_account_token, &given.automount_service_account_token);
    merge_list(&mut pod.image_pull_secrets, &given.image_pull_secrets, |secret| &secret.name);
    if let Some(given) = given.security_context.clone() {
        // All fields but the newest, which the upstream operator does not have.
        let given = PodSecurityContext { se_linux_change_policy: None, supplemental_groups_policy: None, ..given };
        pod.security_context.get_or_insert_default().merge_from(given);
    }
    merge_list(&mut pod.volumes, &given.volumes, |volume| &volume.name);
    merge_list(&mut pod.init_containers, &given.init_containers, |container| &container.name);
    let named = |name: &str| given.containers.iter().find(|container| container.name == name);
    // Before there was a second container, the only one needed no name.
    let unnamed = || given.containers.iter().find(|container| container.name != RELAY);
    for own in &mut pod.containers {
        match own.name.as_str() {
            PROFILER => named(PROFILER).or_else(unnamed).into_iter().for_each(|given| lay_over_profiler(own, given)),
            RELAY => named(RELAY).into_iter().for_each(|given| {
                replace_filled(&mut own.image, &given.image, String::is_empty);
                replace_resources(&mut own.resources, &given.resources);
            }),
            _ => {}
        }
    }
}

fn lay_over_profiler(own: &mut Container, given: &Container) {
    replace_filled(&mut own.image, &given.image, String::is_empty);
    replace_resources(&mut own.resources, &given.resources);
    replace(&mut own.security_context, &given.security_context);
    merge_list(&mut own.env, &given.env, |variable| &variable.name);
    merge_list(&mut own.volume_mounts, &given.volume_mounts, |mount| &mount.name);
    if let Some(sources) = given.env_from.as_ref().filter(|sources| !sources.is_empty()) {
        own.env_from.get_or_insert_default().extend(sources.iter().cloned());
    }
}

fn replace_resources(own: &mut Option<ResourceRequirements>, given: &Option<ResourceRequirements>) {
    let Some(resources) = given else { return };
    let has_amounts = [&resources.limits, &resources.requests].into_iter().flatten().any(|map| !map.is_empty());
    if has_amounts || resources.claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        own.clone_from(given);
    }
}

/// The profiler gets no token; the relay cannot work without one.
fn keep_token_of_relay(pod: &mut PodSpec) {
    merge(pod.volumes.get_or_insert_default(), &[token_volume()], |volume| &volume.name);
    for container in &mut pod.containers {
        let mounts = container.volume_mounts.get_or_insert_default();
        mounts.retain(|mount| mount.name != TOKEN);
        if container.name == RELAY {
            mounts.push(mount(TOKEN, TOKEN_FOLDER, true));
        }
    }
}

fn token_volume() -> Volume {
    let token = json!({ "path": "token", "expirationSeconds": TOKEN_SECONDS });
    let authority = json!({ "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] });
    let field = json!({ "apiVersion": "v1", "fieldPath": "metadata.namespace" });
    let namespace = json!({ "items": [{ "path": "namespace", "fieldRef": field }] });
    let sources = json!([{ "serviceAccountToken": token }, { "configMap": authority }, { "downwardAPI": namespace }]);
    of_json(json!({ "name": TOKEN, "projected": { "sources": sources } }))
}

const VOLUME: &str = "dgd-override-tool";
const FOLDER: &str = "/opt/dynamo/bin";
const PROGRAM: &str = "/opt/dynamo/bin/dgd-apply-overrides";
const INSTALLER: &str = "dgd-override-installer";
const USER: i64 = 1000;

/// Adds the program to the profiler's pod. It comes last, and takes the place of whatever the user has put there.
pub fn add_override_tool(job: &mut JobSpec, args: &RequestArgs) {
    let Some(pod) = &mut job.template.spec else { return };
    let volume: Volume = of_json(json!({ "name": VOLUME, "emptyDir": {} }));
    merge(pod.volumes.get_or_insert_default(), &[volume], |volume| &volume.name);
    let init = pod.init_containers.get_or_insert_default();
    init.iter_mut().chain(&mut pod.containers).for_each(clear);
    merge(init, &[installer(args)], |container| &container.name);
    for profiler in pod.containers.iter_mut().filter(|container| container.name == PROFILER) {
        profiler.volume_mounts.get_or_insert_default().push(mount(VOLUME, FOLDER, true));
        let variables = profiler.env.get_or_insert_default();
        variables.retain(|variable| variable.name != env::DYNAMO_DGD_APPLY_OVERRIDES_BIN);
        let name = env::DYNAMO_DGD_APPLY_OVERRIDES_BIN.to_owned();
        variables.push(EnvVar { name, value: Some(PROGRAM.to_owned()), value_from: None });
    }
}

fn clear(container: &mut Container) {
    if let Some(mounts) = &mut container.volume_mounts {
        mounts.retain(|mount| mount.name != VOLUME && mount.mount_path != FOLDER);
    }
}

fn installer(args: &RequestArgs) -> Container {
    of_json(json!({
        "name": INSTALLER,
        "image": args.operator_image,
        "imagePullPolicy": args.operator_image_pull_policy,
        "command": ["/dgd-apply-overrides"],
        "args": ["--install-to", PROGRAM],
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "runAsUser": USER,
            "runAsGroup": USER,
            "capabilities": { "drop": ["ALL"] },
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "volumeMounts": [mount(VOLUME, FOLDER, false)],
    }))
}

/// A mount of a whole volume.
pub(super) fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}
