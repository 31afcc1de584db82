//! Flags that every process has.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf};

use crate::settings::{LogFormat, OperatorConfiguration};

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

    /// Where /metrics is served, by HTTPS unless server.metrics.secure of the configuration is false
    #[arg(long, value_name = "ADDRESS", env = "DYNAMO_METRICS_ADDRESS", default_value = "0.0.0.0:8080", global = true)]
    pub metrics_address: SocketAddr,

    /// Address of NATS; default: infrastructure.natsAddress of the configuration
    #[arg(long = "natsAddr", value_name = "ADDRESS", env = "DYNAMO_NATS_ADDR", global = true)]
    pub nats_addr: Option<String>,

    /// Addresses of etcd; default: infrastructure.etcdAddress of the configuration
    #[arg(long = "etcdAddr", value_name = "ADDRESSES", env = "DYNAMO_ETCD_ADDR", global = true)]
    pub etcd_addr: Option<String>,

    /// How many objects are reconciled at the same time
    #[arg(long, value_name = "N", env = "DYNAMO_CONCURRENCY", default_value = "8", global = true)]
    pub concurrency: NonZeroUsize,
}

impl CommonArgs {
    /// Puts in what flags say of the configuration. An empty flag says nothing: that is how older charts leave one out.
    pub fn overrule(&self, settings: &mut OperatorConfiguration) {
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
