//! The objects from which the API server reads the CA bundle of this server.

use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceConversion, CustomResourceDefinition},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Resource, core::ApiResource};
use serde::Deserialize;

use crate::configurations::Host;

/// An object with CA bundles for the Service of this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleTarget {
    /// Its kind: one of the webhook configurations, or CustomResourceDefinition.
    pub resource: ApiResource,
    /// Its name.
    pub name: String,
    /// As it was read; a write on another version is rejected.
    pub resource_version: String,
    /// The bundles for the Service, each with its path (as JSON pointer). Bundles for other servers are skipped.
    pub bundles: Vec<(String, Vec<u8>)>,
}

/// A webhook: the path of its bundle, name and namespace of its Service, and the bundle.
type BundlePlace<'a> = (String, Option<(&'a str, &'a str)>, Option<&'a ByteString>);

impl BundleTarget {
    /// The bundles of a ValidatingWebhookConfiguration.
    #[must_use]
    pub fn of_validating(object: &ValidatingWebhookConfiguration, host: &Host) -> Self {
        let webhooks = object.webhooks.iter().flatten().map(|webhook| &webhook.client_config);
        Self::new(object, webhooks.enumerate().map(of_webhook), host)
    }

    /// The bundles of a MutatingWebhookConfiguration.
    #[must_use]
    pub fn of_mutating(object: &MutatingWebhookConfiguration, host: &Host) -> Self {
        let webhooks = object.webhooks.iter().flatten().map(|webhook| &webhook.client_config);
        Self::new(object, webhooks.enumerate().map(of_webhook), host)
    }

    /// The bundle of a CustomResourceDefinition.
    #[must_use]
    pub fn of_definition(object: &Definition, host: &Host) -> Self {
        let conversion = object.spec.conversion.as_ref().and_then(|conversion| conversion.webhook.as_ref());
        let config = conversion.and_then(|webhook| webhook.client_config.as_ref());
        let place = config.map(|config| {
            let service = config.service.as_ref().map(|service| (&*service.name, &*service.namespace));
            ("/spec/conversion/webhook/clientConfig/caBundle".to_owned(), service, config.ca_bundle.as_ref())
        });
        Self::new(object, place.into_iter(), host)
    }

    /// Whether it is a CustomResourceDefinition, for conversion.
    #[must_use]
    pub fn is_definition(&self) -> bool {
        self.resource.kind == "CustomResourceDefinition"
    }

    fn new<'a, K: Resource<DynamicType = ()>>(
        object: &K,
        places: impl Iterator<Item = BundlePlace<'a>>,
        host: &Host,
    ) -> Self {
        let ours = places.filter(|(_, service, _)| *service == Some((&*host.service, &*host.namespace)));
        let metadata = object.meta();
        Self {
            resource: ApiResource::erase::<K>(&()),
            name: metadata.name.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            bundles: ours.map(|(path, _, bundle)| (path, bundle.cloned().unwrap_or_default().0)).collect(),
        }
    }
}

fn of_webhook((index, config): (usize, &WebhookClientConfig)) -> BundlePlace<'_> {
    let service = config.service.as_ref().map(|service| (&*service.name, &*service.namespace));
    (format!("/webhooks/{index}/clientConfig/caBundle"), service, config.ca_bundle.as_ref())
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

impl From<ObjectMeta> for Definition {
    fn from(metadata: ObjectMeta) -> Self {
        Self { metadata, spec: DefinitionSpec::default() }
    }
}
