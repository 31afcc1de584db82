//! The fields of a CustomResourceDefinition that certificates depend on.

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceConversion, CustomResourceDefinition, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;
use serde::Deserialize;

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
    pub fn client_config(&self) -> Option<&WebhookClientConfig> {
        self.spec.conversion.as_ref()?.webhook.as_ref()?.client_config.as_ref()
    }
}
