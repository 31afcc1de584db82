//! Rules of components, in graphs and on their own. v1alpha1 calls those of graphs services. `self` is the component
//! unless a rule is below it.

use super::{SchemaCheck, engines, same};
use crate::{
    conversion::{ApiVersion, COMPONENT_DEPLOYMENT, GRAPH},
    violations,
};

/// Path of the components of a kind in its schema.
pub(super) fn place(kind: &str, version: ApiVersion) -> &'static str {
    match version {
        ApiVersion::V1Alpha1 if kind == GRAPH => "spec.services{}",
        ApiVersion::V1Beta1 if kind == GRAPH => "spec.components[]",
        _ => "spec",
    }
}

/// The rules of components of a kind.
pub(super) fn checks(kind: &'static str, version: ApiVersion) -> impl Iterator<Item = SchemaCheck> {
    let mut checks = picker(version);
    checks.extend(match version {
        ApiVersion::V1Alpha1 => alpha(),
        ApiVersion::V1Beta1 => beta(),
    });
    checks.extend(engines::checks(version));
    checks.extend(what_stays(kind));
    checks.extend(engines::what_stays(kind, version));
    if version == ApiVersion::V1Beta1 {
        checks.push(forced_stays(kind));
    }
    if kind == COMPONENT_DEPLOYMENT {
        checks.extend(alone(version));
    }
    checks.into_iter().map(move |check| {
        let at = [place(kind, version), &check.at].join(".");
        SchemaCheck { kind, version, at: at.trim_end_matches('.').to_owned(), ..check }
    })
}

/// Rules of endpoint pickers.
fn picker(version: ApiVersion) -> Vec<SchemaCheck> {
    let other = match version {
        ApiVersion::V1Alpha1 => "self.?componentType.orValue('') != 'epp'",
        ApiVersion::V1Beta1 => "self.?type.orValue('') != 'epp'",
    };
    let picker = |rule: &str, field: &str, text: &str| {
        SchemaCheck::new("", format!("{other} || {rule}"), text).field_of_several(field)
    };
    let is_named = "!has(self.configMapRef) || self.configMapRef.?name.orValue('') != ''";
    vec![
        picker("!has(self.multinode)", ".multinode", violations::PICKER_NODES).forbidden(),
        picker("self.?replicas.orValue(1) == 1", ".replicas", violations::PICKER_REPLICAS),
        picker("has(self.eppConfig)", ".eppConfig", violations::PICKER_CONFIG).required(),
        SchemaCheck::new("eppConfig", is_named, violations::PICKER_CONFIG_MAP)
            .field_of_several(".configMapRef.name")
            .required(),
    ]
}

/// Rules about what only v1alpha1 has, or limits only here.
fn alpha() -> Vec<SchemaCheck> {
    let is_one = "has(self.configMapRef) != has(self.config)";
    let has_host = "!self.?enabled.orValue(false) || self.?host.orValue('') != ''";
    vec![
        SchemaCheck::new("eppConfig", is_one, violations::PICKER_ONE_CONFIG).forbidden(),
        SchemaCheck::new("ingress", has_host, violations::INGRESS_HOST).field_of_several(".host").required(),
    ]
}

/// Rules about what only v1beta1 has.
fn beta() -> Vec<SchemaCheck> {
    // To read it as a quantity, and plain numbers too, costs more than the API server grants.
    let is_positive = "!string(self).startsWith('-') || self == '-0'";
    vec![
        SchemaCheck::new("sharedMemorySize", is_positive, violations::negative(violations::MEMORY_SIZE)),
        SchemaCheck::new("frontendSidecar", "self != ''", violations::SIDECAR_UNKNOWN),
        SchemaCheck::new("", "!has(self.frontendSidecar) || has(self.podTemplate)", violations::SIDECAR_WITHOUT_POD)
            .field_of_several(".podTemplate.spec.containers")
            .required(),
    ]
}

fn what_stays(kind: &str) -> [SchemaCheck; 2] {
    let anew = violations::anew(kind);
    let [several, were_several] = ["self", "oldSelf"].map(|of| format!("({of}.?multinode.?nodeCount.orValue(1) > 1)"));
    [
        SchemaCheck::new("", format!("{several} == {were_several}"), format!("{}; {anew}", violations::NODES_STAY))
            .field(".multinode"),
        SchemaCheck::new("", same("topologyConstraint"), violations::immutable(anew)).field(".topologyConstraint"),
    ]
}

const FORCED: &str = ".?experimental.?grove.?forceScalingGroup.orValue(false)";
const FORCED_FIELD: &str = ".experimental.grove.forceScalingGroup";

fn forced_stays(kind: &str) -> SchemaCheck {
    SchemaCheck::new("", format!("self{FORCED} == oldSelf{FORCED}"), violations::immutable(violations::anew(kind)))
        .field(FORCED_FIELD)
        .shows(format!("(self{FORCED} ? 'true' : 'false')"))
}

/// Returns checks of fields that only graphs on Grove have; v1alpha1 has one of them.
fn alone(version: ApiVersion) -> Vec<SchemaCheck> {
    let absent = |rule: &str, field: &str| {
        SchemaCheck::new("", rule, violations::ONLY_ON_GROVE).field_of_several(field).forbidden()
    };
    let mut checks = vec![absent("!has(self.minAvailable)", ".minAvailable")];
    if version == ApiVersion::V1Beta1 {
        checks.push(absent(&format!("!self{FORCED}"), FORCED_FIELD));
    }
    checks
}
