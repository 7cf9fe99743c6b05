//! Placement of a run on its ranks, and partition of the graph.

use super::TrainOptions;
use crate::knobs::{Form, KNOBS};
use crate::partitions::of_leaves;
use crate::{Compiled, Device, Error, Loaded, PlanOptions, cut_chunks, partitions};
use gnnc_graph::partition::{self, Partition, PartitionInput};
use gnnc_ir::cluster::Cluster;
use gnnc_ir::graph::model::Relaxation;
use gnnc_ir::plan::{Knobs, Layouts, Placement};
use gnnc_ir::program::leaves::leaves;
use gnnc_ir::words::sampling::Topology;
use gnnc_ir::words::spelling::counted;
use gnnc_planner::lower::chunks::MOST_CHUNKS;
use gnnc_planner::placement::{self, OnBatches, PlacementSpec, Stages, Useless};
use gnnc_planner::search::Pin;

/// Refuses a placement whose relaxations are not permitted.
pub(super) fn permitted(loaded: &Loaded, options: &TrainOptions) -> Result<(), Error> {
    let allow = allowed(loaded, options);
    let needed = asked(loaded, options).relaxations();
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

/// Refuses options that the device of a run does not have.
pub(super) fn on_device(options: &TrainOptions) -> Result<(), Error> {
    let equal_bits = options.knobs.equal_bits == Some(true);
    let sampling = &options.knobs.sampling;
    match &options.device {
        Device::Cuda(_) if options.workers > 1 && sampling.cached().is_some_and(|one| one.age.is_some()) => {
            Err(Error::Input(
                "found --cache-age with a GPU, on which no copies of embeddings are kept; train on the \
                 processor, or leave out --cache and --cache-age"
                    .to_owned(),
            ))
        }
        Device::Cuda(_) if equal_bits => Err(Error::Input(
            "found --equal-bits with a GPU, whose libraries give other bits for products of other shapes; train on the \
             processor, or leave it out"
                .to_owned(),
        )),
        Device::Cpu if equal_bits && options.device_memory.is_some() => Err(Error::Input(
            "found --equal-bits with --device-memory, which lets tensors rest on the host; leave one of them out".to_owned(),
        )),
        Device::Cpu | Device::Cuda(_) => Ok(()),
    }
}

fn allowed(loaded: &Loaded, options: &TrainOptions) -> Vec<Relaxation> {
    [&options.allow[..], &loaded.model.train.allow].concat()
}

/// The placement that is asked for. One that can do without batches leaves out those of the model if
/// sampling is not permitted, or if a plan has none.
fn asked(loaded: &Loaded, options: &TrainOptions) -> PlacementSpec {
    let row = placement::row(options.placement);
    let can_do_without = row.is_some_and(|row| row.batches == OnBatches::Either);
    let sample = allowed(loaded, options).contains(&Relaxation::Sample);
    let mut knobs = options.knobs.clone();
    if loaded.by_part.is_some() && options.placement == Placement::Minibatch {
        knobs.sampling.topology.get_or_insert(Topology::Own);
    }
    let without = options.planned && knobs.sampling.is_open();
    if !can_do_without || sample && !without {
        knobs = knobs.with_batches(&loaded.model.train.sampling);
    }
    PlacementSpec {
        placement: options.placement,
        ranks: options.workers,
        knobs,
    }
}

/// The placement to lower, with the best layouts and layers where the options leave them open.
///
/// # Errors
/// As `crate::plan`.
pub fn place(
    loaded: &Loaded,
    compiled: &Compiled,
    options: &TrainOptions,
) -> Result<PlacementSpec, Error> {
    let mut spec = asked(loaded, options);
    let row = placement::row(spec.placement);
    let count = spec.stages().map(|stages| stages.count);
    let count = count.filter(|count| *count > 0);
    if let Some(count) = count.filter(|count| !spec.ranks.is_multiple_of(*count)) {
        return Err(Error::Input(format!(
            "found {} on {}, expected a number of stages that divides {}",
            counted(count, "stage"),
            counted(spec.ranks, "worker"),
            spec.ranks
        )));
    }
    if spec.placement == Placement::Hybrid {
        ends(&mut spec, count)?;
    }
    if !options.knobs.sampling.is_open() && !spec.samples() && !spec.half_batches() {
        return Err(Error::Input(format!(
            "found options of sampled batches with placement {}, which trains on the whole graph; leave out --batch, \
             --fanouts and the like, or train with --placement {}",
            spec.placement,
            Placement::Minibatch
        )));
    }
    if let Some(useless) = spec.without_effect() {
        return Err(Error::Input(format!(
            "found {} with placement {}, which {}; leave it out{}",
            option(&useless),
            spec.placement,
            useless.why,
            useless.instead("train with")
        )));
    }
    if spec.stages().is_none() && spec.chunks() > MOST_CHUNKS {
        return Err(Error::Input(format!(
            "found {} chunks, expected at most {MOST_CHUNKS} for a placement that slices columns",
            spec.chunks()
        )));
    }
    let undivided = |stages: &Stages| stages.layers.is_empty() && stages.count != 1;
    let stages = spec.stages();
    let mixes = row.is_some_and(|row| row.mixes) && spec.knobs.layouts() == Layouts::default();
    let open = mixes || stages.as_ref().is_some_and(undivided);
    if open && spec.ranks > 1 {
        let cluster = match &options.cluster {
            Some(cluster) => cluster.clone(),
            None => Cluster::named("cpu")?,
        };
        let planned = PlanOptions {
            pin: Pin {
                knobs: Knobs {
                    partitioner: Some(options.partitioner()),
                    stages: count.filter(|_| stages.is_some()),
                    virtual_stages: stages.as_ref().map(|stages| stages.virtual_stages),
                    storage: spec.knobs.storage,
                    equal_bits: spec.knobs.equal_bits,
                    ..Knobs::default()
                },
                ..Pin::default()
            },
            cache: options.cache.clone(),
            ..PlanOptions::new(cluster)
        };
        let best = crate::best(loaded, compiled, &planned, (spec.placement, spec.ranks))?;
        spec.knobs = spec.knobs.with_layouts(best.knobs.layouts());
        if stages.is_some() {
            spec.knobs.stages = best.knobs.stages;
            spec.knobs.layers = best.knobs.layers;
        }
    }
    Ok(spec)
}

/// The option that set a knob, as users write it.
fn option(useless: &Useless) -> String {
    let knob = KNOBS.iter().find(|knob| knob.name == useless.knob);
    match knob.map(|knob| &knob.option) {
        Some(Form::Flag(name, _)) => format!("--{name}"),
        Some(Form::Value(_) | Form::None) | None => format!("--{} {}", useless.knob, useless.value),
    }
}

/// Turns a hybrid with one stage into graph parallelism, and a hybrid with one rank per stage into a pipeline.
///
/// # Errors
/// A number of ranks that cannot be divided into several groups of several ranks.
fn ends(spec: &mut PlacementSpec, stages: Option<u32>) -> Result<(), Error> {
    let ranks = spec.ranks;
    match stages {
        Some(1) => spec.placement = Placement::Graph,
        Some(count) if count == ranks => spec.placement = Placement::Pipeline,
        None if !(2..ranks).any(|count| ranks.is_multiple_of(count)) => {
            return Err(Error::Input(format!(
                "found placement {} on {}, expected a number of workers that divides into groups, such \
                 as 4; or use placement {} or {}",
                spec.placement,
                counted(ranks, "worker"),
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
    graph: PartitionInput,
    options: &TrainOptions,
    spec: &PlacementSpec,
) -> Result<Partition, Error> {
    if spec.equal_bits() {
        return by_leaves(graph, options, spec.parts());
    }
    let partition = parted(graph, options, spec.parts())?;
    let cache = options.cache.as_ref();
    Ok(match spec.stages() {
        Some(stages) => cut_chunks(graph.topology(), partition, stages.chunks, cache)?,
        None => partition,
    })
}

/// The partition of the graph into so many parts that own runs of its leaves.
///
/// # Errors
/// A partitioner that fails; more parts than leaves.
fn by_leaves(
    graph: PartitionInput,
    options: &TrainOptions,
    parts: u32,
) -> Result<Partition, Error> {
    let count = leaves(graph.vertices().into());
    if parts > count {
        return Err(Error::Input(format!(
            "found {} with --equal-bits, which divides a graph of {} into {count} leaves; use at most {count} workers, or \
             leave it out",
            counted(parts, "worker"),
            counted(graph.vertices(), "vertex")
        )));
    }
    made(graph, options, parts, true)
}

/// The partition of the graph into so many parts.
///
/// # Errors
/// A partitioner that fails.
pub(crate) fn parted(
    graph: PartitionInput,
    options: &TrainOptions,
    parts: u32,
) -> Result<Partition, Error> {
    if parts == 1 {
        return Ok(Partition::whole(graph.vertices()));
    }
    made(graph, options, parts, false)
}

/// The partition into so many parts, which own runs of leaves if they are to be made of such.
fn made(
    graph: PartitionInput,
    options: &TrainOptions,
    parts: u32,
    by_leaves: bool,
) -> Result<Partition, Error> {
    let name = options.partitioner().name();
    let method = partition::by_name(name, 0)
        .ok_or_else(|| Error::Input(format!("there is no partitioner {name}")))?;
    let cache = options.cache.as_ref();
    let made = match by_leaves {
        true => of_leaves(graph, &*method, &[parts], cache)?,
        false => partitions(graph, &*method, &[parts], cache)?,
    };
    let made = made.into_iter().next();
    made.ok_or_else(|| Error::Input(format!("{name} made no partition")))
}
