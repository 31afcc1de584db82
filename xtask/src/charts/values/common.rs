//! Charts of programs that can be installed alone: the values and the named templates that they share with the umbrella
//! chart.
//!
//! Helm gives a chart neither the values nor the templates of the chart around it, so each program's chart has copies.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use super::{Chart, Setting, defaults};

/// The file by which a chart is known as one that can be installed alone.
const MANIFESTS: &str = "templates/_manifests.tpl";

/// Whether the chart renders its program itself when it is installed alone.
pub(super) fn is_program(chart: &Chart) -> bool {
    chart.dir.join(MANIFESTS).is_file()
}

/// Values of the umbrella chart that a program's chart takes under the same names when it is installed alone.
pub(super) fn settings(program: &Chart, umbrella: &Chart) -> Vec<Setting> {
    let is_own = |path: &[String]| program.values.iter().any(|value| value.path == path);
    let concerns = |path: &[String]| match path.first().map(String::as_str) {
        Some("upgradeCRD") => program.name == "crds",
        Some("admissionPolicies" | "monitoring") => false,
        _ => true,
    };
    let common = umbrella.values.iter().filter(|value| concerns(&value.path) && !is_own(&value.path));
    common.map(|value| adapted(value.clone(), &program.name)).collect()
}

/// Without a restricted namespace, lease-scope has nothing to do.
fn adapted(mut value: Setting, program: &str) -> Setting {
    if program == "lease-scope" && value.path == ["namespaceRestriction", "enabled"] {
        value.default = json!(true);
    }
    value
}

/// The generated files of a program's chart, but for its schema.
pub(super) fn files(program: &Chart, umbrella: &Chart) -> Result<Vec<(PathBuf, String)>> {
    let common = settings(program, umbrella);
    let mut files = vec![(program.dir.join("files/common-values.json"), nested(&common))];
    let templates = umbrella.dir.join("templates");
    for (name, text) in named_templates(&templates, &umbrella.name)? {
        let copy = format!(
            "{{{{/* A copy from the chart {}, made by `cargo xtask charts generate`. */}}}}\n{text}",
            umbrella.name
        );
        files.push((program.dir.join("templates").join(name), copy));
    }
    Ok(files)
}

/// Files of named templates in a folder, in the order of their names. The one that is generated itself is not read.
fn named_templates(folder: &Path, chart: &str) -> Result<Vec<(String, String)>> {
    let mut found = vec![("_complete.tpl".to_owned(), defaults::template(chart))];
    for path in repository::files(folder, &["tpl"])? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('_') && name != "_complete.tpl" {
            found.push((name, repository::read(&path)?));
        }
    }
    found.sort();
    Ok(found)
}

/// Values by their keys.
fn nested(values: &[Setting]) -> String {
    let mut all = json!({});
    for value in values {
        let place = value.path.iter().fold(&mut all, |inner: &mut Value, key| &mut inner[key.as_str()]);
        *place = value.default.clone();
    }
    format!("{all:#}\n")
}
