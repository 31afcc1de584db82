//! Versions in which objects are stored, according to a definition, and the work that results from them.

use std::fmt;

use anyhow::{Context, bail};
use api_types::annotations;
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, CustomResourceDefinitionVersion, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry},
};
use kube::{ResourceExt, core::Version};
use serde_json::json;

/// Of a Service that converts, where the definition gives none.
const DEFAULT_PORT: i32 = 443;

/// Release of the operator. Releases that differ in their pre-release or build only are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release([u64; 3]);

impl Release {
    /// Reads `MAJOR.MINOR.PATCH`.
    fn read(text: &str) -> Option<Self> {
        let numbers = text.split(['-', '+']).next()?;
        let numbers: Option<Vec<u64>> = numbers.split('.').map(|number| number.parse().ok()).collect();
        numbers?.try_into().ok().map(Self)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([major, minor, patch]) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// The release that a definition comes from, if it is newer than that of `ours`. Its schemas have fields that ours
/// would remove from objects.
pub(crate) fn newer_release(live: &CustomResourceDefinition, ours: &CustomResourceDefinition) -> Option<Release> {
    let release =
        |crd: &CustomResourceDefinition| Release::read(crd.annotations().get(annotations::DEFINITION_RELEASE)?);
    release(live).filter(|live| release(ours).is_some_and(|ours| *live > ours))
}

/// Fails if a definition comes from a newer release than ours, or its objects are stored in a newer version.
pub(crate) fn refuse_older(live: &CustomResourceDefinition, ours: &CustomResourceDefinition) -> anyhow::Result<()> {
    if let Some(newer) = newer_release(live, ours) {
        bail!(
            "{} is of release {newer}, and this program is older. The definition was not changed. Use the program of that \
             release, or remove the annotation {} to go back",
            live.name_any(),
            annotations::DEFINITION_RELEASE
        );
    }
    refuse_downgrade(live, ours)
}

/// Field manager of the latest write of a definition.
pub(crate) fn last_writer(live: &CustomResourceDefinition) -> Option<&str> {
    let writes = live.metadata.managed_fields.as_deref().unwrap_or_default().iter();
    let writes = writes.filter(|entry| entry.subresource.as_deref().unwrap_or_default().is_empty());
    writes.max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?.manager.as_deref()
}

/// Fails if objects are stored in a newer version than ours: whatever only that version can say would be lost.
pub(crate) fn refuse_downgrade(live: &CustomResourceDefinition, ours: &CustomResourceDefinition) -> anyhow::Result<()> {
    let storage = |crd: &CustomResourceDefinition| {
        let version = crd.spec.versions.iter().find(|version| version.storage);
        version.map(|version| version.name.clone()).unwrap_or_default()
    };
    let (live_version, our_version) = (storage(live), storage(ours));
    let priority = |version: &str| Version::parse(version).priority();
    if priority(&live_version) > priority(&our_version) {
        bail!(
            "{} stores its objects in {live_version}; this program would store them in {our_version}, which is older. \
             The definition was not changed. Use the program of the release that installed the definition, or of a newer one",
            live.name_any()
        );
    }
    Ok(())
}

/// `ours` with the versions that only the live definition has: others read objects in them, or stored them. They are
/// one list of which an apply replaces the whole. New objects are stored in the version of `ours`.
pub(crate) fn with_versions_of(
    ours: &CustomResourceDefinition,
    live: &CustomResourceDefinition,
) -> CustomResourceDefinition {
    let mut all = ours.clone();
    for version in &live.spec.versions {
        if !ours.spec.versions.iter().any(|known| known.name == version.name) {
            all.spec.versions.push(CustomResourceDefinitionVersion { storage: false, ..version.clone() });
        }
    }
    all
}

/// Lets `ours`, if it is converted at all, be converted where the live definition is. The CA bundle stays with its
/// owner.
pub(crate) fn keep_converter(ours: &mut CustomResourceDefinition, live: &CustomResourceDefinition) {
    fn client(crd: &CustomResourceDefinition) -> Option<&WebhookClientConfig> {
        crd.spec.conversion.as_ref()?.webhook.as_ref()?.client_config.as_ref()
    }
    let Some(mut kept) = client(live).filter(|kept| kept.service.is_some() || kept.url.is_some()).cloned() else {
        return;
    };
    kept.ca_bundle = None;
    if let Some(service) = kept.service.as_mut().filter(|service| service.port == Some(DEFAULT_PORT)) {
        // The default of an object without one.
        service.port = None;
    }
    if let Some(webhook) = ours.spec.conversion.as_mut().and_then(|conversion| conversion.webhook.as_mut()) {
        webhook.client_config = Some(kept);
    }
}

/// Work on the objects of a definition.
#[derive(Debug, PartialEq)]
pub(crate) struct Work {
    /// `group/version` in which they are stored today.
    pub storage: String,
    /// The version alone.
    pub storage_version: String,
    /// Every `group/version` in which they can be read.
    pub served: Vec<String>,
    /// Some may be stored in another version.
    pub rewrite: bool,
    /// Whether they have a status of their own.
    pub status: bool,
    /// Generation of the definition for which this holds.
    pub generation: i64,
}

/// Returns the work to be done; none if it was done for this generation of the definition.
pub(crate) fn work(crd: &CustomResourceDefinition) -> anyhow::Result<Option<Work>> {
    let Some(version) = crd.spec.versions.iter().find(|version| version.storage) else {
        bail!("no version is the one that is stored");
    };
    let stored = crd.status.as_ref().and_then(|status| status.stored_versions.as_deref()).unwrap_or_default();
    let generation = crd.metadata.generation.context("the definition has no generation")?;
    let rewrite = *stored != [version.name.clone()];
    let seen = crd.annotations().get(annotations::MIGRATED_GENERATION).is_some_and(|g| *g == generation.to_string());
    if seen && !rewrite {
        return Ok(None);
    }
    let in_group = |version: &str| format!("{}/{version}", crd.spec.group);
    Ok(Some(Work {
        storage: in_group(&version.name),
        storage_version: version.name.clone(),
        served: crd.spec.versions.iter().filter(|version| version.served).map(|v| in_group(&v.name)).collect(),
        rewrite,
        status: version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some()),
        generation,
    }))
}

impl Work {
    /// The managed fields of an object without those of versions that are not served any more, in which no client could
    /// merge them; none if there are no such fields. They are never empty: the API server would take that as one to
    /// begin anew.
    pub fn kept(&self, managed: &[ManagedFieldsEntry], manager: &str) -> Option<Vec<ManagedFieldsEntry>> {
        let is_kept = |entry: &&ManagedFieldsEntry| {
            entry.api_version.as_ref().is_none_or(|version| self.served.contains(version))
        };
        let mut kept: Vec<_> = managed.iter().filter(is_kept).cloned().collect();
        if kept.len() == managed.len() {
            return None;
        }
        if kept.is_empty() {
            kept.push(ManagedFieldsEntry {
                api_version: Some(self.storage.clone()),
                fields_type: Some("FieldsV1".to_owned()),
                fields_v1: Some(FieldsV1(json!({ "f:metadata": { "f:name": {} } }))),
                manager: Some(manager.to_owned()),
                operation: Some("Apply".to_owned()),
                ..ManagedFieldsEntry::default()
            });
        }
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A definition whose versions are served or not; the last one is stored.
    fn crd(versions: &[(&str, bool)], stored: &[&str], migrated: Option<&str>) -> CustomResourceDefinition {
        let last = versions.len() - 1;
        let version = |(index, (name, served)): (usize, &(&str, bool))| json!({ "name": name, "served": served, "storage": index == last });
        serde_json::from_value(json!({
            "metadata": {
                "name": "x", "generation": 3,
                "annotations": migrated.map(|generation| json!({ annotations::MIGRATED_GENERATION: generation })),
            },
            "spec": {
                "group": "g", "names": { "kind": "K", "plural": "ks" }, "scope": "Namespaced",
                "versions": versions.iter().enumerate().map(version).collect::<Vec<_>>(),
            },
            "status": { "storedVersions": stored },
        }))
        .unwrap()
    }

    #[test]
    fn releases_are_compared_as_numbers() {
        let of = |release: Option<&str>| {
            let mut crd = crd(&[("v1", true)], &["v1"], None);
            crd.metadata.annotations =
                release.map(|release| [(annotations::DEFINITION_RELEASE.to_owned(), release.to_owned())].into());
            crd
        };
        for (live, ours, newer) in [
            (Some("0.10.0"), "0.9.9", Some([0, 10, 0])),
            (Some("1.0.0-rc.1"), "0.9.9", Some([1, 0, 0])),
            (Some("1.0.0-rc.1"), "1.0.0", None),
            (Some("1.0.0"), "1.0.0", None),
            (Some("0.9.9"), "0.10.0", None),
            (Some("latest"), "0.1.0", None),
            (Some("1.0"), "0.1.0", None),
            (None, "0.1.0", None),
        ] {
            assert_eq!(newer_release(&of(live), &of(Some(ours))), newer.map(Release), "{live:?} {ours}");
        }
    }

    #[test]
    fn the_last_writer_is_that_of_the_latest_write_beside_the_status() {
        let mut live = crd(&[("v1", true)], &["v1"], None);
        assert_eq!(last_writer(&live), None);
        let entry = |manager: &str, minute: u32, subresource: &str| json!({ "manager": manager, "time": format!("2026-01-01T00:{minute:02}:00Z"), "subresource": subresource });
        let entries = json!([entry("a", 1, ""), entry("b", 3, ""), entry("c", 2, ""), entry("d", 9, "status")]);
        live.metadata.managed_fields = Some(serde_json::from_value(entries).unwrap());
        assert_eq!(last_writer(&live), Some("b"));
    }

    #[test]
    fn objects_are_rewritten_while_another_version_may_be_stored() {
        let both = [("v1alpha1", true), ("v1beta1", true)];
        for (stored, migrated, rewrite) in [
            (&["v1alpha1", "v1beta1"][..], None, Some(true)),
            (&["v1alpha1", "v1beta1"], Some("3"), Some(true)),
            (&["v1alpha1"], None, Some(true)),
            (&["v1beta1"], None, Some(false)),
            (&["v1beta1"], Some("2"), Some(false)),
            (&["v1beta1"], Some("3"), None),
        ] {
            let found = work(&crd(&both, stored, migrated)).unwrap();
            assert_eq!(found.map(|work| work.rewrite), rewrite, "{stored:?} {migrated:?}");
        }
    }

    #[test]
    fn only_fields_of_served_versions_are_kept() {
        let work = work(&crd(&[("v1alpha1", false), ("v1beta1", true)], &["v1beta1"], None)).unwrap().unwrap();
        let entry = |version: &str| ManagedFieldsEntry {
            api_version: Some(format!("g/{version}")),
            manager: Some("m".to_owned()),
            ..ManagedFieldsEntry::default()
        };
        assert_eq!(work.kept(&[entry("v1beta1")], "us"), None);
        assert_eq!(work.kept(&[], "us"), None);
        assert_eq!(work.kept(&[entry("v1alpha1"), entry("v1beta1")], "us"), Some(vec![entry("v1beta1")]));
        let seeded = work.kept(&[entry("v1alpha1")], "us").unwrap();
        assert_eq!((seeded.len(), seeded[0].api_version.as_deref()), (1, Some("g/v1beta1")));
        assert_eq!(seeded[0].manager.as_deref(), Some("us"));
    }
}
