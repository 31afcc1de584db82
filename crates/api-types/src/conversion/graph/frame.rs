//! A graph without its components.

use serde_json::Value;

use crate::conversion::{
    ApiVersion,
    lens::{Edit, Side},
    status::{common, each, put_names, replicas_to_alpha, replicas_to_beta, saved_names},
    value::{Object, at, copy, copy_as, object, put},
};

/// Fields of the spec that are the same in both versions.
const SAME: [&str; 7] =
    ["annotations", "labels", "priorityClassName", "backendFramework", "providerOverride", "restart", "experimental"];

/// Fields of the spec that only v1alpha1 has, and whether they are lists; the others are texts.
const ONLY_ALPHA: [(&str, bool); 3] = [("pvcs", true), ("dynamoComponent", false), ("dynamoGraph", false)];

/// Everything but the components, in one version.
pub(super) struct Frame(pub ApiVersion);

impl Side for Frame {
    fn project(&self, body: &Object) -> Object {
        let mut projected = Object::new();
        if let Some(spec) = object(body, "spec") {
            projected.insert("spec".to_owned(), Value::Object(self.spec(spec)));
        }
        if let Some(status) = object(body, "status") {
            projected.insert("status".to_owned(), Value::Object(self.status(status)));
        }
        projected
    }

    fn save(&self, original: &Object, rebuilt: &Object) -> Object {
        let mut saved = Object::new();
        if self.0 == ApiVersion::V1Beta1 {
            return saved;
        }
        for (key, _) in ONLY_ALPHA {
            if let Some(value) = at(original, &["spec", key]).filter(|value| !value.is_null()) {
                put(&mut saved, &["spec", key], Some(value.clone()));
            }
        }
        let services = at(original, &["spec", "services"]).and_then(Value::as_object);
        for (name, _) in services.into_iter().flatten().filter(|(_, service)| service.is_null()) {
            put(&mut saved, &["spec", "services", name], Some(Value::Null));
        }
        let statuses = at(original, &["status", "services"]).and_then(Value::as_object);
        for (name, service) in statuses.into_iter().flatten() {
            let rebuilt = at(rebuilt, &["status", "services", name]).and_then(Value::as_object);
            if let Some(names) = service.as_object().and_then(|before| saved_names(before, rebuilt)) {
                put(&mut saved, &["status", "services", name], Some(Value::Object(names)));
            }
        }
        saved
    }

    fn edits<'a>(&'a self, saved: &'a Object) -> Vec<Edit<'a>> {
        let mut edits: Vec<Edit<'_>> = Vec::new();
        if self.0 == ApiVersion::V1Beta1 {
            return edits;
        }
        for (key, is_list) in ONLY_ALPHA {
            let fits = |value: &&Value| if is_list { value.is_array() } else { value.is_string() };
            if let Some(value) = at(saved, &["spec", key]).filter(fits) {
                edits.push(Box::new(move |body| put_in_spec(body, &[key], value)));
            }
        }
        let services = at(saved, &["spec", "services"]).and_then(Value::as_object);
        for (name, _) in services.into_iter().flatten().filter(|(_, service)| service.is_null()) {
            edits.push(Box::new(move |body| put_in_spec(body, &["services", name], &Value::Null)));
        }
        let statuses = at(saved, &["status", "services"]).and_then(Value::as_object);
        for (name, names) in statuses.into_iter().flatten() {
            let Some(names) = names.as_object() else { continue };
            edits.push(Box::new(move |body| {
                let services = body.get_mut("status").and_then(|status| status.get_mut("services"));
                if let Some(Value::Object(service)) = services.and_then(|services| services.get_mut(name)) {
                    put_names(service, names);
                }
            }));
        }
        edits
    }
}

/// Only a graph that has a spec gets something put into it.
fn put_in_spec(body: &mut Object, path: &[&str], value: &Value) {
    if let Some(Value::Object(spec)) = body.get_mut("spec") {
        put(spec, path, Some(value.clone()));
    }
}

impl Frame {
    fn spec(&self, spec: &Object) -> Object {
        let mut projected = Object::new();
        copy(spec, &mut projected, &SAME);
        let ((env, to_env), (topology, to_topology)) = match self.0 {
            ApiVersion::V1Alpha1 => (("envs", "env"), ("topologyProfile", "clusterTopologyName")),
            ApiVersion::V1Beta1 => (("env", "envs"), ("clusterTopologyName", "topologyProfile")),
        };
        copy_as(spec, env, &mut projected, to_env);
        if let Some(constraint) = object(spec, "topologyConstraint") {
            let mut renamed = Object::new();
            copy_as(constraint, topology, &mut renamed, to_topology);
            copy(constraint, &mut renamed, &["packDomain"]);
            projected.insert("topologyConstraint".to_owned(), Value::Object(renamed));
        }
        projected
    }

    fn status(&self, status: &Object) -> Object {
        let (key, name, updated, to_updated, change): (_, _, _, _, fn(&Object) -> Object) = match self.0 {
            ApiVersion::V1Alpha1 => {
                ("services", "components", "updatedServices", "updatedComponents", replicas_to_beta)
            }
            ApiVersion::V1Beta1 => {
                ("components", "services", "updatedComponents", "updatedServices", replicas_to_alpha)
            }
        };
        let mut projected = common(status, &["services", "components", "rollingUpdate"]);
        if let Some(replicas) = each(status, key, change) {
            projected.insert(name.to_owned(), replicas);
        }
        if let Some(rollout) = object(status, "rollingUpdate") {
            let mut renamed = rollout.clone();
            renamed.remove(to_updated);
            let list = renamed.remove(updated);
            put(&mut renamed, &[to_updated], list);
            projected.insert("rollingUpdate".to_owned(), Value::Object(renamed));
        }
        projected
    }
}
