//! Makes the key where it is missing.

use std::time::Duration;

use api_types::labels;
use controller_kit::settings::Mpi;
use controller_kit::store::{Key, Packed, Scope, Store, Watch, watch_named};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::make;
use crate::NAME;

/// After something failed.
const RETRY: Duration = Duration::from_secs(5);
/// The longest one request may take.
const STEP: Duration = Duration::from_secs(10);

/// Makes the key where it is missing, and never touches one that is there.
pub struct KeyMaker {
    client: Client,
    secret: Key,
    store: Store<Packed<Secret>>,
    changes: Watch<Packed<Secret>>,
}

impl KeyMaker {
    /// For the Secret of the configuration, by default in the operator's own namespace; `None` if it names none.
    #[must_use]
    pub fn new(client: Client, mpi: &Mpi, own_namespace: &str) -> Option<Self> {
        let namespace =
            Some(&*mpi.ssh_secret_namespace).filter(|namespace| !namespace.is_empty()).unwrap_or(own_namespace);
        let name = Some(&*mpi.ssh_secret_name).filter(|name| !name.is_empty())?;
        let (store, changes) = watch_named(client.clone(), &Scope::Namespace(namespace.to_owned()), name);
        Some(Self { client, secret: Key::new(namespace, name), store, changes })
    }

    /// Never returns.
    pub async fn run(mut self) {
        tokio::select! {
            () = self.store.wait_until_ready() => {}
            () = async { while self.changes.next().await.is_some() {} } => {}
        }
        loop {
            if self.store.get(&self.secret).is_none()
                && let Err(error) = self.create().await
            {
                warn!(secret = %self.secret, error, "the SSH key for MPI is missing; trying again");
                sleep(RETRY).await;
                continue;
            }
            // What was created comes back as a change, and so does every deletion.
            self.changes.next().await;
        }
    }

    async fn create(&self) -> Result<(), String> {
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(self.secret.name.clone()),
                namespace: Some(self.secret.namespace.clone()),
                labels: Some([(labels::MANAGED_BY.to_owned(), labels::OPERATOR.to_owned())].into()),
                ..ObjectMeta::default()
            },
            data: Some(make().map_err(|error| error.to_string())?),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        };
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.secret.namespace);
        let params = PostParams { field_manager: Some(NAME.to_owned()), ..PostParams::default() };
        match timeout(STEP, api.create(&params, &secret)).await {
            Ok(Ok(_)) => info!(secret = %self.secret, "made the SSH key for MPI"),
            // Another replica was faster.
            Ok(Err(Error::Api(status))) if status.is_already_exists() => {}
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("no answer within {} s", STEP.as_secs())),
        }
        Ok(())
    }
}
