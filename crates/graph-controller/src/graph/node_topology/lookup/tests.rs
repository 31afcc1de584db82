//! Tests of what is read for pods of graphs with a KV-transfer policy.

use api_types::labels;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const TOPOLOGY: &str = "nvidia.com/topology-cluster-topology-name";
const ZONE: &str = "nvidia.com/dynamo-topology.zone";
const RACK: &str = "nvidia.com/dynamo-topology.rack";

/// A small cluster, and what was read of it.
struct Harness {
    pods: Vec<Pod>,
    memory: TopologyMemory,
    now: Instant,
    /// Node 0 says its rack, as all others do.
    complete: bool,
    /// Reads of topologies, of pods by their index, of nodes, and changes of pods.
    topologies: usize,
    pod_reads: BTreeMap<usize, usize>,
    nodes: usize,
    changes: usize,
}

struct Pod {
    version: usize,
    node: Option<usize>,
    labels: BTreeMap<String, String>,
}

impl Harness {
    fn with_pods(count: usize) -> Self {
        let pod = || Pod { version: 1, node: None, labels: BTreeMap::new() };
        Self {
            pods: (0..count).map(|_| pod()).collect(),
            memory: TopologyMemory::default(),
            now: Instant::now(),
            complete: false,
            topologies: 0,
            pod_reads: BTreeMap::new(),
            nodes: 0,
            changes: 0,
        }
    }

    /// Lets time pass until the next look; gives how long that was.
    fn wait(&mut self) -> Option<Duration> {
        let due = self.memory.due(&self.metadata(), self.now)?;
        self.now += due;
        Some(due)
    }

    fn change(&mut self, index: usize, change: impl FnOnce(&mut Pod)) {
        let pod = &mut self.pods[index];
        change(pod);
        pod.version += 1;
    }

    fn metadata(&self) -> Vec<ObjectMeta> {
        let meta = |(index, pod): (usize, &Pod)| {
            let mut labels = pod.labels.clone();
            let own = [("nvidia.com/dynamo-graph-deployment-name", "g"), ("nvidia.com/dynamo-component", "c")];
            labels.extend(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
            let value = json!({ "name": index.to_string(), "uid": index.to_string(), "labels": labels,
                "resourceVersion": pod.version.to_string(), "annotations": { TOPOLOGY: "t" } });
            serde_json::from_value(value).unwrap()
        };
        self.pods.iter().enumerate().map(meta).collect()
    }

    /// One pass; gives how many topologies, pods and nodes it has read.
    fn pass(&mut self) -> [usize; 3] {
        let metadata = self.metadata();
        let mut lookup = TopologyLookup::at(&metadata, &self.memory, self.now);
        let topologies = lookup.topologies().len();
        let level = |domain: &str| LabelCopy { from: domain.to_owned(), to: labels::topology(domain) };
        let levels = BTreeMap::from([("t".to_owned(), vec![level("zone"), level("rack")])]);
        lookup.resolve_levels(&levels, &mut self.memory);
        let unplaced = lookup.unplaced();
        let mut places = BTreeMap::new();
        for name in &unplaced {
            let index: usize = name.parse().unwrap();
            *self.pod_reads.entry(index).or_default() += 1;
            places.insert(name.clone(), self.pods[index].node.map(|node| node.to_string()));
        }
        lookup.resolve_nodes(&places, &mut self.memory);
        let nodes = lookup.nodes();
        let labels = |node: &String| {
            let mut labels = BTreeMap::from([("zone".to_owned(), format!("z{node}"))]);
            if self.complete || node != "0" {
                labels.insert("rack".to_owned(), format!("r{node}"));
            }
            (node.clone(), labels)
        };
        for finding in lookup.resolve_labels(&nodes.iter().map(labels).collect()) {
            let index: usize = finding.pod.name.as_deref().unwrap().parse().unwrap();
            if !finding.found.is_empty() {
                self.changes += 1;
                self.pods[index].labels.extend(finding.found.clone());
                self.pods[index].version += 1;
            }
            self.memory.settle(&finding, self.now);
        }
        self.topologies += topologies;
        self.nodes += nodes.len();
        [topologies, unplaced.len(), nodes.len()]
    }
}

#[test]
fn pods_are_labelled_once_and_then_skipped() {
    let mut harness = Harness::with_pods(3);
    assert_eq!(harness.pass(), [1, 3, 0], "no pod has a node");
    assert_eq!(harness.pass(), [0, 0, 0], "no pod has changed");
    harness.change(0, |pod| pod.node = Some(1));
    assert_eq!(harness.pass(), [1, 1, 1], "only who has changed is looked at");
    assert_eq!(
        harness.pods[0].labels,
        BTreeMap::from([(ZONE.to_owned(), "z1".to_owned()), (RACK.to_owned(), "r1".to_owned())])
    );
    assert_eq!(harness.pass(), [0, 0, 0], "its labels are ours");
    harness.change(0, |_| {});
    assert_eq!(harness.pass(), [0, 0, 0], "a change of something else");
    for index in [1, 2] {
        harness.change(index, |pod| pod.node = Some(1));
    }
    assert_eq!(harness.pass(), [1, 2, 1], "a node is read once for all");
}

#[test]
fn a_pod_that_has_one_label_and_not_the_other_is_looked_at() {
    let mut harness = Harness::with_pods(2);
    for pod in &mut harness.pods {
        (pod.node, pod.labels) = (Some(2), BTreeMap::from([(ZONE.to_owned(), "z2".to_owned())]));
    }
    harness.pods[1].labels.insert(RACK.to_owned(), "r2".to_owned());
    assert_eq!(harness.pass(), [1, 1, 1], "the other has both, and is not even read");
    assert_eq!(harness.pods[0].labels[RACK], "r2");
    assert_eq!(harness.changes, 1);
    harness.change(0, |pod| drop(pod.labels.remove(RACK)));
    assert_eq!(harness.pass(), [1, 0, 1], "its node is known");
    assert_eq!(harness.pods[0].labels[RACK], "r2");
}

#[test]
fn a_node_with_missing_labels_is_read_again_ever_more_rarely() {
    let mut harness = Harness::with_pods(2);
    (harness.pods[0].node, harness.pods[1].node) = (Some(0), Some(1));
    assert_eq!(harness.pass(), [1, 2, 2]);
    assert_eq!(harness.pods[0].labels.keys().collect::<Vec<_>>(), [ZONE]);
    harness.change(0, |_| {});
    assert_eq!(harness.pass(), [0, 0, 0], "not yet");
    let mut pauses = Vec::new();
    while pauses.len() < 9 {
        pauses.push(harness.wait().unwrap().as_secs());
        assert_eq!(harness.pass(), [1, 0, 1], "the node of the one pod alone");
        assert_eq!(harness.pass(), [0, 0, 0]);
    }
    assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    assert_eq!(harness.changes, 2, "no label has changed");
}

#[test]
fn a_node_that_gets_its_label_late_is_noticed() {
    let mut harness = Harness::with_pods(1);
    harness.pods[0].node = Some(0);
    harness.pass();
    harness.wait().unwrap();
    harness.pass();
    harness.complete = true;
    assert_eq!(harness.pass(), [0, 0, 0], "not yet");
    harness.wait().unwrap();
    assert_eq!(harness.pass(), [1, 0, 1]);
    assert_eq!(harness.pods[0].labels[RACK], "r0");
    assert_eq!(harness.wait(), None, "there is nothing more to learn");
    assert_eq!(harness.pass(), [0, 0, 0]);
}

#[test]
fn pods_that_go_are_not_waited_for() {
    let mut harness = Harness::with_pods(1);
    harness.pods[0].node = Some(0);
    harness.pass();
    let mut leaving = harness.metadata();
    leaving[0].deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(harness.memory.due(&leaving, harness.now), None);
    let late = harness.now + LONGEST_PAUSE;
    assert_eq!(
        harness.memory.due(&harness.metadata(), late),
        None,
        "what hinders a look that is due is tried again by itself"
    );
    assert!(harness.memory.due(&harness.metadata(), harness.now).is_some());
}

#[test]
fn pods_that_could_not_be_looked_at_are_the_next_time() {
    let harness = Harness::with_pods(1);
    let (metadata, mut memory) = (harness.metadata(), TopologyMemory::default());
    let mut lookup = TopologyLookup::at(&metadata, &memory, harness.now);
    lookup.resolve_levels(&BTreeMap::new(), &mut memory);
    assert!(lookup.unplaced().is_empty(), "there is no such topology");
    let mut lookup = TopologyLookup::at(&metadata, &memory, harness.now);
    lookup.resolve_levels(
        &BTreeMap::from([("t".to_owned(), vec![LabelCopy { from: "k".into(), to: labels::topology("d") }])]),
        &mut memory,
    );
    assert_eq!(lookup.unplaced(), ["0"]);
    lookup.resolve_nodes(&BTreeMap::new(), &mut memory);
    assert!(lookup.nodes().is_empty(), "the API server did not answer");
    assert_eq!(TopologyLookup::at(&metadata, &memory, harness.now).topologies().len(), 1);
    let mut lookup = TopologyLookup::at(&metadata, &memory, harness.now);
    lookup.resolve_levels(&BTreeMap::from([("t".to_owned(), Vec::new())]), &mut memory);
    assert!(memory.exceeds(0));
    let held = memory.0.len();
    assert!(!memory.exceeds(held.div_ceil(2)), "not with each pod that goes");
    memory.keep(|_| false);
    assert!(!memory.exceeds(0), "gone");
}

proptest! {
    /// Pods come up in any order, with a pass after any change, as events make them.
    #[test]
    fn reads_grow_with_changes_and_not_with_their_square(events in prop::collection::vec((0usize..20, 0usize..4), 1..200)) {
        let mut harness = Harness::with_pods(20);
        harness.pass();
        let mut passes = 1;
        for (index, what) in &events {
            harness.change(*index, |pod| match what {
                0 => pod.node = pod.node.or(Some(index % 3)),
                1 => drop(pod.labels.remove(ZONE)),
                _ => {}
            });
            let [topologies, pods, nodes] = harness.pass();
            prop_assert!(topologies <= 1 && pods <= 1 && nodes <= 1, "one pod has changed");
            passes += 1;
        }
        prop_assert!(harness.topologies <= passes);
        for (index, reads) in &harness.pod_reads {
            let changes = events.iter().filter(|(changed, _)| changed == index).count();
            prop_assert!(*reads <= 1 + changes, "pod {index} was read {reads} times");
        }
        prop_assert_eq!(harness.pass(), [0, 0, 0]);
        for pod in harness.pods.iter().filter(|pod| pod.node.is_some()) {
            let node = pod.node.unwrap();
            prop_assert_eq!(&pod.labels[ZONE], &format!("z{node}"));
            prop_assert_eq!(pod.labels.contains_key(RACK), node != 0);
        }
    }
}
