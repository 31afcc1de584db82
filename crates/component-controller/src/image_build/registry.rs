//! How a registry is asked whether it has an image: pure, for [`observe`](super::observe).
//!
//! It is one question, a `HEAD` with at most one detour for a token. Clients of registries that can also pull and push bring an HTTP
//! client of their own, of which nothing else here would be used.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use workload::RegistryHost;

/// An image, as a registry knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Where it is.
    pub registry: RegistryHost,
    /// Repository.
    pub repository: String,
    /// Tag or digest.
    pub version: String,
}

impl Reference {
    /// Reads the name of an image. None if it names no repository.
    pub fn read(image: &str) -> Option<Self> {
        let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
        let (registry, rest) = RegistryHost::split(name);
        let (path, tag) = rest.split_once(':').map_or((rest, None), |(path, tag)| (path, Some(tag)));
        let version = digest.or(tag).unwrap_or("latest");
        if path.is_empty() || version.is_empty() {
            return None;
        }
        let in_library = registry.is_docker_hub() && !path.contains('/');
        let repository = if in_library { format!("library/{path}") } else { path.to_owned() };
        Some(Self { registry, repository, version: version.to_owned() })
    }

    /// Where its manifest is.
    pub fn manifest(&self, secure: bool) -> String {
        let scheme = if secure { "https" } else { "http" };
        format!("{scheme}://{}/v2/{}/manifests/{}", self.registry.server(), self.repository, self.version)
    }
}

/// User and password for a registry from a docker configuration. Only the host itself counts: a Secret for `example.com` is not shown
/// to `my-example.com`.
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

/// What a registry asks for before it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// User and password.
    Basic,
    /// A token from this address.
    Bearer(String),
}

impl Challenge {
    /// Reads the header `WWW-Authenticate`.
    pub fn read(header: &str) -> Option<Self> {
        let (kind, rest) = header.split_once(' ').unwrap_or((header, ""));
        match kind.to_ascii_lowercase().as_str() {
            "basic" => Some(Self::Basic),
            "bearer" => {
                let parameters: Vec<(String, String)> = parameters(rest);
                let value =
                    |name: &str| parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
                let realm = value("realm")?;
                let pairs = ["service", "scope"].into_iter().filter_map(|key| Some((key, value(key)?)));
                let query: Vec<String> = pairs.map(|(key, value)| format!("{key}={}", escaped(value))).collect();
                let mark = if realm.contains('?') { '&' } else { '?' };
                Some(Self::Bearer(format!("{realm}{mark}{}", query.join("&"))))
            }
            _ => None,
        }
    }
}

/// `a="b",c="d"`; commas within quotes belong to the value.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut quoted = false;
    let parts = text.split(|c: char| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    let pairs = parts.filter_map(|part| part.trim().split_once('='));
    pairs.map(|(key, value)| (key.to_ascii_lowercase(), value.trim_matches('"').to_owned())).collect()
}

/// A value in the query of an address.
fn escaped(value: &str) -> String {
    let plain = |c: &u8| c.is_ascii_alphanumeric() || b"-._~/:,".contains(c);
    value.bytes().map(|c| if plain(&c) { char::from(c).to_string() } else { format!("%{c:02X}") }).collect()
}

/// The header `Authorization` for a user.
pub fn basic((user, password): &(String, String)) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_read_as_everybody_reads_them() {
        for (image, manifest) in [
            ("nvcr.io/a/b:1", "https://nvcr.io/v2/a/b/manifests/1"),
            ("localhost:5000/b", "https://localhost:5000/v2/b/manifests/latest"),
            ("ubuntu:22.04", "https://registry-1.docker.io/v2/library/ubuntu/manifests/22.04"),
            ("docker.io/a/b@sha256:0", "https://registry-1.docker.io/v2/a/b/manifests/sha256:0"),
        ] {
            assert_eq!(Reference::read(image).unwrap().manifest(true), manifest);
        }
        assert_eq!(Reference::read("r.io/"), None);
    }

    #[test]
    fn a_password_is_shown_to_its_own_host_only() {
        let config =
            br#"{"auths":{"https://r.io/v1/":{"auth":"dTpwOnE="},"index.docker.io":{"username":"h","password":"s"}}}"#;
        let of = |image: &str| login(config, &RegistryHost::of_image(image));
        assert_eq!(of("r.io/a"), Some(("u".to_owned(), "p:q".to_owned())));
        assert_eq!(of("ubuntu"), Some(("h".to_owned(), "s".to_owned())));
        assert_eq!(of("my-r.io/a"), None);
        assert_eq!(login(b"{", &RegistryHost::of_image("r.io/a")), None);
    }

    #[test]
    fn challenges_say_where_the_token_is() {
        let header = "Bearer realm=\"https://a/token\",service=\"r.io\",scope=\"repository:a/b:pull,push\"";
        let wanted = "https://a/token?service=r.io&scope=repository:a/b:pull,push";
        assert_eq!(Challenge::read(header), Some(Challenge::Bearer(wanted.to_owned())));
        assert_eq!(Challenge::read("Basic realm=\"x\""), Some(Challenge::Basic));
        assert_eq!(Challenge::read("Negotiate"), None);
    }
}
