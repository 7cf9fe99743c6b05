//! The tables of a data set: the graphs one after the other, each with its own numbers of vertices.

use super::TABLE;
use crate::import::graphs::{Found, Graphs};
use crate::import::numbers::{Matrix, below, beside, list, matrix, unnamed};
use crate::import::table::Row;
use crate::import::{Import, several_graphs};
use crate::read::{place, syntax};
use crate::topology::check_vertices;
use crate::{EdgeFeatures, GraphData, GraphError, ListedEdge, Topology};
use gnnc_ir::words::spelling::counted;
use std::path::{Path, PathBuf};

/// Largest number in a list of sizes.
const MOST: u64 = u32::MAX as u64;

/// Numbers of vertices or edges, one for each graph.
struct Sizes {
    at: String,
    of: Vec<u32>,
}

impl Sizes {
    fn read(path: &Path) -> Result<Self, GraphError> {
        Ok(Self {
            at: place(path),
            of: list(path, MOST)?,
        })
    }

    fn sum(&self) -> u64 {
        self.of.iter().map(|size| u64::from(*size)).sum()
    }
}

/// The graphs of a data set, as its lists of sizes say.
struct Lists {
    vertices: Sizes,
    /// Known unless there is one graph.
    edges: Option<Sizes>,
}

/// Reads the graphs of a data set.
///
/// # Errors
/// Tables that are missing, damaged, or that do not fit each other.
pub(super) fn read(raw: &Path, options: &Import) -> Result<Found, GraphError> {
    let found = |name: &str| beside(raw, name, &TABLE);
    let (Some(edges), Some(sizes)) = (found("edge"), found("num-node-list")) else {
        return Err(GraphError::Unsupported {
            at: place(raw),
            found: "a folder without a graph".to_owned(),
            expected: "edge.csv.gz and num-node-list.csv.gz, or data.npz, as in the folder of a \
                       data set of OGB"
                .to_owned(),
        });
    };
    let lists = Lists {
        vertices: Sizes::read(&sizes)?,
        edges: found("num-edge-list")
            .map(|path| Sizes::read(&path))
            .transpose()?,
    };
    let of_graphs = found("graph-label");
    let is_many = lists.vertices.of.len() != 1 || of_graphs.is_some();
    if is_many {
        lists.check_many(raw, of_graphs.is_some() || options.labels.is_some())?;
    }
    let vertices = check_vertices(&lists.vertices.at, lists.vertices.sum().into(), 0)?;
    let features = found("node-feat").map(|path| matrix(&path)).transpose()?;
    if let Some(features) = &features {
        features.check_rows(vertices as usize, &lists.vertices.at)?;
    }
    let labels = if is_many {
        let path = of_graphs.filter(|_| options.labels.is_none());
        labels_of_graphs(path, &lists)?
    } else {
        labels_of_vertices(found("node-label"), &lists, vertices)?
    };
    let keys = lists.read_edges(&edges)?;
    // What a table does not describe takes memory all the same.
    let is_described = features.is_some() || (!is_many && labels.is_some());
    let most = (keys.len() as u64)
        .saturating_mul(16)
        .saturating_add(1 << 20);
    if !is_described && u64::from(vertices) > most {
        return Err(GraphError::TooManyVertices {
            at: lists.vertices.at,
            found: vertices.into(),
            edges: keys.len() as u64,
            limit: most,
        });
    }
    let numbers = found("edge-feat").map(|path| matrix(&path)).transpose()?;
    if let Some(numbers) = &numbers {
        numbers.check_rows(keys.len(), &place(&edges))?;
    }
    let listed: Vec<ListedEdge> = match numbers {
        None => Vec::new(),
        Some(_) => keys.iter().map(|key| ListedEdge::of_key(*key)).collect(),
    };
    let (topology, dropped) = Topology::from_keys(vertices, keys)?;
    let mut edge_features = EdgeFeatures::default();
    if let Some(Matrix {
        columns, values, ..
    }) = numbers
    {
        edge_features = EdgeFeatures::in_order(&topology, listed, columns, &values);
    }
    let mut data = GraphData::new("", topology);
    data.edge_features = edge_features;
    if let Some(features) = features {
        data.features = features.features();
    }
    if let Some(labels) = labels {
        data.labels = labels.labels();
    }
    let graphs = is_many.then(|| lists.graphs());
    if let Some(graphs) = &graphs {
        data.set_splits_of(graphs.count as usize);
    }
    Ok(Found {
        data,
        dropped,
        graphs,
    })
}

/// Reads the labels of the only graph's vertices.
fn labels_of_vertices(
    path: Option<PathBuf>,
    lists: &Lists,
    vertices: u32,
) -> Result<Option<Matrix>, GraphError> {
    let labels = path.map(|path| matrix(&path)).transpose()?;
    if let Some(labels) = &labels {
        labels.check_rows(vertices as usize, &lists.vertices.at)?;
    }
    Ok(labels)
}

/// Reads the labels of many graphs.
fn labels_of_graphs(path: Option<PathBuf>, lists: &Lists) -> Result<Option<Matrix>, GraphError> {
    let labels = path.map(|path| matrix(&path)).transpose()?;
    if let Some(labels) = &labels {
        labels.check_rows(lists.vertices.of.len(), &lists.vertices.at)?;
        labels.check_labels()?;
    }
    Ok(labels)
}

impl Lists {
    /// Checks that the tables say what there is to know about many graphs.
    fn check_many(&self, raw: &Path, has_labels: bool) -> Result<(), GraphError> {
        let graphs = self.vertices.of.len();
        if graphs == 0 {
            return Err(several_graphs(&self.vertices.at, 0));
        }
        let lacks = |file: &str, expected: &str| GraphError::Unsupported {
            at: place(raw),
            found: format!("a data set of {} without {file}", counted(graphs, "graph")),
            expected: expected.to_owned(),
        };
        if !has_labels {
            let expected = "a row of labels for each graph there, or labels as --labels FILE";
            return Err(lacks("graph-label.csv.gz", expected));
        }
        let Some(edges) = &self.edges else {
            let expected = "the number of edges of each graph there";
            return Err(lacks("num-edge-list.csv.gz", expected));
        };
        if edges.of.len() != graphs {
            return Err(GraphError::Unsupported {
                at: edges.at.clone(),
                found: counted(edges.of.len(), "row"),
                expected: format!("{graphs}, as many as {} has", self.vertices.at),
            });
        }
        Ok(())
    }

    /// Reads the edges as `target << 32 | source`, numbers of vertices among those of all graphs. The
    /// sum of these fits 32 bits.
    fn read_edges(&self, path: &Path) -> Result<Vec<u64>, GraphError> {
        let mut table = unnamed(path)?;
        let at = table.at.clone();
        let (mut keys, mut row) = (Vec::new(), Row::default());
        let mut first = 0;
        for (graph, size) in self.vertices.of.iter().enumerate() {
            let count = match &self.edges {
                Some(edges) if self.vertices.of.len() > 1 => u64::from(edges.of[graph]),
                _ => u64::MAX,
            };
            let mut read = 0;
            while read < count && table.next(&mut row)? {
                let end = |column| -> Result<u64, GraphError> {
                    let vertex = below(&at, &row, column, MOST)?;
                    if vertex < *size {
                        return Ok(first + u64::from(vertex));
                    }
                    let has = counted(size, "vertex");
                    let expected = match size {
                        0 => format!("no edges of graph {graph}, which has {has}"),
                        _ => format!("a number from 0 to {}: graph {graph} has {has}", size - 1),
                    };
                    Err(syntax(&at, row.line, format!("`{vertex}`"), expected))
                };
                keys.push(end(1)? << 32 | end(0)?);
                read += 1;
            }
            first += u64::from(*size);
        }
        let mut found = keys.len() as u64;
        while table.next(&mut row)? {
            found += 1;
        }
        match &self.edges {
            Some(edges) if edges.sum() != found => Err(GraphError::Unsupported {
                at,
                found: counted(found, "row"),
                expected: format!("{}, as many as {} says", edges.sum(), edges.at),
            }),
            _ => Ok(keys),
        }
    }

    /// The graph of each vertex.
    fn graphs(&self) -> Graphs {
        let graphs = (0..).zip(&self.vertices.of);
        let of = graphs.flat_map(|(graph, size)| std::iter::repeat_n(graph, *size as usize));
        Graphs {
            of: of.collect(),
            count: self.vertices.of.len() as u32,
            ids: Default::default(),
        }
    }
}
