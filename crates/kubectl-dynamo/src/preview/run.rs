//! Reconciles a graph and its components against objects in memory, until nothing changes any more.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context, anyhow, bail};
use api_types::{
    annotations, conditions,
    grove::PodCliqueSet,
    labels,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment},
};
use component_controller::component::{self, observe::ComponentObserver};
use controller_kit::{
    apply::Applier,
    controller::{Outputs, Reconcile},
    metrics::Metrics,
    pods::PodDiagnostics,
    pull_secrets::PullSecrets,
    request::Interruption,
    store::{Packed, ServedApis},
};
use graph_controller::{
    graph::{self, node_topology::apply::TopologyLabeler, settings::GraphSettings},
    nats_etcd::HealthReceiver,
};
use k8s_openapi::jiff::Timestamp;
use kube::{Client, Resource, core::ApiResource};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    edits,
    objects::{ObjectKey, PreviewObjects},
    observe,
    observe::{
        LiveNamespace, Operator, caches,
        caches::CacheSources,
        dry_run::{DryRunAnswer, Edit, admit},
        server::MemoryServer,
    },
    pods::{Excess, PreviewPods, excesses, grove},
    prediction::{Measure, Prediction, changes, revisions},
};

/// Rounds after which a graph that still changes is given up.
const ROUNDS: usize = 500;

/// Predicts what an edit of a graph will do. Writes nothing.
///
/// # Errors
/// The cluster cannot be read, or the graph is being deleted.
pub async fn predict(
    client: &Client,
    namespace: &str,
    edit: &Edit,
    operator: &Operator,
    now: Timestamp,
) -> anyhow::Result<Prediction> {
    let (Edit::Manifest(given) | Edit::ServerSide(given, _) | Edit::Replacement(given)) = edit;
    let name = given.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut prediction = Prediction {
        graph: name.clone(),
        namespace: namespace.to_owned(),
        operator_version: env!("CARGO_PKG_VERSION").to_owned(),
        notes: operator.notes.clone(),
        ..Prediction::default()
    };
    let graph = match admit(client, namespace, edit).await? {
        DryRunAnswer::Refused(why) => return Ok(Prediction { refused: Some(why), ..prediction }),
        DryRunAnswer::Admitted(graph, warnings) => {
            prediction.warnings = warnings;
            graph
        }
        DryRunAnswer::NotAsked(graph, why) => {
            prediction.notes.push(format!("admission was not called, only the controllers' own rules apply: {why}"));
            graph
        }
    };
    let LiveNamespace { mut objects, pods, quotas, pull_secrets, unserved, unreadable } =
        observe::live(client, namespace, now).await?;
    for ((_, plural), why) in &unreadable {
        prediction.notes.push(format!("changes of {plural} are not shown: {why}"));
    }
    if pods.is_none() {
        prediction.notes.push("pods cannot be read; they are counted as the workloads count them".to_owned());
    }
    if pull_secrets.is_none() {
        prediction.notes.push("Secrets cannot be read; new templates may get further imagePullSecrets".to_owned());
    }
    let key = observe::key(&ApiResource::erase::<DynamoGraphDeployment>(&()), namespace, &name);
    let before = objects.get(&key).cloned().unwrap_or(Value::Null);
    if before.pointer("/metadata/deletionTimestamp").is_some() {
        bail!("graph {namespace}/{name} is being deleted");
    }
    let scaled = graph.pointer("/spec/components").and_then(Value::as_array).into_iter().flatten();
    let scaled = scaled.filter(|component| component.get("scalingAdapter").is_some_and(Value::is_object));
    if let Some(name) = scaled.filter_map(|component| component["name"].as_str()).next() {
        prediction
            .notes
            .push(format!("replicas of {name} follow its scaling adapter, which is not part of the preview"));
    }
    if !before.is_null() {
        prediction.edit = edits(&before, &graph);
    }
    if before.is_null() || !prediction.edit.is_empty() {
        objects.edit(&key, graph);
    }
    let discovers = operator.configuration.image_pull_secret_discovery.enabled;
    let secrets = pull_secrets.filter(|_| discovers).map(|secrets| caches::pull_secrets(&secrets));
    let pods = PreviewPods::read(&objects, pods.as_deref());
    let today = pods.clone();
    let mut preview = Preview::new(MemoryServer::new(objects, client.clone()), operator, key, pods, now);
    preview.unserved = unserved;
    preview.pull_secrets = secrets;
    prediction.revision.before = preview.revisions();
    preview.settle(&mut prediction, quotas.as_deref().unwrap_or_default(), &today).await?;
    prediction.revision.after = preview.revisions();
    if preview.pods.wait_for_users(&preview.server.objects()) {
        let note = "pods of the older template stay until you delete them, by the update strategy OnDelete of Grove";
        prediction.notes.push(note.to_owned());
    }
    let is_shown =
        |key: &ObjectKey| key.plural != "pods" && !unreadable.contains_key(&(key.group.clone(), key.plural.clone()));
    prediction.changes = changes(&preview.server.objects(), is_shown);
    prediction.refused = preview.obstacle();
    if prediction.quotas.is_empty() && quotas.is_none() {
        prediction.notes.push("ResourceQuotas cannot be read".to_owned());
    }
    Ok(prediction)
}

/// Both controllers on objects in memory.
struct Preview<'a> {
    server: MemoryServer,
    operator: &'a Operator,
    settings: Arc<GraphSettings>,
    key: ObjectKey,
    pods: PreviewPods,
    now: Timestamp,
    unserved: Vec<(String, String)>,
    pull_secrets: Option<PullSecrets>,
    graphs: PreviewController,
    components: PreviewController,
}

/// Clients that a controller writes with.
struct PreviewController {
    client: Client,
    outputs: Outputs,
}

impl PreviewController {
    fn new(client: Client, name: &str) -> Self {
        let applier = Applier::new(client.clone(), name, Metrics::new(), Vec::new());
        let applier = applier.with_predecessors(&[annotations::LAST_APPLIED_HASH]);
        Self { outputs: Outputs::new(applier), client }
    }
}

impl<'a> Preview<'a> {
    fn new(server: MemoryServer, operator: &'a Operator, key: ObjectKey, pods: PreviewPods, now: Timestamp) -> Self {
        let controller = |name| PreviewController::new(server.client(&key.namespace), name);
        let (graphs, components) = (controller(graph_controller::NAME), controller(component_controller::NAME));
        let settings = Arc::new(GraphSettings::of(&operator.configuration, &operator.scope()));
        let (unserved, pull_secrets) = (Vec::new(), None);
        Self { server, operator, settings, key, pods, now, unserved, pull_secrets, graphs, components }
    }

    /// Repeats both controllers and what becomes of the pods.
    async fn settle(
        &mut self,
        prediction: &mut Prediction,
        quotas: &[Value],
        today: &PreviewPods,
    ) -> anyhow::Result<()> {
        let measure = Measure::new(today.all(), self.desired_components());
        prediction.steps.push(measure.moment(today.all()));
        let mut failure = None;
        for _ in 0..ROUNDS {
            let writes = self.server.objects().writes().len();
            let graph = Box::pin(self.reconcile_graph()).await?;
            let components = Box::pin(self.reconcile_components()).await?;
            failure = graph.failure.or(components.failure);
            let carried_out = grove::carry_out(&mut self.server.objects());
            let objects = self.server.objects().clone();
            let changed = self.pods.react(&objects);
            add(&mut prediction.steps, measure.moment(self.pods.all()));
            for excess in excesses(quotas, today.all(), self.pods.all()) {
                add_excess(&mut prediction.quotas, excess);
            }
            let became_ready = self.pods.make_ready();
            add(&mut prediction.steps, measure.moment(self.pods.all()));
            let mut moved = carried_out || graph.moved || components.moved || !changed.is_empty() || became_ready;
            prediction.pods.extend(changed);
            moved |= objects.writes().len() > writes;
            for (key, status) in self.pods.statuses(&objects) {
                moved |= self.server.objects().set_status(&key, status);
            }
            if !moved {
                prediction.notes.extend(failure.map(|why| format!("a write will be tried again and again: {why}")));
                return Ok(());
            }
        }
        let why = failure.map(|why| format!(": {why}")).unwrap_or_default();
        prediction.notes.push(format!("the graph still changes after {ROUNDS} rounds{why}"));
        Ok(())
    }

    fn source<'b>(&'b self, objects: &'b PreviewObjects) -> CacheSources<'b> {
        CacheSources {
            objects,
            pods: &self.pods,
            unserved: &self.unserved,
            pull_secrets: self.pull_secrets.as_ref(),
            configuration: &self.operator.configuration,
        }
    }

    async fn reconcile_graph(&self) -> anyhow::Result<Round> {
        let objects = self.server.objects().clone();
        let caches = self.source(&objects).of_graphs();
        let PreviewController { client, outputs } = &self.graphs;
        let labeler = TopologyLabeler::new(outputs, caches.worker_pods.clone());
        let reconciler = graph::GraphReconciler {
            caches,
            outputs: outputs.clone(),
            pods: Arc::new(PodDiagnostics::new(client.clone())),
            apis: ServedApis::new(client.clone()),
            settings: Arc::clone(&self.settings),
            nats_etcd: HealthReceiver::unchecked(),
            labeler,
        };
        let (packed, graph) = unpack::<DynamoGraphDeployment>(&objects, &self.key)?;
        // The steps of a controller are large: without the boxes, they would all be on the stack.
        let observed = Box::pin(reconciler.observe(&packed, graph)).await?;
        let plan = reconciler.plan(&observed, self.now);
        let pass = match Box::pin(reconciler.apply(&observed, plan)).await {
            Ok(pass) => pass,
            Err(error) => return Ok(Round::failed(&error)),
        };
        let status = reconciler.conclude(&observed, &pass, self.now).status;
        Ok(self.write_status(&self.key, status))
    }

    async fn reconcile_components(&self) -> anyhow::Result<Round> {
        let objects = self.server.objects().clone();
        let source = self.source(&objects);
        let PreviewController { client, outputs } = &self.components;
        let secrets = self.pull_secrets.clone();
        let reconciler = component::ComponentReconciler {
            observer: ComponentObserver::new(client.clone(), source.of_components(), secrets, source.of_checkpoints()),
            pods: PodDiagnostics::new(client.clone()),
            outputs: outputs.clone(),
            settings: self.operator.configuration.pods(),
        };
        let mut round = Round::default();
        for key in self.own_keys::<DynamoComponentDeployment>(&objects) {
            let (packed, component) = unpack::<DynamoComponentDeployment>(&objects, &key)?;
            if packed.metadata.deletion_timestamp.is_some() {
                reconciler.finalize(&packed).await?;
                continue;
            }
            let observed = Box::pin(reconciler.observe(&packed, component)).await?;
            let plan = reconciler.plan(&observed, self.now);
            let one = match Box::pin(reconciler.apply(&observed, plan)).await {
                Ok(applied) => self.write_status(&key, reconciler.conclude(&observed, &applied, self.now).status),
                Err(error) => Round::failed(&error),
            };
            round.moved |= one.moved;
            round.failure = round.failure.or(one.failure);
        }
        Ok(round)
    }

    /// Writes a status; returns whether it is another one.
    fn write_status(&self, key: &ObjectKey, status: Option<impl Serialize>) -> Round {
        let status = status.and_then(|status| serde_json::to_value(status).ok());
        let moved = status.is_some_and(|status| self.server.objects().set_status(key, status));
        Round { moved, failure: None }
    }

    /// The objects of a kind that are of the graph.
    fn own_keys<K: Resource<DynamicType = ()>>(&self, objects: &PreviewObjects) -> Vec<ObjectKey> {
        let resource = ApiResource::erase::<K>(&());
        let is_own = |object: &Value| object["metadata"]["labels"][labels::GRAPH] == self.key.name.as_str();
        let own = objects.of_kind(&resource.group, &resource.plural).filter(|(_, object)| is_own(object));
        own.map(|(key, _)| key.clone()).collect()
    }

    fn revisions(&self) -> BTreeSet<String> {
        let objects = self.server.objects();
        let mut keys = self.own_keys::<DynamoComponentDeployment>(&objects);
        keys.extend(self.own_keys::<PodCliqueSet>(&objects));
        revisions(&keys.iter().filter_map(|key| objects.get(key)).collect::<Vec<_>>())
    }

    /// Names of the components that the graph desires.
    fn desired_components(&self) -> BTreeSet<String> {
        let objects = self.server.objects();
        let all = objects.get(&self.key).and_then(|graph| graph.pointer("/spec/components")?.as_array().cloned());
        let names = all.into_iter().flatten();
        names.filter_map(|component| component["name"].as_str().map(str::to_owned)).collect()
    }

    /// Returns why the graph waits for a change by a user.
    fn obstacle(&self) -> Option<String> {
        let objects = self.server.objects();
        let all = objects.get(&self.key)?.pointer("/status/conditions")?.as_array()?;
        let stalled = all.iter().find(|it| it["type"] == conditions::STALLED && it["status"] == "True")?;
        Some(stalled["message"].as_str().unwrap_or_default().to_owned())
    }
}

/// Outcome of one pass of a controller.
#[derive(Default)]
struct Round {
    /// A status changed.
    moved: bool,
    /// Reason for the rejection of a write, which is retried.
    failure: Option<String>,
}

impl Round {
    fn failed(error: &Interruption) -> Self {
        Self { moved: false, failure: Some(error.to_string()) }
    }
}

fn unpack<K>(objects: &PreviewObjects, key: &ObjectKey) -> anyhow::Result<(Packed<K>, K)>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let object = objects.get(key).ok_or_else(|| anyhow!("{} {} is gone", key.plural, key.name))?;
    let packed = Packed::from_value(object.clone()).with_context(|| format!("{} {}", key.plural, key.name))?;
    let unpacked = packed.unpack()?;
    Ok((packed, unpacked))
}

/// Adds a moment that differs from the last one.
fn add<T: PartialEq>(all: &mut Vec<T>, one: T) {
    if all.last() != Some(&one) {
        all.push(one);
    }
}

/// Keeps the largest excess of a resource.
fn add_excess(all: &mut Vec<Excess>, excess: Excess) {
    let same = |known: &&mut Excess| (&known.quota, &known.resource) == (&excess.quota, &excess.resource);
    match all.iter_mut().find(same) {
        Some(known) => {
            let amount = |text: &str| api_types::quantity::nanos(text).unwrap_or_default();
            if amount(&excess.needed) > amount(&known.needed) {
                *known = excess;
            }
        }
        None => all.push(excess),
    }
}
