//! `crds convert`: manifests of one version as manifests of the other.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use api_types::conversion::{ApiVersion, convert_manifests};
use clap::ValueEnum;

/// Arguments of `crds convert`.
#[derive(clap::Args)]
pub struct CrdsConvertArgs {
    /// Manifests, YAML or JSON, any number of documents; `-` for standard input
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Version to convert to
    #[arg(long, value_enum, default_value = "v1beta1")]
    to: CrdsConvertVersion,
}

#[derive(Clone, Copy, ValueEnum)]
enum CrdsConvertVersion {
    /// The deprecated version
    V1alpha1,
    /// The version that is stored, and served by this operator
    V1beta1,
}

/// Prints the converted documents. Documents of kinds that have one version only pass unchanged.
///
/// # Errors
/// The input cannot be read, or a document cannot be converted; then nothing is printed.
pub fn run(args: &CrdsConvertArgs) -> Result<()> {
    let to = match args.to {
        CrdsConvertVersion::V1alpha1 => ApiVersion::V1Alpha1,
        CrdsConvertVersion::V1beta1 => ApiVersion::V1Beta1,
    };
    print!("{}", convert_manifests(&read(&args.file)?, to)?);
    Ok(())
}

fn read(file: &Path) -> Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("standard input cannot be read")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const ALPHA: &str = "\
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: chat}
spec:
  services:
    Frontend: {componentType: frontend, replicas: 2}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: untouched}
";

    #[test]
    fn a_graph_is_converted_there_and_back_and_other_kinds_pass() {
        let beta = convert_manifests(ALPHA, ApiVersion::V1Beta1).unwrap();
        assert!(beta.contains("apiVersion: nvidia.com/v1beta1") && beta.contains("name: Frontend"), "{beta}");
        assert!(beta.contains("kind: ConfigMap"), "{beta}");
        let alpha = convert_manifests(&beta, ApiVersion::V1Alpha1).unwrap();
        let parsed: Vec<Value> = serde_saphyr::from_multiple(&alpha).unwrap();
        let original: Vec<Value> = serde_saphyr::from_multiple(ALPHA).unwrap();
        assert_eq!(parsed, original);
    }

    #[test]
    fn a_document_that_is_none_is_an_error_with_its_number() {
        let error = convert_manifests("apiVersion: nvidia.com/v9\nkind: DynamoGraphDeployment\n", ApiVersion::V1Beta1);
        assert!(format!("{:#}", error.unwrap_err()).starts_with("document 1: "));
    }
}
