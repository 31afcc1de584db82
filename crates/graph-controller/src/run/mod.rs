//! Caches, what wakes a graph, and the loop.

mod concerns;
mod counts;
mod grove;
mod recovery;
mod requests;

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use api_types::{
    annotations,
    external::{DestinationRule, InferencePool, VirtualService},
    labels,
    v1alpha1::{DynamoCheckpoint, DynamoComponent},
    v1beta1::{ComponentType, DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter},
};
use controller_kit::{
    apply::Applier,
    controller::Controller,
    events::EventSink,
    pods::{NOT_ENDED, PodWatcher},
    process::Context,
    store::{CacheView, Index, Packed, ServedApi, ServedApis, Store, Watch, watch, watch_if_served, watch_metadata_by},
};
use futures::join;
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount},
    networking::v1::Ingress,
    rbac::v1::{Role, RoleBinding},
    resource::v1::ResourceClaimTemplate,
};
use kube::core::{ApiResource, PartialObjectMeta};
use workload::LeaderWorkerSet;

use self::{
    concerns::{Concern, concerned_by, concerned_by_checkpoint, concerns, neighbours, running},
    grove::GroveWatches,
    requests::Requests,
};
use crate::{
    NAME,
    graph::{
        Reconciler,
        apply::graph_of,
        node_topology::apply::TopologyLabeler,
        observe::{
            Caches,
            grove::{kai_queues, volcano_groups},
            read::Apis,
        },
        settings::Settings,
    },
    infrastructure,
    infrastructure::Places,
    request::settings::RequestArgs,
    scaling_adapter,
    scaling_adapter::observe::named_by,
};

/// What the process is waiting for until it knows the docker configuration Secrets.
const SECRETS_GATE: &str = "image pull Secrets";

/// How long a new graph goes without a status while there is nothing to say but that work has begun.
const FIRST_WORD_AFTER: Duration = Duration::from_secs(1);

/// Least time between two statuses of a graph that differ in counts and wording only: many components have something to say
/// while they come up.
const PACE: Duration = Duration::from_secs(1);

/// The watches that feed the caches of graphs, except that of graphs themselves.
struct Watches {
    components: Watch<Packed<DynamoComponentDeployment>>,
    accounts: Watch<Packed<ServiceAccount>>,
    roles: Watch<Packed<Role>>,
    bindings: Watch<Packed<RoleBinding>>,
    worker_pods: Watch<PartialObjectMeta<Pod>>,
    config_maps: Watch<Packed<ConfigMap>>,
    claim_templates: Watch<Packed<ResourceClaimTemplate>>,
    pools: Watch<Packed<InferencePool>>,
    destination_rules: Watch<Packed<DestinationRule>>,
    mpi_keys: Watch<PartialObjectMeta<Secret>>,
    checkpoints: Watch<Packed<DynamoCheckpoint>>,
    agents: Option<Watch<Packed<DaemonSet>>>,
    services: Watch<Packed<Service>>,
    ingresses: Watch<Packed<Ingress>>,
    virtual_services: Watch<Packed<VirtualService>>,
    model_services: Watch<Packed<Service>>,
    builds: Watch<Packed<DynamoComponent>>,
    grove: GroveWatches,
}

/// Runs the controllers of this process until it is told to stop. `args` is what the command line says of requests.
///
/// # Errors
/// Never: what goes wrong is retried, and shows in logs, metrics and status.
pub async fn run(context: Context, args: RequestArgs) -> Result<(), Infallible> {
    let (client, scope) = (|| context.client.clone(), &context.scope);
    let own_namespace = std::env::var("POD_NAMESPACE").ok();
    let settings = Arc::new(Settings::of(&context.settings, scope));
    let (graphs, graph_watch) = watch::<DynamoGraphDeployment>(client(), scope, None);
    let (adapters, adapter_watch) = watch::<DynamoGraphDeploymentScalingAdapter>(client(), scope, None);
    context.metrics.count_resources(&graphs, &context.fence, counts::of_graph);
    context.metrics.count_resources(&adapters, &context.fence, counts::of_adapter);
    let (graph_watch, by_concern) = graph_watch.and_index(concerns);
    let (adapter_watch, by_target) = adapter_watch.and_index(named_by);
    let of_adapters =
        scaling_adapter::observe::Caches { graphs: graphs.clone(), adapters: adapters.clone(), by_target };
    // Each of the two controllers hears of the other's objects, and an adapter of one that scaled the same component
    // before.
    let (known, rivals) = (of_adapters.clone(), of_adapters.clone());
    let (graph_watch, adapters_to_look_at) = graph_watch.and_keys(move |graph| known.adapters_of(graph));
    let (adapter_watch, successors) = adapter_watch.and_keys(move |adapter| rivals.successors_of(adapter));
    let requests = Requests::open(&context);
    let (graph_watch, requests_to_look_at) = requests.concerned_by_graphs(graph_watch);
    let (adapter_watch, graphs_to_look_at) = adapter_watch.and_keys(|adapter| graph_of(adapter).into_iter().collect());

    let served = ServedApis::new(client());
    let (caches, mut watches) = open(&context, &served, &settings, graphs, adapters);
    let secrets_gate = context.readiness.gate(SECRETS_GATE);
    tokio::select! {
        () = watches.grove.know_pull_secrets() => {}
        () = context.shutdown.requested() => return Ok(()),
    }
    let applier = applier(&context, &caches);
    let events = EventSink::new(client(), NAME);
    let reconciler = scaling_adapter::Reconciler {
        caches: of_adapters,
        applier: applier.clone(),
        events: events.clone(),
        paces: Mutex::default(),
    };
    let scaling = Controller::new(adapter_watch).also(adapters_to_look_at).also(successors);
    let scaling = scaling.drive(&context, Arc::new(reconciler));
    let (own_settings, own_events) = (Arc::clone(&settings), events.clone());
    let requesting = requests.run(&context, args, &caches, requests_to_look_at);
    let recovering = recovery::run(&context, &own_settings, &own_events);
    let apis = apis(&served, &settings);
    let places = Places {
        graphs: caches.graphs.clone(),
        components: caches.components.clone(),
        pods: vec![caches.worker_pods.clone()],
    };
    let labeler = TopologyLabeler::new(applier.clone(), events.clone(), caches.worker_pods.clone());
    let (infrastructure, graphs_to_tell) = infrastructure::start(&context, own_namespace, places);
    let pods = Arc::new(PodWatcher::new(client()));
    let reconciler = Reconciler {
        applier: applier.clone(),
        pods,
        events,
        apis,
        settings,
        infrastructure,
        labeler,
        caches: caches.clone(),
    };
    let serving =
        watches.into_controller(graph_watch, &by_concern, &reconciler).also(graphs_to_look_at).also(graphs_to_tell);
    let serving = serving.run(&context, move |graph| {
        let reconciler = reconciler.clone();
        async move { reconciler.reconcile(graph).await }
    });
    // Polled in this order: the controllers' own gates are there before this one opens. The process would count as ready in
    // between.
    join!(serving, scaling, requesting, recovering, async { secrets_gate.open() });
    Ok(())
}

/// Opens the watches of what belongs to graphs, each with a selector.
fn open(
    context: &Context,
    apis: &ServedApis,
    settings: &Settings,
    graphs: Store<Packed<DynamoGraphDeployment>>,
    adapters: Store<Packed<DynamoGraphDeploymentScalingAdapter>>,
) -> (Caches, Watches) {
    let (client, scope) = (|| context.client.clone(), &context.scope);
    let accounts_of_graphs =
        format!("{}={},{}={}", labels::MANAGED_BY, labels::OPERATOR, labels::APP_COMPONENT, labels::RBAC);
    // Not by their generation: those of old are of none.
    let types = ComponentType::ALL.into_iter().filter(|type_| type_.is_worker()).map(ComponentType::as_str);
    let types = types.collect::<Vec<_>>().join(",");
    let workers = format!("{},{} in ({types})", labels::GRAPH, labels::COMPONENT_TYPE);
    // Without a key, the selector matches nothing.
    let copies = format!("metadata.name={}", settings.mpi_key.as_deref().unwrap_or("-"));

    let components = watch::<DynamoComponentDeployment>(client(), scope, Some(labels::GRAPH));
    let accounts = watch::<ServiceAccount>(client(), scope, Some(&accounts_of_graphs));
    let roles = watch::<Role>(client(), scope, Some(&accounts_of_graphs));
    let bindings = watch::<RoleBinding>(client(), scope, Some(&accounts_of_graphs));
    let worker_pods = watch_metadata_by::<Pod>(client(), scope, Some(&workers), Some(NOT_ENDED));
    let config_maps = watch::<ConfigMap>(client(), scope, Some(labels::GRAPH));
    let claim_templates = watch_if_served::<ResourceClaimTemplate>(apis, scope, Some(labels::OWN_GRAPH));
    let pools = watch_if_served::<InferencePool>(apis, scope, Some(labels::GRAPH));
    let destination_rules = watch_if_served::<DestinationRule>(apis, scope, Some(labels::OWN_GRAPH));
    let mpi_keys = watch_metadata_by::<Secret>(client(), scope, None, Some(&copies));
    let checkpoints = watch::<DynamoCheckpoint>(client(), scope, None);
    let agents_asked = settings.snapshots.is_some() && settings.grove.enabled;
    let agents = format!("{}={}", labels::APP_COMPONENT, labels::SNAPSHOT_AGENT);
    let agents = agents_asked.then(|| watch::<DaemonSet>(client(), scope, Some(&agents))).unzip();
    let services = watch::<Service>(client(), scope, Some(labels::OWN_GRAPH));
    // Those of components are watched, and written, by the component controller.
    let ways_in = format!("{},!{}", labels::OWN_GRAPH, labels::OWN_COMPONENT);
    let ingresses = watch::<Ingress>(client(), scope, Some(&ways_in));
    let virtual_services = watch_if_served::<VirtualService>(apis, scope, Some(&ways_in));
    let of_models = format!("{}={},{}", labels::MODEL_MANAGED_BY, labels::OPERATOR, labels::BASE_MODEL_HASH);
    let model_services = watch::<Service>(client(), scope, Some(&of_models));
    let builds = watch_if_served::<DynamoComponent>(apis, scope, None);
    let grove = grove::open(context, apis);
    let caches = Caches {
        graphs,
        adapters,
        components: components.0,
        accounts: accounts.0,
        roles: roles.0,
        bindings: bindings.0,
        worker_pods: worker_pods.0,
        config_maps: config_maps.0,
        claim_templates: claim_templates.0,
        pools: pools.0,
        destination_rules: destination_rules.0,
        mpi_keys: mpi_keys.0,
        checkpoints: checkpoints.0,
        agents: agents.0,
        services: services.0,
        ingresses: ingresses.0,
        virtual_services: virtual_services.0,
        model_services: model_services.0,
        builds: builds.0,
        grove: grove.0,
    };
    let watches = Watches {
        components: components.1,
        accounts: accounts.1,
        roles: roles.1,
        bindings: bindings.1,
        worker_pods: worker_pods.1,
        config_maps: config_maps.1,
        claim_templates: claim_templates.1,
        pools: pools.1,
        destination_rules: destination_rules.1,
        mpi_keys: mpi_keys.1,
        checkpoints: checkpoints.1,
        agents: agents.1,
        services: services.1,
        ingresses: ingresses.1,
        virtual_services: virtual_services.1,
        model_services: model_services.1,
        builds: builds.1,
        grove: grove.1,
    };
    (caches, watches)
}

impl Watches {
    /// The controller of graphs, with everything that wakes it.
    fn into_controller(
        self,
        graphs: Watch<Packed<DynamoGraphDeployment>>,
        by_concern: &Index<Concern>,
        reconciler: &Reconciler,
    ) -> Controller<DynamoGraphDeployment> {
        let controller = Controller::new(graphs)
            .writes_with(&reconciler.applier)
            .triggered_by(self.components, |d| graph_of(d).into_iter().collect())
            .triggered_by(self.accounts, concerned_by(by_concern))
            .owns(self.roles)
            .triggered_by(self.bindings, concerned_by(by_concern))
            .owns(self.config_maps)
            .owns(self.claim_templates)
            .owns(self.pools)
            .owns(self.destination_rules)
            .triggered_by(self.mpi_keys, concerned_by(by_concern))
            .triggered_by(self.checkpoints, concerned_by_checkpoint(by_concern))
            .owns(self.services)
            .owns(self.ingresses)
            .owns(self.virtual_services)
            .triggered_by(self.model_services, neighbours(by_concern))
            .triggered_by(self.builds, running(by_concern))
            .triggered_by(self.worker_pods, |pod| graph_of(pod).into_iter().collect());
        let controller = match self.agents {
            Some(agents) => controller.triggered_by(agents, neighbours(by_concern)),
            None => controller,
        };
        self.grove.wake(controller, &reconciler.caches.grove.sets, by_concern)
    }
}

/// The only way to write; it knows the caches that decisions rest on.
fn applier(context: &Context, caches: &Caches) -> Applier {
    let views: Vec<Arc<dyn CacheView>> = vec![
        Arc::new(caches.graphs.clone()),
        Arc::new(caches.adapters.clone()),
        Arc::new(caches.components.clone()),
        Arc::new(caches.accounts.clone()),
        Arc::new(caches.roles.clone()),
        Arc::new(caches.bindings.clone()),
        Arc::new(caches.config_maps.clone()),
        Arc::new(caches.claim_templates.clone()),
        Arc::new(caches.pools.clone()),
        Arc::new(caches.destination_rules.clone()),
        Arc::new(caches.checkpoints.clone()),
        Arc::new(caches.services.clone()),
        Arc::new(caches.ingresses.clone()),
        Arc::new(caches.virtual_services.clone()),
        Arc::new(caches.model_services.clone()),
        Arc::new(caches.builds.clone()),
        Arc::new(caches.grove.sets.clone()),
        Arc::new(caches.grove.cliques.clone()),
        Arc::new(caches.grove.groups.clone()),
    ];
    let applier = Applier::new(context.client.clone(), NAME, context.metrics.clone(), views);
    applier.with_first_word_after(FIRST_WORD_AFTER).with_pace(PACE).with_predecessors(&[annotations::LAST_APPLIED_HASH])
}

/// What the cluster may serve and needs no cache.
fn apis(apis: &ServedApis, settings: &Settings) -> Apis {
    let served = |resource| ServedApi::new(apis, resource);
    let leader_worker_sets = ApiResource::erase::<LeaderWorkerSet>(&());
    Apis {
        leader_worker_sets: settings.leader_worker_sets.then(|| served(leader_worker_sets)),
        kai_queues: (settings.grove.enabled && settings.grove.kai.is_none()).then(|| served(kai_queues())),
        volcano_groups: (settings.grove.enabled && settings.grove.volcano).then(|| served(volcano_groups())),
    }
}
