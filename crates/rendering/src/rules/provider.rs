//! Values of annotations, and the choice of the workload provider, which a graph's annotations state.

use api_types::{annotations, violations::Violation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::not_supported;
use crate::{DiscoveryBackend, WorkloadProvider};

/// An annotation of an object.
pub fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The choice of the workload provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderChoice<'a> {
    /// Not made yet: the graph is older than the choice.
    Unselected,
    /// A provider.
    Selected(WorkloadProvider),
    /// The annotation has a value that is no provider.
    Unknown(&'a str),
}

impl<'a> ProviderChoice<'a> {
    /// The choice in a graph's metadata.
    pub fn of(metadata: &'a ObjectMeta) -> Self {
        match annotation(metadata, annotations::WORKLOAD_PROVIDER) {
            None => Self::Unselected,
            Some(annotations::PROVIDER_COMPONENT) => Self::Selected(WorkloadProvider::Component),
            Some(annotations::PROVIDER_GROVE) => Self::Selected(WorkloadProvider::Grove),
            Some(other) => Self::Unknown(other),
        }
    }

    /// Whether it is Grove.
    pub fn is_grove(self) -> bool {
        self == Self::Selected(WorkloadProvider::Grove)
    }
}

/// The provider of a graph without a choice; `grove`: whether the cluster offers Grove.
pub fn provider_of_new(metadata: &ObjectMeta, grove: bool) -> WorkloadProvider {
    if grove && !opts_out(metadata) { WorkloadProvider::Grove } else { WorkloadProvider::Component }
}

/// Whether the user keeps the graph off Grove.
fn opts_out(metadata: &ObjectMeta) -> bool {
    annotation(metadata, annotations::ENABLE_GROVE).is_some_and(|value| value.eq_ignore_ascii_case("false"))
}

/// Returns the reason why a field that needs Grove is not possible in a graph, and the remedy; `None` if it is
/// possible.
pub fn lacks_grove(metadata: &ObjectMeta, grove: bool) -> Option<String> {
    let fixed = "the choice is made when a graph is created, so create the graph anew";
    let unavailable =
        || "needs Grove, which is not available in this cluster; install it, or remove the field".to_owned();
    let declined = |remedy: &str| {
        format!("needs Grove, and the graph opts out of it with the annotation {}; {remedy}", annotations::ENABLE_GROVE)
    };
    Some(match ProviderChoice::of(metadata) {
        ProviderChoice::Selected(WorkloadProvider::Grove) => return None,
        ProviderChoice::Unselected if provider_of_new(metadata, grove) == WorkloadProvider::Grove => return None,
        ProviderChoice::Unknown(other) => format!(
            "needs Grove, and annotation {} names the unknown provider {other:?}; {fixed}, or remove the field",
            annotations::WORKLOAD_PROVIDER
        ),
        ProviderChoice::Selected(_) | ProviderChoice::Unselected if !grove => unavailable(),
        ProviderChoice::Selected(_) if opts_out(metadata) => {
            declined("create it without that annotation, or remove the field")
        }
        ProviderChoice::Selected(_) => {
            format!("needs Grove, and the graph runs without it; {fixed}, or remove the field")
        }
        ProviderChoice::Unselected => declined("remove the annotation or the field"),
    })
}

const EXECUTORS: [&str; 2] = ["mp", "ray"];
pub(super) const DISCOVERY_CONTAINER: &str = "container";

/// Validates the value of an annotation that has one of two values.
pub(super) fn one_of(path: String, value: &str, values: [&str; 2]) -> Option<Violation> {
    (!values.contains(&value)).then(|| not_supported(path, value, &values, ""))
}

/// Validates the backend of worker registration.
pub fn discovery_backend(path: String, value: &str) -> Option<Violation> {
    let is_known = value.is_empty() || DiscoveryBackend::from_name(value).is_some();
    let remedy = "leave the annotation out to follow the operator's setting";
    (!is_known).then(|| not_supported(path, value, &["kubernetes", "etcd"], remedy))
}

/// Validates Grove's strategy to replace pods.
pub fn grove_update_strategy(path: String, value: &str) -> Option<Violation> {
    one_of(path, value, ["RollingRecreate", "OnDelete"])
}

/// The executor of vLLM, on graphs and on services of v1alpha1.
pub fn vllm_executor(path: String, value: &str) -> Option<Violation> {
    let text = "is no executor of vLLM";
    let remedy = "write \"mp\" or \"ray\", or remove the annotation";
    let is_known = EXECUTORS.contains(&value.to_ascii_lowercase().as_str());
    (!is_known).then(|| Violation::invalid(path, value, text, remedy))
}
