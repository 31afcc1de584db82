//! Makes keys. Nothing that is there is ever written.

use api_types::labels;
use controller_kit::{
    apply::{self, OF_NO_OBJECT, ObjectId, timed},
    failure::{ErrorType, Failure},
    store::Key,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Client,
    api::{Api, ObjectMeta, Patch, PatchParams},
};

use super::{KeyError, make};
use crate::NAME;

/// Why there is no Secret now.
#[derive(Debug, thiserror::Error)]
pub(super) enum ActError {
    /// No key could be made.
    #[error(transparent)]
    Make(#[from] KeyError),
    /// The API server refused or did not answer.
    #[error(transparent)]
    Write(#[from] Box<apply::Error>),
}

/// Creates the Secret with a new key, by a server-side apply: its URL names the Secret, so that a right on this name
/// alone is enough. Returns whether it was created: a Secret of that name may exist already.
///
/// # Errors
/// Why there is no such Secret now.
pub(super) async fn create_key(client: &Client, key: &Key) -> Result<bool, ActError> {
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(key.name.clone()),
            namespace: Some(key.namespace.clone()),
            resource_version: Some(OF_NO_OBJECT.to_owned()),
            labels: Some([(labels::MANAGED_BY.to_owned(), labels::OPERATOR.to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some(make()?),
        ..Secret::default()
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), &key.namespace);
    let (params, id) = (PatchParams::apply(NAME), ObjectId::of(&secret));
    match timed("create", &id, api.patch(&key.name, &params, &Patch::Apply(secret))).await {
        Ok(_) => Ok(true),
        Err(error) if error.error_type() == ErrorType::Conflict => Ok(false),
        Err(error) => Err(Box::new(error).into()),
    }
}
