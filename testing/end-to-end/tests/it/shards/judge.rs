//! Compares who wrote, by the audit log, with who was assigned, by the elected Lease.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use end_to_end::BoxError;
use futures::TryStreamExt;
use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::{
    Api, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::Value;

/// Annotation of the elected Lease.
const ASSIGNMENT: &str = "operator.dynamo/shards";

/// Prefix of account names and identities of members; the number follows.
pub const MEMBER: &str = "member-";

/// The place of a namespace, as `docs/scaling.md` describes it.
fn place(namespace: &str) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in namespace.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// The number of a member, from `member-2_…`.
pub fn member(identity: &str) -> Option<usize> {
    identity.strip_prefix(MEMBER)?.split('_').next()?.parse().ok()
}

/// Last places of ranges, and who owns them: its number, and its identity, which each process has anew.
type Ranges = Vec<(u64, usize, String)>;

/// All assignments that there were, by the resource version of the Lease. A watch misses some around a restart of the API
/// server, and the audit log those whose answer it did not live to write.
#[derive(Clone, Default)]
pub struct Assignments(Arc<Mutex<BTreeMap<u64, Ranges>>>);

impl Assignments {
    /// Follows the elected Lease until the test ends.
    pub fn follow(leases: Api<Lease>, name: &str) -> Self {
        let (this, config) = (Self::default(), watcher::Config::default().fields(&format!("metadata.name={name}")));
        let record = this.clone();
        tokio::spawn(async move {
            let mut leases = std::pin::pin!(watcher(leases, config).default_backoff().applied_objects());
            loop {
                match leases.try_next().await {
                    Ok(Some(lease)) => record.take_in(
                        lease.resource_version().as_deref(),
                        lease.annotations().get(ASSIGNMENT).map(String::as_str),
                    ),
                    Ok(None) => return,
                    Err(error) => println!("watch of the elected Lease: {error}"),
                }
            }
        });
        this
    }

    fn take_in(&self, version: Option<&str>, annotation: Option<&str>) {
        let version = version.and_then(|version| version.parse().ok());
        if let (Some(version), Some(ranges)) = (version, annotation.and_then(ranges)) {
            self.all().insert(version, ranges);
        }
    }

    /// Takes in an event of the audit log.
    fn take_in_event(&self, event: &Value) {
        let lease = &event["responseObject"]["metadata"];
        if event["stage"] == "ResponseComplete" && event["objectRef"]["resource"] == "leases" {
            self.take_in(lease["resourceVersion"].as_str(), lease["annotations"][ASSIGNMENT].as_str());
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Ranges>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present owner of a namespace.
    pub fn owner(&self, namespace: &str) -> Option<usize> {
        self.owners(namespace).pop()
    }

    /// Counts the processes that own places at present, those included that are gone and are not known to be.
    pub fn members(&self) -> usize {
        let all = self.all();
        let ranges = all.last_key_value().into_iter().flat_map(|(_, ranges)| ranges);
        ranges.map(|(_, _, identity)| identity).collect::<BTreeSet<_>>().len()
    }

    /// The owners of a namespace, one after the other.
    fn owners(&self, namespace: &str) -> Vec<usize> {
        let place = place(namespace);
        let owner = |ranges: &Ranges| ranges.iter().find(|(last, ..)| place <= *last).map(|(_, owner, _)| *owner);
        let mut owners: Vec<usize> = self.all().values().filter_map(owner).collect();
        owners.dedup();
        owners
    }
}

fn ranges(annotation: &str) -> Option<Ranges> {
    let assignment: Value = serde_json::from_str(annotation).ok()?;
    let range = |range: &Value| {
        let last = u64::from_str_radix(range["last"].as_str()?, 16).ok()?;
        let identity = range["owner"]["id"].as_str()?;
        Some((last, member(identity)?, identity.to_owned()))
    };
    assignment["ranges"].as_array()?.iter().map(range).collect()
}

/// A request that changed something.
#[derive(Debug, Clone, Copy)]
pub struct Write {
    pub member: usize,
    pub received: Timestamp,
    answered: Timestamp,
}

/// Writes of the members by namespace, from the audit log, which is read bit by bit.
pub struct Audit {
    path: PathBuf,
    position: u64,
    writes: BTreeMap<String, Vec<Write>>,
    assignments: Assignments,
}

impl Audit {
    /// Reads this log; adds the assignments in it to `assignments`.
    pub fn new(path: PathBuf, assignments: Assignments) -> Self {
        Self { path, position: 0, writes: BTreeMap::new(), assignments }
    }

    /// The writes in a namespace so far.
    pub fn writes(&mut self, namespace: &str) -> Result<&[Write], BoxError> {
        self.read()?;
        Ok(self.writes.get(namespace).map(Vec::as_slice).unwrap_or_default())
    }

    fn read(&mut self) -> Result<(), BoxError> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.position))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // The last line may be half written.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.position += whole as u64;
        for event in text[..whole].lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            self.assignments.take_in_event(&event);
            if let Some((namespace, write)) = write(&event) {
                self.writes.entry(namespace).or_default().push(write);
            }
        }
        Ok(())
    }

    /// Returns the forbidden events in the namespaces.
    pub fn faults(&mut self, namespaces: &[String]) -> Result<Vec<String>, BoxError> {
        self.read()?;
        let faults = namespaces.iter().flat_map(|namespace| {
            let writes = self.writes.get(namespace).cloned().unwrap_or_default();
            let found = faults(writes, &self.assignments.owners(namespace));
            found.into_iter().map(move |fault| format!("{namespace}: {fault}"))
        });
        Ok(faults.collect())
    }
}

/// The namespace and the write of an event, if it is one of a member that succeeded.
fn write(event: &Value) -> Option<(String, Write)> {
    let (verb, object) = (event["verb"].as_str()?, &event["objectRef"]);
    let done = event["stage"] == "ResponseComplete" && event["responseStatus"]["code"].as_u64()? < 400;
    let counts = object["resource"] != "leases" && object["resource"] != "events";
    if !done || !counts || ["get", "list", "watch"].contains(&verb) {
        return None;
    }
    let member = member(event["user"]["username"].as_str()?.rsplit(':').next()?)?;
    let time = |name: &str| event[name].as_str()?.parse().ok();
    let write = Write { member, received: time("requestReceivedTimestamp")?, answered: time("stageTimestamp")? };
    Some((object["namespace"].as_str()?.to_owned(), write))
}

/// Writes of two members at the same time, and writers that do not follow each other as the owners do.
fn faults(mut writes: Vec<Write>, owners: &[usize]) -> Vec<String> {
    writes.sort_by_key(|write| write.received);
    let mut faults = Vec::new();
    let mut ahead = owners.iter();
    let mut owner = ahead.next();
    let mut last: Option<Write> = None;
    for write in writes {
        if let Some(before) = last.filter(|before| before.member != write.member && before.answered > write.received) {
            faults.push(format!("{write:?} began before {before:?} had ended"));
        }
        while owner.is_some_and(|owner| *owner != write.member) {
            owner = ahead.next();
        }
        if owner.is_none() {
            faults.push(format!("{write:?} is out of the order of the owners {owners:?}"));
            return faults;
        }
        last = last.filter(|before| before.answered > write.answered).or(Some(write));
    }
    faults
}

#[test]
fn the_judge_sees_what_must_not_be() {
    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let write = |member: usize, from: i64, to: i64| Write { member, received: at(from), answered: at(to) };
    for (writes, owners, expected) in [
        (vec![write(0, 0, 1), write(0, 1, 2), write(1, 3, 4), write(0, 5, 6)], vec![0, 1, 0], 0),
        (vec![write(0, 0, 1), write(0, 5, 6)], vec![2, 0, 1, 0], 0),
        (vec![write(0, 0, 1), write(1, 3, 4), write(0, 5, 6)], vec![0, 1], 1),
        (vec![write(0, 0, 3), write(1, 2, 4)], vec![0, 1], 1),
        (vec![write(0, 0, 1)], vec![1], 1),
        (vec![write(0, 0, 1)], vec![], 1),
    ] {
        assert_eq!(faults(writes.clone(), &owners).len(), expected, "{writes:?} {owners:?}");
    }
    let text = r#"{"epoch":1,"by":"x","ranges":[{"last":"7fffffffffffffff","owner":{"id":"member-2_7_9.1","slot":0,"seen":3}},
        {"last":"ffffffffffffffff","owner":{"id":"member-0_8_9.1","slot":1,"seen":4}}]}"#;
    let expected = vec![(u64::MAX / 2, 2, "member-2_7_9.1".to_owned()), (u64::MAX, 0, "member-0_8_9.1".to_owned())];
    assert_eq!(ranges(text), Some(expected));
}
