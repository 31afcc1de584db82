//! Watches the Secret and the objects with CA bundles.

use std::sync::Arc;

use api_types::{GROUP, labels};
use controller_kit::{
    settings::CertProvisionMode,
    store::{Key, Packed, Scope, Source, Store, watch_api, watch_named},
};
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::Secret,
};
use kube::{Api, Client, Resource};

use super::{Target, plan::Policy, targets::Definition};
use crate::{
    changes::{Changes, ticks},
    configurations::{CONVERTED, Host},
};

/// Everything that certificates depend on, as of the last event of each watch.
pub(super) struct Sight {
    host: Host,
    secret_name: String,
    secrets: Store<Packed<Secret>>,
    /// None if others set their CA: then an install for one namespace has no right to read them.
    configurations: Option<Configurations>,
    definitions: Vec<Store<Definition>>,
}

struct Configurations {
    validating: Store<ValidatingWebhookConfiguration>,
    mutating: Store<MutatingWebhookConfiguration>,
}

impl Sight {
    /// Starts the watches.
    pub(super) fn new(client: &Client, policy: &Policy, secret_name: &str, converts: bool) -> (Self, Changes) {
        let host = &policy.host;
        let client = || client.clone();
        let (secrets, secret_watch) =
            watch_named::<Secret>(&Source::all(client(), &Scope::Namespace(host.namespace.clone())), secret_name);
        let mut changes = vec![ticks(secret_watch)];
        let configurations = (policy.mode == CertProvisionMode::Auto).then(|| {
            let ours =
                format!("{}={},{}={}", labels::PART_OF, labels::OPERATOR, labels::OPERATOR_NAMESPACE, host.namespace);
            let (validating, validating_watch) = watch_api(Api::all(client()), Some(&ours), None);
            let (mutating, mutating_watch) = watch_api(Api::all(client()), Some(&ours), None);
            changes.extend([ticks(validating_watch), ticks(mutating_watch)]);
            Configurations { validating, mutating }
        });
        let mut definitions = Vec::new();
        for plural in CONVERTED.iter().filter(|_| converts) {
            let field = format!("metadata.name={plural}.{GROUP}");
            let (store, watch) = watch_api::<Definition>(Api::all(client()), None, Some(&field));
            definitions.push(store);
            changes.push(ticks(watch));
        }
        let (host, secret_name) = (host.clone(), secret_name.to_owned());
        (Self { host, secret_name, secrets, configurations, definitions }, Changes::of(changes))
    }

    /// Returns when the Secret was listed.
    pub(super) async fn secret_known(&self) {
        self.secrets.wait_until_ready().await;
    }

    /// Returns when all targets were listed.
    pub(super) async fn places_known(&self) {
        if let Some(Configurations { validating, mutating }) = &self.configurations {
            validating.wait_until_ready().await;
            mutating.wait_until_ready().await;
        }
        for definitions in &self.definitions {
            definitions.wait_until_ready().await;
        }
    }

    /// The Secret. One that cannot be parsed counts as empty.
    pub(super) fn secret(&self) -> Option<Secret> {
        let packed = self.secrets.get(&Key::new(&self.host.namespace, &self.secret_name))?;
        let metadata = packed.metadata.clone();
        Some(packed.unpack().unwrap_or(Secret { metadata, ..Secret::default() }))
    }

    /// All targets with bundles for this server, if they were listed.
    pub(super) fn targets(&self) -> Option<Vec<Target>> {
        if !self.definitions.iter().all(Store::is_ready) {
            return None;
        }
        let definitions =
            self.definitions.iter().flat_map(all).map(|object| Target::of_definition(&object, &self.host));
        let mut targets = Vec::new();
        if let Some(Configurations { validating, mutating }) = &self.configurations {
            if !validating.is_ready() || !mutating.is_ready() {
                return None;
            }
            targets.extend(all(validating).map(|object| Target::of_validating(&object, &self.host)));
            targets.extend(all(mutating).map(|object| Target::of_mutating(&object, &self.host)));
        }
        targets.extend(definitions);
        Some(targets)
    }
}

fn all<O: Resource>(store: &Store<O>) -> impl Iterator<Item = Arc<O>> + use<O> {
    store.all().into_iter()
}
