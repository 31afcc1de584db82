//! `DynamoGraphDeployment`: a map of services in v1alpha1, a list of components in v1beta1.

mod frame;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use frame::Frame;
use serde_json::{Value, json};

use super::{
    ApiVersion, Source,
    component::{Alpha, Beta, Name},
    lens::{self, Saved, WHOLE},
    residue::Residue,
    value::{Object, name_of},
};

/// What the names of a component's seals start with.
const PART: &str = "component/";

/// The place of the components in the spec.
fn place(version: ApiVersion) -> &'static str {
    match version {
        ApiVersion::V1Alpha1 => "services",
        ApiVersion::V1Beta1 => "components",
    }
}

pub(super) fn convert_graph(source: Source<'_>) -> (Object, Option<Saved>) {
    let from = match source.to {
        ApiVersion::V1Alpha1 => ApiVersion::V1Beta1,
        ApiVersion::V1Beta1 => ApiVersion::V1Alpha1,
    };
    let (frame, components) = split(source.body, from);
    let mut saved_for = source.saved.map(|saved| split_saved(saved, source.to));
    let frame_saved = saved_for.as_ref().map(|saved| &saved.frame);
    let (mut target, saved) = lens::convert_part(&frame, frame_saved, &Frame(from), &Frame(source.to));
    let mut saved = saved.unwrap_or_default();
    let mut converted = Vec::new();
    let mut lost = Vec::new();
    let sorted = components.is_sorted_by(|a, b| a.0 < b.0);
    for (name, component) in components {
        let known = saved_for.as_mut().and_then(|saved| saved.components.remove(&name));
        let key = Name::Key(&name);
        let (component, missing) = match source.to {
            ApiVersion::V1Beta1 => lens::convert_part(&component, known.as_ref(), &Alpha(key), &Beta(key)),
            ApiVersion::V1Alpha1 => lens::convert_part(&component, known.as_ref(), &Beta(key), &Alpha(key)),
        };
        if !sorted || missing.is_some() {
            lost.push((name.clone(), missing.unwrap_or_default()));
        }
        converted.push((name, component));
    }
    let order = saved_for.as_ref().map_or(&[][..], |saved| &saved.order);
    join(&mut target, converted, source.to, order);
    join_saved(&mut saved, lost, from);
    (target, (!saved.is_empty()).then_some(saved))
}

/// The frame, and the components by name in their order. What is not a component stays in the frame.
fn split(mut body: Object, version: ApiVersion) -> (Object, Vec<(String, Object)>) {
    let mut components = Vec::new();
    let Some(Value::Object(spec)) = body.get_mut("spec") else { return (body, components) };
    match spec.get_mut(place(version)) {
        Some(Value::Object(services)) if version == ApiVersion::V1Alpha1 => {
            let all = std::mem::take(services);
            for (name, service) in all {
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
    let names: BTreeSet<&str> = list.iter().filter_map(|entry| entry.get("name").and_then(Value::as_str)).collect();
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
        let mut ranks = HashMap::new();
        for (rank, name) in order.iter().enumerate() {
            ranks.entry(name).or_insert(rank);
        }
        components.sort_by_key(|(name, _)| ranks.get(name).copied().unwrap_or(order.len()));
    }
    let list = components.into_iter().map(|(_, component)| Value::Object(component)).collect();
    spec.insert(place(version).to_owned(), Value::Array(list));
}

/// Saved data, for the frame and for each component.
struct SavedParts {
    frame: Saved,
    components: BTreeMap<String, Saved>,
    /// The names of v1beta1's saved components, as they were listed.
    order: Vec<String>,
}

fn split_saved(mut saved: Saved, version: ApiVersion) -> SavedParts {
    let mut parts = SavedParts { frame: Saved::default(), components: BTreeMap::new(), order: Vec::new() };
    if let Some(Value::Object(spec)) = saved.sparse.get_mut("spec") {
        match version {
            ApiVersion::V1Alpha1 => {
                for (name, service) in spec.get_mut("services").and_then(Value::as_object_mut).into_iter().flatten() {
                    if let Value::Object(service) = service {
                        let sparse = Saved { sparse: std::mem::take(service), ..Saved::default() };
                        parts.components.insert(name.clone(), sparse);
                    }
                }
            }
            ApiVersion::V1Beta1 => {
                for component in spec.get_mut("components").and_then(Value::as_array_mut).into_iter().flatten() {
                    if let (Some(name), Value::Object(component)) =
                        (name_of(component).map(ToOwned::to_owned), component)
                    {
                        let sparse = Saved { sparse: std::mem::take(component), ..Saved::default() };
                        parts.order.push(name.clone());
                        parts.components.insert(name, sparse);
                    }
                }
            }
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
    let mut services = Object::new();
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
            ApiVersion::V1Alpha1 => drop(services.insert(name, Value::Object(sparse))),
            ApiVersion::V1Beta1 => {
                sparse.insert("name".to_owned(), json!(name));
                components.push(Value::Object(sparse));
            }
        }
    }
    if services.is_empty() && components.is_empty() {
        return;
    }
    if let Value::Object(spec) = saved.sparse.entry("spec").or_insert_with(|| json!({})) {
        if !components.is_empty() {
            spec.insert("components".to_owned(), Value::Array(components));
        } else if let Value::Object(into) = spec.entry("services").or_insert_with(|| json!({})) {
            into.extend(services);
        }
    }
}
