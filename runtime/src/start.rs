//! What happens before a program's first instruction: kernels are compiled, every rank gets its
//! share of the data, and buffers get their first contents.

use crate::device::cpu::Arena;
use crate::exchange::skip::Clocks;
use crate::executor::Rank;
use crate::features::{columns, stored};
use crate::machine::layouts;
use crate::part::Part;
use crate::programs::Programs;
use crate::session::RunOptions;
use crate::sparse::SparseKernels;
use crate::staleness::Staleness;
use crate::team::Team;
use crate::transport::{Group, Transport};
use crate::verify::verify;
use crate::whole::Whole;
use crate::{RuntimeError, init};
use gnnc_codegen::cpu::{Compiled, Compiler};
use gnnc_graph::{GraphData, LocalPart, Partition};
use gnnc_ir::EdgeSet;
use gnnc_ir::kernel::End;
use gnnc_ir::program::{BufferId, Extent, Program, Role};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Makes the ranks of a session, ready for `setup`.
///
/// # Errors
/// What [`crate::Session::new`] says.
pub(crate) fn ranks(
    programs: &Programs,
    data: &GraphData,
    partition: &Partition,
    options: &RunOptions,
    transports: Vec<Box<dyn Transport>>,
) -> Result<Vec<Rank>, RuntimeError> {
    programs.check(partition, transports.len())?;
    let began = Instant::now();
    let compiler = Compiler::new(options.cache_dir.clone())
        .map_err(|source| RuntimeError::Kernel { kernel: 0, source })?;
    let all = programs.all();
    let halo = all.first().map(|program| program.halo).unwrap_or_default();
    let locals = LocalPart::build(&data.topology, partition, halo)?;
    let whole = Whole::new(all.iter().map(AsRef::as_ref), &data.topology, &locals)?;
    let whole = Arc::new(whole);
    let mut parts = Vec::with_capacity(transports.len());
    // Every stage has all parts.
    let width = locals.len();
    let mut locals = VecDeque::from(locals);
    for rank in 0..transports.len() {
        let Some(local) = locals.pop_front() else {
            break;
        };
        if rank + width < transports.len() {
            locals.push_back(local.clone());
        }
        let program = &all[programs.index(rank, transports.len())];
        let degrees = Degrees::new(program, &local);
        let part = Part::new(local, data, program, Arc::clone(&whole))?;
        verify(program, rank as u32, &part, data)?;
        parts.push((part, degrees));
    }
    // The compiler keeps what it has compiled, so that programs share equal kernels.
    let mut compiled = Vec::with_capacity(all.len());
    for program in all {
        let kernels = Arc::new(compile(program, &compiler)?);
        compiled.push((kernels, SparseKernels::compile(program, &compiler)?));
    }
    let mut ranks = Vec::with_capacity(parts.len());
    let needs = parts.iter().zip(0..);
    let count = transports.len();
    let index = |rank| programs.index(rank, count);
    let needs = needs.map(|((part, _), rank)| (all[index(rank)].as_ref(), &part.sizes));
    let layouts = layouts(needs, options.memory_limit)?;
    let parts = parts.into_iter().zip(layouts).zip(transports);
    for ((((part, degrees), layout), transport), number) in parts.zip(0..) {
        let index = index(number as usize);
        let (program, (kernels, sparse)) = (&all[index], &compiled[index]);
        let bytes = layout.total_bytes;
        let (clocks, layers) = Clocks::new(program);
        let arena = Arena::new((bytes / 4) as usize).map_err(|source| RuntimeError::Memory {
            rank: number,
            bytes,
            source,
        })?;
        let rank = Rank {
            program: Arc::clone(program),
            part,
            layout,
            arena,
            kernels: Arc::clone(kernels),
            sparse: sparse.clone(),
            team: Arc::new(Team::new(number, options.threads_per_rank)?),
            transport,
            events: options.trace.then(Vec::new),
            began,
            memory: Default::default(),
            place: Default::default(),
            clocks,
            staleness: Staleness { layers },
            group: Group {
                first: number - number % width as u32,
                ranks: width as u32,
            },
            kept: Default::default(),
        };
        fill(&rank, data, &degrees, options.seed);
        ranks.push(rank);
    }
    Ok(ranks)
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
            scope.spawn(work);
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

/// Degrees of the local vertices, as far as the program reads them.
struct Degrees(Vec<((EdgeSet, End), Vec<u32>)>);

impl Degrees {
    fn new(program: &Program, local: &LocalPart) -> Self {
        let mut kinds: Vec<(EdgeSet, End)> = Vec::new();
        for buffer in &program.buffers {
            if let Role::Degree(set, end) = buffer.role
                && !kinds.contains(&(set, end))
            {
                kinds.push((set, end));
            }
        }
        let degrees = |(set, end)| match end {
            End::Dst => local.in_degrees(set),
            End::Src => local.out_degrees(set),
        };
        Self(
            kinds
                .into_iter()
                .map(|kind| (kind, degrees(kind)))
                .collect(),
        )
    }
}

/// Writes everything that is there before `setup`. States and the rest are 0, as fresh memory is.
fn fill(rank: &Rank, data: &GraphData, degrees: &Degrees, seed: u64) {
    let own = &rank.part.global[..rank.part.inner];
    for (n, buffer) in rank.program.buffers.iter().enumerate() {
        let span = rank.buffer(BufferId(n as u32));
        if matches!(
            buffer.role,
            Role::State(..) | Role::Static | Role::History(_) | Role::Result | Role::Temp
        ) {
            continue;
        }
        // SAFETY: the rank does not run yet.
        let floats = unsafe { span.write() };
        match buffer.role {
            Role::Features | Role::FeatureValues => {
                let columns = columns(&rank.program, &data.features, buffer.extent);
                let whole = matches!(buffer.extent, Extent::All | Extent::SliceNonzeros);
                let all: Vec<u32> = match whole {
                    true => (0..data.vertices()).collect(),
                    false => own.to_vec(),
                };
                let (dense, width) = (buffer.role == Role::Features, buffer.columns as usize);
                let mut next = 0;
                for (row, v) in all.into_iter().enumerate() {
                    stored(&data.features, v, &columns, |column, value| {
                        let at = match dense {
                            true => row * width + column as usize,
                            false => next,
                        };
                        floats[at] = value;
                        next += 1;
                    });
                }
            }
            Role::Degree(set, end) => {
                if let Some((_, degrees)) = degrees.0.iter().find(|(kind, _)| *kind == (set, end)) {
                    floats
                        .iter_mut()
                        .zip(degrees)
                        .for_each(|(x, &degree)| *x = degree as f32);
                }
            }
            Role::Table(t) => floats.copy_from_slice(&rank.program.tables[t as usize]),
            Role::Param(p) => {
                let size = (floats.len() / buffer.slots.max(1) as usize).max(1);
                let spec = &rank.program.params[p as usize];
                let first = spec.element.map_or(0, |element| element.index);
                for (values, slot) in floats.chunks_exact_mut(size).zip(first..) {
                    init::fill(spec, seed, slot, values);
                }
            }
            Role::State(..) | Role::Static | Role::History(_) | Role::Result | Role::Temp => {}
        }
    }
}
