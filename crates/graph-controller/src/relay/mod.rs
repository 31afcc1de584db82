//! `graph-controller relay-output`: runs beside a profiler and copies what it says into a ConfigMap, where the
//! controller sees it.
//!
//! The profiler writes `profiler_status.yaml` whenever it begins something else, and `final_config.yaml` when it is
//! done.

pub mod run;

use std::collections::BTreeMap;

use controller_kit::yaml;
use serde_json::{Map, Value};

use crate::request::output;

/// File that says what the profiler is doing.
pub const STATUS_FILE: &str = output::STATUS_FILE;
/// File with the graph.
pub const CONFIG_FILE: &str = output::CONFIG;

/// The report on a profiler that runs; `None` if it did not report what it does.
pub fn progress(status: &str) -> Option<BTreeMap<String, String>> {
    read(status).map(|file| words(&file)).filter(|data| data.contains_key(output::PHASE))
}

/// The report on a profiler that has ended, well or not; `None` if it did not report its result.
pub fn ending(status: &str, config: Option<&str>) -> Option<BTreeMap<String, String>> {
    let file = read(status)?;
    let mut data = words(&file);
    data.insert(output::STATUS_FILE.to_owned(), status.to_owned());
    match (text(&file, "status").trim(), config) {
        (output::SUCCESS, Some(config)) => {
            data.insert(output::STATUS.to_owned(), output::SUCCESS.to_owned());
            data.insert(output::CONFIG.to_owned(), config.to_owned());
        }
        (output::FAILED, _) => {
            let error = text(&file, "error");
            let why = if error.trim().is_empty() { text(&file, "message") } else { error };
            data.insert(output::STATUS.to_owned(), output::FAILED.to_owned());
            data.insert(output::ERROR.to_owned(), why);
        }
        _ => return None,
    }
    Some(data)
}

/// The fields of the profiler's status file. One that is being written may be half there.
fn read(status: &str) -> Option<Map<String, Value>> {
    serde_json::from_value(yaml::read(status).ok()?).ok()
}

fn text(file: &Map<String, Value>, key: &str) -> String {
    match file.get(key) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Phase and message, under the keys of the file.
fn words(file: &Map<String, Value>) -> BTreeMap<String, String> {
    let given = [output::PHASE, output::MESSAGE].map(|key| (key.to_owned(), text(file, key).trim().to_owned()));
    given.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn reported(report: Option<&BTreeMap<String, String>>) -> Vec<(&str, &str)> {
        report.into_iter().flatten().map(|(key, text)| (key.as_str(), text.as_str())).collect()
    }

    #[test]
    fn the_progress_of_the_profiler_is_copied_unchanged() {
        let report =
            progress("status: running\nmessage: 'trying \"tp 4\": 3 of 8'\nphase: SweepingDecode\ntimestamp: t\n");
        assert_eq!(reported(report.as_ref()), [("message", "trying \"tp 4\": 3 of 8"), ("phase", "SweepingDecode")]);
        assert_eq!(
            reported(progress("phase: Sweep\nmessage: 3\nerror:\n").as_ref()),
            [("message", "3"), ("phase", "Sweep")]
        );
        for nothing in ["", "status: running\n", "phase: ''\n", "phase: [", "just words"] {
            assert_eq!(progress(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn the_end_is_published_with_the_graph_or_with_the_reason() {
        let good = ending("status: success\nphase: Done\n", Some("kind: X\n"));
        let expected = [
            ("final_config.yaml", "kind: X\n"),
            ("phase", "Done"),
            ("profiler_status", "success"),
            ("profiler_status.yaml", "status: success\nphase: Done\n"),
        ];
        assert_eq!(reported(good.as_ref()), expected);
        let bad = ending("status: failed\nmessage: m\nerror: no GPU\n", None);
        assert!(reported(bad.as_ref()).contains(&("profiler_error", "no GPU")));
        assert!(reported(ending("status: failed\nmessage: m\n", None).as_ref()).contains(&("profiler_error", "m")));
        for nothing in ["", "status: running\n", "status: success\n", "status: other\n"] {
            assert_eq!(ending(nothing, None), None, "{nothing}");
        }
    }

    #[test]
    fn the_controller_reads_what_is_published() {
        let data = ending("status: success\nphase: Done\nmessage: all well\n", Some("kind: X"));
        let map = ConfigMap { data, ..ConfigMap::default() };
        let read = output::read(Some(&map));
        assert!(read.succeeded && read.failure.is_none());
        assert_eq!((read.message, read.config), ("all well", Some("kind: X")));
    }
}
