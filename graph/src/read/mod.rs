//! Reading data graphs from files.
//!
//! Each format has a file with a function that takes bytes, so tests need no files. Any bytes give
//! a graph or an error: nothing panics, and nothing is allocated just because a header says so.

mod array;
pub mod edges;
pub(crate) mod foreign;
pub mod metis;
pub mod mtx;
pub mod npy;
pub mod npz;
mod text;
mod zip_names;

pub(crate) use text::syntax;

use crate::topology::Dropped;
use crate::{GraphData, GraphError};
use gnnc_ir::words::spelling::counted;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

/// Longest text file accepted.
const MAX_TEXT: u64 = 1 << 40;
/// Longest text decompressed from a `.gz` file.
const MAX_GZIP_TEXT: u64 = 8 << 30;

/// Options for reading a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Add the reverse of every edge if it is missing. If edges have types, every edge gets a
    /// reverse with a type of its own.
    pub symmetrise: bool,
    /// A `.npy` file of dense features, for formats without features or to replace the file's.
    pub features: Option<PathBuf>,
    /// Number of vertices, if the file does not give it or to insist on it.
    pub vertices: Option<u32>,
}

/// A graph file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// NumPy archive in gnnc's or SciPy's layout.
    Npz,
    /// Matrix Market.
    MatrixMarket,
    /// METIS graph file.
    Metis,
    /// Edge list.
    Edges,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Npz, Self::MatrixMarket, Self::Metis, Self::Edges];

    /// The format a file name implies, ignoring `.gz` at the end.
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        match name.rsplit_once('.')?.1 {
            "npz" => Some(Self::Npz),
            "mtx" => Some(Self::MatrixMarket),
            "graph" | "metis" => Some(Self::Metis),
            "csv" | "tsv" | "txt" | "edges" | "edgelist" | "el" => Some(Self::Edges),
            _ => None,
        }
    }

    /// The format the first bytes of a file reveal, if any.
    fn of_content(start: &[u8]) -> Option<Self> {
        if start.starts_with(b"PK\x03\x04") {
            Some(Self::Npz)
        } else if start
            .get(..14)
            .is_some_and(|s| s.eq_ignore_ascii_case(b"%%MatrixMarket"))
        {
            Some(Self::MatrixMarket)
        } else {
            None
        }
    }
}

impl Format {
    /// The format of a file by its first bytes or its name; `None` if neither says it, or if the path is
    /// standard input.
    ///
    /// # Errors
    /// A file that cannot be read, or that belongs to another program.
    pub(crate) fn of_path(path: &Path) -> Result<Option<Self>, GraphError> {
        if path == Path::new("-") {
            return Ok(None);
        }
        let start = start(path)?;
        foreign::check(path, &start)?;
        Ok(Self::of_content(&start).or_else(|| Self::of_name(path)))
    }
}

/// The first bytes of a file.
fn start(path: &Path) -> Result<Vec<u8>, GraphError> {
    let mut start = Vec::new();
    let read = gnnc_files::open(path)
        .and_then(|file| file.take(foreign::SEEN as u64).read_to_end(&mut start));
    match read {
        Ok(_) => Ok(start),
        Err(source) => Err(GraphError::Io {
            file: path.to_owned(),
            source,
        }),
    }
}

/// Reads a graph file. The content determines the format if it can, otherwise the name does.
/// Features come in the storage that suits them
/// ([`Features::in_best_storage`](crate::Features::in_best_storage)).
///
/// # Errors
/// A file that cannot be read or does not follow its format, or an invalid graph
/// ([`GraphData::validate`]).
pub fn load(path: impl AsRef<Path>, options: &LoadOptions) -> Result<GraphData, GraphError> {
    load_counting(path, options).map(|(data, _)| data)
}

/// Like [`load`], and returns what was left out: self loops, repeated edges, edges of weight 0, and
/// anything no model can use.
///
/// # Errors
/// As [`load`].
pub fn load_counting(
    path: impl AsRef<Path>,
    options: &LoadOptions,
) -> Result<(GraphData, Dropped), GraphError> {
    let path = path.as_ref();
    let at = place(path);
    let failed = |source| GraphError::Io {
        file: path.to_owned(),
        source,
    };
    let start = start(path)?;
    foreign::check(path, &start)?;
    let format = Format::of_content(&start)
        .or_else(|| Format::of_name(path))
        .ok_or_else(|| {
            let found = match &start[..] {
                [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => {
                    "a single array; pass it as --features of a graph"
                }
                [] => "an empty file",
                _ => "neither its name nor its content is known",
            };
            GraphError::UnknownFormat {
                at: at.clone(),
                found: found.to_owned(),
            }
        })?;
    let (mut data, dropped) = if format == Format::Npz {
        npz::of_file(&at, &gnnc_files::open(path).map_err(failed)?, options)?
    } else if start.starts_with(&[0x1f, 0x8b]) {
        let mut text = Vec::new();
        flate2::read::MultiGzDecoder::new(gnnc_files::open(path).map_err(failed)?)
            .take(MAX_GZIP_TEXT + 1)
            .read_to_end(&mut text)
            .map_err(|e| GraphError::Archive {
                at: at.clone(),
                reason: e.to_string(),
            })?;
        if text.len() as u64 > MAX_GZIP_TEXT {
            return Err(GraphError::Unsupported {
                at,
                found: "a text of more than 8 GiB in a .gz file".to_owned(),
                expected: "a smaller one, or the decompressed file".to_owned(),
            });
        }
        let format = Format::of_content(&text).unwrap_or(format);
        parse(format, &at, &text, options)?
    } else {
        parse(
            format,
            &at,
            &gnnc_files::read(path, MAX_TEXT).map_err(failed)?,
            options,
        )?
    };
    data.name = name(path);
    if let Some(features) = &options.features {
        let features = npy::map(features)?;
        data.set_own_features(features);
    }
    Ok((finish(&at, data, options)?, dropped))
}

/// Reads a graph from the bytes of a file. Ignores [`LoadOptions::features`].
///
/// # Errors
/// As [`load`].
pub fn parse_bytes(
    format: Format,
    bytes: &[u8],
    options: &LoadOptions,
) -> Result<GraphData, GraphError> {
    let (data, _) = parse(format, "graph", bytes, options)?;
    finish("graph", data, options)
}

fn parse(
    format: Format,
    at: &str,
    bytes: &[u8],
    options: &LoadOptions,
) -> Result<(GraphData, Dropped), GraphError> {
    let (topology, dropped) = match format {
        Format::Npz => return npz::read(at, Cursor::new(bytes), options),
        Format::MatrixMarket => mtx::parse(at, bytes, options)?,
        Format::Metis => metis::parse(at, bytes, options)?,
        Format::Edges => edges::parse(at, bytes, options)?,
    };
    Ok((GraphData::new("graph", topology), dropped))
}

/// Checks a graph as it was read, adds reverse edges if they are asked for, and stores features as suits
/// them.
///
/// # Errors
/// An invalid graph ([`GraphData::validate`]).
pub(crate) fn finish(
    at: &str,
    mut data: GraphData,
    options: &LoadOptions,
) -> Result<GraphData, GraphError> {
    let problems = data.validate();
    if !problems.is_empty() {
        return Err(GraphError::Invalid {
            at: at.to_owned(),
            problems,
        });
    }
    if options.symmetrise {
        add_reverses(&mut data)?;
    }
    data.features = data.features.in_best_storage();
    Ok(data)
}

/// Adds the missing reverse edges, which have the numbers of their edges.
///
/// # Errors
/// As [`Topology::with_reverses`](crate::Topology::with_reverses).
pub(crate) fn add_reverses(data: &mut GraphData) -> Result<(), GraphError> {
    let both = data.topology.with_reverses()?;
    if data.edge_features.columns > 0 {
        data.edge_features = data.edge_features.with_reverses(&data.topology, &both);
    }
    data.topology = both;
    Ok(())
}

/// The error about a data set of several graphs, which are for predictions about whole graphs.
pub(crate) fn several_graphs(at: &str, graphs: u64) -> GraphError {
    GraphError::Unsupported {
        at: at.to_owned(),
        found: format!("a data set of {}", counted(graphs, "graph")),
        expected: "one graph, whose vertices have labels".to_owned(),
    }
}

/// Reads an array of a `.npy` file.
///
/// # Errors
/// A file that is none.
pub(crate) fn array_file(path: &Path) -> Result<array::Array, GraphError> {
    let bytes = gnnc_files::read(path, MAX_TEXT).map_err(|source| GraphError::Io {
        file: path.to_owned(),
        source,
    })?;
    array::Array::read(place(path), &mut &bytes[..], bytes.len() as u64)
}

/// The name of a file in messages.
pub(crate) fn place(path: &Path) -> String {
    path.display().to_string()
}

/// The name of a graph: the file name without the extensions that tell the format.
pub(crate) fn name(path: &Path) -> String {
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    stem.rsplit_once('.')
        .map_or(stem, |(stem, _)| stem)
        .to_owned()
}
