//! `crds serve`: keeps the definitions as `crds apply` leaves them, and sets the CA bundle of the conversion webhook in
//! them.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    str::FromStr,
    time::Duration,
};

use anyhow::Context;
use api_types::crds::{self, ConversionService};
use futures::{StreamExt, TryStreamExt, future, stream::BoxStream};
use k8s_openapi::{
    ByteString, api::core::v1::ConfigMap,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Client, ResourceExt,
    api::{Api, Patch, PatchParams},
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde_json::json;
use tokio::{
    select,
    signal::unix::{SignalKind, signal},
};

use crate::{
    apply::{self, PAUSE, Revision},
    cluster::{ClusterArgs, FIELD_MANAGER},
    live::Live,
};

/// Key of the ConfigMap.
const KEY: &str = "ca.crt";

/// Between a change and the pass that it causes. Changes come in groups; and a writer that contradicts is not answered
/// more often than this.
const BETWEEN_PASSES: Duration = Duration::from_secs(1);

/// Flags of `crds serve`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Service that converts between versions, NAMESPACE/NAME[:PORT]
    #[arg(long, value_name = "SERVICE")]
    webhook_service: ConversionService,
    /// ConfigMap with the CA bundle of that Service under the key ca.crt, NAMESPACE/NAME; it may come later
    #[arg(long, value_name = "CONFIGMAP")]
    ca_config_map: ConfigMapName,
    /// Set the CA bundle only: definitions, and the objects that are stored, belong to another program
    #[arg(long)]
    bundle_only: bool,
}

/// A ConfigMap, as NAMESPACE/NAME.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ConfigMapName {
    namespace: String,
    name: String,
}

impl FromStr for ConfigMapName {
    type Err = &'static str;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        match given.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err("write NAMESPACE/NAME"),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut end = signal(SignalKind::terminate())?;
        select! {
            served = serve(args) => served.map(|never| match never {}),
            _ = end.recv() => Ok(()),
        }
    })
}

async fn serve(args: &Args) -> anyhow::Result<Infallible> {
    let mut keeper = Keeper::new(args, args.cluster.client().await?)?;
    loop {
        args.cluster.in_time(keeper.pass()).await?;
        keeper.changed().await;
        tokio::time::sleep(BETWEEN_PASSES).await;
    }
}

/// What is watched of a definition: whole, ours take a megabyte each.
type Definition = PartialObjectMeta<CustomResourceDefinition>;

type Events<K> = BoxStream<'static, watcher::Result<Event<K>>>;

struct Keeper<'a> {
    args: &'a Args,
    client: Client,
    /// Definitions that hold a CA bundle.
    converted: Vec<String>,
    definition_events: Events<Definition>,
    /// The list of definitions that is being read.
    listed: BTreeMap<String, Revision>,
    bundle_events: Events<ConfigMap>,
    bundles: Live<Option<String>>,
    /// Definitions as the last pass left them.
    left: BTreeMap<String, Revision>,
    /// The bundle that the last pass set.
    injected: Option<String>,
}

impl<'a> Keeper<'a> {
    fn new(args: &'a Args, client: Client) -> anyhow::Result<Self> {
        let all = crds::all_converted_by(&args.webhook_service)?;
        let converted: Vec<String> =
            all.iter().filter(|crd| args.webhook_service.is_named_by(crd)).map(ResourceExt::name_any).collect();
        let ours: BTreeSet<String> = if args.bundle_only {
            converted.iter().cloned().collect()
        } else {
            all.iter().map(ResourceExt::name_any).collect()
        };
        let is_ours = move |event: &Event<Definition>| match event {
            Event::Apply(object) | Event::InitApply(object) | Event::Delete(object) => {
                ours.contains(&object.name_any())
            }
            Event::Init | Event::InitDone => true,
        };
        let metadata: Api<Definition> = Api::all(client.clone());
        let definition_events = watcher(metadata, watcher::Config::default())
            .try_filter(move |event| future::ready(is_ours(event)))
            .default_backoff()
            .boxed();
        let ConfigMapName { namespace, name } = &args.ca_config_map;
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let bundle_events = watcher(Api::namespaced(client.clone(), namespace), only).default_backoff().boxed();
        Ok(Self {
            args,
            client,
            converted,
            definition_events,
            listed: BTreeMap::new(),
            bundle_events,
            bundles: Live::default(),
            left: BTreeMap::new(),
            injected: None,
        })
    }

    /// Does all that is to be done. A bundle that comes while objects are migrated is set at once, for reading them may
    /// need it.
    async fn pass(&mut self) -> anyhow::Result<()> {
        if !self.args.bundle_only {
            self.left = apply::definitions(&self.client, Some(&self.args.webhook_service)).await?;
        }
        while self.bundles.known().is_none() {
            self.next_bundle().await;
        }
        self.inject().await?;
        if self.args.bundle_only {
            return Ok(());
        }
        let (client, names) = (self.client.clone(), self.left.clone());
        let mut migration = std::pin::pin!(apply::migrate(&client, names.keys()));
        loop {
            select! {
                migrated = &mut migration => return migrated,
                () = self.next_bundle() => self.inject().await?,
            }
        }
    }

    /// Returns when something is to be done again. Each event is compared with what the pass left: one from before the
    /// pass is older than that.
    async fn changed(&mut self) {
        while !self.has_new_bundle() {
            select! {
                event = self.definition_events.next() => {
                    let is_changed = match event {
                        Some(Ok(event)) => is_changed(&self.left, &mut self.listed, event),
                        Some(Err(error)) => {
                            eprintln!("waiting: cannot watch the definitions: {error}");
                            false
                        }
                        None => false,
                    };
                    if is_changed {
                        return;
                    }
                }
                event = self.bundle_events.next() => self.take_bundle(event),
            }
        }
    }

    fn has_new_bundle(&self) -> bool {
        self.bundle().is_some_and(|bundle| self.injected.as_ref() != Some(bundle))
    }

    async fn next_bundle(&mut self) {
        let event = self.bundle_events.next().await;
        self.take_bundle(event);
    }

    fn take_bundle(&mut self, event: Option<watcher::Result<Event<ConfigMap>>>) {
        match event {
            Some(Ok(event)) => {
                self.bundles.take(event, |config_map| config_map.data.and_then(|mut data| data.remove(KEY)));
            }
            Some(Err(error)) => eprintln!("waiting: cannot watch the ConfigMap with the CA bundle: {error}"),
            None => {}
        }
    }

    /// The bundle that converted definitions are to hold, if there is one.
    fn bundle(&self) -> Option<&String> {
        self.bundles.known()?.get(&self.args.ca_config_map.name)?.as_ref().filter(|bundle| !bundle.is_empty())
    }

    /// Sets the bundle in all definitions that our Service converts.
    async fn inject(&mut self) -> anyhow::Result<()> {
        let bundle = self.bundle().cloned();
        if bundle.is_none() && !self.args.bundle_only {
            return Ok(());
        }
        for name in self.converted.clone() {
            self.inject_one(&name, bundle.as_deref())
                .await
                .with_context(|| format!("cannot set the CA bundle of {name}"))?;
        }
        self.injected = bundle;
        Ok(())
    }

    /// Sets the bundle in one definition, if it is still as it was read: its owner may write it at the same time.
    async fn inject_one(&mut self, name: &str, bundle: Option<&str>) -> anyhow::Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        loop {
            let Some(live) = api.get_opt(name).await? else {
                self.left.remove(name);
                return Ok(());
            };
            let read = Revision::of(&live.metadata);
            if self.args.bundle_only {
                self.left.insert(name.to_owned(), read.clone());
            }
            let Some(patch) = bundle.and_then(|bundle| self.patch(&live, bundle)) else { return Ok(()) };
            let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
            let patch = Patch::Json::<()>(serde_json::from_value(patch)?);
            match api.patch_metadata(name, &params, &patch).await {
                Ok(after) => {
                    println!("{name} CA bundle set");
                    // What another wrote since the definition was applied is left for the next pass.
                    if self.left.get(name) == Some(&read) {
                        self.left.insert(name.to_owned(), Revision::of(&after.metadata));
                    }
                    return Ok(());
                }
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => tokio::time::sleep(PAUSE).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What sets the bundle; none if the definition holds it, or asks another Service.
    fn patch(&self, live: &CustomResourceDefinition, bundle: &str) -> Option<serde_json::Value> {
        if !self.args.webhook_service.is_named_by(live) {
            return None;
        }
        let client = live.spec.conversion.as_ref()?.webhook.as_ref()?.client_config.as_ref()?;
        let bundle = ByteString(bundle.as_bytes().to_vec());
        (client.ca_bundle.as_ref() != Some(&bundle)).then(|| {
            json!([
                { "op": "add", "path": "/metadata/resourceVersion", "value": live.resource_version() },
                { "op": "add", "path": "/spec/conversion/webhook/clientConfig/caBundle", "value": bundle },
            ])
        })
    }
}

/// Whether an event shows that a definition is not as the last pass left it.
fn is_changed(
    left: &BTreeMap<String, Revision>,
    listed: &mut BTreeMap<String, Revision>,
    event: Event<Definition>,
) -> bool {
    // A generation only grows: one that is smaller is from before the pass.
    let is_left = |name: &String, live: &Revision| {
        left.get(name).is_some_and(|left| left.uid == live.uid && live.generation <= left.generation)
    };
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(definition) => {
            listed.insert(definition.name_any(), Revision::of(&definition.metadata));
        }
        Event::InitDone => {
            let live = std::mem::take(listed);
            return left.keys().any(|name| !live.contains_key(name))
                || !live.iter().all(|(name, revision)| is_left(name, revision));
        }
        Event::Apply(definition) => return !is_left(&definition.name_any(), &Revision::of(&definition.metadata)),
        Event::Delete(definition) => {
            return left.get(&definition.name_any()).is_some_and(|left| left.uid == definition.metadata.uid);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition((name, uid, generation): (&str, &str, i64)) -> Definition {
        let metadata = json!({ "name": name, "uid": uid, "generation": generation });
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn left() -> BTreeMap<String, Revision> {
        let all = [("a", "1", 3), ("b", "2", 1)].map(definition);
        all.iter().map(|definition| (definition.name_any(), Revision::of(&definition.metadata))).collect()
    }

    #[test]
    fn a_list_shows_that_a_definition_is_missing_new_or_changed_after_the_pass() {
        for (live, expected) in [
            (&[("a", "1", 3), ("b", "2", 1)][..], false),
            (&[("a", "1", 2), ("b", "2", 1)], false),
            (&[("a", "1", 4), ("b", "2", 1)], true),
            (&[("a", "9", 1), ("b", "2", 1)], true),
            (&[("a", "1", 3)], true),
            (&[("a", "1", 3), ("b", "2", 1), ("c", "3", 1)], true),
        ] {
            let mut listed = BTreeMap::new();
            let events = live.iter().map(|live| Event::InitApply(definition(*live)));
            for event in std::iter::once(Event::Init).chain(events) {
                assert!(!is_changed(&left(), &mut listed, event));
            }
            assert_eq!(is_changed(&left(), &mut listed, Event::InitDone), expected, "{live:?}");
        }
    }

    #[test]
    fn an_event_shows_the_same_unless_it_is_from_before_the_pass() {
        for (event, expected) in [
            (Event::Apply(definition(("a", "1", 3))), false),
            (Event::Apply(definition(("a", "1", 2))), false),
            (Event::Apply(definition(("a", "1", 4))), true),
            (Event::Apply(definition(("c", "3", 1))), true),
            (Event::Delete(definition(("a", "1", 3))), true),
            (Event::Delete(definition(("a", "0", 9))), false),
        ] {
            let what = format!("{event}");
            assert_eq!(is_changed(&left(), &mut BTreeMap::new(), event), expected, "{what}");
        }
    }

    #[test]
    fn a_config_map_is_named_with_its_namespace() {
        let parsed: ConfigMapName = "dynamo-system/ca".parse().unwrap();
        assert_eq!(parsed, ConfigMapName { namespace: "dynamo-system".to_owned(), name: "ca".to_owned() });
        for wrong in ["ca", "/ca", "a/", "a/b/c"] {
            assert!(wrong.parse::<ConfigMapName>().is_err(), "{wrong}");
        }
    }
}
