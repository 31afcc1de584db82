//! The operator that is installed: its configuration and its version.

use anyhow::Context;
use controller_kit::{
    settings::{OperatorConfiguration, parse},
    store::Scope,
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{Api, Client, api::ListParams};

/// The operator that a preview speaks for.
pub struct Operator {
    configuration: OperatorConfiguration,
    notes: Vec<String>,
}

impl Operator {
    /// The one that is installed in a namespace.
    ///
    /// # Errors
    /// Its configuration cannot be read by this version.
    pub async fn installed(client: &Client, namespace: &str) -> anyhow::Result<Self> {
        let Install { configuration, image } = install(client, namespace, "graph-controller").await?;
        let mut notes = Vec::new();
        let version = env!("CARGO_PKG_VERSION");
        if let Some(image) = image.filter(|image| !image.ends_with(&format!(":{version}"))) {
            notes.push(format!("the operator runs {image}; this preview is computed by the code of version {version}"));
        }
        let Some(text) = configuration else {
            notes.push(format!(
                "the configuration of the operator cannot be read in namespace {namespace}; the preview assumes the \
                 defaults (--operator-namespace names another one)"
            ));
            return Ok(Self { configuration: OperatorConfiguration::default(), notes });
        };
        let (configuration, _) = parse(&text)?;
        Ok(Self { configuration, notes })
    }

    /// One with this configuration.
    pub fn with(configuration: OperatorConfiguration) -> Self {
        Self { configuration, notes: Vec::new() }
    }

    /// One with the configuration of this text.
    ///
    /// # Errors
    /// This version cannot read the configuration.
    pub fn configured(text: &str) -> anyhow::Result<Self> {
        let (configuration, _) = parse(text)?;
        Ok(Self::with(configuration))
    }

    /// Its configuration.
    pub fn configuration(&self) -> &OperatorConfiguration {
        &self.configuration
    }

    /// What is not known of it.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What it serves.
    pub fn scope(&self) -> Scope {
        let restricted = self.configuration.restricted_namespace();
        restricted.map_or(Scope::Cluster, |namespace| Scope::Namespace(namespace.to_owned()))
    }
}

/// The configuration of the operator, as the ConfigMap of its graph controller has it, with the image of the
/// Deployment.
struct Install {
    /// The text of the configuration.
    configuration: Option<String>,
    /// Image of the graph controller.
    image: Option<String>,
}

/// Reads the install of the operator; nothing without the right to.
async fn install(client: &Client, namespace: &str, program: &str) -> anyhow::Result<Install> {
    let mut install = Install { configuration: None, image: None };
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let Ok(all) = deployments.list(&ListParams::default()).await else { return Ok(install) };
    let pods = all.items.into_iter().filter_map(|found| found.spec?.template.spec);
    let Some((pod, image)) = pods.into_iter().find_map(|pod| {
        let container = pod.containers.iter().find(|container| container.name == program)?;
        let image = container.image.clone();
        Some((pod, image))
    }) else {
        return Ok(install);
    };
    install.image = image;
    let map = pod.volumes.into_iter().flatten().find_map(|volume| volume.config_map);
    if let Some(map) = map {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        if let Ok(Some(map)) = maps.get_opt(&map.name).await {
            let mut data = map.data.unwrap_or_default();
            let text = data.remove("config.yaml");
            install.configuration = Some(text.context("the ConfigMap of the operator has no key config.yaml")?);
        }
    }
    Ok(install)
}
