//! `kubectl dynamo convert`: manifests of one version as manifests of the other.

use std::{io::Write, path::PathBuf};

use api_types::conversion::{ApiVersion, convert_manifests};
use clap::ValueEnum;

use crate::output::CommandOutcome;

/// Flags of `convert`.
#[derive(Debug, clap::Args)]
pub struct ConvertArgs {
    /// Manifests, YAML or JSON, any number of documents; `-` for standard input
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Version to convert to
    #[arg(long, value_enum, default_value = "v1beta1")]
    to: ConvertVersion,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ConvertVersion {
    /// The deprecated version
    V1alpha1,
    /// The version that is stored
    V1beta1,
}

/// Prints the converted documents. Documents of kinds that have one version only pass unchanged.
///
/// # Errors
/// The input cannot be read, or a document cannot be converted; then nothing is printed.
pub fn run(args: &ConvertArgs, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let to = match args.to {
        ConvertVersion::V1alpha1 => ApiVersion::V1Alpha1,
        ConvertVersion::V1beta1 => ApiVersion::V1Beta1,
    };
    out.write_all(convert_manifests(&super::read(&args.file)?, to)?.as_bytes())?;
    Ok(CommandOutcome::Fine)
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
        let alpha = convert_manifests(&beta, ApiVersion::V1Alpha1).unwrap();
        let parsed: Vec<Value> = serde_saphyr::from_multiple(&alpha).unwrap();
        let original: Vec<Value> = serde_saphyr::from_multiple(ALPHA).unwrap();
        assert_eq!(parsed, original);
    }

    #[test]
    fn a_document_that_cannot_be_converted_is_named_by_its_number() {
        let error = convert_manifests("apiVersion: nvidia.com/v9\nkind: DynamoGraphDeployment\n", ApiVersion::V1Beta1);
        assert!(format!("{:#}", error.unwrap_err()).starts_with("document 1: "));
    }
}
