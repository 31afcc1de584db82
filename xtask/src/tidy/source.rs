//! The files of the repository as the rules see them.

use std::{fs, path::Path};

use anyhow::Context;

use super::lexer::{self, Literal};

/// A text file.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// Path from the root of the repository, with `/`.
    pub path: String,
    /// Content.
    pub text: String,
}

impl TextFile {
    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The file as Rust, if that is what it is.
    pub fn rust(&self) -> Option<RustFile<'_>> {
        self.path.ends_with(".rs").then(|| RustFile::new(self))
    }
}

/// A Rust file in its parts.
#[derive(Clone, Debug)]
pub struct RustFile<'a> {
    /// The file.
    pub file: &'a TextFile,
    /// Every line of code, with comments and literals blanked.
    code: Vec<String>,
    /// The string literals that are no test's.
    pub literals: Vec<Literal>,
    /// For every line whether it belongs to a test.
    in_test: Vec<bool>,
}

impl<'a> RustFile<'a> {
    fn new(file: &'a TextFile) -> Self {
        let (code, literals) = lexer::split(&file.text);
        let code: Vec<String> = code.lines().map(str::to_owned).collect();
        let in_test = if is_test_file(file) { vec![true; code.len()] } else { test_lines(&code) };
        let outside = |literal: &Literal| !in_test.get(literal.line - 1).copied().unwrap_or(false);
        let literals = literals.into_iter().filter(outside).collect();
        Self { file, code, literals, in_test }
    }

    /// The lines that are no test's, with their numbers from 1.
    pub fn product_code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.code.iter().zip(&self.in_test).enumerate();
        lines.filter(|(_, (_, in_test))| !**in_test).map(|(index, (line, _))| (index + 1, line.as_str()))
    }

    /// Number of lines: tests count if the whole file is a test.
    pub fn length(&self) -> usize {
        if self.is_test() { self.code.len() } else { self.product_code().count() }
    }

    /// Whether all of it is a test.
    pub fn is_test(&self) -> bool {
        is_test_file(self.file)
    }
}

fn is_test_file(file: &TextFile) -> bool {
    let name = file.name();
    ["tests.rs", "fixtures.rs"].contains(&name)
        || name.ends_with("_tests.rs")
        || file.path.split('/').any(|part| part == "tests" || part.ends_with("_tests"))
}

/// Marks the items under `#[cfg(test)]`.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut marks = vec![false; code.len()];
    let mut index = 0;
    while let Some(line) = code.get(index) {
        let is_test = line.trim_start().starts_with("#[cfg(test)]");
        let end = if is_test { item_end(code, index).unwrap_or(index) } else { index };
        if is_test {
            marks.iter_mut().take(end + 1).skip(index).for_each(|mark| *mark = true);
        }
        index = end + 1;
    }
    marks
}

/// Index of the line on which the item that starts on line `start` ends: at the brace that closes its body, or at a
/// semicolon if it has none. Brackets and parentheses may hold semicolons.
fn item_end(code: &[String], start: usize) -> Option<usize> {
    let (mut braces, mut others) = (0_i32, 0_i32);
    for (index, line) in code.iter().enumerate().skip(start) {
        for c in line.chars() {
            match c {
                '{' => braces += 1,
                '}' => braces -= 1,
                '(' | '[' => others += 1,
                ')' | ']' => others -= 1,
                _ => {}
            }
            if (c == '}' && braces == 0) || (c == ';' && braces == 0 && others == 0) {
                return Some(index);
            }
        }
    }
    None
}

/// Reads every text file under `root`, in the order of paths, without what `.gitignore` names.
///
/// # Errors
/// A directory or file cannot be read.
pub fn read_all(root: &Path) -> anyhow::Result<Vec<TextFile>> {
    let mut files = Vec::new();
    read_dir(root, "", &[".git".to_owned()], &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Each `.gitignore` names files and folders by their path from where it is; patterns are not understood.
fn read_dir(root: &Path, dir: &str, skip: &[String], files: &mut Vec<TextFile>) -> anyhow::Result<()> {
    let full = root.join(dir);
    let within = |name: &str| if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
    let ignored = fs::read_to_string(full.join(".gitignore")).unwrap_or_default();
    let own = ignored.lines().map(|line| within(line.trim_matches('/')));
    let skip: Vec<String> = skip.iter().cloned().chain(own).collect();
    for entry in fs::read_dir(&full).with_context(|| format!("cannot read {}", full.display()))? {
        let entry = entry.with_context(|| format!("cannot read {}", full.display()))?;
        let path = within(&entry.file_name().to_string_lossy());
        let kind = entry.file_type().with_context(|| format!("cannot look at {path}"))?;
        if skip.contains(&path) {
            continue;
        }
        if kind.is_dir() {
            read_dir(root, &path, &skip, files)?;
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
            // What is not UTF-8 is an image or the like.
            files.extend(String::from_utf8(bytes).ok().map(|text| TextFile { path, text }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product_lines(path: &str, text: &str) -> Vec<usize> {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        file.rust().unwrap().product_code().map(|(line, _)| line).collect()
    }

    #[test]
    fn test_modules_are_distinguished_from_the_rest() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        assert_eq!(product_lines("crates/x/src/lib.rs", text), [1, 6]);
        let text = "fn a() {}\n#[cfg(test)]\n#[path = \"x_tests.rs\"]\nmod tests;\nfn c() {}\n";
        assert_eq!(product_lines("crates/x/src/lib.rs", text), [1, 5]);
        let text = "const A: [u8; 1] = [1];\n#[cfg(test)]\nconst B: [u8; 1] = [1];\nfn c() {}\n";
        assert_eq!(product_lines("crates/x/src/lib.rs", text), [1, 4]);
    }

    #[test]
    fn test_files_are_known_by_their_path() {
        for path in [
            "crates/x/src/a/tests.rs",
            "crates/x/src/a_tests.rs",
            "crates/x/src/a_tests/mod.rs",
            "crates/x/src/fixtures.rs",
            "crates/x/tests/c/mod.rs",
        ] {
            assert!(product_lines(path, "fn a() {}\n").is_empty(), "{path}");
        }
        assert_eq!(product_lines("crates/x/src/contests.rs", "fn a() {}\n"), [1]);
    }

    #[test]
    fn what_git_ignores_is_left_out() {
        let root = std::env::temp_dir().join(format!("tidy-{}", std::process::id()));
        for dir in ["src", "target", ".git", ".ci", "fuzz", "fuzz/target", "fuzz/src/target"] {
            fs::create_dir_all(root.join(dir)).unwrap();
            fs::write(root.join(dir).join("file"), "x").unwrap();
        }
        fs::write(root.join(".gitignore"), "/target\n").unwrap();
        fs::write(root.join("fuzz/.gitignore"), "target\n").unwrap();
        fs::write(root.join("picture.png"), [0xff, 0xfe]).unwrap();
        let paths: Vec<String> = read_all(&root).unwrap().into_iter().map(|file| file.path).collect();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(
            paths,
            [".ci/file", ".gitignore", "fuzz/.gitignore", "fuzz/file", "fuzz/src/target/file", "src/file"]
        );
    }
}
