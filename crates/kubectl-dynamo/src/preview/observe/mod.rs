//! Reads what the controllers hold in their caches, and the configuration and version of the installed operator, with
//! the rights of the user.

pub mod caches;
pub mod dry_run;
pub mod server;

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use api_types::{
    external::{DestinationRule, InferencePool, VirtualService},
    grove::{PodClique, PodCliqueScalingGroup, PodCliqueSet},
    labels,
    v1alpha1::{DynamoCheckpoint, DynamoComponent},
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter},
};
use component_controller::component::model::PodGroup;
use controller_kit::{
    settings::{OperatorConfiguration, parse},
    store::{Scope, ServedApi, ServedApis},
};
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment},
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{ConfigMap, PersistentVolumeClaim, Pod, ResourceQuota, Secret, Service, ServiceAccount},
        networking::v1::Ingress,
        rbac::v1::{Role, RoleBinding},
        resource::v1::ResourceClaimTemplate,
    },
    jiff::Timestamp,
};
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, ListParams},
    core::ApiResource,
};
use rendering::LeaderWorkerSet;
use serde_json::Value;

use super::objects::{ObjectKey, PreviewObjects};
use crate::observe::{Read, words};

/// Objects of one page of a list.
const PAGE: u32 = 500;
/// Pages of one list: a namespace with more objects is not one that a preview can hold.
const PAGES: usize = 40;

/// Live state of the namespace of a graph.
#[derive(Default)]
pub struct LiveNamespace {
    /// The objects.
    pub objects: PreviewObjects,
    /// Pods; `None` without the right to read them.
    pub pods: Option<Vec<Value>>,
    /// Quotas of the namespace; `None` without the right to read them.
    pub quotas: Option<Vec<Value>>,
    /// Docker configuration Secrets; `None` without the right to read them.
    pub pull_secrets: Option<Vec<Value>>,
    /// Kinds that are not served, by group and plural.
    pub unserved: Vec<(String, String)>,
    /// Kinds that the user may not read, by group and plural, and why.
    pub unreadable: BTreeMap<(String, String), String>,
}

/// Reads all objects of a namespace that a graph can depend on.
///
/// # Errors
/// Graphs or components cannot be read.
pub async fn live(client: &Client, namespace: &str, now: Timestamp) -> anyhow::Result<LiveNamespace> {
    let mut live = LiveNamespace { objects: PreviewObjects::new(now), ..LiveNamespace::default() };
    let of_graph = Some(labels::GRAPH);
    let kinds: [(ApiResource, Option<&str>); 24] = [
        (ApiResource::erase::<DynamoGraphDeployment>(&()), None),
        (ApiResource::erase::<DynamoComponentDeployment>(&()), None),
        (ApiResource::erase::<DynamoGraphDeploymentScalingAdapter>(&()), None),
        (ApiResource::erase::<DynamoCheckpoint>(&()), None),
        (ApiResource::erase::<DynamoComponent>(&()), None),
        (ApiResource::erase::<Deployment>(&()), Some(labels::COMPONENT)),
        (ApiResource::erase::<DaemonSet>(&()), Some(labels::APP_COMPONENT)),
        (ApiResource::erase::<LeaderWorkerSet>(&()), Some(labels::COMPONENT)),
        (ApiResource::erase::<PodGroup>(&()), Some(labels::LEGACY_INSTANCE)),
        (ApiResource::erase::<PodCliqueSet>(&()), of_graph),
        (ApiResource::erase::<PodClique>(&()), of_graph),
        (ApiResource::erase::<PodCliqueScalingGroup>(&()), None),
        (ApiResource::erase::<Service>(&()), None),
        (ApiResource::erase::<Ingress>(&()), None),
        (ApiResource::erase::<VirtualService>(&()), None),
        (ApiResource::erase::<InferencePool>(&()), of_graph),
        (ApiResource::erase::<DestinationRule>(&()), Some(labels::OWN_GRAPH)),
        (ApiResource::erase::<ResourceClaimTemplate>(&()), Some(labels::OWN_GRAPH)),
        (ApiResource::erase::<ConfigMap>(&()), of_graph),
        (ApiResource::erase::<ServiceAccount>(&()), None),
        (ApiResource::erase::<HorizontalPodAutoscaler>(&()), None),
        (ApiResource::erase::<Role>(&()), None),
        (ApiResource::erase::<RoleBinding>(&()), None),
        (ApiResource::erase::<PersistentVolumeClaim>(&()), None),
    ];
    let apis = ServedApis::new(client.clone());
    for (resource, selector) in &kinds {
        let params = selector.map_or_else(ListParams::default, |selector| ListParams::default().labels(selector));
        take(&mut live, (client, &apis), namespace, resource, &params).await;
    }
    for resource in [&kinds[0].0, &kinds[1].0] {
        let kind = (resource.group.clone(), resource.plural.clone());
        if let Some(why) = live.unreadable.get(&kind) {
            bail!("cannot read {} of namespace {namespace}: {why}", resource.plural);
        }
        if live.unserved.contains(&kind) {
            bail!("the cluster does not serve {} of {}; install the operator", resource.plural, resource.api_version);
        }
    }
    live.pods = beside::<Pod>(client, namespace, &ListParams::default().labels(labels::COMPONENT)).await;
    live.quotas = beside::<ResourceQuota>(client, namespace, &ListParams::default()).await;
    let docker = ListParams::default().fields("type=kubernetes.io/dockerconfigjson");
    live.pull_secrets = beside::<Secret>(client, namespace, &docker).await;
    Ok(live)
}

/// Adds the objects of one kind. Every user may read which APIs are served.
async fn take(
    live: &mut LiveNamespace,
    (client, apis): (&Client, &ServedApis),
    namespace: &str,
    resource: &ApiResource,
    params: &ListParams,
) {
    let kind = (resource.group.clone(), resource.plural.clone());
    match list(client, namespace, resource, params).await {
        Read::Found(objects) => {
            for object in objects {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                live.objects.read(key(resource, namespace, name), object);
            }
        }
        Read::Missing => live.unserved.push(kind),
        // The core group is always served, and in no list of groups.
        Read::Unknown(why) if resource.group.is_empty() => drop(live.unreadable.insert(kind, why)),
        Read::Unknown(why) => match ServedApi::new(apis, resource.clone()).is_served().await {
            Ok(false) => live.unserved.push(kind),
            Ok(true) | Err(_) => drop(live.unreadable.insert(kind, why)),
        },
    }
}

/// The objects of a kind that are no part of the preview itself.
async fn beside<K>(client: &Client, namespace: &str, params: &ListParams) -> Option<Vec<Value>>
where
    K: Resource<DynamicType = ()>,
{
    list(client, namespace, &ApiResource::erase::<K>(&()), params).await.found()
}

/// The key of an object of this name.
pub fn key(resource: &ApiResource, namespace: &str, name: &str) -> ObjectKey {
    let (group, plural) = (resource.group.clone(), resource.plural.clone());
    ObjectKey { group, plural, namespace: namespace.to_owned(), name: name.to_owned() }
}

async fn list(client: &Client, namespace: &str, resource: &ApiResource, params: &ListParams) -> Read<Vec<Value>> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    let mut params = params.clone().limit(PAGE);
    let mut all = Vec::new();
    for _ in 0..PAGES {
        match api.list(&params).await {
            Ok(page) => {
                for object in page.items {
                    let Ok(mut object) = serde_json::to_value(object) else { continue };
                    // Items of a list of built-in kinds come without them.
                    object["apiVersion"] = Value::String(resource.api_version.clone());
                    object["kind"] = Value::String(resource.kind.clone());
                    all.push(object);
                }
                match page.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => params = params.continue_token(&token),
                    None => return Read::Found(all),
                }
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return Read::Missing,
            Err(error) => return Read::Unknown(words(&error)),
        }
    }
    Read::Unknown(format!("there are more than {}", PAGE as usize * PAGES))
}

/// The operator whose plan a preview shows.
pub struct Operator {
    pub(crate) configuration: OperatorConfiguration,
    /// Unknown facts about it.
    pub(crate) notes: Vec<String>,
}

impl Operator {
    /// The one that is installed in a namespace.
    ///
    /// # Errors
    /// Its configuration cannot be read by this version.
    pub async fn installed(client: &Client, namespace: &str) -> anyhow::Result<Self> {
        let (text, image) = install(client, namespace).await?;
        let mut notes = Vec::new();
        let version = env!("CARGO_PKG_VERSION");
        if let Some(image) = image.filter(|image| !image.ends_with(&format!(":{version}"))) {
            notes.push(format!("the operator runs {image}; this preview is computed by the code of version {version}"));
        }
        let Some(text) = text else {
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

    /// Returns its scope.
    pub(crate) fn scope(&self) -> Scope {
        let restricted = self.configuration.restricted_namespace();
        restricted.map_or(Scope::Cluster, |namespace| Scope::Namespace(namespace.to_owned()))
    }
}

/// The text of the operator's configuration, as the ConfigMap of its graph controller has it, and the image of the
/// Deployment; nothing without the right to read them.
async fn install(client: &Client, namespace: &str) -> anyhow::Result<(Option<String>, Option<String>)> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let Ok(all) = deployments.list(&ListParams::default()).await else { return Ok((None, None)) };
    let mut pods = all.items.into_iter().filter_map(|found| found.spec?.template.spec);
    let Some((pod, image)) = pods.find_map(|pod| {
        let container = pod.containers.iter().find(|container| container.name == "graph-controller")?;
        let image = container.image.clone();
        Some((pod, image))
    }) else {
        return Ok((None, None));
    };
    let map = pod.volumes.into_iter().flatten().find_map(|volume| volume.config_map);
    let Some(map) = map else { return Ok((None, image)) };
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let Ok(Some(map)) = maps.get_opt(&map.name).await else { return Ok((None, image)) };
    let text = map.data.unwrap_or_default().remove("config.yaml");
    Ok((Some(text.context("the ConfigMap of the operator has no key config.yaml")?), image))
}
