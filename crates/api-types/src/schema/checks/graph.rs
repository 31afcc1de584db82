//! Rules of graphs.

use super::{SchemaCheck, component, same};
use crate::{
    conversion::{ApiVersion, GRAPH},
    grove, violations,
};

const IS_SUBDOMAIN: &str = "size(self) <= 253 && \
     self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')";

const ROLLING: &str = "oldSelf.?status.?rollingUpdate.?phase.orValue('')";

/// The rules of a graph without those of its components.
pub(super) fn checks(version: ApiVersion) -> Vec<SchemaCheck> {
    let constrained = match version {
        ApiVersion::V1Alpha1 => {
            "has(self.services) && self.services.exists(k, has(self.services[k].topologyConstraint))"
        }
        ApiVersion::V1Beta1 => "has(self.components) && self.components.exists(c, has(c.topologyConstraint))",
    };
    let [restarts, restarted] = ["self", "oldSelf"].map(|of| format!("(has({of}.spec) && has({of}.spec.restart))"));
    let same_restart = format!(
        "({ROLLING} != 'Pending' && {ROLLING} != 'InProgress') || \
         {restarts} == {restarted} && (!{restarts} || self.spec.restart.id == oldSelf.spec.restart.id)"
    );
    let has_no_order = "self.?type.orValue('') != 'Parallel' || !has(self.order) || size(self.order) == 0";
    let is_packed = format!(
        "!has(self.topologyConstraint) || self.topologyConstraint.?packDomain.orValue('') != '' || ({constrained})"
    );
    let topology_name = "spec.experimental.kvTransferPolicy.clusterTopologyName";
    let mut checks = vec![
        SchemaCheck::new("", same_restart, violations::RESTART_IN_UPDATE)
            .field(".spec.restart.id")
            .shows("(has(self.spec.restart) ? '\"' + self.spec.restart.id + '\"' : 'null')"),
        SchemaCheck::new("spec.restart.strategy", has_no_order, violations::PARALLEL_ORDER).field(".order").forbidden(),
        SchemaCheck::new("spec", format!("has(self.topologyConstraint) || !({constrained})"), violations::TOPOLOGY)
            .field_of_several(".topologyConstraint")
            .required(),
        SchemaCheck::new("spec", is_packed, violations::PACK_DOMAIN)
            .field_of_several(".topologyConstraint.packDomain")
            .required(),
        SchemaCheck::new(topology_name, IS_SUBDOMAIN, violations::OBJECT_NAME),
    ];
    checks.extend(what_stays());
    if version == ApiVersion::V1Alpha1 {
        checks.push(SchemaCheck::new("spec.pvcs[].name", "self != ''", violations::CLAIM_NAME).required());
    }
    let components = component::place(GRAPH, version);
    let fragments = ["", ".multinode.leader", ".multinode.worker"].map(|role| format!("{components}{role}"));
    checks.extend(fragments.iter().map(String::as_str).chain(["spec"]).flat_map(fragment));
    checks.into_iter().map(|check| SchemaCheck { kind: GRAPH, version, ..check }).collect()
}

fn what_stays() -> [SchemaCheck; 3] {
    let stays = |field: &str, rule: String| {
        SchemaCheck::new("spec", rule, violations::immutable(violations::anew(GRAPH))).field(field)
    };
    let same_policy = format!(
        "(!has(self.experimental) && !has(oldSelf.experimental)) || \
         (has(self.experimental) && has(oldSelf.experimental) && ({both})) || \
         (!has(self.experimental) && !has(oldSelf.experimental.kvTransferPolicy)) || \
         (!has(oldSelf.experimental) && !has(self.experimental.kvTransferPolicy))",
        both = same("experimental.kvTransferPolicy")
    );
    [
        stays(".backendFramework", same("backendFramework"))
            .shows("(has(self.backendFramework) ? '\"' + self.backendFramework + '\"' : 'null')"),
        stays(".topologyConstraint", same("topologyConstraint")),
        stays(".experimental.kvTransferPolicy", same_policy),
    ]
}

/// The rules of a fragment in Grove's API, in the field `providerOverride` of `parent`.
fn fragment(parent: &str) -> [SchemaCheck; 2] {
    let at = |field: &str| format!("{parent}.providerOverride.{field}");
    let is_grove = format!("self == '{}'", grove::API_VERSION);
    [
        SchemaCheck::new(&at("apiVersion"), is_grove, violations::supported(&[grove::API_VERSION])),
        SchemaCheck::new(&at("target"), "self == oldSelf", violations::immutable(violations::anew(GRAPH))),
    ]
}
