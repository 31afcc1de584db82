//! Applies the definitions, sets their CA bundle, and migrates objects; watches for what makes that due again.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
};

use anyhow::Context;
use api_types::crds::{self, CrdError};
use futures::{Stream, StreamExt, TryStreamExt, future, stream::BoxStream};
use k8s_openapi::{
    ByteString,
    api::core::v1::ConfigMap,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceConversion, CustomResourceDefinition},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Client, Resource, ResourceExt,
    api::{Api, Patch, PatchParams},
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde::Deserialize;
use serde_json::json;
use tokio::{
    select,
    time::{Duration, sleep},
};

use super::{ConfigMapName, CrdsServeArgs, PassResult, health::DefinitionReadiness};
use crate::{
    apply::{self, AppliedDefinition, DefinitionOutcome, DefinitionRevision, PAUSE},
    cluster::FIELD_MANAGER,
    migrate::Done,
};

/// Key of the ConfigMap.
const KEY: &str = "ca.crt";

/// Watched part of a definition: metadata, because a whole one of ours takes a megabyte.
type DefinitionMetadata = PartialObjectMeta<CustomResourceDefinition>;

/// A definition without its schemas.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = CustomResourceDefinition)]
struct ConvertedDefinition {
    metadata: ObjectMeta,
    spec: ConvertedDefinitionSpec,
}

#[derive(Clone, Debug, Deserialize)]
struct ConvertedDefinitionSpec {
    conversion: Option<CustomResourceConversion>,
}

/// Result of setting the bundle in a definition.
enum Injection {
    /// There is no such definition.
    Missing,
    /// It holds the bundle, or names another Service.
    Unchanged(DefinitionRevision),
    /// It was as `read`, and is as `after`.
    Set { read: DefinitionRevision, after: DefinitionRevision },
}

type WatcherStream<K> = BoxStream<'static, watcher::Result<Event<K>>>;

pub(super) struct DefinitionKeeper<'a> {
    args: &'a CrdsServeArgs,
    client: Client,
    /// Definitions that hold a CA bundle.
    converted: Vec<String>,
    definition_events: WatcherStream<DefinitionMetadata>,
    /// The list of definitions that is being read.
    listed: BTreeMap<String, DefinitionRevision>,
    bundle_events: WatcherStream<ConfigMap>,
    /// The bundle in the list that is being read; empty if there is none.
    listed_bundle: String,
    /// The bundle in the ConfigMap, empty if there is none; `None` until the first list is complete.
    known_bundle: Option<String>,
    /// Definitions as the last pass left them.
    left: BTreeMap<String, DefinitionRevision>,
    /// The bundle that was set last, or could not be set.
    injected: Option<String>,
    /// Whether a definition was written since the pass began.
    wrote: bool,
    /// The last outcome, by definition; one that is unchanged or kept is logged once.
    outcomes: BTreeMap<String, DefinitionOutcome>,
    migrated: Done,
    readiness: DefinitionReadiness,
}

impl<'a> DefinitionKeeper<'a> {
    pub fn new(args: &'a CrdsServeArgs, client: Client, readiness: DefinitionReadiness) -> anyhow::Result<Self> {
        let (mut ours, mut converted) = (BTreeSet::new(), Vec::new());
        for crd in crds::all_converted_by(&args.webhook_service)? {
            let (name, is_converted) = (crd.name_any(), args.webhook_service.is_named_by(crd.spec.conversion.as_ref()));
            if is_converted || !args.bundle_only {
                ours.insert(name.clone());
            }
            converted.extend(is_converted.then_some(name));
        }
        let is_ours = move |event: &Event<DefinitionMetadata>| match event {
            Event::Apply(object) | Event::InitApply(object) | Event::Delete(object) => {
                ours.contains(&object.name_any())
            }
            Event::Init | Event::InitDone => true,
        };
        let metadata: Api<DefinitionMetadata> = Api::all(client.clone());
        let all_events = watcher(metadata, watcher::Config::default());
        let definition_events = with_backoff(all_events.try_filter(move |event| future::ready(is_ours(event))));
        let ConfigMapName { namespace, name } = &args.ca_config_map;
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let bundle_events = with_backoff(watcher(Api::namespaced(client.clone(), namespace), only));
        Ok(Self {
            args,
            client,
            converted,
            definition_events,
            listed: BTreeMap::new(),
            bundle_events,
            listed_bundle: String::new(),
            known_bundle: None,
            left: BTreeMap::new(),
            injected: None,
            wrote: false,
            outcomes: BTreeMap::new(),
            migrated: Done::default(),
            readiness,
        })
    }

    /// Does everything that is due. A step that fails is logged and prevents no other step.
    pub async fn pass(&mut self) -> PassResult {
        self.wrote = false;
        // The first thing, for it depends on nothing else and conversion depends on it.
        let mut is_done = if self.known_bundle.is_some() { self.inject().await } else { true };
        let mut to_migrate = Vec::new();
        let definitions = self.definitions().unwrap_or_else(|error| {
            is_done = false;
            eprintln!("error: no definition is applied: {error:#}");
            Vec::new()
        });
        for crd in definitions {
            let name = crd.name_any();
            let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
            let limit = &self.args.cluster;
            match self.injecting(limit.in_time(apply::definition(&api, &crd))).await {
                Ok(applied) => {
                    if self.take_applied(&name, applied) {
                        to_migrate.push(name);
                    }
                }
                Err(error) => {
                    is_done = false;
                    eprintln!("error: {name} is not applied: {error:#}");
                }
            }
        }
        while self.known_bundle.is_none() && self.args.bundle_only {
            self.next_bundle().await;
        }
        if self.known_bundle.is_some() {
            is_done &= self.inject().await;
        }
        // Objects can be read before all of them are migrated, which may take long.
        self.readiness.set(is_done);
        for name in to_migrate {
            is_done &= self.migrate(&name).await;
        }
        PassResult { is_done, wrote: self.wrote }
    }

    /// The definitions to apply; none if they belong to another program. They are made anew for each pass, because they
    /// take many megabytes, and passes are rare.
    fn definitions(&self) -> Result<Vec<CustomResourceDefinition>, CrdError> {
        if self.args.bundle_only { Ok(Vec::new()) } else { crds::all_converted_by(&self.args.webhook_service) }
    }

    /// Remembers the definition as it was left. Returns whether its objects are ours to migrate.
    fn take_applied(&mut self, name: &str, AppliedDefinition { outcome, revision }: AppliedDefinition) -> bool {
        self.left.insert(name.to_owned(), revision);
        let before = self.outcomes.get(name);
        match &outcome {
            DefinitionOutcome::Updated { last_writer: Some(writer) } => {
                println!("{name} updated; the write before was of field manager {writer}");
            }
            DefinitionOutcome::Unchanged if before.is_some() => {}
            DefinitionOutcome::Kept { .. } if before == Some(&outcome) => {}
            outcome => println!("{name} {outcome}"),
        }
        self.wrote |= matches!(outcome, DefinitionOutcome::Created | DefinitionOutcome::Updated { .. });
        let is_kept = matches!(outcome, DefinitionOutcome::Kept { .. });
        self.outcomes.insert(name.to_owned(), outcome);
        !is_kept
    }

    /// Migrates the objects of a definition, unless a definition changes meanwhile.
    async fn migrate(&mut self, name: &str) -> bool {
        let client = self.client.clone();
        let mut done = std::mem::take(&mut self.migrated);
        let is_done = {
            let mut migration = pin!(self.args.cluster.in_time(apply::migrate(&client, name, &mut done)));
            loop {
                select! {
                    migrated = &mut migration => break migrated.inspect_err(|error| eprintln!("error: {name}: not all objects are migrated: {error:#}")).is_ok(),
                    is_changed = self.next_event() => {
                        if is_changed {
                            break false;
                        }
                        self.inject_new().await;
                    }
                }
            }
        };
        self.migrated = done;
        is_done
    }

    /// Does some work. A bundle that comes meanwhile is set at once, for the work may need it.
    async fn injecting<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            select! {
                done = &mut work => return done,
                () = self.next_bundle() => {
                    self.inject_new().await;
                }
            }
        }
    }

    /// Waits; a bundle that comes meanwhile is set.
    pub async fn rest(&mut self, pause: Duration) {
        self.injecting(sleep(pause)).await;
    }

    /// Returns when a pass is due. Each event is compared with what the pass left: one from before the pass is older
    /// than that.
    pub async fn changed(&mut self) {
        while !self.next_event().await {
            if !self.inject_new().await {
                return;
            }
        }
    }

    /// Waits for an event. Returns whether it shows a change of a definition.
    async fn next_event(&mut self) -> bool {
        select! {
            event = self.definition_events.next() => match event {
                Some(Ok(event)) => is_changed(&self.left, &mut self.listed, event),
                Some(Err(error)) => {
                    self.listed.clear();
                    eprintln!("waiting: cannot watch the definitions: {error}");
                    false
                }
                None => false,
            },
            event = self.bundle_events.next() => {
                self.take_bundle(event);
                false
            }
        }
    }

    async fn next_bundle(&mut self) {
        let event = self.bundle_events.next().await;
        self.take_bundle(event);
    }

    fn take_bundle(&mut self, event: Option<watcher::Result<Event<ConfigMap>>>) {
        let held = |config_map: ConfigMap| config_map.data.and_then(|mut data| data.remove(KEY)).unwrap_or_default();
        match event {
            Some(Ok(Event::InitApply(config_map))) => self.listed_bundle = held(config_map),
            Some(Ok(Event::InitDone)) => self.known_bundle = Some(std::mem::take(&mut self.listed_bundle)),
            Some(Ok(Event::Apply(config_map))) => self.known_bundle = Some(held(config_map)),
            Some(Ok(Event::Delete(_))) => self.known_bundle = Some(String::new()),
            Some(Err(error)) => {
                self.listed_bundle.clear();
                eprintln!("waiting: cannot watch the ConfigMap with the CA bundle: {error}");
            }
            Some(Ok(Event::Init)) | None => {}
        }
    }

    /// The bundle that converted definitions are to hold, if there is one.
    fn bundle(&self) -> Option<&String> {
        self.known_bundle.as_ref().filter(|bundle| !bundle.is_empty())
    }

    /// Sets the bundle if it is new. Returns whether all definitions hold it.
    async fn inject_new(&mut self) -> bool {
        let is_new = self.bundle().is_some_and(|bundle| self.injected.as_ref() != Some(bundle));
        if is_new { self.inject().await } else { true }
    }

    /// Sets the bundle in all definitions that our Service converts, concurrently: the API server needs some hundred
    /// milliseconds for each. Returns whether all hold it.
    async fn inject(&mut self) -> bool {
        let bundle = self.bundle().cloned();
        if bundle.is_none() && !self.args.bundle_only {
            return true;
        }
        let all = self.converted.iter().map(|name| self.inject_one(name, bundle.as_deref()));
        let injections = future::join_all(all.map(|injection| self.args.cluster.in_time(injection))).await;
        let mut is_done = true;
        for (name, injection) in self.converted.clone().into_iter().zip(injections) {
            match injection {
                Ok(injection) => self.take_injection(name, injection),
                Err(error) => {
                    is_done = false;
                    eprintln!("error: cannot set the CA bundle of {name}: {error:#}");
                }
            }
        }
        self.injected = bundle;
        is_done
    }

    /// Sets the bundle in one definition, if it is still as it was read: its owner may write it at the same time.
    async fn inject_one(&self, name: &str, bundle: Option<&str>) -> anyhow::Result<Injection> {
        let api: Api<ConvertedDefinition> = Api::all(self.client.clone());
        loop {
            let Some(live) = api.get_opt(name).await? else { return Ok(Injection::Missing) };
            let read = DefinitionRevision::of(&live.metadata);
            let Some(patch) = bundle.and_then(|bundle| self.patch(&live, bundle)) else {
                return Ok(Injection::Unchanged(read));
            };
            let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
            let patch = Patch::Json::<()>(serde_json::from_value(patch)?);
            match api.patch_metadata(name, &params, &patch).await {
                Ok(after) => {
                    println!("{name} CA bundle set");
                    return Ok(Injection::Set { read, after: DefinitionRevision::of(&after.metadata) });
                }
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => sleep(PAUSE).await,
                Err(kube::Error::Api(status)) if status.code == 422 => {
                    let ConfigMapName { namespace, name } = &self.args.ca_config_map;
                    let remedy = format!("is {KEY} of ConfigMap {namespace}/{name} a PEM file of certificates?");
                    return Err(kube::Error::Api(status)).context(remedy);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Remembers the definition as it was left.
    fn take_injection(&mut self, name: String, injection: Injection) {
        let bundle_only = self.args.bundle_only;
        match injection {
            // One that we apply stays among those that were left, so that its deletion makes a pass due.
            Injection::Missing if bundle_only => drop(self.left.remove(&name)),
            Injection::Unchanged(read) if bundle_only => drop(self.left.insert(name, read)),
            Injection::Missing | Injection::Unchanged(_) => {}
            Injection::Set { read, after } => {
                self.wrote = true;
                // What another wrote since the definition was applied is left for the next pass.
                if bundle_only || self.left.get(&name) == Some(&read) {
                    self.left.insert(name, after);
                }
            }
        }
    }

    /// Returns the patch that sets the bundle; none if the definition holds it, or names another Service.
    fn patch(&self, live: &ConvertedDefinition, bundle: &str) -> Option<serde_json::Value> {
        let conversion = live.spec.conversion.as_ref();
        if !self.args.webhook_service.is_named_by(conversion) {
            return None;
        }
        let client = conversion?.webhook.as_ref()?.client_config.as_ref()?;
        let bundle = ByteString(bundle.as_bytes().to_vec());
        (client.ca_bundle.as_ref() != Some(&bundle)).then(|| {
            json!([
                { "op": "add", "path": "/metadata/resourceVersion", "value": live.resource_version() },
                { "op": "add", "path": "/spec/conversion/webhook/clientConfig/caBundle", "value": bundle },
            ])
        })
    }
}

/// Waits after errors, longer after each, until something is read. The start of a list is left out: it precedes the
/// first attempt and each one after an error, and would end the wait.
fn with_backoff<K: Send + 'static>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
) -> WatcherStream<K> {
    events.try_filter(|event| future::ready(!matches!(event, Event::Init))).default_backoff().boxed()
}

/// Whether an event shows that a definition is not as the last pass left it.
fn is_changed(
    left: &BTreeMap<String, DefinitionRevision>,
    listed: &mut BTreeMap<String, DefinitionRevision>,
    event: Event<DefinitionMetadata>,
) -> bool {
    // A generation only grows: one that is smaller is from before the pass.
    let is_left = |name: &String, live: &DefinitionRevision| {
        left.get(name).is_some_and(|left| left.uid == live.uid && live.generation <= left.generation)
    };
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(definition) => {
            listed.insert(definition.name_any(), DefinitionRevision::of(&definition.metadata));
        }
        Event::InitDone => {
            let live = std::mem::take(listed);
            return left.keys().any(|name| !live.contains_key(name))
                || !live.iter().all(|(name, revision)| is_left(name, revision));
        }
        Event::Apply(definition) => {
            return !is_left(&definition.name_any(), &DefinitionRevision::of(&definition.metadata));
        }
        Event::Delete(definition) => {
            return left.get(&definition.name_any()).is_some_and(|left| left.uid == definition.metadata.uid);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use tokio::time::Instant;

    use super::*;

    /// Found defect: the start of each list ended the growth of the pauses, so that a list that failed was retried
    /// about every second.
    #[tokio::test(start_paused = true)]
    async fn pauses_grow_while_lists_fail() {
        let attempt = [false, true].into_iter();
        let failing = attempt.cycle().take(20).map(|fails| match fails {
            true => Err(watcher::Error::NoResourceVersion),
            false => Ok(Event::<DefinitionMetadata>::Init),
        });
        let start = Instant::now();
        assert_eq!(with_backoff(stream::iter(failing)).count().await, 10);
        assert!(start.elapsed() > Duration::from_secs(60), "{:?}", start.elapsed());
    }

    fn definition((name, uid, generation): (&str, &str, i64)) -> DefinitionMetadata {
        let metadata = json!({ "name": name, "uid": uid, "generation": generation });
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn left() -> BTreeMap<String, DefinitionRevision> {
        let all = [("a", "1", 3), ("b", "2", 1)].map(definition);
        all.iter().map(|definition| (definition.name_any(), DefinitionRevision::of(&definition.metadata))).collect()
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
}
