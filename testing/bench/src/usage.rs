//! Resources that processes use, from the kernel.

use std::{collections::BTreeMap, fs};

use anyhow::{Context, Result};
use test_cluster::Process;

/// Ticks in a second. Linux reports this number to user space, independent of its own clock.
const TICKS: f64 = 100.0;

/// Use of CPU and memory by process, at one time.
#[derive(Debug, Clone, Default)]
pub(super) struct Usage {
    by_name: BTreeMap<String, One>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct One {
    cpu_seconds: f64,
    pss_kib: u64,
}

impl Usage {
    /// Looks at processes.
    pub(super) fn of(processes: &[(String, Process)]) -> Result<Self> {
        let one = |(name, process): &(String, Process)| {
            let read = |file: &str| {
                let path = format!("/proc/{}/{file}", process.pid);
                fs::read_to_string(&path).with_context(|| format!("{name} has ended: cannot read {path}"))
            };
            let cpu_seconds =
                cpu_seconds(&read("stat")?).with_context(|| format!("/proc/{}/stat is odd", process.pid))?;
            let pss_kib = pss_kib(&read("smaps_rollup")?).with_context(|| format!("{name} has no Pss"))?;
            Ok((name.clone(), One { cpu_seconds, pss_kib }))
        };
        Ok(Self { by_name: processes.iter().map(one).collect::<Result<_>>()? })
    }

    /// CPU time that each process has used since an earlier look, in seconds.
    pub(super) fn cpu_since(&self, earlier: &Self) -> BTreeMap<String, f64> {
        self.by_name.keys().map(|name| (name.clone(), self.cpu_seconds(name) - earlier.cpu_seconds(name))).collect()
    }

    /// CPU time of a process since its start, in seconds.
    pub(super) fn cpu_seconds(&self, name: &str) -> f64 {
        self.by_name.get(name).copied().unwrap_or_default().cpu_seconds
    }

    /// Memory of a process: its own, and its share of what it shares with others.
    pub(super) fn pss_kib(&self, name: &str) -> u64 {
        self.by_name.get(name).copied().unwrap_or_default().pss_kib
    }
}

/// CPU time of this process since its start, in seconds.
pub(super) fn own_cpu_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    cpu_seconds(&stat).context("/proc/self/stat is odd")
}

/// User and system time from `/proc/<pid>/stat`: fields 14 and 15, counted from the end of the name, which may hold
/// anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / TICKS)
}

fn pss_kib(rollup: &str) -> Option<u64> {
    let value = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_the_kernel_are_parsed() {
        assert_eq!(cpu_seconds("12 (a) b) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20"), Some(2.0));
        assert_eq!(pss_kib("5580-7ff [rollup]\nRss:   200 kB\nPss:     123 kB\nPss_Anon: 1 kB\n"), Some(123));
        assert_eq!(pss_kib("Rss: 1 kB\n"), None);
    }
}
