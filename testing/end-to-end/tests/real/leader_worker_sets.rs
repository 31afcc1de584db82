//! Graphs on the real manager of LeaderWorkerSets.

use std::path::PathBuf;

use end_to_end::BoxError;
use serde_json::{Value, json};
use test_cluster::{
    Program,
    assets::{Assets, ForeignApi, Tool},
};

use crate::{
    bench::{Place, Shared, Software},
    program, scenarios, scripts,
};

/// The manager, pinned in `xtask/cluster/lws`.
struct Manager;

static BENCH: Shared = Shared::const_new();

/// The documents of the module's files that are of a kind.
fn documents(api: ForeignApi, kind: &str) -> Result<Vec<Value>, BoxError> {
    let mut found = Vec::new();
    for file in Assets::from_env()?.definitions(api)? {
        let all: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(file)?)?;
        found.extend(all.into_iter().filter(|one| one["kind"].as_str().is_some_and(|own| own.ends_with(kind))));
    }
    Ok(found)
}

impl Software for Manager {
    const NAME: &'static str = "lws-manager";
    const PODS: usize = 2;
    const MISSING: usize = 0;

    fn executable() -> Result<Option<PathBuf>, BoxError> {
        program(Tool::LwsManager)
    }

    fn definitions() -> Result<Vec<Value>, BoxError> {
        let apis = [ForeignApi::LeaderWorkerSet, ForeignApi::LeaderWorkerSetManager];
        let all: Result<Vec<_>, _> = apis.map(|api| documents(api, "CustomResourceDefinition")).into_iter().collect();
        Ok(all?.concat())
    }

    fn webhooks() -> Result<Vec<Value>, BoxError> {
        let mut configurations = documents(ForeignApi::LeaderWorkerSetManager, "WebhookConfiguration")?;
        // Its kustomization adds this: it is not called for pods of others.
        let of_sets = json!({ "key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists" });
        for webhook in configurations.iter_mut().flat_map(|one| one["webhooks"].as_array_mut()).flatten() {
            if webhook["name"].as_str().is_some_and(|name| name.ends_with("pod.kb.io")) {
                webhook["objectSelector"] = json!({ "matchExpressions": [of_sets] });
            }
        }
        Ok(configurations)
    }

    fn start(executable: PathBuf, place: &Place) -> Result<Program, BoxError> {
        let configuration = json!({
            "apiVersion": "config.lws.x-k8s.io/v1alpha1", "kind": "Configuration",
            "leaderElection": { "leaderElect": false },
            "webhook": { "port": place.webhook, "host": "127.0.0.1", "certDir": place.folder },
            "metrics": { "bindAddress": "0" },
            "health": { "healthProbeBindAddress": format!("127.0.0.1:{}", place.health) },
            "internalCertManagement": { "enable": false },
        });
        let path = place.folder.join("config.yaml");
        std::fs::write(&path, configuration.to_string())?;
        let args = vec![format!("--config={}", path.display()), format!("--kubeconfig={}", place.kubeconfig.display())];
        Ok(Program { name: Self::NAME.to_owned(), executable, args, env: Vec::new() })
    }

    fn probe() -> Value {
        json!({
            "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": { "name": "probe" },
            "spec": { "leaderWorkerTemplate": { "workerTemplate": { "spec": { "containers": [
                { "name": "main", "image": "registry.example/probe:1" },
            ] } } } },
        })
    }

    fn workers() -> Value {
        json!({ "multinode": { "nodeCount": 2 } })
    }
}

#[tokio::test]
async fn a_graph_starts_scales_and_rolls_on_leader_worker_sets() -> Result<(), BoxError> {
    scenarios::life::<Manager>(&BENCH).await
}

#[tokio::test]
async fn a_graph_survives_the_webhooks_of_leader_worker_sets() -> Result<(), BoxError> {
    scenarios::webhooks_away::<Manager>(&BENCH).await
}

#[tokio::test]
async fn webhooks_of_leader_worker_sets_that_hang_are_told_of() -> Result<(), BoxError> {
    scenarios::webhooks_hang::<Manager>(&BENCH).await
}

#[tokio::test]
async fn a_stuck_rollout_on_leader_worker_sets_names_the_reason_and_reverts() -> Result<(), BoxError> {
    scenarios::stuck_rollout::<Manager>(&BENCH).await
}

#[tokio::test]
async fn a_rollout_on_leader_worker_sets_survives_the_death_of_either_side() -> Result<(), BoxError> {
    scenarios::deaths::<Manager>(&BENCH).await
}

#[tokio::test]
async fn no_script_on_leader_worker_sets_takes_capacity_away() -> Result<(), BoxError> {
    scripts::play::<Manager>(&BENCH).await
}
