//! Preparation before a program's first instruction: compile the kernels, give every rank its share
//! of the data, and initialize the buffers.

use crate::arena::Arena;
use crate::by_part::runs_on_parts;
use crate::clocks::Clocks;
use crate::executor::Worker;
use crate::labels::labels_fit;
use crate::machine::fits;
use crate::options::RunOptions;
use crate::part::batch::Batch;
use crate::part::drawing::OfRun;
use crate::part::features::{columns, stored};
use crate::part::lists::Table;
use crate::part::sampled::{Divided, OfList, Sampled};
use crate::part::whole::{Whole, Wholes};
use crate::part::{Needs, Part};
use crate::programs::Programs;
use crate::rank::Rank;
use crate::staleness::Staleness;
use crate::stop::first_change;
use crate::team::Team;
use crate::transport::Transport;
use crate::weights::Weights;
use crate::{RuntimeError, init};
use gnnc_codegen::cpu::{Compiled, Compiler};
use gnnc_graph::parts::WholeGraph;
use gnnc_graph::routes::Routes;
use gnnc_graph::{Features, GraphData, Kept, LocalPart, Partition, RowOrder, Topology};
use gnnc_ir::EdgeSet;
use gnnc_ir::kernel::End;
use gnnc_ir::kernel::Walk;

use gnnc_graph::sample::Pilot;
use gnnc_ir::program::memory::layout;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::verify::VerifiedProgram;
use gnnc_ir::program::{BufferId, Capacity, Grouped, Program, Role};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A rank without memory, and initial contents that it does not keep.
pub(crate) struct Beginning {
    pub(crate) rank: Rank,
    pub(crate) degrees: Degrees,
}

/// The ranks `here` of a session with `count` ranks, each with its share of the data.
///
/// # Errors
/// If program, graph and partition do not fit each other.
pub(crate) fn ranks(
    programs: &Programs,
    data: &GraphData,
    partition: &Partition,
    options: &RunOptions,
    (here, count): (Range<usize>, usize),
) -> Result<Vec<Beginning>, RuntimeError> {
    programs.check(partition, count)?;
    let all = programs.all();
    let kept = all.first().map(|program| Kept::by(program));
    let kept = kept.unwrap_or_default();
    // A single rank finds the rows of a batch by their vertices.
    let by_id = partition.parts() == 1 && all.iter().any(|program| program.hops() > 0);
    let order = if by_id {
        RowOrder::ById
    } else if all.iter().any(|program| program.equal_bits) {
        RowOrder::Canonical
    } else {
        RowOrder::ByDegree
    };
    // Every stage has all parts.
    let width = (partition.parts() as usize).max(1);
    let (locals, whole_graph) = match &options.parts {
        Some(parts) => {
            let fits = |program: &Arc<Program>| runs_on_parts(program);
            all.iter()
                .try_for_each(fits)
                .map_err(RuntimeError::Program)?;
            let numbers: BTreeSet<usize> = here.clone().map(|number| number % width).collect();
            let read = numbers
                .iter()
                .map(|number| parts.part(*number as u32, partition));
            (read.collect::<Result<_, _>>()?, parts.whole())
        }
        None => {
            let locals = LocalPart::build(&data.topology, partition, kept, order)?;
            (locals, WholeGraph::of(&data.topology))
        }
    };
    let node_ranks = all.iter().find_map(|program| program.node_ranks);
    let mut routes = [End::Src, End::Dst].map(|end| match node_ranks {
        Some(ranks) => Routes::of(&locals, ranks, end),
        None => Vec::new(),
    });
    let of_locals = (&locals[..], options.parts.as_deref());
    let wholes = Wholes::new(all, data, partition, whole_graph, of_locals)?;
    // Of the stages of a pipeline, one has the loss.
    let with_loss = all
        .iter()
        .find(|program| program.loss.is_some() || program.metrics.is_some());
    let weights = with_loss.map_or_else(Weights::default, |program| Weights::new(program, data));
    let weights = Arc::new(weights);
    let sampled = (all.iter().find(|program| program.hops() > 0)).map(|program| {
        let divided = Divided {
            data,
            partition,
            parts: &locals,
            folder: options.parts.as_deref(),
            whole: wholes.graph(),
            here: &here,
        };
        let needs = Needs::of(program);
        Sampled::new(divided, &needs, &weights, program, options.seed)
    });
    let sampled = sampled.transpose()?.map(Arc::new);
    let mut pilots = Vec::new();
    if let (Some(sampled), Some(program)) = (&sampled, all.first()) {
        for of in lists(program) {
            pilots.push(sampled.pilots(program, of, options, data)?);
        }
    }
    let mut ranks = Vec::with_capacity(here.len());
    for number in here.clone() {
        let of_rank = |local: &&LocalPart| local.rank as usize == number % width;
        let Some(local) = locals.iter().find(of_rank) else {
            break;
        };
        let program = &all[programs.index(number, count)];
        let whole = wholes.of(program, number as u32);
        let degrees = Degrees::new(program, local, whole, &data.topology);
        let of_rank = |all: &mut Vec<Routes>| all.get_mut(local.rank as usize).map(std::mem::take);
        let routes = routes.each_mut().map(of_rank);
        let mut part = Part::new(
            local.clone(),
            routes,
            data,
            program,
            Arc::clone(whole),
            Arc::clone(&weights),
        )?;
        let mut capacity = part.sizes;
        if let Some(sampled) = &sampled {
            let of_run = OfRun {
                rank: number as u32,
                own: part.inner,
                seed: options.seed,
                threads: options.threads_per_rank,
                samplers: options.samplers,
                launch: options.launch,
            };
            let needs = Needs::of(program).batches;
            for ((of, needs), pilots) in lists(program).zip(needs).zip(&pilots) {
                let batch = Batch::new(sampled, of, needs, of_run)?;
                let drawn = pilots.iter().filter_map(|sizes| sizes.get(number % width));
                let most = Pilot::of(&drawn.copied().collect::<Vec<_>>()).most;
                capacity.batch = capacity.batch.max(&batch.room(most));
                part.batches.add(of.phase, batch);
            }
        }
        let capacity = Capacity::of(capacity);
        let verified = VerifiedProgram::new(
            Arc::clone(program),
            &part.facts(number as u32, capacity, data),
        );
        let verified = verified.map_err(|e| RuntimeError::Program(e.to_string()))?;
        labels_fit(program, data)?;
        let (clocks, layers) = Clocks::new(program);
        let rank = Rank {
            number: number as u32,
            ranks: count as u32,
            program: verified,
            layout: layout(program, &capacity),
            capacity,
            part,
            events: options.trace.then(Vec::new),
            place: Default::default(),
            clocks,
            staleness: Staleness { layers },
            moved: 0,
            crossed: 0,
            kept: Default::default(),
        };
        ranks.push(Beginning { rank, degrees });
    }
    Ok(ranks)
}

/// The batches of a program's lists, those to train on first.
fn lists(program: &Program) -> impl Iterator<Item = OfList<'_>> {
    [Phase::Step, Phase::Eval].into_iter().filter_map(|phase| {
        let sampling = program.batches_of(phase)?;
        Some(OfList { phase, sampling })
    })
}

/// Creates the ranks of this process on the CPU, ready for `setup`. They are those of the transports.
///
/// # Errors
/// As [`crate::Session::new`].
pub(crate) fn workers(
    programs: &Programs,
    data: &GraphData,
    partition: &Partition,
    options: &RunOptions,
    transports: Vec<Box<dyn Transport>>,
) -> Result<Vec<Worker>, RuntimeError> {
    let (first, count) = match transports.first() {
        Some(end) => (end.rank() as usize, end.ranks() as usize),
        None => (0, 0),
    };
    let here = first..first + transports.len();
    let ranks = ranks(programs, data, partition, options, (here, count))?;
    let began = Instant::now();
    let cache = options.cache.clone();
    let compiler = match options.checked {
        true => Compiler::checked(cache),
        false => Compiler::new(cache),
    };
    let compiler = compiler.map_err(|source| RuntimeError::Kernel { kernel: 0, source })?;
    // The compiler caches its results, so programs share equal kernels.
    let mut compiled = Vec::with_capacity(programs.all().len());
    for program in programs.all() {
        compiled.push(Arc::new(compile(program, &compiler)?));
    }
    let needs = ranks.iter().map(|beginning| &beginning.rank);
    fits(needs, options.memory_limit)?;
    let mut workers = Vec::with_capacity(ranks.len());
    for (Beginning { rank, degrees }, transport) in ranks.into_iter().zip(transports) {
        let kernels = &compiled[programs.index(rank.number as usize, count)];
        let bytes = rank.layout.total_bytes;
        let block = |bytes: u64| {
            let rank = rank.number;
            let refused = |source| RuntimeError::Memory {
                rank,
                bytes,
                source,
            };
            Arena::new((bytes / 4) as usize).map_err(refused)
        };
        let (arena, host) = (block(bytes)?, block(rank.layout.host_bytes)?);
        let mut worker = Worker {
            arena,
            host,
            kernels: Arc::clone(kernels),
            team: Arc::new(Team::new(rank.number, options.threads_per_rank)?),
            transport,
            began,
            memory: Default::default(),
            stop: options.stop.clone(),
            on_batch: options.on_batch.clone().filter(|_| rank.number == 0),
            first_change: first_change(&rank.program),
            own: rank,
        };
        let expected = worker.expect_messages();
        expected.map_err(|fault| RuntimeError::Program(fault.to_string()))?;
        for id in (0..worker.own.program.buffers.len() as u32).map(BufferId) {
            if !worker.own.program.buffer(id).role.is_filled() {
                continue;
            }
            // SAFETY: the rank is not running yet.
            let words = unsafe { worker.buffer(id).write() };
            let (rank, seed) = (&worker.own, options.seed);
            if rank.program.buffer(id).storage.is_f32() {
                fill((rank, &degrees), id, data, seed, words);
            } else if let Some(numbers) = degrees.first(rank, id, data, seed) {
                words.copy_from_slice(&rank.packed(id, &numbers));
            }
        }
        workers.push(worker);
    }
    Ok(workers)
}

/// Compiles all kernels, several at a time.
fn compile(program: &Program, compiler: &Compiler) -> Result<Vec<Arc<Compiled>>, RuntimeError> {
    let count = program.kernels.len();
    let next = AtomicUsize::new(0);
    let results = Mutex::new((0..count).map(|_| None).collect::<Vec<_>>());
    let work = || loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        let Some(kernel) = program.kernels.get(n) else {
            break;
        };
        let compiled = compiler.compile(kernel);
        results.lock().unwrap_or_else(PoisonError::into_inner)[n] = Some(compiled);
    };
    let threads = std::thread::available_parallelism()
        .map_or(1, |n| n.get())
        .min(count);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // If a thread cannot start, there is one less to help.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results
        .into_iter()
        .enumerate()
        .map(|(kernel, result)| match result {
            Some(Ok(compiled)) => Ok(compiled),
            Some(Err(source)) => Err(RuntimeError::Kernel { kernel, source }),
            None => Err(RuntimeError::Program(format!(
                "kernel {kernel} was not compiled"
            ))),
        })
        .collect()
}

/// Integers of local vertices and of edges, as far as the program reads them: by role, and whether
/// they cover the whole graph.
pub(crate) struct Degrees(Vec<((Role, bool), Vec<u32>)>);

impl Degrees {
    /// Initial numbers of a rank's buffer before `setup`; `None` if they are 0 or do not matter.
    pub(crate) fn first(
        &self,
        rank: &Rank,
        id: BufferId,
        data: &GraphData,
        seed: u64,
    ) -> Option<Vec<f32>> {
        if !rank.program.buffer(id).role.is_filled() {
            return None;
        }
        let mut floats = vec![0.0; rank.elements(id)];
        fill((rank, self), id, data, seed, &mut floats).then_some(floats)
    }

    fn new(program: &Program, local: &LocalPart, whole: &Whole, topology: &Topology) -> Self {
        let types = |types: &[u16]| types.iter().map(|kind| u32::from(*kind)).collect();
        let mut kinds: Vec<((Role, bool), Vec<u32>)> = Vec::new();
        for buffer in &program.buffers {
            let kind = (buffer.role, buffer.extent.of_whole_graph());
            if kinds.iter().any(|(known, _)| *known == kind) {
                continue;
            }
            let numbers = match kind {
                (Role::Degree(set, End::Dst), _) => local.in_degrees(set),
                (Role::Degree(set, End::Src), _) => local.out_degrees(set),
                (Role::Relation(_), false) => types(&local.types()),
                (Role::Relation(_), true) => match &whole.group {
                    Some(group) => types(&group.types()),
                    None => types(&topology.plain_types()),
                },
                (Role::RelationDegree(_), false) => local.relation_degrees(),
                (Role::RelationDegree(_), true) => match &whole.group {
                    Some(group) => group.relation_degrees(),
                    None => topology.relation_degrees(),
                },
                _ => continue,
            };
            kinds.push((kind, numbers));
        }
        Self(kinds)
    }
}

/// Bytes of features copied from a mapped file before its memory is given back.
const COPIED_AT_ONCE: usize = 32 << 20;

/// Gives the memory of features in a mapped file back.
fn release(features: &Features) {
    if let Features::Dense { values, .. } = features {
        values.release();
    }
}

/// Writes the initial contents of a zeroed buffer before `setup`, if they are not zero. Returns
/// whether it did.
fn fill(
    (rank, degrees): (&Rank, &Degrees),
    id: BufferId,
    data: &GraphData,
    seed: u64,
    floats: &mut [f32],
) -> bool {
    let own = &rank.part.global[..rank.part.inner];
    let buffer = rank.program.buffer(id);
    match buffer.role {
        Role::Features | Role::FeatureValues => {
            let columns = columns(&rank.program, &data.features, buffer.extent);
            let whole = buffer.extent.slices_features();
            let all = match whole {
                true => rank.part.whole.vertices(data),
                false => Cow::Borrowed(own),
            };
            let (dense, width) = (buffer.role == Role::Features, buffer.columns as usize);
            // A file's pages are in memory only until they are copied.
            let rows_at_once = (COPIED_AT_ONCE / (4 * width.max(1))).max(1);
            let mut next = 0;
            for (row, &v) in all.iter().enumerate() {
                if row % rows_at_once == 0 {
                    release(&data.features);
                }
                stored(&data.features, v, &columns, |column, value| {
                    let at = match dense {
                        true => row * width + column as usize,
                        false => next,
                    };
                    floats[at] = value;
                    next += 1;
                });
            }
            release(&data.features);
        }
        Role::Degree(..) | Role::Relation(_) | Role::RelationDegree(_) => {
            let kind = (buffer.role, buffer.extent.of_whole_graph());
            if let Some((_, numbers)) = degrees.0.iter().find(|(known, _)| *known == kind) {
                floats
                    .iter_mut()
                    .zip(numbers)
                    .for_each(|(x, &number)| *x = number as f32);
            }
        }
        Role::EdgeFeatures(_) => {
            let set = buffer.extent.edge_set().unwrap_or(EdgeSet::Plain);
            let targets = match buffer.extent.of_whole_graph() {
                true => rank.part.whole.vertices(data),
                false => Cow::Borrowed(own),
            };
            let values = data
                .edge_features
                .into_vertices(&data.topology, set, &targets);
            floats
                .iter_mut()
                .zip(values)
                .for_each(|(x, value)| *x = value);
        }
        Role::EdgeEnds(Grouped { set, by }) => {
            let table = Table::edges(buffer.extent, set, Walk::by(by));
            if let Some((walkable, _)) = table.and_then(|table| rank.part.table(table)) {
                integers(&walkable.csr.indices, floats);
            }
        }
        Role::EdgePlaces(set) => {
            let table = Table::edges(buffer.extent, set, Walk::EdgesBySource);
            if let Some((_, places)) = table.and_then(|table| rank.part.table(table)) {
                integers(places, floats);
            }
        }
        Role::Table(t) => floats.copy_from_slice(&rank.program.tables[t as usize]),
        Role::Param(p) => {
            let size = (floats.len() / buffer.slots.max(1) as usize).max(1);
            let spec = &rank.program.params[p as usize];
            let first = spec.element.map_or(0, |element| element.index);
            let own = rank.part.own_rows(buffer.extent);
            for (values, slot) in floats.chunks_exact_mut(size).zip(first..) {
                init::fill(spec, own, seed, slot, values);
            }
        }
        Role::State(..) | Role::Static | Role::History(_) | Role::Result | Role::Temp => {
            return false;
        }
    }
    true
}

/// Stores the bits of integers in floats.
fn integers(from: &[u32], to: &mut [f32]) {
    let pairs = to.iter_mut().zip(from);
    pairs.for_each(|(word, number)| *word = f32::from_bits(*number));
}
