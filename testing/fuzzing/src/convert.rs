//! Any JSON as an object to convert, and as a whole `ConversionReview`: nothing panics, and what is converted comes
//! back.

use api_types::conversion::{ApiVersion, convert, review::Review};
use serde_json::{Value, json};

const KINDS: [&str; 4] = [
    "DynamoGraphDeployment",
    "DynamoComponentDeployment",
    "DynamoGraphDeploymentRequest",
    "DynamoGraphDeploymentScalingAdapter",
];

/// The fuzz target.
pub fn run(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return };
    if let Ok(review) = Review::read(data) {
        let mut answer = Vec::new();
        assert!(review.answer(&mut answer, |_| Ok(())).is_ok());
        assert!(serde_json::from_slice::<Value>(&answer).is_ok());
    }
    for kind in KINDS {
        for (from, to) in [(ApiVersion::V1Alpha1, ApiVersion::V1Beta1), (ApiVersion::V1Beta1, ApiVersion::V1Alpha1)] {
            // Without annotations: those that conversion owns belong to it, and do not come back.
            let object = json!({
                "apiVersion": from.api_version(), "kind": kind, "metadata": {},
                "spec": value["spec"], "status": value["status"],
            });
            let back = convert(object.clone(), to).and_then(|seen| convert(seen, from));
            assert_eq!(back, Ok(object));
        }
    }
}
