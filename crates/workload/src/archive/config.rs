//! What the configuration of a deployment says about a component: JSON in an environment variable, by service.

use super::main;
use crate::Invalid;
use api_types::v1beta1::{ComponentSpec, ComponentType};
use api_types::{env as env_names, ports};
use k8s_openapi::api::core::v1::EnvVar;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Applies it: workers are replicas where the author gives none, resources win over the author's, and the frontend is told
/// the port by which it is reached. `inherited` is the environment of the whole graph, under the component's own.
///
/// # Errors
/// It is no JSON; the field is below the component.
pub fn configure(component: &mut ComponentSpec, inherited: &[EnvVar]) -> Result<(), Invalid> {
    let own = component.main_container().and_then(|main| main.env.as_deref()).unwrap_or_default();
    let is_it = |variable: &&EnvVar| variable.name == env_names::DYN_DEPLOYMENT_CONFIG;
    let Some(variable) = own.iter().find(is_it).or_else(|| inherited.iter().find(is_it)) else { return Ok(()) };
    let Some(text) = variable.value.as_deref() else { return Ok(()) };
    let mut config: Value = serde_json::from_str(text).map_err(|error| Invalid {
        field: format!("envs[{}]", env_names::DYN_DEPLOYMENT_CONFIG),
        value: text.to_owned(),
        problem: format!("is no JSON: {error}"),
        remedy: "write an object with the arguments of each service".to_owned(),
    })?;
    let Some(Value::Object(service)) = config.get_mut(&component.name) else { return Ok(()) };
    if let Some(args) = service.get("ServiceArgs") {
        if let (None, Some(workers)) = (component.replicas, args.get("workers").and_then(Value::as_i64)) {
            component.replicas = i32::try_from(workers).ok().filter(|workers| *workers >= 0);
        }
        let resources = args.get("resources").map(quantities).unwrap_or_default();
        if !resources.is_empty() {
            require(component, &resources);
        }
    }
    if component.type_ == Some(ComponentType::Frontend) {
        service.insert("port".to_owned(), json!(ports::HTTP));
        let env = main(component).env.get_or_insert_default();
        env.retain(|variable| variable.name != env_names::DYN_DEPLOYMENT_CONFIG);
        let value = Some(config.to_string());
        env.push(EnvVar { name: env_names::DYN_DEPLOYMENT_CONFIG.to_owned(), value, value_from: None });
    }
    Ok(())
}

fn quantities(resources: &Value) -> BTreeMap<String, Quantity> {
    let text = |value: &Value| match value {
        Value::String(text) if !text.is_empty() => Some(Quantity(text.clone())),
        Value::Number(number) => Some(Quantity(number.to_string())),
        _ => None,
    };
    let known = [("cpu", "cpu"), ("memory", "memory"), ("gpu", api_types::GPU)].into_iter();
    let known = known.filter_map(|(field, name)| Some((name.to_owned(), text(resources.get(field)?)?)));
    let custom = resources.get("custom").and_then(Value::as_object).into_iter().flatten();
    known.chain(custom.filter_map(|(name, value)| Some((name.clone(), text(value)?)))).collect()
}

/// GPUs stand in the limits alone.
fn require(component: &mut ComponentSpec, resources: &BTreeMap<String, Quantity>) {
    let of_main = main(component).resources.get_or_insert_with(Default::default);
    of_main.limits.get_or_insert_default().extend(resources.clone());
    let requests = resources.iter().filter(|(name, _)| *name != api_types::GPU);
    let requests = requests.map(|(name, quantity)| (name.clone(), quantity.clone()));
    of_main.requests.get_or_insert_default().extend(requests);
}
