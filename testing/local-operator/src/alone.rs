//! The webhook server without the controllers.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Client, Config,
    api::Api,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use test_cluster::Cluster;

use super::{
    CONTROLLERS, Controller, NAMESPACE,
    build::{Binaries, Messages},
    install, start_controller, start_crds, webhook,
};

/// The Secret with the certificates, by its usual name.
const CERTIFICATES: &str = "webhook-server-cert";

/// The namespace whose graphs are admitted without it.
pub const UNCHECKED_NAMESPACE: &str = "unchecked";

/// The program, built.
pub struct WebhookServer {
    binaries: Binaries,
    address: SocketAddr,
}

impl WebhookServer {
    /// Builds it with a profile.
    pub fn build(profile: &str) -> Result<Self> {
        let address = webhook::free_address()?;
        let own: Vec<Controller> = CONTROLLERS.into_iter().filter(|each| each.name == webhook::NAME).collect();
        Ok(Self { binaries: Binaries::build(&own, profile, Messages::Show, address, None)?, address })
    }

    /// The CRDs, which name it for conversions.
    pub fn crds(&self) -> Result<Vec<Value>> {
        self.binaries.crds()
    }

    /// Starts it and returns when the API server gets answers. Objects of [`UNCHECKED_NAMESPACE`] are admitted without.
    pub async fn start(&self, cluster: &Cluster) -> Result<()> {
        let configuration: PathBuf = install::prepare(cluster, None, self.address, false, false).await?;
        let mut objects = webhook::objects(self.binaries.controller(webhook::NAME)?, self.address)?;
        for webhook in objects.iter_mut().filter_map(|object| object.get_mut("webhooks")?.as_array_mut()).flatten() {
            webhook["namespaceSelector"] = json!({ "matchExpressions": [{
                "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [UNCHECKED_NAMESPACE],
            }] });
        }
        cluster.apply(&objects).await?;
        start_crds(cluster, &self.binaries).await?;
        for controller in CONTROLLERS.into_iter().filter(|each| each.name == webhook::NAME) {
            start_controller(cluster, controller, &self.binaries, &configuration, None, None).await?;
        }
        webhook::until_answering(cluster).await
    }

    /// A client that calls it directly, as the API server does.
    pub async fn client(&self, cluster: &Cluster) -> Result<Client> {
        let secrets: Api<Secret> = Api::namespaced(cluster.client()?, NAMESPACE);
        let secret = secrets.get(CERTIFICATES).await.context("cannot read the certificates")?;
        let ca = secret.data.unwrap_or_default().remove("ca.crt").context("the certificates have no CA")?;
        let kubeconfig: Kubeconfig = serde_json::from_value(json!({
            "clusters": [{ "name": "webhook", "cluster": {
                "server": format!("https://{}", self.address),
                "certificate-authority-data": ca,
                "tls-server-name": format!("{}.{NAMESPACE}.svc", webhook::SERVICE),
            } }],
            "contexts": [{ "name": "webhook", "context": { "cluster": "webhook", "user": "anonymous" } }],
            "users": [{ "name": "anonymous", "user": {} }],
            "current-context": "webhook",
        }))?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        (config.proxy_url, config.default_retry) = (None, false);
        Ok(Client::try_from(config)?)
    }
}
