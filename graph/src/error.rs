//! Errors in a data graph or its file.

mod problem;

pub use problem::{Labeled, Problem};

use gnnc_ir::words::spelling::counted;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a graph could not be read, built, partitioned or written.
///
/// `at` names the place: a file, and the array in it if any.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// The operating system refused to read or write.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The operating system refused a file for data that memory does not hold.
    #[error("cannot use a temporary file in {}: {source}; free space there, or name another folder in TMPDIR", folder.display())]
    Temporary {
        /// Its folder.
        folder: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Neither the name nor the first bytes reveal the format.
    #[error(
        "{at}: unknown graph format ({found}); expected .npz, .mtx, .graph, or an edge list \
         (.csv, .tsv, .txt, .edges, each also with .gz); rename it or convert it"
    )]
    UnknownFormat {
        /// The file.
        at: String,
        /// What it looks like.
        found: String,
    },
    /// A file that belongs to another program.
    #[error("{at}: found {found}, expected a graph file; convert it in Python:\n{python}")]
    Foreign {
        /// The file.
        at: String,
        /// What it is.
        found: String,
        /// Lines of Python that convert it.
        python: String,
    },
    /// A zip or gzip container is damaged.
    #[error(
        "{at}: damaged archive: {reason}; the file is truncated or was altered, download it again"
    )]
    Archive {
        /// The file or the entry.
        at: String,
        /// The decoder's reason.
        reason: String,
    },
    /// The archive lacks an array that every known layout has.
    #[error(
        "{at}: no array `{array}` (there are: {present}); expected gnnc's layout (indptr, indices) or \
         SciPy's (adj_data, adj_indices, adj_indptr, adj_shape)"
    )]
    MissingArray {
        /// The file.
        at: String,
        /// The array that is missing.
        array: String,
        /// The arrays that are there.
        present: String,
    },
    /// The file is well formed, but contains something unsupported.
    #[error("{at}: {found} is not supported; expected {expected}")]
    Unsupported {
        /// The file or the array.
        at: String,
        /// What was found.
        found: String,
        /// What can be read, and a remedy.
        expected: String,
    },
    /// The header of an array cannot be read.
    #[error("{at}: bad array header: {found}; save the array again with numpy.save or numpy.savez")]
    ArrayHeader {
        /// The array.
        at: String,
        /// What is wrong with it.
        found: String,
    },
    /// A header claims more than the file can hold.
    #[error(
        "{at}: the header claims {claimed} bytes, but the file can hold at most {available}; it is \
         damaged or hostile, download it again"
    )]
    ClaimTooLarge {
        /// The array.
        at: String,
        /// Bytes that the header claims.
        claimed: u128,
        /// Bytes that can exist.
        available: u64,
    },
    /// The content is shorter or longer than its header says.
    #[error(
        "{at}: found {found} {unit}, but the header says {expected}; the file is truncated or was altered"
    )]
    WrongLength {
        /// The file or the array.
        at: String,
        /// What is counted.
        unit: &'static str,
        /// The number found.
        found: u64,
        /// The number expected.
        expected: u64,
    },
    /// The element type makes no sense for this array.
    #[error(
        "{at}: elements of type {found}, expected {expected}; convert the array with .astype(...)"
    )]
    ElementType {
        /// The array.
        at: String,
        /// Its type, as NumPy writes it.
        found: String,
        /// The types that can be read.
        expected: &'static str,
    },
    /// An array has the wrong shape.
    #[error("{at}: shape {found}, expected {expected}")]
    Shape {
        /// The array.
        at: String,
        /// Its shape.
        found: String,
        /// The expected shape.
        expected: String,
    },
    /// A row pointer starts, ascends or ends wrong.
    #[error("{at}: row pointer at position {position} is {found}, expected {expected}")]
    RowPointer {
        /// The array.
        at: String,
        /// Position in the array.
        position: usize,
        /// The value found.
        found: i128,
        /// What should.
        expected: String,
    },
    /// An index does not name a vertex (or a column).
    #[error("{at}: index {found} at position {position}, expected 0 to {}; {}", limit.saturating_sub(1), index_help(*found))]
    IndexOutOfRange {
        /// The array or the file.
        at: String,
        /// Position in the array, or line of the file.
        position: u64,
        /// The index.
        found: i128,
        /// One past the largest index allowed.
        limit: u64,
    },
    /// An element has none of its allowed values.
    #[error("{at}: {found} at position {position}, expected {expected}")]
    Element {
        /// The array.
        at: String,
        /// Position in the array.
        position: usize,
        /// The value found.
        found: i128,
        /// The values allowed.
        expected: &'static str,
    },
    /// The neighbors of a vertex are not in ascending order, or repeat.
    #[error(
        "{at}: the neighbors of vertex {vertex} are not strictly ascending ({before} is followed by \
         {after}); sort each vertex's neighbors and remove repeats"
    )]
    Unsorted {
        /// The topology.
        at: String,
        /// The row.
        vertex: u32,
        /// A neighbor.
        before: u32,
        /// The neighbor after it.
        after: u32,
    },
    /// A topology stores a self loop.
    #[error(
        "{at}: vertex {vertex} has a self loop; remove self loops, models add them where needed"
    )]
    SelfLoop {
        /// The topology.
        at: String,
        /// The vertex.
        vertex: u32,
    },
    /// A line of a text file cannot be read.
    #[error("{at}:{line}: found {found}, expected {expected}")]
    Syntax {
        /// The file.
        at: String,
        /// The line, from 1.
        line: u64,
        /// The text found.
        found: String,
        /// What should.
        expected: String,
    },
    /// More vertices than the file can plausibly mean, or than an index can hold.
    #[error(
        "{at}: {found} vertices for {}, more than the limit of {limit}; number the vertices \
         consecutively from 0, or save the graph as .npz, which states their number",
        counted(edges, "edge")
    )]
    TooManyVertices {
        /// The file.
        at: String,
        /// Vertices claimed.
        found: u128,
        /// Edges in the file.
        edges: u64,
        /// Vertices allowed.
        limit: u64,
    },
    /// An undirected format contains an edge without its reverse.
    #[error(
        "{at}: the edge {source_vertex} -> {destination} has no reverse, but the format holds only undirected graphs; symmetrize the graph first (--symmetrize)"
    )]
    NotSymmetric {
        /// The file.
        at: String,
        /// Source of the edge, from 0.
        source_vertex: u32,
        /// Destination of the edge, from 0.
        destination: u32,
    },
    /// The file was read, but the graph is invalid.
    #[error("{at}: {}", list(problems))]
    Invalid {
        /// The file.
        at: String,
        /// All problems found.
        problems: Vec<Problem>,
    },
    /// Zero parts were asked for.
    #[error("found 0 parts, expected at least 1")]
    NoParts,
    /// More parts than vertices were asked for.
    #[error(
        "found {} for {}, expected at most {vertices}",
        counted(parts, "part"),
        counted(vertices, "vertex")
    )]
    TooManyParts {
        /// Parts asked for.
        parts: u32,
        /// Vertices in the graph.
        vertices: u32,
    },
    /// A partition does not fit its graph.
    #[error(
        "the partition covers {}, but the graph has {expected}; partition this graph",
        counted(found, "vertex")
    )]
    PartitionLength {
        /// Vertices of the partition.
        found: usize,
        /// Vertices of the graph.
        expected: usize,
    },
    /// A partition names a part that does not exist.
    #[error("vertex {vertex} belongs to part {part}, but there are {parts} parts (0 to {})", parts.saturating_sub(1))]
    NoSuchPart {
        /// The vertex.
        vertex: u32,
        /// Its part.
        part: u32,
        /// Number of parts.
        parts: u32,
    },
    /// Zero chunks were asked for.
    #[error("found 0 chunks per part, expected at least 1")]
    NoChunks,
    /// A part has fewer vertices than chunks were asked for.
    #[error(
        "part {part} has {}, too few for {chunks} chunks; ask for fewer chunks or fewer parts",
        counted(vertices, "vertex")
    )]
    TooManyChunks {
        /// The part.
        part: u32,
        /// Its vertices.
        vertices: usize,
        /// Chunks asked for.
        chunks: u32,
    },
    /// Every attempted cut left some chunk without vertices.
    #[error(
        "chunk {chunk} of part {part} has no vertices after {tries} cuts into {chunks} chunks; ask for fewer chunks"
    )]
    EmptyChunk {
        /// The part.
        part: u32,
        /// The chunk.
        chunk: u32,
        /// Chunks asked for.
        chunks: u32,
        /// Number of attempts.
        tries: u32,
    },
    /// A vertex belongs to a chunk that does not exist.
    #[error(
        "vertex {vertex} belongs to chunk {chunk}, but there are {chunks} chunks, counted from 0"
    )]
    NoSuchChunk {
        /// The vertex.
        vertex: u32,
        /// Its chunk.
        chunk: u32,
        /// Number of chunks.
        chunks: u32,
    },
    /// A partitioner failed.
    #[error(
        "{partitioner} failed on {} and {}: {reason}; use another partitioner",
        counted(vertices, "vertex"),
        counted(edges, "edge")
    )]
    Partitioner {
        /// Its name.
        partitioner: &'static str,
        /// Vertices of the graph.
        vertices: u32,
        /// Edges of the symmetrized graph.
        edges: u64,
        /// The partitioner's reason.
        reason: String,
    },
    /// A generator cannot satisfy its parameters.
    #[error("cannot generate the graph: {parameter} is {found}, expected {expected}")]
    Generator {
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        found: String,
        /// Values that work.
        expected: String,
    },
}

/// A shape as text, such as `(3, 4)`.
pub(crate) fn shape_text(shape: &[u64]) -> String {
    let mut text = String::from("(");
    for (i, n) in shape.iter().enumerate() {
        if i > 0 {
            text.push_str(", ");
        }
        text.push_str(&n.to_string());
    }
    text.push(')');
    text
}

fn index_help(found: i128) -> &'static str {
    if found < 0 {
        "indices count from 0 and are never negative"
    } else {
        "the file is damaged, or its indices count from 1"
    }
}

fn list(problems: &[Problem]) -> String {
    struct Bullets<'a>(&'a [Problem]);
    impl fmt::Display for Bullets<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for (i, problem) in self.0.iter().enumerate() {
                let lead = if i == 0 { "" } else { "; " };
                write!(f, "{lead}{problem}")?;
            }
            Ok(())
        }
    }
    Bullets(problems).to_string()
}
