//! What a webhook server without a certificate waits for: a CA bundle in all definitions.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::{ByteString, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

/// Time of a plain client to change the CA bundle of all definitions that have one, at once.
///
/// # Errors
/// A request fails.
pub(super) async fn change_bundles(client: &Client) -> Result<Duration> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definitions = api.list(&<_>::default()).await.context("cannot list definitions")?;
    let changes: Vec<_> = definitions.iter().filter_map(|it| Some((it.name_any(), with_another(it)?))).collect();
    ensure!(!changes.is_empty(), "no definition has a CA bundle");
    let (params, begin) = (PatchParams::default(), Instant::now());
    try_join_all(changes.iter().map(|(name, change)| api.patch_metadata(name, &params, change)))
        .await
        .context("cannot change a definition")?;
    Ok(begin.elapsed())
}

/// The change after which the bundle of a definition has its CAs twice.
fn with_another(definition: &CustomResourceDefinition) -> Option<Patch<serde_json::Value>> {
    let webhook = definition.spec.conversion.as_ref()?.webhook.as_ref()?;
    let ByteString(bundle) = webhook.client_config.as_ref()?.ca_bundle.as_ref()?;
    let twice = ByteString([bundle.as_slice(), bundle.as_slice()].concat());
    let config = json!({ "caBundle": twice });
    Some(Patch::Merge(json!({ "spec": { "conversion": { "webhook": { "clientConfig": config } } } })))
}
