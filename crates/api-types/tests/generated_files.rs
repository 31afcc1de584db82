//! `deploy/crds` holds what the types say, and nothing else.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use api_types::crds;

#[test]
fn deploy_crds_is_what_the_types_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let expected: BTreeMap<_, _> =
        crds::all().unwrap().iter().map(|crd| (crds::file_name(crd), crds::to_yaml(crd).unwrap())).collect();
    let found: BTreeSet<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(
        found,
        expected.keys().cloned().collect(),
        "files of {}; run `cargo xtask crds generate`",
        folder.display()
    );
    for (name, text) in expected {
        let committed = std::fs::read_to_string(folder.join(&name)).unwrap();
        assert!(committed == text, "deploy/crds/{name} is out of date; run `cargo xtask crds generate`");
    }
}

/// Written and read again, a definition is the same.
#[test]
fn yaml_says_what_the_definition_says() {
    for crd in crds::all().unwrap() {
        let read: serde_json::Value = serde_saphyr::from_str(&crds::to_yaml(&crd).unwrap()).unwrap();
        let read: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition =
            serde_json::from_value(read).unwrap();
        assert_eq!(read, crd);
    }
}
