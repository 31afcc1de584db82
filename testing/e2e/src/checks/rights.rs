//! Check that the programs used their rights.

use anyhow::{Context, Result};
use rights::Install;

use super::{OPERATOR, RELEASE};
use crate::{
    checks::scopes::{OWN, OWN_RELEASE, RESTRICTED},
    harness::Harness,
};

/// Each right of each ServiceAccount was used in this run, or there is an argument for it. Makes sense after all other
/// checks.
pub(super) async fn rights(harness: &Harness) -> Result<()> {
    let path = harness.cluster.audit_log()?;
    let log = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let installs = [
        Install { release: RELEASE, namespace: OPERATOR, values: &[] },
        Install { release: OWN_RELEASE, namespace: OWN, values: &RESTRICTED },
    ];
    rights::check(&installs, &log)
}
