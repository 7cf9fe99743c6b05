//! A graph divided among the ranks of a run.

use super::TrainOptions;
use super::place::divide;
use crate::{ByPart, Compiled, Error};
use gnnc_graph::parts::Parts;
use gnnc_graph::routes::Routes;
use gnnc_graph::{GraphData, Kept, LocalPart, Partition, RowOrder};
use gnnc_ir::kernel::End;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::traffic::{Reads, Traffic, traffic};
use gnnc_ir::program::{Among, Program, RankSizes};
use gnnc_ir::words::spelling::counted;
use gnnc_planner::placement::PlacementSpec;
use gnnc_runtime::runs_on_parts;
use std::sync::Arc;

/// Who owns which vertices.
pub(super) struct Division {
    pub(super) partition: Arc<Partition>,
    /// The folder that ranks read their parts from; `None` if the whole graph is here.
    pub(super) parts: Option<Arc<Parts>>,
}

/// How many rows the ranks have, and read from each other.
pub(super) struct Rows {
    pub(super) reads: Reads,
    sizes: Vec<RankSizes>,
}

impl Rows {
    /// What a list of these programs together sends.
    pub(super) fn sent(&self, programs: &[Program], phase: Phase) -> Traffic {
        let mut sum = Traffic::default();
        for program in programs {
            let list = program.list(phase);
            sum.include(traffic(list, program, &self.reads, &self.sizes));
        }
        sum
    }
}

impl Division {
    /// Partitions the graph, or takes the parts of its folder.
    ///
    /// # Errors
    /// A partitioner that fails; a folder of other parts than the options ask for.
    pub(super) fn new(
        data: &GraphData,
        by_part: Option<&ByPart>,
        compiled: &Compiled,
        options: &TrainOptions,
        place: &PlacementSpec,
    ) -> Result<Self, Error> {
        let Some(ByPart { parts, .. }) = by_part else {
            let input = compiled.input(data, options.partitioner());
            return Ok(Self {
                partition: Arc::new(divide(input, options, place)?),
                parts: None,
            });
        };
        let manifest = &parts.manifest;
        if place.parts() != parts.count() {
            return Err(Error::Input(format!(
                "found {}, expected {}, one for each part of {}; or partition the graph again with --parts {}",
                counted(place.parts(), "worker"),
                parts.count(),
                manifest.workload.name,
                place.parts()
            )));
        }
        let asked = options
            .knobs
            .partitioner
            .map(|partitioner| partitioner.name());
        if let Some(asked) = asked.filter(|asked| *asked != manifest.partitioner) {
            return Err(Error::Input(format!(
                "found partitioner {asked}, but the parts of {} were made by {}; leave out --partitioner",
                manifest.workload.name, manifest.partitioner
            )));
        }
        if options.device_memory.is_some() {
            return Err(Error::Input(
                "found --device-memory with a folder of parts, whose ranks hold all of theirs; leave it out, or train from \
                 the file of the whole graph"
                    .to_owned(),
            ));
        }
        Ok(Self {
            partition: Arc::new(parts.partition()?),
            parts: Some(Arc::clone(parts)),
        })
    }

    /// Checks that programs read no more than parts have, if they run on these.
    ///
    /// # Errors
    /// A placement whose ranks need more.
    pub(super) fn fits(&self, place: &PlacementSpec, programs: &[Program]) -> Result<(), Error> {
        if self.parts.is_none() {
            return Ok(());
        }
        let refused = programs.iter().try_for_each(runs_on_parts);
        refused.map_err(|why| Error::Input(format!("found placement {}: {why}", place.placement)))
    }

    /// The rows of the ranks that run some programs.
    ///
    /// # Errors
    /// A part that is too large.
    pub(super) fn rows(&self, data: &GraphData, programs: &[Program]) -> Result<Rows, Error> {
        let (mut crossing, mut sums, mut of_groups) = ([0; 2], 0, 0);
        let (sent, inner): (Vec<Vec<u64>>, Vec<u64>) = match &self.parts {
            Some(parts) => {
                let entries = parts.manifest.parts.iter();
                entries
                    .map(|entry| (entry.sends.clone(), entry.inner))
                    .unzip()
            }
            None => {
                let kept = programs.first().map(Kept::by).unwrap_or_default();
                let order = RowOrder::ByDegree;
                let parts = LocalPart::build(&data.topology, &self.partition, kept, order)?;
                if let Some(node_ranks) = kept.node_ranks {
                    crossing = [End::Src, End::Dst].map(|end| {
                        let routes = Routes::of(&parts, node_ranks, end);
                        routes.iter().map(Routes::crossing_rows).sum()
                    });
                }
                if let Some(program) = programs.first().filter(|program| program.in_groups()) {
                    let groups = self.partition.groups(program.group_ranks(Among::Slices))?;
                    let groups = LocalPart::build_all(&data.topology, &groups)?;
                    of_groups = groups.iter().map(|group| group.halo() as u64).sum();
                }
                let targets = parts.iter().flat_map(|part| &part.ghosts_of);
                sums = targets.map(|(_, rows)| rows.len() as u64).sum();
                let sent = |part: &LocalPart| {
                    part.send
                        .iter()
                        .map(|(_, rows)| rows.len() as u64)
                        .collect()
                };
                parts
                    .iter()
                    .map(|part| (sent(part), part.inner as u64))
                    .unzip()
            }
        };
        let size = |inner| RankSizes {
            inner,
            vertices: data.vertices().into(),
            ..RankSizes::default()
        };
        Ok(Rows {
            reads: Reads {
                crossing: crossing[0],
                crossing_sums: crossing[1],
                sums,
                of_groups,
                ..Reads::by_owner(sent.iter().map(Vec::as_slice))
            },
            sizes: inner.into_iter().map(size).collect(),
        })
    }
}
