//! Data of a pass over an image build, with the name of a component's image and the record of it in the status.

use std::time::Duration;

use api_types::{
    annotations,
    conditions::image_build as reason,
    names::image_tag,
    v1alpha1::{ArchiveManifest, DynamoComponent, DynamoComponentStatus},
};
use controller_kit::{conditions::find, pods::JobWaits};
use k8s_openapi::api::batch::v1::Job;
use rendering::{Diagnosis, JobEnd};

use super::settings::BuildSettings;

/// A DynamoComponent, its image and its Jobs, at one moment.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The component.
    pub component: DynamoComponent,
    /// Name of the image, or the violation in the spec.
    pub image: Result<String, String>,
    /// Whether the registry has the image; `None` if it is not asked, or its answer changes nothing.
    pub exists: Option<Result<bool, Obstacle>>,
    /// Name of the Job that builds the present spec.
    pub job_name: String,
    /// The owned Job of that name.
    pub job: Option<Job>,
    /// Other owned Jobs: of earlier specs.
    pub other_jobs: Vec<Job>,
    /// The rendered Job; only if none exists and one is needed.
    pub rendered: Option<Result<Job, Obstacle>>,
    /// End of the log of a failed build.
    pub log: Option<Log>,
    /// Reason why the pod of the build does not run.
    pub waits: JobWaits,
    /// Facts about the manifest in the archive.
    pub manifest: ManifestRead,
}

/// Facts about the manifest that a pass found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestRead {
    /// The manifest, or why it cannot be read; `None` if the status stays as it is.
    pub outcome: Option<Result<ArchiveManifest, Obstacle>>,
    /// Longest delay until the next pass.
    pub retry_after: Option<Duration>,
}

/// End of a container's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Name of the container.
    pub container: String,
    /// The text.
    pub text: String,
}

/// Reason why the registry cannot be queried, or no Job rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The spec or the settings are invalid.
    Invalid(String),
    /// A login or a right is missing.
    Blocked(String),
    /// A server does not answer.
    Unreachable(String),
}

impl Obstacle {
    /// The text for users.
    pub fn message(&self) -> &str {
        match self {
            Self::Invalid(text) | Self::Blocked(text) | Self::Unreachable(text) => text,
        }
    }

    /// The phase of a build with this obstacle.
    pub fn phase(&self) -> BuildPhase {
        match self.clone() {
            Self::Invalid(text) => BuildPhase::Invalid(text),
            Self::Blocked(text) => BuildPhase::Blocked(text),
            Self::Unreachable(text) => BuildPhase::Unreachable(text),
        }
    }
}

/// Desired writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The Job to create.
    pub create: Option<Box<Job>>,
    /// Jobs to delete.
    pub delete: Vec<Job>,
    /// Phase after the writes.
    pub phase: BuildPhase,
}

/// Phase of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildPhase {
    /// The spec or the settings are invalid.
    Invalid(String),
    /// The registry, the API store or an admission webhook does not answer; retried with backoff.
    Unreachable(String),
    /// An object of another owner has the Job's name, or a right or a login is missing.
    Blocked(String),
    /// Other builds come first.
    Queued(String),
    /// The Job exists, or is being created.
    Building {
        /// Whether it has an active pod.
        active: bool,
        /// Reason why the pod does not run.
        diagnosis: Option<Diagnosis>,
    },
    /// The build failed.
    Failed {
        /// Whether it exceeded its deadline.
        late: bool,
        /// The Job, the cause, and the end of its log.
        message: String,
    },
    /// The registry has the image.
    Available,
}

/// Result of the writes.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Phase of the build.
    pub phase: BuildPhase,
    /// Whether a Job was created.
    pub created: bool,
    /// Backoff of a server that does not answer.
    pub backoff: Option<Duration>,
}

/// Whether a Job has completed or failed.
pub fn has_ended(job: &Job) -> bool {
    has_succeeded(job) || has_failed(job)
}

/// Whether a Job has completed.
pub fn has_succeeded(job: &Job) -> bool {
    JobEnd::Complete.of(job).is_some()
}

/// Whether a Job has failed.
pub fn has_failed(job: &Job) -> bool {
    JobEnd::Failed.of(job).is_some()
}

/// Name and version of what is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source<'a> {
    /// Name in the API store.
    pub name: &'a str,
    /// Version.
    pub version: &'a str,
}

/// Reads `name:version`, split at the first colon. None if one of them is missing.
pub fn source(component: &DynamoComponent) -> Option<Source<'_>> {
    let (name, version) = component.spec.dynamo_component.split_once(':')?;
    (!name.is_empty() && !version.is_empty()).then_some(Source { name, version })
}

/// The name of a component's image.
///
/// # Errors
/// The missing field, with its path.
pub fn image(component: &DynamoComponent, namespace: &str, settings: &BuildSettings) -> Result<String, String> {
    let source = source(component).ok_or_else(|| {
        format!("spec.dynamoComponent: {:?} is not of the form name:version", component.spec.dynamo_component)
    })?;
    if let Some(image) = component.spec.image.as_ref().filter(|image| !image.is_empty()) {
        return Ok(image.clone());
    }
    let Some(server) = settings.server.as_deref() else {
        let text = "spec.image is not set, and the operator has no registry; set spec.image, or DOCKER_REGISTRY_SERVER";
        return Err(text.to_owned());
    };
    let annotations = component.metadata.annotations.as_ref();
    let prefix =
        annotations.and_then(|all| all.get(annotations::STORAGE_NAMESPACE)).filter(|prefix| !prefix.is_empty());
    let prefix = prefix.map(String::as_str).or(settings.namespace_prefix.then_some(namespace));
    let tag = image_tag(prefix, source.name, source.version, if settings.estargz { ".esgz" } else { "" });
    Ok(format!("{}/{}:{tag}", server.trim_end_matches('/'), settings.repository))
}

/// Whether the status records that an image of this name exists.
pub fn is_known(live: &DynamoComponentStatus, image: &str) -> bool {
    find(&live.conditions, reason::EXISTS).is_some_and(|found| found.status == "True" && found.message == image)
}

/// Whether the status records that the registry had an image of this name.
pub fn was_found(live: &DynamoComponentStatus, image: &str) -> bool {
    find(&live.conditions, reason::CHECKED).is_some_and(|found| found.status == "True" && found.message == image)
}

/// Whether the status records that this Job built the image.
pub fn was_built_by(live: &DynamoComponentStatus, job: &str) -> bool {
    find(&live.conditions, reason::BUILDING).is_some_and(|found| found.status == "False" && found.message == job)
}

#[cfg(test)]
mod tests {
    use api_types::v1alpha1::DynamoComponentSpec;

    use super::*;

    fn named(what: &str) -> DynamoComponent {
        DynamoComponent::new("c", DynamoComponentSpec { dynamo_component: what.to_owned(), ..Default::default() })
    }

    fn settings(pairs: &'static [(&str, &str)]) -> BuildSettings {
        BuildSettings::read(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_image_is_named_as_by_the_upstream_operator() {
        let plain = settings(&[("DOCKER_REGISTRY_SERVER", "nvcr.io/team/")]);
        let name = |component: &DynamoComponent, settings: &BuildSettings| image(component, "ns", settings);
        let chat = named("chat:v1:x");
        assert_eq!(name(&chat, &plain).as_deref(), Ok("nvcr.io/team/dynamo-components:dynamo.chat.v1:x"));
        let all = settings(&[
            ("DOCKER_REGISTRY_SERVER", "r:5000"),
            ("ADD_NAMESPACE_PREFIX_TO_IMAGE_NAME", "true"),
            ("ESTARGZ_ENABLED", "true"),
        ]);
        assert_eq!(name(&named("chat:v1"), &all).as_deref(), Ok("r:5000/dynamo-components:dynamo.ns.chat.v1.esgz"));
        let mut stored = named("chat:v1");
        stored.metadata.annotations = Some([(annotations::STORAGE_NAMESPACE.to_owned(), "s".to_owned())].into());
        assert_eq!(name(&stored, &all).as_deref(), Ok("r:5000/dynamo-components:dynamo.s.chat.v1.esgz"));
        stored.spec.image = Some("mine:1".to_owned());
        assert_eq!(name(&stored, &all).as_deref(), Ok("mine:1"));
    }

    #[test]
    fn missing_fields_are_named() {
        let none = settings(&[]);
        assert!(image(&named("chat"), "ns", &none).unwrap_err().starts_with("spec.dynamoComponent"));
        assert!(image(&named("chat:1"), "ns", &none).unwrap_err().contains("DOCKER_REGISTRY_SERVER"));
    }

    /// The legacy operator cut 128 characters out of a shorter text and crashed.
    #[test]
    fn a_long_name_becomes_a_short_tag() {
        let plain = settings(&[("DOCKER_REGISTRY_SERVER", "r")]);
        let long = |end: &str| image(&named(&format!("{}:{end}", "n".repeat(200))), "ns", &plain).unwrap();
        let tag = |image: &str| image.rsplit_once(':').unwrap().1.to_owned();
        assert!(tag(&long("1")).len() <= 128);
        assert_ne!(long("1"), long("2"));
    }
}
