//! The webhook server: its address for the API server, its requests, and its readiness.

use std::{fs, net::SocketAddr, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use kube::{
    api::{Api, DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use repository::chart::programs;
use serde_json::{Value, json};
use test_cluster::{Cluster, wait};

use super::{CONTROLLERS, NAMESPACE, granted, role, user};

/// The program, and its ServiceAccount.
pub(super) const NAME: &str = "webhook-server";
/// The Service, named as the chart names it.
pub(super) const SERVICE: &str = "dynamo-operator-webhook-service";
/// The ConfigMap with the CA bundle of the CRDs, as the server names it.
const CA_CONFIG_MAP: &str = "dynamo-operator-webhook-ca";
/// The API server hears of CA bundles within moments.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// An address that stays free while the server is started anew, for the CRDs hold it.
pub(super) fn free_address() -> Result<SocketAddr> {
    Ok(SocketAddr::from(([127, 0, 0, 1], test_cluster::free_port()?)))
}

/// The Service as the CRDs name it.
pub(super) fn service_for_crds(address: SocketAddr) -> String {
    format!("{NAMESPACE}/{SERVICE}:{}", address.port())
}

/// The flags that name the accounts of the operator.
pub(super) fn args() -> Vec<String> {
    let users: Vec<String> = CONTROLLERS.iter().map(|controller| user(controller.name)).collect();
    vec![
        format!("--operator-namespace={NAMESPACE}"),
        format!("--operator-accounts={}", users.join(",")),
        // A developer waits for the next build, not for the API server to give up connections.
        "--idle-connection-seconds=0".to_owned(),
    ]
}

/// Returns the objects that the API server needs before the server starts: a Service to find it, and its webhook
/// configurations.
///
/// No pod network leads to a process of this machine. A Service of type ExternalName does: the API server calls the
/// address, and still expects a certificate for the Service.
pub(super) fn objects(executable: &Path, address: SocketAddr) -> Result<Vec<Value>> {
    let mut objects = vec![json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": address.ip()},
    })];
    let args = ["configurations".to_owned(), format!("--port={}", address.port())];
    let names = [format!("--operator-namespace={NAMESPACE}"), format!("--service-name={SERVICE}")];
    let output = Command::new(executable).args(args).args(names).output();
    let output = output.with_context(|| format!("cannot run {}", executable.display()))?;
    ensure!(output.status.success(), "{NAME} configurations failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let printed: Vec<Value> = serde_saphyr::from_multiple(&text).context("webhook-server configurations: no YAML")?;
    objects.extend(printed);
    Ok(objects)
}

/// The program that sets the CA bundle of the CRDs; they themselves are applied by the command that runs.
pub(super) const CRDS: &str = "crds";

/// Its arguments.
pub(super) fn crds_args(address: SocketAddr) -> [String; 4] {
    [
        "serve".to_owned(),
        "--bundle-only".to_owned(),
        format!("--webhook-service={}", service_for_crds(address)),
        format!("--ca-config-map={NAMESPACE}/{CA_CONFIG_MAP}"),
    ]
}

/// Its rights, as the chart grants them.
pub(super) fn crds_rules() -> Result<Vec<Value>> {
    let path = programs().join(CRDS).join("files/role.yaml");
    let role = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let role: Value = serde_saphyr::from_str(&role).with_context(|| path.display().to_string())?;
    let own = json!([{
        "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CA_CONFIG_MAP], "verbs": ["list", "watch"],
    }]);
    let all = role.get("rules").context("the role of crds has no rules")?;
    Ok([granted(CRDS, "ClusterRole", CRDS, all), granted(CRDS, "Role", CRDS, &own)].concat())
}

/// The rights that the server has beside its main role.
pub(super) fn own_rules(executable: &Path) -> Result<[Value; 2]> {
    let own = role(executable, &["--of", "own", "--operator-namespace", NAMESPACE])?;
    let rules = own.get("rules").context("the role of the webhook server has no rules")?;
    Ok(granted(NAME, "Role", &format!("{NAME}-own"), rules))
}

/// Returns once the API server gets answers: to conversions and to admissions. The server being ready is not enough,
/// for the API server reads its configuration a moment later.
pub(super) async fn until_answering(cluster: &Cluster) -> Result<()> {
    let kind = GroupVersionKind::gvk(api_types::GROUP, "v1alpha1", "DynamoGraphDeployment");
    let resource = ApiResource::from_gvk(&kind);
    let graphs: Api<DynamicObject> = Api::namespaced_with(cluster.client()?, "default", &resource);
    let mut graph = DynamicObject::new("dry-run-only", &resource);
    graph.data = json!({"spec": {"services": {}}});
    let params = PostParams { dry_run: true, ..PostParams::default() };
    wait::until("the API server to reach the webhook server", ANSWER_LIMIT, async || {
        match graphs.create(&params, &graph).await {
            // An answer of any kind is one to the latest request.
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code < 500 => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    })
    .await?;
    Ok(())
}
