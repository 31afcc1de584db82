//! Identity of a process: a pid together with its start time, so that a pid given to another process is detected.

use std::{fs, path::Path};

/// A process that ran when it was looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// Start time, in clock ticks since boot.
    started: u64,
}

impl Process {
    /// Reads a record of the form `<pid> <start time>`.
    pub(crate) fn from_record(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let (pid, started) = text.trim().split_once(' ')?;
        Some(Self { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }

    /// Whether this very process still runs. One that has ended but was not waited for counts as ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok().as_deref().and_then(start_time)
            == Some(self.started)
    }
}

/// The start time from a line of `/proc/<pid>/stat`, or `None` for a process that has ended. The name in brackets may
/// hold anything, so fields are counted from the last bracket: the state is the first, the number of threads the 18th,
/// the start time the 20th.
///
/// A process whose first thread is a zombie while others still end has not ended: they hold its ports until they are
/// gone.
fn start_time(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let threads: u32 = fields.get(17)?.parse().ok()?;
    match *fields.first()? {
        "X" => None,
        "Z" if threads <= 1 => None,
        _ => fields.get(19)?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::start_time;

    #[test]
    fn start_time_is_found_behind_an_awkward_name() {
        let rest = "1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        assert_eq!(start_time(&format!("12 (a) b) S {rest}")), Some(4711));
        assert_eq!(start_time(&format!("12 (dead) Z {rest}")), None);
        assert_eq!(start_time(&format!("12 (ending) Z {}", rest.replace("0 1 0 4711", "0 3 0 4711"))), Some(4711));
        assert_eq!(start_time("12 (short) S 1 2"), None);
    }
}
