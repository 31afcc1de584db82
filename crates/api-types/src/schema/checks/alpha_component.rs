//! Rules of components in v1alpha1, which calls them services and says of features whether they are on.

use super::Check;
use super::component::{common_stays, no_gang, picker};
use super::graph::{COMPONENT, GRAPH};
use crate::refusals;

const NOT_PICKER: &str = "self.?componentType.orValue('') != 'epp'";
const MEMORY: &str = "self.?gpuMemoryService.?enabled.orValue(false)";
const FAILOVER: &str = "self.?failover.?enabled.orValue(false)";
const IS_BETWEEN: &str = "self.?gpuMemoryService.?mode.orValue('') == 'interPod'";
const CHECKPOINT: &str = "self.?checkpoint.?enabled.orValue(false)";
const CLIENTS: &str = "has(self.checkpoint) && has(self.checkpoint.job) && \
     has(self.checkpoint.job.gmsClientContainers) && size(self.checkpoint.job.gmsClientContainers) > 0";

/// The rules of services of graphs, or of components on their own; and of the volumes that services of a graph share.
pub(super) fn checks(kind: &str) -> Vec<Check> {
    let mut checks = picker(NOT_PICKER);
    checks.extend([
        Check::new("eppConfig", "has(self.configMapRef) != has(self.config)", refusals::PICKER_ONE_CONFIG).forbidden(),
        Check::new("ingress", "!self.?enabled.orValue(false) || self.?host.orValue('') != ''", refusals::INGRESS_HOST)
            .field(".host")
            .required()
            .unless_broken(),
    ]);
    checks.extend(engines());
    checks.extend(checkpoints());
    checks.extend(common_stays(kind));
    checks.extend(what_stays(kind));
    if kind == COMPONENT {
        checks.push(no_gang());
    }
    checks
}

/// The rules of a graph's volumes.
pub(super) fn volumes() -> Check {
    let check = Check::new("spec.pvcs[].name", "self != ''", refusals::CLAIM_NAME).required();
    Check { kind: GRAPH, version: crate::conversion::ApiVersion::V1Alpha1, ..check }
}

fn engines() -> [Check; 4] {
    [
        Check::new(
            "",
            format!("!{MEMORY} || self.?componentType.orValue('') in ['worker', 'prefill', 'decode']"),
            refusals::MEMORY_TYPE,
        )
        .field(".gpuMemoryService")
        .forbidden()
        .unless_broken(),
        Check::new("", format!("!{FAILOVER} || {MEMORY}"), refusals::FAILOVER_ALONE)
            .field(".failover")
            .forbidden()
            .unless_broken(),
        Check::new(
            "",
            format!(
                "!{FAILOVER} || !{MEMORY} || (self.failover.?mode.orValue('') == 'interPod') == ({IS_BETWEEN})"
            ),
            refusals::FAILOVER_MODE,
        )
        .field(".failover.mode")
        .shows("(self.?failover.?mode.orValue('') == 'interPod' ? '\"interPod\"' : '\"intraPod\"')")
        .unless_broken(),
        Check::new(
            "failover",
            "!self.?enabled.orValue(false) || self.?mode.orValue('intraPod') != 'intraPod' || self.?numShadows.orValue(1) <= 1",
            refusals::SHADOWS,
        )
        .field(".numShadows"),
    ]
}

fn checkpoints() -> [Check; 4] {
    [
        Check::new("", format!("!{CHECKPOINT} || !{MEMORY} || !({IS_BETWEEN})"), refusals::CHECKPOINT_BETWEEN_PODS)
            .field(".checkpoint"),
        Check::new("", format!("!{CHECKPOINT} || !{FAILOVER}"), refusals::CHECKPOINT_FAILOVER).field(".checkpoint"),
        Check::new("", format!("!({CLIENTS}) || {MEMORY}"), refusals::CLIENTS_ALONE)
            .field(".checkpoint.job.gmsClientContainers"),
        Check::new("", format!("!({CLIENTS}) || !{MEMORY} || !({IS_BETWEEN})"), refusals::CLIENTS_BETWEEN_PODS)
            .field(".checkpoint.job.gmsClientContainers"),
    ]
    .map(|check| check.forbidden().unless_broken())
}

fn what_stays(kind: &str) -> [Check; 3] {
    let anew = refusals::anew(kind);
    let is_between = |of: &str, feature: &str| {
        format!("({of}.?{feature}.?enabled.orValue(false) && {of}.?{feature}.?mode.orValue('') == 'interPod')")
    };
    let memory = ["self", "oldSelf"].map(|of| is_between(of, "gpuMemoryService"));
    let failover = ["self", "oldSelf"].map(|of| is_between(of, "failover"));
    let shadows = |of: &str| format!("{of}.?failover.?numShadows.orValue(1)");
    [
        Check::new("", memory.join(" == "), format!("{}; {anew}", refusals::MEMORY_STAYS))
            .field(".gpuMemoryService.mode")
            .shows("(self.?gpuMemoryService.?mode.orValue('') == 'interPod' ? '\"interPod\"' : '\"intraPod\"')"),
        Check::new("", failover.join(" == "), format!("{}; {anew}", refusals::FAILOVER_STAYS)).field(".failover"),
        Check::new(
            "",
            format!("!{} || !{} || {} == {}", failover[0], failover[1], shadows("self"), shadows("oldSelf")),
            refusals::immutable(anew),
        )
        .field(".failover.numShadows"),
    ]
}
