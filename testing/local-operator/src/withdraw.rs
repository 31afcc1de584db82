//! A cluster that goes on without the operator that ran beside it.

use anyhow::{Context, Result, bail};
use k8s_openapi::{
    api::apps::v1::Deployment, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

use super::{NAMESPACE, webhook::SERVICE};

/// Deployments of an installed operator: of this chart, and of the Go operator's.
const INSTALLED: [&str; 2] = ["app.kubernetes.io/part-of=dynamo-operator", "app.kubernetes.io/name=dynamo-operator"];

/// Fails where an operator is installed in the cluster.
pub async fn refuse_installed(client: &Client) -> Result<()> {
    let deployments: Api<Deployment> = Api::all(client.clone());
    for labels in INSTALLED {
        let found = deployments.list(&ListParams::default().labels(labels)).await?;
        if let Some(deployment) = found.iter().next() {
            let namespace = deployment.namespace().unwrap_or_default();
            let name = deployment.name_any();
            bail!("an operator is installed in this cluster: Deployment {namespace}/{name}; uninstall it first");
        }
    }
    Ok(())
}

/// Removes what makes the API server call a webhook server that is gone: webhook configurations, and conversion of the
/// CRDs. The CRDs and all objects stay.
pub async fn withdraw(client: &Client) -> Result<()> {
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind));
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let list = api.list(&ListParams::default()).await?;
        let hooks = |object: &DynamicObject| object.data["webhooks"].as_array().cloned().unwrap_or_default();
        for object in list.iter().filter(|object| hooks(object).iter().any(calls_our_service)) {
            api.delete(&object.name_any(), &DeleteParams::default()).await?;
        }
    }
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in crds.list(&ListParams::default()).await? {
        let conversion = json!(crd.spec.conversion);
        if crd.spec.group == api_types::GROUP && calls_our_service(&conversion["webhook"]) {
            let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
            let patched = crds.patch(&crd.name_any(), &PatchParams::default(), &Patch::Merge(none)).await;
            patched.with_context(|| format!("cannot end the conversion of {}", crd.name_any()))?;
        }
    }
    Ok(())
}

fn calls_our_service(webhook: &Value) -> bool {
    let service = &webhook["clientConfig"]["service"];
    service["namespace"] == NAMESPACE && service["name"] == SERVICE
}
