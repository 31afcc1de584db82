//! Values of the charts: read from each `values.yaml` and its comments, and written as `values.schema.json`, as the
//! chart's README, and as the substitutes for null.
//!
//! A comment that begins with `# --` is the meaning of the key below it. A type in brackets may come first, as in `# --
//! (integer) …`; where the default is null, it has to. A map that has a meaning of its own is one value, whatever it
//! holds. The type `null`, as in `# -- (boolean|null) …`, says that null is not a missing value, but means
//! something itself.

mod comments;
mod common;
mod defaults;
mod readme;
mod schema;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use comments::Comment;
use repository::{read, read_yaml};
use serde_json::Value;

/// Prefix of the values of the operator's chart, which contains the charts of its programs.
const UMBRELLA: &str = "dynamo-operator.";

/// A chart and its values.
struct Chart {
    /// Name, as in `Chart.yaml`.
    name: String,
    /// Purpose of the chart, likewise.
    description: String,
    /// Prefix of its values in the values of the whole chart, with the dot.
    prefix: String,
    dir: PathBuf,
    values: Vec<Setting>,
}

/// A value that one may set.
#[derive(Clone, Debug, PartialEq)]
struct Setting {
    path: Vec<String>,
    meaning: String,
    /// JSON types that it may have.
    types: Vec<&'static str>,
    /// Null has a meaning of its own.
    null_means: bool,
    default: Value,
}

/// The generated files of the platform's chart and all charts in it.
pub(super) fn files(platform: &Path) -> Result<Vec<(PathBuf, String)>> {
    let charts = all(platform)?;
    let elsewhere = elsewhere(platform)?;
    let umbrella = charts.iter().find(|chart| chart.prefix == UMBRELLA).context("no chart of the operator")?;
    let mut files = Vec::new();
    for chart in &charts {
        let open = open(chart, &charts, &elsewhere);
        let mut values = chart.values.clone();
        if common::is_program(chart) {
            let common = common::settings(chart, umbrella);
            files.push((chart.dir.join("README.md"), readme::of_program(chart, &common)));
            files.extend(common::files(chart, umbrella)?);
            values.extend(common);
        }
        files.push((chart.dir.join("values.schema.json"), schema::of(&values, &open)));
    }
    files.extend(charts.iter().map(|chart| (chart.dir.join("files/defaults.json"), defaults::of(&chart.values))));
    let with_templates =
        charts.iter().filter(|chart| chart.dir.join("templates").is_dir() && !common::is_program(chart));
    files.extend(
        with_templates.map(|chart| (chart.dir.join("templates/_complete.tpl"), defaults::template(&chart.name))),
    );
    files.push((platform.join("README.md"), readme::of(&charts)));
    Ok(files)
}

/// The whole names of the Go operator's values that the chart's template looks at.
fn elsewhere(platform: &Path) -> Result<Vec<String>> {
    let path = platform.join("files/reference-values.yaml");
    let lists: BTreeMap<String, Vec<Value>> = read_yaml(&path)?;
    let names = lists.values().flatten().map(|entry| entry["value"].as_str().map(str::to_owned));
    names.collect::<Option<_>>().with_context(|| format!("{}: an entry without `value`", path.display()))
}

/// Returns the paths at which a chart admits values that it does not define: the values of charts in it, those that the
/// chart around it sets in it, and those of the Go operator. Short paths first.
fn open(chart: &Chart, charts: &[Chart], elsewhere: &[String]) -> Vec<Vec<String>> {
    let inner = charts.iter().map(|other| other.prefix.trim_end_matches('.').to_owned());
    let outer = charts.iter().filter(|other| other.prefix.len() < chart.prefix.len());
    let outer = outer.flat_map(|other| other.values.iter().map(|value| other.prefix.clone() + &value.path.join(".")));
    let names = inner.chain(outer).chain(elsewhere.iter().cloned());
    let own =
        names.filter_map(|name| name.strip_prefix(&chart.prefix).map(str::to_owned)).filter(|name| !name.is_empty());
    let mut paths: Vec<Vec<String>> = own.map(|name| name.split('.').map(str::to_owned).collect()).collect();
    paths.sort_by_key(Vec::len);
    paths
}

/// The whole names of all values of the platform's chart and of those in it.
pub(crate) fn names(platform: &Path) -> Result<Vec<String>> {
    Ok(defaults(platform)?.into_iter().map(|(name, _)| name).collect())
}

/// The same, with the default of each.
pub(crate) fn defaults(platform: &Path) -> Result<Vec<(String, Value)>> {
    let of = |Chart { prefix, values, .. }: Chart| {
        values.into_iter().map(move |value| (format!("{prefix}{}", value.path.join(".")), value.default))
    };
    Ok(all(platform)?.into_iter().flat_map(of).collect())
}

/// Under which names the charts in the platform's have their values.
#[cfg(test)]
pub(crate) fn prefixes(platform: &Path) -> Result<Vec<String>> {
    Ok(all(platform)?.into_iter().map(|chart| chart.prefix.trim_end_matches('.').to_owned()).collect())
}

/// The platform's chart and all charts in it.
fn all(platform: &Path) -> Result<Vec<Chart>> {
    let mut charts = Vec::new();
    collect(platform, "", &mut charts)?;
    Ok(charts)
}

/// The chart in a directory, and those in its `charts`, in the order of their names.
fn collect(dir: &Path, prefix: &str, charts: &mut Vec<Chart>) -> Result<()> {
    charts.push(Chart::read(dir, prefix)?);
    let inner = dir.join("charts");
    if !inner.is_dir() {
        return Ok(());
    }
    let entries = fs::read_dir(&inner).with_context(|| format!("cannot read {}", inner.display()))?;
    let mut inner = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    inner.sort();
    for dir in inner.iter().filter(|path| path.join("Chart.yaml").is_file()) {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        collect(dir, &format!("{prefix}{name}."), charts)?;
    }
    Ok(())
}

impl Chart {
    fn read(dir: &Path, prefix: &str) -> Result<Self> {
        let about: Value = read_yaml(&dir.join("Chart.yaml"))?;
        let text = |key: &str| about[key].as_str().map(str::to_owned);
        let path = dir.join("values.yaml");
        let values = settings(&read(&path)?).with_context(|| path.display().to_string())?;
        let (name, description) = (text("name").unwrap_or_default(), text("description").unwrap_or_default());
        Ok(Self { name, description, prefix: prefix.to_owned(), dir: dir.to_owned(), values })
    }
}

/// All values of a `values.yaml`, in its order.
fn settings(source: &str) -> Result<Vec<Setting>> {
    let values: Value = serde_saphyr::from_str(source).context("no YAML")?;
    let comments = comments::read(source);
    let mut found = Vec::new();
    walk(&values, &mut Vec::new(), &comments, &mut found)?;
    found.sort_by_key(|(line, _)| *line);
    Ok(found.into_iter().map(|(_, setting)| setting).collect())
}

fn walk(value: &Value, path: &mut Vec<String>, all: &[Comment], found: &mut Vec<(usize, Setting)>) -> Result<()> {
    let comment = all.iter().find(|comment| comment.path == *path);
    match (value, comment) {
        (value, Some(comment)) => {
            let types = types(value, &comment.types).with_context(|| path.join("."))?;
            let meaning = comment.meaning.clone();
            let null_means = comment.types.contains(&"null");
            let setting = Setting { path: path.clone(), meaning, types, null_means, default: value.clone() };
            found.push((comment.line, setting));
        }
        (Value::Object(fields), None) if !fields.is_empty() => {
            for (key, value) in fields {
                path.push(key.clone());
                walk(value, path, all, found)?;
                path.pop();
            }
        }
        _ => bail!("{} has no meaning; write it into a comment above it, `# -- …`", path.join(".")),
    }
    Ok(())
}

/// The types of a value: those that its comment names, or that of its default. Where null is a way to say "none", it is
/// allowed.
fn types(default: &Value, named: &[&'static str]) -> Result<Vec<&'static str>> {
    let (own, nullable) = match default {
        Value::Null if named.is_empty() => bail!("null has no type; name one, as in `# -- (integer) …`"),
        Value::Null => (vec![], true),
        Value::Bool(_) => (vec!["boolean"], false),
        Value::Number(number) if number.is_f64() => (vec!["number"], false),
        Value::Number(_) => (vec!["integer"], false),
        Value::String(_) => (vec!["string"], true),
        Value::Array(_) => (vec!["array"], true),
        Value::Object(_) => (vec!["object"], true),
    };
    let types = if named.is_empty() { own } else { named.to_vec() };
    let null = (nullable && !types.contains(&"null")).then_some("null");
    Ok(types.into_iter().chain(null).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_has_the_type_of_its_default_and_the_meaning_of_its_comment() {
        let source = "\
# -- How many.
replicas: 1
image:
  # -- (string|number) Which one,
  # of all.
  tag: \"\"
# -- (integer) Null: none.
limit: null
# -- One value.
resources:
  limits: {memory: 1Mi}
# -- (boolean|null) Null: as it comes.
mesh: false
";
        let found = settings(source).unwrap();
        let rows: Vec<_> = found.iter().map(|s| (s.path.join("."), s.meaning.as_str(), s.types.as_slice())).collect();
        let expected: [(&str, &str, &[&str]); 5] = [
            ("replicas", "How many.", &["integer"]),
            ("image.tag", "Which one, of all.", &["string", "number", "null"]),
            ("limit", "Null: none.", &["integer", "null"]),
            ("resources", "One value.", &["object", "null"]),
            ("mesh", "Null: as it comes.", &["boolean", "null"]),
        ];
        assert_eq!(rows, expected.map(|(path, meaning, types)| (path.to_owned(), meaning, types)));
        assert_eq!(found[3].default, json!({"limits": {"memory": "1Mi"}}));
        assert_eq!(found.iter().filter(|s| s.null_means).count(), 1);
    }

    #[test]
    fn an_undocumented_value_is_an_error_that_names_it() {
        for (source, expected) in [
            ("a:\n  b: 1\n", "a.b has no meaning"),
            ("a:\n  # -- Meaning.\n\n  b: 1\n", "a.b has no meaning"),
            ("a: {}\n", "a has no meaning"),
            ("# -- Meaning.\na: null\n", "null has no type"),
        ] {
            let error = format!("{:#}", settings(source).unwrap_err());
            assert!(error.contains(expected), "{source}: {error}");
        }
    }
}
