//! The list with other shapes: drawn at random, so that no kernel is fast at the listed ones alone.

use std::collections::BTreeMap;

use serde_json::Value;
use tensor_core::Generator;

/// Groups whose shapes are what they are: small, or those of a model.
const FIXED: [&str; 3] = ["overhead", "optim", "model"];

/// Sizes up to here stay: batches, filter widths.
const SMALL: i64 = 8;

/// The least factor of a size; its reciprocal is the largest.
const LEAST: f64 = 0.6;

/// Draws new sizes, from [`LEAST`] of the listed ones to as many times more: their logarithms evenly, so that the geometric
/// mean of a size stays and results are as often above the size at which a library changes its ways. Equal sizes of a
/// workload stay equal, so that they still fit each other; fields that repeat a size follow it.
pub fn vary(list: &[Value], seed: u64) -> Vec<Value> {
    let generator = Generator::with_seed(seed);
    list.iter().filter(|entry| !FIXED.contains(&text(entry, "group"))).map(|entry| one(entry, &generator)).collect()
}

fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key].as_str().unwrap_or_default()
}

fn one(entry: &Value, generator: &Generator) -> Value {
    let mut drawn = BTreeMap::new();
    let mut draw = |size: i64| {
        if size <= SMALL {
            return size;
        }
        *drawn.entry(size).or_insert_with(|| {
            let unit = f64::from(generator.lock().random()) / f64::from(u32::MAX);
            ((size as f64 * LEAST.powf(1.0 - 2.0 * unit)) as i64).max(SMALL + 1)
        })
    };
    let mut entry = entry.clone();
    let mut shapes = Vec::new();
    for shape in entry["shapes"].as_array_mut().into_iter().flatten() {
        let sizes = shape.as_array_mut().into_iter().flatten();
        let sizes = sizes.map(|size| {
            let new = draw(size.as_i64().unwrap_or(1));
            *size = new.into();
            new.to_string()
        });
        shapes.push(sizes.collect::<Vec<_>>().join("x"));
    }
    for key in ["groups", "hidden"] {
        if let Some(size) = entry[key].as_i64() {
            entry[key] = draw(size).into();
        }
    }
    if let Value::Object(fields) = &mut entry {
        // They were those of the listed sizes.
        fields.remove("flops");
        fields.remove("bytes");
    }
    shapes.dedup();
    let name = [text(&entry, "group"), text(&entry, "op"), &shapes.join("_"), text(&entry, "dtype")].join("/");
    entry["name"] = name.into();
    entry
}
