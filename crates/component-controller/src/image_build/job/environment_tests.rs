//! The environment variables that the documents of the legacy API list.

use api_types::v1alpha1::DynamoComponentSpec;
use controller_kit::process::CommonArgs;

use super::*;
use crate::image_build::image::image;

/// Each variable, with a value and what it then says of a build, its rejection or the operator.
const DOCUMENTED: [(&str, &str, &str); 13] = [
    ("ADD_NAMESPACE_PREFIX_TO_IMAGE_NAME", "true", ":dynamo.team.chat.v1"),
    ("DYNAMO_IMAGE_BUILD_ENGINE", "kaniko", "/kaniko/executor"),
    ("BUILDKIT_URL", "tcp://daemon:1234", "--addr 'tcp://daemon:1234'"),
    ("DOCKER_REGISTRY_DYNAMO_COMPONENTS_REPOSITORY_NAME", "pipelines", "/pipelines:"),
    ("DOCKER_REGISTRY_SECURE", "false", "registry.insecure=true"),
    ("DOCKER_REGISTRY_SERVER", "nvcr.io/team", "nvcr.io/team/"),
    ("DOCKER_REGISTRY_USERNAME", "username", "name it in DOCKER_REGISTRY_SECRET_NAME"),
    ("ESTARGZ_ENABLED", "true", "compression=estargz"),
    ("INTERNAL_IMAGES_BUILDKIT", "mirror.io/buildkit:1", "mirror.io/buildkit:1"),
    ("LOG_LEVEL", "debug", "log=debug"),
    ("API_STORE_ENDPOINT", "http://store", "store=http://store"),
    ("DYNAMO_IMAGE_BUILDER_NAMESPACE", "builders", "defaults=builders"),
    ("DYNAMO_SYSTEM_NAMESPACE", "dynamo", "defaults=dynamo"),
];

/// Returns the effects of these variables on the operator, as text.
fn effects(variables: &[(&str, &str)]) -> String {
    let given = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    let settings = BuildSettings::read(given);
    let spec = DynamoComponentSpec { dynamo_component: "chat:v1".to_owned(), ..Default::default() };
    let mut component = DynamoComponent::new("chat", spec);
    component.metadata.uid = Some("u".to_owned());
    let name = image(&component, "team", &settings).unwrap_or_default();
    let defaults = Defaults::default();
    let input = Input {
        component: &component,
        name: "job",
        namespace: "team",
        image: &name,
        download: "http://store/x",
        account: None,
        defaults: &defaults,
        settings: &settings,
    };
    let job = match render(input) {
        Ok(job) => serde_json::to_string(&job).unwrap(),
        Err(rejection) => rejection,
    };
    // Read as clap does it, without a change of this process's environment.
    let command = <CommonArgs as clap::Args>::augment_args(clap::Command::new("x"));
    let level = command.get_arguments().filter(|arg| arg.get_env().is_some_and(|name| name == "LOG_LEVEL"));
    let flags: Vec<_> =
        level.filter_map(|arg| Some(format!("--{}={}", arg.get_long()?, given("LOG_LEVEL")?))).collect();
    let matches = command.clone().try_get_matches_from(std::iter::once("x".to_owned()).chain(flags)).unwrap();
    let args = <CommonArgs as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
    let configuration = controller_kit::settings::OperatorConfiguration::default();
    let log = args.filter(&configuration).unwrap();
    let (store, defaults) = (settings.api_store.unwrap_or_default(), settings.defaults_namespace.unwrap_or_default());
    format!("{job} log={log} store={store} defaults={defaults}")
}

/// Found defect: `LOG_LEVEL`, `DOCKER_REGISTRY_USERNAME` and `DYNAMO_SYSTEM_NAMESPACE` had no effect.
#[test]
fn each_documented_variable_has_an_effect_or_is_rejected_and_is_in_the_docs() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(page).unwrap();
    for (name, value, effect) in DOCUMENTED {
        let engine = if name == "INTERNAL_IMAGES_BUILDKIT" { "buildkit" } else { "buildkit-rootless" };
        let all = [
            (name, value),
            ("DOCKER_REGISTRY_SERVER", "r.io"),
            ("DYNAMO_IMAGE_BUILD_ENGINE", engine),
            ("BUILDKIT_URL", "tcp://other:1"),
        ];
        assert!(!effects(&all[1..]).contains(effect), "{name}: {effect} without it");
        let with = effects(&all);
        assert!(with.contains(effect), "{name}={value}: {with}");
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not in docs/configuration.md");
    }
    let named = [("DOCKER_REGISTRY_USERNAME", "username"), ("DOCKER_REGISTRY_SECRET_NAME", "login")];
    assert!(effects(&named).contains(r#""secretName":"login""#), "the Secret replaces it");
    assert!(effects(&[("DOCKER_REGISTRY_PASSWORD", "p")]).contains("DOCKER_REGISTRY_SECRET_NAME"));
    let both = [("DYNAMO_SYSTEM_NAMESPACE", "system"), ("DYNAMO_IMAGE_BUILDER_NAMESPACE", "builders")];
    assert!(effects(&both).contains("defaults=builders"));
}
