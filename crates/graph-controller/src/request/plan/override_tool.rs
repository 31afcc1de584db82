//! The program with which the profiler lays the user's part of a graph over its own. An init container copies it out
//! of the operator's image, so that the rules are those of the operator.

use api_types::env;
use k8s_openapi::api::{
    batch::v1::JobSpec,
    core::v1::{
        Capabilities, Container, EmptyDirVolumeSource, EnvVar, SeccompProfile, SecurityContext, Volume, VolumeMount,
    },
};

use super::overrides::PROFILER;
use crate::request::settings::RequestArgs;

const VOLUME: &str = "dgd-override-tool";
const FOLDER: &str = "/opt/dynamo/bin";
const PROGRAM: &str = "/opt/dynamo/bin/dgd-apply-overrides";
const INSTALLER: &str = "dgd-override-installer";
const USER: i64 = 1000;

/// Adds the program to the profiler's pod. It comes last, and takes the place of whatever the user has put there.
pub fn add(job: &mut JobSpec, args: &RequestArgs) {
    let Some(pod) = &mut job.template.spec else { return };
    let volumes = pod.volumes.get_or_insert_default();
    let volume =
        Volume { name: VOLUME.to_owned(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() };
    match volumes.iter_mut().find(|volume| volume.name == VOLUME) {
        Some(taken) => *taken = volume,
        None => volumes.push(volume),
    }
    let init = pod.init_containers.get_or_insert_default();
    init.iter_mut().chain(&mut pod.containers).for_each(clear);
    let installer = installer(args);
    match init.iter_mut().find(|container| container.name == INSTALLER) {
        Some(taken) => *taken = installer,
        None => init.push(installer),
    }
    for profiler in pod.containers.iter_mut().filter(|container| container.name == PROFILER) {
        profiler.volume_mounts.get_or_insert_default().push(VolumeMount { read_only: Some(true), ..mount() });
        let variables = profiler.env.get_or_insert_default();
        variables.retain(|variable| variable.name != env::DYNAMO_DGD_APPLY_OVERRIDES_BIN);
        variables.push(EnvVar {
            name: env::DYNAMO_DGD_APPLY_OVERRIDES_BIN.to_owned(),
            value: Some(PROGRAM.to_owned()),
            value_from: None,
        });
    }
}

fn clear(container: &mut Container) {
    if let Some(mounts) = &mut container.volume_mounts {
        mounts.retain(|mount| mount.name != VOLUME && mount.mount_path != FOLDER);
    }
}

fn mount() -> VolumeMount {
    VolumeMount { name: VOLUME.to_owned(), mount_path: FOLDER.to_owned(), ..VolumeMount::default() }
}

fn installer(args: &RequestArgs) -> Container {
    Container {
        name: INSTALLER.to_owned(),
        image: Some(args.operator_image.clone()),
        image_pull_policy: Some(args.operator_image_pull_policy.clone()),
        command: Some(vec!["/dgd-apply-overrides".to_owned()]),
        args: Some(vec!["--install-to".to_owned(), PROGRAM.to_owned()]),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
            seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![mount()]),
        ..Container::default()
    }
}
