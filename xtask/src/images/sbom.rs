//! What a program is made of, as CycloneDX: the packages that are linked into it, from cargo's own resolution.

use std::collections::{BTreeSet, HashMap};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Program;
use crate::operators::workspace_root;

/// The bill of materials of a program.
pub(super) fn of(program: &Program) -> Result<Vec<u8>> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-musl"])
        .current_dir(workspace_root())
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
    Ok(serde_json::to_vec_pretty(&bill(&metadata, program))?)
}

fn bill(metadata: &Value, program: &Program) -> Value {
    let packages: HashMap<&str, &Value> =
        items(&metadata["packages"]).filter_map(|p| Some((p["id"].as_str()?, p))).collect();
    let root = packages.values().find(|package| package["name"] == program.package);
    let root_id = root.and_then(|package| package["id"].as_str()).unwrap_or_default();
    let components: BTreeSet<(String, String, String)> = linked(metadata, root_id)
        .into_iter()
        .filter(|id| *id != root_id)
        .filter_map(|id| packages.get(id))
        .map(|package| {
            let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
            (text("name"), text("version"), text("license"))
        })
        .collect();
    let components: Vec<Value> = components
        .into_iter()
        .map(|(name, version, license)| {
            json!({
                "type": "library", "name": name, "version": version, "purl": format!("pkg:cargo/{name}@{version}"),
                "licenses": [{ "expression": license }],
            })
        })
        .collect();
    let version = root.and_then(|package| package["version"].as_str());
    json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": { "type": "application", "name": program.name, "version": version } },
        "components": components,
    })
}

/// Packages that end up in the binary: tools and tests of the build are not followed.
fn linked<'a>(metadata: &'a Value, root: &'a str) -> BTreeSet<&'a str> {
    let nodes: HashMap<&str, &Value> =
        items(&metadata["resolve"]["nodes"]).filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let (mut found, mut open) = (BTreeSet::new(), vec![root]);
    while let Some(id) = open.pop() {
        if !found.insert(id) {
            continue;
        }
        let Some(node) = nodes.get(id) else { continue };
        let normal = items(&node["deps"]).filter(|dep| items(&dep["dep_kinds"]).any(|kind| kind["kind"].is_null()));
        open.extend(normal.filter_map(|dep| dep["pkg"].as_str()));
    }
    found
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Program, bill};

    #[test]
    fn what_is_linked_is_listed_and_tools_are_not() {
        let package = |name: &str| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT"});
        let dep = |name: &str, kind: Option<&str>| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("own"), package("linked"), package("deeper"), package("tool"), package("other")],
            "resolve": {"nodes": [
                {"id": "own", "deps": [dep("linked", None), dep("tool", Some("build"))]},
                {"id": "linked", "deps": [dep("deeper", None)]},
                {"id": "other", "deps": []},
            ]},
        });
        let bill = bill(&metadata, &Program { name: "own", package: "own", feature: None });
        let names: Vec<_> = bill["components"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
        assert_eq!(names, ["deeper", "linked"]);
    }
}
