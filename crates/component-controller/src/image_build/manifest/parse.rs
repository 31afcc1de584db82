//! Finds the manifest in an archive, and parses it. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufRead, BufReader, Read},
};

use api_types::v1alpha1::{ArchiveManifest, ManifestService};
use controller_kit::yaml;
use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;
use serde_json::{Number, Value};
use tar::Archive;

/// Most bytes of an archive that are read, unpacked.
const MAX_BYTES: u64 = 64 << 20;
/// Most entries that are read.
const MAX_ENTRIES: usize = 10_000;
/// Longest manifest.
const MAX_MANIFEST: u64 = 256 << 10;
/// Most services of a manifest: as many as a graph may have.
const MAX_SERVICES: usize = 25;
/// Longest name of a service.
const MAX_NAME: usize = 63;
/// Longest tag.
const MAX_TAG: usize = 253;
/// Names of the manifest; the second is older.
const NAMES: [&str; 2] = ["dynamo.yaml", "bento.yaml"];
/// First bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reason why an archive gives no manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It is no tar file.
    #[error("it cannot be read as a tar file: {0}")]
    Archive(#[from] io::Error),
    /// It has no manifest, or not where it is looked for.
    #[error(
        "neither dynamo.yaml nor bento.yaml is at its root, among its first {MAX_ENTRIES} entries and 64 MiB; build it by \
         `dynamo build`, or set dynamoTag for each service of the graph"
    )]
    Missing,
    /// The manifest is too long.
    #[error("{0} is longer than 256 KiB")]
    TooLong(&'static str),
    /// The manifest is not as it should be.
    #[error("{0}")]
    Invalid(String),
}

/// Reads the manifest of an archive, which may be compressed with gzip.
///
/// # Errors
/// The reason why there is none.
pub fn read(archive: impl Read) -> Result<ArchiveManifest, ManifestError> {
    let mut archive = BufReader::new(archive);
    if archive.fill_buf()?.starts_with(&GZIP) {
        return find(MultiGzDecoder::new(archive));
    }
    find(archive)
}

fn find(archive: impl Read) -> Result<ArchiveManifest, ManifestError> {
    let mut archive = Archive::new(archive.take(MAX_BYTES));
    // Long names and extended headers, which may be of any length, are not interpreted.
    for entry in archive.entries()?.raw(true).take(MAX_ENTRIES) {
        let entry = entry?;
        let Some(name) = manifest_name(&entry.path_bytes()) else { continue };
        if !entry.header().entry_type().is_file() {
            continue;
        }
        if entry.size() > MAX_MANIFEST {
            return Err(ManifestError::TooLong(name));
        }
        let mut text = String::new();
        entry.take(MAX_MANIFEST).read_to_string(&mut text)?;
        return parse(&text).map_err(|error| ManifestError::Invalid(format!("{name}: {error}")));
    }
    Err(ManifestError::Missing)
}

fn manifest_name(path: &[u8]) -> Option<&'static str> {
    let path = path.strip_prefix(b"./").unwrap_or(path);
    NAMES.into_iter().find(|name| name.as_bytes() == path)
}

/// Parses a manifest.
///
/// # Errors
/// The first violation.
pub fn parse(text: &str) -> Result<ArchiveManifest, String> {
    let value = yaml::read(text).map_err(|error| error.to_string())?;
    let manifest: Manifest = serde_json::from_value(value).map_err(|error| error.to_string())?;
    if manifest.service.is_empty() || manifest.service.len() > MAX_TAG || manifest.service.contains(char::is_whitespace)
    {
        return Err("service is not of the form module:Service".to_owned());
    }
    let services = manifest.services.unwrap_or_default();
    if services.is_empty() || services.len() > MAX_SERVICES {
        return Err(format!("services has {} entries; 1 to {MAX_SERVICES} are allowed", services.len()));
    }
    let mut names = BTreeSet::new();
    for ServiceEntry { name, config } in &services {
        let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_legal) {
            return Err(format!("services: {name:?} is no name of a service"));
        }
        if !names.insert(name.to_lowercase()) {
            return Err(format!("services: {name} is there twice"));
        }
        if config.as_ref().and_then(|config| config.workers).is_some_and(|workers| workers < 0) {
            return Err(format!("services: workers of {name} is negative"));
        }
    }
    Ok(ArchiveManifest {
        dynamo_tag: manifest.service,
        services: services.into_iter().map(ServiceEntry::into_manifest).collect(),
    })
}

#[derive(Deserialize)]
struct Manifest {
    service: String,
    services: Option<Vec<ServiceEntry>>,
}

#[derive(Deserialize)]
struct ServiceEntry {
    name: String,
    config: Option<ManifestConfig>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ManifestConfig {
    dynamo: Option<Dynamo>,
    resources: Option<ManifestResources>,
    workers: Option<i32>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Dynamo {
    component_type: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ManifestResources {
    cpu: Option<Amount>,
    memory: Option<Amount>,
    gpu: Option<Amount>,
    custom: Option<BTreeMap<String, Value>>,
}

/// A quantity, which YAML may read as a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Amount {
    Text(String),
    Number(Number),
}

impl Amount {
    fn into_text(self) -> Option<String> {
        let text = match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
        };
        Some(text).filter(|text| !text.is_empty())
    }
}

impl ServiceEntry {
    fn into_manifest(self) -> ManifestService {
        let ManifestConfig { dynamo, resources, workers } = self.config.unwrap_or_default();
        let ManifestResources { cpu, memory, gpu, custom } = resources.unwrap_or_default();
        let known = [("cpu", cpu), ("memory", memory), (api_types::GPU, gpu)].into_iter();
        let known = known.filter_map(|(name, amount)| Some((name.to_owned(), amount?.into_text()?)));
        let custom = custom.into_iter().flatten().filter_map(|(name, amount)| {
            let amount: Amount = serde_json::from_value(amount).ok()?;
            Some((name, amount.into_text()?))
        });
        ManifestService {
            name: self.name,
            component_type: dynamo.and_then(|dynamo| dynamo.component_type).filter(|type_| !type_.is_empty()),
            workers,
            resources: known.chain(custom).collect(),
        }
    }
}
