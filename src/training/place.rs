//! Placement of a run on its ranks, and partition of the graph.

use super::TrainOptions;
use crate::{Compiled, Error, Loaded, PlanOptions};
use gnnc_graph::GraphData;
use gnnc_graph::partition::{self, Partition};
use gnnc_ir::cluster::Cluster;
use gnnc_ir::plan::{Partitioner, Placement};
use gnnc_planner::layout::Layouts;
use gnnc_planner::lower::chunks::MOST_CHUNKS;
use gnnc_planner::placement::{self, Place, Stages};
use gnnc_planner::search::{Pin, relaxations};

/// Refuses a placement whose relaxations are not permitted.
pub(super) fn permitted(loaded: &Loaded, options: &TrainOptions) -> Result<(), Error> {
    let allow = [&options.allow[..], &loaded.model.train.allow].concat();
    let needed = relaxations(options.placement);
    match needed.iter().find(|r| !allow.contains(&r.permission())) {
        None => Ok(()),
        Some(relaxation) => {
            let (placement, name) = (options.placement, relaxation.permission().name());
            Err(Error::Input(format!(
                "placement {placement} does not compute exactly what the model says; permit it with \
                 --allow {name}, or with `allow = [{name}]` in the model's train block"
            )))
        }
    }
}

/// The placement to lower, with the best layouts and layers where the options leave them open.
///
/// # Errors
/// As `crate::plan`.
pub fn place(loaded: &Loaded, compiled: &Compiled, options: &TrainOptions) -> Result<Place, Error> {
    let mut place = Place {
        placement: options.placement,
        ranks: options.workers,
        layouts: options.layouts.clone(),
        flow: options.flow,
        skip: options.skip,
        stages: None,
        storage: options.storage,
    };
    let skips = placement::row(place.placement).is_some_and(|row| row.skips);
    if let Some(rule) = options.skip.filter(|_| !skips) {
        return Err(Error::Input(format!(
            "found the rule {rule} with placement {}, which skips no exchange; leave out --skip, \
             or train with placement {}, where the rule fixed:0 sends everything",
            place.placement,
            Placement::SkipBroadcast
        )));
    }
    let row = placement::row(place.placement);
    let staged = row.is_some_and(|row| row.staged());
    if !staged && place.flow.chunks > MOST_CHUNKS {
        return Err(Error::Input(format!(
            "found {} chunks, expected at most {MOST_CHUNKS} for a placement that slices columns",
            place.flow.chunks
        )));
    }
    if staged {
        place.stages = Some(
            options
                .stages
                .clone()
                .unwrap_or_else(|| Stages::of(place.placement, place.ranks)),
        );
    }
    let chosen = |stages: &Stages| (stages.count > 0).then_some(stages.count);
    let counted = place.stages.as_ref().and_then(chosen);
    if let Some(count) = counted.filter(|count| !place.ranks.is_multiple_of(*count)) {
        return Err(Error::Input(format!(
            "found {count} stages on {} workers, expected a number of stages that divides {}",
            place.ranks, place.ranks
        )));
    }
    if place.placement == Placement::Hybrid {
        ends(&mut place, counted)?;
    }
    let undivided = |stages: &Stages| stages.layers.is_empty() && stages.count != 1;
    let mixes = row.is_some_and(|row| row.mixes) && place.layouts == Layouts::default();
    let open = mixes || place.stages.as_ref().is_some_and(undivided);
    if open && place.ranks > 1 {
        let cluster = match &options.cluster {
            Some(cluster) => cluster.clone(),
            None => Cluster::named("cpu")?,
        };
        let all = Partitioner::ALL.iter();
        let partitioner = all.copied().find(|p| p.name() == options.partitioner);
        let planned = PlanOptions {
            pin: Pin {
                partitioner,
                stages: place.stages.as_ref().and_then(chosen),
                virtual_stages: place.stages.as_ref().map(|stages| stages.virtual_stages),
                storage: options.storage,
                ..Pin::default()
            },
            ..PlanOptions::new(cluster)
        };
        let best = crate::best(loaded, compiled, &planned, (place.placement, place.ranks))?;
        place.layouts = best.place.layouts;
        if let (Some(stages), Some(best)) = (&mut place.stages, best.place.stages) {
            (stages.count, stages.layers) = (best.count, best.layers);
            if stages.chunks == 0 {
                stages.chunks = best.chunks;
            }
        }
    }
    Ok(place)
}

/// Turns a hybrid with one stage into graph parallelism, and a hybrid with one rank per stage into a pipeline.
///
/// # Errors
/// A number of ranks that cannot be divided into several groups of several ranks.
fn ends(place: &mut Place, stages: Option<u32>) -> Result<(), Error> {
    let ranks = place.ranks;
    match stages {
        Some(1) => (place.placement, place.stages) = (Placement::Graph, None),
        Some(count) if count == ranks => place.placement = Placement::Pipeline,
        None if !(2..ranks).any(|count| ranks.is_multiple_of(count)) => {
            return Err(Error::Input(format!(
                "found placement {} on {ranks} workers, expected a number of workers that divides into groups, such \
                 as 4; or use placement {} or {}",
                place.placement,
                Placement::Pipeline,
                Placement::Graph
            )));
        }
        _ => {}
    }
    Ok(())
}

/// Partitions the graph for the ranks, and cuts the parts into chunks where the placement needs them.
pub(super) fn divide(
    data: &GraphData,
    options: &TrainOptions,
    place: &Place,
) -> Result<Partition, Error> {
    let stages = place.stages.as_ref();
    let parts = stages.map_or(place.ranks, |stages| stages.width(place.ranks));
    let partition = parted(data, options, parts)?;
    Ok(match stages {
        Some(stages) => partition.cut_chunks(&data.topology, stages.chunks, 0)?,
        None => partition,
    })
}

fn parted(data: &GraphData, options: &TrainOptions, parts: u32) -> Result<Partition, Error> {
    if parts == 1 {
        return Ok(Partition::whole(data.vertices()));
    }
    let partitioner = partition::by_name(&options.partitioner, 0).ok_or_else(|| {
        let found = &options.partitioner;
        Error::Input(format!(
            "unknown partitioner `{found}`, expected one of {}",
            partition::NAMES.join(", ")
        ))
    })?;
    Ok(partitioner.partition(&data.topology, parts)?)
}
