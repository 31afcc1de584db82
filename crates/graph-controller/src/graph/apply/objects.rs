//! Writes what a graph needs beside its components, the checkpoints that it makes and the needs of their captures
//! included.
//!
//! Objects that pods mount or run under come before the pods, the rest beside them; rights are a chain of their own.

use api_types::{
    annotations,
    grove::PodCliqueSet,
    labels, owner,
    typed::typed,
    v1alpha1::{DynamoCheckpoint, DynamoComponent},
    v1beta1::DynamoGraphDeploymentScalingAdapter as Adapter,
};
use controller_kit::{
    apply::{Desired, MetadataPatch, ObjectId},
    failure::Class,
    store::{Key, Packed, Store, controller_owner},
};
use futures::join;
use k8s_openapi::api::{
    core::v1::{PersistentVolumeClaim, Service},
    rbac::v1::RoleBinding,
    resource::v1::ResourceClaimTemplate,
};
use kube::ResourceExt;
use serde_json::Value;

use super::{
    AppliedKind, WaitResult, bounded, live_value, write_binding, write_shared,
    writer::{ChildOutcome, ChildResult, Writer, unserved},
};
use crate::graph::model::{
    Child, ComponentCheckpoint, DesiredCheckpoint, GraphObjects, GraphObserved, GraphVolume, GrovePlan, GroveScale,
    MARKS, Tally,
};

/// Runs steps that may wait for an object, a few at a time.
async fn each(steps: Vec<impl Future<Output = WaitResult>>) -> Tally {
    bounded(steps).await.into_iter().collect()
}

fn is_known<K: AppliedKind>(store: &Store<Packed<K>>, object: &K) -> bool {
    store.get(&Key::of(object)).is_some()
}

impl Writer<'_> {
    /// Writes what pods cannot start without. Of that, only a missing account makes the API server refuse the pods;
    /// whether all accounts are there is returned as well.
    pub(super) async fn write_before_pods(self, objects: &GraphObjects) -> (Tally, bool) {
        let caches = self.caches;
        let builds = self.write_all(&caches.builds, objects.build.as_slice());
        let accounts = self.write_all(&caches.accounts, objects.account.as_slice());
        let shared = objects.shared_accounts.iter().map(|shared| &shared.account);
        let shared = shared.map(|account| write_shared(self.applier, self.uid(), &caches.accounts, account));
        let shared = each(shared.collect());
        let config_maps = self.write_all(&caches.config_maps, &objects.config_maps);
        let claims = self.write_all(&caches.claim_templates, &objects.claim_templates);
        // Pods look for each other by these names as soon as they start.
        let services = self.write_all(&caches.services, &objects.services);
        let storage = each(objects.volumes.iter().map(|claim| self.write_volume(claim)).collect());
        let models = each(objects.model_services.iter().map(|service| self.write_model_service(service)).collect());
        let manifests = each(objects.manifest_of.iter().map(|build| self.request_manifest(build)).collect());
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

    /// Makes a claim that is missing, if that is desired. What is there stays as it is: it holds data.
    async fn write_volume(self, claim: &GraphVolume) -> WaitResult {
        let id = ObjectId::named::<PersistentVolumeClaim>(&self.graph.namespace().unwrap_or_default(), &claim.name);
        let live = self.applier.find::<PersistentVolumeClaim>(&id.namespace, &id.name).await?;
        Ok(match (&live, &claim.make) {
            (Some(live), _) if live.pointer("/metadata/deletionTimestamp").is_some() => {
                Some(format!("{id}: it is being deleted, and no new pod can mount it"))
            }
            (Some(_), _) => None,
            (None, Some(object)) => self.create(object).await?.reason(),
            (None, None) => Some(format!("{id}: it does not exist; create it, or set create for it in spec.pvcs")),
        })
    }

    /// The Service of a base model. Another graph with this model may have made it; when it goes, this graph makes it
    /// anew.
    async fn write_model_service(self, object: &Service) -> WaitResult {
        match self.write(&self.caches.model_services, object).await {
            Ok(written) => Ok(written.reason()),
            Err(error) if error.class() == Class::Foreign => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks for the manifest in the archive of a DynamoComponent that another owner made.
    async fn request_manifest(self, build: &DynamoComponent) -> WaitResult {
        let patch = MetadataPatch::default().annotation(annotations::READ_MANIFEST, Some(labels::TRUE));
        self.applier.patch_metadata(build, self.uid(), &patch).await.map(|_| None)
    }

    /// Writes what pods find sooner or later.
    pub(super) async fn write_beside_pods(self, objects: &GraphObjects) -> Tally {
        let caches = self.caches;
        let bindings = objects.shared_accounts.iter().map(|shared| self.write_shared_binding(&shared.binding));
        let bindings = each(bindings.collect());
        let pool = self.write_all(&caches.pools, objects.pool.as_slice());
        let rule = self.write_all(&caches.destination_rules, objects.destination_rule.as_slice());
        let adapters = each(objects.adapters.write.iter().map(|adapter| self.write_adapter(adapter)).collect());
        let ingresses = self.write_all(&caches.ingresses, &objects.ingresses);
        let routes = self.write_all(&caches.virtual_services, &objects.virtual_services);
        let autoscalers = self.write_all(&caches.autoscalers, &objects.autoscalers);
        let (bindings, mut tally, rule, adapters, ingresses, routes, autoscalers) =
            join!(bindings, pool, rule, adapters, ingresses, routes, autoscalers);
        for other in [rule, ingresses, routes, autoscalers, bindings, adapters] {
            tally.add(other);
        }
        tally
    }

    async fn write_shared_binding(self, object: &RoleBinding) -> WaitResult {
        match write_binding(self.applier, self.uid(), &self.caches.bindings, object).await {
            Err(error) if error.is_not_found() => Ok(Some(format!(
                "RoleBinding {}: there is no ClusterRole {}, which the operator's chart brings",
                object.name_any(),
                object.role_ref.name
            ))),
            answer => answer,
        }
    }

    /// Others scale by it meanwhile: what was planned on an older count must not be written.
    async fn write_adapter(self, object: &Adapter) -> WaitResult {
        let is_there = is_known(&self.caches.adapters, object);
        let written = self.write_as(&self.caches.adapters, object, Desired::only_if_unchanged).await?;
        if matches!(written, ChildOutcome::Written(_)) {
            let reason = if is_there { "AdapterUpdated" } else { "AdapterCreated" };
            let (name, component) = (object.name_any(), &object.spec.dgd_ref.component_name);
            let note = format!("component {component} is scaled by DynamoGraphDeploymentScalingAdapter {name}");
            self.publish(reason, &note);
        }
        Ok(written.reason())
    }

    /// Writes what the account of the pods may do.
    pub(super) async fn write_rights(self, objects: &GraphObjects) -> Tally {
        let roles = &self.caches.roles;
        let mut tally = self.write_all(roles, objects.role.as_slice()).await;
        // The API server rejects a binding of a role that is not there.
        if !tally.failed.is_empty() && !objects.role.iter().all(|role| is_known(roles, role)) {
            return tally;
        }
        if let Some(binding) = &objects.binding {
            tally.take_waiting(self.write_own_binding(binding).await);
        }
        tally
    }

    /// Writes the binding of the graph's account. The role of a binding cannot be changed: one that names another,
    /// which is gone or of another install, is made anew, and deleted only if the API server lets us create the new
    /// one.
    async fn write_own_binding(self, object: &RoleBinding) -> WaitResult {
        let live = self.caches.bindings.get(&Key::of(object));
        let is_ours = |live: &Packed<RoleBinding>| match controller_owner(live) {
            Some(owner) => owner.uid == self.uid(),
            // An earlier graph of this name has left it.
            None => MARKS.iter().any(|mark| live.annotations().contains_key(*mark)),
        };
        let own = live.filter(|live| is_ours(live.as_ref()));
        if let Some(live) = own
            && live.unpack().is_ok_and(|binding| binding.role_ref != object.role_ref)
        {
            let desired = Desired::of(&self.owned(object), self.uid())?;
            self.applier.check_creation(&desired).await?;
            self.applier.delete(live.as_ref(), self.uid()).await?;
            return Ok(self.send(&desired, None).await?.reason());
        }
        Ok(self.write(&self.caches.bindings, object).await?.reason())
    }

    /// Deletes the adapters of components that no longer ask for one, and the autoscalers that scaled them before.
    pub(super) async fn prune_adapters(self, objects: &GraphObjects) -> Tally {
        let mut tally = self.prune(&self.caches.autoscalers, &objects.autoscalers).await;
        let is_desired = |name: &str| objects.adapters.desired.iter().any(|desired| desired == name);
        let publish = |name: &str| {
            let note = format!("nothing is scaled by DynamoGraphDeploymentScalingAdapter {name} any more");
            self.publish("AdapterDeleted", &note);
        };
        tally.add(self.prune_with(&self.caches.adapters, is_desired, publish).await);
        tally
    }

    /// Deletes what is no longer desired and nothing runs on.
    pub(super) async fn prune_objects(self, objects: &GraphObjects) -> Tally {
        let caches = self.caches;
        let mut tally = self.prune(&caches.builds, objects.build.as_slice()).await;
        tally.add(self.prune(&caches.config_maps, &objects.config_maps).await);
        tally.add(self.prune(&caches.services, &objects.services).await);
        tally.add(self.prune(&caches.ingresses, &objects.ingresses).await);
        tally.add(self.prune(&caches.virtual_services, &objects.virtual_services).await);
        tally.add(self.prune(&caches.model_services, &objects.model_services).await);
        tally.add(self.prune(&caches.claim_templates, &objects.claim_templates).await);
        tally.add(self.prune(&caches.pools, objects.pool.as_slice()).await);
        tally.add(self.prune(&caches.destination_rules, objects.destination_rule.as_slice()).await);
        tally
    }

    /// Writes the PodCliqueSet, then sets other replicas through Grove. Returns the set as it is now. A set that is new
    /// is written only if `accounts_exist`.
    pub(super) async fn apply_set(
        self,
        observed: &GraphObserved,
        plan: &GrovePlan,
        accounts_exist: bool,
    ) -> (Option<PodCliqueSet>, Tally) {
        let (mut tally, live) = (Tally::default(), observed.grove.set());
        let writes = !plan.held_back && (accounts_exist || live.is_some());
        let written = match writes {
            true => tally.take(self.write(&self.caches.grove.sets, &plan.set).await),
            false => None,
        };
        let set = match written {
            Some(ChildOutcome::Written(set)) => typed(set).ok().or_else(|| live.cloned()),
            Some(ChildOutcome::Waiting(why)) => {
                tally.waiting.push(why);
                return (live.cloned(), tally);
            }
            Some(ChildOutcome::Unchanged) | None => live.cloned(),
        };
        // What Grove made of the set before is scaled even if the set cannot be changed.
        for GroveScale { child, from, to } in &plan.scale {
            let scaled = match child {
                Child::PodClique(clique) => self.applier.scale(clique.as_ref(), self.uid(), *from, *to).await,
                Child::PodCliqueScalingGroup(group) => self.applier.scale(group.as_ref(), self.uid(), *from, *to).await,
            };
            tally.take(scaled);
        }
        (set, tally)
    }

    /// Writes the checkpoints.
    pub(super) async fn write_checkpoints(self, checkpoints: &[ComponentCheckpoint]) -> Tally {
        let mut tally = Tally::default();
        for checkpoint in checkpoints.iter().filter_map(|checkpoint| checkpoint.desired.as_ref()) {
            tally.take_waiting(self.write_checkpoint(checkpoint).await);
        }
        tally
    }

    /// Writes a checkpoint, and then the claim that belongs to it.
    async fn write_checkpoint(self, checkpoint: &DesiredCheckpoint) -> WaitResult {
        let live = live_value(&self.caches.checkpoints, &checkpoint.object);
        let now = match self.send_checkpoint(checkpoint, live.as_ref()).await? {
            ChildOutcome::Written(object) => Some(object),
            ChildOutcome::Unchanged => live,
            ChildOutcome::Waiting(why) => return Ok(Some(why)),
        };
        let uid = now.as_ref().and_then(|object| object.pointer("/metadata/uid")?.as_str());
        match (&checkpoint.claim, uid) {
            (Some(claim), Some(uid)) => self.write_claim(claim, &checkpoint.object.name_any(), uid).await,
            _ => Ok(None),
        }
    }

    /// One that is kept when the graph goes has no owner; its labels say whose it is. It loses the owner before
    /// anything else is said of it: whatever happens in between, it is there still.
    async fn send_checkpoint(self, checkpoint: &DesiredCheckpoint, live: Option<&Value>) -> ChildResult {
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

    /// The claim belongs to the checkpoint, so that it goes with it.
    async fn write_claim(self, claim: &ResourceClaimTemplate, checkpoint: &str, uid: &str) -> WaitResult {
        let claims = &self.caches.claim_templates;
        if !claims.is_served() {
            claims.need();
            return Ok(Some(unserved(claim)));
        }
        let mut claim = claim.clone();
        claim.metadata.owner_references = Some(vec![owner::controller::<DynamoCheckpoint>(checkpoint, uid)]);
        let written = self.send(&Desired::of(&claim, uid)?, live_value(claims, &claim).as_ref()).await;
        // Nothing is planned on a cache for the checkpoint here: the memory of this write is not needed.
        self.applier.forget(uid);
        Ok(written?.reason())
    }

    /// Deletes checkpoints that nothing starts from any more. Their data are removed by the component controller.
    pub(super) async fn prune_checkpoints(self, stale: &[DynamoCheckpoint]) -> Tally {
        let mut tally = Tally::default();
        for checkpoint in stale {
            tally.take(self.applier.delete(checkpoint, self.uid()).await);
        }
        tally
    }
}
