//! The newest version that a watch has seen.

use tracing::warn;

use super::WatchError;

/// An API server that answers this many consistent reads in a row with the same past was restored from a backup.
const PROOFS: u32 = 3;

/// The newest version that was seen, so that a list cannot lead back in time.
#[derive(Debug, Default)]
pub(super) struct History {
    newest: u64,
    behind: u32,
}

impl History {
    /// An event of this version was received. Versions that are no numbers cannot be compared.
    pub(super) fn saw(&mut self, version: &str) {
        self.newest = self.newest.max(version.parse().unwrap_or_default());
    }

    /// Accepts a complete list of this version, or rejects it because it is older than what was seen before.
    pub(super) fn accept(&mut self, version: &str) -> Result<(), WatchError> {
        let Ok(listed) = version.parse::<u64>() else { return Ok(()) };
        if listed < self.newest {
            self.behind += 1;
            if self.behind < PROOFS {
                return Err(WatchError::Behind { listed, seen: self.newest });
            }
            warn!(listed, seen = self.newest, "resource versions went back; the API server was restored from a backup");
        }
        *self = Self { newest: listed, behind: 0 };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_older_than_what_was_seen_is_rejected() {
        let mut history = History::default();
        history.accept("10").unwrap();
        history.accept("10").unwrap();
        history.saw("12");
        assert!(matches!(history.accept("11"), Err(WatchError::Behind { listed: 11, seen: 12 })));
        history.accept("12").unwrap();
        history.saw("11");
        assert!(history.accept("11").is_err(), "an old event makes the history no younger");
        history.accept("13").unwrap();
        history.accept("not-a-number").unwrap();
        assert!(history.accept("12").is_err());
    }

    #[test]
    fn an_api_server_that_insists_on_a_past_was_restored() {
        let mut history = History::default();
        history.accept("100").unwrap();
        for _ in 1..PROOFS {
            assert!(history.accept("50").is_err());
        }
        history.accept("50").unwrap();
        history.accept("51").unwrap();
        assert!(history.accept("50").is_err(), "time goes on from there");
    }
}
