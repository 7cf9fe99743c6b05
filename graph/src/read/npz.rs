//! `.npz` archives; `docs/data.md` lists the arrays of each layout.

mod edge_features;
mod features;
mod graphs;
pub(crate) mod labels;
mod mapped;
mod ogb;
mod pyg;
mod samples;
mod scipy;
mod types;
mod vertex_types;

pub(crate) use ogb::ogb;

use super::LoadOptions;
use super::array::{Array, Header, names};
use super::zip_names::repeated;
use crate::csr::check_indptr;
use crate::error::shape_text;
use crate::topology::{Dropped, check_vertices};
use crate::values::{LEAST_MAPPED, map};
use crate::{EdgeFeatures, GraphData, GraphError, Names, Topology};
use features::{features, places};
use memmap2::Mmap;
use samples::Samples;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::sync::Arc;
use types::Types;
use zip::ZipArchive;
use zip::result::ZipError;

/// The array of a number or a row for each index.
const EDGE_FEATURES: &str = "edge_features";

/// Best compression ratio of deflate; an entry that claims more is lying.
const MAX_DEFLATE_RATIO: u64 = 1032;

/// Reads an archive. `at` is its name in messages.
pub fn read(
    at: &str,
    reader: impl Read + Seek,
    options: &LoadOptions,
) -> Result<(GraphData, Dropped), GraphError> {
    graph(Arrays::open(at, reader)?, options)
}

/// Reads an archive of a file, in which large lists of edges are used where they are. The file must not change as long as
/// the graph is in use.
///
/// # Errors
/// As [`read`].
pub(super) fn of_file(
    at: &str,
    file: &File,
    options: &LoadOptions,
) -> Result<(GraphData, Dropped), GraphError> {
    let mut arrays = Arrays::open(at, BufReader::new(file))?;
    // What cannot be mapped is read.
    arrays.map = map(file).ok();
    graph(arrays, options)
}

/// The graph of an archive.
fn graph<R: Read + Seek>(
    mut arrays: Arrays<R>,
    options: &LoadOptions,
) -> Result<(GraphData, Dropped), GraphError> {
    let at = arrays.at.clone();
    let pyg = arrays.has("edge_index");
    let edges = if pyg {
        pyg::edges(&mut arrays)?
    } else if arrays.has("adj_indptr") {
        let (topology, dropped) = adjacency(&mut arrays)?;
        Edges::plain(topology, dropped)
    } else if arrays.has("format") {
        let (topology, dropped) = scipy::topology(&mut arrays)?;
        Edges::plain(topology, dropped)
    } else {
        in_neighbours(&mut arrays)?
    };
    let vertices = edges.topology.vertices() as usize;
    let graph_of = graphs::graph_of(&mut arrays, vertices)?;
    if let Some(stated) = options.vertices.filter(|&n| n as usize != vertices) {
        return Err(GraphError::WrongLength {
            at,
            unit: "vertices",
            found: vertices as u64,
            expected: u64::from(stated),
        });
    }
    let samples = Samples::of(&mut arrays, vertices)?;
    if samples.is_some() {
        Samples::refuse_lists(&arrays)?;
    }
    let places = match graph_of {
        None => places(&mut arrays, vertices)?,
        Some(_) => Vec::new(),
    };
    let (edges, places) = match samples {
        Some(samples) => (samples.edges(edges)?, samples.places(&places)),
        None => (edges, places),
    };
    let topology = edges.topology.on_curve(places)?;
    let (mut data, mut dropped) = (GraphData::new("", topology), edges.dropped);
    if let Some(many) = &graph_of {
        data.set_splits_of(many.graphs as usize);
    }
    data.edge_features = edges.features;
    let rows = |array: Array| match samples {
        Some(samples) => samples.rows(array),
        None => Ok(array),
    };
    let in_place = match samples {
        None => mapped::features(&mut arrays)?,
        Some(_) => None,
    };
    data.features = match in_place {
        Some(features) => features,
        None => features(&mut arrays, &rows)?,
    };
    let copies = samples.map_or(1, Samples::count);
    vertex_types::read(&mut arrays, &mut data, copies)?;
    if let Some(array) = arrays.optional("labels")? {
        data.labels = labels::labels(&rows(array)?)?;
    } else if pyg && let Some(array) = arrays.optional("y")? {
        data.labels = labels::pyg(&rows(array)?)?;
    }
    if pyg {
        pyg::splits(&mut arrays, &mut data)?;
    }
    for (name, mask) in [
        ("train_mask", &mut data.train),
        ("val_mask", &mut data.val),
        ("test_mask", &mut data.test),
    ] {
        if let Some(array) = arrays.optional(name)? {
            *mask = match samples {
                Some(samples) => samples.mask(array)?,
                None => array.mask()?,
            };
        }
    }
    for (name, texts) in [
        ("vertex_ids", &mut data.ids),
        ("class_names", &mut data.class_names),
    ] {
        if let Some(array) = arrays.names(name)? {
            *texts = array;
        }
    }
    data.subjects = graphs::count(&mut arrays, &data)?;
    dropped.not_used.extend(arrays.not_used());
    if let Some(many) = graph_of {
        data = graphs::joined(&at, data, &many)?;
    }
    Ok((data, dropped))
}

/// Bytes that an entry of an archive can have.
fn possible(claimed: u64, compressed: u64) -> u64 {
    let most = compressed.saturating_mul(MAX_DEFLATE_RATIO);
    claimed.min(most.saturating_add(1024))
}

/// The edges of an archive.
struct Edges {
    topology: Topology,
    features: EdgeFeatures,
    dropped: Dropped,
}

impl Edges {
    /// Edges that have no numbers.
    fn plain(topology: Topology, dropped: Dropped) -> Self {
        Self {
            topology,
            features: EdgeFeatures::default(),
            dropped,
        }
    }
}

/// The arrays of an archive, read one at a time.
pub(crate) struct Arrays<R> {
    at: String,
    /// Names that were read or looked up.
    asked: BTreeSet<String>,
    archive: ZipArchive<R>,
    /// The file, if there is one.
    map: Option<Arc<Mmap>>,
    /// Least bytes of a list that is used where it is.
    least_mapped: u64,
}

impl<R: Read + Seek> Arrays<R> {
    pub(crate) fn open(at: &str, mut reader: R) -> Result<Self, GraphError> {
        let damaged = |e: ZipError| GraphError::Archive {
            at: at.to_owned(),
            reason: e.to_string(),
        };
        let directory = ZipArchive::new(&mut reader).map_err(damaged)?;
        let start = directory.central_directory_start();
        if let Some(name) = repeated(&mut reader, start).map_err(|e| damaged(e.into()))? {
            let array = name.strip_suffix(".npy").unwrap_or(&name).escape_debug();
            return Err(GraphError::Unsupported {
                at: at.to_owned(),
                found: format!("an archive with two arrays `{array}`"),
                expected: "each array once; save the file again".to_owned(),
            });
        }
        Ok(Self {
            at: at.to_owned(),
            asked: BTreeSet::new(),
            archive: ZipArchive::new(reader).map_err(damaged)?,
            map: None,
            least_mapped: LEAST_MAPPED,
        })
    }

    fn has(&self, array: &str) -> bool {
        self.archive
            .index_for_name(&format!("{array}.npy"))
            .is_some()
    }

    /// Names of the arrays that were not used; only the first 20 of them.
    fn not_used(&self) -> Vec<String> {
        let names = self.archive.file_names();
        let mut names: Vec<&str> = names
            .map(|name| name.strip_suffix(".npy").unwrap_or(name))
            .filter(|name| !self.asked.contains(*name))
            .collect();
        names.sort_unstable();
        names.truncate(20);
        let shown = |name: &str| {
            let array = format!("`{}`", name.escape_debug());
            match name {
                "edge_weight" | "edge_weights" => format!("edge weights ({array})"),
                _ => array,
            }
        };
        names.into_iter().map(shown).collect()
    }

    pub(crate) fn required(&mut self, array: &str) -> Result<Array, GraphError> {
        match self.optional(array)? {
            Some(array) => Ok(array),
            None => {
                let mut present: Vec<&str> = self
                    .archive
                    .file_names()
                    .map(|n| n.trim_end_matches(".npy"))
                    .collect();
                present.sort_unstable();
                present.truncate(20);
                let present = if present.is_empty() {
                    "none".to_owned()
                } else {
                    present.join(", ")
                };
                Err(GraphError::MissingArray {
                    at: self.at.clone(),
                    array: array.to_owned(),
                    present,
                })
            }
        }
    }

    /// Bytes that an array takes in the archive.
    fn stored(&mut self, array: &str) -> u64 {
        let index = self.archive.index_for_name(&format!("{array}.npy"));
        let entry = index.and_then(|index| self.archive.by_index_raw(index).ok());
        entry.map_or(0, |entry| entry.compressed_size())
    }

    /// The rows of an array whose elements are not read; none if the archive is too small for them.
    fn rows(&mut self, array: &str) -> Result<Option<u64>, GraphError> {
        let Some(header) = self.header(array)? else {
            return Ok(None);
        };
        let index = self.archive.index_for_name(&format!("{array}.npy"));
        let entry = index.and_then(|index| self.archive.by_index_raw(index).ok());
        let bytes = entry.map_or(0, |entry| possible(entry.size(), entry.compressed_size()));
        let elements = header
            .shape
            .iter()
            .try_fold(1u64, |all, n| all.checked_mul(*n));
        let there = elements.is_some_and(|elements| elements <= bytes);
        // Samples come before the vertices.
        let rows = match header.shape[..] {
            [_, rows, _] => Some(rows),
            _ => header.shape.first().copied(),
        };
        Ok(rows.filter(|_| there))
    }

    /// The header of an array whose elements are not read.
    fn header(&mut self, array: &str) -> Result<Option<Header>, GraphError> {
        let Some(index) = self.archive.index_for_name(&format!("{array}.npy")) else {
            return Ok(None);
        };
        self.asked.insert(array.to_owned());
        let at = format!("{}: `{array}`", self.at);
        let damaged = |e: ZipError| GraphError::Archive {
            at: at.clone(),
            reason: e.to_string(),
        };
        let mut entry = self.archive.by_index(index).map_err(damaged)?;
        Header::read(&at, &mut entry).map(Some)
    }

    pub(crate) fn optional(&mut self, array: &str) -> Result<Option<Array>, GraphError> {
        self.entry(array, |at, mut entry, available| {
            Array::read(at, &mut entry, available)
        })
    }

    /// An array of texts.
    fn names(&mut self, array: &str) -> Result<Option<Names>, GraphError> {
        self.entry(array, names)
    }

    /// Reads an array, if there is one of the name, from its bytes, of which there are at most so many.
    fn entry<T>(
        &mut self,
        array: &str,
        read: impl FnOnce(String, &mut dyn Read, u64) -> Result<T, GraphError>,
    ) -> Result<Option<T>, GraphError> {
        self.asked.insert(array.to_owned());
        let Some(index) = self.archive.index_for_name(&format!("{array}.npy")) else {
            return Ok(None);
        };
        let at = format!("{}: `{array}`", self.at);
        let mut entry = self
            .archive
            .by_index(index)
            .map_err(|e| GraphError::Archive {
                at: at.clone(),
                reason: e.to_string(),
            })?;
        let available = possible(entry.size(), entry.compressed_size());
        read(at, &mut entry, available).map(Some)
    }
}

fn in_neighbours<R: Read + Seek>(arrays: &mut Arrays<R>) -> Result<Edges, GraphError> {
    if let Some(topology) = mapped::in_neighbours(arrays)? {
        let topology = graphs::with_sets(arrays, topology)?;
        return Ok(Edges::plain(topology, Dropped::default()));
    }
    let indptr = arrays.required("indptr")?;
    let indices = arrays.required("indices")?;
    let (vertices, indptr, indices) = rows(&indptr, &indices, None)?;
    let types = match arrays.optional("edge_type")? {
        Some(types) => {
            let relations = types::relations(arrays)?;
            Some(Types::read(&types, relations, indices.len())?)
        }
        None => None,
    };
    let mut listed = Vec::new();
    if types.is_some() || arrays.has(EDGE_FEATURES) {
        let kinds = types.as_ref().map(|types| &types.of[..]);
        listed = edge_features::listed(&indptr, &indices, kinds);
    }
    let (topology, dropped) = match types {
        Some(Types { relations, .. }) => {
            let edges = listed
                .iter()
                .map(|edge| (edge.source, edge.target, edge.kind));
            Topology::typed(vertices, relations, edges)?
        }
        None => untyped(vertices, indptr, indices)?,
    };
    let topology = graphs::with_sets(arrays, topology)?;
    let features = edge_features::read(arrays, &[EDGE_FEATURES], &topology, listed.into_iter())?;
    Ok(Edges {
        topology,
        features,
        dropped,
    })
}

/// A topology of rows in any order.
fn untyped(
    vertices: u32,
    indptr: Vec<u64>,
    indices: Vec<u32>,
) -> Result<(Topology, Dropped), GraphError> {
    let sorted = (0..vertices as usize).all(|v| {
        let row = &indices[indptr[v] as usize..indptr[v + 1] as usize];
        row.is_sorted_by(|a, b| a < b) && row.binary_search(&(v as u32)).is_err()
    });
    if sorted {
        return Ok((Topology::new(indptr, indices)?, Dropped::default()));
    }
    let edges = (0..vertices).flat_map(|v| {
        indices[indptr[v as usize] as usize..indptr[v as usize + 1] as usize]
            .iter()
            .map(move |&u| (u, v))
    });
    Topology::from_edges(vertices, edges)
}

fn adjacency<R: Read + Seek>(arrays: &mut Arrays<R>) -> Result<(Topology, Dropped), GraphError> {
    let [indptr, indices, shape] = [
        arrays.required("adj_indptr")?,
        arrays.required("adj_indices")?,
        arrays.required("adj_shape")?,
    ];
    let claimed = shape.offsets()?;
    let [n, m] = claimed[..] else {
        return Err(shape.wrong_shape("two numbers".to_owned()));
    };
    if n != m {
        return Err(GraphError::Shape {
            at: shape.at,
            found: shape_text(&claimed),
            expected: "a square matrix".to_owned(),
        });
    }
    let (vertices, indptr, indices) = rows(&indptr, &indices, Some(n))?;
    let of_row = |row: u32| indptr[row as usize] as usize..indptr[row as usize + 1] as usize;
    let ends = (0..vertices).flat_map(|u| indices[of_row(u)].iter().map(move |v| (u, *v)));
    Triples {
        vertices,
        ends: ends.collect(),
        weights: arrays.optional("adj_data")?,
        array: "adj_data",
    }
    .topology()
}

/// The entries of a sparse matrix.
struct Triples {
    vertices: u32,
    /// The source and the target of each.
    ends: Vec<(u32, u32)>,
    /// The array of their values, if there is one, and its name.
    weights: Option<Array>,
    array: &'static str,
}

impl Triples {
    /// The entries as edges, except those of weight 0.
    fn topology(mut self) -> Result<(Topology, Dropped), GraphError> {
        let all = self.ends.len();
        let mut weighted = false;
        if let Some(array) = &self.weights {
            if array.len() != all {
                return Err(array.wrong_shape(format!("({all}), one weight per index")));
            }
            let weights = array.floats();
            weighted = (weights.iter()).any(|&weight| weight != 0.0 && weight != 1.0);
            let mut own = weights.iter();
            self.ends.retain(|_| own.next() != Some(&0.0));
        }
        let zero_weights = (all - self.ends.len()) as u64;
        let not_used = weighted.then(|| format!("edge weights (`{}`)", self.array));
        let (topology, dropped) = Topology::from_edges(self.vertices, self.ends)?;
        Ok((
            topology,
            Dropped {
                zero_weights,
                not_used: not_used.into_iter().collect(),
                ..dropped
            },
        ))
    }
}

/// Row pointers and indices of a square matrix, checked.
fn rows(
    indptr: &Array,
    indices: &Array,
    stated: Option<u64>,
) -> Result<(u32, Vec<u64>, Vec<u32>), GraphError> {
    indptr.dimensions(1, "one dimension")?;
    indices.dimensions(1, "one dimension")?;
    let pointers = indptr.offsets()?;
    check_indptr(&indptr.at, &pointers, indices.len())?;
    let rows = pointers.len() as u64 - 1;
    if let Some(stated) = stated.filter(|&n| n != rows) {
        return Err(indptr.wrong_shape(format!("({}), one more than rows", u128::from(stated) + 1)));
    }
    let vertices = check_vertices(&indptr.at, u128::from(rows), indices.len() as u64)?;
    let indices = indices.indices(rows)?;
    Ok((vertices, pointers, indices))
}
