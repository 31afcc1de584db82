//! The SSH key for MPI.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use test_cluster::wait;

use crate::common::{LIMIT, address};
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
