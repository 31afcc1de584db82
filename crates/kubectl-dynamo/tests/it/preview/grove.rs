//! Simulation of Grove's operator, as far as the controllers observe it: it creates the cliques and groups of each
//! PodCliqueSet, their pods, and their status. Pods of an older template are replaced all at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use api_types::grove::{ENGINE_GROUP, POD_CLIQUE, PodClique, PodCliqueScalingGroup, PodCliqueSet};
use futures::{FutureExt, StreamExt, stream::select_all};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::ApiResource,
    runtime::watcher,
};
use serde_json::{Value, json};
use test_cluster::{
    Cluster, Options,
    assets::{Assets, ForeignApi},
};

use super::NODES;
use crate::definitions::{own, read};

/// Time between a change and what is done about it.
const PACE: Duration = Duration::from_millis(50);
const RETRY: Duration = Duration::from_secs(2);

/// Grove's operator for one namespace.
pub struct Grove {
    client: Client,
    namespace: String,
}

/// A control plane with Grove's definitions. `None` where they cannot be had, which is printed.
pub async fn cluster() -> Option<Cluster> {
    let foreign = match Assets::from_env().unwrap().definitions(ForeignApi::Grove) {
        Ok(paths) => paths,
        Err(error) => {
            eprintln!("skipped: the definitions of Grove: {error}");
            return None;
        }
    };
    let crds = own().into_iter().chain(foreign.iter().map(|path| read(path))).collect();
    Some(Cluster::start(Options { crds, ..Options::with_nodes(NODES) }).await.unwrap())
}

/// A clique or group with its pods: their names, labels and specs.
struct Child {
    resource: ApiResource,
    name: String,
    labels: Value,
    replicas: Value,
    pods_of_replica: Vec<(String, Value)>,
}

fn hash(value: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    format!("{:x}", hasher.finish())[..6].to_owned()
}

impl Grove {
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned() }
    }

    /// Acts after each change.
    pub async fn run(self) {
        let kinds = [
            ApiResource::erase::<PodCliqueSet>(&()),
            ApiResource::erase::<PodClique>(&()),
            ApiResource::erase::<PodCliqueScalingGroup>(&()),
            ApiResource::erase::<Pod>(&()),
        ];
        let watch = |kind: &ApiResource| watcher(self.api(kind), watcher::Config::default()).boxed();
        let mut changes = select_all(kinds.iter().map(watch));
        loop {
            // What failed is tried again without a change.
            drop(tokio::time::timeout(RETRY, changes.next()).await);
            // Changes come together.
            tokio::time::sleep(PACE).await;
            while changes.next().now_or_never().is_some() {}
            // Conflicts, and namespaces that go, are of no concern here.
            if let Err(error) = self.act().await
                && !matches!(&error, kube::Error::Api(_))
            {
                eprintln!("the played Grove: {error}");
            }
        }
    }

    fn api(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, resource)
    }

    async fn act(&self) -> Result<(), kube::Error> {
        let resource = ApiResource::erase::<PodCliqueSet>(&());
        for set in self.api(&resource).list(&ListParams::default()).await? {
            if set.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let template = hash(&json!(children(&set).iter().map(|c| &c.pods_of_replica).collect::<Vec<_>>()));
            for child in children(&set) {
                self.make(&set, &child, &template).await?;
            }
            self.remove_others(&set).await?;
            let status = json!({ "observedGeneration": set.metadata.generation, "currentGenerationHash": template,
                "replicas": 1, "availableReplicas": 1, "updatedReplicas": 1 });
            self.write_status(&resource, &set, status).await?;
        }
        Ok(())
    }

    /// Deletes the cliques and groups that the set no longer has. Their pods go with them.
    async fn remove_others(&self, set: &DynamicObject) -> Result<(), kube::Error> {
        let names: BTreeSet<String> = children(set).into_iter().map(|child| child.name).collect();
        for resource in [ApiResource::erase::<PodClique>(&()), ApiResource::erase::<PodCliqueScalingGroup>(&())] {
            let api = self.api(&resource);
            for one in api.list(&ListParams::default()).await? {
                if !names.contains(&one.name_any()) && one.metadata.deletion_timestamp.is_none() {
                    api.delete(&one.name_any(), &DeleteParams::background()).await?;
                }
            }
        }
        Ok(())
    }

    async fn make(&self, set: &DynamicObject, child: &Child, template: &str) -> Result<(), kube::Error> {
        let api = self.api(&child.resource);
        let Some(live) = api.get_opt(&child.name).await? else {
            let owner = set.controller_owner_ref(&ApiResource::erase::<PodCliqueSet>(&()));
            let is_group = child.resource.kind == "PodCliqueScalingGroup";
            let cliques: Vec<&String> = child.pods_of_replica.iter().map(|(name, _)| name).collect();
            let pod = child.pods_of_replica.first().map(|(_, pod)| pod["spec"].clone());
            let spec = match is_group {
                true => json!({ "replicas": child.replicas, "minAvailable": 1, "cliqueNames": cliques }),
                false => json!({ "replicas": child.replicas, "roleName": child.name, "podSpec": pod }),
            };
            let object = json!({ "apiVersion": child.resource.api_version, "kind": child.resource.kind,
                "metadata": { "name": child.name, "labels": child.labels, "ownerReferences": [owner] }, "spec": spec });
            return api.patch(&child.name, &PatchParams::apply("grove"), &Patch::Apply(&object)).await.map(drop);
        };
        let replicas = live.data["spec"]["replicas"].as_u64().unwrap_or_default();
        let (exist, ready) = self.pods(&live, child, replicas).await?;
        let is_group = child.resource.kind == "PodCliqueScalingGroup";
        let mut status = json!({ "observedGeneration": live.metadata.generation,
            "currentPodCliqueSetGenerationHash": template, "replicas": exist, "updatedReplicas": exist,
            "scheduledReplicas": exist });
        match is_group {
            true => status["availableReplicas"] = json!(ready),
            false => {
                status["readyReplicas"] = json!(ready);
                status["scheduleGatedReplicas"] = json!(0);
            }
        }
        self.write_status(&child.resource, &live, status).await
    }

    /// Makes and deletes pods. Returns how many replicas there are, and how many have all their pods ready.
    async fn pods(&self, live: &DynamicObject, child: &Child, replicas: u64) -> Result<(usize, usize), kube::Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let own = ListParams::default().labels(&format!("test/child={}", child.name));
        let present: BTreeMap<String, Pod> =
            api.list(&own).await?.into_iter().map(|pod| (pod.name_any(), pod)).collect();
        let [group, index, position] = ENGINE_GROUP;
        let templates: Vec<_> = child.pods_of_replica.iter().map(|(_, pod)| pod).collect();
        let (mut desired, mut ready, print) = (BTreeSet::new(), 0, hash(&json!(templates)));
        let mut exist = 0;
        for replica in 0..replicas {
            let mut of_replica = Vec::new();
            for (number, (clique, pod)) in child.pods_of_replica.iter().enumerate() {
                let name = format!("{}-{replica}-{clique}-{print}", child.name);
                let mut pod = pod.clone();
                let labels = &mut pod["metadata"]["labels"];
                labels["test/child"] = json!(child.name);
                match child.resource.kind.as_str() {
                    "PodClique" => labels[POD_CLIQUE] = json!(child.name),
                    _ => {
                        labels[POD_CLIQUE] = json!(format!("{}-{replica}-{clique}", child.name));
                        labels[group] = json!(child.name);
                        labels[index] = json!(replica.to_string());
                    }
                }
                labels[position] = json!(number.to_string());
                pod["metadata"]["name"] = json!(name);
                pod["metadata"]["ownerReferences"] = json!([live.controller_owner_ref(&child.resource)]);
                if !present.contains_key(&name) {
                    let pod: Pod = serde_json::from_value(pod).unwrap();
                    api.create(&Default::default(), &pod).await?;
                }
                of_replica.push(present.get(&name).is_some_and(is_ready));
                desired.insert(name);
            }
            exist += 1;
            ready += usize::from(of_replica.iter().all(|ready| *ready));
        }
        for (name, pod) in present.iter().filter(|(name, _)| !desired.contains(*name)) {
            exist += usize::from(pod.metadata.deletion_timestamp.is_none());
            api.delete(name, &DeleteParams::default().grace_period(0)).await?;
        }
        Ok((exist, ready))
    }

    async fn write_status(
        &self,
        resource: &ApiResource,
        live: &DynamicObject,
        status: Value,
    ) -> Result<(), kube::Error> {
        let known = &live.data["status"];
        let differs = status.as_object().unwrap().iter().any(|(field, value)| known[field] != *value);
        if differs {
            let patch = Patch::Merge(json!({ "status": status }));
            self.api(resource).patch_status(&live.name_any(), &PatchParams::default(), &patch).await?;
        }
        Ok(())
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

fn children(set: &DynamicObject) -> Vec<Child> {
    let template = &set.data["spec"]["template"];
    let list = |name: &str| template[name].as_array().cloned().unwrap_or_default();
    let (cliques, groups) = (list("cliques"), list("podCliqueScalingGroups"));
    let name = |item: &Value| item["name"].as_str().unwrap().to_owned();
    let pod = |clique: &Value| {
        let metadata = json!({ "labels": clique["labels"], "annotations": clique["annotations"] });
        let mut spec = clique["spec"]["podSpec"].clone();
        // No such account exists here, and no scheduler but the default one runs.
        for field in ["serviceAccountName", "schedulerName", "schedulingGates"] {
            spec.as_object_mut().unwrap().remove(field);
        }
        (name(clique), json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec }))
    };
    let is_grouped =
        |clique: &&Value| groups.iter().any(|group| group["cliqueNames"].as_array().unwrap().contains(&clique["name"]));
    let alone = cliques.iter().filter(|clique| !is_grouped(clique)).map(|clique| Child {
        resource: ApiResource::erase::<PodClique>(&()),
        name: format!("{}-0-{}", set.name_any(), name(clique)),
        labels: clique["labels"].clone(),
        replicas: clique["spec"]["replicas"].clone(),
        pods_of_replica: vec![pod(clique)],
    });
    let together = groups.iter().map(|group| {
        let own = cliques.iter().filter(|clique| group["cliqueNames"].as_array().unwrap().contains(&clique["name"]));
        Child {
            resource: ApiResource::erase::<PodCliqueScalingGroup>(&()),
            name: format!("{}-0-{}", set.name_any(), name(group)),
            labels: json!({}),
            replicas: group["replicas"].clone(),
            pods_of_replica: own.map(pod).collect(),
        }
    });
    alone.chain(together).collect()
}
