//! Reports of the profiler about itself: the ConfigMap to which its output is copied.

use std::time::Duration;

use api_types::v1beta1::ProfilingPhase;
use k8s_openapi::api::core::v1::ConfigMap;
use rendering::JobEnd;

use super::model::RequestObserved;

/// Key of what the profiler is doing.
pub const PHASE: &str = "phase";
/// Key of the profiler's words on it.
pub const MESSAGE: &str = "message";
/// Key of how the profiler ended.
pub const STATUS: &str = "profiler_status";
/// Key of why it failed.
pub const ERROR: &str = "profiler_error";
/// Key of the graph, and of what goes with it.
pub const CONFIG: &str = "final_config.yaml";
/// Key of the profiler's status file as it was.
pub const STATUS_FILE: &str = "profiler_status.yaml";
/// Value of [`STATUS`].
pub const SUCCESS: &str = "success";
/// Value of [`STATUS`].
pub const FAILED: &str = "failed";

/// Time for which the output of a profiler may be missing after its Job was first seen complete. The output is copied
/// before the Job ends.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// State that the profiler has reported so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output<'a> {
    /// Reported phase. An unknown word has no effect.
    pub phase: Option<ProfilingPhase>,
    /// Its words on that.
    pub message: &'a str,
    /// Reason of its failure, if it reports one.
    pub failure: Option<&'a str>,
    /// Whether it says that it has ended well.
    pub succeeded: bool,
    /// The graph, and what goes with it, as YAML.
    pub config: Option<&'a str>,
}

/// Reads it.
pub fn read(output: Option<&ConfigMap>) -> Output<'_> {
    let Some(data) = output.and_then(|output| output.data.as_ref()) else { return Output::default() };
    let text = |key: &str| data.get(key).map(|text| text.trim()).filter(|text| !text.is_empty());
    let phase = text(PHASE).and_then(|name| serde_json::from_value(name.into()).ok());
    let failure = || text(ERROR).or(text(MESSAGE)).unwrap_or("the profiler failed without an error message");
    Output {
        phase,
        message: text(MESSAGE).unwrap_or_default(),
        failure: (text(STATUS) == Some(FAILED)).then(failure),
        succeeded: text(STATUS) == Some(SUCCESS),
        config: text(CONFIG),
    }
}

/// Whether there is nothing of a profiler to follow: its Job was deleted before it had output.
pub fn is_lost(observed: &RequestObserved) -> bool {
    let reported = read(observed.own_output());
    observed.own_job().is_none() && reported.failure.is_none() && !reported.succeeded
}

/// Whether a profiler has ended well, and no output of it is there.
pub fn awaits_output(observed: &RequestObserved) -> bool {
    let reported = read(observed.own_output());
    let job = observed.own_job();
    job.is_some_and(|job| JobEnd::Complete.of(job).is_some()) && reported.failure.is_none() && reported.config.is_none()
}

/// Whether the output has been missing for so long that it counts as lost, if the API server does not have it either.
pub fn is_overdue(observed: &RequestObserved) -> bool {
    observed.output_missing_for >= PATIENCE
}
