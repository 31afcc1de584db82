//! Caches, triggers and the loops.

mod checkpoints;
mod images;

use std::{convert::Infallible, sync::Arc, time::Duration};

use api_types::{
    conditions::AVAILABLE,
    conversion::preserved::legacy::PreservedService,
    external::VirtualService,
    labels, names,
    v1alpha1::{DynamoCheckpoint, DynamoComponent},
    v1beta1::DynamoComponentDeployment,
};
use controller_kit::{
    context::{Context, Gate},
    controller::{Outputs, Wiring, owner_key},
    pods::PodDiagnostics,
    pull_secrets::{self, Following, PullSecrets},
    store::{
        Key, Packed, ServedApis,
        keep::{self, Keep},
        watch, watch_if_served,
    },
};
use futures::{StreamExt, future::join4, stream};
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment},
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{PersistentVolumeClaim, Service, ServiceAccount},
        networking::v1::Ingress,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;
use rendering::{LeaderWorkerSet, checkpoint::CheckpointConfig};

use crate::{
    NAME,
    checkpoint::observe::CheckpointCaches,
    component::{
        ComponentReconciler,
        model::PodGroup,
        observe::{ComponentCaches, ComponentObserver, ComponentStore, components_of_model},
    },
    image_build::settings::BuildSettings,
};

/// Readiness gate of the process, until it has read the docker configuration Secrets.
const SECRETS_GATE: &str = "image pull Secrets";

/// Time for which a new component has no status while there is nothing to report but that work has begun. Its graph
/// waits a little longer, and then has something to report.
const FIRST_WORD_AFTER: Duration = Duration::from_millis(700);

/// Runs the controller until the process is to stop.
///
/// # Errors
/// None: what goes wrong is tried again.
pub async fn run(context: Context) -> Result<(), Infallible> {
    run_with(context, BuildSettings::read(|name| std::env::var(name).ok())).await
}

/// Runs with settings for image builds other than those of the environment.
///
/// # Errors
/// Never.
pub async fn run_with(context: Context, image_builds: BuildSettings) -> Result<(), Infallible> {
    let (client, source) = (context.client.clone(), context.source());
    let apis = ServedApis::new(client.clone());
    let (components, component_watch) = watch::<DynamoComponentDeployment>(&source, None);
    context.metrics.count_resources(&components, &context.fence, of_component);
    let (checkpoints, checkpoint_watch) = watch_if_served::<DynamoCheckpoint>(&apis, &source, None, keep::any);
    let (checkpoint_watch, of_checkpoints) = checkpoint_watch.and_keys(in_namespace(&components));
    // All replicas count the builds of all.
    let (builds, build_watch) = watch_if_served::<DynamoComponent>(&apis, &context.everywhere(), None, keep::any);
    let (build_watch, of_builds) = build_watch.and_keys(running(&components));
    let of_models = format!("{}={},{}", labels::MODEL_MANAGED_BY, labels::OPERATOR, labels::BASE_MODEL_HASH);
    let labelled = format!("{}={}", labels::COMPONENT_POD_ACCOUNT, labels::TRUE);
    let agent = format!("{}={}", labels::APP_COMPONENT, labels::SNAPSHOT_AGENT);
    let uses_sets = context.settings.orchestrators.lws.enabled != Some(false);
    let config = context.settings.checkpoint.if_enabled();

    let mut wiring = Wiring::new(&context, &apis, component_watch);
    let children = keep::owned_or_orphaned::<DynamoComponentDeployment>;
    let caches = ComponentCaches {
        deployments: wiring.watched::<Deployment>(Some(labels::COMPONENT), children, child_keys),
        leader_worker_sets: uses_sets.then(|| {
            wiring.watched_if_served::<LeaderWorkerSet>(Some(labels::COMPONENT), sets_of_components, set_keys)
        }),
        pod_groups: uses_sets.then(|| wiring.owned_if_served::<PodGroup>(labels::LEGACY_INSTANCE)),
        services: wiring.watched::<Service>(Some(labels::COMPONENT), children, child_keys),
        ingresses: wiring.owned::<Ingress>(labels::OWN_COMPONENT),
        virtual_services: wiring.owned_if_served::<VirtualService>(labels::OWN_COMPONENT),
        autoscalers: wiring.owned::<HorizontalPodAutoscaler>(labels::OWN_COMPONENT),
        model_services: wiring.watched::<Service>(Some(&of_models), keep::small, serving(&components)),
        // Another account for component pods counts from the next change on: labelling one must not roll what runs.
        accounts: wiring.metadata::<ServiceAccount>(Some(&labelled), None, |_| Vec::new()),
        components: components.clone(),
        builds: builds.clone(),
    };
    let checkpoints = CheckpointCaches {
        agents: wiring.watched::<DaemonSet>(Some(&agent), keep::small, in_namespace(&components)),
        volumes: config
            .as_ref()
            .and_then(volumes_of)
            .map(|fields| wiring.metadata::<PersistentVolumeClaim>(None, Some(&fields), in_namespace(&components))),
        config,
        checkpoints,
    };
    let (controller, applier) = wiring.finish(NAME);
    let applier = applier.with_initial_status_delay(FIRST_WORD_AFTER);
    let mut controller = controller.also(of_checkpoints).also(of_builds);

    let secrets = context.settings.image_pull_secret_discovery.enabled.then(PullSecrets::default);
    let gate = secrets.as_ref().map(|_| context.readiness.gate(SECRETS_GATE));
    if let Some(secrets) = &secrets {
        let Following { complete, changed } = pull_secrets::follow(&context, secrets);
        tokio::select! {
            _ = complete => {}
            () = context.shutdown.requested() => return Ok(()),
        }
        let keys = changed.flat_map(move |namespace| stream::iter(components.keys_in(&namespace)));
        controller = controller.also(keys.boxed());
    }
    let reconciler = Arc::new(ComponentReconciler {
        observer: ComponentObserver::new(client.clone(), caches, secrets, checkpoints.clone()),
        pods: PodDiagnostics::new(client.clone()),
        outputs: Outputs::new(applier).notifying(context.notifier.as_ref()),
        settings: context.settings.pods(),
    });
    let running = controller.drive(&context, reconciler);
    let checkpoints = checkpoints::run(&context, &apis, checkpoints, checkpoint_watch);
    // Polled in this order: the controllers' own gates are there before this one opens. The process would count as
    // ready in between.
    join4(running, checkpoints, images::run(&context, image_builds, builds, build_watch), async {
        gate.iter().for_each(Gate::open)
    })
    .await;
    Ok(())
}

/// Keeps LeaderWorkerSets of components, which have two pod templates, whatever their size. Their type has no form
/// without a spec, so others are kept as well, up to the limit.
fn sets_of_components(set: &ObjectMeta) -> Keep {
    match keep::templates_of::<DynamoComponentDeployment>(set) {
        Keep::Identity => keep::any(set),
        whole => whole,
    }
}

/// Field selector of the PersistentVolumeClaims of the configured name, if there is one.
fn volumes_of(config: &CheckpointConfig) -> Option<String> {
    let named = config.storage.storage().ok().flatten()?;
    Some(format!("metadata.name={}", named.claim))
}

/// The components that a child concerns: its owner, and each component that would give a child this name, which matters
/// when an object that was in the way goes.
fn child_keys<K: Resource>(child: &K) -> Vec<Key> {
    let same_name = Key::of(child);
    let owner = owner_key::<DynamoComponentDeployment, K>(child).filter(|owner| *owner != same_name);
    owner.into_iter().chain([same_name]).collect()
}

/// Keys of the component of a LeaderWorkerSet, whose name differs from its component's.
fn set_keys<K: Resource>(set: &K) -> Vec<Key> {
    let own = Key::of(set);
    let same_name = names::component_of_leader_worker_set(&own.name).map(|name| Key::new(&own.namespace, name));
    let owner = owner_key::<DynamoComponentDeployment, K>(set).filter(|owner| Some(owner) != same_name.as_ref());
    owner.into_iter().chain(same_name).collect()
}

/// The components that serve the model of a Service, or own it.
fn serving(components: &ComponentStore) -> impl Fn(&Packed<Service>) -> Vec<Key> + Send + use<> {
    let components = components.clone();
    move |service| {
        let (namespace, labels) = (service.metadata.namespace.as_deref(), service.metadata.labels.as_ref());
        let hash = labels.and_then(|labels| labels.get(labels::BASE_MODEL_HASH));
        let (Some(namespace), Some(hash)) = (namespace, hash) else { return Vec::new() };
        let serving = components_of_model(&components, namespace, hash);
        let owners = service.metadata.owner_references.iter().flatten().map(|owner| Key::new(namespace, &owner.name));
        let mut keys: Vec<Key> = serving.iter().map(|component| Key::of(component.as_ref())).chain(owners).collect();
        keys.sort();
        keys.dedup();
        keys
    }
}

/// The components on their own that run what a DynamoComponent builds.
fn running(components: &ComponentStore) -> impl Fn(&Packed<DynamoComponent>) -> Vec<Key> + Send + use<> {
    let components = components.clone();
    move |build| {
        let runs = |component: &Packed<DynamoComponentDeployment>| {
            let said = component.metadata.annotations.as_ref().and_then(PreservedService::of_component_deployment);
            let source = said.and_then(|said| said.source);
            source.is_some_and(|source| Some(names::dynamo_component(&source)) == build.metadata.name)
        };
        let here = components.in_namespace(build.metadata.namespace.as_deref().unwrap_or_default());
        here.iter().filter(|component| runs(component)).map(|component| Key::of(component.as_ref())).collect()
    }
}

/// The components in the namespace of an object.
fn in_namespace<K: Resource>(components: &ComponentStore) -> impl Fn(&K) -> Vec<Key> + Send + use<K> {
    let components = components.clone();
    move |object| components.keys_in(object.meta().namespace.as_deref().unwrap_or_default())
}

/// Whether a component serves as its present spec says.
fn of_component(component: &Packed<DynamoComponentDeployment>) -> &'static str {
    let status = component.status();
    let is_new = component.metadata.generation > status["observedGeneration"].as_i64();
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let available = conditions.any(|condition| condition["type"] == AVAILABLE && condition["status"] == "True");
    if available && !is_new { "ready" } else { "not_ready" }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, time::Duration};

    use controller_kit::{
        context::{Readiness, Shutdown},
        metrics::Metrics,
        settings::OperatorConfiguration,
        store::Scope,
    };
    use kube::{Client, Config};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn context(address: &str) -> Context {
        Context {
            name: NAME,
            client: Client::try_from(Config::new(address.parse().unwrap())).unwrap(),
            settings: Arc::new(OperatorConfiguration::default()),
            scope: Scope::Cluster,
            fence: controller_kit::scope::Fence::unfenced(),
            readiness: Readiness::default(),
            metrics: Metrics::new(),
            shutdown: Shutdown::manual(),
            notifier: None,
            concurrency: 1,
        }
    }

    #[tokio::test]
    async fn readiness_names_the_secrets_that_are_waited_for() {
        // Connections are accepted, and nothing is ever answered.
        let mute = TcpListener::bind("127.0.0.1:0").unwrap();
        let context = context(&format!("http://{}", mute.local_addr().unwrap()));
        let running = tokio::spawn(run(context.clone()));
        let named = async {
            loop {
                match context.readiness.missing() {
                    Some(closed) if closed.is_empty() => tokio::task::yield_now().await,
                    found => break found,
                }
            }
        };
        let named = tokio::time::timeout(LIMIT, named).await.unwrap();
        assert_eq!(named, Some(vec![SECRETS_GATE.to_owned()]));
        context.shutdown.request();
        tokio::time::timeout(LIMIT, running).await.unwrap().unwrap().unwrap();
    }
}

#[cfg(test)]
mod counts_tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_component_is_ready_at_its_present_generation() {
        let status = |observed: i64, type_: &str, value: &str| json!({ "observedGeneration": observed, "conditions": [{ "type": type_, "status": value }] });
        for (status, expected) in [
            (status(2, "Available", "True"), "ready"),
            (status(1, "Available", "True"), "not_ready"),
            (status(2, "Available", "False"), "not_ready"),
            (status(2, "Other", "True"), "not_ready"),
            (Value::Null, "not_ready"),
        ] {
            let object = json!({ "metadata": { "name": "x", "generation": 2 }, "status": status });
            assert_eq!(of_component(&Packed::from_value(object).unwrap()), expected, "{status}");
        }
    }
}
