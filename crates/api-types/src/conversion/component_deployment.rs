//! `DynamoComponentDeployment`: a component that is an object of its own.

use serde_json::Value;

use super::{
    ApiVersion, ConversionSource,
    component::{Alpha, Beta, Name, common, put_names, replicas_to_alpha, replicas_to_beta, saved_names},
    lens,
    lens::{RestoreEdit, Saved, Side, WHOLE},
    residue::Residue,
    value::{Object, at, copy, each_part, is_empty, object, put, put_in_part},
};

/// The field of the spec that does not belong to the component.
const BACKEND: &str = "backendFramework";

/// Name of the component's seal.
const PART: &str = "component";

/// Everything but the component.
struct DeploymentFrame(ApiVersion);

impl Side for DeploymentFrame {
    fn project(&self, body: &Object) -> Object {
        let of_frame = |spec: &Object| {
            let mut frame = Object::new();
            copy(spec, &mut frame, &[BACKEND]);
            frame
        };
        each_part(body, of_frame, |status| self.status(status))
    }

    fn save(&self, original: &Object, rebuilt: &Object) -> Object {
        let mut saved = Object::new();
        if self.0 == ApiVersion::V1Beta1 {
            return saved;
        }
        let service = |body| at(body, &["status", "service"]).and_then(Value::as_object);
        if let Some(names) = service(original).and_then(|before| saved_names(before, service(rebuilt))) {
            put(&mut saved, &["status", "service"], Some(Value::Object(names)));
        }
        let selector = at(original, &["status", "podSelector"]).filter(|selector| !is_empty(selector));
        put(&mut saved, &["status", "podSelector"], selector.cloned());
        saved
    }

    fn edits<'a>(&'a self, saved: &'a Object) -> Vec<RestoreEdit<'a>> {
        let mut edits: Vec<RestoreEdit<'_>> = Vec::new();
        if self.0 == ApiVersion::V1Beta1 {
            return edits;
        }
        if let Some(names) = at(saved, &["status", "service"]).and_then(Value::as_object) {
            edits.push(Box::new(move |body| put_names(body, &["status", "service"], names)));
        }
        if let Some(selector) = at(saved, &["status", "podSelector"]).filter(|selector| !is_empty(selector)) {
            edits.push(Box::new(move |body| put_in_part(body, &["status", "podSelector"], selector)));
        }
        edits
    }
}

impl DeploymentFrame {
    fn status(&self, status: &Object) -> Object {
        let (key, name, change): (_, _, fn(&Object) -> Object) = match self.0 {
            ApiVersion::V1Alpha1 => ("service", "component", replicas_to_beta),
            ApiVersion::V1Beta1 => ("component", "service", replicas_to_alpha),
        };
        let mut projected = common(status, &["service", "component", "podSelector"]);
        put(&mut projected, &[name], object(status, key).map(change).map(Value::Object));
        projected
    }
}

pub(super) fn convert_component_deployment(source: ConversionSource<'_>) -> (Object, Option<Saved>) {
    let (frame, component) = split(source.body);
    let name = Name::Object(source.name);
    let (component_saved, frame_saved) = source.saved.map(split_saved).unzip();
    let (alpha, beta) = (DeploymentFrame(ApiVersion::V1Alpha1), DeploymentFrame(ApiVersion::V1Beta1));
    let (mut frame, mut saved) = lens::convert_part(&frame, frame_saved.as_ref(), source.to, &alpha, &beta);
    let Some(component) = component else { return (frame, saved) };
    let (target, lost) = lens::convert_part(&component, component_saved.as_ref(), source.to, &Alpha(name), &Beta(name));
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
    spec.extend(component.remove_entry(BACKEND));
    (body, Some(component))
}

fn split_saved(mut saved: Saved) -> (Saved, Saved) {
    let sparse = if let Some(Value::Object(spec)) = saved.sparse.remove("spec") { spec } else { Object::new() };
    let of_component =
        |residue: &Residue| matches!(residue.path.as_slice(), [spec, key, ..] if spec == "spec" && key != BACKEND);
    let (mut inner, exact): (Vec<_>, Vec<_>) = std::mem::take(&mut saved.exact).into_iter().partition(of_component);
    for residue in &mut inner {
        residue.path.remove(0);
    }
    let seal = saved.seals.remove(PART).map(|seal| (WHOLE.to_owned(), seal));
    (Saved { sparse, exact: inner, seals: seal.into_iter().collect() }, Saved { exact, ..saved })
}
