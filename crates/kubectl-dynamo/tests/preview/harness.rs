//! A namespace with both controllers in it, and the objects that they write.

use std::{collections::BTreeMap, time::Duration};

use api_types::{
    grove::{PodClique, PodCliqueScalingGroup, PodCliqueSet},
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter},
};
use controller_kit::{scope::Fence, settings::OperatorConfiguration, store::Scope};
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
use test_cluster::{
    Access, TestNamespace, account,
    assets::{Assets, ForeignApi},
    shared, wait,
};

use crate::{
    controllers::Controllers,
    definitions::{own, read},
    grove::Grove,
};

/// How long a rollout may take; generous, because the machine may have much to do.
pub const LIMIT: Duration = Duration::from_secs(240);

/// Objects by kind and name.
pub type Objects = BTreeMap<(String, String), Value>;

/// What runs the pods of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    Deployments,
    LeaderWorkerSets,
    Grove,
}

/// A namespace with both controllers in it.
pub struct Harness {
    pub client: Client,
    pub namespace: String,
    pub operator: Operator,
    _controllers: Controllers,
    _guard: TestNamespace,
}

impl Harness {
    /// A graph runs as Deployments here.
    pub async fn new(prefix: &str) -> Self {
        Self::on(shared(&definitions()).await.unwrap(), prefix, Provider::Deployments).await
    }

    /// The same with another provider. What carries it out has to run.
    pub async fn on(access: &Access, prefix: &str, provider: Provider) -> Self {
        let guard = TestNamespace::new(access, prefix).await.unwrap();
        let (client, namespace) = (guard.client(), guard.name().to_owned());
        let mut settings = OperatorConfiguration::default();
        settings.orchestrators.grove.enabled = Some(provider == Provider::Grove);
        if provider == Provider::Grove {
            tokio::spawn(Grove::new(client.clone(), &namespace).run());
        }
        settings.namespace.restricted.clone_from(&namespace);
        let scope = Scope::Namespace(namespace.clone());
        let controllers = Controllers::new(settings.clone(), scope, Fence::unfenced());
        controllers.start(&client);
        Self { client, namespace, operator: Operator::with(settings), _controllers: controllers, _guard: guard }
    }

    /// A client of a user who may read these resources, and write nothing.
    pub async fn reader(&self, rules: &Value) -> Client {
        let access = shared(&definitions()).await.unwrap();
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
    pub async fn graph(&self, name: &str) -> Value {
        let mut graph = serde_json::to_value(self.graphs().get(name).await.unwrap()).unwrap();
        graph["metadata"].as_object_mut().unwrap().remove("managedFields");
        graph
    }

    /// Replaces the spec of a graph, or creates it. Returns the graph as it is stored.
    pub async fn write(&self, name: &str, spec: &Value) -> Value {
        let graphs = self.graphs();
        let mut graph = graph_of(name, spec);
        let stored = match graphs.get_opt(name).await.unwrap() {
            None => {
                let graph = serde_json::from_value(graph).unwrap();
                graphs.create(&PostParams::default(), &graph).await.unwrap()
            }
            Some(_) => loop {
                graph["metadata"] = self.graph(name).await["metadata"].take();
                let graph = serde_json::from_value(graph.clone()).unwrap();
                match graphs.replace(name, &PostParams::default(), &graph).await {
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    answer => break answer.unwrap(),
                }
            },
        };
        let mut stored = serde_json::to_value(stored).unwrap();
        stored["kind"] = "DynamoGraphDeployment".into();
        stored
    }

    /// What a spec will do to a graph.
    pub async fn predict(&self, name: &str, spec: &Value) -> Prediction {
        self.predict_as(&self.client, name, spec).await
    }

    /// What it will do as far as the user of a client can know.
    pub async fn predict_as(&self, client: &Client, name: &str, spec: &Value) -> Prediction {
        let edit = match self.graphs().get_opt(name).await.unwrap() {
            None => Edit::Manifest(graph_of(name, spec)),
            Some(_) => {
                let mut graph = self.graph(name).await;
                graph["spec"] = spec.clone();
                Edit::Replacement(graph)
            }
        };
        predict(client, &self.namespace, &edit, &self.operator, Timestamp::now()).await.unwrap()
    }

    /// Waits until the graph says of its present generation that it is ready.
    pub async fn ready(&self, name: &str) {
        let look = async || {
            let graph = self.graph(name).await;
            let status = &graph["status"];
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let is_ready = conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
            let is_current = status["observedGeneration"] == graph["metadata"]["generation"];
            if is_ready && is_current { Ok(()) } else { Err(status.to_string()) }
        };
        wait::until(format!("{name} to be ready"), LIMIT, look).await.unwrap();
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
        let mut all = Objects::new();
        for kind in kinds {
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &kind);
            let list = match api.list(&ListParams::default()).await {
                // Not every control plane serves all of them.
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                list => list.unwrap(),
            };
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

    /// Names of the pods that are not being deleted, by component. Of several pods of a group, the first.
    pub async fn pods(&self) -> BTreeMap<String, String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let all = pods.list(&ListParams::default()).await.unwrap();
        let others = ["leaderworkerset.sigs.k8s.io/worker-index", "grove.io/podclique-pod-index"];
        let is_first = |pod: &Pod| others.iter().all(|key| pod.labels().get(*key).is_none_or(|index| index == "0"));
        let present = all.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none() && is_first(pod));
        let component = |pod: &Pod| pod.labels().get("nvidia.com/dynamo-component").cloned().unwrap_or_default();
        present.map(|pod| (pod.name_any(), component(&pod))).collect()
    }
}

fn graph_of(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": { "name": name }, "spec": spec })
}

pub fn definitions() -> Vec<Value> {
    let foreign = Assets::from_env().unwrap().definitions(ForeignApi::Grove).unwrap();
    own().into_iter().chain(foreign.iter().map(|path| read(path))).collect()
}
