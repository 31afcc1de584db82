//! Notices edits, by looking at the times of the source files now and then.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The source files of the crates.
#[derive(Debug)]
pub struct Sources {
    root: PathBuf,
    built: Times,
    last: Times,
}

type Times = BTreeMap<PathBuf, SystemTime>;

impl Sources {
    /// Starts with the files as they are.
    pub fn of_crates() -> Self {
        Self::below(repository::root().join("crates"))
    }

    fn below(root: PathBuf) -> Self {
        let times = times(&root);
        Self { root, built: times.clone(), last: times }
    }

    /// Whether files were changed since this last said so. Waits for the end of a series of changes: the files must be
    /// the same as at the last look.
    pub fn have_changed(&mut self) -> bool {
        let now = times(&self.root);
        let at_rest = now == self.last;
        self.last = now;
        let changed = at_rest && self.last != self.built;
        if changed {
            self.built.clone_from(&self.last);
        }
        changed
    }
}

fn times(root: &Path) -> Times {
    let mut found = Times::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        // A folder may go away while we look.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(data) = entry.metadata() else { continue };
            let path = entry.path();
            if data.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "toml")
                && let Ok(time) = data.modified()
            {
                found.insert(path, time);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_change_is_reported_once_after_a_quiet_time() {
        let root = std::env::temp_dir().join(format!("sources-{}", std::process::id()));
        fs::create_dir_all(root.join("src")).unwrap();
        let file = root.join("src/a.rs");
        fs::write(&file, "").unwrap();
        let mut sources = Sources::below(root.clone());
        assert!(!sources.have_changed());
        let later = SystemTime::now() + Duration::from_secs(1);
        fs::File::open(&file).unwrap().set_modified(later).unwrap();
        assert!(!sources.have_changed(), "the editor may still be writing");
        assert!(sources.have_changed());
        assert!(!sources.have_changed());
        fs::write(root.join("notes.txt"), "").unwrap();
        assert!(!sources.have_changed() && !sources.have_changed(), "not a source file");
        fs::remove_dir_all(&root).unwrap();
    }
}
