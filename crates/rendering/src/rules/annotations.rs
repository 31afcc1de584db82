//! Values of annotations.

use api_types::{annotations, violations::Violation};

use super::findings::not_supported;
use crate::DiscoveryBackend;

const EXECUTORS: [&str; 2] = ["mp", "ray"];
const GROVE_UPDATES: [&str; 2] = ["RollingRecreate", "OnDelete"];
pub(super) const DISCOVERY_CONTAINER: &str = "container";
const DISCOVERY_MODES: [&str; 2] = ["pod", DISCOVERY_CONTAINER];
const PROVIDERS: [&str; 2] = [annotations::PROVIDER_COMPONENT, annotations::PROVIDER_GROVE];

fn one_of(path: String, value: &str, values: &[&str], remedy: &str) -> Option<Violation> {
    (!values.contains(&value)).then(|| not_supported(path, value, values, remedy))
}

/// Where workers are registered.
pub fn discovery_backend(path: String, value: &str) -> Option<Violation> {
    let is_known = value.is_empty() || DiscoveryBackend::from_name(value).is_some();
    let remedy = "leave the annotation out to follow the operator's setting";
    (!is_known).then(|| not_supported(path, value, &["kubernetes", "etcd"], remedy))
}

/// How Grove replaces pods.
pub fn grove_update_strategy(path: String, value: &str) -> Option<Violation> {
    one_of(path, value, &GROVE_UPDATES, "")
}

/// Whether engines are registered by pod or by container.
pub(super) fn discovery_mode(path: String, value: &str) -> Option<Violation> {
    one_of(path, value, &DISCOVERY_MODES, "")
}

/// The workload provider.
pub(super) fn workload_provider(path: String, value: &str) -> Option<Violation> {
    one_of(path, value, &PROVIDERS, "")
}

/// The executor of vLLM, on graphs and on services of v1alpha1.
pub fn vllm_executor(path: String, value: &str) -> Option<Violation> {
    let text = "is no executor of vLLM";
    let remedy = "write \"mp\" or \"ray\", or remove the annotation";
    let is_known = EXECUTORS.contains(&value.to_ascii_lowercase().as_str());
    (!is_known).then(|| Violation::invalid(path, value, text, remedy))
}
