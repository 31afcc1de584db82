//! A graph of v1beta1, and the program that runs it.

use api_types::{annotations, conversion::preserved::archive::PreservedGraph};

use super::{
    super::{Facts, field::Node},
    Component,
};

/// A graph.
#[derive(Debug, Clone)]
pub(in crate::admission) struct Graph<'a> {
    object: Node<'a>,
}

impl<'a> Graph<'a> {
    pub(in crate::admission) fn new(object: Node<'a>) -> Self {
        Self { object }
    }

    pub(in crate::admission) fn name(&self) -> &'a str {
        self.object.fields(&["metadata", "name"]).text()
    }

    pub(in crate::admission) fn namespace(&self) -> &'a str {
        self.object.fields(&["metadata", "namespace"]).text()
    }

    /// An annotation of the graph itself.
    pub(in crate::admission) fn annotation(&self, key: &str) -> Node<'a> {
        self.object.fields(&["metadata", "annotations"]).key(key)
    }

    pub(in crate::admission) fn metadata(&self) -> Node<'a> {
        self.object.field("metadata")
    }

    pub(in crate::admission) fn spec(&self) -> Node<'a> {
        self.object.field("spec")
    }

    pub(in crate::admission) fn components(&self) -> Vec<Component<'a>> {
        self.spec().field("components").items().map(Component::new).collect()
    }

    /// The component of that name.
    pub(in crate::admission) fn component(&self, name: &str) -> Option<Component<'a>> {
        self.spec().field("components").named(name).map(Component::new)
    }

    /// Whether the image of its components is built from an archive, unless they name one.
    pub(in crate::admission) fn is_built(&self) -> bool {
        self.archive().is_some()
    }

    /// What it says of an archive from which its image is built.
    pub(in crate::admission) fn archive(&self) -> Option<PreservedGraph> {
        let kept = self.annotation(PreservedGraph::ANNOTATION).text().to_owned();
        let said = PreservedGraph::of(&[(PreservedGraph::ANNOTATION.to_owned(), kept)].into());
        said.filter(|said| said.source.is_some())
    }

    /// What the graph's annotation says about the program that runs it.
    pub(in crate::admission) fn provider(&self) -> Provider<'a> {
        Provider::named(self.annotation(annotations::WORKLOAD_PROVIDER).given())
    }

    /// Whether the author keeps the graph off Grove.
    pub(in crate::admission) fn opts_out_of_grove(&self) -> bool {
        self.annotation(annotations::ENABLE_GROVE).text().eq_ignore_ascii_case("false")
    }
}

/// The program that runs a graph, as its annotation names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::admission) enum Provider<'a> {
    /// Nobody has chosen yet: the graph is older than the choice.
    Unselected,
    /// Deployments and LeaderWorkerSets.
    Component,
    /// Grove.
    Grove,
    /// Something else.
    Unknown(&'a str),
}

impl<'a> Provider<'a> {
    fn named(annotation: Option<&'a str>) -> Self {
        match annotation {
            None => Self::Unselected,
            Some(annotations::PROVIDER_COMPONENT) => Self::Component,
            Some(annotations::PROVIDER_GROVE) => Self::Grove,
            Some(other) => Self::Unknown(other),
        }
    }

    /// The program for a new graph.
    pub(in crate::admission) fn of_new(graph: &Graph<'_>, facts: &Facts) -> Self {
        if facts.features.grove && !graph.opts_out_of_grove() { Self::Grove } else { Self::Component }
    }
}

/// Whether what only Grove can do may be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::admission) enum Pathway {
    /// It may.
    Grove,
    /// It may not; the text says why and what to do.
    Other(String),
}

impl Pathway {
    pub(in crate::admission) fn of(graph: &Graph<'_>, facts: &Facts) -> Self {
        let fixed = "the choice is made when a graph is created, so create the graph anew";
        let key = annotations::WORKLOAD_PROVIDER;
        match graph.provider() {
            Provider::Grove => Self::Grove,
            Provider::Component if !facts.features.grove => Self::Other(
                "needs Grove, which is not available in this cluster; install it, or remove the field".to_owned(),
            ),
            Provider::Component if graph.opts_out_of_grove() => Self::Other(format!(
                "needs Grove, and the graph opts out of it with the annotation {}; create it without that annotation, or \
                 remove the field",
                annotations::ENABLE_GROVE
            )),
            Provider::Component => {
                Self::Other(format!("needs Grove, and the graph runs without it; {fixed}, or remove the field"))
            }
            Provider::Unknown(other) => Self::Other(format!(
                "needs Grove, and annotation {key} names the unknown program {other:?}; {fixed}, or remove the field"
            )),
            Provider::Unselected => match Provider::of_new(graph, facts) {
                Provider::Grove => Self::Grove,
                _ if facts.features.grove => Self::Other(format!(
                    "needs Grove, and the graph opts out of it with the annotation {}; remove the annotation or the field",
                    annotations::ENABLE_GROVE
                )),
                _ => Self::Other(
                    "needs Grove, which is not available in this cluster; install it, or remove the field".to_owned(),
                ),
            },
        }
    }

    pub(in crate::admission) fn is_grove(&self) -> bool {
        *self == Self::Grove
    }

    /// Why not.
    pub(in crate::admission) fn reason(&self) -> Option<&str> {
        match self {
            Self::Grove => None,
            Self::Other(reason) => Some(reason),
        }
    }
}
