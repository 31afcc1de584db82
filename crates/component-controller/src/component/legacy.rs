//! Converts a standalone component of the legacy API: its image is built from an archive, and it has a volume. Pure.
//!
//! Components of graphs do not need this: their graph sets the image.

use api_types::{
    conversion::preserved::PreservedComponent, names, v1beta1::DynamoComponentDeployment, violations::Violation,
};
use kube::{Resource, ResourceExt};
use rendering::legacy::{self, names_image, pull_with, use_image};

use super::model::{LegacyNeeds, ObservedLegacy};

/// Converts a legacy component in place. Other components stay unchanged.
///
/// # Errors
/// All violations in one message.
pub fn convert(component: &mut DynamoComponentDeployment, live: &ObservedLegacy) -> Result<LegacyNeeds, String> {
    let (mut needs, mut violations) = (LegacyNeeds::default(), Vec::new());
    let name = component.name_any();
    if let Some(source) = &live.fields.source {
        set_image(component, live, source, &mut needs, &mut violations);
    }
    if let Some(volume) = &live.fields.volume {
        match legacy::mount(&mut component.spec.component, volume, &name) {
            Ok(claim) if live.volume_exists => drop(claim),
            Ok(claim) if claim.create => {
                let mut made = legacy::render_claim(&claim, &component.namespace().unwrap_or_default());
                made.metadata.owner_references = component.controller_owner_ref(&()).map(|owner| vec![owner]);
                needs.volume = Some(made);
            }
            Ok(claim) => {
                let text = "does not exist; create it, or set create in spec.pvc";
                needs.missing_volume = Some(format!("PersistentVolumeClaim {} {text}", claim.name));
            }
            Err(violation) => violations.push(violation.at(|path| format!("spec.pvc.{path}"))),
        }
    }
    if violations.is_empty() {
        return Ok(needs);
    }
    Err(violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

fn set_image(
    component: &mut DynamoComponentDeployment,
    live: &ObservedLegacy,
    source: &str,
    needs: &mut LegacyNeeds,
    violations: &mut Vec<Violation>,
) {
    let registers = PreservedComponent::of_component_deployment(component.annotations()).dynamo_namespace;
    let component = &mut component.spec.component;
    if names_image(component) {
        return;
    }
    violations.extend(legacy::check_source(source).err());
    let running = legacy::image(&names::dynamo_component(source), source, live.build.as_ref());
    needs.awaited_image = running.awaited.map(|awaited| awaited.message);
    use_image(component, &live.fields, &running.image, &[]);
    pull_with(component, &running.pull_secrets);
    if let Some(dynamo_namespace) = registers.filter(|name| !name.is_empty()) {
        legacy::register_under(component, &dynamo_namespace);
    }
    let checked = [legacy::check_program(component, "component"), legacy::configure(component, &[])];
    let found = checked.into_iter().filter_map(Result::err);
    violations.extend(found.map(|violation| violation.at(|path| format!("spec.{path}"))));
}

#[cfg(test)]
mod tests {
    use api_types::{
        conversion::{self, ApiVersion, preserved::legacy::PreservedService},
        v1alpha1::DynamoComponent,
    };
    use serde_json::{Value, json};

    use super::*;

    fn component(spec: Value) -> (DynamoComponentDeployment, ObservedLegacy) {
        let alpha = json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponentDeployment",
            "metadata": { "name": "chat-frontend", "namespace": "team", "uid": "u" }, "spec": spec,
        });
        let component: DynamoComponentDeployment =
            serde_json::from_value(conversion::convert(alpha, ApiVersion::V1Beta1).unwrap()).unwrap();
        let fields = PreservedService::of_component_deployment(component.annotations()).unwrap_or_default();
        (component, ObservedLegacy { fields, ..ObservedLegacy::default() })
    }

    fn ready() -> DynamoComponent {
        let condition = |type_: &str, message: &str| {
            json!({ "type": type_, "status": "True", "reason": "Reconciling", "message": message,
                "lastTransitionTime": "2025-07-01T00:00:00Z" })
        };
        serde_json::from_value(json!({
            "metadata": { "name": "chat--v1", "generation": 1 }, "spec": { "dynamoComponent": "chat:v1" },
            "status": { "observedGeneration": 1, "conditions": [
                condition("DynamoComponentAvailable", ""), condition("ImageExists", "r/chat:v1")] },
        }))
        .unwrap()
    }

    fn image(component: &DynamoComponentDeployment) -> Option<&str> {
        component.spec.component.main_container()?.image.as_deref()
    }

    #[test]
    fn pods_wait_for_the_image() {
        let spec = json!({ "serviceName": "Frontend", "dynamoComponent": "chat:v1", "dynamoTag": "m:Frontend" });
        let (mut waiting, mut live) = component(spec);
        let mut there = waiting.clone();
        let awaited = convert(&mut waiting, &live).unwrap().awaited_image.unwrap();
        assert!(awaited.contains("DynamoComponent chat--v1"), "{awaited}");
        live.build = Some(ready());
        assert_eq!(convert(&mut there, &live), Ok(LegacyNeeds::default()));
        assert_eq!(image(&there), Some("r/chat:v1"));
    }

    #[test]
    fn the_volume_is_created_only_if_the_spec_says_so() {
        let spec = |create: bool| {
            json!({ "serviceName": "F", "pvc": { "create": create, "size": "1Gi", "mountPoint": "/d" },
                "extraPodSpec": { "mainContainer": { "image": "own:1" } } })
        };
        let (mut one, live) = component(spec(true));
        let made = convert(&mut one, &live).unwrap().volume.unwrap();
        assert_eq!((made.name_any(), made.owner_references().len()), ("chat-frontend".to_owned(), 1));
        let (mut other, mut live) = component(spec(false));
        assert!(convert(&mut other, &live).unwrap().missing_volume.unwrap().contains("chat-frontend"));
        live.volume_exists = true;
        assert_eq!(convert(&mut other, &live), Ok(LegacyNeeds::default()));
    }

    /// Environment variables `DYN_NAMESPACE…` of the converted component.
    fn namespaces(spec: Value) -> Vec<(String, Option<String>)> {
        let (mut component, live) = component(spec);
        convert(&mut component, &live).unwrap();
        let env = component.spec.component.main_container().and_then(|main| main.env.clone()).unwrap_or_default();
        let named = env.into_iter().filter(|variable| variable.name.starts_with("DYN_NAMESPACE"));
        named.map(|variable| (variable.name, variable.value)).collect()
    }

    #[test]
    fn a_standalone_legacy_component_registers_under_its_dynamo_namespace() {
        let spec = |tag: &str, more: Value| {
            let mut spec = json!({ "serviceName": "Worker", "dynamoComponent": "chat:v1", "dynamoTag": tag });
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            spec
        };
        let is = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        let shared = json!({ "dynamoNamespace": "shared" });
        assert_eq!(namespaces(spec("m:Frontend", shared.clone())), [is("DYN_NAMESPACE", "shared")]);
        let entry = [is("DYN_NAMESPACE", "shared"), is("DYN_NAMESPACE_PREFIX", "shared")];
        assert_eq!(namespaces(spec("m:Worker", shared)), entry, "as the frontend");
        let own = json!({ "dynamoNamespace": "shared", "envs": [{ "name": "DYN_NAMESPACE", "value": "own" }] });
        assert_eq!(namespaces(spec("m:Frontend", own)), [is("DYN_NAMESPACE", "own")]);
        for more in [
            json!({}),
            json!({ "dynamoNamespace": "" }),
            json!({ "dynamoNamespace": "shared", "extraPodSpec": { "mainContainer": { "image": "own:1" } } }),
        ] {
            assert_eq!(namespaces(spec("m:Frontend", more.clone())), [], "{more}");
        }
    }

    #[test]
    fn all_violations_are_reported_at_once_and_other_components_stay_unchanged() {
        let (mut wrong, live) = component(json!({ "dynamoComponent": "chat", "pvc": { "create": true } }));
        let message = convert(&mut wrong, &live).unwrap_err();
        for field in ["spec.dynamoComponent", "spec.dynamoTag", "spec.pvc.mountPoint"] {
            assert!(message.contains(field), "{message}");
        }
        let (mut plain, live) = component(json!({ "serviceName": "F", "componentType": "frontend" }));
        let before = plain.clone();
        assert_eq!(convert(&mut plain, &live), Ok(LegacyNeeds::default()));
        assert_eq!(plain, before);
    }
}
