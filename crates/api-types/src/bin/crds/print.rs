//! `crds print`.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use api_types::crds::{self, ConversionService};
use clap::ValueEnum;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

/// Content and destination of the output
#[derive(clap::Args)]
pub(crate) struct CrdsPrintArgs {
    /// Form of the output
    #[arg(long, value_enum, default_value_t = PrintFormat::Yaml)]
    format: PrintFormat,
    /// Write one file for each definition into this folder (made if missing) instead of standard output
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Service that converts between versions, NAMESPACE/NAME[:PORT]
    #[arg(long, value_name = "SERVICE", default_value_t)]
    webhook_service: ConversionService,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PrintFormat {
    /// YAML documents
    Yaml,
    /// JSON; on standard output one object of kind List
    Json,
}

pub(crate) fn run(args: &CrdsPrintArgs) -> anyhow::Result<()> {
    let crds = crds::all_converted_by(&args.webhook_service)?;
    match &args.dir {
        Some(dir) => write_files(&crds, args.format, dir),
        None => write_stdout(&crds, args.format),
    }
}

fn write_files(crds: &[CustomResourceDefinition], format: PrintFormat, dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make the folder {}", dir.display()))?;
    for crd in crds {
        let (extension, text) = match format {
            PrintFormat::Yaml => ("yaml", crds::to_yaml(crd)?),
            PrintFormat::Json => ("json", json_text(crd)?),
        };
        let path = dir.join(crds::file_name(crd)).with_extension(extension);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn write_stdout(crds: &[CustomResourceDefinition], format: PrintFormat) -> anyhow::Result<()> {
    let text = match format {
        PrintFormat::Yaml => crds.iter().map(crds::to_yaml).collect::<Result<String, _>>()?,
        PrintFormat::Json => json_text(&json!({ "apiVersion": "v1", "kind": "List", "items": crds }))?,
    };
    match io::stdout().write_all(text.as_bytes()) {
        // The reader has seen enough; `crds print | head` is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

fn json_text(value: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
