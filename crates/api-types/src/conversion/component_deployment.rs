//! `DynamoComponentDeployment`: a component that is an object of its own.

use serde_json::Value;

use super::{
    ApiVersion, ConversionSource,
    component::{Alpha, Beta, Name, common, put_names, replicas_to_alpha, replicas_to_beta, saved_names},
    lens,
    lens::{Edit, Saved, Side, WHOLE},
    residue::Residue,
    value::{Object, at, copy, is_empty, object, put},
};

/// The field of the spec that does not belong to the component.
const BACKEND: &str = "backendFramework";

/// Name of the component's seal.
const PART: &str = "component";

/// Everything but the component.
struct DeploymentFrame {
    version: ApiVersion,
}

impl Side for DeploymentFrame {
    fn project(&self, body: &Object) -> Object {
        let mut projected = Object::new();
        if let Some(spec) = object(body, "spec") {
            let mut frame = Object::new();
            copy(spec, &mut frame, &[BACKEND]);
            projected.insert("spec".to_owned(), Value::Object(frame));
        }
        if let Some(status) = object(body, "status") {
            projected.insert("status".to_owned(), Value::Object(self.status(status)));
        }
        projected
    }

    fn save(&self, original: &Object, rebuilt: &Object) -> Object {
        let mut saved = Object::new();
        if self.version == ApiVersion::V1Beta1 {
            return saved;
        }
        let service = |body| at(body, &["status", "service"]).and_then(Value::as_object);
        if let Some(names) = service(original).and_then(|before| saved_names(before, service(rebuilt))) {
            put(&mut saved, &["status", "service"], Some(Value::Object(names)));
        }
        if let Some(selector) = at(original, &["status", "podSelector"]).filter(|selector| !is_empty(selector)) {
            put(&mut saved, &["status", "podSelector"], Some(selector.clone()));
        }
        saved
    }

    fn edits<'a>(&'a self, saved: &'a Object) -> Vec<Edit<'a>> {
        let mut edits: Vec<Edit<'_>> = Vec::new();
        if self.version == ApiVersion::V1Beta1 {
            return edits;
        }
        if let Some(names) = at(saved, &["status", "service"]).and_then(Value::as_object) {
            edits.push(Box::new(move |body| {
                let status = body.get_mut("status").and_then(Value::as_object_mut);
                if let Some(Value::Object(service)) = status.and_then(|status| status.get_mut("service")) {
                    put_names(service, names);
                }
            }));
        }
        if let Some(selector) = at(saved, &["status", "podSelector"]).filter(|selector| !is_empty(selector)) {
            edits.push(Box::new(move |body| {
                if let Some(Value::Object(status)) = body.get_mut("status") {
                    status.insert("podSelector".to_owned(), selector.clone());
                }
            }));
        }
        edits
    }
}

impl DeploymentFrame {
    fn status(&self, status: &Object) -> Object {
        let (key, name, change): (_, _, fn(&Object) -> Object) = match self.version {
            ApiVersion::V1Alpha1 => ("service", "component", replicas_to_beta),
            ApiVersion::V1Beta1 => ("component", "service", replicas_to_alpha),
        };
        let mut projected = common(status, &["service", "component", "podSelector"]);
        if let Some(replicas) = object(status, key) {
            projected.insert(name.to_owned(), Value::Object(change(replicas)));
        }
        projected
    }
}

pub(super) fn convert_component_deployment(source: ConversionSource<'_>) -> (Object, Option<Saved>) {
    let (mut frame, component) = split(source.body);
    let name = Name::Object(source.name);
    let (component_saved, frame_saved) = source.saved.map(split_saved).unzip();
    let (alpha, beta) =
        (DeploymentFrame { version: ApiVersion::V1Alpha1 }, DeploymentFrame { version: ApiVersion::V1Beta1 });
    let (from, to) = if source.to == ApiVersion::V1Beta1 { (&alpha, &beta) } else { (&beta, &alpha) };
    let mut saved;
    (frame, saved) = lens::convert_part(&frame, frame_saved.as_ref(), from, to);
    let Some(component) = component else { return (frame, saved) };
    let (target, lost) = match source.to {
        ApiVersion::V1Beta1 => lens::convert_part(&component, component_saved.as_ref(), &Alpha(name), &Beta(name)),
        ApiVersion::V1Alpha1 => lens::convert_part(&component, component_saved.as_ref(), &Beta(name), &Alpha(name)),
    };
    if let Some(Value::Object(spec)) = frame.get_mut("spec") {
        spec.extend(target);
    }
    let given_name = component.get("name").filter(|_| source.to == ApiVersion::V1Alpha1);
    if let (None, Some(saved), Some(name)) = (&lost, &mut saved, given_name) {
        // Saved data of a component without a name means that it had none.
        put(&mut saved.sparse, &["spec", "name"], Some(name.clone()));
    }
    if let Some(lost) = lost {
        let saved = saved.get_or_insert_default();
        saved.seals.extend(lost.seals.into_values().map(|seal| (PART.to_owned(), seal)));
        saved.sparse.insert("spec".to_owned(), Value::Object(lost.sparse));
        saved.exact.extend(lost.exact.into_iter().map(|mut residue| {
            residue.path.insert(0, "spec".to_owned());
            residue
        }));
    }
    (frame, saved)
}

/// The frame, and the component in its spec if that is an object.
fn split(mut body: Object) -> (Object, Option<Object>) {
    let Some(Value::Object(spec)) = body.get_mut("spec") else { return (body, None) };
    let mut component = std::mem::take(spec);
    if let Some(backend) = component.remove(BACKEND) {
        spec.insert(BACKEND.to_owned(), backend);
    }
    (body, Some(component))
}

fn split_saved(mut saved: Saved) -> (Saved, Saved) {
    let sparse = match saved.sparse.remove("spec") {
        Some(Value::Object(spec)) => spec,
        _ => Object::new(),
    };
    let of_component = |residue: &Residue| {
        residue.path.first().is_some_and(|key| key == "spec") && residue.path.get(1).is_some_and(|key| key != BACKEND)
    };
    let (mut inner, exact): (Vec<_>, Vec<_>) = std::mem::take(&mut saved.exact).into_iter().partition(of_component);
    for residue in &mut inner {
        residue.path.remove(0);
    }
    let seal = saved.seals.remove(PART).map(|seal| (WHOLE.to_owned(), seal));
    let component = Saved { sparse, exact: inner, seals: seal.into_iter().collect() };
    (component, Saved { exact, ..saved })
}
