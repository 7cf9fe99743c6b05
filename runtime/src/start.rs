//! What happens before a program's first instruction: kernels are compiled, and buffers get
//! their first contents.

use crate::executor::Rank;
use crate::{RuntimeError, init};
use gnnc_codegen::cpu::{Compiled, Compiler};
use gnnc_graph::{Features, GraphData, LocalPart};
use gnnc_ir::EdgeSet;
use gnnc_ir::kernel::End;
use gnnc_ir::program::{BufferId, Program, Role};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Compiles all kernels, several at a time.
pub(crate) fn compile(
    program: &Program,
    compiler: &Compiler,
) -> Result<Vec<Arc<Compiled>>, RuntimeError> {
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
pub(crate) struct Degrees(Vec<((EdgeSet, End), Vec<u32>)>);

impl Degrees {
    pub(crate) fn new(program: &Program, local: &LocalPart) -> Self {
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
pub(crate) fn fill(rank: &Rank, data: &GraphData, degrees: &Degrees, seed: u64) {
    let own = &rank.part.global[..rank.part.inner];
    for (n, buffer) in rank.program.buffers.iter().enumerate() {
        let span = rank.buffer(BufferId(n as u32));
        if matches!(
            buffer.role,
            Role::State(..) | Role::Static | Role::Result | Role::Temp
        ) {
            continue;
        }
        // SAFETY: the rank does not run yet.
        let floats = unsafe { span.write() };
        match buffer.role {
            Role::Features => {
                let columns = buffer.columns as usize;
                for (row, &v) in floats.chunks_exact_mut(columns.max(1)).zip(own) {
                    match &data.features {
                        Features::None => {}
                        Features::Dense { values, .. } => {
                            row.copy_from_slice(
                                &values.as_slice()[v as usize * columns..][..columns],
                            );
                        }
                        Features::Sparse {
                            indptr,
                            indices,
                            values,
                            ..
                        } => {
                            for i in indptr[v as usize] as usize..indptr[v as usize + 1] as usize {
                                row[indices[i] as usize] = values[i];
                            }
                        }
                    }
                }
            }
            Role::FeatureValues => {
                let mut rest = floats;
                for &v in own {
                    let stored = match &data.features {
                        Features::None => &[][..],
                        Features::Dense {
                            values, columns, ..
                        } => &values.as_slice()[v as usize * *columns as usize..]
                            [..*columns as usize],
                        Features::Sparse { indptr, values, .. } => {
                            &values[indptr[v as usize] as usize..indptr[v as usize + 1] as usize]
                        }
                    };
                    let (head, tail) = std::mem::take(&mut rest).split_at_mut(stored.len());
                    head.copy_from_slice(stored);
                    rest = tail;
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
                for (values, slot) in floats.chunks_exact_mut(size).zip(0..) {
                    init::fill(&rank.program.params[p as usize], seed, slot, values);
                }
            }
            Role::State(..) | Role::Static | Role::Result | Role::Temp => {}
        }
    }
}
