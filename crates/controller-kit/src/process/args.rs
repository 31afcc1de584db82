//! Flags that every process has.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf};

use serde::Deserialize;

/// Flags that every process has. Flags win over the configuration file.
#[derive(Debug, Clone, clap::Args)]
pub struct CommonArgs {
    /// Kubeconfig file; default: $KUBECONFIG, ~/.kube/config, or the pod's ServiceAccount
    #[arg(long, value_name = "FILE", global = true)]
    pub kubeconfig: Option<PathBuf>,

    /// Configuration file of kind OperatorConfiguration
    #[arg(long, value_name = "FILE", env = "DYNAMO_CONFIG", global = true)]
    pub config: Option<PathBuf>,

    /// Serve only this namespace; default: namespace.restricted of the configuration, or the whole cluster
    #[arg(long, env = "DYNAMO_NAMESPACE", global = true)]
    pub namespace: Option<String>,

    /// Log format; default: logging.format of the configuration
    #[arg(long, value_enum, env = "DYNAMO_LOG_FORMAT", global = true)]
    pub log_format: Option<LogFormat>,

    /// What to log, for example "info,controller_kit=debug"; default: logging.level of the configuration
    #[arg(long, value_name = "FILTER", env = "RUST_LOG", global = true)]
    pub log_filter: Option<String>,

    /// Where /healthz and /readyz are served
    #[arg(long, value_name = "ADDRESS", env = "DYNAMO_HEALTH_ADDRESS", default_value = "0.0.0.0:8081", global = true)]
    pub health_address: SocketAddr,

    /// Where /metrics is served, as plain HTTP
    #[arg(long, value_name = "ADDRESS", env = "DYNAMO_METRICS_ADDRESS", default_value = "0.0.0.0:8080", global = true)]
    pub metrics_address: SocketAddr,

    /// How many objects are reconciled at the same time
    #[arg(long, value_name = "N", env = "DYNAMO_CONCURRENCY", default_value = "8", global = true)]
    pub concurrency: NonZeroUsize,
}

/// Format of the log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object per line.
    #[default]
    Json,
    /// For people.
    Text,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::CommonArgs;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        common: CommonArgs,
    }

    #[test]
    fn flags_are_well_formed_and_have_defaults() {
        Program::command().debug_assert();
        let program = Program::try_parse_from(["x"]).unwrap();
        assert_eq!(program.common.health_address.port(), 8081);
        assert_eq!(program.common.metrics_address.port(), 8080);
        assert_eq!(program.common.concurrency.get(), 8);
        assert!(Program::try_parse_from(["x", "--concurrency", "0"]).is_err());
    }
}
