//! Watches of a controller: one call for each watched kind.

use std::sync::Arc;

use api_types::annotations;
use kube::{Resource, core::PartialObjectMeta};

use super::{Controller, owner_key};
use crate::{
    apply::Applier,
    context::Context,
    store::{
        CacheView, Key, NamespacedKind, Packed, ServedApis, StaticKind, Store, Watch,
        keep::{self, KeepRule},
        watch_by, watch_if_served, watch_metadata,
    },
};

/// Opens the watches of a controller of `K`. Each call registers everything that depends on the watch: what it wakes,
/// the readiness of the controller, and whether the cache shows what the [`Applier`] wrote.
pub struct Wiring<K> {
    context: Context,
    apis: ServedApis,
    controller: Controller<K>,
    caches: Vec<Arc<dyn CacheView>>,
}

impl<K: StaticKind + Send + Sync + 'static> Wiring<K> {
    /// Watches of the controller of the objects in `root`.
    pub fn new(context: &Context, apis: &ServedApis, root: Watch<Packed<K>>) -> Self {
        Self {
            context: context.clone(),
            apis: apis.clone(),
            caches: vec![Arc::new(root.store.clone())],
            controller: Controller::new(root),
        }
    }

    /// Watches the objects with these labels; a change wakes the controller owner. Content is kept of the children of a
    /// `K` only.
    pub fn owned<O: NamespacedKind>(&mut self, labels: &str) -> Store<Packed<O>> {
        let wake = |object: &_| owner_key::<K, _>(object).into_iter().collect();
        self.watched(Some(labels), keep::owned_by::<K>, wake)
    }

    /// [`Wiring::owned`] of a kind that the cluster need not serve.
    pub fn owned_if_served<O: NamespacedKind>(&mut self, labels: &str) -> Store<Packed<O>> {
        let wake = |object: &_| owner_key::<K, _>(object).into_iter().collect();
        self.watched_if_served(Some(labels), keep::owned_by::<K>, wake)
    }

    /// Watches the objects with these labels, or all, and keeps as much of each as a rule says; a change wakes the keys
    /// that `wake` names.
    pub fn watched<O: NamespacedKind>(
        &mut self,
        labels: Option<&str>,
        rule: KeepRule,
        wake: impl Fn(&Packed<O>) -> Vec<Key> + Send + 'static,
    ) -> Store<Packed<O>> {
        let opened = watch_by(&self.context.source(), labels, rule);
        self.register(opened, wake)
    }

    /// [`Wiring::watched`] of a kind that the cluster need not serve.
    pub fn watched_if_served<O: NamespacedKind>(
        &mut self,
        labels: Option<&str>,
        rule: KeepRule,
        wake: impl Fn(&Packed<O>) -> Vec<Key> + Send + 'static,
    ) -> Store<Packed<O>> {
        let opened = watch_if_served(&self.apis, &self.context.source(), labels, rule);
        self.register(opened, wake)
    }

    /// Watches metadata of the objects that both selectors match. For kinds that the controller does not apply: it does
    /// not wait for its own writes to them.
    pub fn metadata<O: NamespacedKind>(
        &mut self,
        labels: Option<&str>,
        fields: Option<&str>,
        wake: impl Fn(&PartialObjectMeta<O>) -> Vec<Key> + Send + 'static,
    ) -> Store<PartialObjectMeta<O>> {
        let (store, watch) = watch_metadata(&self.context.source(), labels, fields);
        self.wake(watch, wake);
        store
    }

    /// Lets the changes of a watch that was opened elsewhere wake the keys that `wake` names.
    pub fn wake<O>(&mut self, watch: Watch<O>, wake: impl Fn(&O) -> Vec<Key> + Send + 'static)
    where
        O: Resource + Send + Sync + 'static,
    {
        self.controller.trigger(watch, wake);
    }

    /// Registers a cache that another controller of the process fills, and this one applies objects of.
    pub fn applies<O: Resource + Send + Sync + 'static>(&mut self, store: &Store<O>) {
        self.caches.push(Arc::new(store.clone()));
    }

    /// The controller, and the applier that it waits for, which takes over what the upstream operator wrote
    /// ([`Applier::with_predecessors`]). `field_manager` as in [`Applier::new`].
    #[must_use]
    pub fn finish(self, field_manager: &str) -> (Controller<K>, Applier) {
        let Context { client, metrics, .. } = self.context;
        let applier = Applier::new(client, field_manager, metrics, self.caches);
        (self.controller, applier.with_predecessors(&[annotations::LAST_APPLIED_HASH]))
    }

    fn register<O: Resource + 'static>(
        &mut self,
        (store, watch): (Store<Packed<O>>, Watch<Packed<O>>),
        wake: impl Fn(&Packed<O>) -> Vec<Key> + Send + 'static,
    ) -> Store<Packed<O>> {
        self.applies(&store);
        self.wake(watch, wake);
        store
    }
}
