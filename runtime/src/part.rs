//! A rank's share of the data.

mod apart;
pub(crate) mod asked;
pub(crate) mod batch;
pub(crate) mod drawing;
pub(crate) mod features;
pub(crate) mod lists;
mod needs;
mod numbers;
pub(crate) mod rows;
pub(crate) mod sampled;
mod samplers;
mod under_way;
pub(crate) mod walks;

pub(crate) mod whole;

use crate::RuntimeError;
use crate::leaves::Leaves;
use crate::part::features::{FeatureRows, columns, slice};
use crate::part::whole::Whole;
use crate::weights::Weights;
use batch::{Batch, BatchesByList};
use gnnc_graph::routes::Routes;
use gnnc_graph::{Csr, GraphData, Labels, LocalChunks, LocalEdges, LocalPart};
use gnnc_ir::EdgeSet;
use gnnc_ir::kernel::End;
use gnnc_ir::program::verify::RankData;
use gnnc_ir::program::{Capacity, Even, Extent, Program, RankSizes};
use gnnc_ir::words::types::BySet;
use lists::Over;
pub(crate) use needs::{Needs, Ways};
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
    /// For each rank for whose vertices this one adds up edges, their rows in the halo; ascending by rank.
    pub(crate) ghosts_of: Vec<(u32, Range<usize>)>,
    /// For each rank that does so for own vertices, these rows; ascending by rank.
    pub(crate) open: Vec<(u32, Vec<u32>)>,
    /// How rows of sources and of targets cross between nodes, if each crosses to a node once.
    routes: [Option<Routes>; 2],
    /// The leaves of sums over own vertices, if these do not depend on the number of ranks.
    pub(crate) leaves: Option<Leaves>,
    /// Bounds of the chunks in all these rows.
    pub(crate) chunks: LocalChunks,
    /// Stored edges between chunks, for stages: edges from chunk `s` into chunk `d` are at `d *
    /// count + s`.
    pub(crate) between: Vec<u64>,
    /// Edges by edge set; `None` for sets that no kernel walks.
    edges: BySet<Option<Edges>>,
    /// Data about all vertices, shared by all ranks.
    pub(crate) whole: Arc<Whole>,
    /// Nonzeros of the own feature rows, and of the own columns of all vertices, if the program
    /// reads them.
    features: [Option<FeatureRows>; 2],
    /// Labels of the own vertices.
    pub(crate) labels: Labels,
    /// Which own vertices are training, validation and test vertices.
    pub(crate) splits: [Vec<bool>; 3],
    /// Weights of classes in the loss.
    pub(crate) weights: Arc<Weights>,
    /// Sizes of all this.
    pub(crate) sizes: RankSizes,
    /// For each way to cut rows into chunks that instructions run over: first rows of the chunks,
    /// and one past the last row.
    cuts: Vec<(Even, u32, Vec<u64>)>,
    /// The sampled batches, if the program samples.
    pub(crate) batches: BatchesByList,
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
    /// Of edges of a batch: the vertices at their sources; empty if no kernel needs them.
    pub(crate) vertices: Vec<u32>,
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
    /// How halo rows cross between nodes, if each crosses to a node once.
    pub(crate) fn routes(&self, end: End) -> Option<&Routes> {
        self.routes[usize::from(end == End::Dst)].as_ref()
    }

    /// The rank's own vertices, if rows of a parameter are those.
    pub(crate) fn own_rows(&self, rows: Extent) -> Option<&[u32]> {
        (rows == Extent::Inner).then(|| &self.global[..self.inner])
    }

    /// Extracts from the graph what the rank needs to run the program.
    pub(crate) fn new(
        local: LocalPart,
        routes: [Option<Routes>; 2],
        data: &GraphData,
        program: &Program,
        whole: Arc<Whole>,
        weights: Arc<Weights>,
    ) -> Result<Self, RuntimeError> {
        let needs = Needs::of(program);
        let whole_graph = &whole.graph;
        let mut sizes = RankSizes {
            inner: local.inner as u64,
            halo: local.halo() as u64,
            edges: local.edges_of(EdgeSet::Plain),
            ..RankSizes::default()
        };
        whole.count(data.vertices().into(), &mut sizes);
        for number in 1..whole_graph.edges.len() as u8 {
            let here = local.edges_of(EdgeSet::Named(number));
            sizes.named_edges.add(number, here);
        }
        let own = &local.global[..local.inner];
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
            let counted = needs.feature_columns[kind];
            let rows = |width, vertices: &mut dyn Iterator<Item = u32>| {
                FeatureRows::new(data, vertices, columns.clone(), width, counted)
            };
            needs.features[kind].then(|| match kind {
                0 => rows(data.features.columns(), &mut own.iter().copied()),
                _ => rows(
                    slice(program, &data.features).len,
                    &mut whole.vertices(data).iter().copied(),
                ),
            })
        });
        if let [_, Some(slice)] = &features {
            sizes.slice_nonzeros = slice.by_row.csr.indices.len() as u64;
        }
        let edges = BySet::from_fn(|set| {
            let ways = needs.edges.of(set);
            let relations = whole_graph.relations;
            ways.walked
                .then(|| Edges::new(local.edges(set), *ways, relations))
        });
        let pick = |mask: &[bool]| {
            own.iter()
                .map(|&v| mask.get(v as usize).copied().unwrap_or(false))
                .collect()
        };
        sizes.max_degree = whole_graph.max_degree.into();
        let mut part = Self {
            cuts: Vec::new(),
            batches: BatchesByList::default(),
            inner: local.inner,
            between: match program.pipeline {
                Some(_) => local.edges_between_chunks(),
                None => Vec::new(),
            },
            leaves: (program.equal_bits).then(|| Leaves::of(&local, data.vertices().into())),
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
            weights,
            sizes,
            global: local.global,
            halo_of: local.halo_of,
            send: local.send,
            ghosts_of: local.ghosts_of,
            open: local.open,
            routes,
        };
        part.cuts = part.cuts(program);
        if program.equal_bits {
            part.list_features_by_column();
        }
        Ok(part)
    }

    /// The facts that the rank's program depends on.
    pub(crate) fn facts(&self, rank: u32, capacity: Capacity, data: &GraphData) -> RankData {
        RankData {
            rank,
            capacity,
            features: Some(data.features.columns()),
            relations: self.whole.graph.relations,
            edge_features: data.edge_features.columns,
            chunks: Some(self.whole.chunks.count()),
        }
    }

    /// Size in bytes, without the data that ranks share.
    pub(crate) fn bytes(&self) -> u64 {
        self.walked_bytes() + self.batches.each().map(Batch::bytes).sum::<u64>()
    }

    /// Size in bytes of what is no batch and does not draw one.
    pub(crate) fn walked_bytes(&self) -> u64 {
        let edges = self.edges.values().flatten().map(Edges::bytes);
        let features = self.features.iter().flatten().map(FeatureRows::bytes);
        let labels = match &self.labels {
            Labels::None => 0,
            Labels::Single(labels) => 4 * labels.len(),
            Labels::Values { values, .. } => 4 * values.len(),
        };
        let sent = self.send.iter().chain(&self.open);
        let sent = sent.map(|(_, rows)| rows.len()).sum::<usize>();
        let crossing = self
            .routes
            .iter()
            .flatten()
            .map(Routes::rows)
            .sum::<usize>();
        let rows = 4 * (self.global.len() + sent + crossing);
        let splits = self.splits.iter().map(Vec::len).sum::<usize>();
        let halo = self.chunks.halo.iter().chain(&self.chunks.send);
        let bounds = self.chunks.own.len() + halo.map(Vec::len).sum::<usize>();
        let chunks = 8 * (bounds + self.between.len());
        let own = edges.sum::<usize>() + features.sum::<usize>() + labels + rows + splits + chunks;
        own as u64
    }

    /// Goes on with a batch that was drawn, or with one of its sets; a batch that was not is drawn next.
    pub(crate) fn go_to(&mut self, number: u32, set: Option<u32>) {
        let Some(batch) = self.batches.at_hand_mut() else {
            return;
        };
        let sizes = batch.go_to(number);
        let sizes = sizes.map(|all| match set {
            Some(set) => batch.go_to_set(set).unwrap_or(all),
            None => all,
        });
        if let Some(sizes) = sizes {
            self.sizes.batch = sizes;
        }
    }

    /// Also lists the nonzeros of sparse features by column, where products need that.
    pub(crate) fn list_features_by_column(&mut self) {
        let features = self.features.iter_mut().flatten();
        features.for_each(FeatureRows::list_by_column);
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
            Over::Level(level) => (self.batches.at_hand()).map_or(&[], |batch| batch.ids(level.of)),
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
            vertices: Vec::new(),
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
        let vertices = 4 * self.vertices.len();
        self.by_destination.bytes() + other_way(&self.by_source) + by_type + vertices - fetched
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
        Labels::Values { width, values } if values.len() == vertices * *width as usize => {
            let columns = *width as usize;
            let row = |&v: &u32| &values[v as usize * columns..(v as usize + 1) * columns];
            Ok(Labels::Values {
                width: *width,
                values: own.iter().flat_map(row).copied().collect(),
            })
        }
        Labels::Single(labels) => Err(short(labels.len())),
        Labels::Values { values, .. } => Err(short(values.len())),
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
