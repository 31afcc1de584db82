//! Every name that is derived from another one.
//!
//! Each function is total: whatever the input, the result is a legal Kubernetes name of its kind. A name that fits is
//! exactly the upstream operator's; one that does not is cut and gets a hash of the whole, so that two long names never
//! meet.

use std::fmt;

use sha2::{Digest, Sha256};

/// Longest DNS label: names of Services, and what label values may hold.
pub const LABEL_MAX: usize = 63;

/// Suffix of a worker revision: opaque, eight hexadecimal digits, or `legacy` for workers older than revisions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RevisionSuffix(String);

impl RevisionSuffix {
    /// The suffix for a fingerprint; `attempt` above 0 picks another one when the first is taken.
    pub fn of(fingerprint: &str, attempt: u32) -> Self {
        let mut digest = Sha256::new();
        digest.update(fingerprint.as_bytes());
        if attempt > 0 {
            digest.update(attempt.to_be_bytes());
        }
        Self(hex(&digest.finalize(), 8))
    }

    /// A suffix read back from the label of a live object.
    pub fn from_label(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The suffix in names and labels.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RevisionSuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Name of a DynamoComponentDeployment and of its Deployment: `<graph>-<component>`, for workers with the
/// suffix of the revision.
///
/// The Service of the component has the same name, hence the limit of 63 characters.
pub fn component_deployment(graph: &str, component: &str, revision: Option<&RevisionSuffix>) -> String {
    let base = format!("{graph}-{}", component.to_lowercase());
    match revision {
        None => bounded(&base, LABEL_MAX),
        Some(suffix) => {
            let room = LABEL_MAX.saturating_sub(suffix.as_str().len() + 1);
            format!("{}-{suffix}", bounded(&base, room))
        }
    }
}

/// Name of a component's Service: the DynamoComponentDeployment's name as a DNS label.
pub fn service(component_deployment: &str) -> String {
    bounded(&component_deployment.to_lowercase().replace('.', "-"), LABEL_MAX)
}

/// Dynamo namespace of a graph's components: `dynamo` if global, else `<namespace>-<graph>` with dots as hyphens.
pub fn dynamo_namespace(namespace: &str, graph: &str, global: bool) -> String {
    if global { "dynamo".to_owned() } else { format!("{namespace}-{}", graph.replace('.', "-")) }
}

/// Dynamo namespace under which a worker registers: with the revision's suffix if it has one.
pub fn runtime_namespace(dynamo_namespace: &str, revision: Option<&str>) -> String {
    revision.map_or_else(|| dynamo_namespace.to_owned(), |suffix| format!("{dynamo_namespace}-{suffix}"))
}

/// Tag of a component's image: `dynamo.[<prefix>.]<name>.<version><suffix>`. One that is too long keeps its prefix and
/// has a hash instead of name and version.
pub fn image_tag(prefix: Option<&str>, name: &str, version: &str, suffix: &str) -> String {
    const LONGEST: usize = 128;
    let start = prefix.map_or_else(|| "dynamo.".to_owned(), |prefix| format!("dynamo.{prefix}."));
    let whole = format!("{start}{name}.{version}{suffix}");
    if whole.len() <= LONGEST {
        return whole;
    }
    let hash = hex(&Sha256::digest(format!("{name}.{version}").as_bytes()), 32);
    let short = format!("{start}{hash}{suffix}");
    if short.len() <= LONGEST { short } else { hex(&Sha256::digest(whole.as_bytes()), 32) }
}

/// DynamoComponent that builds what is called `name:version`: a colon becomes two hyphens.
pub fn dynamo_component(source: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-:".contains(c) { c.to_ascii_lowercase() } else { '-' };
    let name: String = source.chars().map(plain).collect();
    let legal = name.replace(':', "--");
    let legal = legal.trim_matches(['-', '.']);
    if name == source && !legal.is_empty() {
        return bounded(legal, 253);
    }
    bounded(&format!("component-{legal}-{}", sha256_hex(source.as_bytes(), 8)), 253)
}

/// Job that builds an image from what has this fingerprint. It is not the name of what is built: every change makes
/// another Job.
pub fn image_build_job(uid: &str, fingerprint: &str) -> String {
    let mut digest = Sha256::new();
    digest.update(uid.as_bytes());
    digest.update([0]);
    digest.update(fingerprint.as_bytes());
    format!("dynamo-image-builder-{}", hex(&digest.finalize(), 20))
}

/// ResourceClaimTemplate of the GPUs that the processes of a component's pod share.
pub fn gpu_claim_template(graph: &str, component: &str) -> String {
    bounded(&format!("{graph}-{}-gpu", component.to_lowercase()), 253)
}

/// Claim template, within a PodCliqueSet, of the GPUs that the pods of one rank of a component share.
pub fn gpu_claim_of_rank(component: &str, rank: i32) -> String {
    let component = component.to_lowercase().replace('.', "-");
    format!("{component}-gpu-rank-{rank}")
}

/// DynamoCheckpoint that a graph makes.
pub fn checkpoint(id: &str) -> String {
    bounded(&format!("checkpoint-{id}"), 253)
}

/// Claim template of the GPUs that the processes of a captured pod share.
pub fn checkpoint_claim_template(id: &str) -> String {
    gpu_claim_template(&checkpoint(id), "worker")
}

/// Job whose pod is captured for a checkpoint; another version of the artifact is another Job.
pub fn checkpoint_job(id: &str, version: &str) -> String {
    dns_label(&format!("checkpoint-job-{id}-{version}"))
}

/// Job that removes what a checkpoint kept.
pub fn checkpoint_cleanup_job(id: &str) -> String {
    dns_label(&format!("checkpoint-cleanup-{id}"))
}

/// ServiceAccount of profiling Jobs.
pub const PROFILING_SERVICE_ACCOUNT: &str = "dgdr-profiling-job";

/// Job that profiles for a request.
pub fn profiling_job(request: &str) -> String {
    bounded(&format!("profile-{request}"), LABEL_MAX)
}

/// ConfigMap to which the output of a request's profiler is copied.
pub fn profiling_output(request: &str) -> String {
    bounded(&format!("dgdr-output-{request}"), 253)
}

/// Graph of a request, unless the request names it.
pub fn requested_graph(request: &str) -> String {
    bounded(&format!("{request}-dgd"), LABEL_MAX)
}

/// ServiceAccount with which a graph's pods discover each other.
pub fn discovery_service_account(graph: &str) -> String {
    bounded(&format!("{graph}-k8s-service-discovery"), 253)
}

/// Role that only the discovery account of one graph has.
pub fn discovery_role(graph: &str) -> String {
    bounded(&format!("{graph}-k8s-service-discovery-role"), 253)
}

/// RoleBinding of the discovery account.
pub fn discovery_role_binding(graph: &str) -> String {
    bounded(&format!("{graph}-k8s-service-discovery-binding"), 253)
}

/// Scaling adapter of a component.
pub fn scaling_adapter(graph: &str, component: &str) -> String {
    bounded(&format!("{graph}-{}", component.to_lowercase()), 253)
}

/// ServiceAccount of planners.
pub const PLANNER_SERVICE_ACCOUNT: &str = "planner-serviceaccount";
/// ServiceAccount of endpoint pickers.
pub const EPP_SERVICE_ACCOUNT: &str = "epp-serviceaccount";
/// File of the endpoint picker's configuration, and its key in a ConfigMap of ours.
pub const EPP_CONFIG_FILE: &str = "epp-config-dynamo.yaml";

/// ConfigMap with the configuration of a graph's endpoint picker.
pub fn epp_config_map(graph: &str) -> String {
    bounded(&format!("{graph}-epp-config"), 253)
}

/// InferencePool of a graph's workers.
pub fn inference_pool(graph: &str) -> String {
    bounded(&format!("{graph}-pool"), 253)
}

/// LeaderWorkerSet of a component whose replicas span nodes.
pub fn leader_worker_set(component_deployment: &str) -> String {
    format!("{component_deployment}-0")
}

/// RoleBinding of a ServiceAccount that all graphs of a namespace share.
pub fn account_binding(account: &str) -> String {
    format!("{account}-binding")
}

/// The DynamoComponentDeployment that a LeaderWorkerSet of that name is of.
pub fn component_of_leader_worker_set(set: &str) -> Option<&str> {
    set.strip_suffix("-0")
}

/// Key of the program by which workers wait for their leader, and its file in their pods.
pub const WAIT_LEADER_SCRIPT: &str = "wait-for-leader.py";

/// ConfigMap with that program.
pub fn wait_leader_config_map(graph: &str) -> String {
    bounded(&format!("{graph}-wait-leader-script"), 253)
}

/// Secret with the key pair of MPI over SSH, unless the configuration has another name.
pub const MPI_SECRET: &str = "mpi-run-ssh-secret";

/// Longest sum of the names that Grove joins into the name of a pod: PodCliqueSet, scaling group, PodClique.
pub const GROVE_COMBINED_MAX: usize = 45;
/// However long the other names are, this much is left for the PodCliqueSet's.
const POD_CLIQUE_SET_MIN: usize = 8;

/// PodCliqueSet of a graph: the graph's name, cut if it does not fit beside `others`, the longest sum of names of a
/// component's scaling group and clique.
pub fn pod_clique_set(graph: &str, others: usize) -> String {
    shortened(graph, GROVE_COMBINED_MAX.saturating_sub(others).max(POD_CLIQUE_SET_MIN))
}

/// PodClique or PodCliqueScalingGroup that Grove makes for a component.
pub fn grove_child(pod_clique_set: &str, component: &str) -> String {
    format!("{pod_clique_set}-0-{}", component.to_lowercase())
}

/// Headless Service by which the followers of an elastic worker find its Ray head; beside the component's own Service.
pub fn ray_head_service(component_service: &str) -> String {
    shortened(&(service(component_service) + "-ray"), LABEL_MAX)
}

/// `name` if it has at most `max` characters, else its beginning, a hyphen and four hexadecimal digits of its FNV-1a
/// hash, as the upstream operator shortens names.
fn shortened(name: &str, max: usize) -> String {
    if name.len() <= max {
        return name.to_owned();
    }
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{}-{:04x}", cut(name, max - 5), hash & 0xffff)
}

/// A label value made from a name: the name if it fits, else 54 characters, a hyphen and 8 hexadecimal digits.
pub fn label_value(name: &str) -> String {
    if name.len() <= LABEL_MAX {
        return name.to_owned();
    }
    format!("{}-{}", cut(name, 54), sha256_hex(name.as_bytes(), 8))
}

/// Label value of a base model.
pub fn base_model_hash(model: &str) -> String {
    sha256_hex(model.as_bytes(), 8)
}

/// Headless Service of a base model's pods.
pub fn model_service(model: &str) -> String {
    format!("dynamo-model-{}", base_model_hash(model))
}

/// First `digits` hexadecimal digits of the SHA-256 of `data`.
pub fn sha256_hex(data: &[u8], digits: usize) -> String {
    hex(&Sha256::digest(data), digits)
}

/// First `digits` hexadecimal digits of `bytes`.
pub(crate) fn hex(bytes: &[u8], digits: usize) -> String {
    let mut text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(digits);
    text
}

/// `name` as a DNS label. One that is none, or too long, is made one and gets a hash of the whole.
fn dns_label(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let label: String = name.chars().map(plain).collect();
    if label == name && label.len() <= LABEL_MAX {
        return label.trim_matches('-').to_owned();
    }
    let head = cut(&label, LABEL_MAX - 9);
    format!("{}-{}", head.trim_matches('-'), sha256_hex(name.as_bytes(), 8))
}

/// `name` if it has at most `max` characters, else its beginning, a hyphen and eight digits of its hash.
fn bounded(name: &str, max: usize) -> String {
    if name.len() <= max {
        return name.to_owned();
    }
    let head = cut(name, max.saturating_sub(9));
    format!("{}-{}", head.trim_end_matches(['-', '.']), sha256_hex(name.as_bytes(), 8))
}

/// The longest prefix of at most `max` bytes that ends between characters.
fn cut(name: &str, max: usize) -> &str {
    &name[..name.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_fit_are_the_references() {
        let suffix = RevisionSuffix::from_label("a7137ff9");
        assert_eq!(component_deployment("vllm-agg", "Frontend", None), "vllm-agg-frontend");
        assert_eq!(
            component_deployment("vllm-agg", "VllmDecodeWorker", Some(&suffix)),
            "vllm-agg-vllmdecodeworker-a7137ff9"
        );
        assert_eq!(dynamo_namespace("ns", "a.b", false), "ns-a-b");
        assert_eq!(dynamo_namespace("ns", "a.b", true), "dynamo");
        assert_eq!(base_model_hash("Qwen/Qwen3-0.6B"), "fb68f5a6");
        assert_eq!(service("A.b"), "a-b");
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let suffix = RevisionSuffix::of("x", 0);
        let graph = "g".repeat(60);
        let one = component_deployment(&graph, "DecodeWorkerNumberOne", Some(&suffix));
        let two = component_deployment(&graph, "DecodeWorkerNumberTwo", Some(&suffix));
        assert!(one.len() <= LABEL_MAX && two.len() <= LABEL_MAX);
        assert_ne!(one, two);
        assert!(one.ends_with(suffix.as_str()));
        assert_eq!(label_value(&"n".repeat(80)).len(), 63);
    }

    #[test]
    fn names_on_grove_are_the_references() {
        let graph = "a-rather-long-graph-deployment-name-for-test";
        assert_eq!(pod_clique_set("vllm-agg", 16), "vllm-agg");
        assert_eq!(pod_clique_set(graph, "vllmdecodeworker".len()), "a-rather-long-graph-depl-f0fc");
        assert_eq!(pod_clique_set(graph, 16 + 20), "a-ra-f0fc");
        assert_eq!(pod_clique_set(graph, 1000), "a-r-f0fc");
        assert_eq!(grove_child("vllm-agg", "VllmDecodeWorker"), "vllm-agg-0-vllmdecodeworker");
        assert_eq!(ray_head_service("g-w"), "g-w-ray");
        assert_eq!(
            ray_head_service(&format!("{graph}-vllmdecodeworker")),
            "a-rather-long-graph-deployment-name-for-test-vllmdecodewor-a92b"
        );
    }

    #[test]
    fn names_of_jobs_are_labels_and_stay_apart() {
        assert_eq!(checkpoint_job("4da999bc6c673b97", "1"), "checkpoint-job-4da999bc6c673b97-1");
        let odd = [checkpoint_cleanup_job("a.b"), checkpoint_cleanup_job("a-b"), checkpoint_cleanup_job("A-b")];
        for name in odd.iter().chain([&checkpoint_job(&"x".repeat(70), "1"), &checkpoint_job("a", "ü/")]) {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.len() <= LABEL_MAX && name.chars().all(plain) && !name.ends_with('-'), "{name}");
        }
        assert_eq!(odd.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{odd:?}");
    }

    #[test]
    fn what_is_built_has_the_references_name() {
        assert_eq!(dynamo_component("frontend:v1"), "frontend--v1");
        assert_eq!(dynamo_component("a:b:c"), "a--b--c");
        let odd = ["Frontend:v1", "frontend:V1", "", "::", "a_b:1"].map(dynamo_component);
        assert_eq!(odd.iter().collect::<std::collections::BTreeSet<_>>().len(), odd.len(), "{odd:?}");
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(odd.iter().all(|name| name.chars().all(plain) && !name.ends_with('-')), "{odd:?}");
    }

    #[test]
    fn another_attempt_gives_another_suffix() {
        assert_ne!(RevisionSuffix::of("x", 0), RevisionSuffix::of("x", 1));
        assert_eq!(RevisionSuffix::of("x", 0).as_str().len(), 8);
    }
}
