//! Our webhook server for a control plane, as a process.

use std::{process::Command, time::Duration};

use end_to_end::{BoxError, executable};
use kube::{
    api::{Api, DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use test_cluster::{Cluster, Program, free_port, wait};

const WEBHOOK_SERVER: &str = "webhook-server";
const CRDS: &str = "crds";
const SERVICE: &str = "dynamo-operator-webhook-service";
const PATIENCE: Duration = Duration::from_secs(90);
/// Namespace of the operator.
pub const NAMESPACE: &str = "dynamo-system";
/// ServiceAccount of the controllers.
pub const CONTROLLERS: &str = "controllers";

/// The Service that the CRDs name, as `<namespace>/<name>:<port>`.
pub fn service(port: u16) -> String {
    format!("{NAMESPACE}/{SERVICE}:{port}")
}

/// Makes a ServiceAccount with all rights.
pub async fn account(cluster: &Cluster, name: &str) -> Result<std::path::PathBuf, BoxError> {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": NAMESPACE }],
    });
    Ok(cluster.service_account_kubeconfig(NAMESPACE, name, &[binding]).await?)
}

/// Starts the server and returns when the API server gets answers from it.
pub async fn start(cluster: &Cluster, port: u16) -> Result<(), BoxError> {
    let binary = executable(WEBHOOK_SERVER)?;
    let kubeconfig = account(cluster, WEBHOOK_SERVER).await?;
    let names = [format!("--operator-namespace={NAMESPACE}"), format!("--service-name={SERVICE}")];
    let printed = Command::new(&binary).arg("configurations").arg(format!("--port={port}")).args(&names).output()?;
    // The API server resolves the Service to its own loopback address.
    let mut objects = vec![json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": SERVICE, "namespace": NAMESPACE },
        "spec": { "type": "ExternalName", "externalName": "127.0.0.1" },
    })];
    objects.extend(serde_saphyr::from_multiple::<Value>(&String::from_utf8(printed.stdout)?)?);
    cluster.apply(&objects).await?;
    let health = free_port()?;
    let mut args = vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--webhook-address=127.0.0.1:{port}"),
        format!("--health-address=127.0.0.1:{health}"),
        "--metrics-address=127.0.0.1:0".to_owned(),
        format!("--operator-accounts=system:serviceaccount:{NAMESPACE}:{CONTROLLERS}"),
        "--log-format=text".to_owned(),
    ];
    args.extend(names);
    let bundle = ["serve", "--bundle-only", "--kubeconfig", &kubeconfig.to_string_lossy()].map(str::to_owned);
    let of = [
        format!("--webhook-service={}", service(port)),
        format!("--ca-config-map={NAMESPACE}/dynamo-operator-webhook-ca"),
    ];
    let bundle = bundle.into_iter().chain(of).collect();
    cluster
        .run(&Program { name: CRDS.to_owned(), executable: executable(CRDS)?, args: bundle, env: Vec::new() })
        .await?;
    cluster.run(&Program { name: WEBHOOK_SERVER.to_owned(), executable: binary, args, env: Vec::new() }).await?;
    answering(
        cluster,
        &json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": { "name": "probe" },
            "spec": { "services": {} },
        }),
    )
    .await
}

/// Returns once the API server gets answers from all webhooks for such an object. Nothing is stored.
pub async fn answering(cluster: &Cluster, object: &Value) -> Result<(), BoxError> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let types = object.types.clone().ok_or("an object without a kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client()?, "default", &resource);
    let params = PostParams { dry_run: true, ..PostParams::default() };
    wait::until(format!("the webhooks of {}", types.kind), PATIENCE, async || {
        match api.create(&params, &object).await {
            // A rejection is an answer, too.
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code < 500 => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    })
    .await?;
    Ok(())
}
