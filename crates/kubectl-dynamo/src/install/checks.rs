//! The checks of an install.

use k8s_openapi::jiff::Timestamp;
use status_view::{Style, Table};

use super::model::{CheckState, Install, InstallCheck, InstalledDefinition, InstalledWebhook, Right};
use crate::{
    diagnosis::{InstallMarker, Program},
    view::age,
};

/// Plural names of the kinds that every install has.
const KINDS: [&str; 4] = [
    "dynamographdeployments",
    "dynamocomponentdeployments",
    "dynamographdeploymentscalingadapters",
    "dynamographdeploymentrequests",
];
/// Programs without which graphs do not come up.
const PROGRAMS: [&str; 2] = ["graph-controller", "component-controller"];
/// APIs that a cluster need not serve, and what they are for.
const OPTIONAL: [(&str, &str); 7] = [
    ("leaderworkerset.x-k8s.io", "replicas that span nodes"),
    ("grove.io", "gangs, and replicas that span nodes"),
    ("inference.networking.k8s.io", "endpoint pickers"),
    ("gateway.networking.k8s.io", "gateways"),
    ("networking.istio.io", "VirtualServices and DestinationRules"),
    ("resource.k8s.io", "GPUs by claims"),
    ("monitoring.coreos.com", "PodMonitors"),
];
/// A CA that expires sooner than this many seconds is a warning.
const SOON: i64 = 30 * 86_400;
/// Remedy for a CA that expires.
const RENEW: &str = "renew the CA: see the page on certificates";

/// All checks.
pub fn check(install: &Install, now: Timestamp) -> Vec<InstallCheck> {
    let mut checks = definitions(install.definitions.as_deref());
    checks.extend(programs(install.programs.as_deref()));
    checks.extend(webhooks(install.webhooks.as_deref(), now));
    checks.extend(markers(install, now));
    checks.extend(rights(install));
    checks.extend(optional(install.groups.as_deref()));
    checks
}

fn made(check: &str, state: CheckState, found: impl Into<String>, remedy: &str) -> InstallCheck {
    InstallCheck { check: check.to_owned(), state, found: found.into(), remedy: remedy.to_owned() }
}

fn unknown(check: &str) -> Vec<InstallCheck> {
    vec![made(check, CheckState::Unknown, "you may not read it", "ask a cluster administrator")]
}

fn definitions(all: Option<&[InstalledDefinition]>) -> Vec<InstallCheck> {
    let Some(all) = all else { return unknown("definitions") };
    let mut checks = Vec::new();
    for kind in KINDS {
        if !all.iter().any(|one| one.name.split('.').next() == Some(kind)) {
            let check = format!("definition {kind}");
            checks.push(made(&check, CheckState::Failed, "it does not exist", "install the operator's CRDs"));
        }
    }
    for one in all {
        let check = format!("definition {}", one.name.split('.').next().unwrap_or_default());
        let release = one.release.as_deref().map(|release| format!(", of release {release}")).unwrap_or_default();
        let found = format!("serves {}{release}", one.served.join(", "));
        let old: Vec<_> = one.stored.iter().filter(|stored| **stored != one.storage).map(String::as_str).collect();
        checks.push(match () {
            () if !one.established => {
                let remedy = "see its conditions; another definition may have the names";
                made(&check, CheckState::Failed, "its names are not accepted", remedy)
            }
            () if !old.is_empty() => {
                let found = format!("{found}; objects are stored in {}, too", old.join(", "));
                made(&check, CheckState::Warning, found, "the program crds stores them anew; look at its log")
            }
            () => made(&check, CheckState::Ok, found, ""),
        });
    }
    let mut releases: Vec<_> = all.iter().filter_map(|one| one.release.as_deref()).collect();
    releases.sort_unstable();
    releases.dedup();
    if releases.len() > 1 {
        let found = format!("they are of different releases: {}", releases.join(", "));
        checks.push(made("definitions", CheckState::Warning, found, "look at the log of the program crds"));
    }
    checks
}

fn programs(all: Option<&[Program]>) -> Vec<InstallCheck> {
    let Some(all) = all else { return unknown("programs") };
    let mut checks = Vec::new();
    for name in PROGRAMS {
        if !all.iter().any(|one| one.name == name) {
            let check = format!("program {name}");
            checks.push(made(&check, CheckState::Failed, "it is not installed", "install the operator's chart"));
        }
    }
    for one in all {
        let check = format!("program {}/{}", one.namespace, one.name);
        let found = format!("{} of {} ready, version {}", one.ready, one.desired, one.version);
        let (state, remedy) = match one.ready {
            0 if one.desired > 0 => (CheckState::Failed, "look at its pods: kubectl describe pods"),
            ready if ready < one.desired => (CheckState::Warning, "look at its pods: kubectl describe pods"),
            _ => (CheckState::Ok, ""),
        };
        checks.push(made(&check, state, found, remedy));
    }
    let mut versions: Vec<_> = all.iter().map(|one| (&one.namespace, &one.version)).collect();
    versions.sort_unstable();
    versions.dedup();
    if versions.windows(2).any(|pair| matches!(pair, [one, other] if one.0 == other.0)) {
        let found = "programs of one install have different versions";
        checks.push(made("programs", CheckState::Warning, found, "finish the upgrade: helm upgrade"));
    }
    checks
}

fn webhooks(all: Option<&[InstalledWebhook]>, now: Timestamp) -> Vec<InstallCheck> {
    let Some(all) = all else { return unknown("webhooks") };
    if all.is_empty() {
        let found = "there are none: specs are checked by the controllers only";
        return vec![made("webhooks", CheckState::Warning, found, "install the webhook-server")];
    }
    all.iter().map(|one| webhook(one, now)).collect()
}

fn webhook(one: &InstalledWebhook, now: Timestamp) -> InstallCheck {
    let check = format!("webhook {}", one.owner);
    if one.ready == Some(0) {
        let found = format!("Service {} has no ready endpoint", one.service);
        return made(&check, CheckState::Failed, found, "look at the pods of the webhook-server");
    }
    if !one.has_ca {
        let remedy = "look at the log of the webhook-server, or set webhook.caBundle";
        return made(&check, CheckState::Failed, "it has no CA bundle", remedy);
    }
    let endpoints = one.ready.map_or("unknown".to_owned(), |ready| ready.to_string());
    let Some(expires) = one.ca_expires else {
        return made(&check, CheckState::Warning, "its CA bundle cannot be read", RENEW);
    };
    let left = expires.as_second() - now.as_second();
    let found = format!("ready endpoints: {endpoints}, CA expires {}", expires.strftime("%Y-%m-%d"));
    let (state, remedy) = match left {
        ..0 => (CheckState::Failed, RENEW),
        0..SOON => (CheckState::Warning, RENEW),
        _ if one.ready.is_none() => (CheckState::Unknown, "ask a cluster administrator"),
        _ => (CheckState::Ok, ""),
    };
    made(&check, state, found, remedy)
}

fn markers(install: &Install, now: Timestamp) -> Vec<InstallCheck> {
    let Some(markers) = install.markers.as_deref() else { return unknown("markers") };
    let of_marker = |one: &InstallMarker| {
        let check = format!("marker of namespace {}", one.namespace);
        let found = format!("held by {}, renewed {} ago", one.holder, age(now, one.renewed));
        let expired = "it has expired, and the cluster-wide operator acts; delete the Lease if the install is gone";
        let (state, remedy) = if one.is_valid(now) { (CheckState::Ok, "") } else { (CheckState::Warning, expired) };
        made(&check, state, found, remedy)
    };
    markers.iter().map(of_marker).collect()
}

fn rights(install: &Install) -> Vec<InstallCheck> {
    let of_right = |right: &Right| {
        let check = format!("your right to {}", right.what);
        match right.allowed {
            Some(true) => made(&check, CheckState::Ok, "yes", ""),
            Some(false) => {
                let found = format!("no; needed by {}", right.needed_by);
                made(&check, CheckState::Warning, found, "ask a cluster administrator for the right")
            }
            None => made(&check, CheckState::Unknown, "the API server did not answer", ""),
        }
    };
    install.rights.iter().map(of_right).collect()
}

fn optional(groups: Option<&[String]>) -> Vec<InstallCheck> {
    let Some(groups) = groups else { return unknown("optional APIs") };
    let of_group = |(group, purpose): &(&str, &str)| {
        let served = groups.iter().any(|served| served == group);
        let found = if served { "served".to_owned() } else { format!("not served: no {purpose}") };
        made(&format!("API {group}"), CheckState::Ok, found, "")
    };
    OPTIONAL.iter().map(of_group).collect()
}

/// The checks as a table; with `wide`, with remedies.
pub fn table(checks: &[InstallCheck], wide: bool, style: Style) -> String {
    let mut table =
        Table::new(if wide { &["CHECK", "STATE", "FOUND", "REMEDY"] } else { &["CHECK", "STATE", "FOUND"] });
    for one in checks {
        let cells = [one.check.clone(), one.state.as_str().to_owned(), one.found.clone(), one.remedy.clone()];
        table.row(cells.into_iter().take(if wide { 4 } else { 3 }));
    }
    let mut text = table.text();
    let bad = |state| checks.iter().filter(|one| one.state == state).count();
    let (failed, warnings) = (bad(CheckState::Failed), bad(CheckState::Warning));
    let summary = format!("{failed} failed, {warnings} warnings");
    let summary = if failed > 0 { style.bad(&summary) } else { style.good(&summary) };
    text.push_str(&format!("\n{} checks: {summary}\n", checks.len()));
    for one in checks.iter().filter(|one| !wide && one.state == CheckState::Failed && !one.remedy.is_empty()) {
        text.push_str(&format!("{}: {}\n", one.check, one.remedy));
    }
    text
}
