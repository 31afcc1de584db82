//! Rules of shared GPU memory, standby engines and checkpoints. Both versions have them, in other words: v1alpha1 in
//! the component itself, where each is switched on; v1beta1 in `experimental`, where what is there is on.

use super::SchemaCheck;
use crate::{conversion::ApiVersion, violations};

const CHECKPOINT: &str = "self.?checkpoint.?enabled.orValue(false)";
const CLIENTS: &str = "has(self.checkpoint) && has(self.checkpoint.job) && \
     has(self.checkpoint.job.gmsClientContainers) && size(self.checkpoint.job.gmsClientContainers) > 0";

/// The fields of a version, for CEL. `self` is the object that holds the features, unless stated otherwise.
struct Words {
    /// Path from a component to the object that holds the features, each step with a dot before it.
    parent: &'static str,
    /// The type of a component, which is `self`.
    component_type: &'static str,
    /// Whether a component, which is `self`, shares GPU memory.
    component_shares: &'static str,
    /// Whether GPU memory is shared.
    memory: &'static str,
    /// Whether it is not shared between pods.
    not_between: &'static str,
    /// Whether there are standby engines.
    failover: &'static str,
    /// CEL for the mode of that failover.
    failover_mode: &'static str,
    /// Condition that a feature is switched on; none if its presence is enough.
    switch: Option<&'static str>,
    /// The mode within a pod, and the one between pods.
    modes: [&'static str; 2],
}

const ALPHA: Words = Words {
    parent: "",
    component_type: "self.?componentType",
    component_shares: "self.?gpuMemoryService.?enabled.orValue(false)",
    memory: "self.?gpuMemoryService.?enabled.orValue(false)",
    not_between: "!self.?gpuMemoryService.?enabled.orValue(false) || \
                  !(self.?gpuMemoryService.?mode.orValue('') == 'interPod')",
    failover: "self.?failover.?enabled.orValue(false)",
    failover_mode: "self.failover.?mode.orValue('')",
    switch: Some(".?enabled.orValue(false)"),
    modes: ["intraPod", "interPod"],
};

const BETA: Words = Words {
    parent: ".experimental",
    component_type: "self.?type",
    component_shares: "self.?experimental.?gpuMemoryService.hasValue()",
    memory: "has(self.gpuMemoryService)",
    not_between: "self.?gpuMemoryService.?mode.orValue('') != 'InterPod'",
    failover: "has(self.failover)",
    failover_mode: "self.?failover.?mode.orValue('')",
    switch: None,
    modes: ["IntraPod", "InterPod"],
};

impl Words {
    const fn of(version: ApiVersion) -> Self {
        match version {
            ApiVersion::V1Alpha1 => ALPHA,
            ApiVersion::V1Beta1 => BETA,
        }
    }

    /// Path of the features in the schema of a component.
    fn place(&self) -> &'static str {
        self.parent.trim_start_matches('.')
    }

    /// A field of a component.
    fn field(&self, feature: &str) -> String {
        format!("{}.{feature}", self.parent)
    }

    /// CEL for a feature of the component that `component` is.
    fn feature(&self, component: &str, feature: &str) -> String {
        format!("{component}{}.?{feature}", self.parent.replace('.', ".?"))
    }

    /// CEL for whether a feature of the component that `component` is reaches between pods.
    fn is_between(&self, component: &str, feature: &str) -> String {
        let (feature, [_, between]) = (self.feature(component, feature), self.modes);
        let on = self.switch.map(|switch| format!("{feature}{switch} && ")).unwrap_or_default();
        format!("({on}{feature}.?mode.orValue('') == '{between}')")
    }

    /// CEL that shows the mode of a feature.
    fn shown_mode(&self, feature: &str) -> String {
        let [within, between] = self.modes;
        format!("({feature}.?mode.orValue('') == '{between}' ? '\"{between}\"' : '\"{within}\"')")
    }
}

/// The rules about what there is.
pub(super) fn checks(version: ApiVersion) -> Vec<SchemaCheck> {
    let words = Words::of(version);
    let Words { component_type, component_shares, memory, .. } = words;
    let Words { not_between, failover, failover_mode, modes: [within, between], .. } = words;
    let (place, switch) = (words.place(), words.switch.map(|switch| format!("!self{switch} || ")).unwrap_or_default());
    let is_engine = format!("!{component_shares} || {component_type}.orValue('') in ['worker', 'prefill', 'decode']");
    let memory_mode = "self.?gpuMemoryService.?mode.orValue('')";
    let same_mode = format!("({failover_mode} == '{between}') == ({memory_mode} == '{between}')");
    let one = format!("{switch}self.?mode.orValue('{within}') != '{within}' || self.?numShadows.orValue(1) <= 1");
    let several = |field: &str, rule: String, text: &str| SchemaCheck::new(place, rule, text).field_of_several(field);
    let checkpoint = |rule: String, text: &str| several(".checkpoint", rule, text).forbidden();
    let clients = |rule: String, text: &str| checkpoint(rule, text).field(".checkpoint.job.gmsClientContainers");
    vec![
        SchemaCheck::new("", is_engine, violations::MEMORY_TYPE)
            .field_of_several(words.field("gpuMemoryService"))
            .forbidden(),
        several(".failover", format!("!{failover} || {memory}"), violations::FAILOVER_ALONE).forbidden(),
        several(".failover.mode", format!("!{failover} || !{memory} || {same_mode}"), violations::FAILOVER_MODE)
            .shows(words.shown_mode("self.?failover")),
        SchemaCheck::new(words.field("failover").trim_start_matches('.'), one, violations::SHADOWS)
            .field(".numShadows"),
        checkpoint(format!("!{CHECKPOINT} || {not_between}"), violations::CHECKPOINT_BETWEEN_PODS),
        checkpoint(format!("!{CHECKPOINT} || !{failover}"), violations::CHECKPOINT_FAILOVER),
        clients(format!("!({CLIENTS}) || {memory}"), violations::CLIENTS_ALONE),
        clients(format!("!({CLIENTS}) || {not_between}"), violations::CLIENTS_BETWEEN_PODS),
    ]
}

/// The rules about what stays as it was created.
pub(super) fn what_stays(kind: &str, version: ApiVersion) -> [SchemaCheck; 3] {
    let (words, anew) = (Words::of(version), violations::anew(kind));
    let [memory, old_memory] = ["self", "oldSelf"].map(|of| words.is_between(of, "gpuMemoryService"));
    let [failover, old_failover] = ["self", "oldSelf"].map(|of| words.is_between(of, "failover"));
    let [shadows, old_shadows] =
        ["self", "oldSelf"].map(|of| format!("{}.?numShadows.orValue(1)", words.feature(of, "failover")));
    let [memory_stays, failover_stays] =
        [violations::MEMORY_STAYS, violations::FAILOVER_STAYS].map(|text| format!("{text}; {anew}"));
    let same_shadows = format!("!{failover} || !{old_failover} || {shadows} == {old_shadows}");
    let check = |field: &str, rule: String, text: String| SchemaCheck::new("", rule, text).field(words.field(field));
    [
        check("gpuMemoryService.mode", format!("{memory} == {old_memory}"), memory_stays)
            .shows(words.shown_mode(&words.feature("self", "gpuMemoryService"))),
        check("failover", format!("{failover} == {old_failover}"), failover_stays),
        check("failover.numShadows", same_shadows, violations::immutable(anew)),
    ]
}
