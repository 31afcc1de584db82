//! Counts the GPUs that an engine has through device claims. Network cards are claimed in the same way, and do not
//! count.

use std::collections::{BTreeMap, BTreeSet};

use api_types::gpus::is_gpu;
use k8s_openapi::api::resource::v1::{DeviceClassSpec, DeviceRequest, DeviceSelector, ResourceClaimSpec};

use super::claim::{ClaimSource, ContainerClaim, RequestedDevices, alternatives_of};

/// DeviceClasses by name; `None` if one exists for all that is known, and may not be read.
pub type DeviceClasses = BTreeMap<String, Option<DeviceClassSpec>>;

const MISSING: &str = "which does not exist; install the driver that brings it";
const UNREADABLE: &str = "which the operator has no right to read; let its account get \
                          deviceclasses.resource.k8s.io, or select device.driver in the request itself";
const UNCLEAR: &str = "which may or may not be GPUs; select device.driver in the class or in the request, or set \
                       spec.extendedResourceName of the class";

/// The DeviceClasses that have to be known to count what a container has through a claim.
pub fn classes_of<'a>(claim: &'a ContainerClaim, spec: &'a ResourceClaimSpec) -> BTreeSet<&'a str> {
    claim.used(spec).flat_map(alternatives_of).map(|devices| devices.class).collect()
}

/// The GPUs that a container has through claims. A class that `classes` lacks does not exist.
///
/// # Errors
/// The reason why they cannot be counted, and the remedy.
pub fn count_gpus(claims: &[(ContainerClaim, ResourceClaimSpec)], classes: &DeviceClasses) -> Result<u32, String> {
    let mut total: u32 = 0;
    for (claim, spec) in claims {
        let mut used = claim.used(spec).peekable();
        if let (None, Some(request)) = (used.peek(), &claim.request) {
            let claim = &claim.source;
            return Err(format!("{claim} has no request {request}, which resources.claims of the container names"));
        }
        for request in used {
            let counted = GpuRequest { claim: &claim.source, request, classes }.gpus()?;
            total = total.saturating_add(counted);
        }
    }
    Ok(total)
}

/// A request of a claim, and what is known of the classes it may name.
struct GpuRequest<'a> {
    claim: &'a ClaimSource,
    request: &'a DeviceRequest,
    classes: &'a DeviceClasses,
}

impl GpuRequest<'_> {
    /// Of alternatives, all have to come to the same.
    fn gpus(&self) -> Result<u32, String> {
        let mut all = Vec::new();
        for devices in alternatives_of(self.request) {
            all.push(if self.is_gpu(&devices)? { self.amount(&devices)? } else { 0 });
        }
        all.dedup();
        match all[..] {
            [] => Ok(0),
            [one] => Ok(one),
            _ => Err(self.no_count("has alternatives that differ in their number of GPUs")),
        }
    }

    fn amount(&self, devices: &RequestedDevices<'_>) -> Result<u32, String> {
        if devices.mode.is_some_and(|mode| !mode.is_empty() && mode != "ExactCount") {
            return Err(self.no_count("requests all GPUs of a node"));
        }
        let count = u32::try_from(devices.count.unwrap_or(1)).map_err(|_| self.no_count("has no valid count"))?;
        Ok(count.max(1))
    }

    /// Selectors of the class and of the request have to match both, so either can name the driver.
    fn is_gpu(&self, devices: &RequestedDevices<'_>) -> Result<bool, String> {
        let (claim, class, of_request) = (self.claim, devices.class, devices.selectors);
        let unknown = |problem: &str| format!("{claim} requests devices of DeviceClass {class}, {problem}");
        let known = self.classes.get(class).ok_or_else(|| unknown(MISSING))?;
        let of_class = known.iter().flat_map(|class| class.selectors.iter().flatten());
        let drivers: BTreeSet<bool> = of_class.chain(of_request).flat_map(drivers).map(is_gpu_driver).collect();
        let mut drivers = drivers.into_iter();
        match (drivers.next(), drivers.next(), known) {
            (Some(is_gpu), None, _) => Ok(is_gpu),
            (None, _, None) => Err(unknown(UNREADABLE)),
            (None, _, Some(known)) => match &known.extended_resource_name {
                Some(resource) => Ok(is_gpu(resource)),
                // The name counts only where nothing else says what the device is.
                None if known.selectors.iter().flatten().chain(of_request).next().is_none() && is_gpu_driver(class) => {
                    Ok(true)
                }
                None => Err(unknown(UNCLEAR)),
            },
            (Some(_), Some(_), _) => Err(unknown(UNCLEAR)),
        }
    }

    fn no_count(&self, problem: &str) -> String {
        format!("request {} of {} {problem}; request an exact count of GPUs", self.request.name, self.claim)
    }
}

/// The drivers that a selector insists on: `device.driver == "…"`, alone or beside other conditions. Where there are
/// alternatives or denials, no driver can be derived without evaluating it.
fn drivers(selector: &DeviceSelector) -> impl Iterator<Item = &str> {
    let expression = selector.cel.as_ref().map_or("", |cel| cel.expression.as_str());
    let plain = !expression.contains("||") && !expression.contains("!(");
    expression.split("&&").filter(move |_| plain).filter_map(|condition| {
        let condition = condition.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        let value = condition.strip_prefix("device.driver")?.trim_start().strip_prefix("==")?.trim_start();
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        value[1..].split_once(quote).map(|(driver, _)| driver)
    })
}

/// Whether a driver, or a class, calls itself one of GPUs: `gpu.nvidia.com`, `example.com/gpu`.
fn is_gpu_driver(name: &str) -> bool {
    let name = name.to_lowercase();
    let whole = name == "gpu" || name.starts_with("gpu.") || name.starts_with("gpu/") || name.ends_with("/gpu");
    whole || name.contains("/gpu.") || name.contains("/gpu-")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const CLAIM: &str = "ResourceClaimTemplate eight";

    fn class(spec: Value) -> Option<DeviceClassSpec> {
        Some(serde_json::from_value(spec).unwrap())
    }

    fn selecting(expression: &str) -> Value {
        json!({ "selectors": [{ "cel": { "expression": expression } }] })
    }

    fn classes() -> DeviceClasses {
        let all = [
            (
                "gpu.nvidia.com",
                class(selecting("device.driver == 'gpu.nvidia.com' && device.attributes['x'].type == 'gpu'")),
            ),
            ("compute-domain", class(selecting("device.driver == \"compute-domain.nvidia.com\""))),
            ("extended", class(json!({ "extendedResourceName": "nvidia.com/mig-1g.5gb" }))),
            ("nic", class(json!({ "extendedResourceName": "rdma/hca" }))),
            ("gpu.named.example", class(json!({}))),
            ("gpu.unclear.example", class(selecting("device.attributes['x'].type == 'gpu'"))),
            ("either", class(selecting("device.driver == 'gpu.a' || device.driver == 'gpu.b'"))),
            ("both", class(selecting("(device.driver == 'gpu.a') && device.driver == 'nic.a'"))),
            ("none", class(selecting("!(device.driver == 'gpu.a' && device.driver == 'gpu.a')"))),
            ("plain", class(json!({}))),
            ("secret", None),
        ];
        all.map(|(name, class)| (name.to_owned(), class)).into()
    }

    fn counted(requests: Value, request: Option<&str>) -> Result<u32, String> {
        let spec: ResourceClaimSpec = serde_json::from_value(json!({ "devices": { "requests": requests } })).unwrap();
        let claim =
            ContainerClaim { source: ClaimSource::Template("eight".to_owned()), request: request.map(str::to_owned) };
        count_gpus(&[(claim, spec)], &classes())
    }

    /// Of one request `r` for four devices of a class.
    fn four_of(class: &str) -> Result<u32, String> {
        counted(json!([{ "name": "r", "exactly": { "deviceClassName": class, "count": 4 } }]), None)
    }

    #[test]
    fn only_gpus_count_and_they_are_recognised_by_driver_or_resource() {
        for class in ["gpu.nvidia.com", "extended", "gpu.named.example"] {
            assert_eq!(four_of(class), Ok(4), "{class}");
        }
        for class in ["compute-domain", "nic"] {
            assert_eq!(four_of(class), Ok(0), "{class}");
        }
        for class in ["gpu.unclear.example", "either", "both", "none", "plain"] {
            let problem = four_of(class).unwrap_err();
            assert!(
                problem.starts_with(&format!("{CLAIM} requests devices of DeviceClass {class}, which may or")),
                "{problem}"
            );
        }
    }

    #[test]
    fn a_class_that_is_missing_or_may_not_be_read_is_named_with_the_remedy() {
        let missing = four_of("absent").unwrap_err();
        assert_eq!(
            missing,
            format!(
                "{CLAIM} requests devices of DeviceClass absent, which does not exist; install the driver that brings it"
            )
        );
        let secret = four_of("secret").unwrap_err();
        assert!(
            secret.contains("DeviceClass secret, which the operator has no right to read; let its account get"),
            "{secret}"
        );
        let selector = json!([{ "cel": { "expression": "device.driver == 'gpu.nvidia.com'" } }]);
        let request =
            json!([{ "name": "r", "exactly": { "deviceClassName": "secret", "count": 4, "selectors": selector } }]);
        assert_eq!(counted(request, None), Ok(4), "the request says it itself");
    }

    #[test]
    fn requests_are_summed_as_far_as_the_container_uses_them() {
        let gpus = |name: &str, more: Value| {
            let mut exactly = json!({ "deviceClassName": "gpu.nvidia.com" });
            exactly.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({ "name": name, "exactly": exactly })
        };
        let two = json!([gpus("a", json!({})), gpus("b", json!({ "allocationMode": "ExactCount", "count": 3 }))]);
        assert_eq!(counted(two.clone(), None), Ok(4));
        assert_eq!(counted(two.clone(), Some("b")), Ok(3));
        assert_eq!(
            counted(two, Some("c")).unwrap_err(),
            format!("{CLAIM} has no request c, which resources.claims of the container names")
        );
        assert_eq!(
            counted(json!([gpus("r", json!({ "allocationMode": "All" }))]), None).unwrap_err(),
            format!("request r of {CLAIM} requests all GPUs of a node; request an exact count of GPUs")
        );
    }

    #[test]
    fn alternatives_have_to_come_to_the_same() {
        let of = |all: &[(&str, i64)]| {
            let others: Vec<_> = all
                .iter()
                .map(|(class, count)| json!({ "name": "o", "deviceClassName": class, "count": count }))
                .collect();
            counted(json!([{ "name": "r", "firstAvailable": others }]), None)
        };
        assert_eq!(of(&[("gpu.nvidia.com", 8), ("extended", 8)]), Ok(8));
        assert_eq!(of(&[("nic", 8), ("compute-domain", 1)]), Ok(0));
        for unequal in [[("gpu.nvidia.com", 8), ("extended", 4)], [("gpu.nvidia.com", 8), ("nic", 8)]] {
            let problem = of(&unequal).unwrap_err();
            assert!(problem.contains("alternatives that differ in their number of GPUs"), "{problem}");
        }
    }

    #[test]
    fn the_classes_to_be_read_are_those_of_the_requests_that_are_used() {
        let spec = serde_json::from_value(json!({ "devices": { "requests": [
            { "name": "a", "exactly": { "deviceClassName": "x" } },
            { "name": "b", "firstAvailable": [
                { "name": "o", "deviceClassName": "y" }, { "name": "p", "deviceClassName": "z" }] },
        ] } }))
        .unwrap();
        let claim = |request: Option<&str>| ContainerClaim {
            source: ClaimSource::Claim("c".to_owned()),
            request: request.map(str::to_owned),
        };
        assert_eq!(classes_of(&claim(None), &spec), ["x", "y", "z"].into());
        assert_eq!(classes_of(&claim(Some("b")), &spec), ["y", "z"].into());
    }
}
