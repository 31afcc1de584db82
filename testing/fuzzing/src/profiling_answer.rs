//! Any text as the answer of a DCGM exporter and as the proposal of a profiler: numbers are finite, and the graph is
//! the request's.

use graph_controller::request::{
    hardware::{choose, dcgm},
    plan::generated,
};

/// The fuzz target.
pub fn run(data: &[u8]) {
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
}
