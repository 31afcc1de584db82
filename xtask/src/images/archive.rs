//! An image as one archive: an OCI layout, and the list that docker looks for.

use std::{collections::BTreeMap, fmt::Write as _, fs, io::Write as _, path::Path};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType};

use super::{
    build::Arch,
    layer::{USER, put},
};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// An image for one or more architectures.
#[derive(Default)]
pub(super) struct Image {
    program: String,
    reference: String,
    /// Arguments that the program always gets.
    args: Vec<String>,
    blobs: BTreeMap<String, Vec<u8>>,
    manifests: Vec<Value>,
    /// Content of docker's own list: configuration and layers.
    docker: Vec<Value>,
}

impl Image {
    pub(super) fn new(program: &str, reference: &str) -> Self {
        Self { program: program.to_owned(), reference: reference.to_owned(), ..Self::default() }
    }

    /// The same image, whose program always gets these arguments first.
    pub(super) fn with_args(self, args: &[&str]) -> Self {
        Self { args: args.iter().map(|&arg| arg.to_owned()).collect(), ..self }
    }

    pub(super) fn program(&self) -> &str {
        &self.program
    }

    /// Name and tag.
    pub(super) fn reference(&self) -> &str {
        &self.reference
    }

    /// Adds what the image is on one architecture: one layer.
    pub(super) fn add(&mut self, arch: Arch, layer: &[u8]) -> Result<()> {
        let diff = digest(layer);
        // No name and no time in the header.
        let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
        gzip.write_all(layer)?;
        let layer = blob(&mut self.blobs, gzip.finish()?, LAYER);
        let entrypoint: Vec<String> = [format!("/{}", self.program)].into_iter().chain(self.args.clone()).collect();
        let config = json!({
            "architecture": arch.as_str(),
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": { "User": USER, "Entrypoint": entrypoint, "WorkingDir": "/" },
            "rootfs": { "type": "layers", "diff_ids": [diff] },
        });
        let config = blob(&mut self.blobs, serde_json::to_vec(&config)?, CONFIG);
        self.docker.push(json!({
            "Config": path_of(&config),
            "RepoTags": [self.reference],
            "Layers": [path_of(&layer)],
        }));
        let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] });
        let mut manifest = blob(&mut self.blobs, serde_json::to_vec(&manifest)?, MANIFEST);
        manifest["platform"] = json!({ "architecture": arch.as_str(), "os": "linux" });
        self.manifests.push(manifest);
        Ok(())
    }

    /// Writes the archive. Returns its size in bytes.
    pub(super) fn write(&self, path: &Path) -> Result<usize> {
        let mut tar = Builder::new(Vec::new());
        for (name, content) in self.layout()? {
            put(&mut tar, &name, EntryType::Regular, 0o644, &content);
        }
        // Docker's list holds one architecture.
        let first = serde_json::to_vec(&self.docker.iter().take(1).collect::<Vec<_>>())?;
        put(&mut tar, "manifest.json", EntryType::Regular, 0o644, &first);
        let bytes = tar.into_inner()?;
        fs::write(path, &bytes).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(bytes.len())
    }

    /// Files of the OCI layout, by path.
    pub(super) fn layout(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let mut blobs = self.blobs.clone();
        let mut image = match self.manifests.as_slice() {
            [one] => one.clone(),
            several => {
                let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": several });
                blob(&mut blobs, serde_json::to_vec(&index)?, INDEX)
            }
        };
        let tag = self.reference.rsplit_once(':').map_or("latest", |(_, tag)| tag);
        image["annotations"] = json!({
            "io.containerd.image.name": full_name(&self.reference),
            "org.opencontainers.image.ref.name": tag,
        });
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [image] });
        let blobs = blobs.into_iter().map(|(digest, content)| (blob_path(&digest), content));
        let head = [
            ("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
            ("index.json".to_owned(), serde_json::to_vec(&index)?),
        ];
        Ok(head.into_iter().chain(blobs).collect())
    }
}

/// Adds a blob. Returns its descriptor.
fn blob(blobs: &mut BTreeMap<String, Vec<u8>>, content: Vec<u8>, kind: &str) -> Value {
    let (digest, size) = (digest(&content), content.len());
    blobs.insert(digest.clone(), content);
    json!({ "mediaType": kind, "digest": digest, "size": size })
}

/// The name with the registry that is meant where none is written, as containerd requires it.
fn full_name(reference: &str) -> String {
    let (first, rest) = reference.split_once('/').unwrap_or(("library", reference));
    let names_a_host = first.contains(['.', ':']) || first == "localhost";
    if names_a_host { reference.to_owned() } else { format!("docker.io/{first}/{rest}") }
}

fn path_of(descriptor: &Value) -> String {
    blob_path(descriptor["digest"].as_str().unwrap_or_default())
}

fn blob_path(digest: &str) -> String {
    format!("blobs/sha256/{}", digest.trim_start_matches("sha256:"))
}

fn digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().fold("sha256:".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io::Read};

    use serde_json::Value;

    use super::{
        super::{build::Arch, layer},
        Image, digest, full_name,
    };

    fn archive(arches: &[Arch]) -> BTreeMap<String, Vec<u8>> {
        let mut image = Image::new("graph-controller", "team/graph-controller:1");
        for arch in arches {
            image.add(*arch, &layer::files("graph-controller", b"a program", None)).unwrap();
        }
        let path = std::env::temp_dir().join(format!("image-{}-{}.tar", std::process::id(), arches.len()));
        image.write(&path).unwrap();
        let mut tar = tar::Archive::new(std::fs::File::open(&path).unwrap());
        let files = tar.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().display().to_string(), content)
        });
        let files = files.collect();
        std::fs::remove_file(path).unwrap();
        files
    }

    fn json(files: &BTreeMap<String, Vec<u8>>, path: &str) -> Value {
        serde_json::from_slice(&files[path]).unwrap()
    }

    fn follow(files: &BTreeMap<String, Vec<u8>>, descriptor: &Value) -> Vec<u8> {
        let name = descriptor["digest"].as_str().unwrap();
        let content = files[&format!("blobs/sha256/{}", &name["sha256:".len()..])].clone();
        assert_eq!((digest(&content).as_str(), content.len() as u64), (name, descriptor["size"].as_u64().unwrap()));
        content
    }

    #[test]
    fn every_descriptor_leads_to_its_content() {
        let files = archive(&[Arch::Amd64, Arch::Arm64]);
        let index: Value =
            serde_json::from_slice(&follow(&files, &json(&files, "index.json")["manifests"][0])).unwrap();
        let manifests = index["manifests"].as_array().unwrap();
        assert_eq!(manifests.len(), 2);
        for manifest in manifests {
            let content: Value = serde_json::from_slice(&follow(&files, manifest)).unwrap();
            let config: Value = serde_json::from_slice(&follow(&files, &content["config"])).unwrap();
            assert_eq!(config["architecture"], manifest["platform"]["architecture"]);
            assert_eq!(config["config"]["User"], "65532:65532");
            let mut layer = Vec::new();
            let packed = follow(&files, &content["layers"][0]);
            flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut layer).unwrap();
            assert_eq!(config["rootfs"]["diff_ids"][0], digest(&layer));
        }
    }

    #[test]
    fn docker_finds_configuration_and_layer() {
        let files = archive(&[Arch::Amd64]);
        let list = json(&files, "manifest.json");
        assert_eq!(list[0]["RepoTags"][0], "team/graph-controller:1");
        for path in [&list[0]["Config"], &list[0]["Layers"][0]] {
            assert!(files.contains_key(path.as_str().unwrap()), "{path}");
        }
    }

    #[test]
    fn containerd_gets_the_whole_name() {
        for (reference, full) in [
            ("team/x:1", "docker.io/team/x:1"),
            ("x:1", "docker.io/library/x:1"),
            ("localhost:5000/x:1", "localhost:5000/x:1"),
            ("example.com/team/x:1", "example.com/team/x:1"),
        ] {
            assert_eq!(full_name(reference), full);
        }
    }
}
