//! Selection of the model that owns the name of an adapter among the engines of a base model. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api_types::{
    names,
    v1alpha1::{AdapterMemory, DynamoModel, DynamoModelStatus},
};
use controller_kit::store::Key;

use super::{
    memory_annotation,
    model::{FINALIZER, ModelClaim, Requested},
    validate::validate,
};
use crate::engine::{AdapterName, AdapterSource, CopyTrust, DesiredAdapter, DesiredAdapters, PoolId};

impl ModelClaim {
    /// Reads a model.
    pub fn of(model: &DynamoModel) -> Self {
        let requested = match (model.metadata.deletion_timestamp.is_some(), validate(&model.spec)) {
            (true, valid) => Requested::Deleting { name: valid.ok().flatten().map(|(name, _)| name) },
            (false, Ok(Some((name, source)))) => Requested::Adapter { name, source },
            (false, Ok(None)) => Requested::Nothing,
            (false, Err(_)) => Requested::Invalid,
        };
        let status = model.status.as_ref();
        let memory = status.and_then(|status| status.adapter.clone()).or_else(|| memory_annotation::read(model));
        let memory = memory.unwrap_or_default();
        let key = Key::of(model);
        let hash = names::base_model_hash(&model.spec.base_model_name);
        Self {
            pool: PoolId { namespace: key.namespace.as_str().into(), base_model_hash: hash.as_str().into() },
            key,
            created: model.metadata.creation_timestamp.as_ref().map(|time| time.0),
            requested,
            trust: trust(status, &memory),
            memory,
            has_finalizer: model.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER),
        }
    }

    /// The requested adapter, if memory and finalizer of the model have it. No engine loads an adapter before that, so
    /// that every loaded adapter can be unloaded later.
    fn remembered(&self) -> Option<(&AdapterName, &AdapterSource)> {
        let Requested::Adapter { name, source } = &self.requested else { return None };
        let same = self.memory.model_name.as_deref() == Some(name.as_str())
            && self.memory.source_digest.as_deref() == Some(source.digest().as_str());
        (same && self.has_finalizer).then_some((name, source))
    }

    /// Adapters that the model may have loaded and does not request any more.
    pub fn leftovers(&self) -> BTreeSet<AdapterName> {
        if !self.has_finalizer {
            return BTreeSet::new();
        }
        let mut names: BTreeSet<AdapterName> = self.memory.superseded.iter().map(|name| name.as_str().into()).collect();
        let last = self.memory.model_name.as_deref().map(AdapterName::from);
        match &self.requested {
            Requested::Nothing => names.extend(last),
            Requested::Deleting { name } => names.extend(last.into_iter().chain(name.clone())),
            Requested::Adapter { name, .. } => names.extend(last.filter(|last| last != name)),
            Requested::Invalid => {}
        }
        names
    }
}

/// After a change of source, only endpoints that the status reports as ready have the new one.
fn trust(status: Option<&DynamoModelStatus>, memory: &AdapterMemory) -> CopyTrust {
    if !memory.reloading {
        return CopyTrust::Everywhere;
    }
    let endpoints = status.map(|status| status.endpoints.as_slice()).unwrap_or_default();
    let ready = endpoints.iter().filter(|endpoint| endpoint.ready);
    CopyTrust::Only(Arc::new(ready.map(|endpoint| endpoint.address.clone()).collect()))
}

/// Owners of the adapter names of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// Desired adapters of its engines.
    pub desired: DesiredAdapters,
    /// Models whose adapter name is owned by another model with another source, and that model.
    pub taken: BTreeMap<Key, Key>,
}

/// Resolves the claims on one pool. Of models that request one name from different sources, the oldest owns it; models
/// that request it from the same source share it.
pub fn resolve_ownership<'a>(claims: impl Iterator<Item = &'a ModelClaim>) -> Ownership {
    let mut claims: Vec<&ModelClaim> = claims.collect();
    claims.sort_by(|a, b| (a.created, &a.key).cmp(&(b.created, &b.key)));
    let mut ownership = Ownership::default();
    let mut owners: BTreeMap<&AdapterName, (&Key, &AdapterSource)> = BTreeMap::new();
    for claim in &claims {
        let Requested::Adapter { name, source } = &claim.requested else { continue };
        let (owner, owned) = *owners.entry(name).or_insert((&claim.key, source));
        if owned != source {
            ownership.taken.insert(claim.key.clone(), owner.clone());
            continue;
        }
        let Some((name, source)) = claim.remembered() else {
            ownership.desired.pending = true;
            continue;
        };
        let (source, trust) = (source.clone(), claim.trust.clone());
        let adapter = DesiredAdapter { source, models: BTreeSet::new(), trust };
        let adapter = ownership.desired.load.entry(name.clone()).or_insert(adapter);
        adapter.models.insert(claim.key.clone());
    }
    for claim in claims {
        for name in claim.leftovers().into_iter().filter(|name| !owners.contains_key(name)) {
            ownership.desired.unload.entry(name).or_default().insert(claim.key.clone());
        }
    }
    ownership
}

#[cfg(test)]
mod tests;
