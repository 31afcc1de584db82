//! Files of one crate do not import each other in a circle.
//!
//! An import counts for the file that defines the name, however many modules re-export it. A file and the file that
//! declares it count as one: what a `mod.rs` defines for its own modules makes no circle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use regex::Regex;

use crate::tidy::{
    source::{RustFile, TextFile},
    violation::TidyViolation,
};

/// Re-exports of re-exports that are followed.
const DEPTH: usize = 10;

/// Path of a module below the root of its crate.
type Path = Vec<String>;

/// A source file as a module.
struct Module {
    file: String,
    /// Names that the module imports, with their paths.
    bindings: BTreeMap<String, Path>,
    /// Names in the module, with the path from the root of the crate.
    named: BTreeSet<Path>,
}

/// Finds the files of each crate that import each other in a circle.
pub fn check(files: &[TextFile]) -> Vec<TidyViolation> {
    let mut crates: BTreeMap<String, Vec<RustFile<'_>>> = BTreeMap::new();
    for file in files.iter().filter_map(TextFile::rust).filter(|file| !file.is_test()) {
        if let Some(root) = root_of(&file.file.path) {
            crates.entry(root).or_default().push(file);
        }
    }
    crates.iter().flat_map(|(root, files)| circles(&modules(root, files))).collect()
}

/// The folder of the crate that a file belongs to. Each program below `src/bin` is a crate of its own.
fn root_of(path: &str) -> Option<String> {
    let (before, after) = path.split_once("/src/")?;
    let program = after.strip_prefix("bin/").and_then(|rest| rest.split_once('/')).map(|(name, _)| name);
    Some(program.map_or(format!("{before}/src/"), |name| format!("{before}/src/bin/{name}/")))
}

/// All modules of a crate by their paths.
fn modules(root: &str, files: &[RustFile<'_>]) -> BTreeMap<Path, Module> {
    let has_library = files.iter().any(|file| file.file.path == format!("{root}lib.rs"));
    let place = |file: &RustFile<'_>| {
        let inside = file.file.path.strip_prefix(root)?.strip_suffix(".rs")?;
        // A program beside a library sees the library as another crate.
        if inside.starts_with("bin/") || inside == "main" && has_library {
            return None;
        }
        let inside = if ["lib", "main"].contains(&inside) { "" } else { inside.strip_suffix("/mod").unwrap_or(inside) };
        Some(inside.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Path>())
    };
    let known: BTreeSet<Path> = files.iter().filter_map(place).collect();
    files
        .iter()
        .filter_map(|file| Some((place(file)?, file)))
        .map(|(path, file)| (path.clone(), module(&path, file, &known)))
        .collect()
}

fn module(own: &Path, file: &RustFile<'_>, known: &BTreeSet<Path>) -> Module {
    let code = file.product_code().map(|(_, line)| line).collect::<Vec<_>>().join("\n");
    let (mut bindings, mut named) = (BTreeMap::new(), BTreeSet::new());
    let (items, rest) = without_imports(&code);
    for (path, name) in imports(&items) {
        let Some(path) = absolute(own, &path, known) else { continue };
        named.insert(path.clone());
        bindings.insert(name, path);
    }
    for path in paths(&rest) {
        named.extend(absolute(own, &path, known));
    }
    Module { file: file.file.path.clone(), bindings, named }
}

/// The `use` items of a file without the word, and the rest of its code.
fn without_imports(code: &str) -> (Vec<String>, String) {
    let Ok(item) = Regex::new(r"(?m)^\s*(?:pub(?:\([^)]*\))?\s+)?use\s+([^;]+;)") else {
        return (Vec::new(), code.to_owned());
    };
    let items = item.captures_iter(code).map(|found| found[1].to_owned()).collect();
    (items, item.replace_all(code, "").into_owned())
}

/// The paths of `use` items, each with the name that it gives.
fn imports(items: &[String]) -> Vec<(Path, String)> {
    let Ok(token) = Regex::new(r"[\w*]+|[{},;]") else { return Vec::new() };
    let mut found = Vec::new();
    for item in items {
        tree(&mut token.find_iter(item).map(|token| token.as_str()), &Path::new(), &mut found);
    }
    found
}

/// Flattens a `use` tree, up to its closing brace.
fn tree(tokens: &mut dyn Iterator<Item = &str>, prefix: &Path, into: &mut Vec<(Path, String)>) {
    // A comma before the closing brace names nothing.
    let (mut path, mut alias, mut names) = (prefix.clone(), None, false);
    while let Some(token) = tokens.next() {
        match token {
            "{" => {
                tree(tokens, &path, into);
                names = false;
            }
            "as" => alias = tokens.next().map(str::to_owned),
            "self" | "*" if !path.is_empty() => names = true,
            "," | "}" | ";" => {
                let name = alias.take().or_else(|| path.last().cloned());
                if let Some(name) = name.filter(|_| names) {
                    into.push((path, name));
                }
                if token != "," {
                    return;
                }
                (path, names) = (prefix.clone(), false);
            }
            word => {
                path.push(word.to_owned());
                names = true;
            }
        }
    }
}

/// Paths in the code that begin with a keyword or with the name of a module.
fn paths(code: &str) -> Vec<Path> {
    let Ok(pattern) = Regex::new(r"\b[a-z_][a-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)+") else { return Vec::new() };
    let split = |found: &str| found.split("::").map(str::to_owned).collect();
    let begins = |start: usize| !code[..start].ends_with("::");
    pattern.find_iter(code).filter(|found| begins(found.start())).map(|found| split(found.as_str())).collect()
}

/// A path from the root of the crate, if it is one of this crate.
fn absolute(own: &Path, path: &[String], known: &BTreeSet<Path>) -> Option<Path> {
    let (first, rest) = path.split_first()?;
    let mut base = match first.as_str() {
        "crate" => Path::new(),
        "self" => own.clone(),
        "super" => own.split_last()?.1.to_vec(),
        child => {
            let path = [own.as_slice(), &[child.to_owned()]].concat();
            return known.contains(&path).then(|| [path.as_slice(), rest].concat());
        }
    };
    for part in rest {
        if part == "super" {
            base.pop();
        } else {
            base.push(part.clone());
        }
    }
    Some(base)
}

/// The module that defines what a path names.
fn defines(modules: &BTreeMap<Path, Module>, path: &Path, depth: usize) -> Option<Path> {
    let at = (0..=path.len()).rev().find(|at| modules.contains_key(&path[..*at]))?;
    let module = path[..at].to_vec();
    let Some(name) = path.get(at) else { return Some(module) };
    match modules.get(&module)?.bindings.get(name) {
        Some(target) if depth > 0 && *target != *path => {
            defines(modules, &[target.as_slice(), &path[at + 1..]].concat(), depth - 1)
        }
        _ => Some(module),
    }
}

/// One violation for each set of files that import each other.
fn circles(modules: &BTreeMap<Path, Module>) -> Vec<TidyViolation> {
    let imports: BTreeMap<&Path, BTreeSet<Path>> = modules
        .iter()
        .map(|(path, module)| {
            let found = module.named.iter().filter_map(|named| defines(modules, named, DEPTH));
            (path, found.filter(|target| !path.starts_with(target)).collect())
        })
        .collect();
    let mut reported: BTreeSet<&Path> = BTreeSet::new();
    let mut violations = Vec::new();
    for (path, module) in modules {
        if reported.contains(path) {
            continue;
        }
        let Some(circle) = way_back(&imports, path) else { continue };
        let name = |path: &Path| modules.get(path).map_or("", |module| module.file.as_str()).to_owned();
        let way = circle.iter().map(name).collect::<Vec<_>>().join(" -> ");
        let text = format!("imports in a circle: {way}; move what two of them need into a file that imports neither");
        violations.push(TidyViolation::new(&module.file, 1, text));
        reported.extend(modules.keys().filter(|other| circle.contains(other)));
    }
    violations
}

/// The shortest way from a file over its imports back to itself.
fn way_back(imports: &BTreeMap<&Path, BTreeSet<Path>>, start: &Path) -> Option<Vec<Path>> {
    let mut ways = VecDeque::from([vec![start.clone()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in way.last().and_then(|last| imports.get(last)).into_iter().flatten() {
            let longer = [way.as_slice(), std::slice::from_ref(next)].concat();
            if next == start {
                return Some(longer);
            }
            if seen.insert(next.clone()) {
                ways.push_back(longer);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::rules::testing::file;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(path, text)| file(&format!("crates/x/src/{path}"), text)).collect();
        check(&files).into_iter().map(|violation| violation.text).collect()
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        for (a, b) in [
            ("use crate::b::B;", "use crate::a::A;"),
            ("use crate::{\n    b::{B, C},\n};", "use super::a::A as Other;"),
            ("fn f() { crate::b::g() }", "use crate::a;"),
            // By a re-export of the root.
            ("use crate::B;", "use crate::A;"),
        ] {
            let root = "mod a;\nmod b;\npub use a::A;\npub use b::B;\n";
            let circles = found(&[("lib.rs", root), ("a.rs", a), ("b.rs", b)]);
            assert_eq!(circles.len(), 1, "{a} {b}: {circles:?}");
            assert!(circles[0].contains("crates/x/src/a.rs -> crates/x/src/b.rs -> crates/x/src/a.rs"), "{circles:?}");
        }
    }

    #[test]
    fn one_way_is_no_circle() {
        for (a, b) in [
            ("use crate::b::B;", "use super::c::C;"),
            ("use crate::b::B;", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
            ("use crate::b::B;", "// use crate::a::A;\nuse other::a::A;"),
        ] {
            let root = "mod a;\nmod b;\nmod c;\npub use a::A;\n";
            assert_eq!(
                found(&[("lib.rs", root), ("a.rs", a), ("b.rs", b), ("c.rs", "")]),
                Vec::<String>::new(),
                "{a} {b}"
            );
        }
    }

    #[test]
    fn what_a_folder_defines_for_its_own_files_is_no_circle() {
        let folder =
            [("lib.rs", "mod m;"), ("m/mod.rs", "mod a;\nuse self::a::A;\nstruct S;"), ("m/a.rs", "use super::S;")];
        assert_eq!(found(&folder), Vec::<String>::new());
        // Through another folder it is one.
        let folders = [
            ("lib.rs", "mod m;\nmod n;"),
            ("m/mod.rs", "mod a;\npub struct S;\nfn f() { a::f() }"),
            ("m/a.rs", "use crate::n::N;"),
            ("n.rs", "use crate::m::S;"),
        ];
        assert_eq!(found(&folders).len(), 1);
    }
}
