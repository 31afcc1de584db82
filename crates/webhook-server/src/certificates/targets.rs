//! The objects from which the API server reads the CA bundle of this server.

use std::fmt;

use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceConversion, CustomResourceDefinition, WebhookClientConfig as ConversionClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;
use serde::Deserialize;

use crate::configurations::Host;

/// An object with CA bundles for the Service of this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleTarget {
    /// Its kind.
    pub kind: PlaceKind,
    /// Its name.
    pub name: String,
    /// As it was read; a write on another version is rejected.
    pub resource_version: String,
    /// The bundles for the Service, each with its path (as JSON pointer). Bundles for other servers are skipped.
    pub bundles: Vec<(String, Vec<u8>)>,
}

/// Kinds with CA bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlaceKind {
    /// A ValidatingWebhookConfiguration.
    Validating,
    /// A MutatingWebhookConfiguration.
    Mutating,
    /// A CustomResourceDefinition, for conversion.
    Definition,
}

impl fmt::Display for PlaceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Validating => "ValidatingWebhookConfiguration",
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Definition => "CustomResourceDefinition",
        })
    }
}

impl BundleTarget {
    /// The bundles of a ValidatingWebhookConfiguration.
    #[must_use]
    pub fn of_validating(object: &ValidatingWebhookConfiguration, host: &Host) -> Self {
        let configs = object.webhooks.iter().flatten().map(|webhook| &webhook.client_config);
        Self::of_webhooks(PlaceKind::Validating, &object.metadata, configs, host)
    }

    /// The bundles of a MutatingWebhookConfiguration.
    #[must_use]
    pub fn of_mutating(object: &MutatingWebhookConfiguration, host: &Host) -> Self {
        let configs = object.webhooks.iter().flatten().map(|webhook| &webhook.client_config);
        Self::of_webhooks(PlaceKind::Mutating, &object.metadata, configs, host)
    }

    /// The bundle of a CustomResourceDefinition.
    #[must_use]
    pub fn of_definition(object: &Definition, host: &Host) -> Self {
        let bundles = object.client_config().into_iter().filter_map(|config| {
            let service = config.service.as_ref()?;
            let path = "/spec/conversion/webhook/clientConfig/caBundle".to_owned();
            is_ours(&service.name, &service.namespace, host).then(|| (path, bundle(config.ca_bundle.as_ref())))
        });
        Self::new(PlaceKind::Definition, &object.metadata, bundles.collect())
    }

    fn of_webhooks<'a>(
        kind: PlaceKind,
        metadata: &ObjectMeta,
        configs: impl Iterator<Item = &'a WebhookClientConfig>,
        host: &Host,
    ) -> Self {
        let bundles = configs.enumerate().filter_map(|(index, config)| {
            let service = config.service.as_ref()?;
            let path = format!("/webhooks/{index}/clientConfig/caBundle");
            is_ours(&service.name, &service.namespace, host).then(|| (path, bundle(config.ca_bundle.as_ref())))
        });
        Self::new(kind, metadata, bundles.collect())
    }

    fn new(kind: PlaceKind, metadata: &ObjectMeta, bundles: Vec<(String, Vec<u8>)>) -> Self {
        Self {
            kind,
            name: metadata.name.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            bundles,
        }
    }
}

fn bundle(bundle: Option<&ByteString>) -> Vec<u8> {
    bundle.map(|bundle| bundle.0.clone()).unwrap_or_default()
}

/// Whether a webhook calls this server, by name and namespace of its Service.
fn is_ours(service: &str, namespace: &str, host: &Host) -> bool {
    service == host.service && namespace == host.namespace
}

/// A CustomResourceDefinition without its schemas, which take a megabyte each.
#[derive(Debug, Clone, Deserialize, Resource)]
#[resource(inherit = CustomResourceDefinition)]
pub struct Definition {
    /// Its metadata.
    pub metadata: ObjectMeta,
    #[serde(default)]
    spec: DefinitionSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct DefinitionSpec {
    conversion: Option<CustomResourceConversion>,
}

impl Definition {
    /// The conversion webhook.
    #[must_use]
    pub fn client_config(&self) -> Option<&ConversionClientConfig> {
        self.spec.conversion.as_ref()?.webhook.as_ref()?.client_config.as_ref()
    }
}
