//! The configuration of a deployment for a component, which is JSON in an environment variable, by service; and
//! privileges of pods, which are annotations of the legacy API.

use std::collections::{BTreeMap, BTreeSet};

use api_types::{
    conversion::preserved::legacy::Privilege,
    env as env_names, ports,
    v1beta1::{ComponentSpec, ComponentType},
    violations::Violation,
};
use k8s_openapi::{
    api::core::v1::{EnvVar, SecurityContext},
    apimachinery::pkg::api::resource::Quantity,
};
use serde_json::{Value, json};

use super::{main, pod};
use crate::{
    go_json,
    pod::{env, parts::add},
};

/// Applies it: workers are replicas where the user gives none, resources win over the user's, and a frontend gets the
/// port by which it is reached. `inherited` is the environment of the whole graph, under the component's own.
///
/// # Errors
/// It is no JSON; the field is below the component.
pub fn configure(component: &mut ComponentSpec, inherited: &[EnvVar]) -> Result<(), Violation> {
    let own = component.main_container().and_then(|main| main.env.as_deref()).unwrap_or_default();
    let Some(text) = text(own, inherited) else { return Ok(()) };
    let mut config: Value = serde_json::from_str(text).map_err(|error| {
        let path = format!("envs[{}]", env_names::DYN_DEPLOYMENT_CONFIG);
        let remedy = "write an object with the arguments of each service";
        Violation::invalid(path, text, format!("is no JSON: {error}"), remedy)
    })?;
    let is_frontend = component.type_ == Some(ComponentType::Frontend);
    let service = service_of(&config, &component.name, is_frontend);
    if let Some(Value::Object(service)) = service.as_ref().and_then(|service| config.get_mut(service)) {
        if let Some(args) = service.get("ServiceArgs") {
            component.replicas = component.replicas.or_else(|| workers_of(args));
            let resources = args.get("resources").map(quantities).unwrap_or_default();
            if !resources.is_empty() {
                let of_main = main(component).resources.get_or_insert_with(Default::default);
                of_main.limits.get_or_insert_default().extend(resources.clone());
                of_main.requests.get_or_insert_default().extend(resources);
            }
        }
        service.insert("port".to_owned(), json!(ports::HTTP));
    }
    if is_frontend {
        let variable = env::value(env_names::DYN_DEPLOYMENT_CONFIG, go_json::to_string(&config));
        env::set(main(component), variable);
    }
    Ok(())
}

/// Returns the number of replicas that it specifies for a component of this name. `own` is the component's environment,
/// `inherited` that of the whole graph.
pub fn workers(component: &str, is_frontend: bool, own: &[EnvVar], inherited: &[EnvVar]) -> Option<i32> {
    let config: Value = serde_json::from_str(text(own, inherited)?).ok()?;
    workers_of(config.get(service_of(&config, component, is_frontend)?)?.get("ServiceArgs")?)
}

fn workers_of(args: &Value) -> Option<i32> {
    let workers = args.get("workers").and_then(Value::as_i64)?;
    i32::try_from(workers).ok().filter(|workers| *workers >= 0)
}

/// Whether a component has such a configuration, of its own or `inherited` from the graph.
pub fn is_configured(component: &ComponentSpec, inherited: &[EnvVar]) -> bool {
    let own = component.main_container().and_then(|main| main.env.as_deref()).unwrap_or_default();
    own.iter().chain(inherited).any(|variable| is_it(&variable))
}

fn is_it(variable: &&EnvVar) -> bool {
    variable.name == env_names::DYN_DEPLOYMENT_CONFIG
}

/// The configuration. The component's own wins, even if it is empty.
fn text<'a>(own: &'a [EnvVar], inherited: &'a [EnvVar]) -> Option<&'a str> {
    let variable = own.iter().find(is_it).or_else(|| inherited.iter().find(is_it))?;
    variable.value.as_deref().filter(|text| !text.is_empty())
}

/// The name of a component in the configuration. A frontend that bears another name is still the frontend.
fn service_of(config: &Value, component: &str, is_frontend: bool) -> Option<String> {
    if config.get(component).is_some() {
        return Some(component.to_owned());
    }
    let mut names = config.as_object().filter(|_| is_frontend)?.keys();
    names.find(|name| name.eq_ignore_ascii_case(ComponentType::Frontend.as_str())).cloned()
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

const TRACE: &str = "SYS_PTRACE";

/// Lets the pods of a component do more. What its user says in the pod stays.
pub(super) fn grant(component: &mut ComponentSpec, privileges: &BTreeSet<Privilege>) {
    for privilege in privileges {
        let switch = match privilege {
            Privilege::Privileged => &mut security(component).privileged,
            Privilege::HostIpc => &mut pod(component).host_ipc,
            Privilege::HostNetwork => &mut pod(component).host_network,
            Privilege::HostPid => &mut pod(component).host_pid,
            Privilege::Ptrace => {
                let capabilities = security(component).capabilities.get_or_insert_default();
                add(&mut capabilities.add, TRACE.to_owned(), |capability| capability == TRACE);
                continue;
            }
            Privilege::Root => {
                security(component).run_as_user.get_or_insert(0);
                continue;
            }
        };
        switch.get_or_insert(true);
    }
}

fn security(component: &mut ComponentSpec) -> &mut SecurityContext {
    main(component).security_context.get_or_insert_default()
}
