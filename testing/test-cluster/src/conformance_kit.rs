//! Location of the conformance kit: the results of the reference for real graphs. It is not part of the repository.

use std::path::{Path, PathBuf};

/// Environment variable that names the kit's folder.
pub const CONFORMANCE_KIT_ENV: &str = "DYNAMO_CONFORMANCE_DIR";

/// The kit's folder, with `input` and `expected`: at `DYNAMO_CONFORMANCE_DIR`, else `../shared/conformance` beside the
/// repository. Where there is none, that is said, for tests to skip what needs it.
#[must_use]
pub fn conformance_kit() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    let named = std::env::var_os(CONFORMANCE_KIT_ENV).filter(|value| !value.is_empty());
    let kit = named.map_or(beside, PathBuf::from);
    if kit.join("input").is_dir() && kit.join("expected").is_dir() {
        return Some(kit);
    }
    println!("skipped: no conformance kit in {}; {CONFORMANCE_KIT_ENV} names the folder that holds it", kit.display());
    None
}
