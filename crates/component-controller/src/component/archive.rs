//! A component of 2025 on its own: its image is built from an archive, and it has a volume of its own. Pure.
//!
//! Components of graphs do not need this: their graph knows the image.

use api_types::{
    conversion::preserved::{PreservedComponent, archive::PreservedService},
    names,
    v1alpha1::DynamoComponent,
    v1beta1::DynamoComponentDeployment,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Resource, ResourceExt};
use workload::{
    Violation,
    legacy::{self, names_image, pull_with, use_image},
};

/// What is known about the image and the volume of a component of 2025; nothing of others.
#[derive(Debug, Default)]
pub struct ArchiveFacts {
    /// What the component says.
    pub said: PreservedService,
    /// The DynamoComponent that builds its image, whoever made it.
    pub build: Option<DynamoComponent>,
    /// Whether the claim of its volume exists.
    pub claim_exists: bool,
}

/// What a component of 2025 needs beside the component that it becomes.
#[derive(Debug, Default, PartialEq)]
pub struct Expansion {
    /// Why its image cannot be run yet.
    pub awaited: Option<String>,
    /// The claim of its volume, if it is to be made.
    pub claim: Option<PersistentVolumeClaim>,
    /// Why pods will not start without somebody who makes the claim.
    pub lacks_claim: Option<String>,
}

/// Name of the claim of a component's volume, if it has one.
pub fn claim_name(component: &DynamoComponentDeployment, said: &PreservedService) -> Option<String> {
    let given = said.volume.as_ref().map(|volume| volume.claim.name.clone())?;
    Some(if given.is_empty() { component.name_any() } else { given })
}

/// Makes a component of 2025 an ordinary one.
///
/// # Errors
/// The author's mistakes.
pub fn expand(component: &mut DynamoComponentDeployment, facts: &ArchiveFacts) -> Result<Expansion, String> {
    let (mut expansion, mut problems) = (Expansion::default(), Vec::new());
    let name = component.name_any();
    if let Some(source) = &facts.said.source {
        run(component, facts, source, &mut expansion, &mut problems);
    }
    if let Some(volume) = &facts.said.volume {
        match legacy::mount(&mut component.spec.component, volume, &name) {
            Ok(claim) if facts.claim_exists => drop(claim),
            Ok(claim) if claim.create => {
                let mut made = legacy::render_claim(&claim, &component.namespace().unwrap_or_default());
                made.metadata.owner_references = component.controller_owner_ref(&()).map(|owner| vec![owner]);
                expansion.claim = Some(made);
            }
            Ok(claim) => {
                let text = "does not exist; create it, or set create in spec.pvc";
                expansion.lacks_claim = Some(format!("PersistentVolumeClaim {} {text}", claim.name));
            }
            Err(mistake) => problems.push(Violation { field: format!("spec.pvc.{}", mistake.field), ..mistake }),
        }
    }
    if problems.is_empty() {
        return Ok(expansion);
    }
    Err(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

fn run(
    component: &mut DynamoComponentDeployment,
    facts: &ArchiveFacts,
    source: &str,
    expansion: &mut Expansion,
    problems: &mut Vec<Violation>,
) {
    let registers = PreservedComponent::of_component_deployment(component.annotations()).dynamo_namespace;
    let component = &mut component.spec.component;
    if names_image(component) {
        return;
    }
    problems.extend(legacy::check_source(source).err());
    let running = legacy::image(&names::dynamo_component(source), facts.build.as_ref()).or_source(source);
    expansion.awaited = running.awaited.map(|awaited| awaited.message);
    use_image(component, &facts.said, &running.image, &[]);
    pull_with(component, &running.pull_secrets);
    if let Some(dynamo_namespace) = registers.filter(|name| !name.is_empty()) {
        legacy::register_under(component, &dynamo_namespace);
    }
    let checked = [legacy::check_told(component, "component"), legacy::configure(component, &[])];
    let mistakes = checked.into_iter().filter_map(Result::err);
    problems.extend(mistakes.map(|wrong| Violation { field: format!("spec.{}", wrong.field), ..wrong }));
}

#[cfg(test)]
mod tests {
    use api_types::conversion::{ApiVersion, convert};
    use serde_json::{Value, json};

    use super::*;

    fn component(spec: Value) -> (DynamoComponentDeployment, ArchiveFacts) {
        let alpha = json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponentDeployment",
            "metadata": { "name": "chat-frontend", "namespace": "team", "uid": "u" }, "spec": spec,
        });
        let component: DynamoComponentDeployment =
            serde_json::from_value(convert(alpha, ApiVersion::V1Beta1).unwrap()).unwrap();
        let said = PreservedService::of_component_deployment(component.annotations()).unwrap_or_default();
        (component, ArchiveFacts { said, ..ArchiveFacts::default() })
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
    fn it_waits_for_its_image() {
        let spec = json!({ "serviceName": "Frontend", "dynamoComponent": "chat:v1", "dynamoTag": "m:Frontend" });
        let (mut waiting, mut facts) = component(spec);
        let mut there = waiting.clone();
        let awaited = expand(&mut waiting, &facts).unwrap().awaited.unwrap();
        assert!(awaited.contains("DynamoComponent chat--v1"), "{awaited}");
        facts.build = Some(ready());
        assert_eq!(expand(&mut there, &facts), Ok(Expansion::default()));
        assert_eq!(image(&there), Some("r/chat:v1"));
    }

    #[test]
    fn its_claim_is_made_only_if_its_author_says_so() {
        let spec = |create: bool| {
            json!({ "serviceName": "F", "pvc": { "create": create, "size": "1Gi", "mountPoint": "/d" },
                "extraPodSpec": { "mainContainer": { "image": "own:1" } } })
        };
        let (mut one, facts) = component(spec(true));
        let made = expand(&mut one, &facts).unwrap().claim.unwrap();
        assert_eq!((made.name_any(), made.owner_references().len()), ("chat-frontend".to_owned(), 1));
        let (mut other, mut facts) = component(spec(false));
        assert!(expand(&mut other, &facts).unwrap().lacks_claim.unwrap().contains("chat-frontend"));
        facts.claim_exists = true;
        assert_eq!(expand(&mut other, &facts), Ok(Expansion::default()));
    }

    /// What of `DYN_NAMESPACE` and the like its author and this module say to the pods.
    fn told(spec: Value) -> Vec<(String, Option<String>)> {
        let (mut component, facts) = component(spec);
        expand(&mut component, &facts).unwrap();
        let env = component.spec.component.main_container().and_then(|main| main.env.clone()).unwrap_or_default();
        let named = env.into_iter().filter(|variable| variable.name.starts_with("DYN_NAMESPACE"));
        named.map(|variable| (variable.name, variable.value)).collect()
    }

    #[test]
    fn a_program_of_2025_on_its_own_registers_where_its_author_says() {
        let spec = |tag: &str, more: Value| {
            let mut spec = json!({ "serviceName": "Worker", "dynamoComponent": "chat:v1", "dynamoTag": tag });
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            spec
        };
        let is = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        let shared = json!({ "dynamoNamespace": "shared" });
        assert_eq!(told(spec("m:Frontend", shared.clone())), [is("DYN_NAMESPACE", "shared")]);
        let entry = [is("DYN_NAMESPACE", "shared"), is("DYN_NAMESPACE_PREFIX", "shared")];
        assert_eq!(told(spec("m:Worker", shared)), entry, "as the frontend");
        let own = json!({ "dynamoNamespace": "shared", "envs": [{ "name": "DYN_NAMESPACE", "value": "own" }] });
        assert_eq!(told(spec("m:Frontend", own)), [is("DYN_NAMESPACE", "own")]);
        for more in [
            json!({}),
            json!({ "dynamoNamespace": "" }),
            json!({ "dynamoNamespace": "shared", "extraPodSpec": { "mainContainer": { "image": "own:1" } } }),
        ] {
            assert_eq!(told(spec("m:Frontend", more.clone())), [], "{more}");
        }
    }

    #[test]
    fn mistakes_are_told_at_once_and_others_stay_as_they_are() {
        let (mut wrong, facts) = component(json!({ "dynamoComponent": "chat", "pvc": { "create": true } }));
        let message = expand(&mut wrong, &facts).unwrap_err();
        for field in ["spec.dynamoComponent", "spec.dynamoTag", "spec.pvc.mountPoint"] {
            assert!(message.contains(field), "{message}");
        }
        let (mut plain, facts) = component(json!({ "serviceName": "F", "componentType": "frontend" }));
        let before = plain.clone();
        assert_eq!(expand(&mut plain, &facts), Ok(Expansion::default()));
        assert_eq!(plain, before);
    }
}
