//! `graph-controller relay-output`: runs beside a profiler and copies what it says into a ConfigMap, where the
//! controller sees it.
//!
//! The profiler writes `profiler_status.yaml` whenever it begins something else, and `final_config.yaml` when it is
//! done.

pub mod run;

use std::collections::BTreeMap;

use controller_kit::yaml;
use serde_json::Value;

use crate::request::plan::output;

/// File that says what the profiler is doing.
pub const STATUS_FILE: &str = output::STATUS_FILE;
/// File with the graph.
pub const CONFIG_FILE: &str = output::CONFIG;

/// Content of the profiler's status file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct StatusFile {
    status: String,
    phase: String,
    message: String,
    error: String,
}

/// The report, and its consequence for the program itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// No news.
    Nothing,
    /// The profiler goes on.
    Progress(BTreeMap<String, String>),
    /// It has ended; success and failure are both reported.
    Final(BTreeMap<String, String>),
}

/// Returns the report of a status file while the profiler runs.
pub fn progress(status: &str) -> Report {
    match read(status) {
        Some(file) if !file.phase.trim().is_empty() => Report::Progress(words(&file)),
        _ => Report::Nothing,
    }
}

/// Returns the report of a profiler that has ended. Nothing if the profiler did not report its result.
pub fn ending(status: &str, config: Option<&str>) -> Report {
    let Some(file) = read(status) else { return Report::Nothing };
    let mut data = words(&file);
    data.insert(output::STATUS_FILE.to_owned(), status.to_owned());
    match (file.status.trim(), config) {
        (output::SUCCESS, Some(config)) => {
            data.insert(output::STATUS.to_owned(), output::SUCCESS.to_owned());
            data.insert(output::CONFIG.to_owned(), config.to_owned());
        }
        (output::FAILED, _) => {
            let why = if file.error.trim().is_empty() { &file.message } else { &file.error };
            data.insert(output::STATUS.to_owned(), output::FAILED.to_owned());
            data.insert(output::ERROR.to_owned(), why.clone());
        }
        _ => return Report::Nothing,
    }
    Report::Final(data)
}

/// A file that is being written may be half there.
fn read(status: &str) -> Option<StatusFile> {
    let value = yaml::read(status).ok()?;
    let fields = value.as_object()?;
    let text = |key: &str| match fields.get(key) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    Some(StatusFile { status: text("status"), phase: text("phase"), message: text("message"), error: text("error") })
}

fn words(file: &StatusFile) -> BTreeMap<String, String> {
    let given = [(output::PHASE, &file.phase), (output::MESSAGE, &file.message)].into_iter();
    let given = given.filter(|(_, text)| !text.trim().is_empty());
    given.map(|(key, text)| (key.to_owned(), text.trim().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn reported(report: &Report) -> Vec<(&str, &str)> {
        match report {
            Report::Nothing => Vec::new(),
            Report::Progress(data) | Report::Final(data) => {
                data.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect()
            }
        }
    }

    #[test]
    fn what_the_profiler_does_is_told_in_its_own_words() {
        let report =
            progress("status: running\nmessage: 'trying \"tp 4\": 3 of 8'\nphase: SweepingDecode\ntimestamp: t\n");
        assert_eq!(reported(&report), [("message", "trying \"tp 4\": 3 of 8"), ("phase", "SweepingDecode")]);
        assert_eq!(reported(&progress("phase: Sweep\nmessage: 3\nerror:\n")), [("message", "3"), ("phase", "Sweep")]);
        for nothing in ["", "status: running\n", "phase: ''\n", "phase: [", "just words"] {
            assert_eq!(progress(nothing), Report::Nothing, "{nothing}");
        }
    }

    #[test]
    fn an_end_is_told_with_the_graph_or_with_the_reason() {
        let good = ending("status: success\nphase: Done\n", Some("kind: X\n"));
        let expected = [
            ("final_config.yaml", "kind: X\n"),
            ("phase", "Done"),
            ("profiler_status", "success"),
            ("profiler_status.yaml", "status: success\nphase: Done\n"),
        ];
        assert_eq!(reported(&good), expected);
        let bad = ending("status: failed\nmessage: m\nerror: no GPU\n", None);
        assert!(reported(&bad).contains(&("profiler_error", "no GPU")));
        assert!(reported(&ending("status: failed\nmessage: m\n", None)).contains(&("profiler_error", "m")));
        for nothing in ["", "status: running\n", "status: success\n", "status: other\n"] {
            assert_eq!(ending(nothing, None), Report::Nothing, "{nothing}");
        }
    }

    #[test]
    fn the_controller_understands_what_is_told() {
        let Report::Final(data) = ending("status: success\nphase: Done\nmessage: all well\n", Some("kind: X")) else {
            unreachable!("it has ended well")
        };
        let map = ConfigMap { data: Some(data), ..ConfigMap::default() };
        let read = output::read(Some(&map));
        assert!(read.succeeded && read.failure.is_none());
        assert_eq!((read.message, read.config), ("all well", Some("kind: X")));
    }
}
