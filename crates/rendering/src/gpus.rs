//! GPUs as scalar resources of a container.

use std::collections::BTreeMap;

use api_types::{gpus::is_gpu, quantity, violations::Violation};
use k8s_openapi::{api::core::v1::ResourceRequirements, apimachinery::pkg::api::resource::Quantity};

const ONE: i128 = 1_000_000_000;

/// A GPU resource that is no whole number of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotWhole {
    /// `limits` or `requests`.
    pub(crate) list: &'static str,
    pub(crate) resource: String,
    pub(crate) amount: String,
}

impl NotWhole {
    /// The violation in the container at the path `at`.
    pub(crate) fn violation(self, at: &str) -> Violation {
        let field = format!("{at}.resources.{}[{}]", self.list, self.resource);
        Violation::invalid(field, self.amount, "is no whole number of GPUs", "write a count such as 1")
    }
}

/// The first resource that `accepts` takes, of a container's limits, else of its requests: list, name and amount.
pub(crate) fn first(
    resources: Option<&ResourceRequirements>,
    accepts: impl Fn(&str) -> bool,
) -> Option<(&'static str, &String, &Quantity)> {
    let resources = resources?;
    let lists = [("limits", resources.limits.as_ref()), ("requests", resources.requests.as_ref())];
    lists.into_iter().find_map(|(list, amounts)| {
        let (resource, amount) = amounts?.iter().find(|(resource, _)| accepts(resource))?;
        Some((list, resource, amount))
    })
}

/// The GPUs of a container: of the first GPU resource among its limits, else among its requests; 0 if it has none.
///
/// # Errors
/// The amount, if it is no whole number.
pub(crate) fn count(resources: Option<&ResourceRequirements>) -> Result<u32, NotWhole> {
    let Some((list, resource, amount)) = first(resources, is_gpu) else { return Ok(0) };
    let whole = quantity::nanos(&amount.0).filter(|nanos| nanos % ONE == 0);
    let devices = whole.and_then(|nanos| u32::try_from(nanos / ONE).ok());
    devices.ok_or_else(|| NotWhole { list, resource: resource.clone(), amount: amount.0.clone() })
}

/// Takes every GPU out of a container's scalar resources.
pub(crate) fn remove(resources: &mut ResourceRequirements) {
    let without = |amounts: &mut Option<BTreeMap<String, Quantity>>| {
        if let Some(all) = amounts {
            all.retain(|resource, _| !is_gpu(resource));
        }
        *amounts = amounts.take().filter(|all| !all.is_empty());
    };
    without(&mut resources.limits);
    without(&mut resources.requests);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn resources(value: Value) -> ResourceRequirements {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn limits_count_before_requests_and_only_whole_devices_count() {
        let table = [
            (json!({}), Ok(0)),
            (json!({"limits": {"cpu": "1"}, "requests": {"nvidia.com/gpu": "4"}}), Ok(4)),
            (json!({"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "4"}}), Ok(2)),
            (json!({"limits": {"nvidia.com/gpu": "2000m"}}), Ok(2)),
            (json!({"limits": {"nvidia.com/mig-1g.5gb": "1", "zeta.com/gpu": "7"}}), Ok(1)),
            (json!({"limits": {"nvidia.com/gpu": "500m"}}), Err("500m")),
            (json!({"limits": {"nvidia.com/gpu": "-1"}}), Err("-1")),
        ];
        for (given, expected) in table {
            let counted = count(Some(&resources(given.clone())));
            assert_eq!(counted.map_err(|not_whole| not_whole.amount), expected.map_err(str::to_owned), "{given}");
        }
        assert_eq!(count(None), Ok(0));
    }

    #[test]
    fn removal_leaves_the_other_resources() {
        let mut given = resources(json!({"limits": {"nvidia.com/gpu": "2"}, "requests": {"gpu": "1", "cpu": "1"}}));
        remove(&mut given);
        assert_eq!(given, resources(json!({"requests": {"cpu": "1"}})));
    }
}
