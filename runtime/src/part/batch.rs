//! The sampled batch at hand: its vertices, and the edges between its levels as kernels walk them.

use super::asked::{Asked, Owners};
use super::{Edges, Needs, Walkable, Ways, index, pieces_into};
use crate::RuntimeError;
use crate::fault::Fault;
use gnnc_graph::partition::Partition;
use gnnc_graph::sample::{At, Blocks, Layer, Pilot, RankSeeds, Rule, SampleError, Sampler, room};
use gnnc_graph::{Csr, GraphData, Labels, LocalPart, Topology};
use gnnc_ir::EdgeSet;
use gnnc_ir::program::BatchSizes;
use gnnc_ir::words::sampling::{Drawn, Sampling};
use std::sync::Arc;

/// For each layer from the seeds outwards, how its plain and its looped edges are walked.
pub(crate) type LayerWays = Vec<[Ways; 2]>;

/// What all ranks of a process need of a graph that they sample.
pub(crate) struct Sampled {
    topology: Arc<Topology>,
    /// For each edge of the graph, the edges of its type into its destination; empty if nothing
    /// reads that.
    type_degrees: Vec<u32>,
    /// Training vertices.
    trained: Vec<u32>,
    /// Labels of all vertices, as seeds need not be a rank's own. A single rank has them anyway.
    labels: Labels,
    pub(crate) owners: Owners,
}

impl Sampled {
    /// What ranks need to sample a graph.
    pub(crate) fn new(
        data: &GraphData,
        partition: &Partition,
        parts: &[LocalPart],
        type_degrees: bool,
    ) -> Self {
        let trains = |v: &u32| data.train.get(*v as usize) == Some(&true);
        Self {
            type_degrees: match type_degrees {
                true => data.topology.relation_degrees(),
                false => Vec::new(),
            },
            topology: Arc::new(data.topology.clone()),
            trained: (0..data.vertices()).filter(trains).collect(),
            labels: match parts.len() {
                1 => Labels::None,
                _ => data.labels.clone(),
            },
            owners: Owners::new(partition, parts),
        }
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let graph = 8 * u64::from(self.topology.vertices()) + 4 * self.topology.edges();
        let labels = match &self.labels {
            Labels::None => 0,
            Labels::Single(labels) => 4 * labels.len(),
            Labels::Multi { values, .. } => 4 * values.len(),
        };
        let lists = self.owners.bytes() + 4 * self.type_degrees.len();
        graph + (labels + lists) as u64
    }
}

/// A rank's part of a batch that was drawn.
#[derive(Default)]
struct UnderWay {
    /// Its number in the epoch.
    number: u32,
    /// Its seeds on all ranks.
    seeds: u32,
    sizes: BatchSizes,
    blocks: Blocks,
    /// By layer, from the seeds outwards: plain and looped edges.
    layers: Vec<[Option<Edges>; 2]>,
    /// Its rows by owner.
    asked: Asked,
}

/// The batches of a run, and a rank's part of those under way.
pub(crate) struct Batch {
    shared: Arc<Sampled>,
    sampler: Sampler<Arc<Topology>>,
    seeds: RankSeeds,
    rank: u32,
    ways: LayerWays,
    /// The level of which rows are fetched from other ranks.
    asks: Option<u8>,
    /// Batches under way; number `n` of an epoch is at `n` modulo their count.
    under_way: Vec<UnderWay>,
    /// Index of the one at hand.
    at_hand: usize,
    /// Seeds of all batches of the epoch, on all ranks.
    of_epoch: u32,
    /// For each batch of the epoch so far, the rows that other ranks own.
    pub(crate) fetched: Vec<u64>,
    /// How often a batch was larger than the memory laid out for it.
    pub(crate) grown: u32,
}

impl Batch {
    /// The batches of a program on a rank.
    ///
    /// # Errors
    /// Settings that do not fit the graph, such as no training vertices.
    pub(crate) fn new(
        shared: &Arc<Sampled>,
        sampling: &Sampling,
        needs: Needs,
        (rank, seed): (u32, u64),
        threads: usize,
    ) -> Result<Self, RuntimeError> {
        let refused = |error: SampleError| RuntimeError::Sampling(error);
        let topology = Arc::clone(&shared.topology);
        let rule = Rule::new(sampling.kind, sampling.fanouts.clone(), seed).map_err(refused)?;
        let (trained, partition) = (shared.trained.clone(), &shared.owners.partition);
        let seeds = RankSeeds::new(trained, sampling, partition, rank, seed).map_err(refused)?;
        Ok(Self {
            sampler: Sampler::new(topology, &rule, threads).map_err(refused)?,
            shared: Arc::clone(shared),
            seeds,
            rank,
            under_way: (0..=needs.lag).map(|_| UnderWay::default()).collect(),
            at_hand: 0,
            ways: needs.layers,
            asks: needs.asks,
            of_epoch: 0,
            fetched: Vec::new(),
            grown: 0,
        })
    }

    /// Goes on with the batches of another run.
    pub(crate) fn reseed(&mut self, seed: u64) {
        self.sampler.reseed(seed);
        self.seeds.reseed(seed);
    }

    /// Batches of an epoch.
    pub(crate) fn count(&self) -> u32 {
        self.seeds.count()
    }

    /// Room for batches a little larger than the first ones of a run.
    ///
    /// # Errors
    /// Numbers that 32 bits do not hold.
    pub(crate) fn pilot(&mut self) -> Result<BatchSizes, SampleError> {
        let pilot = Pilot::draw(&mut self.sampler, &mut self.seeds)?;
        Ok(self.room(pilot.most))
    }

    /// A little more than the sizes of a batch, but no more than there can be.
    pub(crate) fn room(&self, sizes: BatchSizes) -> BatchSizes {
        let vertices = u64::from(self.shared.topology.vertices());
        room(sizes, vertices, self.shared.topology.edges())
    }

    /// Draws a batch, and returns its sizes.
    ///
    /// # Errors
    /// Numbers that 32 bits do not hold.
    pub(crate) fn draw(&mut self, at: At) -> Result<BatchSizes, Fault> {
        self.at_hand = at.batch as usize % self.under_way.len();
        let batch = &mut self.under_way[self.at_hand];
        batch.sizes = (self.seeds).draw(&mut self.sampler, at, &mut batch.blocks)?;
        (batch.number, batch.seeds) = (at.batch, self.seeds.of_all(at.batch));
        if at.batch == 0 {
            self.of_epoch = self.seeds.used();
            self.fetched.clear();
        }
        if let Some(level) = self.asks {
            let level = batch.blocks.level(usize::from(level));
            batch.asked.sort(level, &self.shared.owners);
            self.fetched.push(batch.asked.remote(self.rank));
        }
        batch.layers.resize_with(self.ways.len(), Default::default);
        let from_seeds = (1..=self.ways.len()).rev();
        for (number, (ways, edges)) in from_seeds.zip(self.ways.iter().zip(&mut batch.layers)) {
            let ids = batch.blocks.level(number - 1);
            let types = Types {
                topology: &self.shared.topology,
                ids,
                layer: batch.blocks.layer(number),
            };
            for set in [EdgeSet::Plain, EdgeSet::Looped] {
                let (ways, edges) = (ways[index(set)], &mut edges[index(set)]);
                match ways.walked {
                    true => fill(edges.get_or_insert_default(), set, ways, ids.len(), &types),
                    false => *edges = None,
                }
            }
        }
        Ok(batch.sizes)
    }

    /// Goes on with a batch of the epoch; its sizes, if it was drawn.
    pub(crate) fn go_to(&mut self, number: u32) -> Option<BatchSizes> {
        let place = number as usize % self.under_way.len();
        let batch = &self.under_way[place];
        let drawn = batch.number == number && batch.blocks.layers() > 0;
        drawn.then(|| {
            self.at_hand = place;
            batch.sizes
        })
    }

    fn at_hand(&self) -> &UnderWay {
        &self.under_way[self.at_hand]
    }

    /// Vertices of the batch; those of a level are its first ones.
    pub(crate) fn ids(&self) -> &[u32] {
        self.at_hand().ids()
    }

    /// The edges into a level.
    pub(crate) fn edges(&self, layer: u8, set: EdgeSet) -> Option<&Edges> {
        let layers = &self.at_hand().layers;
        let from_seeds = layers.len().checked_sub(usize::from(layer))?;
        layers.get(from_seeds)?[index(set)].as_ref()
    }

    /// Rows of the batch by owner.
    pub(crate) fn asked(&self) -> &Asked {
        &self.at_hand().asked
    }

    /// The same, to write which rows others ask for.
    pub(crate) fn asked_mut(&mut self) -> &mut Asked {
        &mut self.under_way[self.at_hand].asked
    }

    /// Seeds of the batch, on all ranks.
    pub(crate) fn seeds(&self) -> u32 {
        self.at_hand().seeds
    }

    /// The part of the epoch's seeds that the batch has.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.seeds()) / f64::from(self.of_epoch.max(1))
    }

    /// Labels of all vertices, unless the only rank has them.
    pub(crate) fn labels(&self) -> Option<&Labels> {
        (self.shared.owners.partition.parts() > 1).then_some(&self.shared.labels)
    }

    /// Size in bytes of what all ranks of a process share.
    pub(crate) fn shared_bytes(&self) -> u64 {
        self.shared.bytes()
    }

    /// Writes numbers of the batch, one a row.
    pub(crate) fn write(&self, drawn: Drawn, out: &mut [f32]) {
        let number = match drawn {
            Drawn::Kept(number, _) | Drawn::Scale(number, _) => number,
            Drawn::Relation(number, _) | Drawn::RelationDegree(number, _) => number,
        };
        let hops = self.ways.len();
        if number == 0 || usize::from(number) > hops {
            return;
        }
        let blocks = &self.at_hand().blocks;
        let layer = blocks.layer(usize::from(number));
        let ids = blocks.level(usize::from(number) - 1);
        match drawn {
            Drawn::Kept(_, set) => {
                let own = f32::from(u8::from(set == EdgeSet::Looped));
                let rows = layer.edges.indptr.windows(2);
                let kept = rows.map(|row| (row[1] - row[0]) as f32 + own);
                out.iter_mut().zip(kept).for_each(|(out, kept)| *out = kept);
            }
            Drawn::Scale(_, set) => {
                let typed = self.shared.topology.relations() > 0;
                scales(layer, typed, set, ids, out);
            }
            Drawn::Relation(..) => {
                let types = self.shared.topology.types();
                self.each_edge(layer, ids, |at, edge| out[at] = f32::from(types[edge]));
            }
            Drawn::RelationDegree(..) => {
                let degrees = &self.shared.type_degrees;
                self.each_edge(layer, ids, |at, edge| out[at] = degrees[edge] as f32);
            }
        }
    }

    /// Visits the kept edges with their places in the graph.
    fn each_edge(&self, layer: &Layer, ids: &[u32], mut visit: impl FnMut(usize, usize)) {
        each_edge(&self.shared.topology, layer, ids, &mut visit);
    }

    /// Size in bytes, without what ranks share.
    pub(crate) fn bytes(&self) -> u64 {
        let numbers = 4 * u64::from(self.shared.topology.vertices());
        numbers + self.under_way.iter().map(UnderWay::bytes).sum::<u64>()
    }
}

impl UnderWay {
    fn ids(&self) -> &[u32] {
        match self.blocks.layers() {
            0 => &[],
            _ => self.blocks.level(0),
        }
    }

    fn bytes(&self) -> u64 {
        let edges = self.layers.iter().flatten().flatten().map(Edges::bytes);
        let blocks = 12 * self.blocks.edges() + 4 * self.ids().len() as u64;
        (edges.sum::<usize>() + self.asked.bytes()) as u64 + blocks
    }
}

/// The types of a layer's edges.
struct Types<'a> {
    topology: &'a Topology,
    /// Vertices of the level below.
    ids: &'a [u32],
    layer: &'a Layer,
}

fn each_edge(topology: &Topology, layer: &Layer, ids: &[u32], visit: &mut dyn FnMut(usize, usize)) {
    let starts = topology.indptr();
    for (row, ends) in layer.edges.indptr.windows(2).enumerate() {
        let start = starts[ids[row] as usize] as usize;
        for at in ends[0] as usize..ends[1] as usize {
            visit(at, start + layer.positions[at] as usize);
        }
    }
}

/// What each edge counts in an unbiased sum.
fn scales(layer: &Layer, typed: bool, set: EdgeSet, ids: &[u32], out: &mut [f32]) {
    let mut next = 0;
    for (row, ends) in layer.edges.indptr.windows(2).enumerate() {
        let mut looped = set == EdgeSet::Plain;
        for at in ends[0] as usize..ends[1] as usize {
            if !looped && ids[layer.edges.indices[at] as usize] > ids[row] {
                (out[next], looped) = (1.0, true);
                next += 1;
            }
            out[next] = if typed {
                layer.scales[at]
            } else {
                layer.scales[row]
            };
            next += 1;
        }
        if !looped {
            out[next] = 1.0;
            next += 1;
        }
    }
}

/// Lists the edges of a layer in the orders in which kernels walk them.
fn fill(edges: &mut Edges, set: EdgeSet, ways: Ways, below: usize, types: &Types) {
    let from = &types.layer.edges;
    let to = &mut edges.by_destination.csr;
    match set {
        EdgeSet::Plain => to.clone_from(from),
        EdgeSet::Looped => with_loops(from, types.ids, to),
    }
    pieces_into(
        &edges.by_destination.csr.indptr,
        &mut edges.by_destination.pieces,
    );
    edges.kept = [true; 2];
    edges.vertices.clear();
    if ways.vertices {
        let sources = edges.by_destination.csr.indices.iter();
        edges
            .vertices
            .extend(sources.map(|row| types.ids[*row as usize]));
    }
    edges.by_source = ways.by_source.then(|| {
        let (mut walkable, mut positions) = edges.by_source.take().unwrap_or_default();
        by_source(
            &edges.by_destination.csr,
            below,
            &mut walkable.csr,
            &mut positions,
        );
        pieces_into(&walkable.csr.indptr, &mut walkable.pieces);
        (walkable, positions)
    });
    edges.by_type = ways.by_type.then(|| {
        let mut walkable = edges.by_type.take().unwrap_or_default();
        by_type(types, &mut walkable.csr);
        pieces_into(&walkable.csr.indptr, &mut walkable.pieces);
        walkable
    });
}

/// Adds a self loop to each row, before the first source with a larger id.
fn with_loops(from: &Csr, ids: &[u32], to: &mut Csr) {
    to.indptr.clear();
    to.indices.clear();
    to.indptr.push(0);
    for (row, ends) in from.indptr.windows(2).enumerate() {
        let sources = &from.indices[ends[0] as usize..ends[1] as usize];
        let smaller = |source: &&u32| ids[**source as usize] <= ids[row];
        let before = sources.iter().take_while(smaller).count();
        to.indices.extend_from_slice(&sources[..before]);
        to.indices.push(row as u32);
        to.indices.extend_from_slice(&sources[before..]);
        to.indptr.push(to.indices.len() as u64);
    }
}

/// The edges by source, with the position of each by destination.
fn by_source(from: &Csr, sources: usize, to: &mut Csr, positions: &mut Vec<u32>) {
    to.indptr.clear();
    to.indptr.resize(sources + 1, 0);
    // Counts first, one place late, so that each count becomes the cursor of its row.
    for source in &from.indices {
        to.indptr[*source as usize + 1] += 1;
    }
    for row in 0..sources {
        to.indptr[row + 1] += to.indptr[row];
    }
    to.indices.resize(from.indices.len(), 0);
    positions.resize(from.indices.len(), 0);
    for (row, ends) in from.indptr.windows(2).enumerate() {
        for at in ends[0]..ends[1] {
            let next = &mut to.indptr[from.indices[at as usize] as usize];
            to.indices[*next as usize] = row as u32;
            positions[*next as usize] = at as u32;
            *next += 1;
        }
    }
    // Each cursor has moved to the beginning of the next row.
    to.indptr.rotate_right(1);
    to.indptr[0] = 0;
    let last = to.indptr.len() - 1;
    to.indptr[last] = from.indices.len() as u64;
}

/// The positions of the edges of each type.
fn by_type(types: &Types, to: &mut Csr) {
    let count = types.topology.relations() as usize;
    let of = types.topology.types();
    to.indptr.clear();
    to.indptr.resize(count + 1, 0);
    each_edge(types.topology, types.layer, types.ids, &mut |_, edge| {
        to.indptr[usize::from(of[edge]) + 1] += 1;
    });
    for kind in 0..count {
        to.indptr[kind + 1] += to.indptr[kind];
    }
    let mut cursors: Vec<u64> = to.indptr.clone();
    to.indices.clear();
    to.indices.resize(types.layer.edges.indices.len(), 0);
    each_edge(types.topology, types.layer, types.ids, &mut |at, edge| {
        let cursor = &mut cursors[usize::from(of[edge])];
        to.indices[*cursor as usize] = at as u32;
        *cursor += 1;
    });
}

impl Default for Walkable {
    fn default() -> Self {
        Self {
            csr: Csr {
                indptr: vec![0],
                indices: Vec::new(),
            },
            pieces: Vec::new(),
        }
    }
}
