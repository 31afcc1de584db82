//! Writes what a graph needs beside its components, the checkpoints that it makes and the needs of their captures
//! included.
//!
//! Objects that pods mount or run under come before the pods, the rest beside them; rights are a chain of their own.

use api_types::{
    annotations,
    grove::PodCliqueSet,
    labels, owner,
    v1alpha1::{DynamoCheckpoint, DynamoComponent},
    v1beta1::DynamoGraphDeploymentScalingAdapter as Adapter,
};
use controller_kit::{
    apply::{Desired, MetadataPatch, RequestError},
    failure::Class,
    store::{Key, Packed, Store, controller_owner},
};
use futures::join;
use k8s_openapi::api::{core::v1::Service, rbac::v1::RoleBinding, resource::v1::ResourceClaimTemplate};
use kube::{Resource, ResourceExt};
use serde_json::Value;

use super::{
    WaitResult, bounded, live_value,
    volumes::volume,
    write_binding, write_shared,
    writer::{ChildOutcome, Writer, unserved},
};
use crate::graph::{
    caches::GraphCaches,
    model::{
        Child, ComponentCheckpoint, DesiredCheckpoint, GraphObjects, GraphObserved, GrovePlan, GroveScale, MARKS, Tally,
    },
};

/// Writes what pods cannot start without. Of that, only a missing account makes the API server refuse the pods; whether
/// all accounts are there is returned as well.
pub(super) async fn before_pods(writer: Writer<'_>, caches: &GraphCaches, objects: &GraphObjects) -> (Tally, bool) {
    let builds = writer.write_all(&caches.builds, objects.build.as_slice());
    let accounts = writer.write_all(&caches.accounts, objects.account.as_slice());
    let shared = objects.shared_accounts.iter().map(|shared| &shared.account);
    let shared = shared.map(|account| write_shared(writer.applier, writer.uid(), &caches.accounts, account));
    let shared = each(shared.collect());
    let config_maps = writer.write_all(&caches.config_maps, &objects.config_maps);
    let claims = writer.write_all(&caches.claim_templates, &objects.claim_templates);
    // Pods look for each other by these names as soon as they start.
    let services = writer.write_all(&caches.services, &objects.services);
    let storage = each(objects.volumes.iter().map(|claim| volume(writer, claim)).collect());
    let models = each(objects.model_services.iter().map(|service| model_service(writer, caches, service)).collect());
    let manifests = each(objects.manifest_of.iter().map(|build| manifest(writer, build)).collect());
    let (builds, mut tally, shared, config_maps, claims, services, storage, models, manifests) =
        join!(builds, accounts, shared, config_maps, claims, services, storage, models, manifests);
    tally.add(shared);
    let mut named = objects.account.iter().chain(objects.shared_accounts.iter().map(|shared| &shared.account));
    let accounts_exist = tally.failed.is_empty() || named.all(|account| is_known(&caches.accounts, account));
    for other in [builds, config_maps, claims, services, storage, models, manifests] {
        tally.add(other);
    }
    (tally, accounts_exist)
}

/// Runs steps that may wait for an object, a few at a time.
async fn each(steps: Vec<impl Future<Output = WaitResult>>) -> Tally {
    bounded(steps).await.into_iter().collect()
}

fn is_known<K: Resource<DynamicType = ()>>(store: &Store<Packed<K>>, object: &K) -> bool {
    store.get(&Key::of(object)).is_some()
}

/// Writes what pods find sooner or later.
pub(super) async fn beside_pods(writer: Writer<'_>, caches: &GraphCaches, objects: &GraphObjects) -> Tally {
    let bindings = objects.shared_accounts.iter().map(|shared| shared_binding(writer, caches, &shared.binding));
    let bindings = each(bindings.collect());
    let pool = writer.write_all(&caches.pools, objects.pool.as_slice());
    let rule = writer.write_all(&caches.destination_rules, objects.destination_rule.as_slice());
    let adapters = each(objects.adapters.write.iter().map(|adapter| write_adapter(writer, caches, adapter)).collect());
    let ingresses = writer.write_all(&caches.ingresses, &objects.ingresses);
    let routes = writer.write_all(&caches.virtual_services, &objects.virtual_services);
    let autoscalers = writer.write_all(&caches.autoscalers, &objects.autoscalers);
    let (bindings, mut tally, rule, adapters, ingresses, routes, autoscalers) =
        join!(bindings, pool, rule, adapters, ingresses, routes, autoscalers);
    for other in [rule, ingresses, routes, autoscalers, bindings, adapters] {
        tally.add(other);
    }
    tally
}

/// Writes what the account of the pods may do.
pub(super) async fn rights(writer: Writer<'_>, caches: &GraphCaches, objects: &GraphObjects) -> Tally {
    let mut tally = writer.write_all(&caches.roles, objects.role.as_slice()).await;
    // The API server rejects a binding of a role that is not there.
    if !tally.failed.is_empty() && !objects.role.iter().all(|role| is_known(&caches.roles, role)) {
        return tally;
    }
    if let Some(binding) = &objects.binding {
        tally.take_waiting(own_binding(writer, caches, binding).await);
    }
    tally
}

/// Writes the binding of the graph's account. The role of a binding cannot be changed: one that names another, which is
/// gone or of another install, is made anew, and deleted only if the API server lets us create the new one.
async fn own_binding(writer: Writer<'_>, caches: &GraphCaches, object: &RoleBinding) -> WaitResult {
    let live = caches.bindings.get(&Key::of(object));
    let is_ours = |live: &Packed<RoleBinding>| match controller_owner(live) {
        Some(owner) => owner.uid == writer.uid(),
        // An earlier graph of this name has left it.
        None => MARKS.iter().any(|mark| live.annotations().contains_key(*mark)),
    };
    let own = live.filter(|live| is_ours(live.as_ref()));
    if let Some(live) = own
        && live.unpack().is_ok_and(|binding| binding.role_ref != object.role_ref)
    {
        let desired = Desired::of(&writer.owned(object), writer.uid())?;
        writer.applier.check_creation(&desired).await?;
        writer.applier.delete(live.as_ref(), writer.uid()).await?;
        return Ok(writer.send(&desired, None).await?.reason());
    }
    Ok(writer.write(&caches.bindings, object).await?.reason())
}

/// Others scale by it meanwhile: what was planned on an older count must not be written.
async fn write_adapter(writer: Writer<'_>, caches: &GraphCaches, object: &Adapter) -> WaitResult {
    let is_there = caches.adapters.get(&Key::of(object)).is_some();
    let written = writer.write_as(&caches.adapters, object, Desired::only_if_unchanged).await?;
    if matches!(written, ChildOutcome::Written(_)) {
        let reason = if is_there { "AdapterUpdated" } else { "AdapterCreated" };
        let (name, component) = (object.name_any(), &object.spec.dgd_ref.component_name);
        writer
            .publish(reason, &format!("component {component} is scaled by DynamoGraphDeploymentScalingAdapter {name}"));
    }
    Ok(written.reason())
}

/// Deletes the adapters of components that no longer specify one, and the autoscalers that scaled them before.
pub(super) async fn prune_adapters(writer: Writer<'_>, caches: &GraphCaches, objects: &GraphObjects) -> Tally {
    let mut tally = writer.prune(&caches.autoscalers, named_in(&objects.autoscalers)).await;
    let is_desired = |name: &str| objects.adapters.desired.iter().any(|desired| desired == name);
    let publish = |name: &str| {
        let note = format!("nothing is scaled by DynamoGraphDeploymentScalingAdapter {name} any more");
        writer.publish("AdapterDeleted", &note);
    };
    tally.add(writer.prune_with(&caches.adapters, is_desired, publish).await);
    tally
}

/// Deletes what is no longer desired and nothing runs on.
pub(super) async fn prune(writer: Writer<'_>, caches: &GraphCaches, objects: &GraphObjects) -> Tally {
    let mut tally = writer.prune(&caches.builds, named_in(objects.build.as_slice())).await;
    tally.add(writer.prune(&caches.config_maps, named_in(&objects.config_maps)).await);
    tally.add(writer.prune(&caches.services, named_in(&objects.services)).await);
    tally.add(writer.prune(&caches.ingresses, named_in(&objects.ingresses)).await);
    tally.add(writer.prune(&caches.virtual_services, named_in(&objects.virtual_services)).await);
    tally.add(writer.prune(&caches.model_services, named_in(&objects.model_services)).await);
    tally.add(writer.prune(&caches.claim_templates, named_in(&objects.claim_templates)).await);
    tally.add(writer.prune(&caches.pools, named_in(objects.pool.as_slice())).await);
    tally.add(writer.prune(&caches.destination_rules, named_in(objects.destination_rule.as_slice())).await);
    tally
}

fn named_in<K: Resource>(objects: &[K]) -> impl Fn(&str) -> bool {
    move |name| objects.iter().any(|object| object.meta().name.as_deref() == Some(name))
}

async fn shared_binding(writer: Writer<'_>, caches: &GraphCaches, object: &RoleBinding) -> WaitResult {
    match write_binding(writer.applier, writer.uid(), &caches.bindings, object).await {
        Err(error) if error.is_not_found() => Ok(Some(format!(
            "RoleBinding {}: there is no ClusterRole {}, which the operator's chart brings",
            object.name_any(),
            object.role_ref.name
        ))),
        answer => answer,
    }
}

/// The Service of a base model. Another graph with this model may have made it; when it goes, this graph makes it anew.
async fn model_service(writer: Writer<'_>, caches: &GraphCaches, object: &Service) -> WaitResult {
    match writer.write(&caches.model_services, object).await {
        Ok(written) => Ok(written.reason()),
        Err(error) if error.class() == Class::Foreign => Ok(None),
        Err(error) => Err(error),
    }
}

/// Requests the manifest in the archive of a DynamoComponent that another owner made.
async fn manifest(writer: Writer<'_>, build: &DynamoComponent) -> WaitResult {
    let patch = MetadataPatch::default().annotation(annotations::READ_MANIFEST, Some(labels::TRUE));
    writer.applier.patch_metadata(build, writer.uid(), &patch).await.map(|_| None)
}

/// Writes the PodCliqueSet, then sets other replicas through Grove. Returns the set as it is now. A set that is new is
/// written only if `accounts_exist`.
pub(super) async fn apply(
    writer: Writer<'_>,
    caches: &GraphCaches,
    observed: &GraphObserved,
    plan: &GrovePlan,
    accounts_exist: bool,
) -> (Option<PodCliqueSet>, Tally) {
    let (mut tally, live) = (Tally::default(), observed.grove.set());
    let writes = !plan.held_back && (accounts_exist || live.is_some());
    let written = match writes {
        true => tally.take(writer.write(&caches.grove.sets, &plan.set).await),
        false => None,
    };
    let set = match written {
        Some(ChildOutcome::Written(set)) => serde_json::from_value(set).ok().or_else(|| live.cloned()),
        Some(ChildOutcome::Waiting(why)) => {
            tally.waiting.push(why);
            return (live.cloned(), tally);
        }
        Some(ChildOutcome::Unchanged) | None => live.cloned(),
    };
    // What Grove made of the set before is scaled even if the set cannot be changed.
    for GroveScale { child, from, to } in &plan.scale {
        let scaled = match child {
            Child::PodClique(clique) => writer.applier.scale(clique.as_ref(), writer.uid(), *from, *to).await,
            Child::PodCliqueScalingGroup(group) => writer.applier.scale(group.as_ref(), writer.uid(), *from, *to).await,
        };
        tally.take(scaled);
    }
    (set, tally)
}

/// Writes the checkpoints.
pub(super) async fn write(writer: Writer<'_>, caches: &GraphCaches, checkpoints: &[ComponentCheckpoint]) -> Tally {
    let mut tally = Tally::default();
    for checkpoint in checkpoints.iter().filter_map(|checkpoint| checkpoint.desired.as_ref()) {
        tally.take_waiting(write_one(writer, caches, checkpoint).await);
    }
    tally
}

/// Writes a checkpoint, and then the claim that belongs to it.
async fn write_one(writer: Writer<'_>, caches: &GraphCaches, checkpoint: &DesiredCheckpoint) -> WaitResult {
    let (namespace, name) = (checkpoint.object.namespace().unwrap_or_default(), checkpoint.object.name_any());
    let live = live_value(&caches.checkpoints, &namespace, &name);
    let now = match writer.write_checkpoint(checkpoint, live.as_ref()).await? {
        ChildOutcome::Written(object) => Some(object),
        ChildOutcome::Unchanged => live,
        ChildOutcome::Waiting(why) => return Ok(Some(why)),
    };
    let uid = now.as_ref().and_then(|object| object.pointer("/metadata/uid")?.as_str());
    match (&checkpoint.claim, uid) {
        (Some(claim), Some(uid)) => write_claim(writer, caches, claim, &name, uid).await,
        _ => Ok(None),
    }
}

/// The claim belongs to the checkpoint, so that it goes with it.
async fn write_claim(
    writer: Writer<'_>,
    caches: &GraphCaches,
    claim: &ResourceClaimTemplate,
    checkpoint: &str,
    uid: &str,
) -> WaitResult {
    if !caches.claim_templates.is_served() {
        caches.claim_templates.need();
        return Ok(Some(unserved(claim)));
    }
    let mut claim = claim.clone();
    claim.metadata.owner_references = Some(vec![owner::controller::<DynamoCheckpoint>(checkpoint, uid)]);
    let live = live_value(&caches.claim_templates, &claim.namespace().unwrap_or_default(), &claim.name_any());
    let written = writer.send(&Desired::of(&claim, uid)?, live.as_ref()).await;
    // Nothing is planned on a cache for the checkpoint here: the memory of this write is not needed.
    writer.applier.forget(uid);
    Ok(written?.reason())
}

/// Deletes checkpoints that nothing starts from any more. Their data are removed by the component controller.
pub(super) async fn prune_checkpoints(writer: Writer<'_>, stale: &[DynamoCheckpoint]) -> Tally {
    let mut tally = Tally::default();
    for checkpoint in stale {
        tally.take(writer.applier.delete(checkpoint, writer.uid()).await);
    }
    tally
}

impl Writer<'_> {
    /// One that is kept when the graph goes has no owner; its labels say whose it is. It loses the owner before
    /// anything else is said of it: whatever happens in between, it is there still.
    async fn write_checkpoint(
        &self,
        checkpoint: &DesiredCheckpoint,
        live: Option<&Value>,
    ) -> Result<ChildOutcome, RequestError> {
        let object =
            if checkpoint.goes_with_graph { self.owned(&checkpoint.object) } else { checkpoint.object.clone() };
        let mut desired = Desired::of(&object, self.uid())?;
        for key in [labels::CHECKPOINT_ID, labels::GRAPH] {
            if let Some(value) = object.labels().get(key) {
                desired = desired.adopt_if_labelled(key, value);
            }
        }
        if let Some(live) = live.filter(|_| !checkpoint.goes_with_graph) {
            self.applier.release(&desired, live).await?;
        }
        self.send(&desired, live).await
    }
}
