//! Asks a registry whether it has an image: one question to a server outside.
//!
//! A tenant names the registry, and the registry names the server of tokens, so neither is trusted: answers are bounded, redirects stay
//! on their host, and addresses that reach the operator's own machine or the cluster's internals are refused.

mod challenge;

use super::super::settings::KnownRegistries;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use challenge::Challenge;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use oci_spec::distribution::Reference;
use outbound::{Limits, Outbound, Trust};
use serde_json::Value;
use std::{net::IpAddr, path::PathBuf, time::Duration};
use workload::RegistryHost;

/// For all that one question takes.
const PATIENCE: Duration = Duration::from_secs(15);
/// For each answer. Manifests are smaller.
const LIMITS: Limits = Limits { patience: PATIENCE, longest: 1 << 20 };
/// Redirects that are followed, all of them on one host.
const REDIRECTS: usize = 3;
/// How much is shown of what a server says.
const LONGEST_WORDS: usize = 300;
/// Kinds of manifests.
const MANIFESTS: &str = "application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.oci.image.index.v1+json";

/// Why it is not known whether a registry has an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// Whoever asked may not see it.
    #[error(
        "registry {registry} does not let the operator see {repository}{}; name a docker configuration Secret with a login for \
         {registry} in spec.dockerConfigJsonSecretName, or DOCKER_REGISTRY_SECRET_NAME for all",
        said(reason)
    )]
    Unauthorised {
        /// Host.
        registry: String,
        /// What was asked for.
        repository: String,
        /// What the registry says, if anything.
        reason: String,
    },
    /// Only registries that the cluster administrator lists are asked without TLS.
    #[error(
        "registry {registry} is not asked without TLS; a cluster administrator can allow it by DOCKER_REGISTRY_INSECURE_HOSTS"
    )]
    Unlisted {
        /// Host.
        registry: String,
    },
    /// There is no answer, or none that helps.
    #[error("registry {registry}: {reason}")]
    Unreachable {
        /// Host.
        registry: String,
        /// Why not.
        reason: String,
    },
}

fn said(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
}

/// An image that can be asked for: its name as given, and as registries read it.
#[derive(Debug)]
pub struct Named {
    /// As given.
    pub image: String,
    reference: Reference,
}

impl Named {
    /// Reads the name of an image.
    ///
    /// # Errors
    /// It is none, with the reason.
    pub fn read(image: String) -> Result<Self, String> {
        let read: Result<Reference, _> = image.parse();
        let reference = read.map_err(|error| format!("{image:?} is not the name of an image: {error}"))?;
        Ok(Self { image, reference })
    }
}

/// Asks registries.
#[derive(Clone, Debug, Default)]
pub struct Registries {
    /// File with authorities in PEM form that are trusted beside those of the machine. Read at each question: it may change.
    pub authorities: Option<PathBuf>,
    /// Registries that the cluster administrator lists.
    pub known: KnownRegistries,
    /// Addresses that only listed registries may have, beside those that lead to the machine itself: those of the API server.
    pub barred: Vec<IpAddr>,
}

impl Registries {
    /// Whether the registry of an image has it. `login` is shown to that registry, and to the server of tokens that it names.
    ///
    /// # Errors
    /// If it is not known.
    pub async fn has(&self, image: &Named, secure: bool, login: Option<(String, String)>) -> Result<bool, Unanswered> {
        let reference = &image.reference;
        let registry = reference.registry().to_owned();
        if !secure && !self.known.lists(reference.resolve_registry()) {
            return Err(Unanswered::Unlisted { registry });
        }
        let unreachable = |reason: String| Unanswered::Unreachable { registry: registry.clone(), reason };
        let authorities = self.authorities.clone();
        // Reads files, and authorities take their time.
        let client = tokio::task::spawn_blocking(move || client(authorities)).await;
        let client = client.unwrap_or_else(|error| Err(error.to_string())).map_err(unreachable)?;
        let question = Question { registries: self, client, reference, secure, login };
        let answer = tokio::time::timeout(PATIENCE, question.ask()).await;
        answer.unwrap_or_else(|_| Err(unreachable(format!("no answer within {} s", PATIENCE.as_secs()))))
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
struct Question<'a> {
    registries: &'a Registries,
    client: Outbound,
    reference: &'a Reference,
    secure: bool,
    login: Option<(String, String)>,
}

impl Question<'_> {
    async fn ask(&self) -> Result<bool, Unanswered> {
        let authorization = self.enter().await?;
        let name = self.reference.digest().or(self.reference.tag()).unwrap_or("latest");
        let manifest = format!("{}/v2/{}/manifests/{name}", self.host(), self.reference.repository());
        let answer = self.send(Method::HEAD, &manifest, authorization.as_ref()).await?;
        if answer.status().is_success() {
            return Ok(true);
        }
        // The answer to HEAD has no body, which would say why.
        let answer = self.send(Method::GET, &manifest, authorization.as_ref()).await?;
        self.judge(&answer)
    }

    /// What the registry wants to be shown, by its version endpoint.
    async fn enter(&self) -> Result<Option<HeaderValue>, Unanswered> {
        let answer = self.send(Method::GET, &format!("{}/v2/", self.host()), None).await?;
        match Challenge::of(answer.headers()) {
            None => Ok(None),
            Some(Challenge::Basic) => self.basic(),
            Some(Challenge::Bearer { realm, service }) => self.token(&realm, service.as_deref()).await.map(Some),
        }
    }

    async fn token(&self, realm: &str, service: Option<&str>) -> Result<HeaderValue, Unanswered> {
        let uri: Uri = realm.parse().map_err(|_| self.unreachable("its token server has no address"))?;
        if uri.scheme_str() != Some(self.scheme()) {
            return Err(self.unreachable(&format!("its token server is not one of {}", self.scheme())));
        }
        let scope = format!("repository:{}:pull", self.reference.repository());
        let mut address = format!("{realm}{}scope={}", if uri.query().is_some() { '&' } else { '?' }, escaped(&scope));
        if let Some(service) = service {
            address += &format!("&service={}", escaped(service));
        }
        let answer = self.send(Method::GET, &address, self.basic()?.as_ref()).await?;
        if !answer.status().is_success() {
            // What the token server says is not shown: the registry may name any server.
            return Err(self.unauthorised(""));
        }
        let token: Option<Value> = serde_json::from_slice(answer.body()).ok();
        let text = |key: &str| token.as_ref().and_then(|token| token.get(key)).and_then(Value::as_str);
        let token = text("token").or_else(|| text("access_token"));
        let token = token.ok_or_else(|| self.unreachable("its token server gave no token"))?;
        let value = HeaderValue::try_from(format!("Bearer {token}"));
        value.map_err(|_| self.unreachable("its token server gave no token"))
    }

    fn basic(&self) -> Result<Option<HeaderValue>, Unanswered> {
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
    ) -> Result<Response<Bytes>, Unanswered> {
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

    /// What an answer says of the image.
    fn judge(&self, answer: &Response<Bytes>) -> Result<bool, Unanswered> {
        let errors = errors(answer.body());
        let tells = |codes: &[&str]| errors.iter().any(|(code, _)| codes.contains(&code.as_str()));
        match answer.status() {
            status if status.is_success() => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            _ if tells(&ABSENT) => Ok(false),
            _ if tells(&REFUSED) => {
                Err(self
                    .unauthorised(&errors.iter().map(|(_, message)| message.as_str()).collect::<Vec<_>>().join("; ")))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(self.unauthorised("")),
            status => Err(self.unreachable(&format!("it answered {}", status.as_u16()))),
        }
    }

    fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    fn host(&self) -> String {
        format!("{}://{}", self.scheme(), self.reference.resolve_registry())
    }

    fn unreachable(&self, reason: &str) -> Unanswered {
        Unanswered::Unreachable { registry: self.reference.registry().to_owned(), reason: shown(reason) }
    }

    fn unauthorised(&self, reason: &str) -> Unanswered {
        Unanswered::Unauthorised {
            registry: self.reference.registry().to_owned(),
            repository: self.reference.repository().to_owned(),
            reason: shown(reason),
        }
    }
}

/// Codes for what is not there. Not all registries keep those for manifests to manifests.
const ABSENT: [&str; 5] = ["MANIFEST_UNKNOWN", "NAME_UNKNOWN", "NOT_FOUND", "MANIFEST_BLOB_UNKNOWN", "BLOB_UNKNOWN"];
/// Codes for what may not be seen.
const REFUSED: [&str; 2] = ["UNAUTHORIZED", "DENIED"];

/// Codes and messages of an answer's errors.
fn errors(body: &[u8]) -> Vec<(String, String)> {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let errors = answer.get("errors").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |error: &Value, key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    errors.iter().map(|error| (text(error, "code"), text(error, "message"))).collect()
}

/// Where an answer leads, if it is a redirect.
fn redirect(answer: &Response<Bytes>) -> Option<&str> {
    let moved = matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    moved.then(|| answer.headers().get(header::LOCATION)?.to_str().ok()).flatten()
}

/// The address that `next` means, if it has the same scheme and host.
fn on_same_host(address: &Uri, next: &str) -> Option<Uri> {
    let mut parts = next.parse::<Uri>().ok()?.into_parts();
    if parts.scheme.is_none() && parts.authority.is_none() {
        (parts.scheme, parts.authority) = (address.scheme().cloned(), address.authority().cloned());
    }
    let next = Uri::from_parts(parts).ok()?;
    (next.scheme() == address.scheme() && next.authority() == address.authority()).then_some(next)
}

/// A value of a query.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// What others say, in one line that is not too long.
fn shown(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LONGEST_WORDS).collect()
}

/// User and password for a registry from a docker configuration. Only the host itself counts: a Secret for `example.com` is not shown
/// to `my-example.com`. Programs that the configuration names to get credentials from are not run.
pub fn login(docker_config: &[u8], registry: &RegistryHost) -> Option<(String, String)> {
    let config: Value = serde_json::from_slice(docker_config).ok()?;
    let is_ours = |name: &str| RegistryHost::of_registry(name).as_ref() == Some(registry);
    let (_, entry) = config.get("auths")?.as_object()?.iter().find(|(name, _)| is_ours(name))?;
    let text = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(both) = text("auth") {
        let both = String::from_utf8(BASE64_STANDARD.decode(both).ok()?).ok()?;
        return both.split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()));
    }
    Some((text("username")?.to_owned(), text("password")?.to_owned()))
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
