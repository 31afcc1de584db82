//! Fields of a component that only v1alpha1 has: they reach its objects.

use api_types::v1beta1::DynamoComponentDeployment;
use rendering::validate;
use serde_json::{Value, json};

use crate::fixture::{Surroundings, component, json_of, merged, spec};

/// A component that came from v1alpha1 with these fields, and with this metadata in its pod template.
fn preserving(fields: Value, template: Value) -> DynamoComponentDeployment {
    let mut spec = spec("worker", json!({}), json!({}));
    spec["podTemplate"]["metadata"] = template;
    let mut component = component(spec);
    let kept = json!({"version": 1, "spec": fields}).to_string();
    component.metadata.annotations = Some([("nvidia.com/dcd-spec".to_owned(), kept)].into());
    component
}

#[test]
fn labels_and_annotations_of_the_pod_template_have_precedence() {
    let fields = json!({
        "labels": {"own": "alpha", "both": "alpha", "nvidia.com/dynamo-component": "lie"},
        "annotations": {"own": "alpha", "both": "alpha", "nvidia.com/deployment-strategy": "Recreate"},
        "subComponentType": "vision",
    });
    let template = json!({"labels": {"both": "beta"}, "annotations": {"both": "beta"}});
    let deployment = json_of(&Surroundings::default().deployment(&preserving(fields, template)));
    for metadata in [&deployment["metadata"], &deployment["spec"]["template"]["metadata"]] {
        assert_eq!((&metadata["labels"]["own"], &metadata["labels"]["both"]), (&json!("alpha"), &json!("beta")));
        assert_eq!(
            (&metadata["annotations"]["own"], &metadata["annotations"]["both"]),
            (&json!("alpha"), &json!("beta"))
        );
        assert_eq!(metadata["labels"]["nvidia.com/dynamo-component"], "Worker");
        assert_eq!(metadata["labels"]["nvidia.com/dynamo-sub-component-type"], "vision");
    }
    assert_eq!(deployment["spec"]["strategy"], json!({"type": "Recreate"}));
}

/// The upstream operator reads these from the merged annotations for labels and Services, and from the pod template
/// alone for the environment: pods and their labels then disagree about how the pods are found.
#[test]
fn discovery_is_the_same_for_labels_and_for_the_pod() {
    let fields = json!({"annotations": {"nvidia.com/dynamo-discovery-backend": "etcd"}});
    let component = preserving(fields, json!({}));
    let surroundings = Surroundings::default();
    let template = json_of(&surroundings.template(&component));
    assert_eq!(template["metadata"]["labels"]["nvidia.com/dynamo-discovery-backend"], Value::Null);
    let env = template["spec"]["containers"][0]["env"].as_array().unwrap();
    assert!(env.iter().all(|variable| variable["name"] != "DYN_DISCOVERY_BACKEND"));
    assert_eq!(surroundings.service(&component), None);
}

#[test]
fn a_dynamo_namespace_of_its_own_is_what_pods_are_found_by() {
    let component = preserving(json!({"dynamoNamespace": "shared"}), json!({}));
    let surroundings = Surroundings::default();
    let (deployment, service) =
        (json_of(&surroundings.deployment(&component)), json_of(&surroundings.service(&component)));
    let key = "nvidia.com/dynamo-namespace";
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"][key], "shared");
    assert_eq!(service["spec"]["selector"][key], "shared");
    assert_eq!(deployment["metadata"]["labels"][key], "ns-graph", "the object's own label says where it belongs");
    assert_eq!(validate(&component).unwrap().runtime_namespace(), "shared-0a1b2c3d");
}

#[test]
fn a_component_of_v1beta1_has_nothing_of_the_kind() {
    let plain = component(merged(spec("worker", json!({}), json!({})), json!({})));
    let mut junk = plain.clone();
    junk.metadata.annotations = Some([("nvidia.com/dcd-spec".to_owned(), "junk".to_owned())].into());
    let surroundings = Surroundings::default();
    assert_eq!(surroundings.deployment(&plain), surroundings.deployment(&junk));
}
