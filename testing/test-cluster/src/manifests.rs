//! Objects given as JSON: applying them, and waiting for CustomResourceDefinitions.

use std::{collections::HashMap, time::Duration};

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Client, ResourceExt,
    api::{Api, ApiResource, DynamicObject, Patch, PatchParams, WatchParams},
    core::GroupVersionKind,
    discovery::{ApiCapabilities, Scope, pinned_kind},
};
use serde_json::Value;

use crate::{error::Error, wait};

pub(crate) const FIELD_MANAGER: &str = "test-cluster";
const CRD_LIMIT: Duration = Duration::from_secs(60);

/// Applies manifests. What names no namespace goes into the default one of the client.
pub(crate) async fn apply(client: &Client, manager: &str, manifests: &[Value]) -> Result<(), Error> {
    let mut kinds = HashMap::new();
    for manifest in manifests {
        let gvk = kind_of(manifest)?;
        let (resource, capabilities) = match kinds.get(&gvk) {
            Some(known) => known,
            None => {
                let found = pinned_kind(client, &gvk).await;
                let found = found.map_err(Error::api(format!("find {} {}", gvk.api_version(), gvk.kind)))?;
                kinds.entry(gvk).or_insert(found)
            }
        };
        let name = text(manifest, "/metadata/name", "metadata.name")?;
        let namespace = manifest.pointer("/metadata/namespace").and_then(Value::as_str);
        let api = api_of(client, resource, capabilities, namespace);
        let done = api.patch(name, &PatchParams::apply(manager).force(), &Patch::Apply(manifest)).await;
        done.map_err(Error::api(format!("apply {} {name}", resource.kind)))?;
    }
    Ok(())
}

pub(crate) async fn install_crds(client: &Client, crds: &[Value]) -> Result<(), Error> {
    apply(client, FIELD_MANAGER, crds).await?;
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in crds {
        let name = text(crd, "/metadata/name", "metadata.name")?;
        let served = wait::until(format!("CustomResourceDefinition {name} to be served"), CRD_LIMIT, async || {
            let crd = api.get(name).await.map_err(|error| error.to_string())?;
            is_established(&crd)?;
            is_listed(client, &crd).await?;
            is_watchable(client, &crd).await
        });
        served.await?;
    }
    Ok(())
}

fn is_established(crd: &CustomResourceDefinition) -> Result<(), String> {
    let conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let conditions: Vec<_> = conditions.collect();
    if conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True") {
        return Ok(());
    }
    Err(format!("conditions {}", serde_json::to_string(&conditions).unwrap_or_default()))
}

/// A definition is established a moment before the API server answers for it, and that a moment before it is in the
/// aggregated list, from which the garbage collector learns what there is.
async fn is_listed(client: &Client, crd: &CustomResourceDefinition) -> Result<(), String> {
    let listed = client.list_api_groups_aggregated().await.map_err(|error| error.to_string())?;
    let spec = &crd.spec;
    let is_ours = |meta: &ObjectMeta| meta.name.as_ref() == Some(&spec.group);
    let group = listed.items.iter().find(|group| group.metadata.as_ref().is_some_and(is_ours));
    let versions = group.map_or(&[][..], |group| &group.versions);
    let of_version = |name: &str| versions.iter().find(|version| version.version.as_deref() == Some(name));
    for version in spec.versions.iter().filter(|version| version.served) {
        let mut resources = of_version(&version.name).into_iter().flat_map(|listed| &listed.resources);
        if !resources.any(|resource| resource.resource.as_ref() == Some(&spec.names.plural)) {
            return Err(format!("{} is not among the resources of {}/{}", crd.name_any(), spec.group, version.name));
        }
    }
    Ok(())
}

/// The API server refuses watches of a new kind until its own cache of it is filled; a controller that starts meanwhile
/// would pause. The stored version is filled without the conversion webhook, which may be down.
async fn is_watchable(client: &Client, crd: &CustomResourceDefinition) -> Result<(), String> {
    let spec = &crd.spec;
    for version in spec.versions.iter().filter(|version| version.served && version.storage) {
        let kind = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &spec.names.plural);
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        drop(api.watch(&WatchParams::default().timeout(1), "0").await.map_err(|error| error.to_string())?);
    }
    Ok(())
}

fn api_of(
    client: &Client,
    resource: &ApiResource,
    caps: &ApiCapabilities,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    match (&caps.scope, namespace) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), resource),
        (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client.clone(), namespace, resource),
        (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), resource),
    }
}

fn kind_of(manifest: &Value) -> Result<GroupVersionKind, Error> {
    let api_version = text(manifest, "/apiVersion", "apiVersion")?;
    let kind = text(manifest, "/kind", "kind")?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Ok(GroupVersionKind::gvk(group, version, kind))
}

fn text<'a>(manifest: &'a Value, pointer: &str, field: &'static str) -> Result<&'a str, Error> {
    let value = manifest.pointer(pointer).and_then(Value::as_str);
    value.ok_or_else(|| Error::Manifest { manifest: manifest.to_string().chars().take(120).collect(), field })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn core_and_grouped_kinds_are_distinguished() {
        let core = kind_of(&json!({"apiVersion": "v1", "kind": "Pod"})).unwrap();
        assert_eq!((core.group.as_str(), core.version.as_str()), ("", "v1"));
        let apps = kind_of(&json!({"apiVersion": "apps/v1", "kind": "Deployment"})).unwrap();
        assert_eq!((apps.group.as_str(), apps.version.as_str()), ("apps", "v1"));
    }

    #[test]
    fn an_error_names_the_missing_field() {
        let error = kind_of(&json!({"apiVersion": "v1"})).unwrap_err();
        assert_eq!(error.to_string(), r#"manifest {"apiVersion":"v1"} has no valid kind"#);
    }
}
