//! GPUs that a container asks for as scalar resources.

use rendering::gpus::is_gpu;

use super::super::field::Node;

const ONE: i128 = 1_000_000_000;

/// What a container asks for.
#[derive(Debug, Clone)]
pub(in crate::admission) enum Gpus<'a> {
    /// No GPU.
    None,
    /// A whole number of them.
    Count(i128),
    /// Something that is no whole number, and where it stands.
    Unreadable(Node<'a>),
}

/// The GPUs of a container: of the first GPU resource among its limits, else among its requests.
pub(in crate::admission) fn gpus<'a>(resources: &Node<'a>) -> Gpus<'a> {
    let lists = ["limits", "requests"].map(|list| resources.field(list));
    let first = lists.iter().find_map(|amounts| amounts.entries().find(|(resource, _)| is_gpu(resource)));
    let Some((_, amount)) = first else { return Gpus::None };
    match amount.quantity().and_then(|text| api_types::quantity::nanos(&text)).filter(|nanos| nanos % ONE == 0) {
        Some(nanos) => Gpus::Count(nanos / ONE),
        None => Gpus::Unreadable(amount),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn limits_count_before_requests_and_only_whole_devices_count() {
        for (resources, expected) in [
            (json!({}), Some(0)),
            (json!({ "limits": { "cpu": "1" } }), Some(0)),
            (json!({ "limits": { "nvidia.com/gpu": "2" }, "requests": { "nvidia.com/gpu": "4" } }), Some(2)),
            (json!({ "limits": { "cpu": 1 }, "requests": { "amd.com/gpu": 4 } }), Some(4)),
            (json!({ "limits": { "nvidia.com/mig-3g.20gb": "1" } }), Some(1)),
            (json!({ "limits": { "gpu.intel.com/i915": "1" } }), Some(1)),
            (json!({ "limits": { "nvidia.com/gpu": "1500m" } }), None),
            (json!({ "limits": { "nvidia.com/gpu": "all" } }), None),
            (json!({ "limits": { "nvidia.com/gpu": null } }), None),
        ] {
            let count = match gpus(&Node::root(&resources)) {
                Gpus::None => Some(0),
                Gpus::Count(count) => Some(count),
                Gpus::Unreadable(_) => None,
            };
            assert_eq!(count, expected, "{resources}");
        }
    }
}
