//! Caches of the graph controller, the changes that wake a graph, and the loop.
//!
//! Further loops replace pods that cannot serve any more. Watches of the kinds that Grove serves wake the graphs
//! concerned.

mod concerns;
mod requests;

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use api_types::{
    external::{DestinationRule, InferencePool, VirtualService},
    grove::{PodClique, PodCliqueScalingGroup, PodCliqueSet},
    labels,
    v1alpha1::{DynamoCheckpoint, DynamoComponent},
    v1beta1::{ComponentType, DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter},
};
use controller_kit::{
    apply::{Applier, RequestError},
    context::Context,
    controller::{Action, Controller, Outputs, Wiring},
    events::EventSink,
    pods::{NOT_ENDED, PodDiagnostics},
    pull_secrets,
    pull_secrets::{Following, PullSecrets},
    store::{Index, Key, Packed, ServedApis, Store, controller_owner, keep, watch, watch_metadata},
};
use futures::{StreamExt, future::OptionFuture, join, stream, stream::BoxStream};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount},
    networking::v1::Ingress,
    rbac::v1::{Role, RoleBinding},
    resource::v1::ResourceClaimTemplate,
};
use kube::{Resource, ResourceExt};

use self::{
    concerns::{Concern, concerned_by, concerned_by_checkpoint, concerns, neighbours, running},
    requests::Requests,
};
use crate::{
    NAME,
    graph::{
        GraphReconciler,
        apply::graph_of,
        caches::{GraphCaches, GroveCaches},
        node_topology::apply::TopologyLabeler,
        settings::GraphSettings,
    },
    nats_etcd,
    nats_etcd::PlaceCaches,
    recovery::Recovery,
    request::settings::RequestArgs,
    scaling_adapter::{
        ScalingAdapterReconciler,
        observe::{ScalingAdapterCaches, named_by},
    },
};

/// Readiness gate of the process, until it has read the docker configuration Secrets.
const SECRETS_GATE: &str = "image pull Secrets";

/// Time for which a new graph has no status while there is nothing to report but that work has begun.
const FIRST_WORD_AFTER: Duration = Duration::from_secs(1);

/// Delay of a status of a graph that differs in counts and wording only: its components become ready one after the
/// other.
const COUNT_DELAY: Duration = Duration::from_secs(1);

/// Runs the controllers of this process until the signal to stop. `args` are the arguments about requests.
///
/// # Errors
/// Never: what goes wrong is retried, and shows in logs, metrics and status.
pub async fn run(context: Context, args: RequestArgs) -> Result<(), Infallible> {
    let (client, scope) = (|| context.client.clone(), &context.scope);
    let settings = Arc::new(GraphSettings::of(&context.settings, scope));
    let (graphs, graph_watch) = watch::<DynamoGraphDeployment>(&context.source().with_identities(), None);
    let (adapters, adapter_watch) = watch::<DynamoGraphDeploymentScalingAdapter>(&context.source(), None);
    context.metrics.count_resources(&graphs, &context.fence, concerns::of_graph);
    context.metrics.count_resources(&adapters, &context.fence, concerns::of_adapter);
    let (graph_watch, by_concern) = graph_watch.and_index(concerns);
    let (adapter_watch, by_target) = adapter_watch.and_index(named_by);
    let of_adapters = ScalingAdapterCaches { graphs: graphs.clone(), adapters: adapters.clone(), by_target };
    // Each of the two controllers sees the other's objects, and an adapter of one that scaled the same component
    // before.
    let (known, rivals) = (of_adapters.clone(), of_adapters.clone());
    let (graph_watch, adapters_to_look_at) = graph_watch.and_keys(move |graph| known.adapters_of(graph));
    let (adapter_watch, successors) = adapter_watch.and_keys(move |adapter| rivals.successors_of(adapter));
    let requests = Requests::open(&context);
    let (graph_watch, requests_to_look_at) = requests.concerned_by_graphs(graph_watch);
    let (adapter_watch, graphs_to_look_at) = adapter_watch.and_keys(|adapter| graph_of(adapter).into_iter().collect());

    let served = ServedApis::new(client());
    let mut wiring = Wiring::new(&context, &served, graph_watch);
    wiring.applies(&adapters);
    let (caches, mut pull_secrets) = open(&context, &settings, graphs, adapters, &by_concern, &mut wiring);
    let (controller, applier) = wiring.finish(NAME);
    let applier = applier.with_initial_status_delay(FIRST_WORD_AFTER).with_count_delay(COUNT_DELAY);
    let secrets_gate = context.readiness.gate(SECRETS_GATE);
    // Image pull secrets are listed, or known not to be readable. The wait fails only when the process is to stop.
    let pull_secrets_known = OptionFuture::from(pull_secrets.as_mut().map(|following| &mut following.complete));
    tokio::select! {
        _ = pull_secrets_known => {}
        () = context.shutdown.requested() => return Ok(()),
    }
    let outputs = Outputs::new(applier);
    let reconciler =
        ScalingAdapterReconciler { caches: of_adapters, outputs: outputs.clone(), paces: Mutex::default() };
    let scaling = Controller::new(adapter_watch).also(adapters_to_look_at).also(successors);
    let scaling = scaling.drive(&context, Arc::new(reconciler));
    let (own_settings, own_events) = (Arc::clone(&settings), outputs.events.clone());
    let requesting = requests.run(&context, &served, args, &caches, requests_to_look_at);
    let recovering = run_recovery(&context, &own_settings, &own_events);
    let places = PlaceCaches {
        graphs: caches.graphs.clone(),
        components: caches.components.clone(),
        pods: vec![caches.worker_pods.clone()],
    };
    let labeler = TopologyLabeler::new(&outputs, caches.worker_pods.clone());
    let (health, graphs_to_enqueue) = nats_etcd::start(&context, places);
    let reconciler = GraphReconciler {
        outputs: outputs.notifying(context.notifier.as_ref()),
        pods: Arc::new(PodDiagnostics::new(client())),
        apis: served.clone(),
        settings,
        nats_etcd: health,
        labeler,
        caches: caches.clone(),
    };
    let secrets_changed = pull_secrets.map(|secrets| of_pull_secrets(secrets, &by_concern));
    let controller = controller.also(graphs_to_look_at).also(graphs_to_enqueue);
    let serving = secrets_changed.into_iter().fold(controller, Controller::also);
    let serving = serving.drive(&context, Arc::new(reconciler));
    // Polled in this order: the controllers' own gates are there before this one opens. The process would count as
    // ready in between.
    join!(serving, scaling, requesting, recovering, async { secrets_gate.open() });
    Ok(())
}

/// Opens the watches of what belongs to graphs, each with a selector.
fn open(
    context: &Context,
    settings: &GraphSettings,
    graphs: Store<Packed<DynamoGraphDeployment>>,
    adapters: Store<Packed<DynamoGraphDeploymentScalingAdapter>>,
    by_concern: &Index<Concern>,
    wiring: &mut Wiring<DynamoGraphDeployment>,
) -> (GraphCaches, Option<Following>) {
    let accounts_of_graphs =
        format!("{}={},{}={}", labels::MANAGED_BY, labels::OPERATOR, labels::APP_COMPONENT, labels::RBAC);
    // Not by their revision: workers of older operators have none.
    let types = ComponentType::ALL.into_iter().filter(|type_| type_.is_worker()).map(ComponentType::as_str);
    let types = types.collect::<Vec<_>>().join(",");
    let workers = format!("{},{} in ({types})", labels::GRAPH, labels::COMPONENT_TYPE);
    // Without a key, the selector matches nothing.
    let copies = format!("metadata.name={}", settings.mpi_key.as_deref().unwrap_or("-"));
    let agents = format!("{}={}", labels::APP_COMPONENT, labels::SNAPSHOT_AGENT);
    let uses_agents = settings.checkpoints.is_some() && settings.grove.enabled;
    // Those of components are watched, and written, by the component controller.
    let ways_in = format!("{},!{}", labels::OWN_GRAPH, labels::OWN_COMPONENT);
    let of_models = format!("{}={},{}", labels::MODEL_MANAGED_BY, labels::OPERATOR, labels::BASE_MODEL_HASH);
    let (grove, pull_secrets) = open_grove(context, wiring);
    // What is left of graphs in NATS and etcd is known by the names of all that are there.
    let all = context.source().with_identities();
    let (components, component_watch) = watch::<DynamoComponentDeployment>(&all, Some(labels::GRAPH));
    wiring.applies(&components);
    wiring.wake(component_watch, graph_keys);
    let (worker_pods, pod_watch) = watch_metadata::<Pod>(&all, Some(&workers), Some(NOT_ENDED));
    wiring.wake(pod_watch, graph_keys);
    let caches = GraphCaches {
        graphs,
        adapters,
        components,
        accounts: wiring.watched::<ServiceAccount>(Some(&accounts_of_graphs), keep::small, concerned_by(by_concern)),
        roles: wiring.owned::<Role>(&accounts_of_graphs),
        bindings: wiring.watched::<RoleBinding>(Some(&accounts_of_graphs), keep::small, concerned_by(by_concern)),
        worker_pods,
        config_maps: wiring.owned::<ConfigMap>(labels::GRAPH),
        claim_templates: wiring.owned_if_served::<ResourceClaimTemplate>(labels::OWN_GRAPH),
        pools: wiring.owned_if_served::<InferencePool>(labels::GRAPH),
        destination_rules: wiring.owned_if_served::<DestinationRule>(labels::OWN_GRAPH),
        mpi_keys: wiring.metadata::<Secret>(None, Some(&copies), concerned_by(by_concern)),
        checkpoints: wiring.watched::<DynamoCheckpoint>(None, keep::any, concerned_by_checkpoint(by_concern)),
        agents: uses_agents.then(|| wiring.watched::<DaemonSet>(Some(&agents), keep::small, neighbours(by_concern))),
        services: wiring.owned::<Service>(labels::OWN_GRAPH),
        ingresses: wiring.owned::<Ingress>(&ways_in),
        virtual_services: wiring.owned_if_served::<VirtualService>(&ways_in),
        autoscalers: wiring.owned::<HorizontalPodAutoscaler>(&ways_in),
        model_services: wiring.watched::<Service>(Some(&of_models), keep::small, neighbours(by_concern)),
        builds: wiring.watched_if_served::<DynamoComponent>(None, keep::any, running(by_concern)),
        grove,
    };
    (caches, pull_secrets)
}

/// The graph of an object, by its labels.
fn graph_keys<K: Resource>(object: &K) -> Vec<Key> {
    graph_of(object).into_iter().collect()
}

/// Replaces pods that cannot serve any more, as far as the operator's configuration allows for any.
async fn run_recovery(context: &Context, settings: &GraphSettings, events: &EventSink) {
    let groups = settings.grove.enabled.then(|| {
        let restart = |recovery: Recovery, pod| async move { recovery.restart_group(pod).await };
        recover(context, events, labels::FAILOVER_ENGINE, restart)
    });
    let forgetful = settings.checkpoints.is_some().then(|| {
        let replace = |recovery: Recovery, pod| async move { recovery.replace_after_gms_restart(pod).await };
        recover(context, events, labels::RESTORE_TARGET, replace)
    });
    join!(OptionFuture::from(groups), OptionFuture::from(forgetful));
}

/// Acts on pods with a label that is `true`, until the process is to stop.
async fn recover<F>(context: &Context, events: &EventSink, label: &str, act: impl Fn(Recovery, Arc<Packed<Pod>>) -> F)
where
    F: Future<Output = Result<Action, RequestError>> + Send + 'static,
{
    let selector = format!("{label}={}", labels::TRUE);
    let (pods, watch) = watch::<Pod>(&context.source(), Some(&selector));
    let caches: Vec<Arc<dyn controller_kit::store::CacheView>> = vec![Arc::new(pods.clone())];
    let applier = Applier::new(context.client.clone(), NAME, context.metrics.clone(), caches);
    let controller = Controller::new(watch).writes_with(&applier).of_those(label);
    let recovery = Recovery::new(applier, events.clone(), pods);
    controller.run(context, |pod| act(recovery.clone(), pod)).await;
}

/// Caches what Grove serves, and image pull secrets: the pods of graphs on Grove are rendered here.
fn open_grove(context: &Context, wiring: &mut Wiring<DynamoGraphDeployment>) -> (GroveCaches, Option<Following>) {
    let sets = wiring.watched_if_served::<PodCliqueSet>(
        Some(labels::GRAPH),
        keep::templates_of::<DynamoGraphDeployment>,
        graph_keys,
    );
    let cliques = wiring.watched_if_served::<PodClique>(Some(labels::GRAPH), keep::any, graph_keys);
    // A group carries no label of its graph.
    let known = sets.clone();
    let of_group = move |group: &_| graph_of_group(&known, group).into_iter().collect();
    let groups = wiring.watched_if_served::<PodCliqueScalingGroup>(None, keep::any, of_group);
    let secrets = context.settings.image_pull_secret_discovery.enabled.then(PullSecrets::default);
    let following = secrets.as_ref().map(|secrets| pull_secrets::follow(context, secrets));
    (GroveCaches { sets, cliques, groups, pull_secrets: secrets }, following)
}

/// The graphs of the namespaces whose image pull secrets change.
fn of_pull_secrets(following: Following, graphs: &Index<Concern>) -> BoxStream<'static, Key> {
    let graphs = graphs.clone();
    let keys = move |namespace| stream::iter(graphs.get(&Concern::Namespace(namespace)));
    following.changed.flat_map(keys).boxed()
}

fn graph_of_group(sets: &Store<Packed<PodCliqueSet>>, group: &Packed<PodCliqueScalingGroup>) -> Option<Key> {
    let owner = controller_owner(group)?;
    let set = sets.get(&Key::new(&group.namespace()?, &owner.name))?;
    graph_of(set.as_ref())
}
