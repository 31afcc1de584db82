//! Checks, in this order: each check uses the state that those before it left.

mod cluster_wide;
mod go_operator;
mod releases;
mod rights;
mod rollouts;
mod scopes;

use std::time::Instant;

use anyhow::{Context, Result};

use super::harness::Harness;

/// Namespace and release of the cluster-wide install.
const OPERATOR: &str = "dynamo-system";
const RELEASE: &str = "dynamo";
/// Namespace of graphs.
const TEAM: &str = "team";

/// Runs the checks whose names begin with one of `only`, or all.
pub(super) async fn run(harness: &Harness, only: &[String]) -> Result<()> {
    macro_rules! checks {
        ($($module:ident::$check:ident),* $(,)?) => {
            $(
                let name = stringify!($check);
                if only.is_empty() || only.iter().any(|expected| name.starts_with(expected.as_str())) {
                    let begin = Instant::now();
                    $module::$check(harness).await.with_context(|| format!("check {name}"))?;
                    println!("ok {name} ({:.0} s)", begin.elapsed().as_secs_f64());
                }
            )*
        };
    }
    checks!(
        cluster_wide::install,
        cluster_wide::graph_runs,
        cluster_wide::logs_and_network,
        cluster_wide::webhooks,
        cluster_wide::rollout,
        cluster_wide::memory_exhausted,
        rollouts::rollout_control,
        cluster_wide::adapter,
        releases::one_program,
        scopes::hybrid,
        scopes::hand_over,
        scopes::uninstall,
        scopes::restricted,
        releases::charts_alone,
        rights::rights,
        go_operator::go_operator,
    );
    Ok(())
}
