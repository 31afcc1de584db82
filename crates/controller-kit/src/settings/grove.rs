//! Grove, which places and starts the pods of a graph together.

use std::time::Duration;

use serde::Deserialize;

use super::GoDuration;

/// Grove.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Grove {
    /// `false` switches it off although it is there. Default unset: used where the cluster offers it.
    pub enabled: Option<bool>,
    /// How long less than the minimum of a gang may be available before the gang is restarted. Default 15 minutes; zero
    /// leaves it to Grove.
    pub termination_delay: GoDuration,
}

impl Default for Grove {
    fn default() -> Self {
        Self { enabled: None, termination_delay: GoDuration(Duration::from_secs(15 * 60)) }
    }
}
