//! Values of annotations, and the choice of the workload provider, which a graph's annotations state.
//!
//! Versions in texts are parsed as well: of the runtime in image tags, of the operator in annotations.

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
            "needs Grove, and annotation {} names the unknown program {other:?}; {fixed}, or remove the field",
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
const GROVE_UPDATES: [&str; 2] = ["RollingRecreate", "OnDelete"];
pub(super) const DISCOVERY_CONTAINER: &str = "container";
const DISCOVERY_MODES: [&str; 2] = ["pod", DISCOVERY_CONTAINER];
const PROVIDERS: [&str; 2] = [annotations::PROVIDER_COMPONENT, annotations::PROVIDER_GROVE];

fn one_of(path: String, value: &str, values: &[&str], remedy: &str) -> Option<Violation> {
    (!values.contains(&value)).then(|| not_supported(path, value, values, remedy))
}

/// Validates the backend of worker registration.
pub fn discovery_backend(path: String, value: &str) -> Option<Violation> {
    let is_known = value.is_empty() || DiscoveryBackend::from_name(value).is_some();
    let remedy = "leave the annotation out to follow the operator's setting";
    (!is_known).then(|| not_supported(path, value, &["kubernetes", "etcd"], remedy))
}

/// Validates Grove's strategy to replace pods.
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

/// A semantic version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    core: [u64; 3],
    pre_release: Option<String>,
}

impl Version {
    /// Reads a version that people may have shortened: `v1.2` is 1.2.0.
    pub fn lenient(text: &str) -> Option<Self> {
        let (core, pre_release) = split(text.strip_prefix('v').unwrap_or(text))?;
        let mut numbers = [0; 3];
        let parts: Vec<&str> = core.split('.').collect();
        if parts.len() > numbers.len() {
            return None;
        }
        for (number, part) in numbers.iter_mut().zip(parts) {
            *number = digits(part)?.parse().ok()?;
        }
        Some(Self { core: numbers, pre_release })
    }

    /// Reads a version with three numbers, each without leading zeros.
    fn strict(text: &str) -> Option<Self> {
        let version = Self::lenient(text).filter(|_| !text.starts_with('v'))?;
        let (core, _) = split(text)?;
        let parts = || core.split('.');
        let plain = |part: &str| part == "0" || !part.starts_with('0');
        (parts().count() == 3 && parts().all(plain)).then_some(version)
    }

    /// The version of the runtime that an image's tag names, if it names one.
    pub fn of_image(image: &str) -> Option<Self> {
        let tag = tag(image)?.trim();
        Self::strict(tag.strip_prefix(['v', 'V']).unwrap_or(tag))
    }

    /// As a tag: three numbers and the pre-release, without build metadata, which no tag can hold.
    pub fn as_tag(&self) -> String {
        let [major, minor, patch] = self.core;
        let pre_release = self.pre_release.as_deref().map(|text| format!("-{text}")).unwrap_or_default();
        format!("{major}.{minor}.{patch}{pre_release}")
    }
}

/// The tag of an image reference.
fn tag(image: &str) -> Option<&str> {
    let reference = image.trim().split('@').next()?;
    let last = reference.rsplit('/').next()?;
    last.rsplit_once(':').map(|(_, tag)| tag)
}

/// Numbers and pre-release; build metadata is checked and left out.
fn split(text: &str) -> Option<(&str, Option<String>)> {
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    if build.is_some_and(|build| !build.split('.').all(is_identifier)) {
        return None;
    }
    let (core, pre_release) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let no_leading_zero = |part: &str| part == "0" || !part.starts_with('0') || digits(part).is_none();
    if pre_release.is_some_and(|pre| !pre.split('.').all(|part| is_identifier(part) && no_leading_zero(part))) {
        return None;
    }
    Some((core, pre_release.map(ToOwned::to_owned)))
}

fn is_identifier(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn digits(part: &str) -> Option<&str> {
    Some(part).filter(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_images_tell_the_runtime() {
        for (image, version) in [
            ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0", Some("1.5.0")),
            ("localhost:5000/vllm:v1.5.0-rc.1", Some("1.5.0-rc.1")),
            ("vllm:V1.2.3@sha256:abc", Some("1.2.3")),
            ("vllm:1.5.0-cuda13", Some("1.5.0-cuda13")),
            ("vllm:1.5", None),
            ("vllm:01.5.0", None),
            ("vllm:1.5.0-01", None),
            ("vllm:my-tag", None),
            ("vllm:latest", None),
            ("localhost:5000/vllm", None),
            ("vllm@sha256:abc", None),
            ("vllm:99999999999999999999.0.0", None),
            ("", None),
        ] {
            assert_eq!(Version::of_image(image).map(|v| v.as_tag()).as_deref(), version, "{image}");
        }
    }

    #[test]
    fn shortened_versions_are_versions_too() {
        for (text, tag) in [
            ("1.5.0", Some("1.5.0")),
            ("v1.5", Some("1.5.0")),
            ("1", Some("1.0.0")),
            ("1.4.0-dev.20260810.ga3a3c24+build.7", Some("1.4.0-dev.20260810.ga3a3c24")),
            ("", None),
            ("unknown", None),
            ("1.2.3.4", None),
            ("1..2", None),
            ("1.2.3-", None),
            ("1.2.3+", None),
            ("-1.2.3", None),
        ] {
            assert_eq!(Version::lenient(text).map(|v| v.as_tag()).as_deref(), tag, "{text}");
        }
    }
}
