//! Writes what a graph needs beside its components.
//!
//! What pods mount or run under comes before them, the rest beside them; rights are a chain of their own.

use api_types::v1beta1::DynamoGraphDeploymentScalingAdapter as Adapter;
use controller_kit::apply::{Desired, Error, ObjectId};
use controller_kit::failure::Class;
use controller_kit::store::Key;
use futures::future::join_all;
use futures::join;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::{Resource, ResourceExt};

use super::shared::{write_binding, write_shared};
use super::writer::{Writer, Written};
use crate::graph::decide::accounts::SharedAccount;
use crate::graph::decide::claims::StorageClaim;
use crate::graph::decide::objects::Objects;
use crate::graph::observe::Caches;

type Waits = Result<Vec<String>, Error>;

/// Writes what pods cannot start without. Gives what is waited for.
pub(super) async fn before_pods(writer: Writer<'_>, caches: &Caches, objects: &Objects) -> Waits {
    let builds = writer.write_all(&caches.builds, objects.build.as_slice());
    let account = objects.account.as_slice();
    let accounts = writer.write_all(&caches.accounts, account);
    let shared = join_all(objects.shared_accounts.iter().map(|shared| shared_account(writer, caches, shared)));
    let config_maps = writer.write_all(&caches.config_maps, &objects.config_maps);
    let claims = writer.write_all(&caches.claim_templates, &objects.claim_templates);
    // Pods look for each other by these names as soon as they start.
    let services = writer.write_all(&caches.services, &objects.services);
    let storage = join_all(objects.storage_claims.iter().map(|claim| storage_claim(writer, claim)));
    let models = join_all(objects.model_services.iter().map(|service| model_service(writer, caches, service)));
    let (builds, accounts, shared, config_maps, claims, services, storage, models) =
        join!(builds, accounts, shared, config_maps, claims, services, storage, models);
    all([builds, accounts, config_maps, claims, services].into_iter().chain(shared).chain(storage).chain(models))
}

/// Writes what pods find sooner or later. Gives what is waited for.
pub(super) async fn beside_pods(writer: Writer<'_>, caches: &Caches, objects: &Objects) -> Waits {
    let bindings = objects.shared_accounts.iter().map(|shared| shared_binding(writer, caches, &shared.binding));
    let pool = writer.write_all(&caches.pools, objects.pool.as_slice());
    let rule = writer.write_all(&caches.destination_rules, objects.destination_rule.as_slice());
    let adapters = write_adapters(writer, caches, &objects.adapters.write);
    let ingresses = writer.write_all(&caches.ingresses, &objects.ingresses);
    let routes = writer.write_all(&caches.virtual_services, &objects.virtual_services);
    let (bindings, pool, rule, adapters, ingresses, routes) =
        join!(join_all(bindings), pool, rule, adapters, ingresses, routes);
    all([pool, rule, adapters, ingresses, routes].into_iter().chain(bindings))
}

/// Writes what the account of the pods may do. Gives what is waited for.
pub(super) async fn rights(writer: Writer<'_>, caches: &Caches, objects: &Objects) -> Waits {
    let role = writer.write_all(&caches.roles, objects.role.as_slice()).await?;
    // The API server refuses a binding of a role that is not there.
    let binding = writer.write_all(&caches.bindings, objects.binding.as_slice()).await?;
    Ok(role.into_iter().chain(binding).collect())
}

async fn write_adapters(writer: Writer<'_>, caches: &Caches, adapters: &[Adapter]) -> Waits {
    all(join_all(adapters.iter().map(|adapter| write_adapter(writer, caches, adapter))).await)
}

/// Others scale by it meanwhile: what was decided on an older count must not be written.
async fn write_adapter(writer: Writer<'_>, caches: &Caches, wanted: &Adapter) -> Waits {
    let is_there = caches.adapters.get(&Key::of(wanted)).is_some();
    let written = writer.write_as(&caches.adapters, wanted, Desired::only_if_unchanged).await?;
    if matches!(written, Written::As(_)) {
        let reason = if is_there { "AdapterUpdated" } else { "AdapterCreated" };
        let (name, component) = (wanted.name_any(), &wanted.spec.dgd_ref.component_name);
        writer.tell(reason, &format!("component {component} is scaled by DynamoGraphDeploymentScalingAdapter {name}"));
    }
    Ok(written.reason().into_iter().collect())
}

/// Deletes the adapters of components that no longer ask for one.
pub(super) async fn prune_adapters(writer: Writer<'_>, caches: &Caches, objects: &Objects) -> Result<(), Error> {
    let is_wanted = |name: &str| objects.adapters.wanted.iter().any(|wanted| wanted == name);
    let tell = |name: &str| {
        let note = format!("nothing is scaled by DynamoGraphDeploymentScalingAdapter {name} any more");
        writer.tell("AdapterDeleted", &note);
    };
    writer.prune_and_tell(&caches.adapters, is_wanted, tell).await
}

/// Deletes what is no longer wanted and nothing runs on.
pub(super) async fn prune(writer: Writer<'_>, caches: &Caches, objects: &Objects) -> Result<(), Error> {
    writer.prune(&caches.builds, named_in(objects.build.as_slice())).await?;
    writer.prune(&caches.config_maps, named_in(&objects.config_maps)).await?;
    writer.prune(&caches.services, named_in(&objects.services)).await?;
    writer.prune(&caches.ingresses, named_in(&objects.ingresses)).await?;
    writer.prune(&caches.virtual_services, named_in(&objects.virtual_services)).await?;
    writer.prune(&caches.model_services, named_in(&objects.model_services)).await?;
    writer.prune(&caches.claim_templates, named_in(&objects.claim_templates)).await?;
    writer.prune(&caches.pools, named_in(objects.pool.as_slice())).await?;
    writer.prune(&caches.destination_rules, named_in(objects.destination_rule.as_slice())).await
}

fn named_in<K: Resource>(objects: &[K]) -> impl Fn(&str) -> bool {
    move |name| objects.iter().any(|object| object.meta().name.as_deref() == Some(name))
}

#[allow(clippy::result_large_err, reason = "the callers hand it on as it is")]
fn all(parts: impl IntoIterator<Item = Waits>) -> Waits {
    Ok(parts.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
}

async fn shared_account(writer: Writer<'_>, caches: &Caches, shared: &SharedAccount) -> Waits {
    let waits = write_shared(writer.applier, writer.uid(), &caches.accounts, &shared.account).await?;
    Ok(waits.into_iter().collect())
}

async fn shared_binding(writer: Writer<'_>, caches: &Caches, wanted: &RoleBinding) -> Waits {
    match write_binding(writer.applier, writer.uid(), &caches.bindings, wanted).await {
        Ok(waits) => Ok(waits.into_iter().collect()),
        Err(error) if error.is_not_found() => Ok(vec![format!(
            "RoleBinding {}: there is no ClusterRole {}, which the operator's chart brings",
            wanted.name_any(),
            wanted.role_ref.name
        )]),
        Err(error) => Err(error),
    }
}

/// The Service of a base model. Whoever else serves the model may have made it; when it goes, this graph makes it anew.
async fn model_service(writer: Writer<'_>, caches: &Caches, wanted: &Service) -> Waits {
    match writer.write(&caches.model_services, wanted).await {
        Ok(written) => Ok(written.reason().into_iter().collect()),
        Err(error) if error.class() == Class::Foreign => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Makes a claim that is missing, if that is wanted. What is there stays as it is: it holds data.
async fn storage_claim(writer: Writer<'_>, claim: &StorageClaim) -> Waits {
    let id = ObjectId::named::<PersistentVolumeClaim>(&writer.graph.namespace().unwrap_or_default(), &claim.name);
    let live = writer.applier.find::<PersistentVolumeClaim>(&id.namespace, &id.name).await?;
    let waits = match (&live, &claim.make) {
        (Some(live), _) if live.pointer("/metadata/deletionTimestamp").is_some() => {
            Some(format!("{id}: it is being deleted, and no new pod can mount it"))
        }
        (Some(_), _) => None,
        (None, Some(wanted)) => writer.create(wanted).await?.reason(),
        (None, None) => Some(format!("{id}: it does not exist; create it, or set create for it in spec.pvcs")),
    };
    Ok(waits.into_iter().collect())
}
