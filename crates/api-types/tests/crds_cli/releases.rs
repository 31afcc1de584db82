//! Definitions of another release of the operator.

use api_types::annotations;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    apply::wait,
    converter::Converter,
    failure,
    serve::{GRAPHS, Harness},
    stdout,
};

/// A rollback of the programs takes no fields from the definitions.
#[tokio::test]
async fn definitions_of_a_newer_release_stay_and_get_their_bundle() {
    let converter = Converter::start();
    let mut crds = api_types::crds::all_converted_by(&converter.service()).unwrap();
    for crd in &mut crds {
        crd.annotations_mut().insert(annotations::DEFINITION_RELEASE.to_owned(), "999.10.0".to_owned());
        crd.spec.names.short_names = None;
    }
    let harness = Harness::start(crds.iter().map(|crd| json!(crd)).collect()).await;
    harness.publish(&converter.bundle()).await;
    let mut served = harness.serve(&converter, &[]);
    harness.until_held(&converter.bundle()).await;
    let kept = format!("{GRAPHS} kept: it is of release 999.10.0, which is newer than this program");
    wait(async || served.log().contains(&kept)).await;
    let graphs = harness.definitions.get(GRAPHS).await.unwrap();
    assert_eq!(graphs.annotations()[annotations::DEFINITION_RELEASE], "999.10.0");
    assert_eq!(graphs.spec.names.short_names, None);
    assert!(served.runs());

    let kubeconfig = harness.cluster.kubeconfig();
    let (code, text) = failure(crate::apply(kubeconfig));
    assert!(code == 1 && text.contains("is of release 999.10.0") && text.contains("remove the annotation"), "{text}");

    // The way back on purpose.
    drop(served);
    let none = json!({ "metadata": { "annotations": { annotations::DEFINITION_RELEASE: null } } });
    for crd in &crds {
        harness.definitions.patch(&crd.name_any(), &PatchParams::default(), &Patch::Merge(&none)).await.unwrap();
    }
    stdout(&crate::apply(kubeconfig).arg("--skip-migration").output().unwrap());
    let graphs = harness.definitions.get(GRAPHS).await.unwrap();
    assert_eq!(graphs.annotations()[annotations::DEFINITION_RELEASE], env!("CARGO_PKG_VERSION"));
    assert_eq!(graphs.spec.names.short_names.unwrap(), ["dgd"]);
}
