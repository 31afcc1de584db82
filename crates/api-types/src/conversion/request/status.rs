//! The status of a request.

use serde_json::json;

use crate::conversion::{
    Extent,
    value::{Object, at, copy, is_true, object, put, text},
};

/// Fields that are the same in both versions.
const SAME: [&str; 2] = ["observedGeneration", "conditions"];

pub(super) fn to_beta(alpha: &Object, extent: Extent) -> Object {
    let mut beta = Object::new();
    copy(alpha, &mut beta, &SAME);
    let deployment = object(alpha, "deployment");
    let deployed = deployment.is_some_and(|deployment| is_true(deployment, "created"));
    let phase = match text(alpha, "state") {
        Some("Profiling") => "Profiling",
        Some("Ready") if deployed => "Deployed",
        Some("Ready" | "DeploymentDeleted") => "Ready",
        Some("Deploying") => "Deploying",
        Some("Failed") => "Failed",
        _ => "Pending",
    };
    if extent == Extent::Whole || alpha.contains_key("state") {
        beta.insert("phase".to_owned(), json!(phase));
    }
    if let Some(generated) = object(alpha, "generatedDeployment") {
        put(&mut beta, &["profilingResults", "selectedConfig"], Some(json!(generated)));
    }
    if let Some(name) = deployment.and_then(|deployment| text(deployment, "name")) {
        beta.insert("dgdName".to_owned(), json!(name));
    }
    beta
}

pub(super) fn to_alpha(beta: &Object, extent: Extent) -> Object {
    let mut alpha = Object::new();
    copy(beta, &mut alpha, &SAME);
    let state = match text(beta, "phase") {
        Some("Profiling") => "Profiling",
        Some("Ready" | "Deployed") => "Ready",
        Some("Deploying") => "Deploying",
        Some("Failed") => "Failed",
        _ => "Pending",
    };
    if extent == Extent::Whole || beta.contains_key("phase") {
        alpha.insert("state".to_owned(), json!(state));
    }
    if let Some(generated) = at(beta, &["profilingResults", "selectedConfig"]).filter(|config| config.is_object()) {
        alpha.insert("generatedDeployment".to_owned(), generated.clone());
    }
    if let Some(name) = text(beta, "dgdName") {
        alpha.insert("deployment".to_owned(), json!({ "name": name, "created": false }));
    }
    alpha
}
