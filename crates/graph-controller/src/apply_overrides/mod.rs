//! `dgd-apply-overrides`: lays the user's part of a graph over the one that a profiler proposes. The profiler calls it,
//! so that the rules are the operator's. It is this program under another name.
//!
//! `{"blueprint": …, "override": …}` on standard input, the merged graph on standard output, in the blueprint's
//! version; warnings and errors on standard error.

mod merge;
mod prepare;

use std::{
    ffi::OsString,
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use api_types::{
    conversion::{ApiVersion, ConversionError, convert},
    typed::typed,
    v1beta1::DynamoGraphDeployment,
};
use serde::Deserialize;
use serde_json::Value;

/// Name under which the program is called for this.
pub const NAME: &str = "dgd-apply-overrides";
/// Version of the protocol, which callers request before they rely on anything.
const PROTOCOL: &str = "1";

/// Input of the program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OverridesInput {
    blueprint: Value,
    #[serde(rename = "override")]
    part: Value,
}

/// Reason why there is no merged graph.
#[derive(Debug, thiserror::Error)]
pub enum OverrideError {
    /// The command line.
    #[error("{0}; call it with --protocol-version, with --install-to PATH, or without arguments")]
    Usage(String),
    /// Input that does not have the expected form.
    #[error("standard input: {0}; it must be one JSON object with blueprint and override")]
    Input(String),
    /// One of the graphs cannot be read.
    #[error("{which}: {source}")]
    Graph {
        /// `blueprint` or `override`.
        which: &'static str,
        /// Conversion error.
        source: ConversionError,
    },
    /// Something at a place.
    #[error("{path}: {problem}")]
    At {
        /// Path of the field.
        path: String,
        /// Problem, and its correction.
        problem: String,
    },
    /// A file or stream.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A merged graph, and what had no effect.
#[derive(Debug, PartialEq)]
pub struct Merged {
    /// The graph, in the blueprint's version.
    pub graph: Value,
    /// One line each.
    pub warnings: Vec<String>,
}

/// Merges. Neither side is deleted from: a list is replaced or merged by its keys, as in server-side apply.
///
/// # Errors
/// The fault, with its path.
pub fn apply(blueprint: Value, part: &Value) -> Result<Merged, OverrideError> {
    let from = version_of(&blueprint, "blueprint")?;
    let to = version_of(part, "override")?;
    let whole = convert(blueprint, to).map_err(|source| OverrideError::Graph { which: "blueprint", source })?;
    let (part, warnings) = prepare::prepare(part, &whole, to)?;
    let mut merged = whole;
    merge::merge(&mut merged, &part, "");
    let graph = convert(merged, from).map_err(|source| OverrideError::Graph { which: "blueprint", source })?;
    check(&graph)?;
    Ok(Merged { graph, warnings })
}

fn version_of(graph: &Value, which: &'static str) -> Result<ApiVersion, OverrideError> {
    let text = |key: &str| graph.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("kind") != "DynamoGraphDeployment" {
        let source = ConversionError::Kind { given: text("kind").to_owned() };
        return Err(OverrideError::Graph { which, source });
    }
    text("apiVersion").parse().map_err(|source| OverrideError::Graph { which, source })
}

/// Whether the result still has the form of a graph.
fn check(graph: &Value) -> Result<(), OverrideError> {
    let beta = convert(graph.clone(), ApiVersion::V1Beta1);
    let beta = beta.map_err(|source| OverrideError::Graph { which: "blueprint", source })?;
    typed::<DynamoGraphDeployment>(beta)
        .map(drop)
        .map_err(|error| OverrideError::At { path: "merged graph".to_owned(), problem: error.to_string() })
}

/// Whether a command is this program under its other name.
pub fn is_called(command: Option<&OsString>) -> bool {
    command.and_then(|command| Path::new(command).file_name()).is_some_and(|name| name == NAME)
}

/// Runs the program.
#[allow(clippy::print_stderr, reason = "the protocol")]
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    match run(args, &mut io::stdin(), &mut io::stdout()) {
        Ok(warnings) => {
            warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{NAME}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    args: impl Iterator<Item = OsString>,
    input: &mut impl Read,
    output: &mut impl Write,
) -> Result<Vec<String>, OverrideError> {
    let words: Vec<String> = args.map(|word| word.to_string_lossy().into_owned()).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => {
            let mut text = String::new();
            input.read_to_string(&mut text)?;
            let question: OverridesInput =
                serde_json::from_str(&text).map_err(|error| OverrideError::Input(error.to_string()))?;
            let merged = apply(question.blueprint, &question.part)?;
            writeln!(output, "{}", merged.graph)?;
            Ok(merged.warnings)
        }
        ["--protocol-version"] => {
            writeln!(output, "{PROTOCOL}")?;
            Ok(Vec::new())
        }
        ["--install-to", path] => install(&PathBuf::from(path)).map(|()| Vec::new()),
        [word] if word.starts_with("--install-to=") => {
            install(&PathBuf::from(word.trim_start_matches("--install-to="))).map(|()| Vec::new())
        }
        words => Err(OverrideError::Usage(format!("cannot do {:?}", words.join(" ")))),
    }
}

/// Copies the program, so that it is never seen incomplete.
fn install(path: &Path) -> Result<(), OverrideError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    // The file that runs, whatever name led to it. Its mode comes with it.
    fs::copy("/proc/self/exe", &beside)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o755))?;
    }
    Ok(fs::rename(&beside, path)?)
}

#[cfg(test)]
mod tests;
