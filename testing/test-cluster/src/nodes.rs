//! Fake nodes, played by kwok.

use std::time::Duration;

use k8s_openapi::{
    api::core::v1::{Node, NodeStatus},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Client,
    api::{Api, ListParams, ObjectMeta, PostParams},
};

use crate::{error::Error, wait};

/// The label value of fake nodes, which real ones do not have.
const KIND: &str = "kwok";
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Resources of each node: about those of a common machine with GPUs.
const RESOURCES: [(&str, &str); 5] =
    [("cpu", "64"), ("memory", "1Ti"), ("ephemeral-storage", "1Ti"), ("pods", "1000"), ("nvidia.com/gpu", "8")];

/// Makes `count` nodes. They are created and not applied, because only a creation may set the status as well.
pub(crate) async fn make(client: &Client, count: u16) -> Result<(), Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    for index in 0..count {
        let made = nodes.create(&PostParams::default(), &node(index)).await;
        made.map_err(Error::api(format!("make node {}", name(index))))?;
    }
    Ok(())
}

/// Waits until all nodes are Ready.
pub(crate) async fn wait_ready(client: &Client, count: u16) -> Result<(), Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let all_ready = wait::until(format!("{count} nodes to be Ready"), READY_LIMIT, async || {
        let list = nodes.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let ready = list.iter().filter(|node| is_ready(node)).count();
        if ready >= usize::from(count) { Ok(()) } else { Err(format!("{ready} are")) }
    });
    Ok(all_ready.await?)
}

fn name(index: u16) -> String {
    format!("kwok-{index}")
}

fn node(index: u16) -> Node {
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let labels = [
        ("type", KIND),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/hostname", &name(index)),
        ("kubernetes.io/os", "linux"),
    ];
    let resources = Some(RESOURCES.map(|(key, value)| (key.to_owned(), Quantity(value.to_owned()))).into());
    Node {
        metadata: ObjectMeta {
            name: Some(name(index)),
            annotations: Some([owned(("kwok.x-k8s.io/node", "fake"))].into()),
            labels: Some(labels.map(owned).into()),
            ..Default::default()
        },
        status: Some(NodeStatus { allocatable: resources.clone(), capacity: resources, ..Default::default() }),
        ..Default::default()
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
