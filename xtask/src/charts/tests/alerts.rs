//! Alerts and dashboards.

use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use regex::Regex;
use repository::{chart::platform, root};
use serde_json::{Value, json};
use test_cluster::assets::{Assets, Tool, is_full};

use super::{find, render};

const ALERTS: &str = "dynamo-operator.monitoring.alerts.enabled=true";
const DASHBOARDS: &str = "dynamo-operator.monitoring.dashboards.enabled=true";
/// Scenarios in which each alert fires, and in which it does not fire.
const SCENARIOS: &str = include_str!("alerts.yaml");
/// Families that other programs serve, by the beginning of their names.
const FOREIGN: [&str; 4] = ["up", "kube_", "DCGM_", "dynamo_frontend_"];

fn files() -> PathBuf {
    platform().join("charts/dynamo-operator/files")
}

fn alerts() -> Value {
    serde_saphyr::from_str(&fs::read_to_string(files().join("alerts.yaml")).unwrap()).unwrap()
}

fn rules(groups: &Value) -> impl Iterator<Item = &Value> {
    groups["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// The families that an expression names.
fn families(expression: &str) -> BTreeSet<String> {
    let name = Regex::new(r"[a-z][A-Za-z0-9_]*\{|\b(?:dynamo_(?:operator|frontend)|kube|DCGM)_[A-Za-z0-9_]+").unwrap();
    name.find_iter(expression).map(|found| found.as_str().trim_end_matches('{').to_owned()).collect()
}

/// Families that the operator serves, with the endings that the text format adds.
fn served() -> BTreeSet<String> {
    let golden = fs::read_to_string(root().join("xtask/golden/metrics.txt")).unwrap();
    let endings = ["", "_total", "_bucket", "_sum", "_count"];
    golden.lines().flat_map(|name| endings.map(|ending| format!("dynamo_operator_{name}{ending}"))).collect()
}

#[track_caller]
fn assert_known(expression: &str) {
    let (named, served) = (families(expression), served());
    assert!(!named.is_empty(), "{expression}");
    for family in named {
        let known = served.contains(&family) || FOREIGN.iter().any(|begin| family.starts_with(begin));
        assert!(known, "no program serves {family}: {expression}");
    }
}

#[test]
fn there_are_none_unless_values_enable_them() {
    let objects = render(&[]).unwrap();
    assert!(objects.iter().all(|object| object["kind"] != "PrometheusRule"));
    assert!(objects.iter().all(|object| !text(&object["metadata"]["name"]).contains("dashboard")));
}

#[test]
fn each_alert_has_a_remedy_on_its_page_and_a_scenario() {
    let page = fs::read_to_string(root().join("docs/alerts.md")).unwrap();
    let objects = render(&[ALERTS, "dynamo-operator.monitoring.alerts.runbooks=https://example.com/alerts"]).unwrap();
    let spec = &find(&objects, "PrometheusRule", "rel-dynamo-operator")["spec"];
    for (rule, source) in rules(spec).zip(rules(&alerts())) {
        let name = text(&rule["alert"]);
        assert!(page.contains(&format!("\n## {name}\n")), "docs/alerts.md says nothing of {name}");
        assert!(SCENARIOS.contains(&format!("alertname: {name}\n")), "no scenario of {name}");
        let link = format!("https://example.com/alerts#{}", name.to_lowercase());
        assert_eq!(rule["annotations"]["runbook_url"], json!(link));
        assert_eq!(rule["annotations"]["summary"], source["annotations"]["summary"]);
        assert_known(text(&rule["expr"]));
    }
    assert_eq!(rules(spec).count(), rules(&alerts()).count());
}

#[test]
fn dashboards_query_what_is_served() {
    let objects = render(&[DASHBOARDS]).unwrap();
    let mut identities = BTreeSet::new();
    for name in ["operator", "graphs"] {
        let map = find(&objects, "ConfigMap", &format!("rel-dynamo-operator-dashboard-{name}"));
        assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
        let board: Value = serde_json::from_str(text(&map["data"][format!("dynamo-{name}.json")])).unwrap();
        identities.insert(text(&board["uid"]).to_owned());
        let panels = board["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row");
        for target in panels.flat_map(|panel| panel["targets"].as_array().unwrap()) {
            assert_known(text(&target["expr"]));
        }
    }
    assert_eq!(identities.len(), 2);
}

#[test]
fn alerts_fire_when_they_should() {
    if !is_full() {
        eprintln!("skipped: promtool takes minutes to build; DYNAMO_REAL_SOFTWARE=full builds it");
        return;
    }
    let promtool = Assets::from_env().unwrap().find(Tool::Promtool).unwrap();
    let scenarios = root().join("xtask/src/charts/tests/alerts.yaml");
    for (task, file) in [("check", files().join("alerts.yaml")), ("test", scenarios)] {
        let output = Command::new(&promtool).args([task, "rules"]).arg(file).stdin(Stdio::null()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "promtool {task} rules: {}", String::from_utf8_lossy(&said));
    }
}
