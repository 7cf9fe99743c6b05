//! Graphs in NetworkX's node-link form of JSON: `nodes` with an `id` each, and `links` or `edges` with a
//! `source` and a `target` each.

use super::records::Records;
use super::text::open;
use super::{Import, Note, Pair, of_tables};
use crate::read::place;
use crate::topology::Dropped;
use crate::{GraphData, GraphError};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;
use std::io::BufReader;

/// A file. Other keys say nothing about vertices or edges.
#[derive(Deserialize)]
#[serde(expecting = "an object with nodes and links")]
struct NodeLink {
    /// As in NetworkX, a file that does not say it is undirected.
    #[serde(default)]
    directed: bool,
    nodes: Records,
    #[serde(alias = "edges")]
    links: Records,
}

impl<'de> Deserialize<'de> for Records {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Rows;
        impl<'de> Visitor<'de> for Rows {
            type Value = Records;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a list of objects")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Records, A::Error> {
                let mut records = Records::default();
                while let Some(Fields(fields)) = rows.next_element()? {
                    for (name, value) in &fields {
                        records.set(name, &text(value));
                    }
                    records.end().map_err(serde::de::Error::custom)?;
                }
                Ok(records)
            }
        }
        source.deserialize_seq(Rows)
    }
}

/// The fields of an object in order.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object with fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        source.deserialize_map(Object)
    }
}

/// A value as the field of a table.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(own) => u8::from(*own).to_string(),
        Value::String(own) => own.clone(),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// Reads a file.
///
/// # Errors
/// A file of another form.
pub(super) fn read(
    options: &Import,
    notes: &mut Vec<Note>,
) -> Result<(GraphData, Dropped), GraphError> {
    let path = &options.edges;
    let at = place(path);
    let source = BufReader::new(open(path, b'"')?);
    let found: NodeLink = serde_json::from_reader(source).map_err(|error| {
        let line = error.line() as u64;
        let expected = "a graph as networkx.node_link_data gives it: nodes with an id, and links or \
                        edges with a source and a target";
        crate::read::syntax(&at, line, error.to_string(), expected)
    })?;
    if !found.directed {
        notes.push(Note(format!(
            "{at}: undirected, every edge in both directions"
        )));
    }
    let tables = Pair {
        nodes: Some(found.nodes.table(format!("{at}: nodes"))?),
        edges: found.links.table(format!("{at}: edges"))?,
    };
    of_tables(tables, !found.directed, options, notes)
}
