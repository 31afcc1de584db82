//! I/O in: one snapshot of everything that a decision on an image build needs.

use super::{
    decide::{Hindrance, Observed, has_ended, has_failed},
    defaults::{CONFIG_MAP, Defaults},
    image::{image, source},
    job::{self, BUILDER, docker_secret},
    registry::{Challenge, Reference, basic, login},
    settings::BuildSettings,
    status::{is_known, was_built_by},
};
use api_types::v1alpha1::DynamoComponent;
use api_types::{annotations, labels, names};
use bytes::Bytes;
use controller_kit::{
    pull_secrets::DATA_KEY,
    read::{Interruption, read},
    store::{Packed, Store},
};
use http::{HeaderValue, Method, Request, Response, header};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Pod, Secret, ServiceAccount},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, LogParams},
    core::PartialObjectMeta,
};
use outbound::{Limits, Outbound};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// For one question to a registry or an API store.
const LIMITS: Limits = Limits { patience: Duration::from_secs(15), longest: 1 << 20 };
/// Forms of manifests, of which a registry shows the one it has.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
                         application/vnd.docker.distribution.manifest.list.v2+json, \
                         application/vnd.docker.distribution.manifest.v2+json";
/// How much of a log is shown.
const LOG_LINES: i64 = 20;
const LOG_BYTES: usize = 2000;

/// The caches that decisions rest on.
#[derive(Clone)]
pub struct Caches {
    /// Jobs that build images.
    pub jobs: Store<Packed<Job>>,
    /// Accounts that administrators labelled for builds.
    pub accounts: Store<PartialObjectMeta<ServiceAccount>>,
}

/// The caches, and what reads elsewhere.
pub struct Observer {
    /// Reads what no cache holds.
    pub client: Client,
    /// The caches.
    pub caches: Caches,
    /// The operator's settings.
    pub settings: Arc<BuildSettings>,
    /// Asks registries and API stores.
    pub outbound: Outbound,
}

impl Observer {
    /// The snapshot for one component.
    ///
    /// # Errors
    /// A cached child that cannot be read, or an API server that does not answer.
    pub async fn observe(&self, component: &DynamoComponent) -> Result<Observed, Interruption> {
        let (namespace, uid) = (component.namespace().unwrap_or_default(), component.uid().unwrap_or_default());
        let image = image(component, &namespace, &self.settings);
        let image = image.and_then(|image| job::timeout(component).map(|_| image));
        let job_name = names::image_build_job(&uid, &self.fingerprint(component, image.as_deref().unwrap_or_default()));
        let mut observed = Observed {
            image,
            exists: None,
            job: None,
            other_jobs: Vec::new(),
            rendered: None,
            running: self
                .caches
                .jobs
                .all()
                .iter()
                .filter_map(|job| job.unpack().ok())
                .filter(|j| !has_ended(j))
                .count(),
            most: self.settings.most_builds,
            log: None,
            job_name,
        };
        for packed in self.caches.jobs.children_of(&uid) {
            let found = packed.unpack()?;
            match found.name_any() == observed.job_name {
                true => observed.job = Some(found),
                false => observed.other_jobs.push(found),
            }
        }
        if let Some(job) = observed.job.as_ref().filter(|job| has_failed(job)) {
            observed.log = self.log(&namespace, &job.name_any()).await;
        }
        let Ok(image) = observed.image.clone() else { return Ok(observed) };
        if observed.job.is_none() {
            observed.exists = self.exists(component, &namespace, &image, &observed.job_name).await?;
        }
        if observed.exists == Some(Ok(false)) {
            observed.rendered = Some(self.render(component, &namespace, &image, &observed.job_name).await?);
        }
        Ok(observed)
    }

    /// What decides which image comes out. Another one of it makes another Job.
    fn fingerprint(&self, component: &DynamoComponent, image: &str) -> String {
        let annotations = component.annotations();
        let annotations =
            [annotations::INSECURE_REGISTRY, annotations::STORAGE_NAMESPACE].map(|key| annotations.get(key));
        let forced = is_forced(component);
        json!([component.spec, annotations, forced, image]).to_string()
    }

    /// Asks the registry, unless the answer is known or an image is wanted in any case.
    async fn exists(
        &self,
        component: &DynamoComponent,
        namespace: &str,
        image: &str,
        job: &str,
    ) -> Result<Option<Result<bool, String>>, Interruption> {
        let live = component.status.clone().unwrap_or_default();
        let known = is_known(&live, image);
        if is_forced(component) {
            return Ok(if known && was_built_by(&live, job) { None } else { Some(Ok(false)) });
        }
        if known {
            return Ok(None);
        }
        let Some(reference) = Reference::read(image) else {
            return Ok(Some(Err(format!("{image} is not the name of an image"))));
        };
        let login = match docker_secret(component, &self.settings) {
            None => None,
            Some(name) => {
                let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
                let secret = read(|| format!("read Secret {namespace}/{name}"), api.get_opt(name)).await?;
                let Some(secret) = secret else {
                    return Ok(Some(Err(format!("Secret {namespace}/{name} does not exist; create it"))));
                };
                let config = secret.data.and_then(|mut data| data.remove(DATA_KEY));
                config.and_then(|config| login(&config.0, &reference.registry))
            }
        };
        let insecure = component.annotations().get(annotations::INSECURE_REGISTRY).is_some_and(|v| v == labels::TRUE);
        let url = reference.manifest(self.settings.secure && !insecure);
        Ok(Some(self.has_manifest(&url, login.as_ref()).await.map_err(|why| format!("registry: {why}"))))
    }

    async fn has_manifest(&self, url: &str, login: Option<&(String, String)>) -> Result<bool, String> {
        let mut answer = self.ask(Method::HEAD, url, None).await?;
        if answer.status() == http::StatusCode::UNAUTHORIZED {
            let challenge = answer.headers().get(header::WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
            let authorization = match challenge.and_then(Challenge::read) {
                Some(Challenge::Basic) => basic(login.ok_or(format!("{url} asks for a password, and there is none"))?),
                Some(Challenge::Bearer(address)) => self.token(&address, login).await?,
                None => return Err(format!("{url} asks for what the operator does not know")),
            };
            answer = self.ask(Method::HEAD, url, Some(&authorization)).await?;
        }
        match answer.status() {
            status if status.is_success() => Ok(true),
            http::StatusCode::NOT_FOUND => Ok(false),
            status => Err(format!("{url} answered {status}")),
        }
    }

    async fn token(&self, address: &str, login: Option<&(String, String)>) -> Result<String, String> {
        let answer = self.ask(Method::GET, address, login.map(basic).as_deref()).await?;
        let value: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        let token = value.get("token").or_else(|| value.get("access_token")).and_then(Value::as_str);
        let token = token.filter(|_| answer.status().is_success());
        token
            .map(|token| format!("Bearer {token}"))
            .ok_or_else(|| format!("{address} gave no token: {}", answer.status()))
    }

    async fn ask(&self, method: Method, url: &str, authorization: Option<&str>) -> Result<Response<Bytes>, String> {
        let mut request = Request::builder().method(method).uri(url).header(header::ACCEPT, MANIFESTS);
        if let Some(authorization) = authorization {
            let mut value =
                HeaderValue::try_from(authorization).map_err(|_| "credentials cannot be sent".to_owned())?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        let request = request.body(Bytes::new()).map_err(|error| error.to_string())?;
        self.outbound.send(request, LIMITS).await.map_err(|error| error.to_string())
    }

    async fn render(
        &self,
        component: &DynamoComponent,
        namespace: &str,
        image: &str,
        name: &str,
    ) -> Result<Result<Job, Hindrance>, Interruption> {
        let defaults = match self.defaults().await? {
            Ok(defaults) => defaults,
            Err(mistake) => return Ok(Err(Hindrance::Mistake(mistake))),
        };
        let download = match self.download(component).await {
            Ok(download) => download,
            Err(hindrance) => return Ok(Err(hindrance)),
        };
        let accounts = self.caches.accounts.all();
        let accounts = accounts.iter().filter(|account| account.namespace().as_deref() == Some(namespace));
        let account = accounts.map(|account| account.name_any()).min();
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
        Ok(job::render(input).map_err(Hindrance::Mistake))
    }

    /// Defaults of all builds. Without the ConfigMap, or a namespace to look for it in, there are none.
    async fn defaults(&self) -> Result<Result<Defaults, String>, Interruption> {
        let Some(namespace) = self.settings.defaults_namespace.as_deref() else { return Ok(Ok(Defaults::default())) };
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let found = read(|| format!("read ConfigMap {namespace}/{CONFIG_MAP}"), api.get_opt(CONFIG_MAP)).await?;
        Ok(Defaults::read(&found.and_then(|found| found.data).unwrap_or_default()))
    }

    /// Where the archive is: the author says, or the API store does.
    async fn download(&self, component: &DynamoComponent) -> Result<String, Hindrance> {
        if let Some(url) = component.spec.download_url.as_ref().filter(|url| !url.is_empty()) {
            return Ok(url.clone());
        }
        let (Some(source), Some(store)) = (source(component), self.settings.api_store.as_deref()) else {
            let text = "spec.downloadUrl is not set, and the operator has no API store; set spec.downloadUrl, or API_STORE_ENDPOINT";
            return Err(Hindrance::Mistake(text.to_owned()));
        };
        let version = format!("{store}/api/v1/dynamo_components/{}/versions/{}", source.name, source.version);
        let unreachable = |why: String| Hindrance::Unreachable(format!("API store: {why}"));
        let told = self.ask_store(Method::GET, &version).await.map_err(unreachable)?;
        if told.get("transmission_strategy").and_then(Value::as_str) != Some("presigned_url") {
            return Ok(format!("{version}/download"));
        }
        let address = format!("{version}/presign_download_url");
        let told = self.ask_store(Method::PATCH, &address).await.map_err(unreachable)?;
        let url = told.get("presigned_download_url").and_then(Value::as_str).filter(|url| !url.is_empty());
        url.map(str::to_owned).ok_or_else(|| unreachable(format!("{address} gave no address")))
    }

    async fn ask_store(&self, method: Method, url: &str) -> Result<Value, String> {
        let answer = self.ask(method, url, None).await?;
        if !answer.status().is_success() {
            return Err(format!("{url} answered {}", answer.status()));
        }
        serde_json::from_slice(answer.body()).map_err(|error| format!("{url} answered no JSON: {error}"))
    }

    /// The end of the log of a Job's newest pod, as far as it can be had.
    async fn log(&self, namespace: &str, job: &str) -> Option<String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let selector = ListParams::default().labels(&format!("{}={job}", labels::JOB_NAME));
        let found = read(|| format!("list pods of Job {namespace}/{job}"), pods.list(&selector)).await.ok()?;
        let newest = found.items.into_iter().max_by_key(|pod| pod.metadata.creation_timestamp.clone())?;
        let parameters =
            LogParams { container: Some(BUILDER.to_owned()), tail_lines: Some(LOG_LINES), ..LogParams::default() };
        let name = newest.name_any();
        let log =
            read(|| format!("read the log of pod {namespace}/{name}"), pods.logs(&name, &parameters)).await.ok()?;
        let log = log.trim_end();
        let from = log.char_indices().rev().nth(LOG_BYTES).map_or(0, |(index, _)| index);
        log.get(from..).map(str::to_owned)
    }
}

fn is_forced(component: &DynamoComponent) -> bool {
    component.annotations().get(annotations::FORCE_BUILD).is_some_and(|value| value == labels::TRUE)
}

#[cfg(test)]
#[path = "observe_tests.rs"]
mod tests;
