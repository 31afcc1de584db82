//! A namespace with both controllers in it, and the objects that they write.

use std::{collections::BTreeMap, time::Duration};

use api_types::{
    annotations::{PROGRESS_DEADLINE, ROLLOUT, ROLLOUT_STEP},
    conditions::graph as reasons,
    grove::{PodClique, PodCliqueScalingGroup, PodCliqueSet},
    names::PLANNER_SERVICE_ACCOUNT,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter},
};
use controller_kit::{scope::Fence, settings::OperatorConfiguration, store::Scope};
use futures::future::join_all;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{ConfigMap, Pod, Service, ServiceAccount},
        networking::v1::Ingress,
        rbac::v1::{Role, RoleBinding},
    },
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, PostParams},
    core::ApiResource,
};
use kubectl_dynamo::preview::{Edit, Operator, Prediction, predict};
use rendering::LeaderWorkerSet;
use serde_json::{Value, json};
use test_cluster::{Access, TestNamespace, account, shared, wait};
use tokio::task::JoinHandle;

use super::{edits::Manifest, grove::Grove};
use crate::{controllers::Controllers, definitions::own};

/// Time limit of a rollout; generous, because the machine may be busy.
pub const LIMIT: Duration = Duration::from_secs(240);

/// Name of the graph.
pub const GRAPH: &str = "chat";

/// Reasons why a rollout stays where it is.
const HELD: [&str; 3] = [reasons::ROLLOUT_PAUSED, reasons::ROLLOUT_HELD, reasons::ROLLOUT_UNDONE];

/// State that the status of a graph reports for its present generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Moving,
    Ready,
    /// Its rollout stays where it is until the user goes on with it.
    Held,
    /// It stays until the user changes it.
    Stalled,
}

/// Objects by kind and name.
pub type Objects = BTreeMap<(String, String), Value>;

/// Workload kind for the pods of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    Deployments,
    LeaderWorkerSets,
    Grove,
}

/// A namespace with both controllers in it.
pub struct Harness {
    pub client: Client,
    pub namespace: String,
    pub operator: Operator,
    grove: Option<JoinHandle<()>>,
    _controllers: Controllers,
    _guard: TestNamespace,
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.grove.iter().for_each(JoinHandle::abort);
    }
}

impl Harness {
    /// A graph runs as Deployments here.
    pub async fn new(prefix: &str) -> Self {
        Self::on(shared(&own()).await.unwrap(), prefix, WorkloadKind::Deployments).await
    }

    /// The same with another kind of workload. What carries it out has to run.
    pub async fn on(access: &Access, prefix: &str, kind: WorkloadKind) -> Self {
        let guard = TestNamespace::new(access, prefix).await.unwrap();
        let (client, namespace) = (guard.client(), guard.name().to_owned());
        // The chart makes it where it installs the operator.
        access
            .apply(&[json!({ "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": PLANNER_SERVICE_ACCOUNT, "namespace": namespace } })])
            .await
            .unwrap();
        let mut settings = OperatorConfiguration::default();
        settings.orchestrators.grove.enabled = Some(kind == WorkloadKind::Grove);
        let grove = (kind == WorkloadKind::Grove).then(|| tokio::spawn(Grove::new(client.clone(), &namespace).run()));
        settings.namespace.restricted.clone_from(&namespace);
        let scope = Scope::Namespace(namespace.clone());
        let controllers = Controllers::new(settings.clone(), scope, Fence::unfenced());
        controllers.start(&client);
        Self { client, namespace, operator: Operator::with(settings), grove, _controllers: controllers, _guard: guard }
    }

    /// A client of a user who may read these resources, and write nothing.
    pub async fn reader(&self, rules: &Value) -> Client {
        let access = shared(&own()).await.unwrap();
        let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": rules,
            "metadata": { "name": "reader", "namespace": self.namespace } });
        access.apply(&account("reader", &self.namespace, role)).await.unwrap();
        let client = access.client_for_token(&access.token(&self.namespace, "reader").await.unwrap()).unwrap();
        let resource = ApiResource::erase::<DynamoGraphDeployment>(&());
        let graphs: Api<DynamicObject> = Api::namespaced_with(client.clone(), &self.namespace, &resource);
        // Roles reach the authorizer after they are written.
        let look = async || graphs.list(&ListParams::default()).await.map(drop);
        wait::until("the rights of the reader", LIMIT, look).await.unwrap();
        client
    }

    pub fn graphs(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &ApiResource::erase::<DynamoGraphDeployment>(&()))
    }

    /// The live graph without what a user does not write.
    pub async fn graph(&self) -> Value {
        let mut graph = serde_json::to_value(self.graphs().get(GRAPH).await.unwrap()).unwrap();
        graph["metadata"].as_object_mut().unwrap().remove("managedFields");
        graph
    }

    /// Replaces the spec and the user's annotations of the graph, or creates it. Returns it as it is stored, or why the
    /// API server rejects it.
    pub async fn write(&self, manifest: &Manifest) -> Result<Value, String> {
        let graphs = self.graphs();
        let stored = loop {
            let answer = match self.edited(manifest).await {
                Edit::Replacement(graph) => {
                    let graph = serde_json::from_value(graph).unwrap();
                    graphs.replace(GRAPH, &PostParams::default(), &graph).await
                }
                Edit::Manifest(graph) | Edit::ServerSide(graph, _) => {
                    let graph = serde_json::from_value(graph).unwrap();
                    graphs.create(&PostParams::default(), &graph).await
                }
            };
            match answer {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(kube::Error::Api(status)) if status.code == 422 => return Err(status.message.clone()),
                answer => break answer.unwrap(),
            }
        };
        let mut stored = serde_json::to_value(stored).unwrap();
        stored["kind"] = "DynamoGraphDeployment".into();
        Ok(stored)
    }

    async fn edited(&self, manifest: &Manifest) -> Edit {
        let Manifest { annotations, spec } = manifest;
        if self.graphs().get_opt(GRAPH).await.unwrap().is_none() {
            return Edit::Manifest(json!({ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
                "metadata": { "name": GRAPH, "annotations": annotations }, "spec": spec }));
        }
        let mut graph = self.graph().await;
        graph["spec"] = spec.clone();
        if let Some(all) = graph.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            all.retain(|key, _| ![ROLLOUT, ROLLOUT_STEP, PROGRESS_DEADLINE].contains(&key.as_str()));
        }
        for (key, value) in annotations {
            graph["metadata"]["annotations"][key] = value.clone();
        }
        Edit::Replacement(graph)
    }

    /// Predicts the effects of a manifest on the graph.
    pub async fn predict(&self, manifest: &Manifest) -> Prediction {
        self.predict_as(&self.client, manifest).await
    }

    /// Predicts its effects as far as the rights of the client's user allow.
    pub async fn predict_as(&self, client: &Client, manifest: &Manifest) -> Prediction {
        let edit = self.edited(manifest).await;
        predict(client, &self.namespace, &edit, &self.operator, Timestamp::now()).await.unwrap()
    }

    /// Waits until the graph is ready in its present generation.
    pub async fn ready(&self) {
        let look = async || match self.state().await {
            (State::Ready, _) => Ok(()),
            (_, status) => Err(status),
        };
        wait::until("the graph to be ready", LIMIT, look).await.unwrap();
    }

    /// Returns the state in the graph's status for its present generation, and the whole status as text.
    pub async fn state(&self) -> (State, String) {
        let graph = self.graph().await;
        let status = &graph["status"];
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let holds = |type_: &str| conditions.iter().find(|it| it["type"] == type_ && it["status"] == "True");
        let is_held = |it: &&Value| HELD.iter().any(|reason| it["reason"] == *reason);
        let state = match () {
            () if status["observedGeneration"] != graph["metadata"]["generation"] => State::Moving,
            () if holds("Ready").is_some() => State::Ready,
            () if holds("Stalled").is_some() => State::Stalled,
            () if holds("Reconciling").filter(is_held).is_some() => State::Held,
            () => State::Moving,
        };
        (state, status.to_string())
    }

    /// All objects that controllers write.
    pub async fn objects(&self) -> Objects {
        let kinds = [
            ApiResource::erase::<DynamoGraphDeployment>(&()),
            ApiResource::erase::<DynamoComponentDeployment>(&()),
            ApiResource::erase::<DynamoGraphDeploymentScalingAdapter>(&()),
            ApiResource::erase::<Deployment>(&()),
            ApiResource::erase::<LeaderWorkerSet>(&()),
            ApiResource::erase::<PodCliqueSet>(&()),
            ApiResource::erase::<PodClique>(&()),
            ApiResource::erase::<PodCliqueScalingGroup>(&()),
            ApiResource::erase::<Service>(&()),
            ApiResource::erase::<Ingress>(&()),
            ApiResource::erase::<ConfigMap>(&()),
            ApiResource::erase::<ServiceAccount>(&()),
            ApiResource::erase::<Role>(&()),
            ApiResource::erase::<RoleBinding>(&()),
            ApiResource::erase::<HorizontalPodAutoscaler>(&()),
        ];
        let list = async |kind: &ApiResource| {
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, kind);
            match api.list(&ListParams::default()).await {
                // Not every control plane serves all of them.
                Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
                list => list.unwrap().items,
            }
        };
        let lists = join_all(kinds.iter().map(list)).await;
        let mut all = Objects::new();
        for (kind, list) in kinds.iter().zip(lists) {
            for object in list {
                let name = object.name_any();
                let mut object = serde_json::to_value(object).unwrap();
                object["kind"] = kind.kind.clone().into();
                object["apiVersion"] = kind.api_version.clone().into();
                all.insert((kind.kind.clone(), name), object);
            }
        }
        all
    }

    /// Components of the pods that are not being deleted, by uid: pods of LeaderWorkerSets keep their names. Of several
    /// pods of a group, the first.
    pub async fn pods(&self) -> BTreeMap<String, String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let all = pods.list(&ListParams::default()).await.unwrap();
        let others = ["leaderworkerset.sigs.k8s.io/worker-index", "grove.io/podclique-pod-index"];
        let is_first = |pod: &Pod| others.iter().all(|key| pod.labels().get(*key).is_none_or(|index| index == "0"));
        let present = all.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none() && is_first(pod));
        let component = |pod: &Pod| pod.labels().get("nvidia.com/dynamo-component").cloned().unwrap_or_default();
        present.map(|pod| (pod.uid().unwrap(), component(&pod))).collect()
    }
}
