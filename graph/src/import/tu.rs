//! The folder of a data set of graphs of TU Dortmund, as PyTorch Geometric's `TUDataset` downloads it:
//! `NAME_A.txt` has the edges, `NAME_graph_indicator.txt` the graph of each vertex, and others have a
//! row for each vertex, edge or graph. Everything is numbered from 1, over all graphs.

use super::graphs::{Found, Graphs};
use super::numbers::{Integers, Matrix, from_one, integers, matrix, unnamed};
use super::one_hot::OneHot;
use super::table::Row;
use super::{Import, Note};
use crate::names::Names;
use crate::read::{place, syntax};
use crate::topology::check_vertices;
use crate::{EdgeFeatures, Features, GraphData, GraphError, Labels, ListedEdge, Topology};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::workload::MAX_WIDTH;
use std::path::{Path, PathBuf};

/// The end of the name of the table of edges.
const EDGES: &str = "_A.txt";
/// Most labels of edges: an edge has a number for each.
const MOST_EDGE_LABELS: u32 = 64;
/// Most classes of graphs.
const MOST_CLASSES: usize = 1 << 16;

/// The tables of a data set.
struct Tables {
    folder: PathBuf,
    /// The beginning of their names.
    name: String,
}

/// Whether a folder holds a data set.
pub(super) fn is(folder: &Path) -> bool {
    !tables(folder).is_empty()
}

/// The data sets in a folder, or in `raw` in it, where PyTorch Geometric keeps them.
fn tables(folder: &Path) -> Vec<Tables> {
    for folder in [folder.to_owned(), folder.join("raw")] {
        let entries = folder.read_dir().into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                name.strip_suffix(EDGES).map(str::to_owned)
            })
            .collect();
        names.sort_unstable();
        if !names.is_empty() {
            let of_name = |name| Tables {
                folder: folder.clone(),
                name,
            };
            return names.into_iter().map(of_name).collect();
        }
    }
    Vec::new()
}

/// Reads a data set.
///
/// # Errors
/// A folder that holds none or several, or tables that are damaged or do not fit each other.
pub(super) fn read(options: &Import, notes: &mut Vec<Note>) -> Result<Found, GraphError> {
    let folder = &options.edges;
    let mut all = tables(folder);
    let tables = match (all.pop(), &all[..]) {
        (Some(tables), []) => tables,
        (_, others) => {
            return Err(GraphError::Unsupported {
                at: place(folder),
                found: format!("a folder of {}", counted(others.len() + 1, "data set")),
                expected: format!("one file NAME{EDGES}; give each data set a folder of its own"),
            });
        }
    };
    let labels = tables.labels(options, notes)?;
    let graphs = tables.graphs(labels.as_ref())?;
    let mut found = tables.edges(graphs)?;
    let vertices = found.data.vertices() as usize;
    found.data.features = tables.features(vertices, notes)?;
    if let Some(OfGraphs { labels, names, .. }) = labels {
        (found.data.labels, found.data.class_names) = (labels, names);
    }
    if options.shares.is_none() && options.splits.is_none() {
        let place = place(folder);
        notes.push(Note(format!(
            "{place}: no split; --split makes a random one"
        )));
    }
    Ok(found)
}

/// Labels of graphs.
struct OfGraphs {
    at: String,
    graphs: usize,
    labels: Labels,
    /// The numbers of the classes in the data set, unless they count from 0.
    names: Names,
}

impl Tables {
    /// The path of a table.
    fn path(&self, part: &str) -> PathBuf {
        self.folder.join(format!("{}_{part}.txt", self.name))
    }

    /// The path of a table that may be missing.
    fn optional(&self, part: &str) -> Option<PathBuf> {
        Some(self.path(part)).filter(|path| path.is_file())
    }

    /// The path of a table that must be there.
    fn required(&self, part: &str, what: &str) -> Result<PathBuf, GraphError> {
        self.optional(part).ok_or_else(|| GraphError::Unsupported {
            at: place(&self.folder),
            found: format!("a data set without {}_{part}.txt", self.name),
            expected: format!("{what} there; unpack the whole data set"),
        })
    }

    /// Reads the labels of the graphs, unless the options have others: numbers if there are any, or else
    /// classes.
    fn labels(
        &self,
        options: &Import,
        notes: &mut Vec<Note>,
    ) -> Result<Option<OfGraphs>, GraphError> {
        if options.labels.is_some() {
            return Ok(None);
        }
        let Some(path) = self.optional("graph_attributes") else {
            let what = "a row with the class of each graph (or of numbers in graph_attributes)";
            let path = self.required("graph_labels", what)?;
            return classes(integers(&path)?).map(Some);
        };
        if let Some(classes) = self.optional("graph_labels") {
            notes.push(Note(format!(
                "{}: not used, since {} has labels that are numbers",
                place(&classes),
                place(&path)
            )));
        }
        let numbers = matrix(&path)?;
        numbers.check_labels()?;
        Ok(Some(OfGraphs {
            at: numbers.at,
            graphs: numbers.rows,
            labels: Labels::Values {
                width: numbers.columns,
                values: numbers.values,
            },
            names: Names::default(),
        }))
    }

    /// Reads the graph of each vertex. There are as many graphs as labels, if these are known.
    fn graphs(&self, labels: Option<&OfGraphs>) -> Result<Graphs, GraphError> {
        let path = self.required("graph_indicator", "the graph of each vertex")?;
        let mut table = unnamed(&path)?;
        let at = table.at.clone();
        let (mut of, mut last, mut row) = (Vec::new(), 0, Row::default());
        while table.next(&mut row)? {
            let graph = from_one(&at, &row, 0, u32::MAX - 1)?;
            // A number in a small file may be any; vertices are there.
            let most = labels.map_or(of.len() + 1, |labels| labels.graphs);
            if graph as usize >= most {
                let found = format!("graph {}", graph + 1);
                let expected = match labels {
                    None => "no more graphs than vertices".to_owned(),
                    Some(labels) => {
                        let rows = counted(labels.graphs, "row");
                        format!("one of the graphs in {}, which has {rows}", labels.at)
                    }
                };
                return Err(syntax(&at, row.line, found, expected));
            }
            if graph < last {
                let found = format!("graph {} behind graph {}", graph + 1, last + 1);
                let expected = "the vertices of each graph together, in the order of the graphs";
                return Err(syntax(&at, row.line, found, expected));
            }
            last = graph;
            of.push(graph);
        }
        let count = if of.is_empty() { 0 } else { last + 1 };
        match labels {
            Some(labels) if labels.graphs != count as usize => Err(GraphError::Unsupported {
                at: labels.at.clone(),
                found: counted(labels.graphs, "row"),
                expected: format!("{count}, as many graphs as {at} has; one of them is truncated"),
            }),
            _ => Ok(Graphs {
                of,
                count,
                ids: Names::default(),
            }),
        }
    }

    /// Reads the edges and their features.
    fn edges(&self, graphs: Graphs) -> Result<Found, GraphError> {
        let mut table = unnamed(&self.path("A"))?;
        let at = table.at.clone();
        let vertices = check_vertices(&at, graphs.of.len() as u128, 0)?;
        let (mut keys, mut row) = (Vec::new(), Row::default());
        while table.next(&mut row)? {
            let source = from_one(&at, &row, 0, vertices)?;
            let target = from_one(&at, &row, 1, vertices)?;
            let [of_source, of_target] = [source, target].map(|v| graphs.of[v as usize]);
            if of_source != of_target {
                let found = format!(
                    "an edge from vertex {} of graph {} to vertex {} of graph {}",
                    source + 1,
                    of_source + 1,
                    target + 1,
                    of_target + 1
                );
                return Err(syntax(&at, row.line, found, "edges within each graph"));
            }
            keys.push(u64::from(target) << 32 | u64::from(source));
        }
        let numbers = self.features_of_edges(keys.len(), &at)?;
        let listed: Vec<ListedEdge> = match numbers {
            None => Vec::new(),
            Some(_) => keys.iter().map(|key| ListedEdge::of_key(*key)).collect(),
        };
        let (topology, dropped) = Topology::from_keys(vertices, keys)?;
        let edge_features = match numbers {
            None => EdgeFeatures::default(),
            Some(Matrix {
                columns, values, ..
            }) => EdgeFeatures::in_order(&topology, listed, columns, &values),
        };
        let mut data = GraphData::new("", topology);
        data.edge_features = edge_features;
        data.set_splits_of(graphs.count as usize);
        Ok(Found {
            data,
            dropped,
            graphs: Some(graphs),
        })
    }

    /// Reads the numbers of the edges: attributes, and a column for each label.
    fn features_of_edges(&self, edges: usize, at: &str) -> Result<Option<Matrix>, GraphError> {
        let attributes = self.numbers("edge_attributes", edges, at)?;
        let Some(labels) = self.optional("edge_labels") else {
            return Ok(attributes);
        };
        let labels = integers(&labels)?;
        labels.check_rows(edges, at)?;
        Ok(Some(
            OneHot::of(labels, MOST_EDGE_LABELS)?.dense(attributes),
        ))
    }

    /// Reads the features of the vertices in the same way.
    fn features(&self, vertices: usize, notes: &mut Vec<Note>) -> Result<Features, GraphError> {
        let by = place(&self.path("graph_indicator"));
        let attributes = self.numbers("node_attributes", vertices, &by)?;
        let Some(labels) = self.optional("node_labels") else {
            return Ok(match attributes {
                Some(attributes) => attributes.features(),
                None => {
                    notes.push(Note(format!(
                        "{}: vertices without features; --features FILE.npy gives them some",
                        place(&self.folder)
                    )));
                    Features::None
                }
            });
        };
        let labels = integers(&labels)?;
        labels.check_rows(vertices, &by)?;
        let before = attributes.as_ref().map_or(0, |numbers| numbers.columns);
        let one_hot = OneHot::of(labels, MAX_WIDTH.saturating_sub(before))?;
        Ok(one_hot.features(vertices, attributes.as_ref()))
    }

    /// Reads rows of numbers that may be missing.
    fn numbers(&self, part: &str, rows: usize, by: &str) -> Result<Option<Matrix>, GraphError> {
        let Some(path) = self.optional(part) else {
            return Ok(None);
        };
        let numbers = matrix(&path)?;
        numbers.check_rows(rows, by)?;
        Ok(Some(numbers))
    }
}

/// The classes of graphs, from 0 in ascending order of their numbers.
fn classes(numbers: Integers) -> Result<OfGraphs, GraphError> {
    let wrong = |found: String, expected: String| GraphError::Unsupported {
        at: numbers.at.clone(),
        found,
        expected,
    };
    if numbers.columns != 1 && numbers.rows > 0 {
        let found = format!("rows of {}", counted(numbers.columns, "number"));
        let expected = "the class of each graph; numbers to predict belong in graph_attributes";
        return Err(wrong(found, expected.to_owned()));
    }
    let mut sorted = numbers.values.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() > MOST_CLASSES {
        let expected =
            format!("at most {MOST_CLASSES}; numbers to predict belong in graph_attributes");
        return Err(wrong(counted(sorted.len(), "class"), expected));
    }
    let place = |number: &i64| {
        sorted
            .binary_search(number)
            .map_or(-1, |class| class as i32)
    };
    let names: Names = if sorted.iter().copied().eq(0..sorted.len() as i64) {
        Names::default()
    } else {
        sorted.iter().map(i64::to_string).collect()
    };
    Ok(OfGraphs {
        graphs: numbers.rows,
        labels: Labels::Single(numbers.values.iter().map(place).collect()),
        names,
        at: numbers.at,
    })
}
