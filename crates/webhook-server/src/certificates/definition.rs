//! A CustomResourceDefinition, as far as certificates depend on it.

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceConversion, CustomResourceDefinition, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;
use serde::Deserialize;

/// The little of a CustomResourceDefinition that matters here. Whole, ours take a megabyte each.
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
    /// How the API server reaches what converts the objects.
    #[must_use]
    pub fn client_config(&self) -> Option<&WebhookClientConfig> {
        self.spec.conversion.as_ref()?.webhook.as_ref()?.client_config.as_ref()
    }
}
