//! Defaults that the API server sets before it stores a workload or a Service.

use serde_json::{Value, json};

/// A Deployment as the server would return it.
pub fn deployment(mut object: Value) -> Value {
    let spec = &mut object["spec"];
    fill(spec, &json!({"progressDeadlineSeconds": 600, "revisionHistoryLimit": 10}));
    pod(&mut spec["template"]["spec"]);
    object
}

/// A LeaderWorkerSet as the server would return it. Its templates stay as they are sent.
pub fn leader_worker_set(mut object: Value) -> Value {
    object["apiVersion"] = json!("leaderworkerset.x-k8s.io/v1");
    object["kind"] = json!("LeaderWorkerSet");
    fill(&mut object["spec"]["leaderWorkerTemplate"], &json!({"restartPolicy": "RecreateGroupOnPodRestart"}));
    object
}

/// A Service as the server would return it, with its address masked as the kit masks it.
pub fn service(mut object: Value) -> Value {
    let defaults = json!({
        "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "clusterIP": "<allocated>", "clusterIPs": ["<allocated>"],
    });
    fill(&mut object["spec"], &defaults);
    object
}

/// A Job as the server would return it, without the names that the server makes.
pub fn job(mut object: Value) -> Value {
    let defaults = json!({
        "completionMode": "NonIndexed", "completions": 1, "manualSelector": false, "parallelism": 1,
        "podReplacementPolicy": "TerminatingOrFailed", "suspend": false,
    });
    fill(&mut object["spec"], &defaults);
    pod(&mut object["spec"]["template"]["spec"]);
    object
}

/// A recorded Job without the names that the server makes.
pub fn without_names_of_the_server(mut job: Value) -> Value {
    job["spec"].as_object_mut().unwrap().remove("selector");
    let labels = job["spec"]["template"]["metadata"]["labels"].as_object_mut().unwrap();
    labels.retain(|key, _| !key.starts_with("batch.kubernetes.io/") && key != "controller-uid" && key != "job-name");
    job
}

/// A ResourceClaimTemplate as the server would return it.
pub fn claim_template(mut object: Value) -> Value {
    fill(&mut object["spec"], &json!({"metadata": {}}));
    object
}

fn pod(spec: &mut Value) {
    let defaults = json!({
        "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
        "securityContext": {}, "terminationGracePeriodSeconds": 30,
    });
    fill(spec, &defaults);
    let account = json!({"serviceAccount": spec["serviceAccountName"]});
    fill(spec, &account);
    for list in ["containers", "initContainers"] {
        items(spec, list).for_each(container);
    }
    for volume in items(spec, "volumes") {
        for source in ["configMap", "secret", "downwardAPI", "projected"] {
            if volume.get(source).is_some() {
                fill(&mut volume[source], &json!({"defaultMode": 420}));
            }
        }
    }
}

fn container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or_default().to_owned();
    let name = image.rsplit('/').next().unwrap_or_default();
    let pinned = name.contains('@') || name.split_once(':').is_some_and(|(_, tag)| tag != "latest");
    let defaults = json!({
        "imagePullPolicy": if pinned { "IfNotPresent" } else { "Always" },
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "resources": {},
    });
    fill(container, &defaults);
    items(container, "ports").for_each(|port| fill(port, &json!({"protocol": "TCP"})));
    for variable in items(container, "env") {
        if variable.pointer("/valueFrom/fieldRef").is_some() {
            fill(&mut variable["valueFrom"]["fieldRef"], &json!({"apiVersion": "v1"}));
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container.get(kind).is_some() {
            probe(&mut container[kind]);
        }
    }
}

fn probe(probe: &mut Value) {
    let defaults = json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
    fill(probe, &defaults);
    if probe.get("httpGet").is_some() {
        fill(&mut probe["httpGet"], &json!({"path": "/", "scheme": "HTTP"}));
    }
}

fn items<'a>(parent: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    parent.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

fn fill(object: &mut Value, defaults: &Value) {
    let object = object.as_object_mut().unwrap();
    for (key, value) in defaults.as_object().unwrap() {
        object.entry(key).or_insert_with(|| value.clone());
    }
}
