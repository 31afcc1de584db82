//! `crds serve`: keeps the definitions as `crds apply` leaves them, and sets the CA bundle of the conversion webhook in
//! them.
//!
//! The pause between two passes grows while passes fail, and while each has to write again what another writer changes.

mod health;
mod keeper;

use std::{convert::Infallible, net::SocketAddr, str::FromStr, time::Duration};

use api_types::crds::ConversionService;
use tokio::{
    select,
    signal::unix::{SignalKind, signal},
    time::Instant,
};

use self::{health::DefinitionReadiness, keeper::DefinitionKeeper};
use crate::cluster::ClusterArgs;

/// Flags of `crds serve`.
#[derive(clap::Args)]
pub(crate) struct CrdsServeArgs {
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
    /// Address that serves /healthz and /readyz [default: none]; ready when all definitions are applied and hold the CA
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

pub(crate) fn run(args: &CrdsServeArgs) -> anyhow::Result<()> {
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
async fn serve(args: &CrdsServeArgs) -> anyhow::Result<Infallible> {
    let client = args.cluster.client().await?;
    let readiness = DefinitionReadiness::default();
    if let Some(address) = args.health_address {
        health::start(address, readiness.clone()).await?;
    }
    let mut keeper = DefinitionKeeper::new(args, client, readiness)?;
    let mut pace = PassPause::default();
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

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);
/// Passes that write, one soon after the other, before the pause grows: changes come in groups.
const WRITES: u32 = 3;
/// A pass that writes counts for this long. Longer than the longest pause, so that another writer that always
/// contradicts is never answered more often than that.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Result of a pass.
#[derive(Clone, Copy, Debug)]
struct PassResult {
    /// Nothing is left to do.
    pub is_done: bool,
    /// A definition was written.
    pub wrote: bool,
}

/// The pause between passes. It grows while passes fail, and while each has to write again what another writer changes.
#[derive(Debug, Default)]
struct PassPause {
    failures: u32,
    writes: u32,
    last_write: Option<Instant>,
}

impl PassPause {
    /// The pause after a pass that ended now.
    pub fn after(&mut self, pass: PassResult, now: Instant) -> Duration {
        self.failures = if pass.is_done { 0 } else { self.failures.saturating_add(1) };
        if self.last_write.is_some_and(|last| now.saturating_duration_since(last) > REMEMBERED) {
            self.writes = 0;
        }
        if pass.wrote {
            self.writes = self.writes.saturating_add(1);
            self.last_write = Some(now);
        }
        let doublings = self.failures.saturating_sub(1).max(self.writes.saturating_sub(WRITES));
        SHORTEST.saturating_mul(1 << doublings.min(16)).min(LONGEST)
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

    const FAILED: PassResult = PassResult { is_done: false, wrote: false };
    const WROTE: PassResult = PassResult { is_done: true, wrote: true };
    const NOTHING: PassResult = PassResult { is_done: true, wrote: false };

    /// Pauses in seconds, where each pass begins when the pause is over.
    fn pauses(pace: &mut PassPause, now: &mut Instant, passes: &[PassResult]) -> Vec<u64> {
        let pause = |pass: &PassResult| {
            let pause = pace.after(*pass, *now);
            *now += pause;
            pause.as_secs()
        };
        passes.iter().map(pause).collect()
    }

    #[test]
    fn the_pause_grows_while_passes_fail_and_is_short_again_after_one_that_does_not() {
        let (mut pace, mut now) = (PassPause::default(), Instant::now());
        let grown = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300];
        assert_eq!(pauses(&mut pace, &mut now, &[FAILED; 11]), grown);
        assert_eq!(pauses(&mut pace, &mut now, &[NOTHING, FAILED, FAILED]), [1, 1, 2]);
        assert_eq!(pace.after(PassResult { is_done: false, wrote: true }, now).as_secs(), 4);
    }

    #[test]
    fn a_writer_that_always_contradicts_is_answered_ever_more_rarely() {
        let (mut pace, mut now) = (PassPause::default(), Instant::now());
        let grown = [1, 1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300];
        assert_eq!(pauses(&mut pace, &mut now, &[WROTE; 13]), grown);
        assert_eq!(
            pauses(&mut pace, &mut now, &[NOTHING, WROTE]),
            [300, 300],
            "it is not forgotten between two answers"
        );
        now += REMEMBERED;
        assert_eq!(pauses(&mut pace, &mut now, &[NOTHING, WROTE]), [1, 1]);
    }
}
