//! Any text as the answer of a DCGM exporter and as the proposal of a profiler: numbers are finite, and the graph is the request's.
#![no_main]

use graph_controller::request::decide::generated;
use graph_controller::request::hardware::{choose, dcgm};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(gpus) = dcgm::read(text, "node") {
        assert!(gpus.count > 0);
        let _ = choose(&[gpus], None, |_| false);
    }
    if let Ok(proposal) = generated::read(text, "chat") {
        assert_eq!(proposal.graph["metadata"]["name"], "chat");
        assert!(proposal.graph["metadata"].get("namespace").is_none());
        let _ = generated::with_runtime(proposal.graph, Some("1.0.0"));
    }
});
