//! Graphs on a real Grove operator.
//!
//! The Go module of the operator cannot be had from the module proxy, so no version of it is pinned here.
//! `DYNAMO_GROVE_OPERATOR` names its program; without the variable these tests are skipped.

use std::path::PathBuf;

use end_to_end::BoxError;
use serde_json::{Value, json};
use test_cluster::{
    Place, Program,
    assets::{Assets, ForeignApi},
    open_definition,
};

use crate::{
    bench::{Shared, Software},
    scenarios, skipped,
};

const PROGRAM: &str = "DYNAMO_GROVE_OPERATOR";

/// A Grove operator under a graph whose workers span so many nodes each.
struct Operator<const NODES: usize>;

static BENCH: Shared = Shared::const_new();

impl<const NODES: usize> Software for Operator<NODES> {
    const NAME: &'static str = "grove-operator";
    const PODS: usize = NODES;
    /// It deletes a pod before it makes the next one.
    const MISSING: usize = 1;

    fn executable() -> Result<Option<PathBuf>, BoxError> {
        let Some(path) = std::env::var_os(PROGRAM).filter(|path| !path.is_empty()).map(PathBuf::from) else {
            skipped(Self::NAME, format!("the Go module proxy does not have its module, and {PROGRAM} is not set"));
            return Ok(None);
        };
        if path.is_file() { Ok(Some(path)) } else { Err(format!("{PROGRAM}: no file {}", path.display()).into()) }
    }

    fn definitions() -> Result<Vec<Value>, BoxError> {
        let files = Assets::from_env()?.definitions(ForeignApi::Grove)?;
        let read = |file| Ok(serde_saphyr::from_str(&std::fs::read_to_string(file)?)?);
        let mut all = files.into_iter().map(read).collect::<Result<Vec<Value>, BoxError>>()?;
        // A module of its own, which cannot be had either.
        all.push(open_definition("scheduler.grove.io", "v1alpha1", "PodGang", "podgangs"));
        Ok(all)
    }

    fn webhooks() -> Result<Vec<Value>, BoxError> {
        let configuration = |kind: &str, name: &str, webhook: &str, path: &str, resource: &str| {
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": name },
                "webhooks": [{
                    "name": webhook, "admissionReviewVersions": ["v1"], "sideEffects": "None",
                    "failurePolicy": "Fail", "matchPolicy": "Exact", "timeoutSeconds": 10,
                    "clientConfig": { "service": { "path": path } },
                    "rules": [{ "apiGroups": ["grove.io"], "apiVersions": ["v1alpha1"],
                        "operations": ["CREATE", "UPDATE"], "resources": [resource] }],
                }],
            })
        };
        Ok(vec![
            configuration(
                "MutatingWebhookConfiguration",
                "podcliqueset-defaulting-webhook",
                "pcs.defaulting.webhooks.grove.io",
                "/webhooks/default-podcliqueset",
                "podcliquesets",
            ),
            configuration(
                "ValidatingWebhookConfiguration",
                "podcliqueset-validating-webhook",
                "pcs.validating.webhooks.grove.io",
                "/webhooks/validate-podcliqueset",
                "podcliquesets",
            ),
        ])
    }

    fn start(executable: PathBuf, place: &Place) -> Result<Program, BoxError> {
        let loopback = |port: u16| json!({ "bindAddress": "127.0.0.1", "port": port });
        let mut webhooks = loopback(place.webhook);
        webhooks["serverCertDir"] = json!(place.folder);
        webhooks["certProvisionMode"] = json!("manual");
        let syncs = json!({ "concurrentSyncs": 3 });
        let configuration = json!({
            "apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration",
            "runtimeClientConnection": { "qps": 100, "burst": 150 },
            "leaderElection": { "enabled": false },
            "server": { "webhooks": webhooks, "healthProbes": loopback(place.health), "metrics": loopback(0) },
            "controllers": { "podCliqueSet": syncs, "podClique": syncs, "podCliqueScalingGroup": syncs },
            "scheduler": { "profiles": [{ "name": "default-scheduler" }] },
            "logLevel": "info", "logFormat": "json",
        });
        let path = place.folder.join("config.yaml");
        std::fs::write(&path, configuration.to_string())?;
        let env = [
            ("KUBECONFIG", place.kubeconfig.display().to_string()),
            ("GROVE_INIT_CONTAINER_IMAGE", "registry.example/grove-initc".to_owned()),
            ("GROVE_OPERATOR_SERVICE_ACCOUNT_NAME", "grove-operator".to_owned()),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value)).into();
        let args = vec![format!("--config={}", path.display())];
        Ok(Program { name: Self::NAME.to_owned(), executable, args, env })
    }

    fn probe() -> Value {
        json!({
            "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": { "name": "probe" },
            "spec": { "replicas": 1, "template": { "cliques": [{ "name": "probe", "spec": {
                "roleName": "probe", "replicas": 1,
                "podSpec": { "containers": [{ "name": "main", "image": "registry.example/probe:1" }] },
            } }] } },
        })
    }

    fn workers() -> Value {
        if NODES > 1 { json!({ "multinode": { "nodeCount": NODES } }) } else { json!({}) }
    }
}

#[tokio::test]
async fn a_graph_starts_scales_and_rolls_on_grove() -> Result<(), BoxError> {
    scenarios::life::<Operator<1>>(&BENCH).await
}

#[tokio::test]
async fn a_graph_over_several_nodes_starts_scales_and_rolls_on_grove() -> Result<(), BoxError> {
    scenarios::life::<Operator<2>>(&BENCH).await
}

#[tokio::test]
async fn a_stuck_rollout_over_several_nodes_on_grove_names_the_reason_and_reverts() -> Result<(), BoxError> {
    scenarios::stuck_rollout::<Operator<2>>(&BENCH).await
}

#[tokio::test]
async fn a_graph_survives_the_webhooks_of_grove() -> Result<(), BoxError> {
    scenarios::webhooks_away::<Operator<1>>(&BENCH).await
}

#[tokio::test]
async fn hanging_webhooks_of_grove_are_reported() -> Result<(), BoxError> {
    scenarios::webhooks_hang::<Operator<1>>(&BENCH).await
}

#[tokio::test]
async fn a_stuck_rollout_on_grove_names_the_reason_and_reverts() -> Result<(), BoxError> {
    scenarios::stuck_rollout::<Operator<1>>(&BENCH).await
}

#[tokio::test]
async fn a_rollout_on_grove_survives_the_death_of_either_side() -> Result<(), BoxError> {
    scenarios::deaths::<Operator<1>>(&BENCH).await
}
