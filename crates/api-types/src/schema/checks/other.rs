//! Rules of kinds that are neither graphs nor components.

use super::Check;
use crate::{conversion::ApiVersion, v1alpha1::ModelSource, violations};

const MODEL: &str = "DynamoModel";

/// The rules of models, checkpoints and requests.
pub(super) fn checks() -> Vec<Check> {
    let place = |kind, version| move |check| Check { kind, version, ..check };
    let models = models().into_iter().map(place(MODEL, ApiVersion::V1Alpha1));
    let checkpoint = Check::new(
        "spec",
        "!self.?gpuMemoryService.?enabled.orValue(false) || self.gpuMemoryService.?mode.orValue('intraPod') == 'intraPod'",
        violations::supported(&["intraPod"]),
    )
    .field(".gpuMemoryService.mode")
    .shows("'\"' + self.gpuMemoryService.mode + '\"'")
    .unless_broken();
    let request = Check::new(
        "spec",
        "self.?searchStrategy.orValue('rapid') != 'thorough' || self.?backend.orValue('auto') != 'auto'",
        violations::THOROUGH,
    )
    .field(".searchStrategy")
    .shows("'\"' + self.searchStrategy + '\"'")
    .unless_broken();
    models
        .chain([place("DynamoCheckpoint", ApiVersion::V1Alpha1)(checkpoint)])
        .chain([place("DynamoGraphDeploymentRequest", ApiVersion::V1Beta1)(request)])
        .collect()
}

fn models() -> Vec<Check> {
    let schemes = ModelSource::SCHEMES.map(|scheme| format!("'{scheme}'")).join(", ");
    let stays = || violations::immutable(violations::anew(MODEL));
    vec![
        Check::new("spec.modelName", "self != ''", violations::MODEL_NAME).required(),
        Check::new("spec.baseModelName", "self != ''", violations::BASE_MODEL_NAME).required(),
        Check::new("spec.baseModelName", "self == oldSelf", stays()),
        Check::new("spec.modelType", "self == oldSelf", stays()),
        Check::new("spec", "self.?modelType.orValue('') != 'lora' || has(self.source)", violations::source())
            .field(".source")
            .required()
            .unless_broken(),
        Check::new(
            "spec",
            "self.?modelType.orValue('') != 'lora' || !has(self.source) || self.source.?uri.orValue('') != ''",
            violations::source(),
        )
        .field(".source.uri")
        .required()
        .unless_broken(),
        // At `spec`, because the API server shows the value at which a rule stands, and people put credentials into
        // addresses.
        Check::new(
            "spec",
            format!(
                "self.?modelType.orValue('') != 'lora' || self.?source.?uri.orValue('') == '' || \
                 [{schemes}].exists(scheme, self.source.uri.startsWith(scheme))"
            ),
            violations::scheme(),
        )
        .field(".source.uri")
        .unless_broken(),
    ]
}
