//! The object that a command is about, as users name it.

use std::{fmt, str::FromStr};

use api_types::{
    v1alpha1::{DynamoCheckpoint, DynamoModel},
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentRequest},
};
use kube::Resource;

/// A kind of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// DynamoGraphDeployment.
    Graph,
    /// DynamoComponentDeployment.
    Component,
    /// DynamoModel.
    Model,
    /// DynamoGraphDeploymentRequest.
    Request,
    /// DynamoCheckpoint.
    Checkpoint,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Graph, Self::Component, Self::Model, Self::Request, Self::Checkpoint];

    /// The kind as objects name it.
    pub fn name(self) -> String {
        match self {
            Self::Graph => DynamoGraphDeployment::kind(&()),
            Self::Component => DynamoComponentDeployment::kind(&()),
            Self::Model => DynamoModel::kind(&()),
            Self::Request => DynamoGraphDeploymentRequest::kind(&()),
            Self::Checkpoint => DynamoCheckpoint::kind(&()),
        }
        .into_owned()
    }
}

/// An object: `NAME` of a graph, or `TYPE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Kind.
    pub kind: Kind,
    /// Name.
    pub name: String,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = match text.split_once('/') {
            None => (Kind::Graph, text),
            Some((kind, name)) => (kind_of(kind)?, name),
        };
        if name.is_empty() || name.contains('/') {
            return Err("a name, or TYPE/NAME".to_owned());
        }
        Ok(Self { kind, name: name.to_owned() })
    }
}

fn kind_of(text: &str) -> Result<Kind, String> {
    let text = text.to_lowercase();
    match text.split('.').next().unwrap_or_default() {
        "dgd" | "graph" | "dynamographdeployment" | "dynamographdeployments" => Ok(Kind::Graph),
        "dcd" | "component" | "dynamocomponentdeployment" | "dynamocomponentdeployments" => Ok(Kind::Component),
        "dm" | "model" | "dynamomodel" | "dynamomodels" => Ok(Kind::Model),
        "dgdr" | "request" | "dynamographdeploymentrequest" | "dynamographdeploymentrequests" => Ok(Kind::Request),
        "dckpt" | "checkpoint" | "dynamocheckpoint" | "dynamocheckpoints" => Ok(Kind::Checkpoint),
        other => Err(format!("unknown type {other}; one of dgd, dcd, dynamomodel, dgdr, checkpoint")),
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Graph => "dgd",
            Self::Component => "dcd",
            Self::Model => "dynamomodel",
            Self::Request => "dgdr",
            Self::Checkpoint => "checkpoint",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_graphs_unless_a_type_goes_before_it() {
        let table = [
            ("chat", Kind::Graph, "chat"),
            ("dgd/chat", Kind::Graph, "chat"),
            ("DynamoModel/lora", Kind::Model, "lora"),
            ("dynamocheckpoints.nvidia.com/c", Kind::Checkpoint, "c"),
            ("dgdr/r", Kind::Request, "r"),
            ("dcd/chat-decode", Kind::Component, "chat-decode"),
        ];
        for (text, kind, name) in table {
            assert_eq!(text.parse(), Ok(Target { kind, name: name.to_owned() }), "{text}");
        }
        for text in ["", "dgd/", "pod/x", "dgd/a/b"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
