//! Rollouts under faults, simulated: random edits, a controller that dies between any two writes, workers that come up and
//! fail in any order. Whatever happens, capacity holds, nothing serving is deleted early, and the end is that of a fresh
//! deployment.

use super::*;
use crate::graph::fixtures::{graph_with, live, observed, owner, report, set_image, valid};
use api_types::v1beta1::DynamoGraphDeployment;
use proptest::prelude::*;
use serde_json::json;

/// One thing that happens to the system.
#[derive(Clone, Debug)]
enum Happening {
    /// The author applies another image.
    Edit(u8),
    /// The author replaces the object; annotations are gone.
    WipeAnnotations,
    /// The author adds a second worker component, or removes it.
    Prefill(bool),
    /// The graph was deleted with its children left behind, and applied again.
    Orphan,
    /// The author or an autoscaler sets the worker's replicas.
    ScaleTo(i32),
    /// The controller reconciles and dies after so many writes; a large number is a whole pass.
    Reconcile(usize),
    /// The component controller reports one object: so many of its wanted workers are available.
    Report(usize, i32),
}

fn happening() -> impl proptest::strategy::Strategy<Value = Happening> {
    prop_oneof![
        2 => (0u8..3).prop_map(Happening::Edit),
        1 => Just(Happening::WipeAnnotations),
        1 => any::<bool>().prop_map(Happening::Prefill),
        1 => Just(Happening::Orphan),
        1 => (0i32..6).prop_map(Happening::ScaleTo),
        6 => prop_oneof![(0usize..4), Just(99usize)].prop_map(Happening::Reconcile),
        8 => ((0usize..6), (0i32..6)).prop_map(|(which, up)| Happening::Report(which, up)),
    ]
}

struct System {
    image: u8,
    replicas: i32,
    annotated: bool,
    prefill: bool,
    components: Vec<DynamoComponentDeployment>,
    clock: i64,
}

impl System {
    fn graph(&self) -> DynamoGraphDeployment {
        graph_with(|g| {
            set_image(g, &format!("1.{}.0", self.image));
            g["spec"]["components"][1]["replicas"] = json!(self.replicas);
            if self.prefill {
                let mut prefill = g["spec"]["components"][1].clone();
                prefill["name"] = json!("Prefill");
                prefill["type"] = json!("prefill");
                g["spec"]["components"].as_array_mut().unwrap().push(prefill);
            }
            if self.annotated {
                g["metadata"]["annotations"] = json!({ "nvidia.com/current-worker-hash": "whatever",
                    "nvidia.com/dynamo-operator-origin-version": "1.4.0" });
            }
        })
    }

    /// Decode workers that can serve right now, by the reports, less those that a written scale-down takes away.
    fn serving(&self) -> i32 {
        let workers = self.components.iter().filter(|d| d.spec.component.name == "Decode");
        workers.map(|d| available(d).min(d.spec.component.wanted_replicas())).sum()
    }

    fn reconcile(&mut self, writes: usize) {
        let graph = self.graph();
        let valid = valid(&graph);
        let decision = decide(&valid, &observed(&graph, self.components.clone()));
        let floor = self.replicas - self.replicas / 4;
        let before = self.serving();
        let applied = decision.components.iter().chain(&decision.old);
        let mut left = writes;
        for wanted in applied {
            if left == 0 {
                break;
            }
            left -= usize::from(self.write(wanted));
        }
        for removal in decision.delete.iter().take(left) {
            self.components.retain(|d| d.metadata.uid.as_ref() != Some(&removal.uid));
        }
        assert!(self.serving() >= before.min(floor), "capacity fell from {before} to {} below {floor}", self.serving());
    }

    fn write(&mut self, wanted: &DynamoComponentDeployment) -> bool {
        self.clock += 1;
        let name = wanted.name_any();
        match self.components.iter_mut().find(|d| d.name_any() == name) {
            None => {
                let mut new = live(wanted, 0);
                new.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                    k8s_openapi::jiff::Timestamp::from_second(self.clock).unwrap(),
                ));
                new.status = None;
                self.components.push(new);
                true
            }
            Some(known) if known.metadata.owner_references.is_none() => {
                known.metadata.owner_references = Some(vec![owner()]);
                self.write(wanted);
                true
            }
            Some(known) if known.spec != wanted.spec => {
                known.spec = wanted.spec.clone();
                known.metadata.generation = known.metadata.generation.map(|g| g + 1);
                true
            }
            Some(_) => false,
        }
    }

    fn happen(&mut self, what: &Happening) {
        match what {
            Happening::Edit(image) => self.image = *image,
            Happening::WipeAnnotations => self.annotated = false,
            Happening::Prefill(is_there) => self.prefill = *is_there,
            Happening::Orphan => self.components.iter_mut().for_each(|d| d.metadata.owner_references = None),
            Happening::ScaleTo(replicas) => self.replicas = *replicas,
            Happening::Reconcile(writes) => self.reconcile(*writes),
            Happening::Report(which, up) => {
                if let Some(d) = self.components.get_mut(*which) {
                    report(d, (*up).min(d.spec.component.wanted_replicas()));
                }
            }
        }
    }

    /// From now on nothing fails: everything wanted comes up.
    fn settle(&mut self) {
        for _ in 0..64 {
            self.reconcile(99);
            for d in &mut self.components {
                report(d, d.spec.component.wanted_replicas());
                if let Some(status) = d.status.as_mut().and_then(|s| s.component.as_mut()) {
                    status.replicas = d.spec.component.wanted_replicas();
                }
            }
        }
    }
}

fn available(d: &DynamoComponentDeployment) -> i32 {
    d.status.as_ref().and_then(|s| s.component.as_ref()).and_then(|c| c.available_replicas).unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_history_ends_like_a_fresh_deployment(story in prop::collection::vec(happening(), 1..60)) {
        let mut system = System { image: 0, replicas: 4, annotated: true, prefill: false, components: vec![], clock: 0 };
        for what in &story {
            system.happen(what);
        }
        system.settle();

        let mut fresh = System { components: vec![], ..system };
        let mut names: Vec<_> = system.components.iter().map(|d| (d.name_any(), d.spec.component.replicas)).collect();
        fresh.settle();
        let mut expected: Vec<_> = fresh.components.iter().map(|d| (d.name_any(), d.spec.component.replicas)).collect();
        names.sort();
        expected.sort();
        prop_assert_eq!(names, expected);
    }
}
