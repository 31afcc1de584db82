//! A device claim of a pod, and the devices that a container gets through it.

use std::fmt;

use k8s_openapi::api::{
    core::v1::{Container, PodSpec},
    resource::v1::{DeviceRequest, DeviceSelector, ResourceClaimSpec},
};

/// A claim of a pod that one of its containers uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerClaim {
    /// The object that has its spec.
    pub source: ClaimSource,
    /// The one of its requests that the container uses; `None` for all.
    pub request: Option<String>,
}

/// The object that has the spec of a pod's claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimSource {
    /// In a ResourceClaimTemplate of that name.
    Template(String),
    /// In a ResourceClaim of that name.
    Claim(String),
}

impl fmt::Display for ClaimSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(name) => write!(f, "ResourceClaimTemplate {name}"),
            Self::Claim(name) => write!(f, "ResourceClaim {name}"),
        }
    }
}

/// As many as matter where a claim requests all devices of a node: more than one.
const ALL: u32 = 2;

/// The claims of a container, each once. A name that the pod gives to no claim counts for nothing.
pub(crate) fn of(pod: &PodSpec, container: &Container) -> Vec<ContainerClaim> {
    let used = container.resources.iter().flat_map(|resources| resources.claims.iter().flatten());
    let found = used.filter_map(|used| {
        let claim = pod.resource_claims.iter().flatten().find(|claim| claim.name == used.name)?;
        let template = claim.resource_claim_template_name.clone().filter(|name| !name.is_empty());
        let own = claim.resource_claim_name.clone().filter(|name| !name.is_empty());
        let source = template.map(ClaimSource::Template).or(own.map(ClaimSource::Claim))?;
        Some(ContainerClaim { source, request: used.request.clone().filter(|request| !request.is_empty()) })
    });
    found.fold(Vec::new(), |mut all, claim| {
        if !all.contains(&claim) {
            all.push(claim);
        }
        all
    })
}

impl ContainerClaim {
    /// Devices of a class that a container gets through this claim, given its spec.
    pub fn devices(&self, spec: &ResourceClaimSpec, class: &str) -> u32 {
        // Of alternatives, the one with the most devices counts.
        let of_class = |request: &DeviceRequest| {
            alternatives_of(request).iter().filter(|devices| devices.class == class).map(amount).max()
        };
        self.used(spec).filter_map(of_class).sum()
    }

    /// The requests that the container uses.
    pub(super) fn used<'a>(&'a self, spec: &'a ResourceClaimSpec) -> impl Iterator<Item = &'a DeviceRequest> {
        let requests = spec.devices.iter().flat_map(|devices| devices.requests.iter().flatten());
        requests.filter(|request| self.request.as_ref().is_none_or(|name| request.name == *name))
    }
}

/// Devices that may serve a request.
pub(super) struct RequestedDevices<'a> {
    pub(super) class: &'a str,
    pub(super) selectors: &'a [DeviceSelector],
    pub(super) mode: Option<&'a str>,
    pub(super) count: Option<i64>,
}

/// Devices that may serve a request: of one class, or of one of several alternatives.
pub(super) fn alternatives_of(request: &DeviceRequest) -> Vec<RequestedDevices<'_>> {
    if let Some(exactly) = &request.exactly {
        return vec![RequestedDevices {
            class: &exactly.device_class_name,
            selectors: exactly.selectors.as_deref().unwrap_or_default(),
            mode: exactly.allocation_mode.as_deref(),
            count: exactly.count,
        }];
    }
    let alternatives = request.first_available.iter().flatten().map(|other| RequestedDevices {
        class: &other.device_class_name,
        selectors: other.selectors.as_deref().unwrap_or_default(),
        mode: other.allocation_mode.as_deref(),
        count: other.count,
    });
    alternatives.collect()
}

fn amount(devices: &RequestedDevices<'_>) -> u32 {
    match devices.mode {
        Some("All") => ALL,
        _ => u32::try_from(devices.count.unwrap_or(1)).unwrap_or(1).max(1),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn devices_of_the_class_count_as_far_as_the_container_uses_them() {
        let gpu = |rest: Value| {
            let mut exactly = json!({"deviceClassName": "gpu"});
            exactly.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            exactly
        };
        let table = [
            (json!([{"name": "a", "exactly": gpu(json!({"count": 4}))}]), None, 4),
            (json!([{"name": "a", "exactly": gpu(json!({}))}]), None, 1),
            (json!([{"name": "a", "exactly": gpu(json!({"allocationMode": "All"}))}]), None, 2),
            (json!([{"name": "a", "exactly": {"deviceClassName": "nic", "count": 8}}]), None, 0),
            (json!([{"name": "a", "exactly": gpu(json!({}))}, {"name": "b", "exactly": gpu(json!({}))}]), Some("b"), 1),
            (
                json!([{"name": "a", "firstAvailable": [{"name": "x", "deviceClassName": "gpu", "count": 1},
                    {"name": "y", "deviceClassName": "gpu", "count": 3}]}]),
                None,
                3,
            ),
        ];
        for (requests, request, expected) in table {
            let spec = serde_json::from_value(json!({"devices": {"requests": requests}})).unwrap();
            let claim =
                ContainerClaim { source: ClaimSource::Claim("c".to_owned()), request: request.map(str::to_owned) };
            assert_eq!(claim.devices(&spec, "gpu"), expected, "{requests}");
        }
    }
}
