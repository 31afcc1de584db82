//! `DynamoGraphDeployment`: a map of services in v1alpha1, a list of components in v1beta1.
//!
//! A graph is converted in parts: its frame, which is the graph without its components, and each component.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use super::{
    ApiVersion, ConversionSource,
    component::{Alpha, Beta, Name, common, each, put_names, replicas_to_alpha, replicas_to_beta, saved_names},
    lens,
    lens::{RestoreEdit, Saved, Side, WHOLE},
    residue::Residue,
    value::{Object, at, copy, copy_as, each_part, filled, name_of, object, put, put_in_part},
};

/// Prefix of the names of a component's seals.
const PART: &str = "component/";

/// The place of the components in the spec.
fn place(version: ApiVersion) -> &'static str {
    match version {
        ApiVersion::V1Alpha1 => "services",
        ApiVersion::V1Beta1 => "components",
    }
}

pub(super) fn convert_graph(source: ConversionSource<'_>) -> (Object, Option<Saved>) {
    let from = source.to.other();
    let (frame, components) = split(source.body, from);
    let mut saved_for = source.saved.map(|saved| split_saved(saved, source.to));
    let frame_saved = saved_for.as_ref().map(|saved| &saved.frame);
    let (alpha, beta) = (Frame(ApiVersion::V1Alpha1), Frame(ApiVersion::V1Beta1));
    let (mut target, saved) = lens::convert_part(&frame, frame_saved, source.to, &alpha, &beta);
    let mut saved = saved.unwrap_or_default();
    let mut converted = Vec::new();
    let mut lost = Vec::new();
    let sorted = components.is_sorted_by(|a, b| a.0 < b.0);
    for (name, component) in components {
        let known = saved_for.as_mut().and_then(|saved| saved.components.remove(&name));
        let key = Name::Key(&name);
        let (component, missing) = lens::convert_part(&component, known.as_ref(), source.to, &Alpha(key), &Beta(key));
        if !sorted || missing.is_some() {
            lost.push((name.clone(), missing.unwrap_or_default()));
        }
        converted.push((name, component));
    }
    join(&mut target, converted, source.to, saved_for.as_ref().map_or(&[][..], |saved| &saved.order));
    join_saved(&mut saved, lost, from);
    (target, (!saved.is_empty()).then_some(saved))
}

/// The frame, and the components by name in their order. What is not a component stays in the frame.
fn split(mut body: Object, version: ApiVersion) -> (Object, Vec<(String, Object)>) {
    let mut components = Vec::new();
    let Some(Value::Object(spec)) = body.get_mut("spec") else { return (body, components) };
    match spec.get_mut(place(version)) {
        Some(Value::Object(services)) if version == ApiVersion::V1Alpha1 => {
            for (name, service) in std::mem::take(services) {
                match service {
                    Value::Object(service) => components.push((name, service)),
                    other => drop(services.insert(name, other)),
                }
            }
            if services.is_empty() && !components.is_empty() {
                spec.remove(place(version));
            }
        }
        Some(Value::Array(list)) if version == ApiVersion::V1Beta1 && are_named(list) => {
            for component in std::mem::take(list) {
                if let (Some(name), Value::Object(fields)) = (name_of(&component).map(ToOwned::to_owned), component) {
                    components.push((name, fields));
                }
            }
            spec.remove(place(version));
        }
        _ => {}
    }
    (body, components)
}

/// Whether the list has entries, and each is an object with a name of its own.
fn are_named(list: &[Value]) -> bool {
    let names: BTreeSet<&str> = list.iter().filter_map(name_of).collect();
    !list.is_empty() && names.len() == list.len()
}

/// Puts the components into the spec: sorted, but in the saved order if they were not sorted.
fn join(target: &mut Object, mut components: Vec<(String, Object)>, version: ApiVersion, order: &[String]) {
    if components.is_empty() {
        return;
    }
    let Some(Value::Object(spec)) = target.get_mut("spec") else { return };
    if version == ApiVersion::V1Alpha1 {
        let services = spec.entry(place(version)).or_insert_with(|| json!({}));
        // A saved null is from before there were components.
        if !services.is_object() {
            *services = json!({});
        }
        if let Value::Object(services) = services {
            services.extend(components.into_iter().map(|(name, service)| (name, Value::Object(service))));
        }
        return;
    }
    components.sort_by(|a, b| a.0.cmp(&b.0));
    if !order.is_sorted() {
        // From the last to the first, so that the first stays.
        let ranks: HashMap<&String, usize> = order.iter().enumerate().rev().map(|(rank, name)| (name, rank)).collect();
        components.sort_by_key(|(name, _)| ranks.get(name).copied().unwrap_or(order.len()));
    }
    let list = components.into_iter().map(|(_, component)| Value::Object(component)).collect();
    spec.insert(place(version).to_owned(), Value::Array(list));
}

/// Saved data, for the frame and for each component.
struct SavedParts {
    frame: Saved,
    components: BTreeMap<String, Saved>,
    /// The names of the saved components, as they were listed.
    order: Vec<String>,
}

fn split_saved(mut saved: Saved, version: ApiVersion) -> SavedParts {
    let mut parts = SavedParts { frame: Saved::default(), components: BTreeMap::new(), order: Vec::new() };
    let listed = saved.sparse.get_mut("spec").and_then(|spec| spec.get_mut(place(version)));
    let named: Vec<(String, &mut Value)> = match (version, listed) {
        (ApiVersion::V1Alpha1, Some(Value::Object(services))) => {
            services.iter_mut().map(|(name, service)| (name.clone(), service)).collect()
        }
        (ApiVersion::V1Beta1, Some(Value::Array(components))) => {
            components.iter_mut().filter_map(|component| Some((name_of(component)?.to_owned(), component))).collect()
        }
        _ => Vec::new(),
    };
    for (name, component) in named {
        if let Value::Object(component) = component {
            let sparse = Saved { sparse: std::mem::take(component), ..Saved::default() };
            parts.order.push(name.clone());
            parts.components.insert(name, sparse);
        }
    }
    for residue in std::mem::take(&mut saved.exact) {
        match residue.path.as_slice() {
            [spec, components, name, rest @ ..]
                if spec == "spec" && components == place(version) && !rest.is_empty() =>
            {
                let exact = Residue { path: rest.to_vec(), value: residue.value };
                parts.components.entry(name.clone()).or_default().exact.push(exact);
            }
            _ => saved.exact.push(residue),
        }
    }
    for (part, seal) in std::mem::take(&mut saved.seals) {
        match part.strip_prefix(PART) {
            Some(name) => {
                drop(parts.components.entry(name.to_owned()).or_default().seals.insert(WHOLE.to_owned(), seal))
            }
            None => drop(saved.seals.insert(part, seal)),
        }
    }
    parts.frame = saved;
    parts
}

fn join_saved(saved: &mut Saved, lost: Vec<(String, Saved)>, version: ApiVersion) {
    let mut components = Vec::new();
    for (name, missing) in lost {
        for residue in missing.exact {
            let to_component = ["spec", place(version), &name].map(ToOwned::to_owned);
            let path = to_component.into_iter().chain(residue.path).collect();
            saved.exact.push(Residue { path, value: residue.value });
        }
        saved.seals.extend(missing.seals.into_values().map(|seal| (format!("{PART}{name}"), seal)));
        let mut sparse = missing.sparse;
        match version {
            ApiVersion::V1Alpha1 if sparse.is_empty() => {}
            ApiVersion::V1Alpha1 => put(&mut saved.sparse, &["spec", "services", &name], Some(Value::Object(sparse))),
            ApiVersion::V1Beta1 => {
                sparse.insert("name".to_owned(), json!(name));
                components.push(Value::Object(sparse));
            }
        }
    }
    put(&mut saved.sparse, &["spec", "components"], filled(components));
}

/// Fields of the spec that are the same in both versions.
const SAME: [&str; 7] =
    ["annotations", "labels", "priorityClassName", "backendFramework", "providerOverride", "restart", "experimental"];

/// Fields of the spec that only v1alpha1 has, and whether they are lists; the others are texts.
const ONLY_ALPHA: [(&str, bool); 3] = [("pvcs", true), ("dynamoComponent", false), ("dynamoGraph", false)];

/// Everything but the components, in one version.
struct Frame(ApiVersion);

impl Side for Frame {
    fn project(&self, body: &Object) -> Object {
        each_part(body, |spec| self.spec(spec), |status| self.status(status))
    }

    fn save(&self, original: &Object, rebuilt: &Object) -> Object {
        let mut saved = Object::new();
        if self.0 == ApiVersion::V1Beta1 {
            return saved;
        }
        for (key, _) in ONLY_ALPHA {
            put(&mut saved, &["spec", key], at(original, &["spec", key]).filter(|value| !value.is_null()).cloned());
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

    fn edits<'a>(&'a self, saved: &'a Object) -> Vec<RestoreEdit<'a>> {
        let mut edits: Vec<RestoreEdit<'_>> = Vec::new();
        if self.0 == ApiVersion::V1Beta1 {
            return edits;
        }
        for (key, is_list) in ONLY_ALPHA {
            let fits = |value: &&Value| if is_list { value.is_array() } else { value.is_string() };
            if let Some(value) = at(saved, &["spec", key]).filter(fits) {
                edits.push(Box::new(move |body| put_in_part(body, &["spec", key], value)));
            }
        }
        let services = at(saved, &["spec", "services"]).and_then(Value::as_object);
        for (name, _) in services.into_iter().flatten().filter(|(_, service)| service.is_null()) {
            edits.push(Box::new(move |body| put_in_part(body, &["spec", "services", name], &Value::Null)));
        }
        let statuses = at(saved, &["status", "services"]).and_then(Value::as_object);
        for (name, names) in statuses.into_iter().flatten() {
            let Some(names) = names.as_object() else { continue };
            edits.push(Box::new(move |body| put_names(body, &["status", "services", name], names)));
        }
        edits
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
        put(&mut projected, &[name], each(status, key, change));
        if let Some(rollout) = object(status, "rollingUpdate") {
            let mut renamed = rollout.clone();
            let list = renamed.remove(updated);
            put(&mut renamed, &[to_updated], list);
            projected.insert("rollingUpdate".to_owned(), Value::Object(renamed));
        }
        projected
    }
}
