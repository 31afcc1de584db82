//! Objects made at random from the schemas of the definitions: whole ones, and parts of them as server-side apply sends
//! them. What the schema leaves open is filled with names and values that conversion looks at.

use std::collections::BTreeSet;

use api_types::{conversion::ApiVersion, crds};
use serde_json::{Map, Value, json};

/// Source of random numbers.
pub trait Chance {
    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize;

    /// Whether something of that probability happens.
    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of them.
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Small, fast and repeatable.
pub struct XorShift(u64);

impl XorShift {
    /// The sequence of a seed and a case.
    pub fn new(seed: u64, case: u64) -> Self {
        let mut mixed = Self((seed ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1);
        for _ in 0..8 {
            mixed.next();
        }
        mixed
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

impl Chance for XorShift {
    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 11) as usize % bound
    }
}

/// The kinds with two versions, each as often as it is worth.
const KINDS: [&str; 10] = [
    "DynamoGraphDeployment",
    "DynamoGraphDeployment",
    "DynamoGraphDeployment",
    "DynamoGraphDeployment",
    "DynamoComponentDeployment",
    "DynamoComponentDeployment",
    "DynamoComponentDeployment",
    "DynamoGraphDeploymentRequest",
    "DynamoGraphDeploymentRequest",
    "DynamoGraphDeploymentScalingAdapter",
];

const TEXTS: [&str; 24] = [
    "main",
    "main",
    "a",
    "a",
    "b",
    "c",
    "sidecar-frontend",
    "sidecar-frontend",
    "profiler",
    "worker",
    "prefill",
    "decode",
    "frontend",
    "epp",
    "nvidia.com/gpu",
    "1",
    "0",
    "8Gi",
    "latency",
    "",
    "x/y~z",
    "Ünicode \"quoted\"",
    "Ready",
    "g",
];
const QUANTITIES: [&str; 14] =
    ["0", "1", "2", "500m", "1000m", "1.5", ".5", "8Gi", "0Gi", "1e3", "1E3", "+1", "-1", "12345678901234567890"];
/// Names of fields in places that take any.
const OPEN: [&str; 24] = [
    "sla",
    "ttft",
    "itl",
    "isl",
    "osl",
    "optimizationType",
    "deployment",
    "modelCache",
    "pvcName",
    "modelPathInPvc",
    "pvcMountPath",
    "planner",
    "enabled",
    "engine",
    "a",
    "b",
    "name",
    "spec",
    "containers",
    "services",
    "plugins",
    "parameters",
    "kind",
    "apiVersion",
];
const WHOLE: [i64; 9] = [0, 1, 2, 3, 7, 64, 4000, -1, 2_147_483_647];
const NUMBERS: [f64; 8] = [0.0, 0.5, 1.0, 30.25, 2000.0, -1.0, 1e19, 1e300];

/// Schemas of specs and statuses.
pub struct Schemas(Vec<(&'static str, ApiVersion, Value)>);

impl Schemas {
    /// Those of our definitions.
    pub fn load() -> Self {
        let mut schemas = Vec::new();
        for crd in crds::all().unwrap() {
            let Some(kind) = KINDS.into_iter().find(|kind| *kind == crd.spec.names.kind) else { continue };
            for version in &crd.spec.versions {
                let api_version = format!("nvidia.com/{}", version.name).parse().unwrap();
                let schema = json!(version.schema)["openAPIV3Schema"]["properties"].clone();
                schemas.push((kind, api_version, schema));
            }
        }
        Self(schemas)
    }

    /// The schema of the fields of a kind.
    pub fn of(&self, kind: &str, version: ApiVersion) -> &Value {
        &self.0.iter().find(|(k, v, _)| (*k, *v) == (kind, version)).unwrap().2
    }

    /// An object of any kind in `version`.
    pub fn object(&self, version: ApiVersion, chance: &mut impl Chance) -> Value {
        let kind = chance.pick(&KINDS);
        let schema = self.of(kind, version);
        let mut object = json!({ "apiVersion": version.api_version(), "kind": kind });
        if chance.percent(95) {
            object["metadata"] = metadata(chance);
        }
        for (part, present) in [("spec", 95), ("status", 40)] {
            if chance.percent(present) {
                object[part] = Maker::new(chance).value(&schema[part]);
            }
        }
        object
    }

    /// An object that lacks nothing that it must have.
    pub fn whole(&self, version: ApiVersion, chance: &mut impl Chance) -> Value {
        let kind = chance.pick(&KINDS);
        let mut maker = Maker::new(chance);
        maker.required = 100;
        let spec = maker.value(&self.of(kind, version)["spec"]);
        json!({ "apiVersion": version.api_version(), "kind": kind, "metadata": { "name": "g" }, "spec": spec })
    }

    /// Changes one place of an object, as its user might.
    pub fn edit(&self, object: &mut Value, chance: &mut impl Chance) {
        let version = object["apiVersion"].as_str().unwrap().parse().unwrap();
        let schema = self.of(object["kind"].as_str().unwrap(), version).clone();
        let part = chance.pick(&["spec", "spec", "spec", "status"]);
        if let Some(part_of_object) = object.get_mut(part) {
            Maker::new(chance).edit(&schema[part], part_of_object);
        }
    }
}

fn metadata(chance: &mut impl Chance) -> Value {
    let mut metadata = Map::new();
    for (key, value) in [
        ("name", json!("g")),
        ("namespace", json!("n")),
        ("labels", json!({ "a": "b" })),
        ("annotations", json!({ "mine": "stays" })),
        ("generation", json!(3)),
    ] {
        if chance.percent(60) {
            metadata.insert(key.to_owned(), value);
        }
    }
    Value::Object(metadata)
}

/// Makes the parts of one object.
struct Maker<'a, C> {
    chance: &'a mut C,
    /// Values that may still be made where nothing requires them.
    budget: usize,
    /// Probability of a field that may be left out, in percent.
    density: usize,
    /// Probability of a field that must not be left out, in percent.
    required: usize,
}

impl<'a, C: Chance> Maker<'a, C> {
    fn new(chance: &'a mut C) -> Self {
        let budget = chance.pick(&[3, 10, 30, 60, 120, 250]);
        let density = chance.pick(&[5, 15, 40, 70, 100]);
        let required = chance.pick(&[100, 100, 60]);
        Self { chance, budget, density, required }
    }

    fn value(&mut self, schema: &Value) -> Value {
        self.budget = self.budget.saturating_sub(1);
        if self.chance.below(300) == 0 {
            return Value::Null;
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return if self.chance.percent(25) {
                json!(self.chance.pick(&[0, 1, 8]))
            } else {
                json!(self.chance.pick(&QUANTITIES))
            };
        }
        if let Some(values) = schema["enum"].as_array() {
            return values[self.chance.below(values.len())].clone();
        }
        match schema["type"].as_str() {
            Some("object") if schema["properties"].is_object() => self.object(schema),
            Some("object") if schema["additionalProperties"].is_object() => self.map(&schema["additionalProperties"]),
            Some("object") => self.open_object(3),
            Some("array") => self.list(schema),
            Some("string") => {
                json!(if self.chance.percent(15) { self.chance.pick(&QUANTITIES) } else { self.chance.pick(&TEXTS) })
            }
            Some("integer") => json!(self.chance.pick(&WHOLE)),
            Some("number") => self.number(),
            Some("boolean") => json!(self.chance.percent(60)),
            _ => self.anything(3),
        }
    }

    fn object(&mut self, schema: &Value) -> Value {
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        let mut names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        for i in (1..names.len()).rev() {
            names.swap(i, self.chance.below(i + 1));
        }
        let mut object = Map::new();
        for name in names {
            let likely = match required.iter().any(|field| field == name) {
                true => self.required,
                false if self.budget == 0 => 0,
                false => self.density,
            };
            if self.chance.percent(likely) {
                object.insert(name.clone(), self.value(&schema["properties"][name]));
            }
        }
        if schema["x-kubernetes-preserve-unknown-fields"] == true && self.chance.percent(20) {
            object.insert("unknown".to_owned(), self.anything(2));
        }
        Value::Object(object)
    }

    fn map(&mut self, schema: &Value) -> Value {
        let count = if self.budget == 0 { 0 } else { self.chance.below(4) };
        let names = [self.chance.pick(&["cpu", "memory"]), self.chance.pick(&TEXTS), self.chance.pick(&TEXTS)];
        let names = names.into_iter().take(count);
        Value::Object(names.map(|name| (name.to_owned(), self.value(schema))).collect())
    }

    /// Entries have different keys where the schema says that they do; now and then not.
    fn list(&mut self, schema: &Value) -> Value {
        let count = if self.budget == 0 { 0 } else { self.chance.below(4) };
        let keys = schema["x-kubernetes-list-map-keys"].as_array().map_or(&[][..], Vec::as_slice);
        let careless = self.chance.percent(3);
        let mut seen = BTreeSet::new();
        let mut entries = Vec::new();
        for _ in 0..count {
            let entry = self.value(&schema["items"]);
            let identity: String = keys.iter().map(|key| entry[key.as_str().unwrap()].to_string()).collect();
            if keys.is_empty() || careless || seen.insert(identity) {
                entries.push(entry);
            }
        }
        Value::Array(entries)
    }

    fn number(&mut self) -> Value {
        if self.chance.percent(50) { json!(self.chance.pick(&WHOLE)) } else { json!(self.chance.pick(&NUMBERS)) }
    }

    fn open_object(&mut self, depth: usize) -> Value {
        let count = self.chance.below(5);
        let names: Vec<&str> = (0..count).map(|_| self.chance.pick(&OPEN)).collect();
        Value::Object(names.into_iter().map(|name| (name.to_owned(), self.anything(depth - 1))).collect())
    }

    fn anything(&mut self, depth: usize) -> Value {
        self.budget = self.budget.saturating_sub(1);
        match self.chance.below(if depth == 0 || self.budget == 0 { 4 } else { 7 }) {
            0 => json!(self.chance.pick(&TEXTS)),
            1 => self.number(),
            2 => json!(self.chance.percent(50)),
            3 if self.chance.percent(10) => Value::Null,
            3 => json!({}),
            4 => (0..self.chance.below(3)).map(|_| self.anything(depth - 1)).collect(),
            _ => self.open_object(depth),
        }
    }

    fn edit(&mut self, schema: &Value, value: &mut Value) {
        let deeper = self.chance.percent(85);
        match value {
            Value::Object(fields) if deeper && !fields.is_empty() => {
                let name = fields.keys().nth(self.chance.below(fields.len())).unwrap().clone();
                let inner = schema["properties"].get(&name).or_else(|| schema.get("additionalProperties"));
                if self.chance.percent(12) {
                    fields.remove(&name);
                } else if self.chance.percent(12) && schema["properties"].is_object() {
                    let all = schema["properties"].as_object().unwrap();
                    let (other, inner) = all.iter().nth(self.chance.below(all.len())).unwrap();
                    fields.insert(other.clone(), self.value(inner));
                } else {
                    self.edit(inner.unwrap_or(&Value::Null), &mut fields[&name]);
                }
            }
            Value::Array(items) if deeper && !items.is_empty() => {
                let at = self.chance.below(items.len());
                if self.chance.percent(15) {
                    drop(items.remove(at));
                } else if self.chance.percent(15) {
                    items.rotate_left(1);
                } else {
                    self.edit(&schema["items"], &mut items[at]);
                }
            }
            _ => *value = self.value(schema),
        }
    }
}
