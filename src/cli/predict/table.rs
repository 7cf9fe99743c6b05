//! What is written about vertices, as columns.

use gnnc::graph::{GraphData, Names};
use gnnc::ir::graph::op::LabelKind;
use gnnc::{Embeddings, Predictions};

/// What a model says about some vertices of a graph.
pub struct Table<'a> {
    /// The graph.
    pub data: &'a GraphData,
    /// The vertices, in the order of the rows.
    pub wanted: &'a [usize],
    /// What is said about them.
    pub said: Said<'a>,
}

/// What a model says about vertices.
#[derive(Clone, Copy)]
pub enum Said<'a> {
    /// Classes, labels or numbers.
    Predictions {
        /// Those of all vertices.
        found: &'a Predictions,
        /// Whether the probabilities of classes are written too.
        probabilities: bool,
    },
    /// The rows of a tensor.
    Embeddings(&'a Embeddings),
}

/// A column of a table.
pub struct Column {
    /// Its name.
    pub name: String,
    /// A value for each row.
    pub values: Values,
}

/// The values of a column.
pub enum Values {
    /// Texts.
    Texts(Names),
    /// Whole numbers.
    Whole(Vec<i64>),
    /// Other numbers.
    Floats(Vec<f32>),
}

impl Values {
    /// The value of a row as text; empty behind the last one.
    pub fn text(&self, row: usize) -> String {
        let text = match self {
            Self::Texts(names) => names.get(row).map(str::to_owned),
            Self::Whole(numbers) => numbers.get(row).map(i64::to_string),
            Self::Floats(numbers) => numbers.get(row).map(f32::to_string),
        };
        text.unwrap_or_default()
    }
}

impl Table<'_> {
    /// The columns. `probability` names the one with the probability of a class.
    pub fn columns(&self, probability: &dyn Fn(&str) -> String) -> Vec<Column> {
        let mut columns = vec![Column {
            name: "id".to_owned(),
            values: self.ids(),
        }];
        match self.said {
            Said::Predictions {
                found,
                probabilities,
            } => {
                let row = |v: usize| found.row(v);
                let numbers = found.labels == LabelKind::Numbers;
                if !numbers {
                    columns.push(Column {
                        name: "class".to_owned(),
                        values: self.classes(found),
                    });
                }
                let name = |column: usize| match (numbers, found.width) {
                    (true, 1) => "value".to_owned(),
                    (true, _) => format!("value_{column}"),
                    (false, _) => probability(&self.class(column)),
                };
                let width = match numbers || probabilities {
                    true => found.width,
                    false => 0,
                };
                columns.extend((0..width).map(|column| self.floats(name(column), column, &row)));
            }
            Said::Embeddings(found) => {
                let row = |v: usize| found.row(v);
                let name = |column: usize| format!("embedding_{column}");
                let all = 0..found.width;
                columns.extend(all.map(|column| self.floats(name(column), column, &row)));
            }
        }
        columns
    }

    /// The ids of the vertices: texts, or numbers if the graph has no ids.
    pub fn ids(&self) -> Values {
        let ids = &self.data.ids;
        match ids.is_empty() {
            true => {
                let first = self.data.subjects().start as usize;
                let number = |v: &usize| if *v < first { *v } else { *v - first };
                Values::Whole(self.wanted.iter().map(|v| number(v) as i64).collect())
            }
            false => Values::Texts(self.wanted.iter().filter_map(|v| ids.get(*v)).collect()),
        }
    }

    /// The classes of the vertices: names, or numbers if the graph has no names. Several labels are
    /// separated by `;`.
    fn classes(&self, found: &Predictions) -> Values {
        let each = self.wanted.iter().map(|v| found.of(*v));
        match (found.labels, self.data.class_names.is_empty()) {
            (LabelKind::Class, true) => Values::Whole(each.flatten().map(|n| n as i64).collect()),
            (LabelKind::Class | LabelKind::Several | LabelKind::Numbers, _) => {
                let text = |classes: Vec<usize>| -> String {
                    let names: Vec<String> = classes.into_iter().map(|n| self.class(n)).collect();
                    names.join(";")
                };
                Values::Texts(each.map(text).collect())
            }
        }
    }

    /// The name of a class, or else its number.
    fn class(&self, number: usize) -> String {
        let name = self.data.class_names.get(number);
        name.map_or_else(|| number.to_string(), str::to_owned)
    }

    /// A column of the rows of the vertices.
    fn floats<'r>(&self, name: String, column: usize, row: &dyn Fn(usize) -> &'r [f32]) -> Column {
        let value = |v: &usize| row(*v).get(column).copied().unwrap_or(f32::NAN);
        Column {
            name,
            values: Values::Floats(self.wanted.iter().map(value).collect()),
        }
    }
}
