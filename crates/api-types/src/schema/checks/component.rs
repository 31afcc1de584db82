//! Rules of components in v1beta1, in graphs and on their own. `self` is the component unless a rule stands below it.

use super::Check;
use super::graph::{COMPONENT, same};
use crate::refusals;

const NOT_PICKER: &str = "self.?type.orValue('') != 'epp'";
const MODE: &str = "self.?gpuMemoryService.?mode.orValue('')";
const FAILOVER_MODE: &str = "self.?failover.?mode.orValue('')";
const CHECKPOINT: &str = "self.?checkpoint.?enabled.orValue(false)";
const CLIENTS: &str = "has(self.checkpoint) && has(self.checkpoint.job) && \
     has(self.checkpoint.job.gmsClientContainers) && size(self.checkpoint.job.gmsClientContainers) > 0";

/// The rules of components of a kind.
pub(super) fn checks(kind: &str) -> Vec<Check> {
    let mut checks = basics();
    checks.extend(engines());
    checks.extend(what_stays(kind));
    if kind == COMPONENT {
        checks.extend(alone());
    }
    checks
}

fn basics() -> Vec<Check> {
    let mut checks = picker(NOT_PICKER);
    checks.extend([
        // To read it as a quantity, and plain numbers too, costs more than the API server grants.
        Check::new("sharedMemorySize", "!string(self).startsWith('-') || self == '-0'", refusals::NEGATIVE_MEMORY),
        Check::new("frontendSidecar", "self != ''", refusals::SIDECAR_UNKNOWN),
        Check::new("", "!has(self.frontendSidecar) || has(self.podTemplate)", refusals::SIDECAR_WITHOUT_POD)
            .field(".podTemplate.spec.containers")
            .required()
            .unless_broken(),
    ]);
    checks
}

/// Rules of endpoint pickers, which both versions describe alike; `not_picker` is true for other components.
pub(super) fn picker(not_picker: &str) -> Vec<Check> {
    vec![
        Check::new("", format!("{not_picker} || !has(self.multinode)"), refusals::PICKER_NODES)
            .field(".multinode")
            .forbidden()
            .unless_broken(),
        Check::new("", format!("{not_picker} || self.?replicas.orValue(1) == 1"), refusals::PICKER_REPLICAS)
            .field(".replicas")
            .unless_broken(),
        Check::new("", format!("{not_picker} || has(self.eppConfig)"), refusals::PICKER_CONFIG)
            .field(".eppConfig")
            .required()
            .unless_broken(),
        Check::new(
            "eppConfig",
            "!has(self.configMapRef) || self.configMapRef.?name.orValue('') != ''",
            refusals::PICKER_CONFIG_MAP,
        )
        .field(".configMapRef.name")
        .required()
        .unless_broken(),
    ]
}

/// Rules of shared GPU memory, standby engines and checkpoints. But for the first, `self` is `experimental`.
fn engines() -> Vec<Check> {
    const AT: &str = "experimental";
    vec![
        Check::new(
            "",
            "!self.?experimental.?gpuMemoryService.hasValue() || self.?type.orValue('') in ['worker', 'prefill', 'decode']",
            refusals::MEMORY_TYPE,
        )
        .field(".experimental.gpuMemoryService")
        .forbidden()
        .unless_broken(),
        Check::new(AT, "!has(self.failover) || has(self.gpuMemoryService)", refusals::FAILOVER_ALONE)
            .field(".failover")
            .forbidden()
            .unless_broken(),
        Check::new(
            AT,
            format!("!has(self.failover) || !has(self.gpuMemoryService) || ({FAILOVER_MODE} == 'InterPod') == ({MODE} == 'InterPod')"),
            refusals::FAILOVER_MODE,
        )
        .field(".failover.mode")
        .shows("(self.?failover.?mode.orValue('') == 'InterPod' ? '\"InterPod\"' : '\"IntraPod\"')")
        .unless_broken(),
        Check::new(
            "experimental.failover",
            "self.?mode.orValue('IntraPod') != 'IntraPod' || self.?numShadows.orValue(1) <= 1",
            refusals::SHADOWS,
        )
        .field(".numShadows"),
        Check::new(AT, format!("!{CHECKPOINT} || {MODE} != 'InterPod'"), refusals::CHECKPOINT_BETWEEN_PODS)
            .field(".checkpoint")
            .forbidden()
            .unless_broken(),
        Check::new(AT, format!("!{CHECKPOINT} || !has(self.failover)"), refusals::CHECKPOINT_FAILOVER)
            .field(".checkpoint")
            .forbidden()
            .unless_broken(),
        Check::new(AT, format!("!({CLIENTS}) || has(self.gpuMemoryService)"), refusals::CLIENTS_ALONE)
            .field(".checkpoint.job.gmsClientContainers")
            .forbidden()
            .unless_broken(),
        Check::new(AT, format!("!({CLIENTS}) || {MODE} != 'InterPod'"), refusals::CLIENTS_BETWEEN_PODS)
            .field(".checkpoint.job.gmsClientContainers")
            .forbidden()
            .unless_broken(),
    ]
}

fn what_stays(kind: &str) -> Vec<Check> {
    let anew = refusals::anew(kind);
    let is_between = |of: &str, feature: &str| format!("{of}.?experimental.?{feature}.?mode.orValue('') == 'InterPod'");
    let memory = ["self", "oldSelf"].map(|of| is_between(of, "gpuMemoryService"));
    let failover = ["self", "oldSelf"].map(|of| is_between(of, "failover"));
    let shadows = |of: &str| format!("{of}.?experimental.?failover.?numShadows.orValue(1)");
    let forced = |of: &str| format!("{of}.?experimental.?grove.?forceScalingGroup.orValue(false)");
    let mut checks = common_stays(kind);
    checks.extend([
        Check::new("", format!("({}) == ({})", memory[0], memory[1]), format!("{}; {anew}", refusals::MEMORY_STAYS))
            .field(".experimental.gpuMemoryService.mode")
            .shows(
            "(self.?experimental.?gpuMemoryService.?mode.orValue('') == 'InterPod' ? '\"InterPod\"' : '\"IntraPod\"')",
        ),
        Check::new(
            "",
            format!("({}) == ({})", failover[0], failover[1]),
            format!("{}; {anew}", refusals::FAILOVER_STAYS),
        )
        .field(".experimental.failover"),
        Check::new(
            "",
            format!("!({}) || !({}) || {} == {}", failover[0], failover[1], shadows("self"), shadows("oldSelf")),
            refusals::immutable(&anew),
        )
        .field(".experimental.failover.numShadows"),
        Check::new("", format!("{} == {}", forced("self"), forced("oldSelf")), refusals::immutable(&anew))
            .field(".experimental.grove.forceScalingGroup")
            .shows("(self.?experimental.?grove.?forceScalingGroup.orValue(false) ? 'true' : 'false')"),
    ]);
    checks
}

/// What both versions say alike about a component, and what stays.
pub(super) fn common_stays(kind: &str) -> Vec<Check> {
    let anew = refusals::anew(kind);
    let several = |of: &str| format!("{of}.?multinode.?nodeCount.orValue(1) > 1");
    vec![
        Check::new(
            "",
            format!("({}) == ({})", several("self"), several("oldSelf")),
            format!("{}; {anew}", refusals::NODES_STAY),
        )
        .field(".multinode"),
        Check::new("", same("topologyConstraint"), refusals::immutable(anew)).field(".topologyConstraint"),
    ]
}

/// What only graphs on Grove have.
fn alone() -> [Check; 2] {
    [
        no_gang(),
        Check::new("", "!self.?experimental.?grove.?forceScalingGroup.orValue(false)", refusals::ONLY_ON_GROVE)
            .field(".experimental.grove.forceScalingGroup")
            .forbidden()
            .unless_broken(),
    ]
}

/// A component on its own starts with no gang.
pub(super) fn no_gang() -> Check {
    Check::new("", "!has(self.minAvailable)", refusals::ONLY_ON_GROVE)
        .field(".minAvailable")
        .forbidden()
        .unless_broken()
}
