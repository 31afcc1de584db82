//! A fault of the list: how it is injected, and what `why` has to say of it.

use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::{harness::Team, kubelet::Report};

/// An action of a user, an administrator or a program of the cluster.
pub enum Step {
    /// Objects are applied. `NAMESPACE` in them becomes that of the test.
    Apply(Value),
    /// The spec of the graph is edited.
    Edit(fn(&mut Value)),
    /// The nodes report this of each pod that they start from now on.
    Nodes(Report),
    /// The pods of the graph are deleted; their workload replaces them.
    Restart,
    /// Anything else.
    Do(for<'a> fn(&'a Team<'a>) -> LocalBoxFuture<'a, ()>),
}

/// A fault.
pub struct Fault {
    /// Its name.
    pub name: &'static str,
    /// The injected fault, in words.
    pub injected: &'static str,
    /// The object that `why` explains.
    pub target: &'static str,
    /// Steps before the graph is applied.
    pub before: Vec<Step>,
    /// Changes the graph before it is applied.
    pub graph: Option<fn(&mut Value)>,
    /// The injection.
    pub steps: Vec<Step>,
    /// Expected first cause.
    pub expected: Expected,
}

/// The expected first cause.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Its code.
    pub code: &'static str,
    /// The object at the end of its chain, as kind and the beginning of its name.
    pub object: &'static str,
    /// Words of the cause.
    pub cause: &'static str,
    /// Words of the remedy.
    pub remedy: &'static str,
}

/// Constructor for the tables.
pub fn fault(name: &'static str, injected: &'static str) -> Fault {
    let expected = Expected { code: "", object: "", cause: "", remedy: "" };
    Fault { name, injected, target: "chat", before: Vec::new(), graph: Some(|_| ()), steps: Vec::new(), expected }
}

impl Fault {
    /// The graph is another one.
    pub fn graph(mut self, change: fn(&mut Value)) -> Self {
        self.graph = Some(change);
        self
    }

    /// There is no graph.
    pub fn without_graph(mut self, target: &'static str) -> Self {
        (self.graph, self.target) = (None, target);
        self
    }

    /// `why` explains another object.
    pub fn on(mut self, target: &'static str) -> Self {
        self.target = target;
        self
    }

    /// Adds a step before the graph is applied.
    pub fn before(mut self, step: Step) -> Self {
        self.before.push(step);
        self
    }

    /// A step of the injection.
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The user edits the graph.
    pub fn edit(self, change: fn(&mut Value)) -> Self {
        self.step(Step::Edit(change))
    }

    /// Objects are applied.
    pub fn apply(self, objects: Value) -> Self {
        self.step(Step::Apply(objects))
    }

    /// The user changes the image, and the nodes report this of the new pods.
    pub fn image(self, report: Report) -> Self {
        self.step(Step::Nodes(report)).edit(another_image)
    }

    /// The pods are replaced, and the nodes report this of the new ones.
    pub fn pods(self, report: Report) -> Self {
        self.step(Step::Nodes(report)).step(Step::Restart)
    }

    /// Sets the expected first cause.
    pub fn is(mut self, code: &'static str, object: &'static str, cause: &'static str, remedy: &'static str) -> Self {
        self.expected = Expected { code, object, cause, remedy };
        self
    }
}

impl Expected {
    /// Whether an answer of `why` has this as its first cause.
    pub fn is_named_in(&self, diagnosis: &Value) -> bool {
        let first = &diagnosis["causes"][0];
        let end = first["chain"].as_array().and_then(|chain| chain.last()).cloned().unwrap_or_default();
        let end = format!("{}/{}", end["kind"].as_str().unwrap_or_default(), end["name"].as_str().unwrap_or_default());
        let has = |field: &str, words: &str| first[field].as_str().is_some_and(|text| text.contains(words));
        first["code"] == self.code
            && end.starts_with(self.object)
            && has("cause", self.cause)
            && has("remedy", self.remedy)
    }

    /// Whether an answer says anything of it.
    pub fn is_mentioned_in(&self, answer: &str) -> bool {
        answer.contains(&format!("\"{}\"", self.code)) || answer.contains(self.cause)
    }
}

/// The user changes the image, so that new pods come.
pub fn another_image(graph: &mut Value) {
    main(graph)["image"] = json!("registry.example.com/engine:2");
}

/// The main container of the graph's component.
pub fn main(graph: &mut Value) -> &mut Value {
    &mut pod(graph)["containers"][0]
}

/// The spec of its pods.
pub fn pod(graph: &mut Value) -> &mut Value {
    &mut graph["spec"]["components"][0]["podTemplate"]["spec"]
}

/// Its pods run on the node of the test alone.
pub fn on_own_node(graph: &mut Value) {
    pod(graph)["nodeSelector"] = json!({ "pool": "NAMESPACE" });
    pod(graph)["tolerations"] = json!([{ "key": "pool", "operator": "Exists" }]);
}
