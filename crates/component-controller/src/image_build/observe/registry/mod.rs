//! Checks whether a registry has an image.
//!
//! A tenant names the registry, and the registry names the server of tokens, so neither is trusted: answers are
//! bounded, redirects stay on their host, and addresses of the operator's node or of the cluster's internals are
//! rejected.

pub mod answer;

use std::{net::IpAddr, path::PathBuf, time::Duration};

use answer::{manifest_answer, on_same_host, redirect, token, token_address};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Uri, header};
use oci_spec::distribution::Reference;
use outbound::{Limits, Outbound, Trust};

use self::answer::Challenge;
use crate::image_build::{image::ImageName, model::ImageBuildObstacle, settings::KnownRegistries};

/// For all requests of one query.
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
    ) -> Result<bool, ImageBuildObstacle> {
        let reference = &image.reference;
        let registry = reference.registry();
        if !secure && !self.known.lists(reference.resolve_registry()) {
            // Only listed registries are queried without TLS.
            return Err(ImageBuildObstacle::Blocked(format!(
                "registry {registry} is not contacted without TLS; a cluster administrator can allow it by \
                 DOCKER_REGISTRY_INSECURE_HOSTS"
            )));
        }
        let unreachable = |reason: String| ImageBuildObstacle::Unreachable(format!("registry {registry}: {reason}"));
        let authorities = self.authorities.clone();
        // Reads files, and authorities take their time.
        let client = tokio::task::spawn_blocking(move || client(authorities)).await;
        let client = client.unwrap_or_else(|error| Err(error.to_string())).map_err(unreachable)?;
        let query = RegistryQuery { registries: self, client, reference, secure, login };
        let answer = tokio::time::timeout(TIMEOUT, query.has_image()).await;
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

/// One query of one registry.
struct RegistryQuery<'a> {
    registries: &'a Registries,
    client: Outbound,
    reference: &'a Reference,
    secure: bool,
    login: Option<(String, String)>,
}

impl RegistryQuery<'_> {
    async fn has_image(&self) -> Result<bool, ImageBuildObstacle> {
        let authorization = self.authorize().await?;
        let name = self.reference.digest().or(self.reference.tag()).unwrap_or("latest");
        let manifest = format!("{}/v2/{}/manifests/{name}", self.host(), self.reference.repository());
        let answer = self.send(Method::HEAD, &manifest, authorization.as_ref()).await?;
        if answer.status().is_success() {
            return Ok(true);
        }
        // The answer to HEAD has no body, which would say why.
        let answer = self.send(Method::GET, &manifest, authorization.as_ref()).await?;
        manifest_answer(&answer).map_err(|rejection| match rejection {
            Some(reason) => self.unauthorized(&reason),
            None => self.unreachable(&format!("it answered {}", answer.status().as_u16())),
        })
    }

    /// The credentials that the version endpoint of the registry demands.
    async fn authorize(&self) -> Result<Option<HeaderValue>, ImageBuildObstacle> {
        let answer = self.send(Method::GET, &format!("{}/v2/", self.host()), None).await?;
        match Challenge::of(answer.headers()) {
            None => Ok(None),
            Some(Challenge::Basic) => self.basic(),
            Some(Challenge::Bearer { realm, service }) => self.token(&realm, service.as_deref()).await.map(Some),
        }
    }

    async fn token(&self, realm: &str, service: Option<&str>) -> Result<HeaderValue, ImageBuildObstacle> {
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

    fn basic(&self) -> Result<Option<HeaderValue>, ImageBuildObstacle> {
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
    ) -> Result<Response<Bytes>, ImageBuildObstacle> {
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
            let client = self.client.clone();
            let client = if listed { client } else { client.only_outside(&self.registries.barred) };
            let answer = client.send(request, LIMITS).await.map_err(|error| self.unreachable(&error.to_string()))?;
            let Some(next) = redirect(&answer) else { return Ok(answer) };
            address = on_same_host(&address, next).ok_or_else(|| self.unreachable("it redirects to another server"))?;
        }
        Err(self.unreachable("it redirects again and again"))
    }

    fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    fn host(&self) -> String {
        format!("{}://{}", self.scheme(), self.reference.resolve_registry())
    }

    fn unreachable(&self, reason: &str) -> ImageBuildObstacle {
        let registry = self.reference.registry();
        ImageBuildObstacle::Unreachable(format!("registry {registry}: {}", one_line(reason)))
    }

    /// The login may not see the image. `reason` is the message of the registry, if any.
    fn unauthorized(&self, reason: &str) -> ImageBuildObstacle {
        let (registry, repository) = (self.reference.registry(), self.reference.repository());
        let reason = one_line(reason);
        let said = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        ImageBuildObstacle::Blocked(format!(
            "registry {registry} does not let the operator see {repository}{said}; name a docker configuration Secret \
             with a login for {registry} in spec.dockerConfigJsonSecretName, or DOCKER_REGISTRY_SECRET_NAME for all"
        ))
    }
}

/// A message of a server in one line of limited length.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_MESSAGE).collect()
}

#[cfg(test)]
mod tests;
