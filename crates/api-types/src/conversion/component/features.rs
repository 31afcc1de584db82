//! Features that v1beta1 keeps under `experimental`. v1alpha1 says whether they are on; in v1beta1 they are on if
//! present.

use serde_json::json;

use crate::conversion::value::{Object, is_true, text};

/// The modes of GPU memory service and failover, in v1alpha1 and v1beta1. Others are kept as they are.
const MODES: [(&str, &str); 2] = [("intraPod", "IntraPod"), ("interPod", "InterPod")];

/// GPU memory service or failover in v1beta1; none if it is off.
pub(super) fn feature_to_beta(alpha: &Object) -> Option<Object> {
    is_true(alpha, "enabled").then(|| {
        let mut beta = alpha.clone();
        beta.remove("enabled");
        if let Some((_, mode)) = MODES.iter().find(|(mode, _)| text(alpha, "mode") == Some(mode)) {
            beta.insert("mode".to_owned(), json!(mode));
        }
        beta
    })
}

/// GPU memory service or failover in v1alpha1.
pub(super) fn feature_to_alpha(beta: &Object) -> Object {
    let mut alpha = beta.clone();
    alpha.insert("enabled".to_owned(), json!(true));
    if let Some((mode, _)) = MODES.iter().find(|(_, mode)| text(beta, "mode") == Some(mode)) {
        alpha.insert("mode".to_owned(), json!(mode));
    }
    alpha
}

/// Checkpointing in v1beta1, where `enabled` has no default.
pub(super) fn checkpoint_to_beta(alpha: &Object) -> Object {
    let mut beta = alpha.clone();
    beta.entry("enabled").or_insert_with(|| json!(false));
    beta
}
