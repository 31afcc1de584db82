//! Objects that the chart installs beside the controllers.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use test_cluster::Cluster;

use super::{NAMESPACE, role, webhook::SERVICE};

/// The role that `graph-controller access --of discovery` prints.
const DISCOVERY_ROLE: &str = "dynamo-operator-discovery";
const MPI_KEY: &str = "mpi-run-ssh-secret";

/// Prepares the operator's namespace. Gives the file with its configuration.
pub(super) async fn prepare(
    cluster: &Cluster,
    graph_controller: Option<&Path>,
    webhook: SocketAddr,
    checkpoints: bool,
    shards: bool,
) -> Result<PathBuf> {
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})];
    for pods in ["discovery", "planner", "epp", "profiling"] {
        objects.extend(graph_controller.map(|program| role(program, &["--of", pods])).transpose()?);
    }
    cluster.apply(&objects).await?;
    let path = cluster.dir().join("operator.json");
    std::fs::write(&path, configuration(webhook, checkpoints, shards).to_string())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The namespace of an install that is restricted to it.
pub(super) const RESTRICTED: &str = "restricted";

/// The configuration of such an install.
pub(super) fn restricted() -> Value {
    json!({
        "apiVersion": "operator.config.dynamo.nvidia.com/v1alpha1",
        "kind": "OperatorConfiguration",
        "namespace": {"restricted": RESTRICTED, "scope": {"owner": RESTRICTED}},
    })
}

fn configuration(webhook: SocketAddr, checkpoints: bool, shards: bool) -> Value {
    json!({
        "apiVersion": "operator.config.dynamo.nvidia.com/v1alpha1",
        "kind": "OperatorConfiguration",
        "server": {"webhook": {"host": webhook.ip(), "port": webhook.port(), "serviceName": SERVICE}},
        // With what the expectations of the conformance kit were recorded.
        "orchestrators": {"grove": {"terminationDelay": "4h"}},
        "checkpoint": {"enabled": checkpoints},
        "leaderElection": {"enabled": shards, "shards": shards, "namespace": NAMESPACE},
        "rbac": {"discoveryRoleName": DISCOVERY_ROLE},
        "mpi": {"sshSecretName": MPI_KEY, "sshSecretNamespace": NAMESPACE},
    })
}
