//! Graphs of different namespaces with one Dynamo namespace.

use kube::api::{Api, DynamicObject, PostParams};
use serde_json::json;
use test_cluster::TestNamespace;

use crate::{
    common::{address, graphs},
    namespace, own_install,
};

async fn create(namespace: &TestNamespace, name: &str) -> Result<(), String> {
    let (api, mut graph): (Api<DynamicObject>, _) = graphs(namespace.client(), namespace.name(), "v1beta1");
    let main = json!({ "name": "main", "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0" });
    graph.metadata.name = Some(name.to_owned());
    graph.data = json!({ "spec": { "components": [
        { "name": "c", "type": "worker", "podTemplate": { "spec": { "containers": [main] } } },
    ] } });
    api.create(&PostParams::default(), &graph).await.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_second_graph_with_the_dynamo_namespace_of_another_is_refused() {
    let short = namespace("dn").await;
    let long = namespace(short.name()).await;
    // Asked about objects of the longer namespace only.
    let install = own_install(&long).await;
    let configuration = json!({ "infrastructure": { "natsAddress": "nats://nats:4222" } });
    let replica = install.start_at(address(install.front), Some(&configuration)).await;
    install.until_ready(&replica).await;

    let rest = long.name().strip_prefix(&format!("{}-", short.name())).unwrap();
    create(&short, &format!("{rest}-b")).await.unwrap();
    let refused = create(&long, "b").await.unwrap_err();
    assert!(refused.contains("metadata.name") && refused.contains("Dynamo namespace"), "{refused}");
    create(&long, "c").await.unwrap();
    install.stop(&replica, test_cluster::Signal::Terminate).await;
}
