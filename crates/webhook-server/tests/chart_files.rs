//! The files of the chart are what the program prints.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

const NAMES: [&str; 4] = ["--operator-namespace", "dynamo-system", "--service-name", "dynamo-operator-webhook-service"];

fn printed(args: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_webhook-server")).args(args).args(NAMES).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap()
}

fn in_chart(file: &str) -> Value {
    let chart = "../../deploy/helm/dynamo-platform/charts/dynamo-operator/charts/webhook-server/files";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(chart).join(file);
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn roles_are_what_the_program_asks_for() {
    assert_eq!(in_chart("role.yaml"), printed(&["access"])[0], "print it anew: webhook-server access");
    assert_eq!(in_chart("own-role.yaml"), printed(&["access", "--of", "own"])[0], "webhook-server access --of own");
}

#[test]
fn webhook_configurations_are_what_the_program_prints() {
    let printed = json!({ "items": printed(&["configurations"]) });
    assert_eq!(in_chart("configurations.yaml"), printed, "as a list of: webhook-server configurations");
}
