//! Identical stages, which are priced only once.

use super::bound::{Bound, bound_of};
use super::fabric::Fabric;
use crate::parts::Parts;
use gnnc_ir::cluster::Cluster;
use gnnc_ir::graph::op::Site;
use gnnc_ir::kernel::expr::Value;
use gnnc_ir::kernel::{Body, Kernel};
use gnnc_ir::program::instr;
use gnnc_ir::program::{Instr, Program, Role};

/// The stages of a pipeline. Stages whose programs and links cost the same are of one kind.
pub(super) struct Alike<'a> {
    pub kinds: Vec<Kind<'a>>,
    /// The kind of each stage.
    pub stages: Vec<usize>,
}

/// A representative of identical stages.
pub(super) struct Kind<'a> {
    pub program: &'a Program,
    pub fabric: Fabric,
    /// The first rank of one of the stages.
    first: u32,
}

impl<'a> Alike<'a> {
    pub fn of(programs: &'a [Program], cluster: &Cluster, parts: &Parts) -> Self {
        let width = parts.sizes.len() as u32;
        let (mut kinds, mut outlines): (Vec<Kind>, Vec<Program>) = (Vec::new(), Vec::new());
        let mut stages = Vec::with_capacity(programs.len());
        for (program, stage) in programs.iter().zip(0..) {
            let first = stage * width;
            let fabric = Fabric::new(cluster, parts, first);
            let outline = outline(program);
            let mut known = kinds.iter().zip(&outlines);
            let known = known.position(|(kind, one)| kind.fabric == fabric && *one == outline);
            stages.push(known.unwrap_or(kinds.len()));
            if known.is_none() {
                kinds.push(Kind {
                    program,
                    fabric,
                    first,
                });
                outlines.push(outline);
            }
        }
        Self { kinds, stages }
    }

    /// The same stages on a cluster of as many nodes and devices, with parts of other sizes.
    pub fn on(&self, cluster: &Cluster, parts: &Parts) -> Self {
        let kinds = self.kinds.iter().map(|kind| Kind {
            program: kind.program,
            fabric: Fabric::new(cluster, parts, kind.first),
            first: kind.first,
        });
        Self {
            kinds: kinds.collect(),
            stages: self.stages.clone(),
        }
    }

    /// Lower bounds for each stage.
    pub fn bounds(&self, cluster: &Cluster, parts: &Parts) -> Vec<Bound> {
        let kinds = self.kinds.iter();
        let bounds = kinds.map(|kind| bound_of(kind.program, cluster, parts, &kind.fabric));
        let bounds: Vec<Bound> = bounds.collect();
        self.stages.iter().map(|kind| bounds[*kind]).collect()
    }
}

/// The program without everything prices do not depend on: names of tensors, which parameter or
/// history they are, values of constants, keys of masks, and the stage's index.
fn outline(program: &Program) -> Program {
    let mut outline = program.clone();
    outline.params.clear();
    outline.tables.clear();
    for buffer in &mut outline.buffers {
        buffer.name.clear();
        buffer.role = outlined(buffer.role);
    }
    outline.kernels = kernels_outlined(program);
    for list in [&mut outline.setup, &mut outline.step, &mut outline.eval] {
        without_sites(list);
    }
    if let Some(pipeline) = &mut outline.pipeline {
        pipeline.stage = 0;
    }
    outline
}

/// The role of a buffer, without which parameter or history it is.
pub(super) fn outlined(role: Role) -> Role {
    match role {
        Role::Param(_) => Role::Param(0),
        Role::State(..) => Role::State(0, 0),
        Role::History(_) => Role::History(0),
        Role::Table(_) => Role::Table(0),
        role => role,
    }
}

/// Kernels without the values of their constants.
pub(super) fn kernels_outlined(program: &Program) -> Vec<Kernel> {
    let mut outlined = program.kernels.clone();
    for kernel in &mut outlined {
        without_constants(&mut kernel.body);
    }
    outlined
}

fn without_constants(body: &mut Body) {
    for value in body
        .exprs_mut()
        .into_iter()
        .flat_map(|expr| &mut expr.values)
    {
        if let Value::Const(constant) = value {
            *constant = 0.0;
        }
    }
}

/// Takes away where masks are keyed.
pub(super) fn without_sites(instrs: &mut [Instr]) {
    for instr in instrs {
        if let Some(launch) = instr.launch_mut() {
            launch.sites.clear();
        }
        if let Instr::SparseDropout(instr::SparseDropout { site, .. }) = instr {
            *site = Site::default();
        }
        if let Some(body) = instr.body_mut() {
            without_sites(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::{parts, tests::workload};
    use gnnc_ir::kernel::Over;
    use gnnc_ir::plan::Partitioner;
    use gnnc_ir::program::{Buffer, BufferId, Extent, KernelId, Launch, Ref};
    use gnnc_ir::words::storage::Storage;

    /// Writes a constant to all rows of a parameter's buffer.
    fn program(number: u32, columns: u32) -> Program {
        let launch = Launch {
            kernel: KernelId(0),
            rows: Extent::Inner,
            inputs: Vec::new(),
            outputs: vec![Ref::first(BufferId(0))],
            scalars: Vec::new(),
            sites: vec![Site::from(number)],
            lists: Vec::new(),
            chunk: None,
        };
        let kernel = Kernel {
            body: Body::Map {
                over: Over::Rows,
                values: vec![gnnc_ir::kernel::expr::Expr::leaf(Value::Const(
                    number as f32,
                ))],
            },
            heads: 1,
            width: columns,
            inputs: Vec::new(),
            outputs: Vec::new(),
            masks: Vec::new(),
            scalars: 0,
        };
        let buffer = Buffer {
            name: format!("h{number}"),
            extent: Extent::Inner,
            columns,
            slots: 1,
            role: Role::Param(number),
            storage: Storage::F32,
        };
        Program {
            buffers: vec![buffer],
            kernels: vec![kernel],
            step: vec![Instr::Launch(launch)],
            ..Program::default()
        }
    }

    #[test]
    fn stages_that_cost_the_same_are_of_one_kind() {
        let cluster = Cluster::named("h100x8").unwrap();
        let cluster = cluster.resized(Some(16), None).unwrap();
        let of = |programs: &[Program], width: u32| {
            let parts = parts(&workload(900, 5000), width, Partitioner::Metis).unwrap();
            Alike::of(programs, &cluster, &parts).stages
        };
        // Indices and names do not matter, widths do.
        let programs = [program(0, 4), program(1, 4), program(2, 8), program(3, 4)];
        assert_eq!(of(&programs, 1), [0, 0, 1, 0]);
        // With three ranks per stage, those of the third stage span two nodes.
        let programs = [0, 1, 2].map(|number| program(number, 4));
        assert_eq!(of(&programs, 3), [0, 0, 1]);
    }
}
