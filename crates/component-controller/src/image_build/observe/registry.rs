//! Whether a registry has an image: one question to a server outside.
//!
//! `oci_client` keeps credentials by registry for as long as it lives, so each question has a client of its own: what one namespace may
//! see is not shown to another.

use base64::{Engine, prelude::BASE64_STANDARD};
use oci_client::{
    Client, Reference, RegistryOperation,
    client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol},
    errors::{OciDistributionError, OciEnvelope, OciErrorCode},
    secrets::RegistryAuth,
};
use serde_json::Value;
use std::{error::Error as _, path::PathBuf, time::Duration};
use workload::RegistryHost;

/// For all that one question takes.
const PATIENCE: Duration = Duration::from_secs(15);
/// A server that listens accepts a connection at once, wherever it is.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// How much is shown of what a server says.
const LONGEST_WORDS: usize = 300;

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
}

impl Registries {
    /// Whether the registry of an image has it. `login` is shown to that registry, and to the server of tokens that it names.
    ///
    /// # Errors
    /// If it is not known.
    pub async fn has(&self, image: &Named, secure: bool, login: Option<(String, String)>) -> Result<bool, Unanswered> {
        let reference = &image.reference;
        let registry = reference.registry().to_owned();
        let unreachable = |reason: String| Unanswered::Unreachable { registry: registry.clone(), reason };
        let protocol = if secure { ClientProtocol::Https } else { ClientProtocol::Http };
        let authorities = self.authorities.clone();
        // Reads files, and authorities take their time.
        let client = tokio::task::spawn_blocking(move || client(protocol, authorities)).await;
        let client = client.unwrap_or_else(|error| Err(error.to_string())).map_err(unreachable)?;
        let auth = login.map_or(RegistryAuth::Anonymous, |(user, password)| RegistryAuth::Basic(user, password));
        let answer = tokio::time::timeout(PATIENCE, ask(&client, reference, &auth)).await;
        answer.unwrap_or_else(|_| Err(unreachable(format!("no answer within {} s", PATIENCE.as_secs()))))
    }
}

fn client(protocol: ClientProtocol, authorities: Option<PathBuf>) -> Result<Client, String> {
    // Without any, the library does not come to life, not even to speak without TLS.
    if !outbound::provide_tls() {
        return Err("this machine has no certificate authorities; give a file with them in SSL_CERT_FILE".to_owned());
    }
    let read = |path: PathBuf| {
        let content = std::fs::read(&path);
        content.map_err(|error| format!("DOCKER_REGISTRY_CA_FILE: {} cannot be read: {error}", path.display()))
    };
    let more = authorities.map(read).transpose()?;
    let config = ClientConfig {
        protocol,
        extra_root_certificates: more
            .map(|data| Certificate { encoding: CertificateEncoding::Pem, data })
            .into_iter()
            .collect(),
        connect_timeout: Some(CONNECT_PATIENCE),
        read_timeout: Some(PATIENCE),
        user_agent: concat!("dynamo-", env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")),
        ..ClientConfig::default()
    };
    Client::try_from(config).map_err(|error| words(&error))
}

async fn ask(client: &Client, reference: &Reference, auth: &RegistryAuth) -> Result<bool, Unanswered> {
    // What comes next would also ask for a token, but say nothing of what stood in the way.
    let entered = client.auth(reference, auth, RegistryOperation::Pull).await;
    let answer = match entered {
        Ok(_) => client.fetch_manifest_digest(reference, auth).await.map(drop),
        Err(error) => Err(error),
    };
    match answer {
        Ok(()) => Ok(true),
        Err(error) => judge(&error, reference),
    }
}

/// What an error says of the image.
fn judge(error: &OciDistributionError, reference: &Reference) -> Result<bool, Unanswered> {
    let registry = reference.registry().to_owned();
    let unauthorised = |reason: &str| {
        Err(Unanswered::Unauthorised {
            registry: registry.clone(),
            repository: reference.repository().to_owned(),
            reason: shown(reason),
        })
    };
    match error {
        OciDistributionError::ImageManifestNotFoundError(_) => Ok(false),
        OciDistributionError::ServerError { code: 404, .. } => Ok(false),
        OciDistributionError::RegistryError { envelope, .. } if tells(envelope, &ABSENT) => Ok(false),
        // Its text is what the token service answered, wherever the registry says that this is: no affair of a status.
        OciDistributionError::AuthenticationFailure(_)
        | OciDistributionError::UnauthorizedError { .. }
        | OciDistributionError::ServerError { code: 403, .. } => unauthorised(""),
        OciDistributionError::RegistryError { envelope, .. } if tells(envelope, &REFUSED) => {
            unauthorised(&envelope.errors.iter().map(|one| one.message.as_str()).collect::<Vec<_>>().join("; "))
        }
        OciDistributionError::ServerError { code, .. } => {
            Err(Unanswered::Unreachable { registry, reason: format!("it answered {code}") })
        }
        error => Err(Unanswered::Unreachable { registry, reason: words(error) }),
    }
}

/// Codes for what is not there. Not all registries keep those for manifests to manifests.
const ABSENT: [OciErrorCode; 5] = [
    OciErrorCode::ManifestUnknown,
    OciErrorCode::NameUnknown,
    OciErrorCode::NotFound,
    OciErrorCode::ManifestBlobUnknown,
    OciErrorCode::BlobUnknown,
];
/// Codes for what may not be seen.
const REFUSED: [OciErrorCode; 2] = [OciErrorCode::Unauthorized, OciErrorCode::Denied];

fn tells(envelope: &OciEnvelope, codes: &[OciErrorCode]) -> bool {
    envelope.errors.iter().any(|one| codes.contains(&one.code))
}

/// An error with its causes, which say more than it does.
fn words(error: &OciDistributionError) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    shown(&causes.fold(error.to_string(), |all, cause| format!("{all}: {cause}")))
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
