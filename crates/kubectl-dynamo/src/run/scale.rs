//! `kubectl dynamo scale`: the replicas of a component that has a scaling adapter.

use std::{io::Write, str::FromStr};

use anyhow::bail;
use api_types::v1beta1::DynamoGraphDeployment;
use kube::ResourceExt;

use crate::{
    apply,
    observe::{Connection, adapters},
    output::Outcome,
};

/// Flags of `scale`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A graph
    #[arg(value_name = "NAME")]
    graph: String,
    /// Components and their replicas
    #[arg(value_name = "COMPONENT=N", required = true)]
    counts: Vec<Count>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Count {
    component: String,
    replicas: i32,
}

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (component, replicas) = text.split_once('=').ok_or("write COMPONENT=N, such as decode=4")?;
        let replicas = replicas.parse().ok().filter(|replicas| *replicas >= 0);
        let replicas = replicas.ok_or_else(|| format!("{text}: replicas are a number from 0"))?;
        Ok(Self { component: component.to_owned(), replicas })
    }
}

/// Scales components. Without an adapter of each of them nothing is changed, and the output says what to edit.
///
/// # Errors
/// The graph cannot be read, has no such component, or the API server rejects the change.
pub async fn run(args: &Args, connection: &Connection, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let (graph, adapters) =
        tokio::join!(connection.require::<DynamoGraphDeployment>(&args.graph), adapters(connection, &args.graph));
    let (graph, adapters) = (graph?, adapters.or_error("DynamoGraphDeploymentScalingAdapters")?);
    let mut changes = Vec::new();
    let mut outcome = Outcome::Fine;
    for Count { component, replicas } in &args.counts {
        let Some(index) = graph.spec.components.iter().position(|one| one.name.eq_ignore_ascii_case(component)) else {
            let names: Vec<_> = graph.spec.components.iter().map(|one| one.name.as_str()).collect();
            bail!("graph {} has no component {component}; it has {}", args.graph, names.join(", "));
        };
        let name = graph.spec.components.get(index).map_or("", |one| one.name.as_str());
        match adapters.iter().find(|adapter| adapter.spec.dgd_ref.component_name == name) {
            Some(adapter) => changes.push((name, adapter.name_any(), adapter.spec.replicas, *replicas)),
            None => {
                outcome = Outcome::Unwell;
                writeln!(
                    out,
                    "component {name} has no scaling adapter: set spec.components[{index}].replicas: {replicas} in the \
                     manifest of the graph, or give the component scalingAdapter: {{}}"
                )?;
            }
        }
    }
    if outcome == Outcome::Unwell {
        return Ok(outcome);
    }
    for (component, adapter, before, replicas) in changes {
        if before == replicas {
            writeln!(out, "component {component} has {replicas} replicas already")?;
            continue;
        }
        apply::scale(connection, &adapter, replicas).await?;
        writeln!(out, "component {component} scaled from {before} to {replicas} replicas")?;
    }
    Ok(Outcome::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_numbers_from_zero() {
        assert_eq!("decode=4".parse(), Ok(Count { component: "decode".to_owned(), replicas: 4 }));
        for text in ["decode", "decode=", "decode=-1", "decode=x", "decode=99999999999"] {
            assert!(text.parse::<Count>().is_err(), "{text}");
        }
    }
}
