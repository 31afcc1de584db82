//! The hardware of a cluster, from the labels of its nodes and the metrics of its exporters. Pure.

pub mod dcgm;

use std::collections::BTreeMap;

use api_types::{
    labels,
    v1beta1::{GpuSku, Hardware},
};
use rendering::rules::request::missing_gpu_facts;

use crate::request::model::FoundHardware;

/// No more GPUs than this are planned with unless the user says so: the profiler's search grows with them.
const MOST_GPUS: i32 = 32;

/// The GPUs of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeGpus {
    /// Name of the node.
    pub node: String,
    /// Model name that the manufacturer gives them.
    pub model: String,
    /// Number of GPUs.
    pub count: i32,
    /// Memory of one, in MiB.
    pub vram_mb: f64,
    /// `nvlink` or `pcie`, if it is known.
    pub interconnect: Option<&'static str>,
}

/// Whether hardware of the cluster must be looked up.
pub fn uses_search(hardware: Option<&Hardware>) -> bool {
    let hardware = hardware.cloned().unwrap_or_default();
    !missing_gpu_facts(&hardware).is_empty()
        || hardware.total_gpus.is_none()
        || hardware.interconnect.as_deref().unwrap_or_default().is_empty()
        || hardware.rdma.is_none()
}

/// Whether a request cannot do without an answer.
pub fn needs_search(hardware: Option<&Hardware>) -> bool {
    !missing_gpu_facts(&hardware.cloned().unwrap_or_default()).is_empty()
}

/// Fills in what the user leaves open from what is known otherwise.
pub fn fill(given: Hardware, known: &Hardware) -> Hardware {
    let known = known.clone();
    let text = |given: Option<String>| given.filter(|given| !given.is_empty());
    Hardware {
        gpu_sku: given.gpu_sku.or(known.gpu_sku),
        vram_mb: given.vram_mb.or(known.vram_mb),
        total_gpus: given.total_gpus.or(known.total_gpus),
        num_gpus_per_node: given.num_gpus_per_node.or(known.num_gpus_per_node),
        interconnect: text(given.interconnect).or(known.interconnect),
        rdma: given.rdma.or(known.rdma),
    }
}

/// Chooses the kind of GPU to plan with: the user's, else that of the node with most GPUs, then most memory.
///
/// # Errors
/// The reason why there is nothing to choose.
pub fn choose(
    nodes: &[NodeGpus],
    desired: Option<GpuSku>,
    has_rdma: impl Fn(&str) -> bool,
) -> Result<FoundHardware, String> {
    let fits = |node: &&NodeGpus| desired.is_none_or(|desired| infer(&node.model) == Some(desired));
    let candidates = nodes.iter().filter(|node| node.count > 0).filter(fits);
    // Of equal ones the first by name, so that the answer does not depend on who answered first.
    let best = candidates.min_by(|a, b| {
        let by_memory = || b.vram_mb.total_cmp(&a.vram_mb);
        b.count.cmp(&a.count).then_with(by_memory).then_with(|| a.node.cmp(&b.node))
    });
    let Some(best) = best else {
        return Err(match desired {
            Some(desired) => format!("no node has GPUs of kind {desired}"),
            None => "no node has GPUs".to_owned(),
        });
    };
    let kind = infer(&best.model);
    let alike = nodes.iter().filter(|node| node.count > 0).filter(|node| match kind {
        Some(kind) => infer(&node.model) == Some(kind),
        None => node.model == best.model,
    });
    let alike = i32::try_from(alike.count()).unwrap_or(i32::MAX);
    let unknown = || format!("unknown GPU model {:?}", best.model);
    Ok(FoundHardware {
        unknown_model: kind.is_none().then(unknown),
        hardware: Hardware {
            gpu_sku: kind,
            vram_mb: Some(best.vram_mb).filter(|memory| *memory > 0.0),
            total_gpus: Some(best.count.saturating_mul(alike).min(MOST_GPUS)),
            num_gpus_per_node: Some(best.count),
            interconnect: best.interconnect.map(str::to_owned),
            rdma: Some(has_rdma(&best.node)),
        },
    })
}

/// The GPUs of a node by its labels, which GPU feature discovery sets.
pub fn of_labels(node: &str, node_labels: &BTreeMap<String, String>) -> Option<NodeGpus> {
    let number = |key: &str| node_labels.get(key)?.parse::<i32>().ok().filter(|number| *number > 0);
    Some(NodeGpus {
        node: node.to_owned(),
        model: node_labels.get(labels::NODE_GPU_PRODUCT)?.clone(),
        count: number(labels::NODE_GPU_COUNT)?,
        vram_mb: f64::from(number(labels::NODE_GPU_MEMORY)?),
        interconnect: None,
    })
}

/// Adds what the labels of nodes say. They win over an exporter, which may be any pod: a tenant cannot write nodes.
/// They do not say how GPUs are connected.
pub fn add_labelled(nodes: &mut Vec<NodeGpus>, labelled: impl Iterator<Item = NodeGpus>) {
    for by_labels in labelled {
        match nodes.iter_mut().find(|node| node.node == by_labels.node) {
            Some(node) => *node = NodeGpus { interconnect: node.interconnect, ..by_labels },
            None => nodes.push(by_labels),
        }
    }
}

/// Whether the labels of a node declare RDMA.
pub fn has_rdma(node_labels: &BTreeMap<String, String>) -> bool {
    labels::NODE_RDMA.iter().any(|key| node_labels.get(*key).is_some_and(|value| value == labels::TRUE))
}

/// Searched texts, each with the kind of GPU: in modules of its own, or on a card. The first match counts.
const KINDS: [(&str, GpuSku, GpuSku); 15] = [
    ("GB200", GpuSku::Gb200Sxm, GpuSku::Gb200Sxm),
    ("GB10", GpuSku::Gb10, GpuSku::Gb10),
    ("B200", GpuSku::B200Sxm, GpuSku::B200Sxm),
    ("H200", GpuSku::H200Sxm, GpuSku::H200Sxm),
    ("H100", GpuSku::H100Sxm, GpuSku::H100Pcie),
    ("A100", GpuSku::A100Sxm, GpuSku::A100Pcie),
    ("A30", GpuSku::A30, GpuSku::A30),
    ("L40S", GpuSku::L40s, GpuSku::L40s),
    ("L40", GpuSku::L40, GpuSku::L40),
    ("L4", GpuSku::L4, GpuSku::L4),
    ("V100", GpuSku::V100Sxm, GpuSku::V100Pcie),
    ("T4", GpuSku::T4, GpuSku::T4),
    ("MI300", GpuSku::Mi300, GpuSku::Mi300),
    ("MI250", GpuSku::Mi200, GpuSku::Mi200),
    ("MI200", GpuSku::Mi200, GpuSku::Mi200),
];

/// The kind of a GPU, if it is one of those that requests can name.
pub fn infer(model: &str) -> Option<GpuSku> {
    let text = model.to_uppercase();
    let squeezed: String = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    let modules = ["SXM", "HGX", "DGX", "HBM3"].iter().any(|mark| squeezed.contains(mark));
    let fits = |token: &str| match token {
        // An A3000 is no A30.
        "A30" => text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == token),
        _ => squeezed.contains(token),
    };
    let (_, module, card) = KINDS.iter().find(|(token, ..)| fits(token))?;
    Some(if modules { *module } else { *card })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, model: &str, count: i32, vram_mb: f64) -> NodeGpus {
        NodeGpus { node: name.into(), model: model.into(), count, vram_mb, interconnect: None }
    }

    #[test]
    fn most_gpus_win_then_most_memory_and_only_their_kind_counts() {
        let nodes = [
            node("a", "NVIDIA L4", 4, 24_000.0),
            node("b", "NVIDIA H100 80GB HBM3", 8, 81_559.0),
            node("c", "NVIDIA H100 80GB HBM3", 8, 81_559.0),
            node("d", "NVIDIA A100-SXM4-40GB", 8, 40_960.0),
        ];
        let hardware = choose(&nodes, None, |name| name == "b").unwrap().hardware;
        assert_eq!(hardware.gpu_sku, Some(GpuSku::H100Sxm));
        assert_eq!((hardware.num_gpus_per_node, hardware.total_gpus), (Some(8), Some(16)));
        assert_eq!((hardware.vram_mb, hardware.rdma), (Some(81_559.0), Some(true)));
        let expected = choose(&nodes, Some(GpuSku::L4), |_| false).unwrap().hardware;
        assert_eq!((expected.gpu_sku, expected.total_gpus, expected.rdma), (Some(GpuSku::L4), Some(4), Some(false)));
        assert!(choose(&nodes, Some(GpuSku::T4), |_| false).unwrap_err().contains("t4"));
        assert!(choose(&[], None, |_| false).is_err());
    }

    #[test]
    fn a_plan_has_at_most_32_gpus_unless_the_author_says_more() {
        let nodes: Vec<_> = (0..9).map(|n| node(&format!("n{n}"), "NVIDIA B200", 8, 1.0)).collect();
        let found = choose(&nodes, None, |_| false).unwrap();
        assert_eq!(found.hardware.total_gpus, Some(32));
        let given = Hardware { total_gpus: Some(72), ..Hardware::default() };
        assert_eq!(fill(given, &found.hardware).total_gpus, Some(72));
    }

    /// Any pod with the label of an exporter can say that it runs on a node with other GPUs. The upstream operator
    /// used it.
    #[test]
    fn labels_of_nodes_win_over_exporters() {
        let exported = || vec![NodeGpus { interconnect: Some("nvlink"), ..node("a", "NVIDIA B200", 16, 2.0) }];
        let labelled = || [node("a", "NVIDIA-H100-80GB-HBM3", 8, 1.0), node("b", "NVIDIA-L4", 4, 24_000.0)].into_iter();
        let mut nodes = exported();
        add_labelled(&mut nodes, labelled());
        let found = |expected| choose(&nodes, expected, |_| false).map(|found| found.hardware);
        let l4 = found(Some(GpuSku::L4)).unwrap();
        assert_eq!((l4.gpu_sku, l4.num_gpus_per_node, l4.total_gpus), (Some(GpuSku::L4), Some(4), Some(4)));
        let h100 = found(Some(GpuSku::H100Sxm)).unwrap();
        assert_eq!((h100.num_gpus_per_node, h100.total_gpus, h100.vram_mb), (Some(8), Some(8), Some(1.0)));
        assert_eq!(h100.interconnect.as_deref(), Some("nvlink"), "labels do not say it");
        assert!(found(Some(GpuSku::B200Sxm)).is_err(), "no node has them");
        let mut without_labels = exported();
        add_labelled(&mut without_labels, std::iter::empty());
        assert_eq!(without_labels, exported(), "a node without labels has the figures of its exporter");
    }

    /// The upstream operator writes the maker's text into a field that takes names of a list, and fails.
    #[test]
    fn an_unknown_gpu_has_no_kind() {
        let found = choose(&[node("a", "Imaginary 9000", 2, 1.0)], None, |_| false).unwrap();
        assert_eq!(found.hardware.gpu_sku, None);
        assert!(found.unknown_model.unwrap().contains("Imaginary 9000"));
    }

    #[test]
    fn labels_count_only_if_they_are_complete() {
        let labels = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let all =
            [("nvidia.com/gpu.count", "8"), ("nvidia.com/gpu.product", "L40S"), ("nvidia.com/gpu.memory", "46068")];
        assert_eq!(of_labels("n", &labels(&all)), Some(node("n", "L40S", 8, 46_068.0)));
        assert_eq!(of_labels("n", &labels(&all[..2])), None);
        assert_eq!(of_labels("n", &labels(&[all[1], all[2], ("nvidia.com/gpu.count", "many")])), None);
        assert!(has_rdma(&labels(&[("nvidia.com/rdma.present", "true")])));
        assert!(!has_rdma(&labels(&[("nvidia.com/rdma.present", "false")])));
    }
}

#[cfg(test)]
mod sku_tests {
    use super::*;

    #[test]
    fn what_makers_call_them() {
        for (text, expected) in [
            ("NVIDIA-H100-80GB-HBM3", Some(GpuSku::H100Sxm)),
            ("NVIDIA H100 PCIe", Some(GpuSku::H100Pcie)),
            ("NVIDIA-A100-SXM4-80GB", Some(GpuSku::A100Sxm)),
            ("NVIDIA A100 80GB PCIe", Some(GpuSku::A100Pcie)),
            ("NVIDIA GB200", Some(GpuSku::Gb200Sxm)),
            ("NVIDIA GB10", Some(GpuSku::Gb10)),
            ("NVIDIA B200", Some(GpuSku::B200Sxm)),
            ("NVIDIA H200", Some(GpuSku::H200Sxm)),
            ("Tesla V100-SXM2-16GB", Some(GpuSku::V100Sxm)),
            ("NVIDIA-L40S", Some(GpuSku::L40s)),
            ("NVIDIA L40", Some(GpuSku::L40)),
            ("NVIDIA L4", Some(GpuSku::L4)),
            ("Tesla T4", Some(GpuSku::T4)),
            ("NVIDIA A30", Some(GpuSku::A30)),
            ("NVIDIA RTX A3000", None),
            ("AMD Instinct MI250X", Some(GpuSku::Mi200)),
            ("AMD Instinct MI300X", Some(GpuSku::Mi300)),
            ("", None),
        ] {
            assert_eq!(infer(text), expected, "{text}");
        }
    }
}
