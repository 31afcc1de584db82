//! Tests of the Job.

use api_types::v1alpha1::DynamoComponentSpec;
use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::*;

fn settings(pairs: &[(&'static str, &'static str)]) -> BuildSettings {
    let pairs = pairs.to_vec();
    BuildSettings::read(move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
}

fn made(edit: impl FnOnce(&mut DynamoComponent), settings: &BuildSettings, image: &str) -> Result<Job, String> {
    let spec = DynamoComponentSpec { dynamo_component: "chat:v1".to_owned(), ..Default::default() };
    let mut component = DynamoComponent::new("chat", spec);
    component.metadata.uid = Some("u".to_owned());
    edit(&mut component);
    let defaults = Defaults { build_args: vec!["A=1".to_owned()], ..Defaults::default() };
    let input = Input {
        component: &component,
        name: "job",
        namespace: "ns",
        image,
        download: "http://store/x?a=b'c",
        account: None,
        defaults: &defaults,
        settings,
    };
    render(input)
}

fn pod(job: &Job) -> PodSpec {
    job.spec.clone().unwrap().template.spec.unwrap()
}

fn script(container: &Container) -> String {
    container.command.clone().unwrap().pop().unwrap()
}

#[test]
fn kaniko_builds_in_the_pod() {
    let edit = |component: &mut DynamoComponent| component.spec.build_args = Some(vec!["B=it's".to_owned()]);
    let job = made(edit, &settings(&[("DYNAMO_IMAGE_BUILD_ENGINE", "kaniko")]), "r.io/d:t").unwrap();
    let pod = pod(&job);
    let builder = &pod.containers[0];
    assert_eq!(
        script(builder),
        "sleep 15; /kaniko/executor --context=/workspace/buildcontext --verbosity=info --image-fs-extract-retry=3 \
         --cache=false --cache-repo='r.io/d' --compressed-caching=false --compression=zstd --compression-level=-7 \
         --dockerfile=/workspace/buildcontext/env/docker/Dockerfile --insecure=false --destination='r.io/d:t' \
         --build-arg='A=1' --build-arg='B=it'\\''s' && exit 0 || exit 42"
    );
    assert_eq!(builder.security_context.as_ref().unwrap().run_as_user, Some(0));
    let downloader = &pod.init_containers.as_ref().unwrap()[0];
    assert!(
        script(downloader).contains("curl --fail -L 'http://store/x?a=b'\\''c' --output"),
        "{}",
        script(downloader)
    );
    assert_eq!(pod.service_account_name.as_deref(), Some("default"));
}

#[test]
fn buildkit_builds_elsewhere() {
    let buildkit = [("DYNAMO_IMAGE_BUILD_ENGINE", "buildkit"), ("BUILDKIT_URL", "tcp://b:1234")];
    let more = [("BUILDKIT_CACHE_REPO", "r.io/c"), ("ESTARGZ_ENABLED", "true")];
    let insecure = |component: &mut DynamoComponent| {
        component.metadata.annotations = Some([(annotations::INSECURE_REGISTRY.to_owned(), "true".to_owned())].into());
    };
    let all: Vec<_> = buildkit.into_iter().chain(more).collect();
    let job = made(insecure, &settings(&all), "r.io/d:t").unwrap();
    assert_eq!(
        script(&pod(&job).containers[0]),
        "sleep 15; buildctl --addr 'tcp://b:1234' build --frontend dockerfile.v0 --local context=/workspace/buildcontext \
         --local dockerfile=/workspace/buildcontext/env/docker \
         --output 'type=image,name=r.io/d:t,push=true,registry.insecure=true,oci-mediatypes=true,compression=estargz,\
         force-compression=true' \
         --export-cache 'type=registry,ref=r.io/c:buildcache,mode=max,compression=zstd,ignore-error=true' \
         --import-cache 'type=registry,ref=r.io/c:buildcache' --opt build-arg:'A=1' && exit 0 || exit 42"
    );
    assert!(made(|_| {}, &settings(&buildkit[..1]), "r.io/d:t").unwrap_err().contains("BUILDKIT_URL"));
    let rootless: Vec<_> = once(("DYNAMO_IMAGE_BUILD_ENGINE", "buildkit-rootless")).chain([buildkit[1]]).collect();
    let job = made(|_| {}, &settings(&rootless), "r.io/d:t").unwrap();
    let template = job.spec.unwrap().template;
    assert_eq!(template.metadata.unwrap().annotations.unwrap()[annotations::BUILDER_APPARMOR], "unconfined");
    assert_eq!(template.spec.unwrap().containers[0].image.as_deref(), Some("moby/buildkit:v0.20.2-rootless"));
    assert!(made(|_| {}, &settings(&[("DYNAMO_IMAGE_BUILD_ENGINE", "make")]), "i").unwrap_err().contains("\"make\""));
}

/// kaniko is no longer maintained, and builds as root.
#[test]
fn a_build_runs_without_root_and_needs_no_daemon_elsewhere() {
    let job = made(|_| {}, &settings(&[("ESTARGZ_ENABLED", "true")]), "r.io/d:t").unwrap();
    let template = job.spec.clone().unwrap().template;
    assert_eq!(template.metadata.unwrap().annotations.unwrap()[annotations::BUILDER_APPARMOR], "unconfined");
    let pod = pod(&job);
    let builder = &pod.containers[0];
    assert!(script(builder).starts_with("sleep 15; buildctl-daemonless.sh build --frontend dockerfile.v0 "));
    assert_eq!(pod.security_context.unwrap().run_as_user, Some(1000));
    let of_builder = builder.security_context.clone().unwrap();
    assert_eq!((of_builder.run_as_user, of_builder.privileged), (None, None));
    assert_eq!(of_builder.seccomp_profile.unwrap().type_, "Unconfined");
    let flags = builder.env.iter().flatten().find(|variable| variable.name == "BUILDKITD_FLAGS").unwrap();
    let expected = "--oci-worker-no-process-sandbox --oci-worker-snapshotter=stargz";
    assert_eq!(flags.value.as_deref(), Some(expected));
    let volumes: Vec<String> = pod.volumes.unwrap().into_iter().map(|volume| volume.name).collect();
    for mount in builder.volume_mounts.iter().flatten() {
        assert!(volumes.contains(&mount.name), "{}", mount.name);
    }
    assert_eq!((volumes.len(), builder.volume_mounts.as_ref().unwrap().len()), (4, 4));
}

/// The settings and the component specify it for all requests to the registry: a push by TLS to one that was queried
/// without it only fails.
#[test]
fn a_registry_without_tls_is_pushed_to_without_it() {
    let annotated = |component: &mut DynamoComponent| {
        component.metadata.annotations = Some([(annotations::INSECURE_REGISTRY.to_owned(), "true".to_owned())].into());
    };
    let pushed = |edit: fn(&mut DynamoComponent), secure: &'static str| {
        let kaniko = [("DOCKER_REGISTRY_SECURE", secure), ("DYNAMO_IMAGE_BUILD_ENGINE", "kaniko")];
        let buildkit = [kaniko[0], ("DYNAMO_IMAGE_BUILD_ENGINE", "buildkit"), ("BUILDKIT_URL", "tcp://b:1234")];
        let says = |all: &[(&'static str, &'static str)], flag: &str| {
            script(&pod(&made(edit, &settings(all), "r:5000/d:t").unwrap()).containers[0]).contains(flag)
        };
        (says(&kaniko, "--insecure=true"), says(&buildkit, "registry.insecure=true"))
    };
    assert_eq!(pushed(|_| {}, "false"), (true, true));
    assert_eq!(pushed(annotated, "true"), (true, true));
    assert_eq!(pushed(|_| {}, "true"), (false, false));
}

#[test]
fn credentials_come_from_the_secret_or_from_google() {
    let names = |job: &Job| {
        let pod = pod(job);
        let names = pod.init_containers.into_iter().flatten().map(|container| container.name).collect::<Vec<_>>();
        (names.len(), pod.volumes.unwrap()[2].secret.clone().and_then(|secret| secret.secret_name))
    };
    let with = settings(&[("DOCKER_REGISTRY_SECRET_NAME", "regcred")]);
    assert_eq!(names(&made(|_| {}, &with, "gcr.io/d:t").unwrap()), (1, Some("regcred".to_owned())));
    let own = |component: &mut DynamoComponent| component.spec.docker_config_json_secret_name = Some("own".to_owned());
    assert_eq!(names(&made(own, &with, "r.io/d:t").unwrap()), (1, Some("own".to_owned())));
    assert_eq!(names(&made(|_| {}, &settings(&[]), "eu.gcr.io/d:t").unwrap()), (2, None));

    let chat = DynamoComponent::new("chat", DynamoComponentSpec::default());
    assert!(nodes_log_in(&chat, "europe-docker.pkg.dev/team/d:t", &settings(&[])));
    assert!(!nodes_log_in(&chat, "europe-docker.pkg.dev/team/d:t", &with), "the Secret logs in");
    assert!(!nodes_log_in(&chat, "r.io/gcr.io/d:t", &settings(&[])));
}

/// Found defect: what was no number was silently four.
#[test]
fn an_invalid_number_of_builds_is_reported() {
    for (given, expected) in [("2", None), ("four", Some("\"four\"")), ("0", Some("\"0\"")), ("-1", Some("\"-1\""))] {
        let message = made(|_| {}, &settings(&[("DYNAMO_IMAGE_BUILD_CONCURRENCY", given)]), "i:t").err();
        let value = message.as_deref().and_then(|text| text.strip_prefix("DYNAMO_IMAGE_BUILD_CONCURRENCY is "));
        assert_eq!(value.and_then(|text| text.split_once(';')).map(|(value, _)| value), expected, "{given}");
    }
}

#[test]
fn every_build_has_a_deadline() {
    let under = |timeout: Option<BuildTimeout>, all: &[(&'static str, &'static str)]| {
        let edit = |component: &mut DynamoComponent| component.spec.image_build_timeout = timeout;
        made(edit, &settings(all), "i:t").map(|job| job.spec.unwrap().active_deadline_seconds)
    };
    let deadline = |timeout: BuildTimeout| under(Some(timeout), &[("DYNAMO_IMAGE_BUILD_TIMEOUT", "90m")]);
    assert_eq!(under(None, &[]), Ok(Some(7200)));
    // A build that is pending for ten years keeps others from building.
    let long = || Some(BuildTimeout::Text("87600h".to_owned()));
    assert_eq!(under(long(), &[]), Ok(Some(8 * 3600)));
    assert_eq!(under(long(), &[("DYNAMO_IMAGE_BUILD_MAX_TIMEOUT", "3h")]), Ok(Some(3 * 3600)));
    assert_eq!(under(None, &[("DYNAMO_IMAGE_BUILD_TIMEOUT", "90m")]), Ok(Some(5400)));
    let wrong = under(None, &[("DYNAMO_IMAGE_BUILD_TIMEOUT", "soon")]).unwrap_err();
    assert!(wrong.starts_with("DYNAMO_IMAGE_BUILD_TIMEOUT is \"soon\""), "{wrong}");
    assert_eq!(deadline(BuildTimeout::Text("20m".to_owned())), Ok(Some(1200)));
    assert_eq!(deadline(BuildTimeout::Text("0s".to_owned())), Ok(Some(5400)), "no time at all is none that was given");
    assert_eq!(deadline(BuildTimeout::Nanoseconds(90_000_000_000)), Ok(Some(90)));
    assert!(deadline(BuildTimeout::Text("soon".to_owned())).unwrap_err().starts_with("spec.imageBuildTimeout"));
    assert!(deadline(BuildTimeout::Nanoseconds(-1)).unwrap_err().contains("negative"));
}
