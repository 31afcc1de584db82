//! Answers of a DCGM exporter about the GPUs of its node, in Prometheus' text form.

use std::collections::{BTreeMap, BTreeSet};

use super::NodeGpus;

const TEMPERATURE: &str = "DCGM_FI_DEV_GPU_TEMP";
const LINKS: &str = "DCGM_FI_DEV_NVLINK_LINK_COUNT";
/// Metrics whose sum is the memory of a GPU.
const MEMORY: [&str; 3] = ["DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED"];

/// Reads an exporter's answer. `node` is where its pod runs.
///
/// # Errors
/// It lists no GPU.
pub fn read(text: &str, node: &str) -> Result<NodeGpus, String> {
    let mut gpus = BTreeSet::new();
    let mut memory: BTreeMap<String, f64> = BTreeMap::new();
    let (mut model, mut links) = (None, false);
    for sample in text.lines().filter_map(sample) {
        let gpu = || sample.labels.get("gpu").cloned().unwrap_or_default();
        match sample.name {
            TEMPERATURE => {
                gpus.insert(gpu());
                model = model.or_else(|| sample.labels.get("modelName").cloned());
            }
            LINKS => links |= sample.value > 0.0,
            name if MEMORY.contains(&name) => *memory.entry(gpu()).or_default() += sample.value,
            _ => {}
        }
    }
    if gpus.is_empty() {
        return Err(format!("the DCGM exporter of node {node} lists no GPU"));
    }
    Ok(NodeGpus {
        node: node.to_owned(),
        model: model.unwrap_or_default(),
        count: i32::try_from(gpus.len()).unwrap_or(i32::MAX),
        vram_mb: memory.into_values().fold(0.0, f64::max),
        interconnect: Some(if links { "nvlink" } else { "pcie" }),
    })
}

struct Sample<'a> {
    name: &'a str,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// One line, unless it is a comment or broken.
fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with('#') {
        return None;
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok().filter(|value: &f64| value.is_finite())?;
    Some(Sample { name, labels, value })
}

/// `a="b",…}`, and what follows.
fn labels(mut rest: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (mut value, mut chars) = (String::new(), quoted.char_indices());
        let end = loop {
            match chars.next()? {
                (at, '"') => break at,
                (_, '\\') => match chars.next()?.1 {
                    'n' => value.push('\n'),
                    escaped => value.push(escaped),
                },
                (_, c) => value.push(c),
            }
        };
        labels.insert(name.trim().to_owned(), value);
        rest = &quoted[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(index: u32, name: &str, value: f64) -> String {
        format!("{name}{{gpu=\"{index}\",modelName=\"NVIDIA \\\"H100\\\", 80GB\",Hostname=\"h\"}} {value} 1700000000\n")
    }

    #[test]
    fn gpus_are_counted_and_their_memory_added_up() {
        let mut text = "# HELP DCGM_FI_DEV_GPU_TEMP t\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge\nbroken{\nup 1\n".to_owned();
        for index in 0..2 {
            text += &gpu(index, TEMPERATURE, 40.0);
            text += &gpu(index, MEMORY[0], 80_000.0);
            text += &gpu(index, MEMORY[1], 1_000.0 + f64::from(index));
            text += &gpu(index, MEMORY[2], 500.0);
        }
        let reported = read(&text, "n").unwrap();
        assert_eq!((reported.count, reported.vram_mb, reported.interconnect), (2, 81_501.0, Some("pcie")));
        assert_eq!(reported.model, "NVIDIA \"H100\", 80GB");
        text += &gpu(1, LINKS, 18.0);
        assert_eq!(read(&text, "n").unwrap().interconnect, Some("nvlink"));
    }

    #[test]
    fn an_answer_without_gpus_is_an_error() {
        for text in ["", "nonsense", "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\" 4", "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} NaN"] {
            assert!(read(text, "n").unwrap_err().contains("node n"), "{text}");
        }
    }
}
