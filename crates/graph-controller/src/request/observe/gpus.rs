//! Reads GPUs from nodes and DCGM exporters.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use api_types::v1beta1::GpuSku;
use bytes::Bytes;
use controller_kit::{
    failure::{Class, ErrorType},
    request::{ReadError, read},
    store::Packed,
};
use futures::{StreamExt, stream};
use http::Request;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Client, ResourceExt,
    api::{Api, ListParams},
};
use outbound::{Limits, Outbound, Trust};
use tokio::sync::Mutex;
use tracing::{info, warn};

use crate::request::{
    hardware::{NodeGpus, add_labelled, choose, dcgm, has_rdma, of_labels},
    model::Search,
    settings::RequestSettings,
};

/// By one of these, the pods of exporters are known.
const EXPORTERS: [&str; 3] = ["app=nvidia-dcgm-exporter", "app=dcgm-exporter", "app.kubernetes.io/name=dcgm-exporter"];
/// Namespace of the pods that provide nodes with RDMA.
const NETWORK_OPERATOR: &str = "nvidia-network-operator";
/// Time for which found GPUs remain valid: GPUs come and go with nodes.
const GOOD_FOR: Duration = Duration::from_secs(60);
/// Limits of the answer of one exporter. The metrics of 16 GPUs have about 100 KiB.
const LIMITS: Limits = Limits { patience: Duration::from_secs(5), longest: 1 << 20 };
/// Number of exporters that are queried at a time.
const AT_ONCE: usize = 16;
/// Time limit for all exporters together: all requests for hardware wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);

/// Survey of the whole cluster.
#[derive(Clone, Debug, Default)]
struct Survey {
    nodes: Vec<NodeGpus>,
    rdma: Vec<String>,
    rdma_everywhere: bool,
    /// Reasons for missing information.
    notes: Vec<String>,
    /// Whether it may be there the next time.
    passing: bool,
}

/// The last answer, and when it came.
type Last = Option<(Instant, Arc<Survey>)>;

/// Looks GPUs up, for all requests together.
#[derive(Clone)]
pub struct Gpus {
    client: Client,
    endpoint: String,
    exporter_namespaces: Vec<String>,
    last: Arc<Mutex<Last>>,
}

impl Gpus {
    /// Looks for exporters where the settings allow it.
    pub fn new(client: Client, settings: &RequestSettings) -> Self {
        let endpoint = settings.args.dcgm_metrics_endpoint.clone();
        Self { client, endpoint, exporter_namespaces: settings.exporter_namespaces.clone(), last: Arc::default() }
    }

    /// The GPUs to plan with.
    ///
    /// # Errors
    /// An API server that does not answer.
    pub async fn search(&self, desired: Option<GpuSku>) -> Result<Search, ReadError> {
        let survey = self.survey().await?;
        let rdma = |node: &str| survey.rdma_everywhere || survey.rdma.iter().any(|name| name == node);
        match choose(&survey.nodes, desired, rdma) {
            Ok(found) => Ok(Search::Found(Box::new(found))),
            Err(why) => {
                let notes = survey.notes.iter().map(|note| format!("; {note}"));
                let why = why + &notes.collect::<String>();
                Ok(if survey.passing { Search::Unanswered(why) } else { Search::Nothing(why) })
            }
        }
    }

    /// One lookup serves all calls within a minute; calls during it wait for it.
    async fn survey(&self) -> Result<Arc<Survey>, ReadError> {
        let mut last = self.last.lock().await;
        if let Some((at, survey)) = &*last
            && at.elapsed() < GOOD_FOR
        {
            return Ok(survey.clone());
        }
        let survey = Arc::new(self.read().await?);
        if !survey.nodes.is_empty() {
            *last = Some((Instant::now(), survey.clone()));
        }
        Ok(survey)
    }

    async fn read(&self) -> Result<Survey, ReadError> {
        let mut survey = Survey::default();
        let all = ListParams::default();
        let nodes: Api<Node> = Api::all(self.client.clone());
        let nodes = allowed("list nodes", nodes.list_metadata(&all)).await?.map(|list| list.items);
        if nodes.is_none() {
            survey.notes.push("the operator has no right to list nodes".to_owned());
        }
        let nodes = nodes.unwrap_or_default();
        survey.rdma = nodes.iter().filter(|node| has_rdma(node.labels())).map(ResourceExt::name_any).collect();
        let known: BTreeSet<String> = nodes.iter().map(ResourceExt::name_any).collect();
        self.read_exporters(&mut survey, &known).await?;
        let labelled = nodes.iter().filter_map(|node| of_labels(&node.name_any(), node.labels()));
        add_labelled(&mut survey.nodes, labelled);
        if survey.nodes.is_empty() && !nodes.is_empty() {
            survey.notes.push("no node has the labels of GPU feature discovery".to_owned());
        }
        if !survey.nodes.is_empty() {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), NETWORK_OPERATOR);
            let pods = allowed("list the pods of the network operator", pods.list_metadata(&all)).await?;
            let mut pods = pods.into_iter().flat_map(|list| list.items);
            survey.rdma_everywhere = pods.any(|pod| pod.name_any().contains("rdma"));
        }
        info!(nodes = survey.nodes.len(), "looked for GPUs");
        Ok(survey)
    }

    /// Queries the exporters of nodes: those that are `known`, or all if none is.
    async fn read_exporters(&self, survey: &mut Survey, known: &BTreeSet<String>) -> Result<(), ReadError> {
        let mut pods_found = Vec::new();
        for namespace in &self.exporter_namespaces {
            let pods: Api<Packed<Pod>> = Api::namespaced(self.client.clone(), namespace);
            for selector in EXPORTERS {
                let labelled = ListParams::default().labels(selector);
                let Some(list) = allowed("list DCGM exporters", pods.list(&labelled)).await? else {
                    survey.notes.push(format!("the operator has no right to list DCGM exporters in {namespace}"));
                    break;
                };
                pods_found.extend(Packed::readable(list.items));
            }
        }
        let exporters = one_for_each_node(pods_found, known);
        if exporters.is_empty() {
            let namespaces = self.exporter_namespaces.join(", ");
            survey.notes.push(format!(
                "no DCGM exporter runs in the namespaces {namespaces}; the GPU operator brings it, and \
                 gpu.exporterNamespaces of the operator's configuration names other namespaces"
            ));
            return Ok(());
        }
        let http = match Outbound::new(&Trust::default()) {
            Ok(http) => http,
            Err(error) => {
                warn!(%error, "DCGM exporters cannot be queried");
                survey.notes.push(format!("DCGM exporters cannot be queried: {error}"));
                survey.passing = true;
                return Ok(());
            }
        };
        let count = exporters.len();
        let reads = exporters.into_iter().map(|(node, address)| self.read_exporter(&http, address, node));
        let answers = stream::iter(reads).buffer_unordered(AT_ONCE).take_until(tokio::time::sleep(PATIENCE));
        let answers: Vec<Result<NodeGpus, String>> = answers.collect().await;
        if answers.len() < count {
            let (missing, seconds) = (count - answers.len(), PATIENCE.as_secs());
            survey.notes.push(format!("{missing} of {count} DCGM exporters gave no answer within {seconds} s"));
            survey.passing = true;
        }
        for answer in answers {
            match answer {
                Ok(gpus) => survey.nodes.push(gpus),
                Err(why) => {
                    warn!(why, "a DCGM exporter gave no answer");
                    survey.notes.push(why);
                    survey.passing = true;
                }
            }
        }
        Ok(())
    }

    async fn read_exporter(&self, http: &Outbound, address: String, node: String) -> Result<NodeGpus, String> {
        let address = if address.contains(':') { format!("[{address}]") } else { address };
        let endpoint = self.endpoint.replace("{POD_IP}", &address);
        let problem = |problem: String| format!("{endpoint} of node {node}: {problem}");
        let page = Request::get(&endpoint).body(Bytes::new()).map_err(|error| problem(error.to_string()))?;
        let answer = http.send(page, LIMITS).await.map_err(|error| problem(error.to_string()))?;
        if !answer.status().is_success() {
            return Err(problem(format!("answered {}", answer.status())));
        }
        dcgm::read(&String::from_utf8_lossy(answer.body()), &node)
    }
}

/// Nodes with the address of their exporter: its oldest pod that runs. Nodes that are not `known` have none, unless
/// none is.
fn one_for_each_node(mut pods: Vec<Pod>, known: &BTreeSet<String>) -> BTreeMap<String, String> {
    pods.sort_by_key(|pod| pod.metadata.creation_timestamp.clone());
    let mut exporters = BTreeMap::new();
    for (node, address) in pods.into_iter().filter_map(place) {
        if known.is_empty() || known.contains(&node) {
            exporters.entry(node).or_insert(address);
        }
    }
    exporters
}

/// Node and address of a pod that runs.
fn place(pod: Pod) -> Option<(String, String)> {
    let status = pod.status?;
    let running = status.phase.as_deref() == Some("Running");
    let address = status.pod_ip.filter(|address| running && !address.is_empty())?;
    Some((pod.spec.and_then(|spec| spec.node_name).unwrap_or_default(), address))
}

/// Nothing where we may not look.
async fn allowed<T>(what: &str, request: impl Future<Output = kube::Result<T>>) -> Result<Option<T>, ReadError> {
    match read(|| what.to_owned(), request).await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.error_type().class() == Class::Forbidden => Ok(None),
        Err(error) if error.error_type() == ErrorType::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exporter(node: &str, address: &str, phase: &str, made: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": address, "creationTimestamp": made },
            "spec": { "nodeName": node, "containers": [] }, "status": { "phase": phase, "podIP": address },
        }))
        .unwrap()
    }

    /// A tenant can start a thousand pods with the label of an exporter, and each got a request.
    #[test]
    fn a_node_has_one_exporter_however_many_pods_have_its_label() {
        let (old, new) = ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z");
        let mut pods: Vec<Pod> = (0..100).map(|n| exporter("a", &format!("10.0.1.{n}"), "Running", new)).collect();
        pods.push(exporter("a", "10.0.0.1", "Running", old));
        pods.push(exporter("b", "10.0.0.2", "Pending", old));
        pods.push(exporter("nowhere", "10.0.0.3", "Running", old));
        let known: BTreeSet<String> = ["a", "b"].map(str::to_owned).into();
        let found = |known: &BTreeSet<String>| one_for_each_node(pods.clone(), known).into_iter().collect::<Vec<_>>();
        let of = |node: &str, address: &str| (node.to_owned(), address.to_owned());
        assert_eq!(found(&known), [of("a", "10.0.0.1")]);
        let unknown = [of("a", "10.0.0.1"), of("nowhere", "10.0.0.3")];
        assert_eq!(found(&BTreeSet::new()), unknown, "the operator may not list nodes");
    }
}
