//! Whether a registry has an image: one question to a server outside.
//!
//! That there is a manifest is all that matters, so none is read; of anything else, a registry is heard up to a limit. Each question
//! has a client of its own: what one namespace may see is not shown to another.

mod exchange;

use base64::{Engine, prelude::BASE64_STANDARD};
use exchange::{Answer, Failure, shown};
use oci_spec::distribution::Reference;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use std::{path::PathBuf, time::Duration};
use workload::RegistryHost;

/// For all that one question takes.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why it is not known whether a registry has an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The image has a name that no registry knows.
    #[error("{image:?} is not the name of an image: {reason}")]
    Name {
        /// As given.
        image: String,
        /// What is wrong with it.
        reason: String,
    },
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
    pub async fn has(&self, image: &str, secure: bool, login: Option<(String, String)>) -> Result<bool, Unanswered> {
        let reference = reference(image)?;
        let registry = reference.registry().to_owned();
        let unreachable = |reason: String| Unanswered::Unreachable { registry: registry.clone(), reason };
        let scheme = if secure { "https" } else { "http" };
        let authorities = self.authorities.clone();
        let client = tokio::task::spawn_blocking(move || exchange::client(authorities, PATIENCE)).await;
        let client = client.unwrap_or_else(|error| Err(error.to_string())).map_err(unreachable)?;
        match tokio::time::timeout(PATIENCE, exchange::ask(&client, scheme, &reference, login)).await {
            Ok(outcome) => judge(outcome, &reference),
            Err(_) => Err(unreachable(format!("no answer within {} s", PATIENCE.as_secs()))),
        }
    }
}

/// Reads the name of an image.
fn reference(image: &str) -> Result<Reference, Unanswered> {
    let read: Result<Reference, _> = image.parse();
    read.map_err(|error| Unanswered::Name { image: image.to_owned(), reason: error.to_string() })
}

/// What an answer says of the image.
fn judge(outcome: Result<Answer, Failure>, image: &Reference) -> Result<bool, Unanswered> {
    let registry = image.registry().to_owned();
    let repository = image.repository().to_owned();
    let answer = match outcome {
        Ok(answer) => answer,
        Err(Failure::NoAnswer(reason)) => return Err(Unanswered::Unreachable { registry, reason }),
        Err(Failure::NoToken(Answer { status, body })) if status.is_client_error() => {
            return Err(Unanswered::Unauthorised {
                registry,
                repository,
                reason: shown(&String::from_utf8_lossy(&body)),
            });
        }
        Err(Failure::NoToken(Answer { status, .. })) => {
            let reason = format!("its server of tokens answered {}", status.as_u16());
            return Err(Unanswered::Unreachable { registry, reason });
        }
    };
    let errors: Errors = serde_json::from_slice(&answer.body).unwrap_or_default();
    match answer.status {
        StatusCode::OK => Ok(true),
        StatusCode::UNAUTHORIZED => Err(Unanswered::Unauthorised { registry, repository, reason: errors.said() }),
        status if status.is_client_error() && errors.tell(&ABSENT) => Ok(false),
        StatusCode::NOT_FOUND if errors.errors.is_empty() => Ok(false),
        status if status == StatusCode::FORBIDDEN || status.is_client_error() && errors.tell(&REFUSED) => {
            Err(Unanswered::Unauthorised { registry, repository, reason: errors.said() })
        }
        status => {
            let reason = format!("it answered {}{}", status.as_u16(), said(&errors.said()));
            Err(Unanswered::Unreachable { registry, reason })
        }
    }
}

/// What registries say of what is in the way.
#[derive(Default, Deserialize)]
struct Errors {
    errors: Vec<OneError>,
}

#[derive(Deserialize)]
struct OneError {
    code: Code,
    message: Option<String>,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Code {
    ManifestUnknown,
    NameUnknown,
    NotFound,
    ManifestBlobUnknown,
    BlobUnknown,
    Unauthorized,
    Denied,
    #[serde(other)]
    Other,
}

/// Codes for what is not there. Not all registries keep those for manifests to manifests.
const ABSENT: [Code; 5] =
    [Code::ManifestUnknown, Code::NameUnknown, Code::NotFound, Code::ManifestBlobUnknown, Code::BlobUnknown];
/// Codes for what may not be seen.
const REFUSED: [Code; 2] = [Code::Unauthorized, Code::Denied];

impl Errors {
    fn tell(&self, codes: &[Code]) -> bool {
        self.errors.iter().any(|one| codes.contains(&one.code))
    }

    fn said(&self) -> String {
        shown(&self.errors.iter().filter_map(|one| one.message.as_deref()).collect::<Vec<_>>().join("; "))
    }
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
