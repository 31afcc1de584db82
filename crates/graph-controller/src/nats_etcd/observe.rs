//! Reads the Secret of NATS and etcd, connects to them, and reads which places in them are in use.

use std::collections::BTreeSet;

use api_types::{
    conditions::infrastructure as reason,
    names,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment},
};
use controller_kit::{
    failure::Class,
    request::{ReadError, find},
    settings::Infrastructure,
    store::{Key, Packed, Store},
};
use infrastructure::{Credentials, Etcd, Nats};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{Api, Client, ResourceExt, core::PartialObjectMeta};

use super::{
    Health,
    leftovers::{RuntimePlace, places_of},
};

/// Caches that show which places are in use.
#[derive(Clone)]
pub struct PlaceCaches {
    /// Graphs.
    pub graphs: Store<Packed<DynamoGraphDeployment>>,
    /// Their components.
    pub components: Store<Packed<DynamoComponentDeployment>>,
    /// Pods that have not ended: workers of graphs, and those of components without a graph.
    pub pods: Vec<Store<PartialObjectMeta<Pod>>>,
}

impl PlaceCaches {
    /// Waits until the caches are complete.
    pub async fn known(&self) {
        self.graphs.wait_until_ready().await;
        self.components.wait_until_ready().await;
        for pods in &self.pods {
            pods.wait_until_ready().await;
        }
    }

    /// Number of changes so far: the same places are in use while it is the same.
    pub fn change_count(&self) -> u64 {
        let pods: u64 = self.pods.iter().map(Store::change_count).sum();
        self.graphs.change_count() + self.components.change_count() + pods
    }

    /// The places in use, without the namespace that all graphs share.
    pub fn in_use(&self) -> BTreeSet<RuntimePlace> {
        let mut places = BTreeSet::new();
        for Key { namespace, name } in self.graphs.keys() {
            places.insert(RuntimePlace::Namespace(names::dynamo_namespace(&namespace, &name, false)));
        }
        for key in self.components.keys() {
            let component = self.components.get(&key);
            places.extend(component.iter().flat_map(|component| places_of(&key.namespace, component.labels())));
        }
        for pods in &self.pods {
            for key in pods.keys() {
                places.extend(pods.get(&key).iter().flat_map(|pod| places_of(&key.namespace, pod.labels())));
            }
        }
        let shared = names::dynamo_namespace("", "", true);
        places.retain(|place| match place {
            RuntimePlace::Namespace(namespace) | RuntimePlace::Component { namespace, .. } => *namespace != shared,
        });
        places
    }
}

/// The servers, as the configuration and the Secret describe them.
#[derive(Clone)]
pub struct Servers {
    /// NATS, if there is one.
    pub nats: Option<Nats>,
    /// etcd, if there is one.
    pub etcd: Option<Etcd>,
}

/// Reason why the servers cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The Secret, a right or an address is wrong.
    #[error("{0}")]
    Misconfigured(String),
    /// The API server does not answer, which says nothing about the servers.
    #[error(transparent)]
    Transient(ReadError),
}

/// Reads the Secret; holds the addresses.
#[derive(Clone)]
pub struct ServerSource {
    pub(super) client: Client,
    pub(super) settings: Infrastructure,
    pub(super) namespace: String,
}

impl ServerSource {
    /// The servers with the current credentials, which may be rotated.
    ///
    /// # Errors
    /// The Secret or an address is wrong, or the Secret cannot be read.
    pub async fn servers(&self) -> Result<Servers, Unavailable> {
        let credentials = self.credentials().await?;
        let given = |address: &str| Some(address.to_owned()).filter(|address| !address.is_empty());
        let etcd = given(&self.settings.etcd_address).map(|address| Etcd::new(&address, &credentials)).transpose();
        let etcd = etcd.map_err(|error| Unavailable::Misconfigured(format!("etcd: {error}")))?;
        let nats = given(&self.settings.nats_address).map(|address| Nats::new(&address, &credentials));
        Ok(Servers { nats, etcd })
    }

    async fn credentials(&self) -> Result<Credentials, Unavailable> {
        let name = &self.settings.secret_name;
        if name.is_empty() {
            return Ok(Credentials::default());
        }
        let what = format!("Secret {}/{name}, which infrastructure.secretName names,", self.namespace);
        let misconfigured = |why: &str| Unavailable::Misconfigured(format!("{what} {why}"));
        let api: Api<Packed<Secret>> = Api::namespaced(self.client.clone(), &self.namespace);
        let secret = match find(name, || format!("read Secret {}/{name}", self.namespace), api.get_opt(name)).await {
            Ok(secret) => secret.ok_or_else(|| misconfigured("does not exist; create it"))?,
            Err(error) if error.error_type().class() == Class::Transient => return Err(Unavailable::Transient(error)),
            Err(error) => {
                return Err(misconfigured(&format!("cannot be read; see to the rights of the operator: {error}")));
            }
        };
        let secret = secret.unpack().map_err(|_| misconfigured("cannot be read: it is no Secret"))?;
        let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect();
        Credentials::of_secret(&data).map_err(|why| misconfigured(&format!("cannot be used: {why}")))
    }

    /// The health of the servers.
    ///
    /// # Errors
    /// The API server does not answer, which says nothing about them.
    pub(super) async fn health(&self) -> Result<Health, ReadError> {
        let servers = match self.servers().await {
            Ok(servers) => servers,
            Err(Unavailable::Misconfigured(message)) => return Ok(not_ready(reason::UNUSABLE, message)),
            Err(Unavailable::Transient(error)) => return Err(error),
        };
        let mut wrong = Vec::new();
        if let Some(nats) = &servers.nats {
            wrong.extend(nats.check().await.err().map(|error| error.to_string()));
        }
        if let Some(etcd) = &servers.etcd {
            wrong.extend(etcd.check().await.err().map(|error| error.to_string()));
        }
        Ok(match wrong.is_empty() {
            true => Health::Ready,
            false => not_ready(reason::UNREACHABLE, wrong.join("; ")),
        })
    }
}

fn not_ready(reason: &'static str, message: String) -> Health {
    Health::NotReady { reason, message }
}
