//! Reads in the audit log who had the namespace when, and who wrote.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
    time::Duration,
};

use end_to_end::BoxError;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

const MARKER: &str = "dynamo-operator-namespace-scope";

/// Writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The operator of the whole cluster.
    Wide,
    /// The operator of the namespace.
    Own,
    /// The holder of the namespace's marker.
    Marker,
}

impl Side {
    /// Name of its ServiceAccount.
    pub fn account(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Own => "own",
            Self::Marker => "marker",
        }
    }
}

/// Limits that must hold.
pub struct Bounds {
    /// Validity of a marker.
    pub marker: Duration,
    /// Time after a hand-over in which a write may still arrive.
    pub late: Duration,
    /// Longest time without any write.
    pub gap: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Write(Side),
    Marked,
    Unmarked,
}

/// The log, read bit by bit.
pub struct Audit {
    path: PathBuf,
    namespace: String,
    position: u64,
    acts: Vec<(Timestamp, Act)>,
    /// Outages of the API server.
    outages: Vec<(Timestamp, Timestamp)>,
}

impl Audit {
    pub fn new(path: PathBuf, namespace: &str) -> Self {
        Self { path, namespace: namespace.to_owned(), position: 0, acts: Vec::new(), outages: Vec::new() }
    }

    /// The API server was away.
    pub fn neither_side_could_write(&mut self, from: Timestamp, to: Timestamp) {
        self.outages.push((from, to));
    }

    /// The last write of one side so far.
    pub fn last_write(&mut self, side: Side) -> Result<Option<Timestamp>, BoxError> {
        self.read()?;
        let writes = self.acts.iter().rev();
        Ok(writes.filter(|(_, act)| matches!(act, Act::Write(by) if *by == side)).map(|(time, _)| *time).max())
    }

    fn read(&mut self) -> Result<(), BoxError> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.position))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // The last line may be half written.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.position += whole as u64;
        for line in text[..whole].lines() {
            // An API server that was killed may have left half a line.
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            if let Some(act) = act(&event, &self.namespace) {
                self.acts.push((event["requestReceivedTimestamp"].as_str().unwrap_or_default().parse()?, act));
            }
        }
        Ok(())
    }

    /// Returns the forbidden events.
    pub fn faults(&mut self, bounds: &Bounds) -> Result<Vec<String>, BoxError> {
        self.read()?;
        let mut acts = self.acts.clone();
        acts.sort_by_key(|(time, _)| *time);
        let mut faults = strangers(&acts, bounds);
        faults.extend(self.gaps(&acts, bounds));
        Ok(faults)
    }

    /// Times without a write, although one of the operators could write.
    fn gaps(&self, acts: &[(Timestamp, Act)], bounds: &Bounds) -> Vec<String> {
        let writes = acts.iter().filter(|(_, act)| matches!(act, Act::Write(_))).map(|(time, _)| *time);
        let writes: Vec<Timestamp> = writes.collect();
        let pairs = writes.iter().zip(writes.iter().skip(1));
        let away = |from: Timestamp, to: Timestamp| -> SignedDuration {
            let overlaps = self.outages.iter().map(|(start, end)| to.min(*end).duration_since(from.max(*start)));
            overlaps.filter(|overlap| overlap.is_positive()).sum()
        };
        let gaps = pairs.map(|(from, to)| (*from, to.duration_since(*from) - away(*from, *to)));
        let long = gaps.filter(|(_, gap)| *gap > signed(bounds.gap));
        long.map(|(from, gap)| format!("no write for {gap:#} from {from}")).collect()
    }
}

/// Writes where the namespace was the other's.
fn strangers(acts: &[(Timestamp, Act)], bounds: &Bounds) -> Vec<String> {
    let late = signed(bounds.late);
    // Since when, and until when.
    let mut marked: Option<(Timestamp, Timestamp)> = None;
    let mut faults = Vec::new();
    for &(time, act) in acts {
        match act {
            Act::Marked => {
                let since = marked.filter(|(_, until)| time < *until).map_or(time, |(since, _)| since);
                marked = Some((since, time + signed(bounds.marker)));
            }
            Act::Unmarked => marked = marked.map(|(since, until)| (since, until.min(time))),
            Act::Write(Side::Wide) => {
                if let Some((since, until)) = marked.filter(|(since, until)| time > *since + late && time < *until) {
                    faults.push(format!("the cluster-wide operator wrote at {time}; marked from {since} to {until}"));
                }
            }
            Act::Write(_) => match marked {
                Some((_, until)) if time <= until + late => {}
                marked => {
                    faults.push(format!("the operator of the namespace wrote at {time}; the marker was {marked:?}"))
                }
            },
        }
    }
    faults
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::from_secs(i64::try_from(duration.as_secs()).unwrap_or(i64::MAX))
}

/// Returns the effect of a request on the namespace, if it succeeded and had an effect.
fn act(event: &Value, namespace: &str) -> Option<Act> {
    let (verb, object) = (event["verb"].as_str()?, &event["objectRef"]);
    let done = event["stage"] == "ResponseComplete" && event["responseStatus"]["code"].as_u64()? < 400;
    if !done || object["namespace"] != namespace || ["get", "list", "watch"].contains(&verb) {
        return None;
    }
    let user = event["user"]["username"].as_str()?;
    let side = [Side::Wide, Side::Own, Side::Marker]
        .into_iter()
        .find(|side| user.ends_with(&format!(":{}", side.account())))?;
    match side {
        Side::Marker if object["name"] == MARKER || verb == "create" => {
            Some(if verb == "delete" { Act::Unmarked } else { Act::Marked })
        }
        Side::Marker => None,
        _ if object["resource"] == "leases" || object["resource"] == "events" => None,
        side => Some(Act::Write(side)),
    }
}

#[test]
fn the_judge_sees_what_must_not_be() {
    let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
    let second = Duration::from_secs(1);
    let bounds = Bounds { marker: 10 * second, late: second, gap: 15 * second };
    let (wide, own) = (Act::Write(Side::Wide), Act::Write(Side::Own));
    for (acts, faults) in [
        (vec![(at(0), Act::Marked), (at(1), wide), (at(5), own), (at(11), own), (at(12), wide)], 0),
        (vec![(at(0), Act::Marked), (at(2), wide)], 1),
        (vec![(at(0), Act::Marked), (at(9), Act::Marked), (at(15), wide)], 1),
        (vec![(at(0), Act::Marked), (at(3), Act::Unmarked), (at(4), wide), (at(5), own)], 1),
        (vec![(at(0), Act::Marked), (at(12), own)], 1),
        (vec![(at(0), own)], 1),
    ] {
        assert_eq!(strangers(&acts, &bounds).len(), faults, "{acts:?}");
    }
    let mut audit = Audit::new(PathBuf::new(), "team");
    let acts = [(at(0), wide), (at(20), own)];
    assert_eq!(audit.gaps(&acts, &bounds).len(), 1);
    audit.neither_side_could_write(at(2), at(12));
    assert!(audit.gaps(&acts, &bounds).is_empty());
}
