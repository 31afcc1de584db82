//! What is said to a registry and to its server of tokens, and how much of what they say is heard.

use http_auth::parser::ChallengeParser;
use oci_spec::distribution::Reference;
use reqwest::{
    Certificate, Client, Method, Response, StatusCode,
    header::{ACCEPT, HeaderMap, WWW_AUTHENTICATE},
};
use serde::Deserialize;
use std::{error::Error, path::PathBuf, time::Duration};

/// A server that listens accepts a connection at once, wherever it is.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer that is read to its end: tokens and errors have a few kilobytes.
const LONGEST_ANSWER: usize = 256 << 10;
/// How much is shown of what a server says.
const LONGEST_WORDS: usize = 300;
/// Kinds of manifests that an image may have.
const MANIFESTS: &str = "application/vnd.docker.distribution.manifest.v2+json, \
                         application/vnd.docker.distribution.manifest.list.v2+json, \
                         application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json";

/// User and password.
pub(super) type Login = (String, String);

/// What a server answers. The body of a success is not read.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

/// Why a registry does not say anything of an image.
#[derive(Debug)]
pub(super) enum Failure {
    /// Its server of tokens gives none.
    NoToken(Answer),
    /// There is no answer, or none that can be read.
    NoAnswer(String),
}

impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        Self::NoAnswer(words(&error))
    }
}

/// What a request shows of who asks.
enum Credential {
    Nothing,
    Basic(Login),
    Bearer(String),
}

/// How a registry wants to be asked.
#[derive(Debug, PartialEq, Eq)]
enum Challenge {
    /// By anybody.
    Open,
    /// With a token from this server.
    Token { realm: String, service: Option<String> },
    /// With user and password.
    Password,
}

/// A client that trusts the authorities of the machine, and those in a file in PEM form. Reads files, and takes its time.
pub(super) fn client(authorities: Option<PathBuf>, patience: Duration) -> Result<Client, String> {
    // Without any, the library does not come to life, not even to speak without TLS.
    if !outbound::provide_tls() {
        return Err("this machine has no certificate authorities; give a file with them in SSL_CERT_FILE".to_owned());
    }
    let more = authorities.map(read_authorities).transpose()?.unwrap_or_default();
    let builder = Client::builder().connect_timeout(CONNECT_PATIENCE).read_timeout(patience).tls_certs_merge(more);
    let agent = concat!("dynamo-", env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
    builder.user_agent(agent).build().map_err(|error| words(&error))
}

fn read_authorities(path: PathBuf) -> Result<Vec<Certificate>, String> {
    let told = |why: String| format!("DOCKER_REGISTRY_CA_FILE: {} {why}", path.display());
    let content = std::fs::read(&path).map_err(|error| told(format!("cannot be read: {error}")))?;
    let found =
        Certificate::from_pem_bundle(&content).map_err(|error| told(format!("is not PEM: {}", words(&error))))?;
    if found.is_empty() { Err(told("holds no certificate in PEM form".to_owned())) } else { Ok(found) }
}

/// Asks for the manifest of an image. `login` is shown to the registry, and to the server of tokens that it names.
pub(super) async fn ask(
    client: &Client,
    scheme: &str,
    image: &Reference,
    login: Option<Login>,
) -> Result<Answer, Failure> {
    let entrance = format!("{scheme}://{}/v2/", image.resolve_registry());
    let challenge = challenge(client.get(&entrance).send().await?.headers());
    let credential = match challenge {
        Challenge::Open => Credential::Nothing,
        Challenge::Password => login.map_or(Credential::Nothing, Credential::Basic),
        Challenge::Token { realm, service } => {
            Credential::Bearer(token(client, &realm, service.as_deref(), image.repository(), login).await?)
        }
    };
    let version = image.digest().or(image.tag()).unwrap_or("latest");
    let manifest = format!("{entrance}{}/manifests/{version}", image.repository());
    let request = |method: Method| {
        let request = client.request(method, &manifest).header(ACCEPT, MANIFESTS);
        match &credential {
            Credential::Nothing => request,
            Credential::Basic((user, password)) => request.basic_auth(user, Some(password)),
            Credential::Bearer(token) => request.bearer_auth(token),
        }
    };
    let status = request(Method::HEAD).send().await?.status();
    if status == StatusCode::OK {
        return Ok(Answer { status, body: Vec::new() });
    }
    // What stands in the way is told in a body, which the answer to HEAD has not.
    heard(request(Method::GET).send().await?).await
}

async fn token(
    client: &Client,
    realm: &str,
    service: Option<&str>,
    repository: &str,
    login: Option<Login>,
) -> Result<String, Failure> {
    let scope = format!("repository:{repository}:pull");
    let query: Vec<(&str, &str)> =
        [("scope", scope.as_str())].into_iter().chain(service.map(|service| ("service", service))).collect();
    let request = client.get(realm).query(&query);
    let request = match login {
        Some((user, password)) => request.basic_auth(user, Some(password)),
        None => request,
    };
    let answer = request.send().await?;
    if answer.status() != StatusCode::OK {
        return Err(Failure::NoToken(heard(answer).await?));
    }
    let given: Token = serde_json::from_slice(&read(answer).await?)
        .map_err(|error| Failure::NoAnswer(format!("its token cannot be read: {error}")))?;
    given.token.or(given.access_token).ok_or_else(|| Failure::NoAnswer("it gives no token".to_owned()))
}

/// Some servers give the same under both names.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// How a registry wants to be asked, by the headers of its answer to somebody who shows nothing.
fn challenge(headers: &HeaderMap) -> Challenge {
    let given: Vec<&str> = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()).collect();
    if !headers.contains_key(WWW_AUTHENTICATE) {
        return Challenge::Open;
    }
    let challenges = given.iter().flat_map(|text| ChallengeParser::new(text)).filter_map(Result::ok);
    let wants_token = challenges.filter(|challenge| challenge.scheme.eq_ignore_ascii_case("Bearer"));
    let with_realm = |challenge: http_auth::ChallengeRef<'_>| {
        let parameter = |wanted: &str| {
            let found = challenge.params.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map(|(_, value)| value.to_unescaped())
        };
        Some(Challenge::Token { realm: parameter("realm")?, service: parameter("service") })
    };
    wants_token.filter_map(with_realm).next().unwrap_or(Challenge::Password)
}

/// An answer, with what it says if it is no success.
async fn heard(answer: Response) -> Result<Answer, Failure> {
    let status = answer.status();
    let body = if status.is_success() { Vec::new() } else { read(answer).await? };
    Ok(Answer { status, body })
}

/// The body of an answer that is not too long.
async fn read(mut answer: Response) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await? {
        if body.len() + piece.len() > LONGEST_ANSWER {
            return Err(Failure::NoAnswer(format!("its answer is longer than {} KiB", LONGEST_ANSWER >> 10)));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// An error with its causes, which say more than it does.
fn words(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    shown(&causes.fold(error.to_string(), |all, cause| format!("{all}: {cause}")))
}

/// What others say, in one line that is not too long.
pub(super) fn shown(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LONGEST_WORDS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_says_how_it_wants_to_be_asked() {
        let token = |realm: &str, service: Option<&str>| Challenge::Token {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
        };
        for (given, expected) in [
            (&[][..], Challenge::Open),
            (&["Basic realm=\"r\""], Challenge::Password),
            (&["Bearer service=\"s\""], Challenge::Password),
            (&["anything else at all"], Challenge::Password),
            (&["Bearer realm=\"https://t/x\",service=\"s\""], token("https://t/x", Some("s"))),
            (&["bearer Realm=\"https://t\""], token("https://t", None)),
            (&["Basic realm=\"r\", Bearer realm=\"https://t\""], token("https://t", None)),
            (&["Basic realm=\"r\"", "Bearer realm=\"https://t\""], token("https://t", None)),
        ] {
            let headers = given.iter().map(|text| (WWW_AUTHENTICATE, text.parse().unwrap())).collect();
            assert_eq!(challenge(&headers), expected, "{given:?}");
        }
    }
}
