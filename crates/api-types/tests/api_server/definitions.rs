//! The definitions themselves.

use http::Method;
use serde_json::json;

use crate::server::Server;

#[tokio::test]
async fn the_api_server_takes_them_without_a_warning() {
    let server = Server::new().await;
    for crd in api_types::crds::all().unwrap() {
        let name = crd.metadata.name.clone().unwrap();
        let path = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}\
             ?fieldManager=warnings&force=true&fieldValidation=Strict&dryRun=All"
        );
        let answer = server.send(Method::PATCH, &path, "application/apply-patch+yaml", &json!(crd)).await;
        assert_eq!(answer.warnings, Vec::<String>::new(), "{name}");
        let stored = answer.granted();
        let non_structural = json!("NonStructuralSchema");
        let conditions = stored["status"]["conditions"].as_array().cloned().unwrap_or_default();
        assert!(conditions.iter().all(|c| c["type"] != non_structural), "{name}: {conditions:?}");
    }
}

/// `kubectl explain` reads this document.
#[tokio::test]
async fn they_can_be_explained_down_to_the_pod() {
    let server = Server::new().await;
    let document = server.get("/openapi/v3/apis/nvidia.com/v1beta1").await.granted();
    let schemas = &document["components"]["schemas"];
    for (kind, pod) in [
        (
            "DynamoGraphDeployment",
            "/properties/spec/properties/components/items/properties/podTemplate/properties/spec",
        ),
        ("DynamoComponentDeployment", "/properties/spec/properties/podTemplate/properties/spec"),
    ] {
        let schema = &schemas[format!("com.nvidia.v1beta1.{kind}")];
        let containers =
            &schema.pointer(pod).unwrap_or_else(|| panic!("{kind}: no pod spec"))["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]), "{kind}");
        assert_eq!(containers["items"]["properties"]["image"]["type"], "string", "{kind}");
        assert!(schema["properties"]["spec"]["description"].is_string(), "{kind}");
    }
}

/// Reads a column the way `kubectl get` does.
#[tokio::test]
async fn kubectl_get_shows_the_backend() {
    let server = Server::new().await;
    let graph = crate::server::graph("columns", &json!({ "backendFramework": "vllm" }));
    server.create(crate::server::GRAPHS, &graph).await.granted();
    let table = server.table(crate::server::GRAPHS).await;
    let columns: Vec<_> = table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
    assert_eq!(columns, ["Name", "Ready", "Backend", "Age"].map(serde_json::Value::from));
    assert_eq!(table["rows"][0]["cells"][0], "columns");
    assert_eq!(table["rows"][0]["cells"][2], "vllm");
}
