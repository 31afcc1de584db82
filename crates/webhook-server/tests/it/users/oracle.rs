//! Copies of our kinds, each with one version and without conversion or admission.

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use test_cluster::TestNamespace;
use tokio::sync::OnceCell;

use super::Written;
use crate::{common::objects, harness};

const KINDS: [&str; 2] = ["DynamoGraphDeployment", "DynamoGraphDeploymentRequest"];

fn group(version: &str) -> String {
    format!("{version}.example.com")
}

/// Definitions of the copies.
fn definitions() -> Vec<Value> {
    let mut copies = Vec::new();
    for crd in api_types::crds::all().unwrap() {
        let crd = serde_json::to_value(crd).unwrap();
        if !KINDS.iter().any(|kind| crd["spec"]["names"]["kind"] == *kind) {
            continue;
        }
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let (mut copy, mut version) = (crd.clone(), version.clone());
            let group = group(version["name"].as_str().unwrap());
            let plural = crd["spec"]["names"]["plural"].as_str().unwrap();
            copy["metadata"] = json!({ "name": format!("{plural}.{group}") });
            (version["storage"], version["served"]) = (json!(true), json!(true));
            copy["spec"]["versions"] = json!([version]);
            copy["spec"]["group"] = json!(group);
            copy["spec"]["conversion"] = json!({ "strategy": "None" });
            copies.push(copy);
        }
    }
    copies
}

/// An object of the copy of a kind in a version.
pub async fn copy(namespace: &TestNamespace, kind: &'static str, version: &str, name: &str) -> Written {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let install = async || harness().await.install.cluster.install_crds(&definitions()).await.unwrap();
    INSTALLED.get_or_init(install).await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&group(version), version, kind));
    let api: Api<DynamicObject> = Api::namespaced_with(namespace.client(), namespace.name(), &resource);
    Written { api, api_version: resource.api_version, kind, name: name.to_owned() }
}

/// The object of our kind in a version.
pub fn ours(namespace: &TestNamespace, kind: &'static str, version: &str, name: &str) -> Written {
    let api = objects(namespace, kind, version);
    Written { api, api_version: format!("nvidia.com/{version}"), kind, name: name.to_owned() }
}
