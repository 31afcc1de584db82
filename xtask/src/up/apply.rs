//! Applies the user's manifests, as `kubectl apply --server-side` would.

use std::fmt;

use anyhow::{Context, Result, bail};
use kube::{
    api::{Api, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
    discovery::{Scope, pinned_kind},
};
use local_operator::manifests::is_ours;
use serde_json::{Value, json};
use test_cluster::Cluster;

use super::input::Input;

const FIELD_MANAGER: &str = "cargo-xtask-up";

/// The kinds of which `up` knows when they are Ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Graph,
    Component,
}

/// Something that is to become Ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Graph => "graph",
            Kind::Component => "component",
        };
        write!(f, "{kind} {}/{}", self.namespace, self.name)
    }
}

/// Applies the objects one after the other. Gives those that are to become Ready.
pub(super) async fn apply(cluster: &Cluster, input: &Input, namespace: &str) -> Result<Vec<Target>> {
    let client = cluster.client()?;
    cluster.apply(&[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})]).await?;
    let mut targets = Vec::new();
    for object in &input.objects {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let found = pinned_kind(&client, &gvk).await;
        let Ok((resource, capabilities)) = found else {
            bail!("{kind} {name}: the API server serves no {kind} of {api_version}");
        };
        let place = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or(namespace);
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(client.clone(), &resource),
            Scope::Namespaced => Api::namespaced_with(client.clone(), place, &resource),
        };
        let params = PatchParams::apply(FIELD_MANAGER).force();
        api.patch(name, &params, &Patch::Apply(object)).await.with_context(|| format!("cannot apply {kind} {name}"))?;
        let kind = match kind {
            "DynamoGraphDeployment" if is_ours(object) => Kind::Graph,
            "DynamoComponentDeployment" if is_ours(object) => Kind::Component,
            _ => continue,
        };
        targets.push(Target { kind, namespace: place.to_owned(), name: name.to_owned() });
    }
    Ok(targets)
}
