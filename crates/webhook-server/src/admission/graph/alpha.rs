//! Fields that only v1alpha1 has. They live on in objects that are stored as v1beta1, and are looked at in the object's
//! v1alpha1 form.
//!
//! Fields of the legacy API that have no effect any more cause warnings.

use api_types::{annotations, env, names, violations};
use rendering::rules::vllm_executor;
use serde_json::Value;

use super::super::field::{FieldFindings, FieldNode};

/// Container that a v1alpha1 `frontendSidecar` becomes.
const SIDECAR: &str = "sidecar-frontend";

/// Checks a graph in v1alpha1.
pub(in crate::admission) fn graph(object: &FieldNode<'_>, out: &mut FieldFindings) {
    let spec = object.field("spec");
    for name in spec.field("pvcs").items().map(|claim| claim.field("name")).filter(|name| name.text().is_empty()) {
        out.required(&name, violations::CLAIM_NAME);
    }
    let metadata = object.field("metadata");
    let [namespace, name] = ["namespace", "name"].map(|field| metadata.field(field).text());
    // A service that is null is one that an overlay has removed.
    for service in spec.field("services").entries().filter(FieldNode::is_set) {
        let is_global = service.field("globalDynamoNamespace").is_true();
        component(&service, &names::dynamo_namespace(namespace, name, is_global), out);
    }
    warn_of_graph(&spec, out);
}

/// Checks a component in v1alpha1, which registers under `dynamo_namespace`.
pub(in crate::admission) fn component(component: &FieldNode<'_>, dynamo_namespace: &str, out: &mut FieldFindings) {
    let executor = component.field("annotations").key(annotations::VLLM_EXECUTOR_BACKEND);
    let path = format!("annotations[{}]", annotations::VLLM_EXECUTOR_BACKEND);
    let violation = executor.value.as_str().and_then(|executor| vllm_executor(path, executor));
    out.extend(violation.map(|violation| component.locate(violation)));
    ignored(component, dynamo_namespace, out);
    autoscaling(component, out);
    if !component.field("dynamoComponent").text().is_empty() {
        warn_of_component(component, out);
    }
    further_caches(component, out);
    let [point, path] = ["mountPoint", "mountPath"].map(|field| component.field("pvc").field(field));
    if !point.text().is_empty() && !path.text().is_empty() && point.text() != path.text() {
        out.forbidden(&path, "differs from mountPoint, which is another name of it; remove one of the two");
    }
    let ingress = component.field("ingress");
    if ingress.field("enabled").is_true() && ingress.field("host").text().is_empty() {
        out.required(&ingress.field("host"), violations::INGRESS_HOST);
    }
    if component.field("frontendSidecar").is_set()
        && component.fields(&["extraPodSpec", "containers"]).named(SIDECAR).is_some()
    {
        let detail = format!(
            "becomes the container {SIDECAR}, and extraPodSpec.containers has one of that name; remove one of the two"
        );
        out.forbidden(&component.field("frontendSidecar"), detail);
    }
}

/// Warns about fields without effect.
fn ignored(component: &FieldNode<'_>, dynamo_namespace: &str, out: &mut FieldFindings) {
    let namespace = component.field("dynamoNamespace");
    if !["", dynamo_namespace].contains(&namespace.text()) {
        let given = namespace.text();
        let text = format!("deprecated and ignored; {given:?} is replaced by {dynamo_namespace:?}; remove the field");
        out.warn(&namespace, text);
    }
    for field in ["runMode", "externalServices"].map(|field| component.field(field)).iter().filter(|it| it.is_set()) {
        out.warn(field, "has no effect; remove the field");
    }
}

/// Checks what the API server would reject in the HorizontalPodAutoscaler, or what would never scale.
fn autoscaling(component: &FieldNode<'_>, out: &mut FieldFindings) {
    let rules = component.field("autoscaling");
    if !rules.field("enabled").is_true() {
        if rules.is_set() {
            out.warn(&rules, "has no effect without enabled: true; set it, or remove the field");
        }
        return;
    }
    let [min, max] = ["minReplicas", "maxReplicas"].map(|field| rules.field(field));
    match max.value.as_i64() {
        None => out.required(&max, "set the most replicas that the HorizontalPodAutoscaler may set"),
        Some(most) if most < 1 => {
            out.invalid(&max, max.value.clone(), "is below 1; set the most replicas that the component may have");
        }
        Some(most) if min.value.as_i64().is_some_and(|least| least > most) => {
            let text = format!("is above maxReplicas, which is {most}; lower it, or raise maxReplicas");
            out.invalid(&min, min.value.clone(), text);
        }
        Some(_) => {}
    }
    if min.value.as_i64().is_some_and(|least| least < 0) {
        out.invalid(&min, min.value.clone(), "is below 0; set the least replicas that the component may have");
    }
    let resources = [component.field("resources"), component.fields(&["extraPodSpec", "mainContainer", "resources"])];
    let has_cpu = |part: FieldNode<'_>| {
        let cpu = part.field("cpu");
        cpu.value.is_string() || cpu.value.is_number()
    };
    let requests_cpu = resources.iter().any(|all| ["requests", "limits"].iter().any(|part| has_cpu(all.field(part))));
    if rules.field("metrics").value.as_array().is_none_or(Vec::is_empty) && !requests_cpu {
        let detail = "name a metric, or request CPU in resources: without metrics, the HorizontalPodAutoscaler scales by \
                      80 % of the requested CPU";
        out.required(&rules.field("metrics"), detail);
    }
}

/// Only the first mount that is marked as compilation cache is one.
fn further_caches(component: &FieldNode<'_>, out: &mut FieldFindings) {
    let mounts = component.field("volumeMounts");
    let mut caches = mounts.items().filter(|mount| mount.field("useAsCompilationCache").is_true());
    let Some(first) = caches.next() else { return };
    let has_no_path = |mount: &FieldNode<'_>| {
        mount.field("mountPoint").text().is_empty() && mount.field("name").text() != first.field("name").text()
    };
    for mount in caches.filter(has_no_path) {
        let text = format!(
            "{} is the compilation cache already; the component will not start before this mount has a mountPoint, or is \
             removed",
            first.path
        );
        out.warn(&mount, text);
    }
}

const SEVERAL_NODES: &str = "for several nodes, set multinode.nodeCount, and a command that starts each of them";
const DEBUGGING: &str = "use `kubectl debug` on a pod";

/// Annotations of a service that mean nothing any more, and what to do instead.
const MEANINGLESS: [(&str, &str); 5] = [
    (annotations::DEPLOYMENT_TYPE, SEVERAL_NODES),
    (annotations::LWS_SIZE, SEVERAL_NODES),
    (annotations::DEBUG_MODE, DEBUGGING),
    (annotations::DEBUG_STEALING_TRAFFIC, DEBUGGING),
    (annotations::DEBUG_POD_TRAFFIC, DEBUGGING),
];

/// Warns about a graph in v1alpha1 whose images are built from an archive.
fn warn_of_graph(spec: &FieldNode<'_>, out: &mut FieldFindings) {
    let sources = ["dynamoComponent", "dynamoGraph"].map(|field| spec.field(field));
    let Some(source) = sources.iter().find(|source| !source.text().is_empty()) else { return };
    let services = spec.field("services");
    let mut named = services.entries().filter(FieldNode::is_set).peekable();
    if named.peek().is_some() && named.all(|service| has_program(&service)) {
        let text = format!(
            "the manifest in the archive is not read, because each service says what it runs; set workers, resources \
             and envs of the manifest in {}",
            services.path
        );
        out.warn(source, text);
    }
    configuration(spec, out);
    for service in services.entries() {
        warn_of_component(&service, out);
    }
}

/// Whether a service of such a graph needs no manifest.
fn has_program(service: &FieldNode<'_>) -> bool {
    let main = service.field("extraPodSpec").field("mainContainer");
    ["dynamoTag", "componentType"].into_iter().any(|field| !service.field(field).text().is_empty())
        || !main.field("image").text().is_empty()
        || ["command", "args"].into_iter().any(|field| main.field(field).items().next().is_some())
}

/// Warns about a component in v1alpha1 whose image is built from an archive.
fn warn_of_component(component: &FieldNode<'_>, out: &mut FieldFindings) {
    let given = component.field("annotations");
    for (key, remedy) in MEANINGLESS {
        let annotation = given.key(key);
        if !["", "false"].contains(&annotation.text()) {
            out.warn(&annotation, format!("has no effect; {remedy}, and remove the annotation"));
        }
    }
    configuration(component, out);
}

/// Warns about services that would have been spread over nodes.
fn configuration(within: &FieldNode<'_>, out: &mut FieldFindings) {
    let Some(variable) = within.field("envs").named(env::DYN_DEPLOYMENT_CONFIG) else { return };
    let value = variable.field("value");
    let config: Value = serde_json::from_str(value.text()).unwrap_or_default();
    for (service, said) in config.as_object().into_iter().flatten() {
        if spans_nodes(&said["ServiceArgs"]) {
            out.warn(&value, format!("total_gpus of {service} has no effect; {SEVERAL_NODES}"));
        }
    }
}

/// Whether a service requests more GPUs in all than on one node.
fn spans_nodes(args: &Value) -> bool {
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
    let (total, on_one) = (number(&args["total_gpus"]), number(&args["resources"]["gpu"]));
    total.zip(on_one).is_some_and(|(total, on_one)| on_one > 0.0 && total > on_one)
}
