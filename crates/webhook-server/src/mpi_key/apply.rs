//! Makes the key and its copies. Nothing that is there is ever written.

use std::time::Duration;

use api_types::labels;
use controller_kit::store::Key;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error};
use tokio::time::timeout;

use super::make;
use crate::NAME;

/// The longest one request may take.
const STEP: Duration = Duration::from_secs(10);

/// Makes a new key. Says whether it did: another replica may have been faster.
///
/// # Errors
/// Why there is no key now.
pub(super) async fn create_key(client: &Client, key: &Key) -> Result<bool, String> {
    let data = make().map_err(|error| error.to_string())?;
    create(client, key, Secret { data: Some(data), ..Secret::default() }).await
}

/// Copies the key to a namespace. Says whether it did: a Secret of that name may be there, whoever made it.
///
/// # Errors
/// Why there is no such Secret now.
pub(super) async fn copy_key(client: &Client, copy: &Key, key: Secret) -> Result<bool, String> {
    create(client, copy, Secret { data: key.data, type_: key.type_, ..Secret::default() }).await
}

async fn create(client: &Client, key: &Key, secret: Secret) -> Result<bool, String> {
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(key.name.clone()),
            namespace: Some(key.namespace.clone()),
            labels: Some([(labels::MANAGED_BY.to_owned(), labels::OPERATOR.to_owned())].into()),
            ..ObjectMeta::default()
        },
        ..secret
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), &key.namespace);
    let params = PostParams { field_manager: Some(NAME.to_owned()), ..PostParams::default() };
    match timeout(STEP, api.create(&params, &secret)).await {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(Error::Api(status))) if status.is_already_exists() => Ok(false),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", STEP.as_secs())),
    }
}
