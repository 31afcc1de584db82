//! What each model claims of the engines of its base model, and who comes first when two claim the same name. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api_types::{
    LEGACY_FINALIZER, names,
    v1alpha1::{AdapterMemory, DynamoModel, DynamoModelStatus},
};
use controller_kit::store::Key;
use jiff::Timestamp;

use super::{
    note,
    validate::{Valid, validate},
};
use crate::engine::{
    AdapterName, PoolId, Source,
    wishes::{Trust, Wanted, Wishes},
};

/// The finalizer that keeps a model until its adapter is unloaded. The Go operator's, so that each cleans up after the other.
pub const FINALIZER: &str = LEGACY_FINALIZER;

/// What one model claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The model.
    pub key: Key,
    /// The engines of its base model.
    pub pool: PoolId,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// What its spec asks for.
    pub asks: Asks,
    /// What its status remembers, or its annotation where the status cannot.
    pub memory: AdapterMemory,
    /// Which copies count that were there before this process.
    pub trust: Trust,
    /// Whether it carries [`FINALIZER`].
    pub has_finalizer: bool,
}

/// What a spec asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Nothing to load.
    Nothing,
    /// This adapter.
    Adapter {
        /// Under which name.
        name: AdapterName,
        /// Where from.
        source: Source,
    },
    /// Something that cannot be done. What is loaded stays.
    Nonsense,
    /// To be forgotten: the model is being deleted.
    Farewell {
        /// The adapter that the Go operator may have loaded without leaving a memory of it.
        name: Option<AdapterName>,
    },
}

impl Claim {
    /// Reads a model.
    pub fn of(model: &DynamoModel) -> Self {
        let asks = match (model.metadata.deletion_timestamp.is_some(), validate(&model.spec)) {
            (true, Ok(Valid::Adapter { name, .. })) => Asks::Farewell { name: Some(name) },
            (true, _) => Asks::Farewell { name: None },
            (false, Ok(Valid::Adapter { name, source })) => Asks::Adapter { name, source },
            (false, Ok(Valid::Base)) => Asks::Nothing,
            (false, Err(_)) => Asks::Nonsense,
        };
        let status = model.status.as_ref();
        let memory = status.and_then(|status| status.adapter.clone()).or_else(|| note::read(model));
        let memory = memory.unwrap_or_default();
        let key = Key::of(model);
        let hash = names::base_model_hash(&model.spec.base_model_name);
        Self {
            pool: PoolId { namespace: key.namespace.as_str().into(), base_model_hash: hash.as_str().into() },
            key,
            created: model.metadata.creation_timestamp.as_ref().map(|time| time.0),
            asks,
            trust: trust(status, &memory),
            memory,
            has_finalizer: model.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER),
        }
    }

    /// The adapter that the model wants, if its memory and its finalizer say so: only then may engines be asked for it, so
    /// that whatever happens in between, somebody knows what to unload.
    fn remembered(&self) -> Option<(&AdapterName, &Source)> {
        let Asks::Adapter { name, source } = &self.asks else { return None };
        let same = self.memory.model_name.as_deref() == Some(name.as_str())
            && self.memory.source_digest.as_deref() == Some(source.digest().as_str());
        (same && self.has_finalizer).then_some((name, source))
    }

    /// Adapters that the model may have loaded and no longer wants.
    pub fn leftovers(&self) -> BTreeSet<AdapterName> {
        if !self.has_finalizer {
            return BTreeSet::new();
        }
        let mut names: BTreeSet<AdapterName> = self.memory.superseded.iter().map(|name| name.as_str().into()).collect();
        let last = self.memory.model_name.as_deref().map(AdapterName::from);
        match &self.asks {
            Asks::Nothing => names.extend(last),
            Asks::Farewell { name } => names.extend(last.into_iter().chain(name.clone())),
            Asks::Adapter { name, .. } => names.extend(last.filter(|last| last != name)),
            Asks::Nonsense => {}
        }
        names
    }
}

/// After a change of source, only endpoints that the status calls ready have the new one.
fn trust(status: Option<&DynamoModelStatus>, memory: &AdapterMemory) -> Trust {
    if !memory.reloading {
        return Trust::Everywhere;
    }
    let endpoints = status.map(|status| status.endpoints.as_slice()).unwrap_or_default();
    let ready = endpoints.iter().filter(|endpoint| endpoint.ready);
    Trust::Only(Arc::new(ready.map(|endpoint| endpoint.address.clone()).collect()))
}

/// The claims on one pool, settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
    /// What its engines shall hold.
    pub wishes: Wishes,
    /// Models whose name for an adapter belongs to another model, which loads it from another source.
    pub taken: BTreeMap<Key, Key>,
}

/// Settles the claims on one pool. Of models that want one name from different sources, the oldest has it; models that
/// want the same from the same source share it.
pub fn settle<'a>(claims: impl Iterator<Item = &'a Claim>) -> Settlement {
    let mut claims: Vec<&Claim> = claims.collect();
    claims.sort_by(|a, b| (a.created, &a.key).cmp(&(b.created, &b.key)));
    let mut settlement = Settlement::default();
    let mut owners: BTreeMap<&AdapterName, (&Key, &Source)> = BTreeMap::new();
    for claim in &claims {
        let Asks::Adapter { name, source } = &claim.asks else { continue };
        let (owner, owned) = *owners.entry(name).or_insert((&claim.key, source));
        if owned != source {
            settlement.taken.insert(claim.key.clone(), owner.clone());
            continue;
        }
        let Some((name, source)) = claim.remembered() else {
            settlement.wishes.pending = true;
            continue;
        };
        let wanted = settlement.wishes.load.entry(name.clone());
        let wanted = wanted.or_insert_with(|| Wanted {
            source: source.clone(),
            models: BTreeSet::new(),
            trust: claim.trust.clone(),
        });
        wanted.models.insert(claim.key.clone());
    }
    for claim in claims {
        for name in claim.leftovers().into_iter().filter(|name| !owners.contains_key(name)) {
            settlement.wishes.unload.entry(name).or_default().insert(claim.key.clone());
        }
    }
    settlement
}

#[cfg(test)]
mod tests;
