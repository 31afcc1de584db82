//! PodCliqueSets as Grove's operator would carry them out: the cliques and scaling groups of each, and their status.
//! Their replicas are not in the template: Grove takes them from there once, when it makes a child.

use std::collections::BTreeSet;

use api_types::grove::ON_DELETE;
use controller_kit::apply::fingerprint;
use serde_json::{Value, json};

use crate::preview::objects::{ObjectKey, PreviewObjects, owners};

const GROUP: &str = "grove.io";
const SETS: &str = "podcliquesets";
const CLIQUES: &str = "podcliques";
const GROUPS: &str = "podcliquescalinggroups";

/// A PodClique or PodCliqueScalingGroup that a PodCliqueSet consists of.
pub struct GroveChild {
    /// Key of the child.
    pub key: ObjectKey,
    /// Pod templates of a replica, each with its number of pods.
    pub templates: Vec<(i64, Value)>,
    /// Whether pods of an older template go only when a user deletes them.
    pub on_delete: bool,
    /// Priority class of its pods.
    priority: Value,
    /// Replicas that it begins with.
    replicas: Value,
}

impl GroveChild {
    /// Fingerprint of its pod templates.
    pub fn fingerprint(&self) -> String {
        fingerprint(&json!([self.priority, self.templates]))
    }

    /// The object as Grove makes it, as far as the controllers read it.
    fn object(&self, set: &Value) -> Value {
        let kind = if self.key.plural == CLIQUES { "PodClique" } else { "PodCliqueScalingGroup" };
        let labels = self.templates.first().map(|(_, template)| template["metadata"]["labels"].clone());
        let owner = json!({ "apiVersion": set["apiVersion"], "kind": "PodCliqueSet", "name": set["metadata"]["name"],
            "uid": set["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true });
        json!({
            "apiVersion": set["apiVersion"], "kind": kind,
            "metadata": { "name": self.key.name, "namespace": self.key.namespace,
                "labels": labels.filter(|_| kind == "PodClique").unwrap_or_else(|| json!({})),
                "ownerReferences": [owner] },
            "spec": { "replicas": self.replicas },
        })
    }
}

/// The children of all PodCliqueSets.
pub fn children(objects: &PreviewObjects) -> Vec<GroveChild> {
    objects.of_kind(GROUP, SETS).flat_map(|(key, set)| children_of(key, set)).collect()
}

/// Fingerprint of the pod templates that a child had when the objects were read.
pub fn template_before(objects: &PreviewObjects, child: &ObjectKey) -> Option<String> {
    let keys = objects.keys().into_iter().filter(|key| key.plural == SETS && key.group == GROUP);
    let sets = keys.filter_map(|key| Some((key, objects.before(key)?)));
    let mut all = sets.flat_map(|(key, set)| children_of(key, set));
    all.find(|found| found.key == *child).map(|found| found.fingerprint())
}

fn children_of(set_key: &ObjectKey, set: &Value) -> Vec<GroveChild> {
    let template = &set["spec"]["template"];
    let all = |list: &str| template[list].as_array().cloned().unwrap_or_default();
    let (cliques, groups) = (all("cliques"), all("podCliqueScalingGroups"));
    let on_delete = set.pointer("/spec/updateStrategy/type").is_some_and(|type_| type_ == ON_DELETE);
    let child = |plural: &str, name: &Value, templates, replicas: &Value| GroveChild {
        key: ObjectKey {
            group: GROUP.to_owned(),
            plural: plural.to_owned(),
            namespace: set_key.namespace.clone(),
            name: format!("{}-0-{}", set_key.name, name.as_str().unwrap_or_default()),
        },
        templates,
        on_delete,
        priority: template["priorityClassName"].clone(),
        replicas: if replicas.is_null() { json!(1) } else { replicas.clone() },
    };
    let names = |group: &Value| group["cliqueNames"].as_array().cloned().unwrap_or_default();
    let grouped: Vec<Value> = groups.iter().flat_map(names).collect();
    let alone = cliques.iter().filter(|clique| !grouped.contains(&clique["name"]));
    let alone = alone
        .map(|clique| child(CLIQUES, &clique["name"], vec![(1, pod_template(clique))], &clique["spec"]["replicas"]));
    let together = groups.iter().map(|group| {
        let names = names(group);
        let own = cliques.iter().filter(|clique| names.contains(&clique["name"]));
        let count = |clique: &Value| clique["spec"]["replicas"].as_i64().unwrap_or(1);
        let templates = own.map(|clique| (count(clique), pod_template(clique))).collect();
        child(GROUPS, &group["name"], templates, &group["replicas"])
    });
    alone.chain(together).collect()
}

fn pod_template(clique: &Value) -> Value {
    let metadata = json!({ "labels": clique["labels"], "annotations": clique["annotations"] });
    json!({ "metadata": metadata, "spec": clique["spec"]["podSpec"] })
}

/// Makes and deletes children, and writes the status of sets. Returns whether anything changed.
pub fn carry_out(objects: &mut PreviewObjects) -> bool {
    let mut changed = false;
    let sets: Vec<(ObjectKey, Value)> =
        objects.of_kind(GROUP, SETS).map(|(key, set)| (key.clone(), set.clone())).collect();
    for (key, set) in sets.iter().filter(|(_, set)| set.pointer("/metadata/deletionTimestamp").is_none()) {
        let all = children_of(key, set);
        let names: BTreeSet<&ObjectKey> = all.iter().map(|child| &child.key).collect();
        let is_own = |object: &Value| owners(object).any(|owner| owner["uid"] == set["metadata"]["uid"]);
        let present: Vec<ObjectKey> = [CLIQUES, GROUPS]
            .into_iter()
            .flat_map(|plural| objects.of_kind(GROUP, plural))
            .filter(|(_, object)| is_own(object))
            .map(|(key, _)| key.clone())
            .collect();
        for gone in present.iter().filter(|key| !names.contains(key)) {
            objects.remove(gone);
            changed = true;
        }
        let hash = hash_of(objects.before(key), key, set);
        for child in &all {
            if objects.get(&child.key).is_none() {
                objects.gain(&child.key, child.object(set));
                changed = true;
            }
            changed |= follow(objects, &child.key, &hash);
        }
        changed |= observe(objects, key, set, &hash);
    }
    changed
}

/// The hash by which Grove names the template of a set: the live one while the template stays.
fn hash_of(before: Option<&Value>, key: &ObjectKey, set: &Value) -> Value {
    let prints = |set: &Value| children_of(key, set).iter().map(GroveChild::fingerprint).collect::<Vec<_>>();
    let live = before.filter(|before| prints(before) == prints(set));
    let known = live.and_then(|live| live.pointer("/status/currentGenerationHash")).filter(|hash| hash.is_string());
    known.cloned().unwrap_or_else(|| json!(fingerprint(&json!(prints(set)))))
}

fn follow(objects: &mut PreviewObjects, child: &ObjectKey, hash: &Value) -> bool {
    let Some(object) = objects.get(child) else { return false };
    let mut status = object.get("status").cloned().unwrap_or_else(|| json!({}));
    status["currentPodCliqueSetGenerationHash"] = hash.clone();
    objects.set_status(child, status)
}

fn observe(objects: &mut PreviewObjects, key: &ObjectKey, set: &Value, hash: &Value) -> bool {
    let mut status = set.get("status").cloned().unwrap_or_else(|| json!({}));
    status["observedGeneration"] = set["metadata"]["generation"].clone();
    status["currentGenerationHash"] = hash.clone();
    if let Some(fields) = status.as_object_mut() {
        fields.remove("updateProgress");
    }
    objects.set_status(key, status)
}

/// The status of a child with so many pods, or replicas of a group.
pub fn status_of_child(child: &Value, (pods, updated, ready): (usize, usize, usize), is_group: bool) -> Value {
    let mut status = child.get("status").cloned().unwrap_or_else(|| json!({}));
    status["observedGeneration"] = child["metadata"]["generation"].clone();
    for (field, count) in [("replicas", pods), ("updatedReplicas", updated), ("scheduledReplicas", pods)] {
        status[field] = json!(count);
    }
    match is_group {
        true => status["availableReplicas"] = json!(ready),
        false => {
            status["readyReplicas"] = json!(ready);
            status["scheduleGatedReplicas"] = json!(0);
        }
    }
    if let Some(fields) = status.as_object_mut() {
        fields.remove("updateProgress");
    }
    status
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::preview::{objects::Preconditions, pods::PreviewPods};

    fn key(plural: &str, name: &str) -> ObjectKey {
        let text = str::to_owned;
        ObjectKey { group: text(GROUP), plural: text(plural), namespace: text("n"), name: text(name) }
    }

    fn clique(name: &str, component: &str, replicas: usize, image: &str) -> Value {
        json!({ "name": name, "labels": { "nvidia.com/dynamo-component": component }, "spec": { "replicas": replicas,
            "podSpec": { "containers": [{ "image": image, "resources": { "limits": { "nvidia.com/gpu": "8" } } }] } } })
    }

    /// A frontend, and workers that span two nodes each.
    fn set(image: &str, strategy: &str) -> Value {
        json!({
            "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
            "metadata": { "name": "chat", "namespace": "n", "uid": "u", "generation": 1 },
            "spec": { "updateStrategy": { "type": strategy }, "template": {
                "cliques": [clique("frontend", "Frontend", 1, "f"), clique("ldr", "Decode", 1, image),
                    clique("wkr", "Decode", 1, image)],
                "podCliqueScalingGroups": [{ "name": "decode", "cliqueNames": ["ldr", "wkr"], "replicas": 2 }] } },
        })
    }

    fn settle(objects: &mut PreviewObjects, pods: &mut PreviewPods) -> Vec<(usize, usize)> {
        let mut steps = Vec::new();
        for _ in 0..50 {
            let mut moved = carry_out(objects);
            moved |= !pods.react(objects).is_empty();
            let of_groups = || pods.all().iter().filter(|pod| pod.workload.plural == GROUPS);
            steps.push((of_groups().count(), of_groups().filter(|pod| pod.ready).count()));
            moved |= pods.make_ready();
            for (key, status) in pods.statuses(objects) {
                moved |= objects.set_status(&key, status);
            }
            if !moved {
                return steps;
            }
        }
        panic!("it does not end: {steps:?}");
    }

    fn made(strategy: &str) -> (PreviewObjects, PreviewPods) {
        let mut objects = PreviewObjects::new(Timestamp::UNIX_EPOCH);
        objects.read(key(SETS, "chat"), set("a", strategy));
        let mut pods = PreviewPods::read(&objects, Some(&[]));
        settle(&mut objects, &mut pods);
        (objects, pods)
    }

    #[test]
    fn a_set_becomes_cliques_and_groups_that_serve() {
        let (objects, pods) = made("RollingRecreate");
        let status = |plural, name| objects.get(&key(plural, name)).unwrap()["status"].clone();
        assert_eq!(status(CLIQUES, "chat-0-frontend")["readyReplicas"], 1);
        assert_eq!(status(GROUPS, "chat-0-decode")["availableReplicas"], 2);
        let (set, hash) = (status(SETS, "chat"), status(CLIQUES, "chat-0-frontend"));
        assert_eq!(set["currentGenerationHash"], hash["currentPodCliqueSetGenerationHash"]);
        assert_eq!((pods.all().len(), crate::preview::pods::gpus(pods.all())), (3, 40));
    }

    #[test]
    fn another_template_replaces_one_replica_after_the_other_and_other_cliques_stay() {
        for (strategy, replaced) in [("RollingRecreate", 2), (ON_DELETE, 0)] {
            let (mut objects, mut pods) = made(strategy);
            let names = |pods: &PreviewPods| pods.all().iter().map(|pod| pod.name.clone()).collect::<BTreeSet<_>>();
            let before = names(&pods);
            let edit = |object: &mut Value| {
                object["spec"] = set("b", strategy)["spec"].clone();
                Ok(())
            };
            objects.patch(&key(SETS, "chat"), Preconditions::default(), edit).unwrap();
            let steps = settle(&mut objects, &mut pods);
            assert_eq!(before.difference(&names(&pods)).count(), replaced, "{strategy}");
            assert!(steps.iter().all(|(all, _)| (1..=2).contains(all)), "{strategy}: {steps:?}");
        }
    }

    #[test]
    fn children_without_a_template_go() {
        let (mut objects, mut pods) = made("RollingRecreate");
        let edit = |object: &mut Value| {
            object["spec"]["template"]["podCliqueScalingGroups"] = json!([]);
            object["spec"]["template"]["cliques"].as_array_mut().unwrap().truncate(1);
            Ok(())
        };
        objects.patch(&key(SETS, "chat"), Preconditions::default(), edit).unwrap();
        settle(&mut objects, &mut pods);
        assert!(objects.get(&key(GROUPS, "chat-0-decode")).is_none());
        assert_eq!(pods.all().len(), 1);
    }
}
