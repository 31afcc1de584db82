//! The operator's settings for image builds: environment variables under the names of the legacy operator, with their
//! defaults.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    path::PathBuf,
    time::Duration,
};

use api_types::{
    typed::typed,
    v1alpha1::{BuilderPodMetadata, BuilderPodSpec},
};
use controller_kit::{settings::GoDuration, yaml};
use k8s_openapi::api::core::v1::{EnvVar, ResourceRequirements};
use serde::de::DeserializeOwned;

/// Image that downloads archives.
const DOWNLOADER: &str = "rapidfort/curl:latest";
/// Image of kaniko.
const KANIKO: &str = "gcr.io/kaniko-project/executor:debug";
/// Image of BuildKit's client.
const BUILDKIT: &str = "moby/buildkit:v0.20.2";
/// Default image of BuildKit for users without root.
const BUILDKIT_ROOTLESS: &str = "moby/buildkit:v0.20.2-rootless";
/// Image that logs in at Google.
const GOOGLE: &str = "google/cloud-sdk:slim";
/// Repository of the images.
const REPOSITORY: &str = "dynamo-components";
/// Default of concurrent builds.
pub const DEFAULT_CONCURRENCY: usize = 4;
/// Default deadline of a build, in seconds.
const TIMEOUT: i64 = 2 * 60 * 60;

/// The program that builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildEngine {
    /// kaniko, in the pod.
    Kaniko,
    /// A BuildKit daemon elsewhere.
    Buildkit,
    /// The client of a BuildKit daemon elsewhere, or a daemon in the pod where there is none; without root.
    BuildkitRootless,
}

/// Registries that the cluster administrator lists: they may be queried without TLS, and may have addresses inside the
/// machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownRegistries(BTreeSet<String>);

impl KnownRegistries {
    /// Reads hosts, with or without ports, that are separated by commas.
    pub fn read(list: &str) -> Self {
        Self(list.split(',').map(str::trim).filter(|host| !host.is_empty()).map(str::to_lowercase).collect())
    }

    /// Whether a host with its port is listed, or its host with any port.
    pub fn lists(&self, authority: &str) -> bool {
        let authority = authority.to_lowercase();
        let host = authority.rsplit_once(':').map_or(authority.as_str(), |(host, _)| host);
        self.0.contains(&authority) || self.0.contains(host)
    }
}

/// The operator's settings for image builds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildSettings {
    /// `DYNAMO_IMAGE_BUILD_ENGINE`: `buildkit-rootless` (default), `buildkit` or `kaniko`; the violation if it is none
    /// of them. The upstream operator built with kaniko where nothing was said, and its chart said `buildkit`; kaniko
    /// is no longer maintained.
    pub engine: Result<BuildEngine, String>,
    /// `DOCKER_REGISTRY_SERVER`.
    pub server: Option<String>,
    /// `DOCKER_REGISTRY_DYNAMO_COMPONENTS_REPOSITORY_NAME`.
    pub repository: String,
    /// `ADD_NAMESPACE_PREFIX_TO_IMAGE_NAME`.
    pub namespace_prefix: bool,
    /// `ESTARGZ_ENABLED`.
    pub estargz: bool,
    /// `DOCKER_REGISTRY_SECURE`, default true.
    pub secure: bool,
    /// `DOCKER_REGISTRY_CA_FILE`: authorities in PEM form that are trusted beside those of the machine when a registry
    /// is queried. Ours, unknown to the upstream operator.
    pub authorities: Option<PathBuf>,
    /// `DOCKER_REGISTRY_INSECURE_HOSTS`, and the registry of `DOCKER_REGISTRY_SERVER` where `DOCKER_REGISTRY_SECURE` is
    /// false. Ours, unknown to the upstream operator.
    pub known: KnownRegistries,
    /// `DOCKER_REGISTRY_SECRET_NAME`.
    pub secret: Option<String>,
    /// Whether `DOCKER_REGISTRY_USERNAME` or `DOCKER_REGISTRY_PASSWORD` is set. A login from there would have to be
    /// copied into the namespace of each build: it is rejected where no Secret is named.
    pub plain_login: bool,
    /// `BUILDKIT_URL`.
    pub buildkit_url: Option<String>,
    /// `BUILDKIT_CACHE_REPO`.
    pub buildkit_cache: Option<String>,
    /// `KANIKO_CACHE_REPO`.
    pub kaniko_cache: Option<String>,
    /// `KANIKO_SNAPSHOT_MODE`: `full`, `redo` or `time`.
    pub kaniko_snapshots: Option<String>,
    /// `INTERNAL_IMAGES_DYNAMO_COMPONENTS_DOWNLOADER`.
    pub downloader_image: String,
    /// `INTERNAL_IMAGES_GOOGLE_CLOUD_SDK`. Ours, unknown to the upstream operator.
    pub google_image: String,
    /// The engine's image: `INTERNAL_IMAGES_KANIKO`, `INTERNAL_IMAGES_BUILDKIT`, `INTERNAL_IMAGES_BUILDKIT_ROOTLESS`.
    pub engine_image: String,
    /// `API_STORE_ENDPOINT`.
    pub api_store: Option<String>,
    /// `DYNAMO_IMAGE_BUILDER_NAMESPACE`, else `DYNAMO_SYSTEM_NAMESPACE`: where the ConfigMap with defaults for builds
    /// is.
    pub defaults_namespace: Option<String>,
    /// `DYNAMO_IMAGE_BUILD_CONCURRENCY`: how many builds run at a time; default [`DEFAULT_CONCURRENCY`]; the violation
    /// if it is no such count. Ours, unknown to the upstream operator.
    pub concurrency: Result<usize, String>,
    /// `DYNAMO_IMAGE_BUILD_TIMEOUT`: how long a build may take whose component does not say, in seconds; default two
    /// hours; the violation if it cannot be read. Without an end, a build that never starts would keep others from theirs.
    /// Ours, unknown to the upstream operator.
    pub timeout: Result<i64, String>,
    /// `DYNAMO_IMAGE_BUILD_MAX_TIMEOUT`: the most that a component may set, in seconds; default eight hours; the
    /// violation if it cannot be read. Ours, unknown to the upstream operator.
    pub max_timeout: Result<i64, String>,
}

/// The longest build that a component may set, in seconds.
const MAX_TIMEOUT: i64 = 8 * 60 * 60;

/// A duration in whole seconds; none if there is not one of them.
pub fn whole_seconds(duration: Duration) -> Option<i64> {
    i64::try_from(duration.as_secs()).ok().filter(|seconds| *seconds > 0)
}

impl BuildSettings {
    /// Reads the settings from variables, of which an empty one is none.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is_given = |name: &str| given(name).is_some();
        let is_true = |name: &str| given(name).as_deref() == Some("true");
        let or = |name: &str, default: &str| given(name).unwrap_or_else(|| default.to_owned());
        let engine = match given("DYNAMO_IMAGE_BUILD_ENGINE").as_deref() {
            None | Some("buildkit-rootless") => Ok(BuildEngine::BuildkitRootless),
            Some("buildkit") => Ok(BuildEngine::Buildkit),
            Some("kaniko") => Ok(BuildEngine::Kaniko),
            Some(other) => {
                Err(format!("DYNAMO_IMAGE_BUILD_ENGINE is {other:?}; set it to buildkit-rootless, buildkit or kaniko"))
            }
        };
        let engine_image = match engine {
            Ok(BuildEngine::Buildkit) => or("INTERNAL_IMAGES_BUILDKIT", BUILDKIT),
            Ok(BuildEngine::BuildkitRootless) => or("INTERNAL_IMAGES_BUILDKIT_ROOTLESS", BUILDKIT_ROOTLESS),
            Ok(BuildEngine::Kaniko) | Err(_) => or("INTERNAL_IMAGES_KANIKO", KANIKO),
        };
        let seconds = |name: &str, default: i64, example: &str| {
            given(name).map_or(Ok(default), |text| {
                let read = text.parse::<GoDuration>().ok().and_then(|duration| whole_seconds(duration.0));
                read.ok_or_else(|| format!("{name} is {text:?}; give for example {example}, and no less than 1s"))
            })
        };
        let secure = given("DOCKER_REGISTRY_SECURE").as_deref() != Some("false");
        let server = given("DOCKER_REGISTRY_SERVER");
        let own = server.as_deref().filter(|_| !secure).and_then(|server| server.split('/').next()).unwrap_or_default();
        let listed = given("DOCKER_REGISTRY_INSECURE_HOSTS").unwrap_or_default();
        let known = KnownRegistries::read(&format!("{listed},{own}"));
        let concurrency = given("DYNAMO_IMAGE_BUILD_CONCURRENCY").map_or(Ok(DEFAULT_CONCURRENCY), |text| {
            text.parse().ok().filter(|most| *most > 0).ok_or_else(|| {
                format!("DYNAMO_IMAGE_BUILD_CONCURRENCY is {text:?}; give a number of builds at a time, 1 or more")
            })
        });
        Self {
            engine,
            server,
            repository: or("DOCKER_REGISTRY_DYNAMO_COMPONENTS_REPOSITORY_NAME", REPOSITORY),
            namespace_prefix: is_true("ADD_NAMESPACE_PREFIX_TO_IMAGE_NAME"),
            estargz: is_true("ESTARGZ_ENABLED"),
            secure,
            known,
            authorities: given("DOCKER_REGISTRY_CA_FILE").map(PathBuf::from),
            secret: given("DOCKER_REGISTRY_SECRET_NAME"),
            plain_login: is_given("DOCKER_REGISTRY_USERNAME") || is_given("DOCKER_REGISTRY_PASSWORD"),
            buildkit_url: given("BUILDKIT_URL"),
            buildkit_cache: given("BUILDKIT_CACHE_REPO"),
            kaniko_cache: given("KANIKO_CACHE_REPO"),
            kaniko_snapshots: given("KANIKO_SNAPSHOT_MODE"),
            downloader_image: or("INTERNAL_IMAGES_DYNAMO_COMPONENTS_DOWNLOADER", DOWNLOADER),
            google_image: or("INTERNAL_IMAGES_GOOGLE_CLOUD_SDK", GOOGLE),
            engine_image,
            api_store: given("API_STORE_ENDPOINT").map(|url| url.trim_end_matches('/').to_owned()),
            defaults_namespace: given("DYNAMO_IMAGE_BUILDER_NAMESPACE").or_else(|| given("DYNAMO_SYSTEM_NAMESPACE")),
            concurrency,
            timeout: seconds("DYNAMO_IMAGE_BUILD_TIMEOUT", TIMEOUT, "90m"),
            max_timeout: seconds("DYNAMO_IMAGE_BUILD_MAX_TIMEOUT", MAX_TIMEOUT, "8h"),
        }
    }
}

/// Name of the ConfigMap.
pub const CONFIG_MAP: &str = "dynamo-image-builder-config";

/// Defaults for all builds. What a component says wins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defaults {
    /// `extra_pod_metadata`.
    pub metadata: BuilderPodMetadata,
    /// `extra_pod_spec`.
    pub pod: BuilderPodSpec,
    /// `extra_container_env`.
    pub env: Vec<EnvVar>,
    /// `default_image_builder_container_resources`.
    pub resources: Option<ResourceRequirements>,
    /// `build_args`.
    pub build_args: Vec<String>,
    /// `builder_args`.
    pub builder_args: Vec<String>,
}

impl Defaults {
    /// Reads the data of the ConfigMap, whose values are YAML.
    ///
    /// # Errors
    /// The key that cannot be read, and why.
    pub fn read(data: &BTreeMap<String, String>) -> Result<Self, String> {
        Ok(Self {
            metadata: value(data, "extra_pod_metadata")?.unwrap_or_default(),
            pod: value(data, "extra_pod_spec")?.unwrap_or_default(),
            env: value(data, "extra_container_env")?.unwrap_or_default(),
            resources: value(data, "default_image_builder_container_resources")?,
            build_args: value(data, "build_args")?.unwrap_or_default(),
            builder_args: value(data, "builder_args")?.unwrap_or_default(),
        })
    }
}

fn value<T: DeserializeOwned>(data: &BTreeMap<String, String>, key: &str) -> Result<Option<T>, String> {
    let Some(text) = data.get(key).filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    let unreadable = |error: &dyn Display| format!("ConfigMap {CONFIG_MAP}: key {key} cannot be read: {error}");
    let value = yaml::read(text).map_err(|error| unreadable(&error))?;
    typed(value).map(Some).map_err(|error| unreadable(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_legacy_operator_but_for_the_engine() {
        let defaults = BuildSettings::read(|_| Some(String::new()));
        assert_eq!(defaults, BuildSettings::read(|_| None));
        assert_eq!(
            (defaults.engine.clone(), defaults.engine_image.as_str()),
            (Ok(BuildEngine::BuildkitRootless), BUILDKIT_ROOTLESS)
        );
        assert_eq!(
            (defaults.repository.as_str(), defaults.secure, defaults.concurrency.clone()),
            ("dynamo-components", true, Ok(4))
        );
        let read = |name: &'static str, value: &'static str| {
            BuildSettings::read(move |key| (key == name).then(|| value.to_owned()))
        };
        assert_eq!(read("DYNAMO_IMAGE_BUILD_ENGINE", "buildkit-rootless"), defaults);
        assert_eq!(read("DYNAMO_IMAGE_BUILD_ENGINE", "kaniko").engine_image, KANIKO);
        assert!(read("DYNAMO_IMAGE_BUILD_ENGINE", "make").engine.unwrap_err().contains("\"make\""));
        assert_eq!(read("API_STORE_ENDPOINT", "http://store/").api_store.as_deref(), Some("http://store"));
        assert!(!read("DOCKER_REGISTRY_SECURE", "false").secure);
        let most = |value: &'static str| read("DYNAMO_IMAGE_BUILD_CONCURRENCY", value).concurrency;
        assert_eq!((most("1"), most("four").is_err(), most("0").is_err()), (Ok(1), true, true));
        let pairs = [
            ("DOCKER_REGISTRY_SERVER", "Plain.io:5000/team"),
            ("DOCKER_REGISTRY_SECURE", "false"),
            ("DOCKER_REGISTRY_INSECURE_HOSTS", "a.io, b.io:80"),
        ];
        let known = BuildSettings::read(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
        .known;
        for (host, listed) in
            [("plain.io:5000", true), ("a.io:1", true), ("a.io", true), ("b.io", false), ("b.io:80", true)]
        {
            assert_eq!(known.lists(host), listed, "{host}");
        }
        assert!(!read("DOCKER_REGISTRY_SERVER", "r.io").known.lists("r.io"), "it is queried with TLS");
        assert_eq!(read("DYNAMO_IMAGE_BUILD_MAX_TIMEOUT", "3h").max_timeout, Ok(10_800));
        let timeout = |value: &'static str| read("DYNAMO_IMAGE_BUILD_TIMEOUT", value).timeout;
        assert_eq!((timeout(""), timeout("90m")), (Ok(7200), Ok(5400)));
        assert!(timeout("soon").unwrap_err().contains("\"soon\""));
        assert!(timeout("0s").unwrap_err().contains("\"0s\""));
    }
}

#[cfg(test)]
mod defaults_tests {
    use super::*;

    #[test]
    fn values_are_yaml() {
        let data = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let read =
            Defaults::read(&data(&[("build_args", "[A=1]"), ("extra_pod_spec", "priorityClassName: low")])).unwrap();
        assert_eq!(read.build_args, ["A=1"]);
        assert_eq!(read.pod.priority_class_name.as_deref(), Some("low"));
        assert_eq!(Defaults::read(&BTreeMap::new()), Ok(Defaults::default()));
        assert!(Defaults::read(&data(&[("build_args", "{")])).unwrap_err().contains("build_args"));
    }
}
