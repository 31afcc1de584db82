//! The conversion of every kind and part.
//!
//! Each version of a kind is a [`Side`] that projects its objects to the other version. A projection loses what the
//! other version cannot express. The lost data is saved with the target and put back on the way back, as long as it
//! stays invisible: projecting the object with the saved data must give the live object. Saved data can therefore never
//! undo an edit. An object without edits comes back exactly: where the projection alone cannot ensure that, a seal of
//! the target is saved, too.
//!
//! # Example
//!
//! v1beta1 has no `ingress`, and one `sharedMemorySize` in place of two fields. A component in v1alpha1:
//!
//! ```json
//! { "replicas": 1, "ingress": { "enabled": true, "host": "h" }, "sharedMemory": { "disabled": true, "size": "1Gi" } }
//! ```
//!
//! To v1beta1 ([`convert_part`] without saved data):
//!
//! | step | value |
//! |---|---|
//! | `project` (the target) | `{ "replicas": 1, "sharedMemorySize": "0" }` |
//! | `project` back (`rebuilt`) | `{ "replicas": 1, "sharedMemory": { "disabled": true, "size": "0" } }` |
//! | `save`, the groups in which `rebuilt` differs from the source | `ingress` and `sharedMemory`, both whole |
//!
//! A user edits the v1beta1 object: `"replicas": 2, "sharedMemorySize": "2Gi"`. Back to v1alpha1 (`restore`):
//!
//! | step | value |
//! |---|---|
//! | `project` (`bare`) | `{ "replicas": 2, "sharedMemory": { "size": "2Gi" } }` |
//! | edit `ingress`, projected | equals the live object: invisible, kept |
//! | edit `sharedMemory`, projected | `"sharedMemorySize": "0"` in place of `"2Gi"`: visible, dropped |
//! | the target | `{ "replicas": 2, "ingress": { "enabled": true, "host": "h" }, "sharedMemory": { "size": "2Gi" } }` |
//!
//! `the_example_of_the_lens` runs it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    ApiVersion,
    residue::{Residue, difference, seal},
    value::{Object, name_of, nanos},
};

/// A function that puts one piece of saved data back into an object.
pub(super) type RestoreEdit<'a> = Box<dyn Fn(&mut Object) + 'a>;

/// One version of a kind, or of a part of it.
pub(super) trait Side {
    /// The object in the other version, as far as that can express it. Total: values of wrong types are left out.
    fn project(&self, object: &Object) -> Object;

    /// The difference from `rebuilt` to `original`, in the form of the upstream operator's payloads, as far as that can
    /// express it.
    fn save(&self, original: &Object, rebuilt: &Object) -> Object;

    /// The edits that put saved data back into an object of this version; each is kept or dropped by itself.
    fn edits<'a>(&'a self, saved: &'a Object) -> Vec<RestoreEdit<'a>>;

    /// Adds the defaults that the API server would add to an object of this version with saved data. Unlike saved data
    /// they may be visible in the other version: the next write adds them at the latest.
    fn complete(&self, _object: &mut Object) {}

    /// Adds all defaults that the API server adds to a whole object of this version. The next write adds them, so they
    /// are not saved.
    fn fill(&self, _object: &mut Object) {}
}

/// Data of one version that is kept with an object of the other version.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Saved {
    /// In the form of the upstream operator.
    pub sparse: Object,
    /// Data that this form cannot hold.
    pub exact: Vec<Residue>,
    /// Seals of the target, by its part; an unchanged part gets all saved data back.
    pub seals: BTreeMap<String, String>,
}

impl Saved {
    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.sparse.is_empty() && self.exact.is_empty() && self.seals.is_empty()
    }
}

/// Name of the seal of an object, or of its frame: the object without its parts.
pub(super) const WHOLE: &str = "";

/// Converts `source`, which is `alpha` or `beta`, to the other of both. `saved` is data of the target's version, kept
/// with the source. Returns the target, and data of the source's version to be kept with it, if any is needed.
pub(super) fn convert_part(
    source: &Object,
    saved: Option<&Saved>,
    to: ApiVersion,
    alpha: &dyn Side,
    beta: &dyn Side,
) -> (Object, Option<Saved>) {
    let (from, to) = match to {
        ApiVersion::V1Alpha1 => (beta, alpha),
        ApiVersion::V1Beta1 => (alpha, beta),
    };
    let (target, mut rebuilt) = match saved {
        Some(saved) => restore(source, saved, from, to),
        None => {
            let target = from.project(source);
            let rebuilt = to.project(&target);
            (target, rebuilt)
        }
    };
    let is_source = |mut rebuilt: Object| {
        from.fill(&mut rebuilt);
        rebuilt == *source
    };
    if rebuilt == *source || is_source(rebuilt.clone()) {
        return (target, None);
    }
    let sparse = from.save(source, &rebuilt);
    for edit in from.edits(&sparse) {
        edit(&mut rebuilt);
    }
    from.complete(&mut rebuilt);
    let mut new = Saved { sparse, exact: difference(&rebuilt, source), seals: BTreeMap::new() };
    // Everything put back is exactly the source, by what a difference is. Whether it is put back needs no check where
    // the target is nothing but a projection of the source.
    let comes_back = saved.is_none()
        || equivalent_objects(&from.project(source), &target)
        || restore(&target, &new, to, from).0 == *source;
    if !comes_back {
        new.seals.insert(WHOLE.to_owned(), seal(&target));
    }
    (target, Some(new))
}

/// Returns `live` in the version of `to`, with saved data put back, and the projection of that to the version of
/// `live`.
fn restore(live: &Object, saved: &Saved, from: &dyn Side, to: &dyn Side) -> (Object, Object) {
    let sparse = to.edits(&saved.sparse);
    let exact =
        saved.exact.iter().map(|residue| Box::new(move |object: &mut Object| residue.apply(object)) as RestoreEdit<'_>);
    let exact: Vec<RestoreEdit<'_>> = exact.collect();
    let mut all = from.project(live);
    sparse.iter().for_each(|edit| edit(&mut all));
    to.complete(&mut all);
    // What is exact may say that a default was not there.
    exact.iter().for_each(|edit| edit(&mut all));
    let all_seen = to.project(&all);
    let untouched = || saved.seals.get(WHOLE).is_some_and(|saved| *saved == seal(live));
    if equivalent_objects(&all_seen, live) || untouched() {
        return (all, all_seen);
    }
    let bare = from.project(live);
    let bare_seen = to.project(&bare);
    if invisible(&all_seen, &bare_seen, live) {
        return (all, all_seen);
    }
    let first = |edits: &[RestoreEdit<'_>], least: usize| edits.len().min(tries(live, least));
    let (mut kept, _) = put_back((bare, bare_seen), &sparse[..first(&sparse, SPARSE)], live, to);
    to.complete(&mut kept);
    let seen = to.project(&kept);
    put_back((kept, seen), &exact[..first(&exact, EXACT)], live, to)
}

/// Budget for putting edits back one by one, in bytes that are copied for it.
const EFFORT: usize = 4 << 20;
/// Least number of sparse edits that are tried one by one, for objects of any size: the maximum of one component.
const SPARSE: usize = 160;
/// Least number of exact edits.
const EXACT: usize = 32;
/// Greatest number of edits.
const MOST: usize = 256;

/// Number of edits of an object that are tried one by one. Each try copies the object, and users can write annotations
/// with any number of edits; a conversion never saves as many.
fn tries(live: &Object, least: usize) -> usize {
    let size = serde_json::to_vec(live).map_or(EFFORT, |json| json.len());
    (EFFORT / size.max(1)).clamp(least, MOST)
}

/// A greater number of edits of one kind is put back all at once or not at all.
const MANY: usize = 64;

/// The groups that are put back together: each edit alone, unless there are [`MANY`].
pub(super) fn in_groups<T: Copy>(things: Vec<T>) -> impl Iterator<Item = Vec<T>> {
    let size = if things.len() > MANY { things.len() } else { 1 };
    things.chunks(size).map(<[T]>::to_vec).collect::<Vec<_>>().into_iter()
}

/// Applies the edits that stay invisible in `live`, one by one, to an object and its projection.
fn put_back(
    (mut kept, mut seen): (Object, Object),
    edits: &[RestoreEdit<'_>],
    live: &Object,
    to: &dyn Side,
) -> (Object, Object) {
    for edit in edits {
        let mut candidate = kept.clone();
        edit(&mut candidate);
        let candidate_seen = to.project(&candidate);
        if invisible(&candidate_seen, &seen, live) {
            (kept, seen) = (candidate, candidate_seen);
        }
    }
    (kept, seen)
}

/// Whether `candidate` differs from `current` only where it equals `live`.
fn invisible(candidate: &Object, current: &Object, live: &Object) -> bool {
    let keys: BTreeSet<&String> = candidate.keys().chain(current.keys()).collect();
    keys.into_iter().all(|key| invisible_at(key, candidate.get(key), current.get(key), live.get(key)))
}

fn invisible_at(key: &str, candidate: Option<&Value>, current: Option<&Value>, live: Option<&Value>) -> bool {
    if candidate == current {
        return true;
    }
    let says_live = match (candidate, live) {
        (None, None) => true,
        (Some(candidate), Some(live)) => equivalent(key, candidate, live),
        _ => false,
    };
    says_live
        || match (candidate, current, live) {
            (Some(Value::Object(candidate)), Some(Value::Object(current)), Some(Value::Object(live))) => {
                invisible(candidate, current, live)
            }
            (Some(Value::Array(candidate)), Some(Value::Array(current)), Some(Value::Array(live))) => {
                invisible_list(candidate, current, live)
            }
            _ => false,
        }
}

/// Entries of lists are compared by key; a list with an entry without key, or with a key twice, only as a whole.
fn invisible_list(candidate: &[Value], current: &[Value], live: &[Value]) -> bool {
    let (Some(candidate), Some(current), Some(live)) = (by_key(candidate), by_key(current), by_key(live)) else {
        return false;
    };
    let keys: BTreeSet<EntryKey<'_>> = candidate.keys().chain(current.keys()).copied().collect();
    let entry = |entries: &BTreeMap<_, _>, key: EntryKey<'_>| entries.get(&key).copied();
    keys.into_iter().all(|key| invisible_at(key.0, entry(&candidate, key), entry(&current, key), entry(&live, key)))
}

/// Key of a list's entry: its name, and of a mount its path, too.
type EntryKey<'a> = (&'a str, Option<&'a str>);

/// The entries of a list by key; none if an entry has no name, or two have one key.
fn by_key(entries: &[Value]) -> Option<BTreeMap<EntryKey<'_>, &Value>> {
    let keyed: BTreeMap<_, _> =
        entries.iter().filter_map(|entry| Some(((name_of(entry)?, place_of(entry)), entry))).collect();
    (keyed.len() == entries.len()).then_some(keyed)
}

fn place_of(mount: &Value) -> Option<&str> {
    ["mountPath", "mountPoint"].iter().find_map(|key| mount.get(key)?.as_str())
}

/// Whether two values are equal. Quantities may be written differently; Go has a form of its own.
fn equivalent(key: &str, a: &Value, b: &Value) -> bool {
    match (a, b) {
        _ if a == b => true,
        (Value::Object(a), Value::Object(b)) if matches!(key, "requests" | "limits") => {
            same_keys(a, b, |_, a, b| nanos(a).is_some_and(|value| Some(value) == nanos(b)))
        }
        (Value::Object(a), Value::Object(b)) => equivalent_objects(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equivalent("", a, b)),
        _ if key == "sharedMemorySize" => nanos(a).is_some_and(|value| Some(value) == nanos(b)),
        _ => false,
    }
}

fn equivalent_objects(a: &Object, b: &Object) -> bool {
    same_keys(a, b, equivalent)
}

fn same_keys(a: &Object, b: &Object, same: impl Fn(&str, &Value, &Value) -> bool) -> bool {
    a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| a == b || same(key, a, b)))
}
