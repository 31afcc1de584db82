//! Any bytes as the answer of an engine: what is kept of it is bounded by the request, not by the answer.

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
    time::Duration,
};

use http::{Method, StatusCode};
use model_controller::engine::{
    AdapterName, EngineOutcome, EngineRequest,
    protocol::{MAX_RESPONSE_BYTES, encode, outcome_of},
};

static COUNTED: LazyLock<Arc<BTreeSet<AdapterName>>> =
    LazyLock::new(|| Arc::new(["a", "b", "org/c"].map(AdapterName::from).into()));

/// The longest message of an engine that is kept.
const LONGEST_MESSAGE: usize = 300;

/// The fuzz target.
pub fn run(data: &[u8]) {
    let Some((status, body)) = data.split_first_chunk::<2>() else { return };
    let body = &body[..body.len().min(MAX_RESPONSE_BYTES)];
    let Ok(status) = StatusCode::from_u16(100 + u16::from_le_bytes(*status) % 500) else { return };
    let name = AdapterName::from(&*String::from_utf8_lossy(body));
    let load = EngineRequest::Load { name: name.clone(), source: "s3://b/a".into(), timeout: Duration::from_secs(1) };
    for request in [EngineRequest::List { counted: COUNTED.clone() }, load, EngineRequest::Unload { name }] {
        let (method, path, _) = encode(&request);
        let address = path.parse::<http::Uri>().unwrap_or_else(|error| panic!("{path} is no path: {error}"));
        let segments = address.path().split('/').filter(|segment| ![".", ".."].contains(segment)).count();
        assert_eq!(segments, if method == Method::DELETE { 4 } else { 3 }, "{path} leads elsewhere");
        // A success first: most of the reading is there.
        for status in [StatusCode::OK, StatusCode::INTERNAL_SERVER_ERROR, status] {
            match outcome_of(&request, status, body) {
                EngineOutcome::Listed { names, others } => {
                    assert!(names.iter().all(|name| COUNTED.contains(name)), "an adapter that was not desired");
                    assert!(names.len() + others <= body.len(), "more adapters than bytes");
                }
                EngineOutcome::Refused { message, .. } => {
                    assert!(message.chars().count() <= LONGEST_MESSAGE, "{message}")
                }
                _ => {}
            }
        }
    }
}
