//! A graph and its children as a tree.

use std::collections::BTreeMap;

use api_types::conditions::READY;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde::Serialize;
use status_view::{
    one_line,
    pods::{component_of, has_ended, is_ready},
};

use super::Family;
use crate::{
    diagnosis::{Subject, owner_of},
    output::object_name,
};

/// An object, what there is to say of it, and its children.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TreeNode {
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// State in a few words.
    pub state: String,
    /// Children.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Self>,
}

impl TreeNode {
    fn new(kind: &str, name: &str, state: String) -> Self {
        Self { kind: kind.to_owned(), name: name.to_owned(), state, children: Vec::new() }
    }

    /// All objects, parents first, as kubectl takes them.
    pub fn names(&self) -> Vec<String> {
        let own = object_name(&self.kind, &self.name);
        std::iter::once(own).chain(self.children.iter().flat_map(Self::names)).collect()
    }
}

/// The tree of a graph.
pub fn tree(family: &Family) -> TreeNode {
    let mut root = of_subject(&Subject::of_graph(&family.graph));
    for component in &family.components {
        let name = component.name_any();
        let mut node = of_subject(&Subject::of_component(component));
        node.state = format!("{}, {}", component.spec.component.name, node.state);
        let pods: Vec<_> =
            family.pods.iter().filter(|pod| component_of(pod) == Some(name.as_str())).map(of_pod).collect();
        let mut workloads = family.workloads.iter().filter(|one| one.component.as_deref() == Some(&name)).peekable();
        if workloads.peek().is_none() {
            node.children.extend(pods.clone());
        }
        for (index, workload) in workloads.enumerate() {
            let paused = if workload.paused { ", paused" } else { "" };
            let mut child =
                TreeNode::new(&workload.kind, &workload.name, format!("{} desired{paused}", workload.desired));
            // A component has one workload; a second one is being replaced and has lost its pods.
            child.children.extend(if index == 0 { pods.clone() } else { Vec::new() });
            node.children.push(child);
        }
        root.children.push(node);
    }
    root.children.extend(others(family));
    for adapter in &family.adapters {
        let state = format!("{} = {}", adapter.spec.dgd_ref.component_name, adapter.spec.replicas);
        root.children.push(TreeNode::new("DynamoGraphDeploymentScalingAdapter", &adapter.name_any(), state));
    }
    root
}

/// Pods that no component has, such as those of Grove, by their owner.
fn others(family: &Family) -> Vec<TreeNode> {
    let is_known = |pod: &Pod| {
        component_of(pod).is_some_and(|name| family.components.iter().any(|component| component.name_any() == name))
    };
    let mut by_owner: BTreeMap<(String, String), Vec<TreeNode>> = BTreeMap::new();
    let mut alone = Vec::new();
    for pod in family.pods.iter().filter(|pod| !is_known(pod)) {
        match owner_of(pod) {
            Some(owner) => by_owner.entry((owner.kind, owner.name)).or_default().push(of_pod(pod)),
            None => alone.push(of_pod(pod)),
        }
    }
    let nodes = by_owner.into_iter().map(|((kind, name), children)| {
        let state = format!("{} pods", children.len());
        TreeNode { children, ..TreeNode::new(&kind, &name, state) }
    });
    nodes.chain(alone).collect()
}

fn of_subject(subject: &Subject) -> TreeNode {
    let state = match subject.condition(READY) {
        _ if subject.deleted.is_some() => "being deleted".to_owned(),
        _ if !subject.is_current() => "not observed yet".to_owned(),
        Some(ready) if ready.status == "True" => "ready".to_owned(),
        Some(ready) => format!("not ready ({})", ready.reason),
        None => "no status".to_owned(),
    };
    TreeNode::new(&subject.kind, &subject.name, state)
}

fn of_pod(pod: &Pod) -> TreeNode {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    let ready = match () {
        () if pod.metadata.deletion_timestamp.is_some() => ", being deleted",
        () if is_ready(pod) => ", ready",
        () if has_ended(pod) => "",
        () => ", not ready",
    };
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let place = node.map(|node| format!(" on {node}")).unwrap_or_default();
    TreeNode::new("Pod", &pod.name_any(), format!("{phase}{ready}{place}"))
}

/// The tree as text, with lines.
pub fn tree_text(root: &TreeNode) -> String {
    let mut text = line(root, "");
    branches(root, "", &mut text);
    text
}

fn branches(node: &TreeNode, indent: &str, text: &mut String) {
    for (index, child) in node.children.iter().enumerate() {
        let is_last = index + 1 == node.children.len();
        text.push_str(&line(child, &format!("{indent}{}", if is_last { "└─ " } else { "├─ " })));
        branches(child, &format!("{indent}{}", if is_last { "   " } else { "│  " }), text);
    }
}

fn line(node: &TreeNode, indent: &str) -> String {
    format!("{indent}{}/{}  {}\n", node.kind, node.name, one_line(&node.state))
}
