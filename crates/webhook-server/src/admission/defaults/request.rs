//! Defaults of a DynamoGraphDeploymentRequest.

use rendering::rules::Version;
use serde_json::Value;

use super::object_at;
use crate::admission::{Facts, field::Node};

/// Repository of the image that profiles models; its tags are versions of the operator.
const PROFILER: &str = "nvcr.io/nvidia/ai-dynamo/dynamo-planner";

/// The image that profiles the model. Without a version of the operator there is none to be derived.
pub(super) fn fill(object: &mut Value, facts: &Facts) {
    if !Node::root(object).fields(&["spec", "image"]).text().is_empty() {
        return;
    }
    let given = facts.request_image.clone().filter(|image| !image.is_empty());
    let derived =
        || Version::lenient(&facts.operator_version).map(|version| format!("{PROFILER}:{}", version.as_tag()));
    if let (Some(image), Some(spec)) = (given.or_else(derived), object_at(object, &["spec"])) {
        spec.insert("image".to_owned(), Value::String(image));
    }
}
