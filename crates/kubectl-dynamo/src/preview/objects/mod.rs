//! Objects of the API server that are held in memory: as they are live, and as writes would leave them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::preview::field_sets;

/// Key of an object: its kind by group and plural, its namespace (empty for cluster-scoped objects) and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural name of the kind.
    pub plural: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Rejection of a write, as the API server reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewRejection {
    /// Status code of HTTP.
    pub code: u16,
    /// Reason of the `Status` object.
    pub reason: &'static str,
    /// Message.
    pub message: String,
}

/// The objects, and the writes since they were read.
#[derive(Clone, Debug, Default)]
pub struct PreviewObjects {
    now: Timestamp,
    /// Counts writes: versions, times and uids of new objects come from it.
    count: u32,
    objects: BTreeMap<ObjectKey, Value>,
    before: BTreeMap<ObjectKey, Value>,
    /// Objects of other programs, as these made them here.
    foreign: BTreeMap<ObjectKey, Value>,
    /// Objects that were deleted here, or do not exist.
    absent: BTreeSet<ObjectKey>,
    /// Objects of the writes that were accepted.
    writes: Vec<ObjectKey>,
}

/// Conditions on the present object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Preconditions<'a> {
    /// Its uid.
    pub uid: Option<&'a str>,
    /// Its version.
    pub resource_version: Option<&'a str>,
}

impl<'a> Preconditions<'a> {
    /// Those of metadata, or of options.
    pub fn of(fields: &'a Value) -> Self {
        let text = |field: &str| fields.get(field)?.as_str();
        Self { uid: text("uid"), resource_version: text("resourceVersion") }
    }
}

impl PreviewObjects {
    /// No objects yet, at this time.
    pub fn new(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }

    /// Takes in an object as it is live.
    pub fn read(&mut self, key: ObjectKey, object: Value) {
        self.before.insert(key.clone(), object.clone());
        self.objects.insert(key, object);
    }

    /// Notes that an object does not exist.
    pub fn read_absent(&mut self, key: ObjectKey) {
        self.absent.insert(key);
    }

    /// Whether it is known if the object exists.
    pub fn is_known(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key) || self.absent.contains(key)
    }

    /// An object as it is now.
    pub fn get(&self, key: &ObjectKey) -> Option<&Value> {
        self.objects.get(key)
    }

    /// An object as it was read.
    pub fn before(&self, key: &ObjectKey) -> Option<&Value> {
        self.before.get(key)
    }

    /// An object of another program, as it made it here.
    pub fn gained(&self, key: &ObjectKey) -> Option<&Value> {
        self.foreign.get(key)
    }

    /// All objects of a kind.
    pub fn of_kind<'a>(&'a self, group: &'a str, plural: &'a str) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> {
        self.objects.iter().filter(move |(key, _)| key.group == group && key.plural == plural)
    }

    /// All objects, as they were read and as they are now.
    pub fn keys(&self) -> BTreeSet<&ObjectKey> {
        self.before.keys().chain(self.objects.keys()).collect()
    }

    /// The objects of the writes so far.
    pub fn writes(&self) -> &[ObjectKey] {
        &self.writes
    }

    /// Server-side apply with force.
    ///
    /// # Errors
    /// A precondition does not hold.
    pub fn apply(&mut self, key: &ObjectKey, body: &Value, manager: &str) -> Result<Value, PreviewRejection> {
        let preconditions = Preconditions::of(&body["metadata"]);
        match self.objects.get(key) {
            None if preconditions.uid.is_some() => Err(conflict(key)),
            None => {
                let mut object = field_sets::apply(&json!({}), body, manager);
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.remove("resourceVersion");
                    metadata.remove("uid");
                }
                self.writes.push(key.clone());
                Ok(self.put_new(key, object))
            }
            Some(live) => {
                check(key, live, preconditions)?;
                let merged = field_sets::apply(live, body, manager);
                Ok(self.replace(key, merged))
            }
        }
    }

    /// A patch of an object that exists.
    ///
    /// # Errors
    /// There is no such object, or a precondition does not hold.
    pub fn patch(
        &mut self,
        key: &ObjectKey,
        preconditions: Preconditions<'_>,
        edit: impl FnOnce(&mut Value) -> Result<(), String>,
    ) -> Result<Value, PreviewRejection> {
        let live = self.objects.get(key).ok_or_else(|| not_found(key))?;
        check(key, live, preconditions)?;
        let mut object = live.clone();
        edit(&mut object).map_err(|message| PreviewRejection { code: 422, reason: "Invalid", message })?;
        Ok(self.replace(key, object))
    }

    /// Deletes an object and what it owns.
    ///
    /// # Errors
    /// There is no such object, or a precondition does not hold.
    pub fn delete(&mut self, key: &ObjectKey, preconditions: Preconditions<'_>) -> Result<Value, PreviewRejection> {
        let live = self.objects.get(key).ok_or_else(|| not_found(key))?;
        check(key, live, preconditions)?;
        let mut object = live.clone();
        self.writes.push(key.clone());
        if has_finalizers(&object) {
            object["metadata"]["deletionTimestamp"] = json!(self.now.to_string());
            self.objects.insert(key.clone(), object.clone());
        } else {
            self.remove(key);
        }
        Ok(object)
    }

    /// Sets the status of an object; this is not recorded as a write. Returns whether it is another one.
    pub fn set_status(&mut self, key: &ObjectKey, status: Value) -> bool {
        let version = self.next_version();
        match self.objects.get_mut(key) {
            Some(object) if object.get("status") != Some(&status) => {
                object["status"] = status;
                object["metadata"]["resourceVersion"] = json!(version);
                true
            }
            _ => false,
        }
    }

    /// Replaces a live object by what a user's edit makes of it. This is not recorded as a write, and counts as read.
    pub fn edit(&mut self, key: &ObjectKey, object: Value) {
        let edited = match self.objects.contains_key(key) {
            true => self.put(key, object),
            false => self.put_new(key, object),
        };
        self.before.insert(key.clone(), edited);
    }

    /// An object that a program beside the controllers makes. This is not recorded as a write.
    pub fn gain(&mut self, key: &ObjectKey, object: Value) {
        let made = self.put_new(key, object);
        self.foreign.insert(key.clone(), made);
    }

    fn put_new(&mut self, key: &ObjectKey, mut object: Value) -> Value {
        let version = self.next_version();
        let created = self.now + SignedDuration::from_secs(i64::from(self.count));
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!(format!("new-{version}"));
        metadata["resourceVersion"] = json!(version);
        metadata["creationTimestamp"] = json!(created.to_string());
        metadata["generation"] = json!(1);
        self.absent.remove(key);
        self.objects.insert(key.clone(), object.clone());
        object
    }

    fn replace(&mut self, key: &ObjectKey, object: Value) -> Value {
        let is_changed = self.objects.get(key).is_none_or(|live| content(live) != content(&object));
        if !is_changed {
            return object;
        }
        self.writes.push(key.clone());
        self.put(key, object)
    }

    /// Changes an object; one that is being deleted and has lost its last finalizer goes.
    fn put(&mut self, key: &ObjectKey, mut object: Value) -> Value {
        let version = self.next_version();
        let live = self.objects.get(key).cloned().unwrap_or_default();
        let is_new_spec = spec(&live) != spec(&object);
        let generation = live.pointer("/metadata/generation").and_then(Value::as_i64);
        if let Some(generation) = generation {
            object["metadata"]["generation"] = json!(generation + i64::from(is_new_spec));
        }
        object["metadata"]["resourceVersion"] = json!(version);
        let is_going = live.pointer("/metadata/deletionTimestamp").is_some();
        self.objects.insert(key.clone(), object.clone());
        if is_going && !has_finalizers(&object) {
            self.remove(key);
        }
        object
    }

    /// Removes an object and what it owns. This is not recorded as a write.
    pub fn remove(&mut self, key: &ObjectKey) {
        let Some(gone) = self.objects.remove(key) else { return };
        self.absent.insert(key.clone());
        let uid = &gone["metadata"]["uid"];
        let owned = |object: &Value| owners(object).count() > 0 && owners(object).all(|owner| &owner["uid"] == uid);
        let children: Vec<ObjectKey> =
            self.objects.iter().filter(|(_, object)| owned(object)).map(|(key, _)| key.clone()).collect();
        children.iter().for_each(|child| self.remove(child));
        self.orphan(uid);
    }

    /// Takes an owner that is gone out of the objects that have others, as the garbage collector does.
    fn orphan(&mut self, owner: &Value) {
        let names_it = |object: &Value| owners(object).any(|one| one["uid"] == *owner);
        let shared: Vec<ObjectKey> =
            self.objects.iter().filter(|(_, object)| names_it(object)).map(|(key, _)| key.clone()).collect();
        for key in shared {
            let version = self.next_version();
            let Some(metadata) = self.objects.get_mut(&key).map(|object| &mut object["metadata"]) else { continue };
            if let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
                owners.retain(|one| one["uid"] != *owner);
            }
            metadata["resourceVersion"] = json!(version);
        }
    }

    /// Versions are newer than all that were read.
    fn next_version(&mut self) -> String {
        self.count += 1;
        let newest = |object: &Value| object.pointer("/metadata/resourceVersion")?.as_str()?.parse::<u64>().ok();
        let newest = self.before.values().filter_map(newest).max().unwrap_or_default();
        (newest + u64::from(self.count)).to_string()
    }
}

/// The owner references of an object.
pub fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten()
}

/// An object without what the API server counts.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["managedFields", "resourceVersion", "generation"] {
            metadata.remove(field);
        }
    }
    object
}

/// The fields of which `metadata.generation` counts the changes.
fn spec(object: &Value) -> Map<String, Value> {
    let mut fields = object.as_object().cloned().unwrap_or_default();
    fields.retain(|name, _| !["apiVersion", "kind", "metadata", "status"].contains(&name.as_str()));
    fields
}

fn has_finalizers(object: &Value) -> bool {
    object.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
}

fn check(key: &ObjectKey, live: &Value, preconditions: Preconditions<'_>) -> Result<(), PreviewRejection> {
    let differs =
        |desired: Option<&str>, field: &str| desired.is_some_and(|desired| live["metadata"][field] != desired);
    let fails = differs(preconditions.uid, "uid") || differs(preconditions.resource_version, "resourceVersion");
    if fails { Err(conflict(key)) } else { Ok(()) }
}

fn conflict(key: &ObjectKey) -> PreviewRejection {
    let message = format!("{} {} was changed meanwhile", key.plural, key.name);
    PreviewRejection { code: 409, reason: "Conflict", message }
}

/// The answer for an object that does not exist.
pub fn not_found(key: &ObjectKey) -> PreviewRejection {
    PreviewRejection { code: 404, reason: "NotFound", message: format!("{} {:?} not found", key.plural, key.name) }
}

#[cfg(test)]
mod tests;
