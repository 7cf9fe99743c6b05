//! Partitions of data graphs, kept in the cache: METIS takes seconds where reading a file takes milliseconds.
//!
//! The key of a partition is what the partitioner says of itself and of all that it reads, and the number of parts;
//! that of chunks has the parts' content as well. A file holds the part or chunk of each vertex as a little-endian
//! number of one, two or four bytes. Results are the same with and without a cache.

use gnnc_files::{Cache, Cached};
use gnnc_graph::partition::{Metis, PartitionInput, Partitioner};
use gnnc_graph::{GraphError, Partition, Topology};
use gnnc_ir::program::leaves::leaves;

/// Seed of the chunks of a run.
const CHUNK_SEED: u64 = 0;

/// Partitions a graph into each of several numbers of parts. Takes from the cache what it holds, directly or as a
/// partition into more parts, and stores what it lacks.
///
/// # Errors
/// As [`Partitioner::partitions`].
pub fn partitions(
    graph: PartitionInput,
    partitioner: &dyn Partitioner,
    parts: &[u32],
    cache: Option<&Cache>,
) -> Result<Vec<Partition>, GraphError> {
    let key = || partitioner.key(graph);
    let Some((cache, about)) = cache.and_then(|cache| Some((cache, key()?))) else {
        return partitioner.partitions(graph, parts);
    };
    let shelf = Shelf {
        cache,
        about,
        vertices: graph.vertices(),
    };
    let found: Vec<Option<Partition>> = parts
        .iter()
        .map(|parts| shelf.partition(partitioner, *parts))
        .collect();
    let lacks = parts
        .iter()
        .zip(&found)
        .filter(|(_, found)| found.is_none());
    let lacks: Vec<u32> = lacks.map(|(parts, _)| *parts).collect();
    let made = if lacks.is_empty() {
        Vec::new()
    } else {
        partitioner.partitions(graph, &lacks)?
    };
    for partition in &made {
        shelf.put("parts", partition.parts(), partition.owner());
    }
    let mut made = made.into_iter();
    let all = found.into_iter().map(|found| found.or_else(|| made.next()));
    Ok(all.flatten().collect())
}

/// Partitions of a graph into each of several numbers of parts that own runs of its leaves, for sums whose order does not
/// depend on their number ([`gnnc_ir::program::leaves`]). A partitioner makes the leaves.
///
/// # Errors
/// As [`partitions`]; more parts than leaves.
pub(crate) fn of_leaves(
    graph: PartitionInput,
    partitioner: &dyn Partitioner,
    parts: &[u32],
    cache: Option<&Cache>,
) -> Result<Vec<Partition>, GraphError> {
    let count = leaves(graph.vertices().into());
    let whole = || Partition::whole(graph.vertices());
    let leaves = partitions(graph, partitioner, &[count], cache)?
        .pop()
        .unwrap_or_else(whole);
    let each = parts.iter();
    each.map(|parts| Partition::of_leaves(&leaves, *parts))
        .collect()
}

/// Cuts the parts of a partition into chunks, or takes these from the cache.
///
/// # Errors
/// As [`Partition::cut_chunks`].
pub fn cut_chunks(
    topology: &Topology,
    partition: Partition,
    chunks: u32,
    cache: Option<&Cache>,
) -> Result<Partition, GraphError> {
    let metis = Metis {
        seed: CHUNK_SEED,
        balance_edges: false,
    };
    // One chunk needs no cut.
    let cache = cache.filter(|_| chunks > 1);
    let key = || metis.key(topology.into());
    let Some((cache, about)) = cache.and_then(|cache| Some((cache, key()?))) else {
        return partition.cut_chunks(topology, chunks, CHUNK_SEED);
    };
    let shelf = Shelf {
        cache,
        about: format!("{about}\npartition {}", partition.digest()),
        vertices: topology.vertices(),
    };
    if let Some(chunk) = shelf.take("chunks", chunks) {
        return partition.with_chunks(chunks, chunk);
    }
    let cut = partition.cut_chunks(topology, chunks, CHUNK_SEED)?;
    let chunk: Vec<u32> = (0..topology.vertices()).map(|v| cut.chunk_of(v)).collect();
    shelf.put("chunks", chunks, &chunk);
    Ok(cut)
}

/// What the cache holds of one graph by one method.
struct Shelf<'a> {
    cache: &'a Cache,
    /// The key, without the number of parts or chunks.
    about: String,
    vertices: u32,
}

impl Shelf<'_> {
    /// A partition into `parts` parts, stored or merged from one into two, four, eight, ... times as many.
    fn partition(&self, partitioner: &dyn Partitioner, parts: u32) -> Option<Partition> {
        let most = self.vertices.checked_div(parts)?;
        let finer = (0..u32::BITS)
            .map(|n| 1 << n)
            .filter(|times| *times <= most);
        finer.into_iter().find_map(|times: u32| {
            let found = Partition::new(parts * times, self.take("parts", parts * times)?).ok()?;
            match times {
                1 => Some(found),
                _ => partitioner.merged(&found, parts),
            }
        })
    }

    /// The part or chunk of each vertex, if it is stored.
    fn take(&self, what: &str, count: u32) -> Option<Vec<u32>> {
        let bytes = self.cache.load(Cached::Partition, &self.key(what, count))?;
        let width = width(count);
        let whole = bytes.len() == width * self.vertices as usize;
        let numbers = bytes.chunks_exact(width).map(|bytes| {
            let mut number = [0; 4];
            number[..width].copy_from_slice(bytes);
            u32::from_le_bytes(number)
        });
        let numbers: Vec<u32> = numbers.collect();
        (whole && numbers.iter().all(|number| *number < count)).then_some(numbers)
    }

    /// Stores the part or chunk of each vertex. If that fails, it is computed again next time.
    fn put(&self, what: &str, count: u32, numbers: &[u32]) {
        let width = width(count);
        let bytes = numbers
            .iter()
            .flat_map(|number| number.to_le_bytes().into_iter().take(width));
        let bytes: Vec<u8> = bytes.collect();
        self.cache
            .store(Cached::Partition, &self.key(what, count), &bytes);
    }

    fn key(&self, what: &str, count: u32) -> String {
        format!("{}\n{what} {count}", self.about)
    }
}

/// Bytes of a number below `count`.
fn width(count: u32) -> usize {
    match count {
        0..=0x100 => 1,
        0x101..=0x1_0000 => 2,
        _ => 4,
    }
}
