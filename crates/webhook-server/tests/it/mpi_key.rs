//! The SSH key for MPI.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use test_cluster::{TestNamespace, wait};
use webhook_server::access::MPI_KEY;

use crate::{
    common::{LIMIT, address, graphs},
    manifests::graph,
    namespace, own_install,
    surroundings::Mark,
};

/// A graph of a namespace, with what the graph controller says of it.
struct Graph(Api<DynamicObject>);

impl Graph {
    async fn new(namespace: &TestNamespace) -> Self {
        let (api, _) = graphs(namespace.client(), namespace.name(), "v1beta1");
        let object: DynamicObject = serde_json::from_value(graph("v1beta1", 1, None)).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
        Self(api)
    }

    async fn says(&self, conditions: Value) {
        let status = Patch::Merge(json!({ "status": { "conditions": conditions } }));
        self.0.patch_status("chat", &PatchParams::default(), &status).await.unwrap();
    }

    async fn lacks_key(&self) {
        self.says(json!([{
            "type": "MPIKeyAvailable", "status": "False", "reason": "SecretMissing", "message": "missing",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]))
        .await;
    }
}

fn secrets_in(namespace: &TestNamespace) -> Api<Secret> {
    Api::namespaced(namespace.client(), namespace.name())
}

async fn made(namespace: &TestNamespace, name: &str) -> Secret {
    let there = async || secrets_in(namespace).get_opt(name).await.unwrap();
    wait::until(format!("a key in {}", namespace.name()), LIMIT, there).await.unwrap()
}

/// Read access to the key of a namespace must not give access to pods of another namespace.
#[tokio::test]
async fn each_namespace_that_lacks_a_key_gets_its_own() {
    let name = MPI_KEY.names[0];
    let (home, team, marked, theirs) = (
        namespace("mpi-home").await,
        namespace("mpi-team").await,
        namespace("mpi-marked").await,
        namespace("mpi-theirs").await,
    );
    let mark = Mark::set(&marked).await;
    let own: Secret =
        serde_json::from_value(json!({ "metadata": { "name": name }, "stringData": { "private.key": "theirs" } }))
            .unwrap();
    let own = secrets_in(&theirs).create(&PostParams::default(), &own).await.unwrap();
    let in_team = Graph::new(&team).await;
    for graph in [&Graph::new(&home).await, &Graph::new(&marked).await, &Graph::new(&theirs).await, &in_team] {
        graph.lacks_key().await;
    }

    let install = own_install(&home).await;
    let configuration = json!({ "mpi": { "sshSecretName": name } });
    for _ in 0..2 {
        install.start_at(address(test_cluster::free_port().unwrap()), Some(&configuration)).await;
    }
    let (first, of_operator) = (made(&team, name).await, made(&home, name).await);
    assert_eq!(first.data.clone().unwrap().into_keys().collect::<Vec<_>>(), ["private.key", "private.key.pub"]);
    assert_ne!(first.data, of_operator.data);

    // One that is deleted is made anew when the graph says so.
    in_team.says(json!([])).await;
    secrets_in(&team).delete(name, &DeleteParams::default()).await.unwrap();
    in_team.lacks_key().await;
    assert_ne!(made(&team, name).await.data, first.data);

    assert!(secrets_in(&marked).get_opt(name).await.unwrap().is_none(), "another operator acts there");
    mark.remove().await;
    assert!(![first.data, of_operator.data].contains(&made(&marked, name).await.data));
    let untouched = secrets_in(&theirs).get(name).await.unwrap();
    assert_eq!(untouched.metadata.resource_version, own.metadata.resource_version, "it was there already");
}
