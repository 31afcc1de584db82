//! The SSH key for MPI.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use test_cluster::{TestNamespace, wait};

use crate::common::{LIMIT, address, graphs};
use crate::manifests::graph;
use crate::surroundings::Mark;
use crate::{namespace, own_install};

const NAME: &str = "mpi-run-ssh-secret";

#[tokio::test]
async fn the_key_is_made_when_it_is_missing_and_never_overwritten() {
    let namespace = namespace("mpi").await;
    let install = own_install(&namespace).await;
    let secrets = install.secrets();
    let configuration = json!({ "mpi": { "sshSecretName": NAME } });
    install.start_at(address(install.front), Some(&configuration)).await;
    let there = async || secrets.get_opt(NAME).await.unwrap();
    let first = wait::until("the key", LIMIT, there).await.unwrap();
    assert_eq!(first.data.clone().unwrap().into_keys().collect::<Vec<_>>(), ["private.key", "private.key.pub"]);

    let own = json!({ "data": null, "stringData": { "private.key": "mine", "private.key.pub": "mine" } });
    let edited = secrets.patch(NAME, &PatchParams::default(), &Patch::Merge(&own)).await.unwrap();
    // A second replica starts, and looks.
    install.start_beside().await;
    assert_eq!(there().await.unwrap().metadata.resource_version, edited.metadata.resource_version);

    secrets.delete(NAME, &DeleteParams::default()).await.unwrap();
    let again = async || there().await.filter(|secret: &Secret| secret.metadata.uid != first.metadata.uid);
    let again = wait::until("a new key", LIMIT, again).await.unwrap();
    assert_ne!(again.data, first.data);
}

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

async fn copied(namespace: &TestNamespace, name: &str) -> Secret {
    let there = async || secrets_in(namespace).get_opt(name).await.unwrap();
    wait::until(format!("a copy in {}", namespace.name()), LIMIT, there).await.unwrap()
}

#[tokio::test]
async fn the_key_is_copied_to_where_a_graph_says_that_it_is_missing() {
    // Other installs of these tests copy keys too, under another name.
    let name = "mpi-key-to-copy";
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
    for graph in [&Graph::new(&marked).await, &Graph::new(&theirs).await, &in_team] {
        graph.lacks_key().await;
    }

    let install = own_install(&home).await;
    let configuration = json!({ "mpi": { "sshSecretName": name } });
    for _ in 0..2 {
        install.start_at(address(test_cluster::free_port().unwrap()), Some(&configuration)).await;
    }
    let first = copied(&team, name).await;
    let original = copied(&home, name).await;
    assert_eq!((&first.data, &first.type_), (&original.data, &original.type_));

    // A copy that is deleted comes back when the graph says so.
    in_team.says(json!([])).await;
    secrets_in(&team).delete(name, &DeleteParams::default()).await.unwrap();
    in_team.lacks_key().await;
    assert_eq!(copied(&team, name).await.data, original.data);

    assert!(secrets_in(&marked).get_opt(name).await.unwrap().is_none(), "another operator acts there");
    mark.remove().await;
    assert_eq!(copied(&marked, name).await.data, original.data);
    let untouched = secrets_in(&theirs).get(name).await.unwrap();
    assert_eq!(untouched.metadata.resource_version, own.metadata.resource_version, "it was there already");
}
