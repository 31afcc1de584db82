//! A control plane with the real manager of LeaderWorkerSets.

use std::fs;

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use test_cluster::{
    Cluster, Keys, Options, Program,
    assets::{Assets, ForeignApi, Tool},
    free_port, wait,
};

use crate::harness::{LIMIT, definitions};

const NODES: u16 = 2;

fn documents(api: ForeignApi, kind: &str) -> Vec<Value> {
    let files = Assets::from_env().unwrap().definitions(api).unwrap();
    let all = files
        .into_iter()
        .flat_map(|file| -> Vec<Value> { serde_saphyr::from_multiple(&fs::read_to_string(file).unwrap()).unwrap() });
    all.filter(|one| one["kind"].as_str().is_some_and(|own| own.ends_with(kind))).collect()
}

/// `None` where the manager cannot be had, which is printed.
pub async fn cluster() -> Option<Cluster> {
    let manager = match Assets::from_env().unwrap().find(Tool::LwsManager) {
        Ok(path) => path,
        Err(error) => {
            eprintln!("skipped: the manager of LeaderWorkerSets: {error}");
            return None;
        }
    };
    let mut crds = definitions();
    crds.extend(documents(ForeignApi::LeaderWorkerSet, "CustomResourceDefinition"));
    crds.extend(documents(ForeignApi::LeaderWorkerSetManager, "CustomResourceDefinition"));
    let cluster = Cluster::start(Options { crds, ..Options::with_nodes(NODES) }).await.unwrap();
    let (folder, keys) = (cluster.dir().join("lws"), Keys::new().unwrap());
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("tls.crt"), keys.server.certificate).unwrap();
    fs::write(folder.join("tls.key"), keys.server.key).unwrap();
    let (port, health) = (free_port().unwrap(), free_port().unwrap());
    let mut webhooks = documents(ForeignApi::LeaderWorkerSetManager, "WebhookConfiguration");
    for webhook in webhooks.iter_mut().flat_map(|one| one["webhooks"].as_array_mut()).flatten() {
        let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap().to_owned();
        let authority = ByteString(keys.authority.clone().into_bytes());
        webhook["clientConfig"] = json!({ "url": format!("https://127.0.0.1:{port}{path}"), "caBundle": authority });
        if webhook["name"].as_str().is_some_and(|name| name.ends_with("pod.kb.io")) {
            let of_sets = json!({ "key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists" });
            webhook["objectSelector"] = json!({ "matchExpressions": [of_sets] });
        }
    }
    let configuration = json!({
        "apiVersion": "config.lws.x-k8s.io/v1alpha1", "kind": "Configuration",
        "leaderElection": { "leaderElect": false },
        "webhook": { "port": port, "host": "127.0.0.1", "certDir": folder },
        "metrics": { "bindAddress": "0" },
        "health": { "healthProbeBindAddress": format!("127.0.0.1:{health}") },
        "internalCertManagement": { "enable": false },
    });
    let path = folder.join("config.yaml");
    fs::write(&path, configuration.to_string()).unwrap();
    let args = vec![format!("--config={}", path.display()), format!("--kubeconfig={}", cluster.kubeconfig().display())];
    let program = Program { name: "lws-manager".to_owned(), executable: manager, args, env: Vec::new() };
    cluster.run(&program).await.unwrap();
    let ready = wait::until("the webhooks of LeaderWorkerSets", LIMIT, async || {
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.map(drop).map_err(|error| error.to_string())
    });
    ready.await.unwrap();
    cluster.apply(&webhooks).await.unwrap();
    Some(cluster)
}
