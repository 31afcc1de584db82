//! What the crates may be built from.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::violation::Violation;

/// Crates that a pure crate must not depend on, however indirectly.
const ASYNC: [&str; 9] =
    ["async-std", "futures", "futures-util", "hyper", "kube-client", "kube-runtime", "smol", "tokio", "tower"];
/// Crates that nothing here may be built from, and why.
const BANNED: [(&str, &str); 4] = [
    ("aws-lc-rs", "ring is the one crypto provider: smaller, and it needs no C tool chain"),
    ("native-tls", "rustls is the one TLS implementation"),
    ("openssl", "rustls is the one TLS implementation"),
    ("openssl-sys", "rustls is the one TLS implementation"),
];
/// Crates that only one may depend on, and which: only one program talks to NATS and etcd.
const RESERVED: [(&str, &str); 3] =
    [("async-nats", "infrastructure"), ("etcd-client", "infrastructure"), ("infrastructure", "graph-controller")];
/// Features that change what a crate does for everybody in one build, and what they change.
const BANNED_FEATURES: [(&str, &str, &str); 2] = [
    ("serde_json", "arbitrary_precision", "numbers become maps in every format but JSON"),
    ("serde_json", "preserve_order", "objects are no longer written in one order"),
];
/// Crates of which two versions would be two incompatible sets of types.
const SINGLE: [&str; 5] = ["k8s-openapi", "kube", "kube-client", "kube-core", "schemars"];
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks the normal dependencies of a pure crate; `tree` is what `cargo tree --prefix none` prints for it.
pub fn check_pure(crate_name: &str, tree: &str) -> Vec<Violation> {
    let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let manifest = format!("crates/{crate_name}/Cargo.toml");
    let found = ASYNC.iter().filter(|name| names.contains(*name));
    found
        .map(|name| {
            let text = format!(
                "{crate_name} depends on {name}, but only computes; `cargo tree -p {crate_name} -e normal -i {name}` \
                 shows the way to it"
            );
            Violation::new(&manifest, 1, text)
        })
        .collect()
}

/// Checks the features of everything that is built together; `tree` has lines such as `serde_json v1.0.0
/// [default,std]`.
pub fn check_features(tree: &str) -> Vec<Violation> {
    let has = |name: &str, feature: &str| {
        tree.lines().any(|line| {
            let features =
                line.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("", |(inner, _)| inner);
            line.split(' ').next() == Some(name) && features.split(',').any(|one| one == feature)
        })
    };
    let found = BANNED_FEATURES.iter().filter(|(name, feature, _)| has(name, feature));
    found
        .map(|(name, feature, why)| {
            let remedy = format!("`cargo tree --workspace -e features -i {name}` shows who asks for it");
            violation(1, format!("feature {feature} of {name} is on ({why}); {remedy}"))
        })
        .collect()
}

/// Checks that third-party crates have the same features in the commands as in everything, or cargo compiles them, and
/// all that use them, twice; the trees have lines as in [`check_features`].
pub fn check_commands(commands: &str, everything: &str) -> Vec<Violation> {
    let packages = |tree: &str| -> BTreeSet<String> {
        let lines = tree.lines().map(|line| line.trim_end_matches(" (*)"));
        // Of the workspace are those with a path.
        lines.filter(|line| !line.contains("(/")).map(str::to_owned).collect()
    };
    let everything = packages(everything);
    let found = packages(commands).into_iter().filter(|package| !package.is_empty() && !everything.contains(package));
    found
        .map(|package| {
            let text = format!("the commands have {package}, and nothing else has these features; add what is missing");
            Violation::new("xtask/Cargo.toml", 1, text)
        })
        .collect()
}

/// Checks the lock file: banned crates, second versions, sources other than crates.io.
pub fn check_lock(lock: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut versions: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, line) in lock.lines().enumerate() {
        let value = |key: &str| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"');
        if let Some(name) = value("name") {
            versions.entry(name).or_default().push(index + 1);
        }
        if let Some(source) = value("source").filter(|source| *source != CRATES_IO) {
            violations.push(violation(index + 1, format!("a package comes from {source}; take it from crates.io")));
        }
    }
    for (name, why) in BANNED {
        for line in versions.get(name).into_iter().flatten() {
            violations.push(violation(
                *line,
                format!("{name} is not allowed ({why}); `cargo tree -i {name}` shows who asks for it"),
            ));
        }
    }
    violations.extend(check_reserved(lock));
    for name in SINGLE {
        for line in versions.get(name).into_iter().flatten().skip(1) {
            violations
                .push(violation(*line, format!("a second version of {name}; `cargo tree -d` shows who asks for it")));
        }
    }
    violations
}

/// What is heavy stays in the one crate that needs it.
fn check_reserved(lock: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut package = "";
    for (index, line) in lock.lines().enumerate() {
        if let Some(name) = line.strip_prefix("name = \"") {
            package = name.trim_end_matches('"');
        }
        let Some(dependency) = line.strip_prefix(" \"").and_then(|rest| rest.split(['"', ' ']).next()) else {
            continue;
        };
        let found = RESERVED.iter().filter(|(name, user)| *name == dependency && *user != package);
        violations.extend(found.map(|(name, user)| {
            violation(
                index + 1,
                format!("{package} depends on {name}, which is for {user} only; use what {user} offers"),
            )
        }));
    }
    violations
}

fn violation(line: usize, text: String) -> Violation {
    Violation::new("Cargo.lock", line, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_async_crate_in_a_pure_one_is_found() {
        let tree = "rendering v0.1.0 (/x)\nserde v1.0.0\ntokio v1.50.0 (*)\nfutures-core v0.3.0\n";
        let found = check_pure("rendering", tree);
        assert_eq!(found.len(), 1);
        assert!(found[0].text.starts_with("rendering depends on tokio"), "{}", found[0]);
        assert!(check_pure("rendering", "rendering v0.1.0\nserde v1.0.0\n").is_empty());
    }

    #[test]
    fn a_crate_that_is_compiled_twice_is_found() {
        let everything = "xtask v0.1.0 (/x) []\nsyn v2.0.0 [full,visit]\nbytes v1.0.0 [default,serde]\n";
        let commands = "xtask v0.1.0 (/x) [a]\nsyn v2.0.0 [full,visit] (*)\n\n";
        assert!(check_commands(commands, everything).is_empty());
        let found = check_commands(&commands.replace(",visit", ""), everything);
        assert_eq!(found.len(), 1);
        assert!(found[0].text.starts_with("the commands have syn v2.0.0 [full],"), "{}", found[0]);
    }

    #[test]
    fn a_feature_that_changes_every_crate_is_found() {
        let tree = "x v1.0.0 (/x) []\nserde_json v1.0.151 [default,std]\nserde_json v1.0.151 [alloc,std] (*)\n";
        assert!(check_features(tree).is_empty());
        let found = check_features(&tree.replace("alloc", "arbitrary_precision"));
        assert_eq!(found.len(), 1);
        assert!(found[0].text.starts_with("feature arbitrary_precision of serde_json is on"), "{}", found[0]);
    }

    #[test]
    fn a_heavy_crate_has_one_user() {
        let package = |name: &str| format!("[[package]]\nname = \"{name}\"\ndependencies = [\n \"async-nats\",\n]\n\n");
        assert!(check_reserved(&package("infrastructure")).is_empty());
        let found = check_reserved(&(package("infrastructure") + &package("rendering")));
        assert_eq!(found.iter().map(|violation| violation.line).collect::<Vec<_>>(), [10]);
        assert!(found[0].text.starts_with("rendering depends on async-nats"), "{}", found[0]);
    }

    #[test]
    fn the_lock_file_has_no_banned_double_or_foreign_package() {
        let package = |name: &str, version: &str, source: &str| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = \"{source}\"\n\n")
        };
        let good = package("kube", "5.0.0", CRATES_IO) + &package("openssl-probe", "0.2.0", CRATES_IO);
        assert!(check_lock(&good).is_empty());
        for (more, line) in [
            (package("openssl", "0.10.0", CRATES_IO), 12),
            (package("kube", "4.0.0", CRATES_IO), 12),
            (package("x", "1.0.0", "git+https://example.com/x"), 14),
        ] {
            let found = check_lock(&(good.clone() + &more));
            assert_eq!(found.iter().map(|violation| violation.line).collect::<Vec<_>>(), [line], "{more}");
        }
    }
}
