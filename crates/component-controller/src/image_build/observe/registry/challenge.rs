//! Parses the header `WWW-Authenticate` of registries.

use http::{HeaderMap, header};

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
        let all: Vec<Self> = headers
            .get_all(header::WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| Self::read(value.to_str().ok()?))
            .collect();
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
        let (mut realm, mut service) = (None, None);
        for (name, value) in parameters(rest) {
            match name.to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value),
                "service" => service = Some(value),
                _ => {}
            }
        }
        Some(Self::Bearer { realm: realm?, service })
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
