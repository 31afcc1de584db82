//! Real graphs: the API server takes them, and our types hold what it then stores.

use api_types::v1beta1::{DynamoComponentDeploymentSpec, DynamoGraphDeploymentSpec};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::{
    server::{COMPONENTS, GRAPHS, Server},
    support,
};

#[tokio::test]
async fn real_graphs_are_accepted_and_lose_nothing() {
    accepted::<DynamoGraphDeploymentSpec>("DynamoGraphDeployment", GRAPHS).await;
}

#[tokio::test]
async fn real_components_are_accepted_and_lose_nothing() {
    accepted::<DynamoComponentDeploymentSpec>("DynamoComponentDeployment", COMPONENTS).await;
}

async fn accepted<Spec: Serialize + DeserializeOwned>(kind: &str, plural: &str) {
    let server = Server::new().await;
    for input in support::inputs("v1beta1", kind) {
        let mut object = input.object.clone();
        object["metadata"].as_object_mut().unwrap().remove("namespace");
        let answer = server.try_create(plural, &object).await;
        assert!(answer.code < 300, "{}: {}", input.origin, answer.body["message"]);
        assert_eq!(answer.warnings, Vec::<String>::new(), "{}", input.origin);
        let stored = answer.granted();
        let typed: Spec = serde_json::from_value(stored["spec"].clone()).unwrap();
        assert_eq!(support::differences(&stored["spec"], &json!(typed)), [], "{}", input.origin);
    }
}
