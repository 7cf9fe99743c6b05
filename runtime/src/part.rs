//! A rank's share of the data.

pub(crate) mod batch;
pub(crate) mod features;
pub(crate) mod lists;
pub(crate) mod rows;

pub(crate) mod whole;

use crate::RuntimeError;
use crate::chunks::ChunkNeeds;
use crate::part::features::{FeatureRows, columns, slice};
use crate::part::whole::Whole;
use batch::{Batch, LayerWays};
use gnnc_graph::{Csr, GraphData, Labels, LocalChunks, LocalEdges, LocalPart};
use gnnc_ir::EdgeSet;
use gnnc_ir::kernel::Walk;
use gnnc_ir::program::instr::DrawnBuffer;
use gnnc_ir::program::verify::RankData;
use gnnc_ir::program::{Capacity, Even, Extent, Instr, Launch, Product, Program, RankSizes, Role};
use gnnc_ir::words::sampling::Drawn;
use lists::Over;
use std::ops::Range;
use std::sync::Arc;

/// Edges and rows of a piece of work. Affects no result.
const PIECE: u64 = 4096;

/// The part of the data graph a rank keeps. Rows are its own vertices, then its halo.
#[derive(Default)]
pub(crate) struct Part {
    /// Number of own vertices.
    pub(crate) inner: usize,
    /// Global id of each local row.
    pub(crate) global: Vec<u32>,
    /// For each rank that owns halo rows, these rows; ascending by rank.
    pub(crate) halo_of: Vec<(u32, Range<usize>)>,
    /// For each rank that reads own rows, these rows; ascending by rank.
    pub(crate) send: Vec<(u32, Vec<u32>)>,
    /// Bounds of the chunks in all these rows.
    pub(crate) chunks: LocalChunks,
    /// Stored edges between chunks, for stages: edges from chunk `s` into chunk `d` are at `d *
    /// count + s`.
    pub(crate) between: Vec<u64>,
    /// Edges by edge set; `None` for sets that no kernel walks.
    edges: [Option<Edges>; 2],
    /// Data about all vertices, shared by all ranks.
    pub(crate) whole: Arc<Whole>,
    /// Nonzeros of the own feature rows, and of the own columns of all vertices, if the program
    /// reads them.
    features: [Option<FeatureRows>; 2],
    /// Labels of the own vertices.
    pub(crate) labels: Labels,
    /// Which own vertices are training, validation and test vertices.
    pub(crate) splits: [Vec<bool>; 3],
    /// Number of training vertices in the whole graph.
    pub(crate) train_total: u64,
    /// Sizes of all this.
    pub(crate) sizes: RankSizes,
    /// For each way to cut rows into chunks that instructions run over: first rows of the chunks,
    /// and one past the last row.
    cuts: Vec<(Even, u32, Vec<u64>)>,
    /// The sampled batch at hand, if the program samples.
    pub(crate) batch: Option<Box<Batch>>,
}

/// A CSR with the bounds of pieces of about equal work.
pub(crate) struct Walkable {
    pub(crate) csr: Csr,
    pub(crate) pieces: Vec<u64>,
}

/// Edges indexed from both ends.
#[derive(Default)]
pub(crate) struct Edges {
    pub(crate) by_destination: Walkable,
    /// Also the position of each edge by destination.
    pub(crate) by_source: Option<(Walkable, Vec<u32>)>,
    /// Whether kernels read these edges in place, by destination and by source; otherwise they
    /// fetch them chunk by chunk.
    pub(crate) kept: [bool; 2],
    /// For each type, the positions of its edges by destination.
    pub(crate) by_type: Option<Walkable>,
}

impl Walkable {
    pub(crate) fn new(csr: Csr) -> Self {
        let pieces = pieces(&csr.indptr);
        Self { csr, pieces }
    }

    /// The bounds of the pieces within a range of rows.
    pub(crate) fn pieces_within<'a>(
        &'a self,
        rows: &Range<u64>,
    ) -> impl Iterator<Item = u64> + use<'a> {
        let (begin, end) = (rows.start, rows.end);
        let inside = move |bound: &u64| (begin + 1..end).contains(bound);
        let inner = self.pieces.iter().copied().filter(inside);
        std::iter::once(begin)
            .chain(inner)
            .chain(std::iter::once(end))
    }

    pub(crate) fn bytes(&self) -> usize {
        8 * (self.csr.indptr.len() + self.pieces.len()) + 4 * self.csr.indices.len()
    }
}

impl Part {
    /// Extracts from the graph what the rank needs to run the program.
    pub(crate) fn new(
        local: LocalPart,
        data: &GraphData,
        program: &Program,
        whole: Arc<Whole>,
    ) -> Result<Self, RuntimeError> {
        let needs = Needs::of(program);
        let mut sizes = RankSizes {
            inner: local.inner as u64,
            halo: local.halo() as u64,
            vertices: data.vertices().into(),
            all_edges: data.topology.edges(),
            ..RankSizes::default()
        };
        let own = &local.global[..local.inner];
        sizes.edges = own
            .iter()
            .map(|&v| data.topology.in_neighbours(v).len() as u64)
            .sum();
        let trains = |v: &&u32| data.train.get(**v as usize) == Some(&true);
        sizes.train = own.iter().filter(trains).count() as u64;
        sizes.reach = local.reach();
        sizes.feature_nonzeros = own
            .iter()
            .map(|&v| data.features.stored_in_row(v as usize))
            .sum();
        let features = [Extent::FeatureNonzeros, Extent::SliceNonzeros].map(|extent| {
            let kind = sliced(extent);
            let columns = columns(program, &data.features, extent);
            let by_column = needs.feature_columns[kind];
            let rows = |width, vertices: &mut dyn Iterator<Item = u32>| {
                FeatureRows::new(data, vertices, columns.clone(), width, by_column)
            };
            needs.features[kind].then(|| match kind {
                0 => rows(data.features.columns(), &mut own.iter().copied()),
                _ => rows(
                    slice(program, &data.features).len,
                    &mut (0..data.vertices()),
                ),
            })
        });
        if let [_, Some(slice)] = &features {
            sizes.slice_nonzeros = slice.by_row.csr.indices.len() as u64;
        }
        let edges = [EdgeSet::Plain, EdgeSet::Looped].map(|set| {
            let ways = needs.edges[index(set)];
            let relations = data.topology.relations();
            ways.walked
                .then(|| Edges::new(local.edges(set), ways, relations))
        });
        let pick = |mask: &[bool]| {
            own.iter()
                .map(|&v| mask.get(v as usize).copied().unwrap_or(false))
                .collect()
        };
        let degrees = [data.topology.in_degrees(), data.topology.out_degrees()];
        let most = degrees.iter().flatten().copied().max();
        sizes.max_degree = u64::from(most.unwrap_or(0));
        let mut part = Self {
            cuts: Vec::new(),
            batch: None,
            inner: local.inner,
            between: match program.pipeline {
                Some(_) => local.edges_between_chunks(),
                None => Vec::new(),
            },
            chunks: local.chunks,
            edges,
            whole,
            features,
            labels: match needs.labels {
                true => own_labels(data, own)?,
                false => Labels::None,
            },
            splits: match needs.labels {
                true => [pick(&data.train), pick(&data.val), pick(&data.test)],
                false => Default::default(),
            },
            train_total: data.train.iter().filter(|&&t| t).count() as u64,
            sizes,
            global: local.global,
            halo_of: local.halo_of,
            send: local.send,
        };
        part.cuts = part.cuts(program);
        Ok(part)
    }

    /// The facts that the rank's program depends on.
    pub(crate) fn facts(&self, rank: u32, capacity: Capacity, data: &GraphData) -> RankData {
        RankData {
            rank,
            capacity,
            features: Some(data.features.columns()),
            relations: data.topology.relations(),
            chunks: Some(self.whole.chunks.count()),
        }
    }

    /// Size in bytes, without the data that ranks share.
    pub(crate) fn bytes(&self) -> u64 {
        let edges = self.edges.iter().flatten().map(Edges::bytes);
        let features = self.features.iter().flatten().map(FeatureRows::bytes);
        let labels = match &self.labels {
            Labels::None => 0,
            Labels::Single(labels) => 4 * labels.len(),
            Labels::Multi { values, .. } => 4 * values.len(),
        };
        let rows =
            4 * (self.global.len() + self.send.iter().map(|(_, rows)| rows.len()).sum::<usize>());
        let splits = self.splits.iter().map(Vec::len).sum::<usize>();
        let halo = self.chunks.halo.iter().chain(&self.chunks.send);
        let bounds = self.chunks.own.len() + halo.map(Vec::len).sum::<usize>();
        let chunks = 8 * (bounds + self.between.len());
        let own = edges.sum::<usize>() + features.sum::<usize>() + labels + rows + splits + chunks;
        own as u64 + self.batch.as_ref().map_or(0, |batch| batch.bytes())
    }

    /// The positions of the nonzeros whose values are in a buffer of this extent.
    pub(crate) fn features(&self, values: Extent) -> Option<&FeatureRows> {
        self.features[sliced(values)].as_ref()
    }

    /// Global ids of the vertices a kernel runs over.
    pub(crate) fn ids(&self, over: Over) -> &[u32] {
        match over {
            Over::All => &self.whole.ids,
            Over::Own => &self.global,
            Over::Level(_) => self.batch.as_ref().map_or(&[], |batch| batch.ids()),
        }
    }
}

/// Index into pairs of own rows' and own columns' nonzeros.
fn sliced(values: Extent) -> usize {
    usize::from(values == Extent::SliceNonzeros)
}

/// Bytes of the view by column or by source.
pub(crate) fn other_way(view: &Option<(Walkable, Vec<u32>)>) -> usize {
    view.as_ref()
        .map_or(0, |(w, positions)| w.bytes() + 4 * positions.len())
}

impl Edges {
    /// Edges by destination, and by source and by type if requested.
    pub(crate) fn new(edges: LocalEdges, ways: Ways, relations: u32) -> Self {
        Self {
            kept: ways.kept,
            by_type: ways
                .by_type
                .then(|| Walkable::new(edges.by_type(relations))),
            by_destination: Walkable::new(edges.in_csr),
            by_source: (ways.by_source).then(|| (Walkable::new(edges.out_csr), edges.positions)),
        }
    }

    /// Bytes of the lists that kernels read in place.
    pub(crate) fn bytes(&self) -> usize {
        let ends = |walkable: &Walkable| 4 * walkable.csr.indices.len();
        let other = |(one, positions): &(Walkable, Vec<u32>)| ends(one) + 4 * positions.len();
        let fetched = [
            ends(&self.by_destination),
            self.by_source.as_ref().map_or(0, other),
        ];
        let fetched = fetched.into_iter().zip(self.kept);
        let fetched: usize = fetched
            .map(|(bytes, kept)| if kept { 0 } else { bytes })
            .sum();
        let by_type = self.by_type.as_ref().map_or(0, Walkable::bytes);
        self.by_destination.bytes() + other_way(&self.by_source) + by_type - fetched
    }
}

/// Index of an edge set in pairs.
pub(crate) fn index(set: EdgeSet) -> usize {
    match set {
        EdgeSet::Plain => 0,
        EdgeSet::Looped => 1,
    }
}

/// The ways edges are walked.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ways {
    /// Whether they are walked at all, by destination.
    pub(crate) walked: bool,
    /// Also by source.
    pub(crate) by_source: bool,
    /// Also by type.
    pub(crate) by_type: bool,
    /// Whether kernels read edges in place, by destination and by source.
    pub(crate) kept: [bool; 2],
}

impl Ways {
    /// The union of both.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            walked: self.walked | other.walked,
            by_source: self.by_source | other.by_source,
            by_type: self.by_type | other.by_type,
            kept: [0, 1].map(|n| self.kept[n] | other.kept[n]),
        }
    }
}

/// Which views of the data a program reads.
#[derive(Default)]
pub(crate) struct Needs {
    /// By edge set: how edges into own vertices are walked.
    edges: [Ways; 2],
    /// The same for the edges of the whole graph.
    pub(crate) all_edges: [Ways; 2],
    /// The same for the edges of a batch, by layer from the seeds outwards.
    pub(crate) layers: LayerWays,
    /// Whether a batch gives the numbers of edges by type.
    pub(crate) type_degrees: bool,
    /// Whether kernels run over all vertices.
    pub(crate) ids: bool,
    /// Whether labels and splits are read.
    labels: bool,
    /// Whether rows are moved to and from all vertices.
    pub(crate) owned: bool,
    /// Whether nonzeros of features are read, of own rows and of own columns; then whether by
    /// column too.
    features: [bool; 2],
    feature_columns: [bool; 2],
    /// The sets of rows that are moved, and the number of chunks kernels run over.
    pub(crate) chunks: ChunkNeeds,
}

impl Needs {
    /// The needs of a program.
    pub(crate) fn of(program: &Program) -> Self {
        let hops = program
            .sampling
            .as_ref()
            .map_or(0, |sampling| sampling.hops());
        let mut needs = Self {
            layers: vec![Default::default(); usize::from(hops)],
            ..Self::default()
        };
        for instrs in [&program.setup, &program.step, &program.eval] {
            needs.collect(instrs, program);
        }
        for buffer in &program.buffers {
            if buffer.role == Role::FeatureValues {
                needs.features[sliced(buffer.extent)] = program.sparse_features;
            }
        }
        needs
    }

    fn collect(&mut self, instrs: &[Instr], program: &Program) {
        for instr in instrs {
            if let Some(launch) = instr.launch() {
                self.launch(program, launch);
            }
            self.labels |= instr.labels().is_some();
            if let Instr::Sample(sample) = instr {
                let of_types = |one: &DrawnBuffer| matches!(one.drawn, Drawn::RelationDegree(..));
                self.type_degrees |= sample.outputs.iter().any(of_types);
            }
            if let Instr::SparseMatMul(one) = instr
                && one.product == Product::Tn
            {
                let buffer = program.buffers.get(one.values.buffer.0 as usize);
                let kind = buffer.map_or(0, |b| sliced(b.extent));
                self.feature_columns[kind] = true;
            }
            if let Instr::SparseDropout(one) = instr {
                let buffer = program.buffers.get(one.values.buffer.0 as usize);
                self.ids |= buffer.is_some_and(|b| sliced(b.extent) == 1);
            }
            if let Instr::Redistribute(one) = instr.whole() {
                self.owned = true;
                self.chunks.moved(one.moved);
            }
            self.collect(instr.body().unwrap_or_default(), program);
        }
    }

    fn launch(&mut self, program: &Program, launch: &Launch) {
        let Some(kernel) = program.kernels.get(launch.kernel.0 as usize) else {
            return;
        };
        let all = launch.rows.of_whole_graph();
        self.ids |= all;
        let of_edges = launch.chunk.filter(|chunk| chunk.even.is_none());
        self.chunks.count = self.chunks.count.max(of_edges.map(|chunk| chunk.of));
        if let Some(set) = kernel.body.edge_set() {
            let walk = Walk::of(&kernel.body);
            let edges = match launch.rows.walked(&kernel.body) {
                Some(Extent::LevelEdges(layer, _)) => {
                    let from_seeds = self.layers.len().checked_sub(usize::from(layer));
                    match from_seeds.and_then(|n| self.layers.get_mut(n)) {
                        Some(edges) => edges,
                        None => return,
                    }
                }
                _ if all => &mut self.all_edges,
                _ => &mut self.edges,
            };
            let by_source = walk == Walk::EdgesBySource;
            let by_type = walk == Walk::EdgesByType;
            let mut kept = [false; 2];
            // Sums by type read only the positions by type.
            kept[usize::from(by_source)] = launch.lists.is_empty() && !by_type;
            let ways = &mut edges[index(set)];
            *ways = ways.or(Ways {
                walked: true,
                by_source,
                by_type,
                kept,
            });
        }
    }
}

fn own_labels(data: &GraphData, own: &[u32]) -> Result<Labels, RuntimeError> {
    let short = |found: usize| RuntimeError::Data {
        graph: data.name.clone(),
        found: format!("{found} label values"),
        expected: format!("labels for {} vertices", data.vertices()),
    };
    let vertices = data.vertices() as usize;
    match &data.labels {
        Labels::None => Ok(Labels::None),
        Labels::Single(labels) if labels.len() == vertices => Ok(Labels::Single(
            own.iter().map(|&v| labels[v as usize]).collect(),
        )),
        Labels::Multi { classes, values } if values.len() == vertices * *classes as usize => {
            let width = *classes as usize;
            let row = |&v: &u32| &values[v as usize * width..(v as usize + 1) * width];
            Ok(Labels::Multi {
                classes: *classes,
                values: own.iter().flat_map(row).copied().collect(),
            })
        }
        Labels::Single(labels) => Err(short(labels.len())),
        Labels::Multi { values, .. } => Err(short(values.len())),
    }
}

/// Bounds of pieces with about the same number of entries plus rows.
fn pieces(indptr: &[u64]) -> Vec<u64> {
    let mut bounds = Vec::new();
    pieces_into(indptr, &mut bounds);
    bounds
}

/// The same in memory that is there.
fn pieces_into(indptr: &[u64], bounds: &mut Vec<u64>) {
    let rows = indptr.len().saturating_sub(1);
    let work = |row: usize| indptr[row] + row as u64;
    let count = work(rows).div_ceil(PIECE).max(1);
    bounds.clear();
    bounds.push(0);
    for k in 1..count {
        let target = (u128::from(k) * u128::from(work(rows)) / u128::from(count)) as u64;
        let (mut low, mut high) = (0, rows);
        while low < high {
            let middle = (low + high) / 2;
            if work(middle) < target {
                low = middle + 1
            } else {
                high = middle
            }
        }
        if low as u64 > bounds[bounds.len() - 1] {
            bounds.push(low as u64);
        }
    }
    if rows as u64 > bounds[bounds.len() - 1] {
        bounds.push(rows as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_cover_all_rows_evenly(degrees in prop::collection::vec(0u64..3000, 0..200)) {
            let mut indptr = vec![0];
            for d in &degrees {
                indptr.push(indptr[indptr.len() - 1] + d);
            }
            let bounds = pieces(&indptr);
            prop_assert_eq!((bounds[0], bounds[bounds.len() - 1]), (0, degrees.len() as u64));
            for pair in bounds.windows(2) {
                prop_assert!(pair[0] < pair[1]);
                let work = indptr[pair[1] as usize] - indptr[pair[0] as usize] + pair[1] - pair[0];
                prop_assert!(work <= PIECE + 3001);
            }
        }
    }
}
