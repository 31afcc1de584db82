//! Parses answers of registries and of token servers, and the header `WWW-Authenticate` of registries. Pure.

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use rendering::RegistryHost;
use serde_json::Value;

/// Error codes of missing objects. Not all registries use those of manifests for manifests.
const ABSENT: [&str; 5] = ["MANIFEST_UNKNOWN", "NAME_UNKNOWN", "NOT_FOUND", "MANIFEST_BLOB_UNKNOWN", "BLOB_UNKNOWN"];
/// Error codes of denied access.
const DENIED: [&str; 2] = ["UNAUTHORIZED", "DENIED"];

/// Whether a registry has an image, by its answer to a request for the manifest.
///
/// # Errors
/// The message of a registry that does not let the login see the image; `None` if the answer means neither.
pub fn manifest_answer(answer: &Response<Bytes>) -> Result<bool, Option<String>> {
    let errors = errors(answer.body());
    let has = |codes: &[&str]| errors.iter().any(|(code, _)| codes.contains(&code.as_str()));
    match answer.status() {
        status if status.is_success() => Ok(true),
        StatusCode::NOT_FOUND => Ok(false),
        _ if has(&ABSENT) => Ok(false),
        _ if has(&DENIED) => {
            let messages: Vec<&str> = errors.iter().map(|(_, message)| message.as_str()).collect();
            Err(Some(messages.join("; ")))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Some(String::new())),
        _ => Err(None),
    }
}

/// Codes and messages of an answer's errors.
fn errors(body: &[u8]) -> Vec<(String, String)> {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let errors = answer.get("errors").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |error: &Value, key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    errors.iter().map(|error| (text(error, "code"), text(error, "message"))).collect()
}

/// The header of authorization that a token server's answer gives.
pub fn token(body: &[u8]) -> Option<HeaderValue> {
    let token: Value = serde_json::from_slice(body).ok()?;
    let text = |key: &str| token.get(key).and_then(Value::as_str);
    HeaderValue::try_from(format!("Bearer {}", text("token").or_else(|| text("access_token"))?)).ok()
}

/// The address of a token server, with the query.
pub fn token_address(realm: &str, service: Option<&str>, repository: &str) -> Option<(Uri, String)> {
    let uri: Uri = realm.parse().ok()?;
    let scope = format!("repository:{repository}:pull");
    let mut address = format!("{realm}{}scope={}", if uri.query().is_some() { '&' } else { '?' }, escaped(&scope));
    if let Some(service) = service {
        address += &format!("&service={}", escaped(service));
    }
    Some((uri, address))
}

/// Target of a redirect.
pub fn redirect(answer: &Response<Bytes>) -> Option<&str> {
    let moved = matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    moved.then(|| answer.headers().get(header::LOCATION)?.to_str().ok()).flatten()
}

/// The address that `next` means, if it has the same scheme and host.
pub fn on_same_host(address: &Uri, next: &str) -> Option<Uri> {
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

/// User and password for a registry from a docker configuration. Only the host itself counts: a Secret for
/// `example.com` is not shown to `my-example.com`. Programs that the configuration names to get credentials from are
/// not run.
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

/// Credentials that a registry demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// User and password.
    Basic,
    /// A token of another server.
    Bearer {
        /// Address of that server.
        realm: String,
        /// Name of the registry there.
        service: Option<String>,
    },
}

impl Challenge {
    /// The challenge in an answer's headers; a token if there is a choice.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(header::WWW_AUTHENTICATE).iter();
        let all: Vec<Self> = values.filter_map(|value| Self::read(value.to_str().ok()?)).collect();
        all.iter().find(|one| **one != Self::Basic).or(all.first()).cloned()
    }

    fn read(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let parameters = parameters(rest);
        let last = |name: &str| parameters.iter().rfind(|(known, _)| known.eq_ignore_ascii_case(name));
        let value = |name: &str| last(name).map(|(_, value)| value.clone());
        Some(Self::Bearer { realm: value("realm")?, service: value("service") })
    }
}

/// Parameters as `name=value` or `name="value"`, separated by commas.
fn parameters(mut text: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    while let Some((name, rest)) = text.split_once('=') {
        let name = name.trim_matches([' ', ',']).to_owned();
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(',').unwrap_or((rest, "")),
        };
        all.push((name, value.trim().to_owned()));
        text = rest;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Option<Challenge> {
        let headers = values.iter().map(|value| (header::WWW_AUTHENTICATE, value.parse().unwrap()));
        Challenge::of(&headers.collect())
    }

    #[test]
    fn challenges_are_read_in_all_their_forms() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) })
        };
        for (values, expected) in [
            (vec![], None),
            (vec!["Basic realm=\"r\""], Some(Challenge::Basic)),
            (vec!["basic"], Some(Challenge::Basic)),
            (vec!["Negotiate"], None),
            (vec!["Bearer service=\"s\""], None),
            (
                vec!["Bearer realm=\"https://t/a?b=c\",service=\"s, t\",scope=\"x\""],
                bearer("https://t/a?b=c", Some("s, t")),
            ),
            (vec!["bearer Realm=https://t/, service=s"], bearer("https://t/", Some("s"))),
            (vec!["Basic realm=\"r\"", "Bearer realm=\"https://t\""], bearer("https://t", None)),
            (vec!["Bearer realm=\"https://t"], bearer("https://t", None)),
        ] {
            assert_eq!(read(&values), expected, "{values:?}");
        }
    }
}
