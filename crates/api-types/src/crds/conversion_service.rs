//! Conversion between the versions of a kind: the Service that the API server calls.

use std::{fmt, str::FromStr};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, ServiceReference, WebhookClientConfig, WebhookConversion,
};

/// Path of the Service under which conversion is served.
pub const PATH: &str = "/convert";

/// The Service that converts. The default is the one of the upstream operator's chart, which ours has as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversionService {
    namespace: String,
    name: String,
    port: Option<u16>,
}

impl Default for ConversionService {
    fn default() -> Self {
        Self { namespace: "dynamo-system".to_owned(), name: "dynamo-operator-webhook-service".to_owned(), port: None }
    }
}

/// A text that names no Service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} names no Service: {problem}; write NAMESPACE/NAME or NAMESPACE/NAME:PORT")]
pub struct ConversionServiceError {
    given: String,
    problem: &'static str,
}

impl FromStr for ConversionService {
    type Err = ConversionServiceError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let error = |problem| ConversionServiceError { given: given.to_owned(), problem };
        let (namespace, rest) = given.split_once('/').ok_or_else(|| error("there is no slash"))?;
        let (name, port) = rest.split_once(':').map_or((rest, None), |(name, port)| (name, Some(port)));
        if !is_dns_label(namespace) || !is_dns_label(name) {
            return Err(error("a name has lower-case letters, digits and dashes, at most 63 of them"));
        }
        let number = |port: &str| port.parse().ok().filter(|port| *port != 0);
        let port = port.map(|port| number(port).ok_or_else(|| error("the port is not a number from 1 to 65535")));
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned(), port: port.transpose()? })
    }
}

/// Whether the text is the label of a DNS name.
fn is_dns_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&text.len()) && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

impl fmt::Display for ConversionService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl ConversionService {
    /// Whether the section of a definition about conversion names this Service, at whatever port.
    #[must_use]
    pub fn is_named_by(&self, conversion: Option<&CustomResourceConversion>) -> bool {
        let client = conversion.and_then(|conversion| conversion.webhook.as_ref()?.client_config.as_ref());
        let service = client.and_then(|client| client.service.as_ref());
        service.is_some_and(|service| service.namespace == self.namespace && service.name == self.name)
    }

    /// Returns the section of a definition about conversion. It has no CA bundle: the owner of the certificate adds it,
    /// and server-side apply does not change fields that it does not mention.
    pub(super) fn stanza(&self) -> CustomResourceConversion {
        CustomResourceConversion {
            strategy: "Webhook".to_owned(),
            webhook: Some(WebhookConversion {
                client_config: Some(WebhookClientConfig {
                    service: Some(ServiceReference {
                        namespace: self.namespace.clone(),
                        name: self.name.clone(),
                        path: Some(PATH.to_owned()),
                        port: self.port.map(i32::from),
                    }),
                    ..WebhookClientConfig::default()
                }),
                conversion_review_versions: vec!["v1".to_owned()],
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_as_it_is_shown() {
        for text in ["a/b", "dynamo-system/dynamo-operator-webhook-service", "n/s:9443"] {
            assert_eq!(text.parse::<ConversionService>().unwrap().to_string(), text);
        }
        assert_eq!(ConversionService::default().to_string(), "dynamo-system/dynamo-operator-webhook-service");
    }

    #[test]
    fn what_names_no_service() {
        for text in ["", "a", "/b", "a/", "A/b", "a/b/c", "a/-b", "a/b:", "a/b:0", "a/b:70000", "a/b:x"] {
            assert!(text.parse::<ConversionService>().is_err(), "{text}");
        }
    }
}
