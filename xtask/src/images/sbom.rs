//! Bill of materials of a program, as CycloneDX: the packages that are linked into it, as cargo resolves them for the
//! build.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use repository::cargo;
use serde_json::{Value, json};

use super::{
    ImageProgram,
    build::{Arch, selection},
};

/// Bills of materials of programs that are built in one go: a feature that one of them enables is enabled for all.
#[derive(Debug, Default)]
pub(super) struct Bills {
    packages: BTreeMap<String, Linked>,
}

/// A package, and what is linked with it.
#[derive(Debug)]
struct Linked {
    version: String,
    components: BTreeSet<LinkedCrate>,
}

/// A package that is linked with another one.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LinkedCrate {
    name: String,
    version: String,
    license: String,
    /// Its address in the registry; none for crates of the repository.
    address: Option<String>,
}

impl Bills {
    /// Returns the packages that cargo links for these programs on any of these architectures. Build tools, tests and
    /// macros are not followed: macros are used by the compiler only.
    pub(super) fn of(programs: &[ImageProgram], arches: &[Arch]) -> Result<Self> {
        let mut bills = Self::default();
        for arch in arches {
            let mut tree = cargo("tree");
            tree.args(["--locked", "--target", &arch.target(), "--edges", "normal,no-proc-macro"]);
            tree.args(["--prefix", "depth", "--no-dedupe", "--format", "\t{p}\t{l}"]).args(selection(programs));
            let output = tree.output().context("cannot run cargo tree")?;
            ensure!(output.status.success(), "cargo tree failed: {}", String::from_utf8_lossy(&output.stderr));
            bills.add(&String::from_utf8_lossy(&output.stdout));
        }
        Ok(bills)
    }

    /// Reads lines of depth, package and licence; those of depth 0 begin the tree of a package.
    fn add(&mut self, tree: &str) {
        let mut root = None;
        for line in tree.lines() {
            let [depth, package, license] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
            let (name, version) = package.split_once(" v").unwrap_or((package, ""));
            let version = version.split(' ').next().unwrap_or_default().to_owned();
            let address = (!package.contains(" (/")).then(|| format!("pkg:cargo/{name}@{version}"));
            let name = name.to_owned();
            if depth == "0" {
                root = Some(self.packages.entry(name).or_insert(Linked { version, components: BTreeSet::new() }));
            } else if let Some(root) = &mut root {
                // As cargo wrote it before there was a standard.
                let license = license.replace(" / ", " OR ").replace('/', " OR ");
                root.components.insert(LinkedCrate { name, version, license, address });
            }
        }
    }

    /// The bill of one of the programs.
    pub(super) fn bill(&self, program: &ImageProgram) -> Result<Vec<u8>> {
        let linked = self.packages.get(program.package);
        let linked = linked.with_context(|| format!("cargo tree lists nothing of {}", program.package))?;
        let components = linked.components.iter().map(|LinkedCrate { name, version, license, address }| {
            let mut component = json!({
                "type": "library", "name": name, "version": version, "licenses": [{ "expression": license }],
            });
            if let Some(address) = address {
                component["purl"] = address.as_str().into();
            }
            component
        });
        Ok(serde_json::to_vec_pretty(&json!({
            "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": { "component": { "type": "application", "name": program.name, "version": linked.version } },
            "components": components.collect::<Vec<Value>>(),
        }))?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{
        super::{ImageProgram, PROGRAMS, build::Arch, program},
        Bills,
    };

    fn names(bills: &Bills, program: &ImageProgram) -> Vec<String> {
        let bill: Value = serde_json::from_slice(&bills.bill(program).unwrap()).unwrap();
        let components = bill["components"].as_array().unwrap().iter();
        components.map(|component| component["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn each_program_has_what_is_below_it_once() {
        let mut bills = Bills::default();
        bills.add("0\town v0.1.0 (/src/own)\tMIT\n1\tb v1.0.0\tMIT/Apache-2.0\n2\ta v2.1.0\tMIT\n1\ta v2.1.0\tMIT\n1\tlocal v1.0.0 (/src/local)\tMIT\n\n0\tother v0.1.0\tMIT\n1\tc v1.0.0\tISC\n");
        let own = program("own");
        assert_eq!(names(&bills, &own), ["a", "b", "local"]);
        let bill: Value = serde_json::from_slice(&bills.bill(&own).unwrap()).unwrap();
        assert_eq!(bill["metadata"]["component"]["version"], "0.1.0");
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/a@2.1.0");
        assert_eq!(bill["components"][2].get("purl"), None);
        assert_eq!(bill["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(names(&bills, &program("other")), ["c"]);
        assert!(bills.bill(&program("third")).is_err());
    }

    /// Tests of the workspace switch features on that no program has; a scanner would report
    /// packages that are not there.
    #[test]
    fn what_only_tests_use_and_what_only_compiles_is_in_no_bill() {
        let bills = Bills::of(&PROGRAMS, &[Arch::of_this_machine()]).unwrap();
        let found = names(&bills, PROGRAMS.iter().find(|program| program.name == "webhook-server").unwrap());
        let has = |name: &str| found.iter().any(|found| found == name);
        assert!(has("rustls") && has("tokio"), "{found:?}");
        for other in ["rsa", "p256", "serde_derive", "syn", "test-cluster"] {
            assert!(!has(other), "{other} is not linked into the webhook server");
        }
    }

    /// Cargo takes `package/feature` for a feature of a dependency where there is one of that name.
    #[test]
    fn the_program_behind_a_feature_is_there_when_it_is_built_alone() {
        let crds = PROGRAMS.iter().find(|program| program.name == "crds").unwrap();
        let bills = Bills::of(&[*crds], &[Arch::of_this_machine()]).unwrap();
        assert!(names(&bills, crds).contains(&"clap".to_owned()));
    }
}
