//! Writes the Secret, sets the CA bundles of webhook configurations, and publishes the one for definitions.

use std::{collections::BTreeMap, time::Duration};

use api_types::labels;
use controller_kit::apply::OF_NO_OBJECT;
use futures::{TryFutureExt, future::join_all};
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use kube::{
    Client, Error,
    api::{Api, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::{debug, info};

use super::{
    BundleTarget, Contents,
    issue::{IssueError, carry_out},
    plan::{CertificatePlan, SecretWrite},
};
use crate::{NAME, configurations::Host};

/// Time limit of a request, equal to that of the API server.
const STEP: Duration = Duration::from_secs(60);
/// Type of the Secret.
const TLS: &str = "kubernetes.io/tls";
/// Key of the ConfigMap.
const BUNDLE: &str = "ca.crt";
/// Value of the label with the purpose of the objects.
const COMPONENT: &str = "webhook";

/// A failed write; it is retried.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// A certificate could not be created.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// The API server rejected the request or did not respond.
    #[error("cannot {action}: {source}")]
    Api {
        /// The request.
        action: String,
        /// The reason.
        source: Box<Error>,
    },
    /// The bundle is not UTF-8, which a ConfigMap requires.
    #[error("cannot publish the CA bundle: ca.crt of the Secret is not UTF-8")]
    NotText,
    /// No response in time.
    #[error("cannot {action}: no answer within {} s", STEP.as_secs())]
    Time {
        /// The request.
        action: String,
    },
}

/// Writes.
pub(super) struct Hand {
    client: Client,
    host: Host,
    secret_name: String,
    /// The ConfigMap, if objects are converted here.
    config_map: Option<String>,
    /// The bundle that was published last.
    published: Option<String>,
}

impl Hand {
    pub(super) fn new(client: Client, host: Host, secret_name: String, config_map: Option<String>) -> Self {
        Self { client, host, secret_name, config_map, published: None }
    }

    /// Creates what is planned and stores it in the Secret, unless another replica was faster.
    ///
    /// # Errors
    /// The API server rejects the write for another reason.
    pub(super) async fn store(
        &self,
        write: &SecretWrite,
        secret: Option<Secret>,
        now: Timestamp,
    ) -> Result<(), WriteError> {
        let contents = carry_out(write, &self.host, now)?;
        let api = self.secrets();
        let done = match secret {
            None => {
                let (params, secret) = (PatchParams::apply(NAME), Patch::Apply(self.new_secret(&contents)));
                self.step("create", api.patch(&self.secret_name, &params, &secret).map_ok(drop)).await
            }
            Some(mut secret) => {
                contents.put(secret.data.get_or_insert_default());
                let params = PostParams { field_manager: Some(NAME.to_owned()), ..PostParams::default() };
                self.step("update", api.replace(&self.secret_name, &params, &secret).map_ok(drop)).await
            }
        };
        match done {
            Ok(_) => info!(secret = self.secret_name, why = write.why, "wrote certificates"),
            Err(error) if lost_race(&error) => debug!(secret = self.secret_name, "another replica was faster"),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Sets the bundle in these targets, if the Secret is still the one that it comes from: a replica that lags must
    /// not revert what others have written. For definitions it is published in a ConfigMap, because only the program
    /// `crds` writes them.
    ///
    /// # Errors
    /// The API server rejects the write for another reason than a concurrent write.
    pub(super) async fn inject(&mut self, plan: &CertificatePlan, from: Option<&str>) -> Result<(), WriteError> {
        let CertificatePlan { inject: targets, bundle, publish, .. } = plan;
        // The ConfigMap may be older than the definitions, and the program `crds` follows the ConfigMap.
        let is_new = self.published.as_ref().is_none_or(|published| published.as_bytes() != bundle);
        let differs = targets.iter().any(BundleTarget::is_definition);
        let config_map = self.config_map.clone().filter(|_| *publish && is_new || differs);
        if targets.is_empty() && config_map.is_none() {
            return Ok(());
        }
        let secret = self.step("read", self.secrets().get_opt(&self.secret_name)).await?;
        if secret.and_then(|secret| secret.metadata.resource_version).as_deref() != from {
            return Ok(());
        }
        let is_published = match config_map {
            Some(config_map) => self.publish(&config_map, bundle).await,
            None => Ok(()),
        };
        let configurations = targets.iter().filter(|target| !target.is_definition());
        let set = configurations.map(|target| self.inject_one(target, bundle));
        // A failed write does not cancel the others.
        join_all(set).await.into_iter().collect::<Result<(), _>>().and(is_published)
    }

    /// Applies the ConfigMap, unless it has the bundle already.
    async fn publish(&mut self, name: &str, bundle: &[u8]) -> Result<(), WriteError> {
        let bundle = std::str::from_utf8(bundle).map_err(|_| WriteError::NotText)?;
        let namespace = &self.host.namespace;
        let config_map = ConfigMap {
            metadata: self.metadata(name),
            data: Some([(BUNDLE.to_owned(), bundle.to_owned())].into()),
            ..ConfigMap::default()
        };
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let (params, patch) = (PatchParams::apply(NAME).force(), Patch::Apply(&config_map));
        timed(format!("apply ConfigMap {namespace}/{name}"), api.patch(name, &params, &patch)).await?;
        if self.published.as_deref() != Some(bundle) {
            info!(config_map = name, "published the CA bundle for definitions");
            self.published = Some(bundle.to_owned());
        }
        Ok(())
    }

    async fn inject_one(&self, target: &BundleTarget, bundle: &[u8]) -> Result<(), WriteError> {
        let kind = &target.resource.kind;
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &target.resource);
        let set = |path: &str, value| json!({ "op": "add", "path": path, "value": value });
        let version = set("/metadata/resourceVersion", json!(target.resource_version));
        let bundle = json!(ByteString(bundle.to_vec()));
        let bundles = target.bundles.iter().map(|(path, _)| set(path, bundle.clone()));
        let patch: Vec<Value> = std::iter::once(version).chain(bundles).collect();
        let params = PatchParams { field_manager: Some(NAME.to_owned()), ..PatchParams::default() };
        let action = format!("set the CA bundle of {kind} {}", target.name);
        let request = async {
            let patch = serde_json::from_value(Value::Array(patch)).map_err(Error::SerdeError)?;
            api.patch_metadata(&target.name, &params, &Patch::<DynamicObject>::Json(patch)).await
        };
        match timed(action, request).await {
            Ok(_) => info!(%kind, name = target.name, "set the CA bundle"),
            Err(error) if lost_race(&error) => debug!(name = target.name, "another writer was faster"),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.host.namespace)
    }

    fn new_secret(&self, contents: &Contents) -> Secret {
        let mut data = BTreeMap::new();
        contents.put(&mut data);
        Secret {
            metadata: ObjectMeta {
                resource_version: Some(OF_NO_OBJECT.to_owned()),
                ..self.metadata(&self.secret_name)
            },
            type_: Some(TLS.to_owned()),
            data: Some(data),
            ..Secret::default()
        }
    }

    fn metadata(&self, name: &str) -> ObjectMeta {
        let labels = [
            (labels::MANAGED_BY, labels::OPERATOR),
            (labels::APP_COMPONENT, COMPONENT),
            (labels::PART_OF, labels::OPERATOR),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.host.namespace.clone()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        }
    }

    async fn step<T>(&self, verb: &str, request: impl Future<Output = Result<T, Error>>) -> Result<T, WriteError> {
        timed(format!("{verb} Secret {}/{}", self.host.namespace, self.secret_name), request).await
    }
}

async fn timed<T>(action: String, request: impl Future<Output = Result<T, Error>>) -> Result<T, WriteError> {
    match timeout(STEP, request).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(source)) => Err(WriteError::Api { action, source: Box::new(source) }),
        Err(_) => Err(WriteError::Time { action }),
    }
}

/// Whether another writer wrote, created or deleted the object first. The next event shows it.
fn lost_race(error: &WriteError) -> bool {
    let WriteError::Api { source, .. } = error else { return false };
    let Error::Api(status) = &**source else { return false };
    status.is_conflict() || status.is_already_exists() || status.is_not_found()
}
