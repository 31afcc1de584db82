//! The connection to the API server, and reads that may be refused.

use std::{fmt::Debug, path::PathBuf, time::Duration};

use anyhow::{Context, anyhow};
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Config, Resource,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::de::DeserializeOwned;

/// Longest time for one request.
pub const LIMIT: Duration = Duration::from_secs(15);
/// Most objects of one list; a diagnosis of more is no better.
const MOST: u32 = 2000;

/// Cluster and namespace.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConnectionArgs {
    /// File with clusters and users [default: as kubectl does, or the service account inside a pod]
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// Namespace of the objects [default: that of the context]
    #[arg(short, long, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
}

/// A client, and the namespace that commands are about.
#[derive(Clone)]
pub struct Connection {
    /// The client.
    pub client: Client,
    /// The namespace.
    pub namespace: String,
}

/// A kind whose objects are in namespaces.
pub trait ReadableKind:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug
{
}

impl<K> ReadableKind for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug
{
}

/// Result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read<T> {
    /// The object, or the objects.
    Found(T),
    /// The API server serves the kind, and there is no such object.
    Missing,
    /// The user has no right to read it, or the API server did not answer; why.
    Unknown(String),
}

impl<T> Read<T> {
    /// Something else made of what was found.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Read<U> {
        match self {
            Self::Found(found) => Read::Found(change(found)),
            Self::Missing => Read::Missing,
            Self::Unknown(why) => Read::Unknown(why),
        }
    }

    /// Returns what was found, for a command that cannot work without it. A list of a kind that is not served is empty.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn or_error(self, what: &str) -> anyhow::Result<T>
    where
        T: Default,
    {
        match self {
            Self::Found(found) => Ok(found),
            Self::Missing => Ok(T::default()),
            Self::Unknown(why) => Err(anyhow!("cannot read {what}: {why}")),
        }
    }

    /// Returns what was found.
    pub fn found(self) -> Option<T> {
        match self {
            Self::Found(found) => Some(found),
            Self::Missing | Self::Unknown(_) => None,
        }
    }
}

impl ConnectionArgs {
    /// Connects as the kubeconfig says. No request is sent.
    ///
    /// # Errors
    /// There is no usable kubeconfig.
    pub async fn connect(&self) -> anyhow::Result<Connection> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let kubeconfig = Kubeconfig::read_from(path)
                    .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await.context("the kubeconfig is unusable")?
            }
            None if self.context.is_some() => {
                Config::from_kubeconfig(&options).await.context("the kubeconfig is unusable")?
            }
            None => {
                Config::infer().await.context("no kubeconfig and no service account; name a file with --kubeconfig")?
            }
        };
        if config.cluster_url.host().is_some_and(|host| host == "localhost" || host.starts_with("127.")) {
            // A proxy of the environment cannot reach the loopback of this machine.
            config.proxy_url = None;
        }
        config.connect_timeout = Some(LIMIT);
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        Ok(Connection { client: Client::try_from(config).context("cannot connect")?, namespace })
    }
}

impl Connection {
    /// Reads an object of the namespace.
    pub async fn get<K: ReadableKind>(&self, name: &str) -> Read<K> {
        get(&Api::namespaced(self.client.clone(), &self.namespace), name).await
    }

    /// Lists objects of the namespace by label selector.
    pub async fn list<K: ReadableKind>(&self, labels: &str) -> Read<Vec<K>> {
        list(&Api::namespaced(self.client.clone(), &self.namespace), &ListParams::default().labels(labels)).await
    }

    /// Reads the object that a command is about.
    ///
    /// # Errors
    /// It does not exist, or cannot be read.
    pub async fn require<K: ReadableKind>(&self, name: &str) -> anyhow::Result<K> {
        let kind = K::kind(&());
        match self.get::<K>(name).await {
            Read::Found(found) => Ok(found),
            Read::Missing => Err(anyhow!(
                "there is no {kind} {name} in namespace {}, or the cluster does not serve the kind; `kubectl get \
                 dynamographdeployments --all-namespaces` lists all graphs",
                self.namespace
            )),
            Read::Unknown(why) => Err(anyhow!("cannot read {kind} {}/{name}: {why}", self.namespace)),
        }
    }
}

/// Reads one object.
pub async fn get<K: Clone + DeserializeOwned + Debug>(api: &Api<K>, name: &str) -> Read<K> {
    match tokio::time::timeout(LIMIT, api.get_opt(name)).await {
        Ok(Ok(Some(found))) => Read::Found(found),
        Ok(Ok(None)) => Read::Missing,
        Ok(Err(error)) => Read::Unknown(words(&error)),
        Err(_) => Read::Unknown(late()),
    }
}

/// Whether an object exists, if that can be read. Only its metadata is.
pub async fn exists<K: Clone + DeserializeOwned + Debug>(api: &Api<K>, name: &str) -> Option<bool> {
    let read = tokio::time::timeout(LIMIT, api.get_metadata_opt(name)).await.ok()?.ok()?;
    Some(read.is_some())
}

/// Lists objects. A kind that is not served is [`Read::Missing`].
pub async fn list<K: Clone + DeserializeOwned + Debug>(api: &Api<K>, params: &ListParams) -> Read<Vec<K>> {
    let params = params.clone().limit(MOST);
    match tokio::time::timeout(LIMIT, api.list(&params)).await {
        Ok(Ok(found)) => Read::Found(found.items),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Read::Missing,
        Ok(Err(error)) => Read::Unknown(words(&error)),
        Err(_) => Read::Unknown(late()),
    }
}

/// An error in the words of the API server, or with what lies behind it.
pub fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => {
            let mut text = other.to_string();
            for inner in anyhow::Chain::new(other).skip(1) {
                let more = inner.to_string();
                if !text.contains(&more) {
                    text = format!("{text}: {more}");
                }
            }
            text
        }
    }
}

fn late() -> String {
    format!("the API server has not answered within {} s", LIMIT.as_secs())
}
