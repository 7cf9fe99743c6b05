//! Tables of pairs of vertices, between which links are predicted.

use super::Import;
use super::edges::{Columns, open};
use super::ids::Ids;
use super::nodes::{SPLIT, flag, set};
use super::table::Row;
use crate::links::Pair;
use crate::read::syntax;
use crate::{GraphData, GraphError};
use std::path::Path;

/// Usual names of the column that says whether a pair is a link.
const LABEL: [&str; 4] = ["label", "link", "y", "class"];

/// Reads the pairs of a table: the ids of a source and a target in each row, and possibly whether the pair
/// is a link (1 or 0) and its split.
///
/// # Errors
/// A file that is no table; ids that no vertex of the graph has; other labels or splits.
pub fn pairs(path: &Path, data: &GraphData) -> Result<Vec<Pair>, GraphError> {
    let options = Import::default();
    let mut table = open(path, &options)?;
    let columns = Columns::of(&table, &options, &mut Vec::new())?;
    let label = table.chosen("label", None, &LABEL)?;
    let split = table.chosen("split-column", None, &SPLIT)?;
    let ids = Ids::of(&data.ids, &data.name)?;
    let at = table.at.clone();
    let vertex = |row: &Row, column: usize| {
        let id = row.text(&at, column)?;
        let found = match data.ids.is_empty() {
            true => id.parse().ok().filter(|v| *v < data.vertices()),
            false => ids.find(id),
        };
        found.ok_or_else(|| {
            let expected = match data.ids.is_empty() {
                true => format!(
                    "the number of a vertex, from 0 to {}",
                    data.vertices().saturating_sub(1)
                ),
                false => "the id of a vertex of the graph".to_owned(),
            };
            syntax(
                &at,
                row.line,
                format!("id `{}`", id.chars().take(40).collect::<String>()),
                expected,
            )
        })
    };
    let (mut row, mut pairs) = (Row::default(), Vec::new());
    while table.next(&mut row)? {
        pairs.push(Pair {
            source: vertex(&row, columns.source)?,
            target: vertex(&row, columns.target)?,
            is_link: match label {
                Some(column) if !row.field(column).is_empty() => {
                    let of = format!("column {}", table.name(column));
                    Some(flag(&at, &row, column, &of)?)
                }
                Some(_) | None => None,
            },
            split: match split {
                Some(column) => set(&at, row.line, row.text(&at, column)?)?,
                None => None,
            },
        });
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Names, example};

    fn read(text: &str, names: &[&str]) -> Result<Vec<Pair>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pairs.csv");
        std::fs::write(&path, text).unwrap();
        let mut data = example::g8();
        data.ids = names.iter().copied().collect::<Names>();
        pairs(&path, &data).map_err(|error| error.to_string())
    }

    #[test]
    fn pairs_have_ids_labels_and_splits() {
        let pair = |source, target, is_link, split| Pair {
            source,
            target,
            is_link,
            split,
        };
        let found = read(
            "source,target,label,split\n0,3,1,train\n5,2,0,test\n1,1,,\n",
            &[],
        );
        let expected = [
            pair(0, 3, Some(true), Some(0)),
            pair(5, 2, Some(false), Some(2)),
            pair(1, 1, None, None),
        ];
        assert_eq!(found.unwrap(), expected);
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        assert_eq!(
            read("from\tto\nh\ta\n", &names).unwrap(),
            [pair(7, 0, None, None)]
        );
    }

    #[test]
    fn unknown_ids_and_labels_are_refused() {
        let said = |text: &str, names: &[&str]| read(text, names).unwrap_err();
        assert!(said("source,target\n0,8\n", &[]).contains("the number of a vertex, from 0 to 7"));
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        assert!(said("source,target\na,z\n", &names).contains("id `z`"));
        assert!(said("source,target,label\n0,1,2\n", &[]).contains("`2`"));
        assert!(said("source,target,split\n0,1,later\n", &[]).contains("split `later`"));
    }
}
