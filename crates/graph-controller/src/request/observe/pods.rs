//! Pods that no cache holds: those of a profiler that failed, and those of graphs that it measures.

use std::collections::BTreeSet;

use api_types::{labels, names, v1beta1::DynamoGraphDeployment};
use controller_kit::{
    apply::{Error, ObjectId, timed},
    store::{Packed, Store},
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::{
    Client, ResourceExt,
    api::{Api, ListParams},
};

use crate::request::{cost, cost::Trials, model::Observed};

/// How the containers of a Job that failed ended.
pub(super) async fn failures(client: &Client, observed: &Observed) -> Result<Vec<String>, Error> {
    let selector = format!("{}={}", labels::JOB_NAME, names::profiling_job(&observed.name));
    let pods = list(client, observed, &selector).await?;
    Ok(pods.iter().flat_map(|pod| statuses(pod)).filter_map(failure).collect())
}

/// Graphs that the profiler has started to measure them, which are the request's without being controlled by it, and
/// their pods.
pub(super) async fn read_trials(
    client: &Client,
    graphs: &Store<Packed<DynamoGraphDeployment>>,
    observed: &mut Observed,
) -> Result<(), Error> {
    let all = graphs.all();
    let of_request = |graph: &Packed<DynamoGraphDeployment>| {
        let owners = graph.owner_references().iter();
        graph.namespace().as_deref() == Some(&observed.namespace) && owners.into_iter().any(|o| o.uid == observed.uid)
    };
    let running: BTreeSet<String> =
        all.iter().filter(|graph| of_request(graph)).map(|graph| graph.name_any()).collect();
    let remembered = observed.status().trial_graphs;
    let names: BTreeSet<String> =
        running.iter().chain(cost::known(remembered.as_ref())).map(|name| names::label_value(name)).collect();
    if names.is_empty() {
        return Ok(());
    }
    let selector = format!("{} in ({})", labels::GRAPH, names.into_iter().collect::<Vec<_>>().join(","));
    let pods = list(client, observed, &selector).await?;
    observed.trials = Some(Trials::of(running, remembered.as_ref(), &pods));
    Ok(())
}

async fn list(client: &Client, observed: &Observed, selector: &str) -> Result<Vec<Pod>, Error> {
    let api: Api<Packed<Pod>> = Api::namespaced(client.clone(), &observed.namespace);
    let object = ObjectId::named::<Pod>(&observed.namespace, selector);
    let pods = timed("list", &object, api.list(&ListParams::default().labels(selector))).await?;
    Ok(Packed::readable(pods.items))
}

fn statuses(pod: &Pod) -> Vec<&ContainerStatus> {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_ref()).into_iter().flatten();
    init.chain(status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten()).collect()
}

fn failure(container: &ContainerStatus) -> Option<String> {
    let ended = container.state.as_ref()?.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
    let reason = ended.reason.as_deref().unwrap_or("Error");
    let words = ended.message.as_deref().map(|words| format!(": {}", words.trim())).unwrap_or_default();
    Some(format!("container {} ended with {} ({reason}){words}", container.name, ended.exit_code))
}
