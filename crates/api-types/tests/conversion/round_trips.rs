//! Objects made from the schemas, there and back.
//!
//! `DYNAMO_PROPTEST_CASES` says how many in each direction, `DYNAMO_PROPTEST_SEED` where to begin; a night's run takes
//! a million, and another seed each time.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use api_types::conversion::{ApiVersion, convert};
use serde_json::Value;

use crate::{
    from_schema::{Schemas, XorShift},
    law::{law, there},
};

/// For a test that runs on every change.
const CASES: u64 = 1000;

pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: {text} is no number")))
}

/// A property of one object; why it does not hold.
type Property = fn(&Value, &mut XorShift, &Schemas) -> Result<(), String>;

fn comes_back(object: &Value, _: &mut XorShift, _: &Schemas) -> Result<(), String> {
    law(object)
}

/// A change in the other version is not undone by what is saved with the object.
fn edit_stays(object: &Value, chance: &mut XorShift, schemas: &Schemas) -> Result<(), String> {
    let seen = there(object);
    let mut edited = seen.clone();
    schemas.edit(&mut edited, chance);
    let again = there(&there(&edited));
    for part in ["spec", "status"] {
        if again.get(part) != edited.get(part) {
            return Err(format!("given {object:#}\nseen as {seen:#}\nedited {edited:#}\nafterwards {again:#}"));
        }
    }
    Ok(())
}

fn check(property: Property, object: &Value, chance: &mut XorShift, schemas: &Schemas) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| property(object, chance, schemas)))
        .unwrap_or_else(|_| Err(format!("panicked on {object:#}")))
}

fn run(version: ApiVersion, property: Property) {
    let schemas = Schemas::load();
    let (cases, seed) = (setting("DYNAMO_PROPTEST_CASES", CASES), setting("DYNAMO_PROPTEST_SEED", 1));
    let begun = Instant::now();
    for case in 0..cases {
        let mut chance = XorShift::new(seed, case);
        let object = schemas.object(version, &mut chance);
        if let Err(first) = check(property, &object, &mut chance, &schemas) {
            let again =
                |object: &Value| check(property, object, &mut XorShift::new(seed, case + cases), &schemas).err();
            let smaller = smallest(object, &|object| again(object).is_some());
            let why = again(&smaller).unwrap_or(first);
            panic!("case {case} of DYNAMO_PROPTEST_SEED={seed} from {version}:\n{why}");
        }
    }
    println!("{cases} objects of {version} in {:?}", begun.elapsed());
}

/// The object without all that can be left out while it still fails.
fn smallest(mut object: Value, fails: &dyn Fn(&Value) -> bool) -> Value {
    let mut at = 0;
    loop {
        let mut candidate = object.clone();
        let mut left = at;
        match (remove_nth(&mut candidate, &mut left, 0), fails(&candidate)) {
            (false, _) => return object,
            (true, true) => object = candidate,
            (true, false) => at += 1,
        }
    }
}

/// Removes the place with number `left` in a walk through the value; type and version stay.
fn remove_nth(value: &mut Value, left: &mut usize, depth: usize) -> bool {
    match value {
        Value::Object(fields) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            for name in names.iter().filter(|name| depth > 0 || !matches!(name.as_str(), "apiVersion" | "kind")) {
                if *left == 0 {
                    return fields.remove(name).is_some();
                }
                *left -= 1;
                if remove_nth(&mut fields[name], left, depth + 1) {
                    return true;
                }
            }
            false
        }
        Value::Array(items) => {
            for at in 0..items.len() {
                if *left == 0 {
                    items.remove(at);
                    return true;
                }
                *left -= 1;
                if remove_nth(&mut items[at], left, depth + 1) {
                    return true;
                }
            }
            false
        }
        _ => false,
    }
}

#[test]
fn objects_of_v1alpha1_come_back() {
    run(ApiVersion::V1Alpha1, comes_back);
}

#[test]
fn objects_of_v1beta1_come_back() {
    run(ApiVersion::V1Beta1, comes_back);
}

#[test]
fn edits_in_v1beta1_stay() {
    run(ApiVersion::V1Alpha1, edit_stays);
}

#[test]
fn edits_in_v1alpha1_stay() {
    run(ApiVersion::V1Beta1, edit_stays);
}

/// Measures the conversion of a real graph; a figure for information, in the release profile. The fastest of several
/// runs counts, because the others depend more on the machine.
#[test]
fn the_cost_of_a_conversion() {
    for (version, to) in [("v1alpha1", ApiVersion::V1Beta1), ("v1beta1", ApiVersion::V1Alpha1)] {
        let graphs = crate::support::inputs(version, "DynamoGraphDeployment");
        let mut costs: Vec<Duration> = graphs.iter().map(|graph| fastest(&graph.object, to)).collect();
        costs.sort();
        if let (Some(median), Some(most)) = (costs.get(costs.len() / 2), costs.last()) {
            println!("{} graphs of {version}: median {median:?}, most {most:?}", costs.len());
        }
    }
}

fn fastest(object: &Value, to: ApiVersion) -> Duration {
    let once = || {
        let copy = object.clone();
        let begun = Instant::now();
        let converted = convert(copy, to);
        let cost = begun.elapsed();
        assert!(converted.is_ok());
        cost
    };
    (0..10).map(|_| once()).min().unwrap_or_default()
}
