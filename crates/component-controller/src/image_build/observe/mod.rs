//! Reads everything that an image build depends on: Jobs, the registry, the API store, and pods and logs of builds.

mod log;
pub mod registry;

use std::{
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use api_types::{
    annotations, labels, names,
    v1alpha1::{ArchiveManifest, DynamoComponent},
};
use bytes::Bytes;
use controller_kit::{
    failure::ErrorType,
    pods::{JobWaits, PodDiagnostics},
    pull_secrets::DATA_KEY,
    request::{Interruption, find, read},
    store::{Key, Packed, Store},
};
use http::{Method, Request, Uri};
use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Secret, ServiceAccount},
};
use kube::{Api, Client, ResourceExt, core::PartialObjectMeta};
use outbound::{Limits, Outbound, OutboundError};
pub use registry::Registries;
use registry::answer::login;
use rendering::{JobEnd, PodDiagnosis, RegistryHost};
use serde_json::{Value, json};

use super::{
    image::{ImageName, is_known, source, was_built_by, was_found},
    job::{self, docker_secret},
    manifest::{self, ReadSlots},
    model::{ImageBuildObserved, ImageBuildObstacle, ManifestRead, has_succeeded},
    settings::{BuildSettings, CONFIG_MAP, Defaults},
    validate::{validate, validate_lookup},
};

/// A value, or why there is none. An interruption ends the pass.
type OrObstacle<T> = Result<Result<T, ImageBuildObstacle>, Interruption>;

/// Limits of a request to an API store.
const LIMITS: Limits = Limits { patience: Duration::from_secs(15), longest: 1 << 20 };

/// Reads the caches, the API server, registries and API stores.
pub struct ImageBuildObserver {
    /// For what no cache holds.
    pub client: Client,
    /// Jobs that build images.
    pub jobs: Store<Packed<Job>>,
    /// Accounts that administrators labelled for builds.
    pub accounts: Store<PartialObjectMeta<ServiceAccount>>,
    /// The operator's settings.
    pub settings: Arc<BuildSettings>,
    /// For API stores and archives. Made for the first of them: the authorities of the machine take half a megabyte.
    pub outbound: LazyLock<Result<Outbound, OutboundError>>,
    /// For registries.
    pub registries: Registries,
    /// Limits reads of manifests.
    pub manifests: ReadSlots,
    /// Diagnoses pods that do not start.
    pub pods: PodDiagnostics<PodDiagnosis>,
}

impl ImageBuildObserver {
    /// Observes one component.
    ///
    /// # Errors
    /// An unreadable cached Job, or a failed request to the API server.
    pub async fn observe(&self, component: DynamoComponent) -> Result<ImageBuildObserved, Interruption> {
        let (namespace, uid) = (component.namespace().unwrap_or_default(), component.uid().unwrap_or_default());
        let named = validate(&component, &namespace, &self.settings);
        let image = named.as_ref().map(|named| named.image.as_str()).unwrap_or_default();
        let job_name = names::image_build_job(&uid, &self.fingerprint(&component, image));
        let jobs = self.jobs.children_of(&uid);
        let jobs = jobs.iter().map(|packed| packed.unpack()).collect::<Result<Vec<_>, _>>()?;
        let (mut own, other_jobs): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.name_any() == job_name);
        let job = own.pop();
        let (mut log, mut waits) = (None, JobWaits::default());
        if let Some(job) = &job {
            if JobEnd::Failed.of(job).is_some() {
                log = log::of_failed(&self.client, &namespace, &job_name).await;
            }
            waits = self.pods.waits_of_job(job, Timestamp::now()).await;
        }
        let manifest = self.manifest(&component).await;
        let (mut exists, mut rendered) = (None, None);
        if let Ok(named) = &named {
            let built = job.as_ref().is_some_and(has_succeeded);
            if job.is_none() || built {
                exists = self.exists(&component, &namespace, named, &job_name, built).await?;
            }
            if job.is_none() && exists == Some(Ok(false)) {
                rendered = Some(self.render(&component, &namespace, &named.image, &job_name).await?);
            }
        }
        let image = named.map(|named| named.image);
        Ok(ImageBuildObserved { component, image, exists, job_name, job, other_jobs, rendered, log, waits, manifest })
    }

    /// Everything that the built image depends on. Another fingerprint makes another Job.
    fn fingerprint(&self, component: &DynamoComponent, image: &str) -> String {
        let annotations = component.annotations();
        let annotations =
            [annotations::INSECURE_REGISTRY, annotations::STORAGE_NAMESPACE].map(|key| annotations.get(key));
        let forced = is_forced(component);
        json!([component.spec, annotations, forced, image]).to_string()
    }

    /// Queries the registry, unless a build is forced. `built` says that the Job exists and succeeded. A recorded image
    /// counts while the registry does not answer, and where it never reported the image: only an image that it had
    /// reported can be gone.
    async fn exists(
        &self,
        component: &DynamoComponent,
        namespace: &str,
        named: &ImageName,
        job: &str,
        built: bool,
    ) -> Result<Option<Result<bool, ImageBuildObstacle>>, Interruption> {
        let live = component.status.clone().unwrap_or_default();
        let known = built || is_known(&live, &named.image);
        if is_forced(component) {
            return Ok(if built || (known && was_built_by(&live, job)) { None } else { Some(Ok(false)) });
        }
        let before = KnownSource {
            known,
            found: was_found(&live, &named.image),
            nodes_log_in: job::nodes_log_in(component, &named.image, &self.settings),
        };
        Ok(evaluate(self.ask_registry(component, namespace, named).await?, before))
    }

    async fn ask_registry(&self, component: &DynamoComponent, namespace: &str, named: &ImageName) -> OrObstacle<bool> {
        let login = match docker_secret(component, &self.settings) {
            None => None,
            Some(name) => match self.docker_config(namespace, name).await? {
                Ok(config) => config.and_then(|config| login(&config, &RegistryHost::of_image(&named.image))),
                Err(obstacle) => return Ok(Err(obstacle)),
            },
        };
        let secure = !job::is_insecure(component, &self.settings);
        Ok(self.registries.has(named, secure, login).await)
    }

    /// Reads the content of a docker configuration Secret.
    async fn docker_config(&self, namespace: &str, name: &str) -> OrObstacle<Option<Vec<u8>>> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        match find(name, || format!("read Secret {namespace}/{name}"), api.get_opt(name)).await {
            Ok(None) => {
                Ok(Err(ImageBuildObstacle::Blocked(format!("Secret {namespace}/{name} does not exist; create it"))))
            }
            Ok(Some(secret)) => Ok(Ok(secret.data.and_then(|mut data| data.remove(DATA_KEY)).map(|data| data.0))),
            Err(error) if error.error_type() == ErrorType::Forbidden => {
                let text = format!(
                    "the operator may not read Secret {namespace}/{name}, with which it would look up the image; let the \
                     component controller's ServiceAccount get it by a Role in namespace {namespace}, or install the chart with \
                     dynamo-operator.imagePullSecretDiscovery.enabled=true"
                );
                Ok(Err(ImageBuildObstacle::Blocked(text)))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn render(&self, component: &DynamoComponent, namespace: &str, image: &str, name: &str) -> OrObstacle<Job> {
        let defaults = match self.defaults().await? {
            Ok(defaults) => defaults,
            Err(obstacle) => return Ok(Err(obstacle)),
        };
        let download = match self.download(component).await {
            Ok(download) => download,
            Err(obstacle) => return Ok(Err(obstacle)),
        };
        let accounts = self.accounts.in_namespace(namespace);
        let account = accounts.iter().map(|account| account.name_any()).min();
        let input = job::Input {
            component,
            name,
            namespace,
            image,
            download: &download,
            account: account.as_deref(),
            defaults: &defaults,
            settings: &self.settings,
        };
        Ok(job::render(input).map_err(ImageBuildObstacle::Invalid))
    }

    /// Defaults of all builds. Without the ConfigMap, or its namespace, there are none.
    async fn defaults(&self) -> OrObstacle<Defaults> {
        let Some(namespace) = self.settings.defaults_namespace.as_deref() else { return Ok(Ok(Defaults::default())) };
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let found = read(|| format!("read ConfigMap {namespace}/{CONFIG_MAP}"), api.get_opt(CONFIG_MAP)).await?;
        let defaults = Defaults::read(&found.and_then(|found| found.data).unwrap_or_default());
        Ok(defaults.map_err(ImageBuildObstacle::Invalid))
    }

    /// Reads the manifest of the archive, if it is due.
    async fn manifest(&self, component: &DynamoComponent) -> ManifestRead {
        if !manifest::is_due(component) {
            return ManifestRead::default();
        }
        let (key, generation) = (Key::of(component), component.metadata.generation);
        let _slot = match self.manifests.try_acquire(&key, generation, Instant::now()) {
            Ok(slot) => slot,
            Err(pause) => return ManifestRead { outcome: None, retry_after: Some(pause) },
        };
        let outcome = self.read_manifest(component).await;
        let mut retry_after = None;
        match &outcome {
            Err(ImageBuildObstacle::Unreachable(_)) => {
                retry_after = Some(self.manifests.failed(&key, generation, Instant::now()));
            }
            _ => self.manifests.clear(&key),
        }
        ManifestRead { outcome: Some(outcome), retry_after }
    }

    async fn read_manifest(&self, component: &DynamoComponent) -> Result<ArchiveManifest, ImageBuildObstacle> {
        validate_lookup(component)?;
        // A missing setting is no property of the generation.
        let address = self.download(component).await.map_err(|obstacle| match obstacle {
            ImageBuildObstacle::Invalid(text) => ImageBuildObstacle::Blocked(text),
            other => other,
        })?;
        manifest::check_scheme(&address)?;
        // The query may hold a signature.
        let shown = without_login(address.split('?').next().unwrap_or_default());
        let uri: Uri =
            address.parse().map_err(|error| ImageBuildObstacle::Invalid(format!("archive {shown}: {error}")))?;
        let store: Option<Uri> = self.settings.api_store.as_ref().and_then(|store| store.parse().ok());
        let is_store = store.is_some_and(|it| (it.scheme(), it.authority()) == (uri.scheme(), uri.authority()));
        let client = self.outbound.as_ref();
        let client = client.map_err(|error| ImageBuildObstacle::Unreachable(error.to_string()))?.clone();
        let client = if is_store { client } else { client.only_outside(&self.registries.barred) };
        manifest::read(&client, &uri, &shown).await
    }

    /// Address of the archive: of the spec, or of the API store.
    async fn download(&self, component: &DynamoComponent) -> Result<String, ImageBuildObstacle> {
        if let Some(url) = component.spec.download_url.as_ref().filter(|url| !url.is_empty()) {
            return Ok(url.clone());
        }
        let (Some((name, version)), Some(store)) = (source(component), self.settings.api_store.as_deref()) else {
            let text = "spec.downloadUrl is not set, and the operator has no API store; set spec.downloadUrl, or API_STORE_ENDPOINT";
            return Err(ImageBuildObstacle::Invalid(text.to_owned()));
        };
        validate_lookup(component)?;
        let version = format!("{store}/api/v1/dynamo_components/{name}/versions/{version}");
        let unreachable = |why: String| ImageBuildObstacle::Unreachable(format!("API store: {why}"));
        let answer = self.ask_store(Method::GET, &version).await.map_err(unreachable)?;
        if answer.get("transmission_strategy").and_then(Value::as_str) != Some("presigned_url") {
            return Ok(format!("{version}/download"));
        }
        let address = format!("{version}/presign_download_url");
        let answer = self.ask_store(Method::PATCH, &address).await.map_err(unreachable)?;
        let url = answer.get("presigned_download_url").and_then(Value::as_str).filter(|url| !url.is_empty());
        url.map(str::to_owned).ok_or_else(|| unreachable(format!("{} gave no address", without_login(&address))))
    }

    async fn ask_store(&self, method: Method, url: &str) -> Result<Value, String> {
        let request =
            Request::builder().method(method).uri(url).body(Bytes::new()).map_err(|error| error.to_string())?;
        let client = self.outbound.as_ref().map_err(ToString::to_string)?;
        let answer = client.send(request, LIMITS).await.map_err(|error| error.to_string())?;
        if !answer.status().is_success() {
            return Err(format!("{} answered {}", without_login(url), answer.status()));
        }
        serde_json::from_slice(answer.body())
            .map_err(|error| format!("{} answered no JSON: {error}", without_login(url)))
    }
}

/// An address as messages show it: without user and password.
fn without_login(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.split('/').next().unwrap_or_default();
            let login = host.rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[login..])
        }
        None => url.to_owned(),
    }
}

/// Facts that are known before a registry answers.
#[derive(Clone, Copy, Debug)]
struct KnownSource {
    /// Whether the status records that the image exists.
    known: bool,
    /// Whether the registry reported it.
    found: bool,
    /// Whether nodes may push it without a Secret, and the operator, which queries without one, need not be let in.
    nodes_log_in: bool,
}

/// The meaning of an answer. Where only nodes may log in, the image is built: an existing one is replaced by an equal
/// one.
fn evaluate(answer: Result<bool, ImageBuildObstacle>, before: KnownSource) -> Option<Result<bool, ImageBuildObstacle>> {
    if before.nodes_log_in && matches!(answer, Err(ImageBuildObstacle::Blocked(_))) {
        return (!before.known).then_some(Ok(false));
    }
    let gone = answer == Ok(false) && before.found;
    (!before.known || gone || answer == Ok(true)).then_some(answer)
}

fn is_forced(component: &DynamoComponent) -> bool {
    component.annotations().get(annotations::FORCE_BUILD).is_some_and(|value| value == labels::TRUE)
}

#[cfg(test)]
mod tests;
