//! Checks whether a registry has an image.
//!
//! A tenant names the registry, and the registry names the server of tokens, so neither is trusted: answers are
//! bounded, redirects stay on their host, and addresses of the operator's node or of the cluster's internals are
//! rejected.

pub mod answer;

use std::{net::IpAddr, path::PathBuf, time::Duration};

use answer::{ManifestAnswer, manifest_answer, on_same_host, redirect, token, token_address};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Uri, header};
use oci_spec::distribution::Reference;
use outbound::{Limits, Outbound, Trust};

use self::answer::Challenge;
use crate::image_build::settings::KnownRegistries;

/// For all requests of one question.
const TIMEOUT: Duration = Duration::from_secs(15);
/// For each answer. Manifests are smaller.
const LIMITS: Limits = Limits { patience: TIMEOUT, longest: 1 << 20 };
/// Most redirects that are followed, all of them on one host.
const REDIRECTS: usize = 3;
/// Most characters of a server's message that are shown.
const MAX_MESSAGE: usize = 300;
/// Kinds of manifests.
const MANIFESTS: &str = "application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.oci.image.index.v1+json";

/// Reason why it is unknown whether a registry has an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The login may not see the image.
    #[error(
        "registry {registry} does not let the operator see {repository}{}; name a docker configuration Secret with a login for \
         {registry} in spec.dockerConfigJsonSecretName, or DOCKER_REGISTRY_SECRET_NAME for all",
        said(reason)
    )]
    Unauthorized {
        /// Host.
        registry: String,
        /// Repository of the image.
        repository: String,
        /// Message of the registry, if any.
        reason: String,
    },
    /// Only listed registries are queried without TLS.
    #[error(
        "registry {registry} is not asked without TLS; a cluster administrator can allow it by DOCKER_REGISTRY_INSECURE_HOSTS"
    )]
    Unlisted {
        /// Host.
        registry: String,
    },
    /// There is no usable answer.
    #[error("registry {registry}: {reason}")]
    Unreachable {
        /// Host.
        registry: String,
        /// The cause.
        reason: String,
    },
}

fn said(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
}

/// Name of an image, as given and parsed.
#[derive(Debug)]
pub struct ImageName {
    /// As given.
    pub image: String,
    reference: Reference,
}

impl ImageName {
    /// Reads the name of an image.
    ///
    /// # Errors
    /// The reason why it is no name of an image.
    pub fn read(image: String) -> Result<Self, String> {
        let read: Result<Reference, _> = image.parse();
        let reference = read.map_err(|error| format!("{image:?} is not the name of an image: {error}"))?;
        Ok(Self { image, reference })
    }
}

/// Queries registries.
#[derive(Clone, Debug, Default)]
pub struct Registries {
    /// File with authorities in PEM form that are trusted beside those of the machine. Read at each question: it may
    /// change.
    pub authorities: Option<PathBuf>,
    /// Registries that the cluster administrator lists.
    pub known: KnownRegistries,
    /// Addresses that only listed registries may have, beside those that lead to the machine itself: those of the API
    /// server.
    pub barred: Vec<IpAddr>,
}

impl Registries {
    /// Whether the registry of an image has it. `login` is shown to that registry, and to the server of tokens that it
    /// names.
    ///
    /// # Errors
    /// If it is not known.
    pub async fn has(
        &self,
        image: &ImageName,
        secure: bool,
        login: Option<(String, String)>,
    ) -> Result<bool, RegistryError> {
        let reference = &image.reference;
        let registry = reference.registry().to_owned();
        if !secure && !self.known.lists(reference.resolve_registry()) {
            return Err(RegistryError::Unlisted { registry });
        }
        let unreachable = |reason: String| RegistryError::Unreachable { registry: registry.clone(), reason };
        let authorities = self.authorities.clone();
        // Reads files, and authorities take their time.
        let client = tokio::task::spawn_blocking(move || client(authorities)).await;
        let client = client.unwrap_or_else(|error| Err(error.to_string())).map_err(unreachable)?;
        let question = RegistryQuestion { registries: self, client, reference, secure, login };
        let answer = tokio::time::timeout(TIMEOUT, question.ask()).await;
        answer.unwrap_or_else(|_| Err(unreachable(format!("no answer within {} s", TIMEOUT.as_secs()))))
    }
}

fn client(authorities: Option<PathBuf>) -> Result<Outbound, String> {
    let read = |path: PathBuf| {
        let content = std::fs::read(&path);
        content.map_err(|error| format!("DOCKER_REGISTRY_CA_FILE: {} cannot be read: {error}", path.display()))
    };
    let additional = authorities.map(read).transpose()?;
    Outbound::new(&Trust { additional, ..Trust::default() }).map_err(|error| error.to_string())
}

/// One question to one registry.
struct RegistryQuestion<'a> {
    registries: &'a Registries,
    client: Outbound,
    reference: &'a Reference,
    secure: bool,
    login: Option<(String, String)>,
}

impl RegistryQuestion<'_> {
    async fn ask(&self) -> Result<bool, RegistryError> {
        let authorization = self.authorize().await?;
        let name = self.reference.digest().or(self.reference.tag()).unwrap_or("latest");
        let manifest = format!("{}/v2/{}/manifests/{name}", self.host(), self.reference.repository());
        let answer = self.send(Method::HEAD, &manifest, authorization.as_ref()).await?;
        if answer.status().is_success() {
            return Ok(true);
        }
        // The answer to HEAD has no body, which would say why.
        let answer = self.send(Method::GET, &manifest, authorization.as_ref()).await?;
        self.evaluate(&answer)
    }

    /// The credentials that the version endpoint of the registry demands.
    async fn authorize(&self) -> Result<Option<HeaderValue>, RegistryError> {
        let answer = self.send(Method::GET, &format!("{}/v2/", self.host()), None).await?;
        match Challenge::of(answer.headers()) {
            None => Ok(None),
            Some(Challenge::Basic) => self.basic(),
            Some(Challenge::Bearer { realm, service }) => self.token(&realm, service.as_deref()).await.map(Some),
        }
    }

    async fn token(&self, realm: &str, service: Option<&str>) -> Result<HeaderValue, RegistryError> {
        let address = token_address(realm, service, self.reference.repository());
        let (uri, address) = address.ok_or_else(|| self.unreachable("its token server has no address"))?;
        if uri.scheme_str() != Some(self.scheme()) {
            return Err(self.unreachable(&format!("its token server is not one of {}", self.scheme())));
        }
        let answer = self.send(Method::GET, &address, self.basic()?.as_ref()).await?;
        if !answer.status().is_success() {
            // The message of the token server is not shown: the registry may name any server.
            return Err(self.unauthorized(""));
        }
        token(answer.body()).ok_or_else(|| self.unreachable("its token server gave no token"))
    }

    fn basic(&self) -> Result<Option<HeaderValue>, RegistryError> {
        let Some((user, password)) = &self.login else { return Ok(None) };
        let value = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))));
        value.map(Some).map_err(|_| self.unreachable("the login cannot be sent"))
    }

    /// Sends a request, and follows redirects on the same host.
    async fn send(
        &self,
        method: Method,
        address: &str,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response<Bytes>, RegistryError> {
        let mut address: Uri = address.parse().map_err(|_| self.unreachable("its address cannot be used"))?;
        for _ in 0..=REDIRECTS {
            let mut request = Request::builder().method(method.clone()).uri(&address).header(header::ACCEPT, MANIFESTS);
            let agent = concat!("dynamo-", env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
            request = request.header(header::USER_AGENT, agent);
            if let Some(authorization) = authorization {
                request = request.header(header::AUTHORIZATION, authorization);
            }
            let request = request.body(Bytes::new()).map_err(|error| self.unreachable(&error.to_string()))?;
            let listed = address.authority().is_some_and(|host| self.registries.known.lists(host.as_str()));
            let client = match listed {
                true => self.client.clone(),
                false => self.client.clone().only_outside(&self.registries.barred),
            };
            let answer = client.send(request, LIMITS).await.map_err(|error| self.unreachable(&error.to_string()))?;
            let Some(next) = redirect(&answer) else { return Ok(answer) };
            address = on_same_host(&address, next).ok_or_else(|| self.unreachable("it redirects to another server"))?;
        }
        Err(self.unreachable("it redirects again and again"))
    }

    /// Whether the registry has the image, by its answer.
    fn evaluate(&self, answer: &Response<Bytes>) -> Result<bool, RegistryError> {
        match manifest_answer(answer) {
            ManifestAnswer::Present => Ok(true),
            ManifestAnswer::Absent => Ok(false),
            ManifestAnswer::Unauthorized(reason) => Err(self.unauthorized(&reason)),
            ManifestAnswer::Unclear(status) => Err(self.unreachable(&format!("it answered {status}"))),
        }
    }

    fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    fn host(&self) -> String {
        format!("{}://{}", self.scheme(), self.reference.resolve_registry())
    }

    fn unreachable(&self, reason: &str) -> RegistryError {
        RegistryError::Unreachable { registry: self.reference.registry().to_owned(), reason: one_line(reason) }
    }

    fn unauthorized(&self, reason: &str) -> RegistryError {
        RegistryError::Unauthorized {
            registry: self.reference.registry().to_owned(),
            repository: self.reference.repository().to_owned(),
            reason: one_line(reason),
        }
    }
}

/// A message of a server in one line of limited length.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_MESSAGE).collect()
}

#[cfg(test)]
mod tests;
