//! Flags that every process has.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf};

use crate::settings::{LogFormat, OperatorConfiguration};

/// A log level that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("log level {0:?} is unknown; use trace, debug, info, warn or error, or a filter in --log-filter (RUST_LOG)")]
pub struct UnknownLevel(String);

/// The filter for a level. The upstream operator has more names for errors.
fn level_of(level: &str) -> Option<&'static str> {
    Some(match level.to_ascii_lowercase().as_str() {
        "trace" => "trace",
        "debug" => "debug",
        "info" => "info",
        "warn" | "warning" => "warn",
        "error" | "dpanic" | "panic" | "fatal" => "error",
        _ => return None,
    })
}

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

    /// Filter of the log, for example "info,controller_kit=debug"; default: logging.level of the configuration
    #[arg(long, value_name = "FILTER", env = "RUST_LOG", global = true)]
    pub log_filter: Option<String>,

    /// Least level to log: trace, debug, info, warn or error; --log-filter overrides it
    #[arg(long, value_name = "LEVEL", env = "LOG_LEVEL", global = true)]
    pub log_level: Option<String>,

    /// Address of /healthz and /readyz
    #[arg(long, value_name = "ADDRESS", env = "DYNAMO_HEALTH_ADDRESS", default_value = "0.0.0.0:8081", global = true)]
    pub health_address: SocketAddr,

    /// Address of /metrics, served by HTTPS unless server.metrics.secure of the configuration is false
    #[arg(long, value_name = "ADDRESS", env = "DYNAMO_METRICS_ADDRESS", default_value = "0.0.0.0:8080", global = true)]
    pub metrics_address: SocketAddr,

    /// Address of NATS; default: infrastructure.natsAddress of the configuration
    #[arg(long = "natsAddr", value_name = "ADDRESS", env = "DYNAMO_NATS_ADDR", global = true)]
    pub nats_addr: Option<String>,

    /// Addresses of etcd; default: infrastructure.etcdAddress of the configuration
    #[arg(long = "etcdAddr", value_name = "ADDRESSES", env = "DYNAMO_ETCD_ADDR", global = true)]
    pub etcd_addr: Option<String>,

    /// All replicas act, each in namespaces of its own; default: leaderElection.shards of the configuration
    #[arg(long, env = "DYNAMO_SHARDS", global = true)]
    pub shards: bool,

    /// Number of objects that are reconciled at the same time
    #[arg(long, value_name = "N", env = "DYNAMO_CONCURRENCY", default_value = "8", global = true)]
    pub concurrency: NonZeroUsize,
}

impl CommonArgs {
    /// Returns the log filter: that of the filter flag, else of the level flag, else of the configuration. An empty
    /// flag counts as not given.
    ///
    /// # Errors
    /// A level that does not exist.
    pub fn filter<'a>(&'a self, settings: &'a OperatorConfiguration) -> Result<&'a str, UnknownLevel> {
        let given = |flag: &'a Option<String>| flag.as_deref().filter(|text| !text.is_empty());
        match (given(&self.log_filter), given(&self.log_level)) {
            (Some(filter), _) => Ok(filter),
            (None, Some(level)) => level_of(level).ok_or_else(|| UnknownLevel(level.to_owned())),
            (None, None) => Ok(&settings.logging.level),
        }
    }

    /// Puts in what flags say of the configuration. An empty flag says nothing: that is how older charts leave one out.
    pub fn overrule(&self, settings: &mut OperatorConfiguration) {
        settings.leader_election.shards |= self.shards;
        let infrastructure = &mut settings.infrastructure;
        for (flag, setting) in
            [(&self.nats_addr, &mut infrastructure.nats_address), (&self.etcd_addr, &mut infrastructure.etcd_address)]
        {
            if let Some(address) = flag.as_ref().filter(|address| !address.is_empty()) {
                setting.clone_from(address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::CommonArgs;
    use crate::settings::OperatorConfiguration;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        common: CommonArgs,
    }

    /// Found defect: `LOG_LEVEL`, by which the documents of the legacy API set the verbosity, had no effect.
    #[test]
    fn a_level_is_a_filter_that_a_filter_overrides() {
        let mut settings = OperatorConfiguration::default();
        settings.logging.level = "warn".to_owned();
        for (args, expected) in [
            (&["x"][..], Some("warn")),
            (&["x", "--log-level="], Some("warn")),
            (&["x", "--log-level=info"], Some("info")),
            (&["x", "--log-level=DEBUG"], Some("debug")),
            (&["x", "--log-level=warning"], Some("warn")),
            (&["x", "--log-level=fatal"], Some("error")),
            (&["x", "--log-level=debug", "--log-filter=info,kube=warn"], Some("info,kube=warn")),
            (&["x", "--log-level=debug", "--log-filter="], Some("debug")),
            (&["x", "--log-level=verbose"], None),
        ] {
            let program = Program::try_parse_from(args).unwrap();
            assert_eq!(program.common.filter(&settings).ok(), expected, "{args:?}");
        }
        let variables = Program::command();
        let variable = variables.get_arguments().find(|arg| arg.get_id() == "log_level").and_then(|arg| arg.get_env());
        assert_eq!(variable.and_then(|name| name.to_str()), Some("LOG_LEVEL"));
    }

    #[test]
    fn flags_are_well_formed_and_have_defaults() {
        Program::command().debug_assert();
        let program = Program::try_parse_from(["x"]).unwrap();
        assert_eq!(program.common.health_address.port(), 8081);
        assert_eq!(program.common.metrics_address.port(), 8080);
        assert_eq!(program.common.concurrency.get(), 8);
        assert!(Program::try_parse_from(["x", "--concurrency", "0"]).is_err());
        let program = Program::try_parse_from(["x", "--natsAddr=nats://n:4222", "--etcdAddr="]).unwrap();
        let mut settings = OperatorConfiguration::default();
        settings.infrastructure.etcd_address = "etcd:2379".to_owned();
        program.common.overrule(&mut settings);
        let infrastructure = &settings.infrastructure;
        assert_eq!((&*infrastructure.nats_address, &*infrastructure.etcd_address), ("nats://n:4222", "etcd:2379"));
    }
}
