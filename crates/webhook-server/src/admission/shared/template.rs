//! The pod template, and fields that point into it.

use api_types::{annotations, v1beta1::BackendFramework};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use rendering::{DiscoveryBackend, RolloutStrategy};
use serde::Deserialize;

use super::{
    super::{
        field::{Findings, Node},
        view::Component,
    },
    Surroundings,
};

const ELASTIC: &str = "--enable-elastic-ep";
const DATA_PARALLEL_BACKEND: [&str; 2] = ["--data-parallel-backend", "-dpb"];

pub(super) fn check(component: &Component<'_>, around: &Surroundings<'_>, out: &mut Findings) {
    let template = component.field("podTemplate");
    is_template(&template, out);
    is_template(&component.fields(&["experimental", "checkpoint", "job", "podTemplate"]), out);
    annotations_of(component, out);
    elastic_experts(component, around.framework, out);
}

/// Whether a value is a pod template. Some templates have no schema that the API server could hold them against, and
/// one that is none would make the whole object unreadable.
fn is_template(template: &Node<'_>, out: &mut Findings) {
    if !template.is_set() {
        return;
    }
    if let Err(error) = serde_path_to_error::deserialize::<_, PodTemplateSpec>(template.value()) {
        let node = follow(template, error.path());
        out.invalid(
            &node,
            format!("does not fit into a pod template: {}; see the reference of the Pod API", error.inner()),
        );
    }
}

/// The node at the end of a path that serde names.
fn follow<'a>(from: &Node<'a>, path: &serde_path_to_error::Path) -> Node<'a> {
    use serde_path_to_error::Segment;
    path.iter().fold(from.clone(), |node, segment| {
        let below = match segment {
            Segment::Seq { index } => node.items().nth(*index),
            // Fields of Kubernetes are one word; anything else is a key that somebody chose.
            Segment::Map { key } if key.bytes().all(|b| b.is_ascii_alphanumeric()) => Some(node.field(key)),
            Segment::Map { key } => Some(node.key(key)),
            Segment::Enum { .. } | Segment::Unknown => None,
        };
        below.unwrap_or(node)
    })
}

/// How the pods of a graph or of a component find each other.
pub(in crate::admission) fn discovery_backend(annotation: &Node<'_>, out: &mut Findings) {
    if !annotation.text().is_empty() && DiscoveryBackend::from_name(annotation.text()).is_none() {
        let remedy = "leave the annotation out to follow the operator's setting";
        out.not_supported(annotation, &["kubernetes", "etcd"], remedy);
    }
}

fn annotations_of(component: &Component<'_>, out: &mut Findings) {
    discovery_backend(&component.annotation(annotations::DISCOVERY_BACKEND), out);
    let all = component.fields(&["podTemplate", "metadata", "annotations"]);
    let Ok(all) = std::collections::BTreeMap::<String, String>::deserialize(all.value()) else { return };
    for violation in RolloutStrategy::from_annotations(Some(&all)).err().into_iter().flatten() {
        let key = violation.path.split(['[', ']']).nth(1).unwrap_or_default();
        out.invalid(&component.annotation(key), violation.text());
    }
}

/// The head of a Ray cluster is started in front of the container's own command, so there must be one.
fn elastic_experts(component: &Component<'_>, framework: &str, out: &mut Findings) {
    let Some(main) = component.main().filter(|_| framework == BackendFramework::Vllm.as_str()) else { return };
    if main.field("command").has_entries() || !starts_elastic_experts(&main) {
        return;
    }
    let detail = format!(
        "{ELASTIC} with {} ray needs an explicit command, because Ray is started in front of it; write the command that the \
         image would run",
        DATA_PARALLEL_BACKEND[0]
    );
    out.required(&main.field("command"), detail);
}

fn starts_elastic_experts(container: &Node<'_>) -> bool {
    let lists = [container.field("command"), container.field("args")];
    let words: Vec<&str> = lists.iter().flat_map(Node::items).flat_map(|item| item.text().split_whitespace()).collect();
    let with_value = |flag: &str| {
        let next_is_ray = words.windows(2).any(|pair| pair == [flag, "ray"]);
        next_is_ray || words.iter().any(|word| word.strip_prefix(flag) == Some("=ray"))
    };
    words.contains(&ELASTIC) && DATA_PARALLEL_BACKEND.into_iter().any(with_value)
}
