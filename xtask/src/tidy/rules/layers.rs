//! Rules for the code that may call the API server, and for the code that may only compute.

use super::words;
use crate::tidy::{source::RustFile, violation::TidyViolation};

/// Files and folders of a controller that may hold a client.
const SHELLS: [&str; 5] = ["observe", "apply", "run", "main", "lib"];
/// Files and folders of a controller that only compute.
const PURE: [&str; 8] = ["admission", "events", "merge", "plan", "requeue", "resolve", "status", "validate"];
/// Crates whose library only computes; their normal dependencies hold nothing asynchronous.
pub const PURE_CRATES: [&str; 2] = ["api-types", "rendering"];
/// Crates that are all shell; `infrastructure` is one to other servers, and cannot reach the API server.
const SHELL_CRATES: [&str; 4] = ["controller-kit", "end-to-end", "infrastructure", "test-cluster"];
/// Identifiers of input and output.
const EFFECTS: [&str; 6] = ["async", "await", "tokio", "Client", "Applier", "rand"];
/// Paths of input and output, and of clocks.
const EFFECT_PATHS: [&str; 6] = ["std::fs", "std::net", "std::env", "std::process", "std::thread", "::now("];

/// Finds clients outside the shells of controllers, and effects in pure modules.
pub fn check(file: &RustFile<'_>) -> Vec<TidyViolation> {
    let (find, where_and_remedy): (fn(&str) -> Option<&'static str>, _) = match layer(&file.file.path) {
        Layer::Pure => (effect, "in code that only computes; read it in observe.rs and pass the value in"),
        Layer::Inner => (client, "outside observe.rs, apply.rs, run.rs and main.rs; move the call there"),
        Layer::Shell => return Vec::new(),
    };
    let found = file.product_code().filter_map(|(line, code)| Some((line, find(code)?)));
    let violation =
        |line, what: &str| TidyViolation::new(&file.file.path, line, format!("`{what}` {where_and_remedy}"));
    found.map(|(line, what)| violation(line, what)).collect()
}

enum Layer {
    /// Computes.
    Pure,
    /// May do anything but talk to the API server.
    Inner,
    /// Talks to the API server.
    Shell,
}

fn layer(path: &str) -> Layer {
    let Some((crate_name, inside)) = path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/")) else {
        return Layer::Shell;
    };
    let parts = || inside.split('/').map(|part| part.strip_suffix(".rs").unwrap_or(part));
    let has = |names: &[&str]| parts().any(|part| names.contains(&part));
    if PURE_CRATES.contains(&crate_name) {
        return if has(&["main", "bin"]) { Layer::Shell } else { Layer::Pure };
    }
    if SHELL_CRATES.contains(&crate_name) {
        return Layer::Shell;
    }
    // The first folder is that of a kind, which may be a model.
    let holds_data = parts().skip(1).any(|part| part == "model");
    match () {
        () if has(&PURE) || holds_data => Layer::Pure,
        () if has(&SHELLS) => Layer::Shell,
        () => Layer::Inner,
    }
}

fn client(code: &str) -> Option<&'static str> {
    if words(code, "Client").next().is_some() {
        return Some("Client");
    }
    let generic = |at: usize| {
        let after = code[at + "Api".len()..].trim_start();
        after.starts_with('<') || after.starts_with("::")
    };
    words(code, "Api").any(generic).then_some("Api")
}

fn effect(code: &str) -> Option<&'static str> {
    let word = EFFECTS.into_iter().find(|word| words(code, word).next().is_some());
    word.or_else(|| EFFECT_PATHS.into_iter().find(|path| code.contains(path))).or_else(|| client(code))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::rules::testing::lines;

    #[test]
    fn clients_stay_in_the_shells() {
        let text = "//! Header with kube::Client.\nuse kube::Client;\nfn f(a: Api<Pod>) {}\nlet a = Api::all(c);\nstruct ApiError;\n";
        for (path, found) in [
            ("crates/graph-controller/src/graph/model.rs", vec![2, 3, 4]),
            ("crates/graph-controller/src/graph/plan/rollout.rs", vec![2, 3, 4]),
            ("crates/graph-controller/src/graph/observe.rs", vec![]),
            ("crates/graph-controller/src/graph/apply/order.rs", vec![]),
            ("crates/graph-controller/src/main.rs", vec![]),
            ("crates/controller-kit/src/store/watch.rs", vec![]),
            ("crates/graph-controller/tests/rollout.rs", vec![]),
        ] {
            assert_eq!(lines(check, path, text), found, "{path}");
        }
    }

    #[test]
    fn pure_code_has_no_effects() {
        for (line, bad) in [
            ("async fn f() {}", true),
            ("let x = y.await;", true),
            ("use tokio::sync::Mutex;", true),
            ("let now = Timestamp::now();", true),
            ("let now = std::time::SystemTime::now();", true),
            ("let text = std::fs::read(p);", true),
            ("fn f(applier: &Applier) {}", true),
            ("let api: Api<Pod> = x;", true),
            ("use crate::env;", false),
            ("let known = brand(\"tokio\"); // async", false),
            ("fn f(now: Timestamp) {}", false),
        ] {
            for path in [
                "crates/graph-controller/src/graph/plan/mod.rs",
                "crates/x-controller/src/status.rs",
                "crates/rendering/src/a.rs",
            ] {
                assert_eq!(!lines(check, path, line).is_empty(), bad, "{path}: {line}");
            }
        }
        assert!(lines(check, "crates/api-types/src/bin/crds.rs", "async fn main() {}").is_empty());
    }
}
