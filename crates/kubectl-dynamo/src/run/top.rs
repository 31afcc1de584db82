//! `kubectl dynamo top`: what the pods of a graph request, and use where metrics are served.

use std::io::Write;

use kube::{
    Api,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};

use super::GraphOutputArgs;
use crate::{
    observe::{Connection, Read, family, list, of_graph},
    output::{Format, Outcome, write_data},
    view::{usage, usage_table},
};

/// Prints the sums of each component.
///
/// # Errors
/// The graph or its children cannot be read.
pub async fn run(args: &GraphOutputArgs, connection: &Connection, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let kind = GroupVersionKind::gvk("metrics.k8s.io", "v1beta1", "PodMetrics");
    let resource = ApiResource::from_gvk_with_plural(&kind, "pods");
    let api: Api<DynamicObject> = Api::namespaced_with(connection.client.clone(), &connection.namespace, &resource);
    let of_graph = ListParams::default().labels(&of_graph(&args.graph));
    let (family, metrics) = tokio::join!(family(connection, &args.graph), list(&api, &of_graph));
    let (metrics, unknown) = match metrics {
        Read::Found(metrics) => (metrics, None),
        Read::Missing => (Vec::new(), Some("the cluster does not serve metrics.k8s.io".to_owned())),
        Read::Unknown(why) => (Vec::new(), Some(why)),
    };
    let metrics: Vec<_> = metrics.into_iter().filter_map(|one| serde_json::to_value(one).ok()).collect();
    let usage = usage(&family?.pods, &metrics);
    match args.output.output {
        format if write_data(format, &usage, out)? => {}
        Format::Name => {
            for one in &usage {
                writeln!(out, "{}", one.component)?;
            }
        }
        _ => {
            out.write_all(usage_table(&usage).as_bytes())?;
            if let Some(why) = unknown {
                writeln!(out, "note: usage is not known: {why}")?;
            }
        }
    }
    Ok(Outcome::Fine)
}
