//! What plans count of a data graph: its partitions, and the batches that ranks draw on them.

use crate::partitions::of_leaves;
use crate::{Compiled, Error, partitions};
use gnnc_files::Cache;
use gnnc_graph::partition::{self, Partition};
use gnnc_graph::sample::{
    At, BatchSource, HopEdges, PILOT, Replay, Rule, SampleError, Sampler, fetch_share, seeds,
};
use gnnc_graph::{GraphData, Topology, summary};
use gnnc_ir::EdgeSet;
use gnnc_ir::cluster::Cluster;
use gnnc_ir::plan::{Knobs, Partitioner};
use gnnc_ir::program::leaves::leaves;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::words::sampling::Sampling;
use gnnc_ir::workload::PartitionSummary;
use gnnc_planner::lower::Batches;
use gnnc_planner::parts::BatchPlan;
use gnnc_runtime::RuntimeError;
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A number of parts, and the partitioner that makes them.
pub(super) type Division = (u32, Partitioner);

/// The divisions of a graph that were counted.
#[derive(Default)]
pub(super) struct Counted {
    /// Numbers of ranks a node whose crossing rows are counted.
    of_nodes: Vec<u32>,
    /// Whether parts own runs of leaves, and have the edges into their vertices and out of them.
    equal_bits: bool,
    /// Statistics of partitions.
    pub(super) partitions: BTreeMap<Division, PartitionSummary>,
    /// Sizes of batches, in the order of [`Draws::batches`].
    pub(super) batches: BTreeMap<Division, Vec<BatchPlan>>,
}

/// The batches to draw.
#[derive(Clone, Debug, Default)]
pub(super) struct Draws {
    /// How, for each kind of batches.
    pub(super) batches: Vec<Batches>,
    /// The seed of the run.
    pub(super) seed: u64,
    /// On which divisions.
    pub(super) on: BTreeSet<Division>,
}

impl Counted {
    /// Nothing counted yet, for the nodes of a cluster and those that are asked for.
    pub(super) fn on(cluster: &Cluster, knobs: &Knobs) -> Self {
        Self {
            of_nodes: std::iter::once(cluster.devices_per_node)
                .chain(knobs.node_ranks)
                .collect(),
            equal_bits: knobs.equal_bits == Some(true),
            ..Self::default()
        }
    }

    /// Partitions a graph and counts its parts and the batches on them, where that is not known yet.
    /// Each partitioner gets all its requests at once, to share work between them, and looks into `cache` first.
    ///
    /// # Errors
    /// A graph that cannot be partitioned; batches that do not fit the graph.
    pub(super) fn count(
        &mut self,
        data: &GraphData,
        compiled: &Compiled,
        divisions: &BTreeSet<Division>,
        draws: &Draws,
        cache: Option<&Cache>,
    ) -> Result<(), Error> {
        let of_one = draws.on.iter().filter(|(parts, _)| *parts == 1);
        for division in of_one {
            self.draw(data, *division, Partition::whole(data.vertices()), draws)?;
        }
        let mut missing: BTreeMap<Partitioner, Vec<u32>> = BTreeMap::new();
        let known = |division: &&Division| {
            let drawn = draws.batches.is_empty() || !draws.on.contains(division);
            self.partitions.contains_key(division) && (drawn || self.batches.contains_key(division))
        };
        for (parts, partitioner) in divisions.iter().filter(|division| !known(division)) {
            missing.entry(*partitioner).or_default().push(*parts);
        }
        for (partitioner, counts) in missing {
            let name = partitioner.name();
            let method = partition::by_name(name, 0)
                .ok_or_else(|| Error::Input(format!("there is no partitioner {name}")))?;
            let input = compiled.input(data, partitioner);
            let made = match self.equal_bits {
                true => {
                    let most = leaves(data.vertices().into());
                    let counts: Vec<u32> = counts
                        .iter()
                        .copied()
                        .filter(|count| *count <= most)
                        .collect();
                    of_leaves(input, &*method, &counts, cache)?
                }
                false => partitions(input, &*method, &counts, cache)?,
            };
            for partition in made {
                let parts = partition.parts();
                let division = (parts, partitioner);
                let mut found =
                    summary::summarise_partition(data, &partition, name, &self.of_nodes)?;
                if compiled.sends_sums() {
                    found.cover = summary::cover_loads(data, &partition);
                }
                if self.equal_bits {
                    found.both_ends = summary::both_ends_loads(data, &partition);
                }
                self.partitions.insert(division, found);
                self.draw(data, division, partition, draws)?;
            }
        }
        Ok(())
    }

    /// Draws the first batches of a run on a partition, if they are asked for.
    fn draw(
        &mut self,
        data: &GraphData,
        division: Division,
        partition: Partition,
        draws: &Draws,
    ) -> Result<(), Error> {
        let wanted = draws.on.contains(&division) && !self.batches.contains_key(&division);
        if !wanted || draws.batches.is_empty() {
            return Ok(());
        }
        let partition = Arc::new(partition);
        let drawn = draws.batches.iter().map(|batches| {
            let batches = (&batches.training, batches.evaluation.as_ref());
            batch_plan(data, &partition, batches, draws.seed)
        });
        let drawn = drawn.collect::<Result<_, _>>()?;
        self.batches.insert(division, drawn);
        Ok(())
    }
}

/// The sizes of batches to train on, and to evaluate on if there are such, by drawing the first ones of
/// a run.
///
/// # Errors
/// Settings that do not fit the graph, such as no training vertices.
pub(crate) fn batch_plan(
    data: &GraphData,
    partition: &Arc<Partition>,
    (training, evaluation): (&Sampling, Option<&Sampling>),
    seed: u64,
) -> Result<BatchPlan, Error> {
    let pilots = |sampling: &Sampling, phase: Phase| {
        let topology = data.topology.only(EdgeSet::Plain);
        let drawn = Drawn {
            training,
            sampling,
            phase,
        };
        let mut replay = replay(data, &*topology, drawn, partition, seed)?;
        let first = 0..replay.count().min(PILOT);
        let drawn = first.map(|batch| replay.sizes(At::first_of(phase, batch)));
        let mut drawn = drawn.collect::<Result<Vec<_>, _>>().map_err(no_batches)?;
        // The first batches find no copies, so the mean over an epoch is computed.
        let shares = replay
            .fetched_shares(&seeds(data, phase), sampling)
            .map_err(no_batches)?;
        for sizes in &mut drawn {
            for (sizes, share) in sizes.iter_mut().zip(&shares) {
                fetch_share(*share, sizes);
            }
        }
        Ok::<_, Error>(drawn)
    };
    let trained = pilots(training, Phase::Step)?;
    let evaluated = evaluation.map(|sampling| pilots(sampling, Phase::Eval));
    let evaluated = evaluated.transpose()?;
    let graph = (data.vertices().into(), data.topology.edges());
    Ok(BatchPlan::drawn(trained, evaluated, graph))
}

/// The batches of a list.
#[derive(Clone, Copy)]
pub(crate) struct Drawn<'a> {
    /// Those to train on, by which ranks choose the rows that they keep.
    pub(crate) training: &'a Sampling,
    /// Those of the list.
    pub(crate) sampling: &'a Sampling,
    /// The list.
    pub(crate) phase: Phase,
}

/// Draws the batches of a list on all ranks of a partition. `topology` has the plain edges of the graph.
///
/// # Errors
/// Settings that do not fit the graph, such as no training vertices.
pub(crate) fn replay<T: Borrow<Topology> + Clone + Send + Sync>(
    data: &GraphData,
    topology: T,
    drawn: Drawn,
    partition: &Arc<Partition>,
    seed: u64,
) -> Result<Replay<T>, Error> {
    let Drawn {
        training,
        sampling,
        phase,
    } = drawn;
    let made = move || {
        let trained = BatchSource {
            edges: &HopEdges::new(topology.clone(), data, &training.over),
            seeds: &seeds(data, Phase::Step),
            sampling: training,
            partition,
            seed,
        };
        let caches = trained.caches()?;
        let edges = HopEdges::new(topology, data, &sampling.over);
        let sampler = Sampler::over(edges, &Rule::of(sampling, seed)?, 1)?;
        Replay::new(
            sampler,
            &seeds(data, phase),
            sampling,
            partition,
            seed,
            &caches,
        )
    };
    made().map_err(no_batches)
}

/// Says why batches cannot be drawn.
pub(super) fn no_batches(error: SampleError) -> Error {
    Error::Input(RuntimeError::Sampling(error).to_string())
}
