//! Real graphs: the API server takes them, and our types hold what it then stores.

#[path = "../support/mod.rs"]
mod support;

use crate::server::{GRAPHS, Server};
use api_types::v1beta1::DynamoGraphDeployment;
use serde_json::json;

#[tokio::test]
async fn real_graphs_are_accepted_and_lose_nothing() {
    let server = Server::new().await;
    for input in support::inputs("v1beta1", "DynamoGraphDeployment") {
        let mut object = input.object.clone();
        object["metadata"].as_object_mut().unwrap().remove("namespace");
        let answer = server.try_create(GRAPHS, &object).await;
        assert!(answer.code < 300, "{}: {}", input.origin, answer.body["message"]);
        assert_eq!(answer.warnings, Vec::<String>::new(), "{}", input.origin);
        let stored = answer.granted();
        let typed: DynamoGraphDeployment = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(support::differences(&stored["spec"], &json!(typed.spec)), [], "{}", input.origin);
    }
}
