//! How long a pass has to wait for the one before.

use std::time::Duration;

use tokio::time::Instant;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);
/// Passes that write, one soon after the other, before the pause grows: changes come in groups.
const WRITES: u32 = 3;
/// A pass that writes counts for this long. Longer than the longest pause, so that another writer that always
/// contradicts is never answered more often than that.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Result of a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    /// Nothing is left to do.
    pub is_done: bool,
    /// A definition was written.
    pub wrote: bool,
}

/// The pause between passes. It grows while passes fail, and while each has to write again what another writer changes.
#[derive(Debug, Default)]
pub(super) struct Pace {
    failures: u32,
    writes: u32,
    last_write: Option<Instant>,
}

impl Pace {
    /// The pause after a pass that ended now.
    pub fn after(&mut self, pass: Pass, now: Instant) -> Duration {
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

    const FAILED: Pass = Pass { is_done: false, wrote: false };
    const WROTE: Pass = Pass { is_done: true, wrote: true };
    const NOTHING: Pass = Pass { is_done: true, wrote: false };

    /// Pauses in seconds, where each pass begins when the pause is over.
    fn pauses(pace: &mut Pace, now: &mut Instant, passes: &[Pass]) -> Vec<u64> {
        let pause = |pass: &Pass| {
            let pause = pace.after(*pass, *now);
            *now += pause;
            pause.as_secs()
        };
        passes.iter().map(pause).collect()
    }

    #[test]
    fn the_pause_grows_while_passes_fail_and_is_short_again_after_one_that_does_not() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        let grown = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300];
        assert_eq!(pauses(&mut pace, &mut now, &[FAILED; 11]), grown);
        assert_eq!(pauses(&mut pace, &mut now, &[NOTHING, FAILED, FAILED]), [1, 1, 2]);
        assert_eq!(pace.after(Pass { is_done: false, wrote: true }, now).as_secs(), 4);
    }

    #[test]
    fn a_writer_that_always_contradicts_is_answered_ever_more_rarely() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
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
