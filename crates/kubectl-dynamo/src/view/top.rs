//! Requests and usage of the pods of each component.

use std::collections::BTreeMap;

use api_types::{gpus, labels, quantity::nanos};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;
use serde::Serialize;
use serde_json::Value;
use status_view::{Table, pods::has_ended};

const MEBI: i64 = 1024 * 1024;

/// Amounts of the resources that every pod has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CpuAndMemory {
    /// Thousandths of a core.
    pub millicores: i64,
    /// Memory.
    pub bytes: i64,
}

impl CpuAndMemory {
    /// From quantities by name; what is missing counts as nothing.
    fn read<'a>(quantity: impl Fn(&str) -> Option<&'a str>) -> Self {
        let amount = |name: &str, unit: i128| {
            let nanos = quantity(name).and_then(nanos).unwrap_or_default();
            i64::try_from(nanos / unit).unwrap_or(i64::MAX)
        };
        Self { millicores: amount("cpu", 1_000_000), bytes: amount("memory", 1_000_000_000) }
    }

    fn add(&mut self, other: Self) {
        self.millicores = self.millicores.saturating_add(other.millicores);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Pods of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ComponentUsage {
    /// Name in the graph.
    pub component: String,
    /// Pods that have not ended.
    pub pods: usize,
    /// GPUs that they request.
    pub gpus: u64,
    /// Requested CPU and memory.
    pub requested: CpuAndMemory,
    /// Used CPU and memory; `None` where their metrics are unknown.
    pub used: Option<CpuAndMemory>,
}

/// Adds up pods by component. `metrics` are PodMetrics.
pub fn usage(pods: &[Pod], metrics: &[Value]) -> Vec<ComponentUsage> {
    let of_pod: BTreeMap<&str, CpuAndMemory> =
        metrics.iter().filter_map(|one| Some((one["metadata"]["name"].as_str()?, used_by(one)))).collect();
    let mut all: BTreeMap<String, ComponentUsage> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !has_ended(pod)) {
        let component = pod.labels().get(labels::COMPONENT).cloned().unwrap_or_else(|| "-".to_owned());
        let entry = all.entry(component.clone()).or_insert_with(|| ComponentUsage { component, ..Default::default() });
        entry.pods += 1;
        entry.gpus += gpus::of_pod(pod);
        for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
            entry.requested.add(requested_by(container));
        }
        if let Some(used) = of_pod.get(pod.name_any().as_str()) {
            entry.used.get_or_insert_default().add(*used);
        }
    }
    all.into_values().collect()
}

/// A limit without a request counts as one.
fn requested_by(container: &Container) -> CpuAndMemory {
    let Some(resources) = &container.resources else { return CpuAndMemory::default() };
    let lists = [resources.requests.as_ref(), resources.limits.as_ref()];
    CpuAndMemory::read(|name| lists.into_iter().flatten().find_map(|list| list.get(name)).map(|it| it.0.as_str()))
}

fn used_by(metrics: &Value) -> CpuAndMemory {
    let mut used = CpuAndMemory::default();
    for container in metrics["containers"].as_array().into_iter().flatten() {
        used.add(CpuAndMemory::read(|name| container["usage"][name].as_str()));
    }
    used
}

/// The usage as a table, in units of `kubectl top`.
pub fn usage_table(all: &[ComponentUsage]) -> String {
    let mut table =
        Table::new(&["COMPONENT", "PODS", "GPUS", "CPU REQUESTED", "CPU USED", "MEMORY REQUESTED", "MEMORY USED"]);
    let cpu = |amounts: CpuAndMemory| format!("{}m", amounts.millicores);
    let memory = |amounts: CpuAndMemory| format!("{}Mi", amounts.bytes / MEBI);
    let or_dash = |amounts: Option<CpuAndMemory>, show: &dyn Fn(CpuAndMemory) -> String| {
        amounts.map_or_else(|| "-".to_owned(), show)
    };
    for one in all {
        table.row([
            one.component.clone(),
            one.pods.to_string(),
            one.gpus.to_string(),
            cpu(one.requested),
            or_dash(one.used, &cpu),
            memory(one.requested),
            or_dash(one.used, &memory),
        ]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_are_added_up_by_component() {
        let pod = |name: &str, component: &str| -> Pod {
            let resources =
                json!({ "requests": { "cpu": "1500m" }, "limits": { "memory": "2Gi", "nvidia.com/gpu": "2" } });
            serde_json::from_value(json!({
                "metadata": { "name": name, "labels": { "nvidia.com/dynamo-component": component } },
                "spec": { "containers": [{ "name": "main", "resources": resources }] },
            }))
            .unwrap()
        };
        let pods = [pod("a", "Decode"), pod("b", "Decode"), pod("c", "Frontend")];
        let metrics = json!({ "metadata": { "name": "a" },
            "containers": [{ "name": "main", "usage": { "cpu": "250000000n", "memory": "1048576Ki" } }] });
        let expected = "\
COMPONENT   PODS   GPUS   CPU REQUESTED   CPU USED   MEMORY REQUESTED   MEMORY USED
Decode      2      4      3000m           250m       4096Mi             1024Mi
Frontend    1      2      1500m           -          2048Mi             -
";
        assert_eq!(usage_table(&usage(&pods, &[metrics])), expected);
    }
}
