//! CustomResourceDefinitions of the product.

use std::path::Path;

use serde_json::Value;

/// Those of our own kinds.
pub fn own() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let own = files.filter(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    own.map(|path| read(&path)).collect()
}

/// One file.
pub fn read(path: &Path) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
