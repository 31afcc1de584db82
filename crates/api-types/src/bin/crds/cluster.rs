//! Flags that select the cluster and limit the time.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, anyhow};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// Owner of the fields of the definitions on the API server.
pub(crate) const FIELD_MANAGER: &str = "dynamo-crds";

/// Cluster and time limit
#[derive(clap::Args)]
pub(crate) struct ClusterArgs {
    /// Kubeconfig file of the cluster [default: as kubectl does, or the service account inside a pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long)]
    context: Option<String>,
    /// Longest time in seconds for everything that is to be done at once
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
}

impl ClusterArgs {
    pub async fn client(&self) -> anyhow::Result<Client> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = match &self.kubeconfig {
            Some(path) => {
                let kubeconfig = Kubeconfig::read_from(path)
                    .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await?
            }
            None if self.context.is_some() => Config::from_kubeconfig(&options).await?,
            None => {
                Config::infer().await.context("no kubeconfig and no service account; name a file with --kubeconfig")?
            }
        };
        Ok(Client::try_from(config)?)
    }

    /// Fails if the work takes longer than it may.
    pub async fn in_time<T>(&self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        tokio::time::timeout(Duration::from_secs(self.timeout), work).await.unwrap_or_else(|_| {
            Err(anyhow!(
                "not done after {} s; are the API server and the conversion webhook reachable? --timeout allows for more time",
                self.timeout
            ))
        })
    }
}
