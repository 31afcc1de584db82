//! Several field managers on one graph.

use serde_json::{Value, json};

use crate::server::{Server, graph};

fn with_containers(containers: &Value) -> Value {
    graph(
        "merged",
        &json!({ "components": [{ "name": "worker", "podTemplate": { "spec": { "containers": containers } } }] }),
    )
}

fn containers(graph: &Value) -> &Value {
    &graph["spec"]["components"][0]["podTemplate"]["spec"]["containers"]
}

#[tokio::test]
async fn a_second_manager_adds_and_removes_its_own_parts() {
    let server = Server::new().await;
    let main = json!({ "name": "main", "image": "dynamo:1.5.0", "env": [{ "name": "A", "value": "1" }] });
    let manifest = with_containers(&json!([main]));
    server.apply("user", &manifest).await.granted();

    let additions = with_containers(&json!([
        {
            "name": "main",
            "env": [{ "name": "B", "value": "2" }],
            "ports": [{ "containerPort": 9000, "name": "extra" }],
        },
        { "name": "sidecar", "image": "proxy:1" },
    ]));
    let merged = server.apply("injector", &additions).await.granted();
    let expected = json!([
        {
            "name": "main",
            "image": "dynamo:1.5.0",
            "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
            "ports": [{ "containerPort": 9000, "name": "extra", "protocol": "TCP" }],
        },
        { "name": "sidecar", "image": "proxy:1" },
    ]);
    assert_eq!(containers(&merged), &expected);

    let again = server.apply("user", &manifest).await.granted();
    assert_eq!(containers(&again), &expected, "the user's next apply keeps them");
    assert_eq!(again["metadata"]["resourceVersion"], merged["metadata"]["resourceVersion"], "and writes nothing");

    let withdrawn = graph("merged", &json!({ "components": [{ "name": "worker" }] }));
    let without = server.apply("injector", &withdrawn).await.granted();
    assert_eq!(containers(&without), &json!([main]));
}

#[tokio::test]
async fn two_managers_own_one_component_each() {
    let server = Server::new().await;
    let component = |name: &str| graph("shared", &json!({ "components": [{ "name": name, "replicas": 2 }] }));
    server.apply("one", &component("prefill")).await.granted();
    let both = server.apply("two", &component("decode")).await.granted();
    let names: Vec<_> = both["spec"]["components"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
    assert_eq!(names, ["prefill", "decode"].map(Value::from));
}

#[tokio::test]
async fn taking_a_field_of_another_manager_is_a_conflict() {
    let server = Server::new().await;
    let image = |image: &str| with_containers(&json!([{ "name": "main", "image": image }]));
    server.apply("user", &image("dynamo:1")).await.granted();
    let answer = server.apply("other", &image("dynamo:2")).await;
    assert_eq!(answer.code, 409, "{answer:?}");
}
