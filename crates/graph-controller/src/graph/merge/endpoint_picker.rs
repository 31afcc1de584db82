//! Completes the configuration of an endpoint picker.

use api_types::v1beta1::EndpointPickerConfig;

const CONFIG_API_VERSION: &str = "inference.networking.x-k8s.io/v1alpha1";

const CONFIG_KIND: &str = "EndpointPickerConfig";

/// Sets the fields that the user may leave out.
pub fn complete(config: &mut EndpointPickerConfig) {
    config.api_version = Some(CONFIG_API_VERSION.to_owned());
    config.kind = Some(CONFIG_KIND.to_owned());
    for plugin in &mut config.plugins {
        plugin.name.get_or_insert_default();
    }
}
