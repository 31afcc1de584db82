//! Makes keys. Nothing that is there is ever written.

use api_types::labels;
use controller_kit::{
    apply::{self, ObjectId, timed},
    failure::{ErrorType, Failure},
    store::Key,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Client,
    api::{Api, ObjectMeta, PostParams},
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

/// Makes a new key. Says whether it did: a Secret of that name may be there, whoever made it.
///
/// # Errors
/// Why there is no such Secret now.
pub(super) async fn create_key(client: &Client, key: &Key) -> Result<bool, ActError> {
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(key.name.clone()),
            namespace: Some(key.namespace.clone()),
            labels: Some([(labels::MANAGED_BY.to_owned(), labels::OPERATOR.to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some(make()?),
        ..Secret::default()
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), &key.namespace);
    let params = PostParams { field_manager: Some(NAME.to_owned()), ..PostParams::default() };
    match timed("create", &ObjectId::of(&secret), api.create(&params, &secret)).await {
        Ok(_) => Ok(true),
        Err(error) if error.error_type() == ErrorType::AlreadyExists => Ok(false),
        Err(error) => Err(Box::new(error).into()),
    }
}
