//! From what a maker calls a GPU to the kind that a request names.

use api_types::v1beta1::GpuSku;

/// What a text is looked for, and what it then is: in modules of its own, or on a card. The first that fits counts.
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
