//! `crds serve`: keeps the definitions as `crds apply` leaves them, and sets the CA bundle of the conversion webhook in
//! them.

mod health;
mod keeper;
mod pace;

use std::{convert::Infallible, net::SocketAddr, str::FromStr};

use api_types::crds::ConversionService;
use tokio::{
    select,
    signal::unix::{SignalKind, signal},
    time::Instant,
};

use self::{health::Readiness, keeper::Keeper, pace::Pace};
use crate::cluster::ClusterArgs;

/// Flags of `crds serve`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Service that converts between versions, NAMESPACE/NAME[:PORT]
    #[arg(long, value_name = "SERVICE")]
    webhook_service: ConversionService,
    /// ConfigMap with the CA bundle of that Service under the key ca.crt, NAMESPACE/NAME; it may come later
    #[arg(long, value_name = "CONFIGMAP")]
    ca_config_map: ConfigMapName,
    /// Set the CA bundle only: definitions, and the objects that are stored, belong to another program
    #[arg(long)]
    bundle_only: bool,
    /// Where /healthz and /readyz are served [default: nowhere]; ready when all definitions are applied and hold the CA
    /// bundle that is known
    #[arg(long, value_name = "ADDRESS")]
    health_address: Option<SocketAddr>,
}

/// A ConfigMap, as NAMESPACE/NAME.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ConfigMapName {
    namespace: String,
    name: String,
}

impl FromStr for ConfigMapName {
    type Err = &'static str;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        match given.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err("write NAMESPACE/NAME"),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut end = signal(SignalKind::terminate())?;
        select! {
            served = serve(args) => served.map(|never| match never {}),
            _ = end.recv() => Ok(()),
        }
    })
}

/// Runs for ever: what fails is logged and repeated.
async fn serve(args: &Args) -> anyhow::Result<Infallible> {
    let client = args.cluster.client().await?;
    let readiness = Readiness::default();
    if let Some(address) = args.health_address {
        health::start(address, readiness.clone()).await?;
    }
    let mut keeper = Keeper::new(args, client, readiness)?;
    let mut pace = Pace::default();
    loop {
        let pass = keeper.pass().await;
        let pause = pace.after(pass, Instant::now());
        if pass.is_done {
            keeper.changed().await;
        } else {
            eprintln!("tried again in {} s", pause.as_secs());
        }
        keeper.rest(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_map_is_named_with_its_namespace() {
        let parsed: ConfigMapName = "dynamo-system/ca".parse().unwrap();
        assert_eq!(parsed, ConfigMapName { namespace: "dynamo-system".to_owned(), name: "ca".to_owned() });
        for wrong in ["ca", "/ca", "a/", "a/b/c"] {
            assert!(wrong.parse::<ConfigMapName>().is_err(), "{wrong}");
        }
    }
}
