//! Clusters in one line, such as `nodes=2 gpus=4 gpu=a100-40 link=25gb`: short names for keys of a
//! cluster file, with the links of the device's built-in cluster by default.

use super::profile::device_links;
use super::{CLUSTER_VERSION, Cluster, ClusterError, MAX_DEVICES, parse};
use crate::words::spelling::closest;
use crate::words::units::Bytes;
use toml::{Table, Value};

/// A key of the line.
struct Key {
    name: &'static str,
    /// The key of a cluster file, below its tables.
    file: &'static [&'static str],
    takes: Takes,
}

/// What a key takes.
#[derive(Clone, Copy)]
enum Takes {
    /// A number of nodes or devices.
    Count,
    /// A name, which the reader of cluster files looks up.
    Name,
    /// Memory, with a unit or without.
    Memory,
    /// A number above 0.
    Price,
}

const KEYS: [Key; 11] = [
    key("nodes", &["nodes"], Takes::Count),
    key("gpus", &["devices_per_node"], Takes::Count),
    key("gpu", &["device", "profile"], Takes::Name),
    key("memory", &["device", "memory_bytes"], Takes::Memory),
    key("inside", &["inside", "profile"], Takes::Name),
    key("link", &["between", "profile"], Takes::Name),
    key("host", &["host", "memory_bytes"], Takes::Memory),
    key("cores", &["host", "cores"], Takes::Count),
    key("software", &["software", "profile"], Takes::Name),
    key("price", &["price_per_hour"], Takes::Price),
    key("name", &["name"], Takes::Name),
];

const fn key(name: &'static str, file: &'static [&'static str], takes: Takes) -> Key {
    Key { name, file, takes }
}

/// Reads a cluster from pairs of `KEY=VALUE`, separated by spaces or commas.
pub(super) fn parse(text: &str) -> Result<Cluster, ClusterError> {
    let mut table = Table::new();
    let words = text.split(|c: char| c.is_whitespace() || c == ',');
    for word in words.filter(|word| !word.is_empty()) {
        let (name, found) = word.split_once('=').unwrap_or((word, ""));
        let key = KEYS.iter().find(|key| key.name == name);
        let key = key.ok_or_else(|| ClusterError::UnknownKey {
            key: name.to_owned(),
            expected: KEYS.iter().map(|key| key.name.to_owned()).collect(),
            suggestion: closest(name, KEYS.iter().map(|key| key.name)).map(str::to_owned),
        })?;
        let value = value(key, found).map_err(|expected| ClusterError::WrongType {
            key: name.to_owned(),
            found: format!("`{found}`"),
            expected,
        })?;
        if set(&mut table, key.file, value) {
            return Err(ClusterError::Twice {
                key: name.to_owned(),
            });
        }
    }
    let device = table.get("device").and_then(|device| device.get("profile"));
    let Some(Value::String(device)) = device.cloned() else {
        return Err(ClusterError::MissingKey {
            key: "gpu".to_owned(),
            help: "name a device, such as gpu=a100-40; `gnnc gpus` lists them",
        });
    };
    if let Some(links) = device_links(&device) {
        set(&mut table, &["inside", "profile"], links.inside.into());
        if !set(&mut table, &["between", "profile"], links.between.into()) && links.own_card {
            set(&mut table, &["between", "shared_by"], "rank".into());
        }
    }
    set(&mut table, &["version"], CLUSTER_VERSION.into());
    parse::read(&table)
}

/// The value of a key of a cluster file; the error says what was expected.
fn value(key: &Key, found: &str) -> Result<Value, &'static str> {
    match key.takes {
        Takes::Count => {
            let count = found.replace('_', "").parse().ok();
            let count = count.filter(|count| (1..=MAX_DEVICES as i64).contains(count));
            count.map(Value::Integer).ok_or("a number from 1 to 65536")
        }
        Takes::Name if found.is_empty() => Err("a name"),
        Takes::Name => Ok(found.into()),
        Takes::Memory => match found.parse::<Bytes>() {
            Ok(bytes) => Ok((bytes.0 as f64).into()),
            Err(_) => Err("a number above 0 with a unit or without, such as 80GiB or 512MiB"),
        },
        Takes::Price => {
            let price = found.parse().ok();
            let price = price.filter(|price: &f64| *price > 0.0 && price.is_finite());
            price.map(Value::Float).ok_or("a number above 0")
        }
    }
}

/// Sets a key below its tables unless it is set; returns whether it was.
fn set(table: &mut Table, path: &[&str], value: Value) -> bool {
    match path {
        [] => false,
        [last] if table.contains_key(*last) => true,
        [last] => {
            table.insert((*last).to_owned(), value);
            false
        }
        [first, rest @ ..] => {
            let below = table.entry(*first).or_insert_with(|| Table::new().into());
            match below {
                Value::Table(below) => set(below, rest, value),
                Value::String(_)
                | Value::Integer(_)
                | Value::Float(_)
                | Value::Boolean(_)
                | Value::Datetime(_)
                | Value::Array(_) => true,
            }
        }
    }
}
