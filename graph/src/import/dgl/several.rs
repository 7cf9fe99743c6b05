//! Data sets with several types of vertices: a table for each, and tables of edges between them.

use super::{EdgeTable, Meta, NodeTable, Tables, named_ids};
use crate::import::edges::{Columns, Edges, Stated};
use crate::import::graphs::Found;
use crate::import::ids::Ids;
use crate::import::members::{TypeOf, Within};
use crate::import::nodes::{self, About};
use crate::import::{Import, Note, typed};
use crate::names::Names;
use crate::{GraphData, GraphError};

/// Reads a data set. The types of vertices are in the order of their names, and a type of edges is one of
/// `etype`: edges of a name between other types of vertices are of another type.
///
/// # Errors
/// A table whose type is not stated, or stated twice; many graphs; and those of the tables.
pub(super) fn read(
    at: &str,
    meta: &Meta,
    tables: &Tables,
    options: &Import,
    notes: &mut Vec<Note>,
) -> Result<Found, GraphError> {
    let wrong = |found: String, expected: &str| GraphError::Unsupported {
        at: at.to_owned(),
        found,
        expected: expected.to_owned(),
    };
    if meta.graph_data.is_some() {
        let found = "many graphs with several types of vertices".to_owned();
        let expected = "one graph";
        return Err(wrong(found, expected));
    }
    let lacks = |file: &std::path::Path, key: &str| {
        let expected = format!("{key} of each table, since there are several types of vertices");
        wrong(format!("{} without {key}", file.display()), &expected)
    };
    let mut vertices: Vec<(&str, &NodeTable)> = Vec::new();
    for table in &meta.node_data {
        let kind = table.ntype.as_deref();
        vertices.push((kind.ok_or_else(|| lacks(&table.file_name, "ntype"))?, table));
    }
    vertices.sort_by_key(|(kind, _)| *kind);
    if let Some(twice) = vertices.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let found = format!("two tables of vertices of type `{}`", twice[0].0);
        return Err(wrong(found, "one table for each type"));
    }
    let mut types = Vec::new();
    let (mut ids, mut names) = (Ids::default(), Names::default());
    for (number, (kind, table)) in vertices.iter().enumerate() {
        let options = named_ids(options, &table.node_id_field);
        let opened = tables.open(&table.file_name)?;
        let nodes = nodes::read(opened, About::OfType, &options, notes)?;
        let of = TypeOf { number, name: kind };
        for id in nodes.ids.names.iter() {
            ids.number(&Within::Type(of).id(id), at)?;
            names.push(&format!("{kind}:{id}"));
        }
        types.push(nodes.of_type(kind));
    }
    let mut edges = Edges::new(Some(ids), false);
    let mut edge_tables: Vec<(&[String; 3], &EdgeTable)> = Vec::new();
    for table in &meta.edge_data {
        let kind = table.etype.as_ref();
        edge_tables.push((kind.ok_or_else(|| lacks(&table.file_name, "etype"))?, table));
    }
    edge_tables.sort_by_key(|(kind, _)| *kind);
    // Relations are named by their places, since names of types may contain any character.
    let mut relations: Vec<&[String; 3]> = edge_tables.iter().map(|(kind, _)| *kind).collect();
    relations.dedup();
    for (kind, table) in edge_tables {
        let [source, _, target] = kind;
        let options = table.options(options);
        let mut table = tables.open(&table.file_name)?;
        let columns = Columns {
            kind: None,
            ..Columns::of(&table, &options, notes)?
        };
        notes.extend(columns.rest(&table));
        let of = |name: &str| -> Result<TypeOf, GraphError> {
            let found = vertices
                .iter()
                .enumerate()
                .find(|(_, (own, _))| *own == name);
            let of = found.map(|(number, (name, _))| TypeOf { number, name });
            of.ok_or_else(|| {
                wrong(
                    format!("edges of vertices of type `{name}`"),
                    "a type that has a table in node_data",
                )
            })
        };
        let relation = relations
            .binary_search(&kind)
            .unwrap_or_default()
            .to_string();
        let stated = Stated {
            kind: Some(&relation),
            source: Some(of(source)?),
            target: Some(of(target)?),
        };
        edges.add(&mut table, columns, stated)?;
    }
    let found = edges.finish(notes)?;
    let mut data = GraphData::new("", found.topology);
    data.ids = names;
    typed::describe(at, types, options.label_type.as_deref(), &mut data)?;
    Ok((data, found.dropped).into())
}
