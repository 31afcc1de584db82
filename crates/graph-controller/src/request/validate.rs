//! Validates the spec of a request. Returns all obstacles at once.

use api_types::{
    conversion::{ApiVersion, convert},
    typed::typed,
    v1beta1::Hardware,
};
use rendering::rules::request::{self as rules, missing_gpu_facts};
use serde_json::Value;

use super::{
    hardware::fill,
    model::{ConfigFile, RequestObserved, Search, ValidRequest},
};

/// Reasons why a request cannot be profiled: violations in its spec, or something that the cluster lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Obstacles {
    /// Each with its field and a remedy.
    pub messages: Vec<String>,
    /// Whether something outside the spec is missing, so that a retry may help.
    pub outside: bool,
    /// Whether the only problem is a source that did not answer.
    pub unanswered: bool,
}

/// Checks a request.
///
/// # Errors
/// All that is wrong with it.
pub fn validate(observed: &RequestObserved) -> Result<ValidRequest<'_>, Obstacles> {
    let spec = &observed.request.spec;
    let mut obstacles = Obstacles::default();
    obstacles.messages.extend(rules::thorough_search(spec).map(|violation| violation.to_string()));
    if let Some(name) = &observed.missing_claim {
        let place = &observed.namespace;
        obstacles.outside = true;
        obstacles.messages.push(format!(
            "spec.modelCache.pvcName: there is no PersistentVolumeClaim {place}/{name}; create it, or name another one"
        ));
    }
    let default = Some(observed.settings.args.dgdr_default_image.as_str());
    let image = [spec.image.as_deref(), default].into_iter().flatten().find(|image| !image.is_empty());
    if image.is_none() {
        let message = "spec.image: there is no image of a profiler; name one, for example that of the Dynamo planner";
        obstacles.messages.push(message.to_owned());
    }
    let hardware = hardware(observed, &mut obstacles);
    let Some(image) = image.filter(|_| obstacles.messages.is_empty()) else { return Err(obstacles) };
    let (output_claim, config_map) = only_in_alpha(observed);
    Ok(ValidRequest {
        image,
        shown_hardware: typed(hardware.clone()).ok(),
        hardware,
        output_claim,
        config_map,
        model_cache: spec.model_cache.as_ref().and_then(|cache| {
            let name = cache.pvc_name.as_deref().filter(|name| !name.is_empty())?;
            Some((name, cache.pvc_mount_path.as_str()))
        }),
    })
}

/// Returns the hardware that the user specifies, completed by the found hardware. A profile that has to begin again is
/// planned with the hardware of the first one, if the cluster does not report it again: its nodes with GPUs may have
/// been removed for lack of work.
fn hardware(observed: &RequestObserved, obstacles: &mut Obstacles) -> Value {
    let given = observed.request.spec.hardware.clone().unwrap_or_default();
    let mut whole = given.clone();
    if let Search::Found(found) = &observed.hardware {
        whole = fill(given.clone(), &found.hardware);
    }
    let before = observed.status().hardware;
    let fits = |before: &Hardware| given.gpu_sku.is_none() || given.gpu_sku == before.gpu_sku;
    if let Some(before) = before.filter(fits).filter(|_| !missing_gpu_facts(&whole).is_empty()) {
        whole = fill(given.clone(), &before);
    }
    let missing = missing_gpu_facts(&whole);
    if !missing.is_empty() {
        let why = match &observed.hardware {
            Search::Nothing(why) | Search::Unanswered(why) => why.as_str(),
            Search::NotAsked => "this installation does not discover the GPUs of nodes",
            Search::Found(found) => found.unknown_model.as_deref().unwrap_or("the nodes have no label for it"),
        };
        let (fields, are) = (missing.join(", "), if missing.len() == 1 { "is" } else { "are" });
        let message = format!("spec.hardware: {fields} {are} not known ({why}); set {fields}");
        let is_unanswered = matches!(observed.hardware, Search::Unanswered(_));
        obstacles.unanswered = is_unanswered && obstacles.messages.is_empty();
        obstacles.outside = true;
        obstacles.messages.push(message);
    }
    // The user's own words stay as they were written.
    let mut json = serde_json::to_value(&whole).unwrap_or_default();
    if let (Some(json), Some(own)) = (json.as_object_mut(), observed.spec.get("hardware").and_then(Value::as_object)) {
        for (key, value) in own.iter().filter(|(_, value)| !value.is_null() && *value != "") {
            json.insert(key.clone(), value.clone());
        }
    }
    json
}

/// Returns the values that are kept for v1alpha1 alone and that profilers of that time use.
fn only_in_alpha(observed: &RequestObserved) -> (Option<String>, Option<ConfigFile>) {
    let mut object = serde_json::to_value(&observed.request).unwrap_or_default();
    if let Some(fields) = object.as_object_mut() {
        fields.insert("spec".to_owned(), observed.spec.clone());
    }
    let Ok(alpha) = convert(object, ApiVersion::V1Alpha1) else { return (None, None) };
    let text = |path: &str| {
        let found = alpha.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
        found.map(str::to_owned)
    };
    let config = text("/spec/profilingConfig/configMapRef/name").map(|name| ConfigFile {
        name,
        key: text("/spec/profilingConfig/configMapRef/key").unwrap_or_else(|| "disagg.yaml".to_owned()),
    });
    (text("/spec/profilingConfig/outputPVC"), config)
}
