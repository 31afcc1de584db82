//! A row for each fault of an install.

use super::*;
use crate::diagnosis::{InstallMarker, Program};

const NOW: &str = "2026-01-01T00:00:00Z";

fn install() -> Install {
    let definition = |kind: &str| InstalledDefinition {
        name: format!("{kind}.nvidia.com"),
        served: vec!["v1alpha1".to_owned(), "v1beta1".to_owned()],
        stored: vec!["v1beta1".to_owned()],
        storage: "v1beta1".to_owned(),
        release: Some("0.1.0".to_owned()),
        established: true,
    };
    let program = |name: &str| Program {
        name: name.to_owned(),
        namespace: "dynamo-system".to_owned(),
        version: "0.1.0".to_owned(),
        ready: 1,
        desired: 1,
    };
    let kinds = [
        "dynamographdeployments",
        "dynamocomponentdeployments",
        "dynamographdeploymentscalingadapters",
        "dynamographdeploymentrequests",
    ];
    Install {
        definitions: Some(kinds.map(definition).to_vec()),
        webhooks: Some(vec![InstalledWebhook {
            owner: "dynamo-operator-validating".to_owned(),
            service: "dynamo-system/webhook".to_owned(),
            ready: Some(2),
            has_ca: true,
            ca_expires: Some("2036-01-01T00:00:00Z".parse().unwrap()),
        }]),
        programs: Some(["graph-controller", "component-controller"].map(program).to_vec()),
        markers: Some(vec![InstallMarker {
            namespace: "team".to_owned(),
            holder: "namespace-restricted-operator-1.5.0".to_owned(),
            renewed: Some("2025-12-31T23:59:50Z".parse().unwrap()),
            seconds: 30,
        }]),
        groups: Some(vec!["grove.io".to_owned()]),
        rights: vec![Right { what: "list pods".to_owned(), needed_by: "why", allowed: Some(true) }],
    }
}

#[test]
fn an_install_that_is_well_passes_all_checks() {
    let checks = check(&install(), NOW.parse().unwrap());
    let bad: Vec<_> = checks.iter().filter(|one| one.state != CheckState::Ok).collect();
    assert!(bad.is_empty(), "{bad:?}");
    assert!(
        checks.iter().any(|one| one.check == "API leaderworkerset.x-k8s.io" && one.found.starts_with("not served"))
    );
}

#[test]
fn each_fault_of_an_install_fails_one_check() {
    type Fault = fn(&mut Install);
    let table: [(&str, Fault, &str, CheckState); 15] = [
        (
            "definition missing",
            |i| drop(i.definitions.as_mut().unwrap().remove(0)),
            "definition dynamographdeployments",
            CheckState::Failed,
        ),
        (
            "names not accepted",
            |i| i.definitions.as_mut().unwrap()[1].established = false,
            "definition dynamocomponentdeployments",
            CheckState::Failed,
        ),
        (
            "stored in an old version",
            |i| i.definitions.as_mut().unwrap()[0].stored.insert(0, "v1alpha1".to_owned()),
            "definition dynamographdeployments",
            CheckState::Warning,
        ),
        (
            "definitions of two releases",
            |i| i.definitions.as_mut().unwrap()[0].release = Some("0.2.0".to_owned()),
            "definitions",
            CheckState::Warning,
        ),
        (
            "program missing",
            |i| drop(i.programs.as_mut().unwrap().remove(0)),
            "program graph-controller",
            CheckState::Failed,
        ),
        (
            "program down",
            |i| i.programs.as_mut().unwrap()[0].ready = 0,
            "program dynamo-system/graph-controller",
            CheckState::Failed,
        ),
        (
            "programs of two versions",
            |i| i.programs.as_mut().unwrap()[0].version = "0.2.0".to_owned(),
            "programs",
            CheckState::Warning,
        ),
        (
            "webhook without endpoint",
            |i| i.webhooks.as_mut().unwrap()[0].ready = Some(0),
            "webhook dynamo-operator-validating",
            CheckState::Failed,
        ),
        (
            "webhook without CA",
            |i| i.webhooks.as_mut().unwrap()[0].has_ca = false,
            "webhook dynamo-operator-validating",
            CheckState::Failed,
        ),
        (
            "CA expired",
            |i| i.webhooks.as_mut().unwrap()[0].ca_expires = Some("2025-12-31T00:00:00Z".parse().unwrap()),
            "webhook dynamo-operator-validating",
            CheckState::Failed,
        ),
        (
            "CA expires soon",
            |i| i.webhooks.as_mut().unwrap()[0].ca_expires = Some("2026-01-15T00:00:00Z".parse().unwrap()),
            "webhook dynamo-operator-validating",
            CheckState::Warning,
        ),
        ("no webhooks", |i| i.webhooks.as_mut().unwrap().clear(), "webhooks", CheckState::Warning),
        (
            "marker expired",
            |i| i.markers.as_mut().unwrap()[0].seconds = 5,
            "marker of namespace team",
            CheckState::Warning,
        ),
        ("right missing", |i| i.rights[0].allowed = Some(false), "your right to list pods", CheckState::Warning),
        ("webhooks cannot be read", |i| i.webhooks = None, "webhooks", CheckState::Unknown),
    ];
    for (fault, set, expected, state) in table {
        let mut install = install();
        set(&mut install);
        let checks = check(&install, NOW.parse().unwrap());
        let bad: Vec<_> = checks
            .iter()
            .filter(|one| one.state != CheckState::Ok)
            .map(|one| (one.check.as_str(), one.state))
            .collect();
        assert_eq!(bad, [(expected, state)], "{fault}");
    }
}
