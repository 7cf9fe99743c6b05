//! Placements: each lowers a model to a program. One file per placement, and one row of [`TABLE`].

mod broadcast;
mod class;
mod effect;
mod graph;
mod minibatch;
mod mixed;
mod model_migration;
mod one_rank;
mod pipeline;
mod push_pull;
mod skip_broadcast;
mod spec;
mod tensor;

pub use class::on_one_worker;
pub use effect::Useless;
pub use pipeline::{Stages, pipeline_form};
pub use spec::{Pin, PlacementSpec};

use crate::error::LowerError;
use crate::layout::Ranks;
use crate::lower::checked::{check, checked};
use crate::lower::chunks::{MOST_CHUNKS, chunks};
use crate::lower::cover::cover;
use crate::lower::delay::delayed;
use crate::lower::equal_bits::equal_bits;
use crate::lower::interior::interior;
use crate::lower::overlap::overlap;
use crate::lower::prefetch::{Ahead, prefetch};
use crate::lower::storage::{store, store_alike};
use crate::lower::wire::encode;
use crate::lower::{Training, with_gradients};
use gnnc_ir::plan::{Placement, Relaxation};
use gnnc_ir::program::instr::Collective;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Instr, Program};
use gnnc_ir::words::mesh::Mesh;
use gnnc_ir::words::spelling::counted;
use gnnc_ir::words::storage::Storage;
use std::borrow::Cow;

/// Properties of a placement.
pub struct Row {
    /// The placement.
    pub placement: Placement,
    /// Whether it also represents a single rank, for which all placements are the same.
    pub alone: bool,
    /// Whether parts matter, so that partitioners are tried. Otherwise any even division of the
    /// rows will do, and they are dealt out.
    pub by_parts: bool,
    /// Whether the search has to find its layouts.
    pub mixes: bool,
    /// Whether ranks have slices of columns, so that their programs differ.
    pub slices: bool,
    /// Whether a rule may leave out exchanges.
    pub skips: bool,
    /// Whether models move from rank to rank.
    pub moves: bool,
    /// Whether it trains on sampled batches.
    pub batches: OnBatches,
    /// The relaxations it needs, besides those of its knobs.
    pub relaxations: &'static [Relaxation],
    /// How its programs are made.
    lower: Lower,
}

/// Whether a placement trains on sampled batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBatches {
    /// On the whole graph.
    Never,
    /// On the whole graph, or on batches if their size is given.
    Either,
    /// On batches.
    Always,
}

/// How the programs of a placement are made.
enum Lower {
    /// The program of one rank.
    Rank(fn(&Training, Ranks, &PlacementSpec) -> Result<Program, LowerError>),
    /// One program per stage, run by all ranks of its group.
    Stages(fn(&Training, &PlacementSpec) -> Result<Vec<Program>, LowerError>),
}

/// The placements that have a lowering.
pub const TABLE: &[Row] = &[
    Row {
        placement: Placement::Graph,
        alone: true,
        by_parts: true,
        mixes: false,
        slices: false,
        skips: false,
        moves: false,
        batches: OnBatches::Never,
        relaxations: &[],
        lower: Lower::Rank(|training, ranks, _| graph::lower(training, ranks)),
    },
    Row {
        placement: Placement::Tensor,
        alone: false,
        by_parts: false,
        mixes: false,
        slices: true,
        skips: false,
        moves: false,
        batches: OnBatches::Never,
        relaxations: &[],
        lower: Lower::Rank(|training, ranks, _| tensor::lower(training, ranks)),
    },
    Row {
        placement: Placement::TensorDecoupled,
        alone: false,
        by_parts: false,
        mixes: false,
        slices: true,
        skips: false,
        moves: false,
        batches: OnBatches::Never,
        relaxations: &[Relaxation::Decouple],
        lower: Lower::Rank(|training, ranks, _| tensor::lower(training, ranks)),
    },
    Row {
        placement: Placement::Broadcast,
        alone: false,
        by_parts: false,
        mixes: false,
        slices: false,
        skips: false,
        moves: false,
        batches: OnBatches::Never,
        relaxations: &[],
        lower: Lower::Rank(|training, ranks, _| broadcast::lower(training, ranks.ranks)),
    },
    Row {
        placement: Placement::SkipBroadcast,
        alone: false,
        by_parts: false,
        mixes: false,
        slices: false,
        skips: true,
        moves: false,
        batches: OnBatches::Never,
        relaxations: &[Relaxation::StaleEmbeddings],
        lower: Lower::Rank(|training, ranks, spec| {
            skip_broadcast::lower(training, ranks.ranks, spec.knobs.skip.unwrap_or_default())
        }),
    },
    Row {
        placement: Placement::PushPull,
        alone: false,
        by_parts: true,
        mixes: false,
        slices: true,
        skips: false,
        moves: false,
        batches: OnBatches::Either,
        relaxations: &[],
        lower: Lower::Rank(push_pull::lower),
    },
    Row {
        placement: Placement::Mixed,
        alone: false,
        by_parts: true,
        mixes: true,
        slices: true,
        skips: false,
        moves: false,
        batches: OnBatches::Never,
        relaxations: &[],
        lower: Lower::Rank(|training, ranks, spec| {
            mixed::lower(training, ranks, &spec.knobs.layouts())
        }),
    },
    Row {
        placement: Placement::Minibatch,
        alone: true,
        by_parts: true,
        mixes: false,
        slices: false,
        skips: false,
        moves: false,
        batches: OnBatches::Always,
        relaxations: &[],
        lower: Lower::Rank(minibatch::lower),
    },
    Row {
        placement: Placement::ModelMigration,
        alone: false,
        by_parts: true,
        mixes: false,
        slices: false,
        skips: false,
        moves: true,
        batches: OnBatches::Always,
        relaxations: &[],
        lower: Lower::Rank(model_migration::lower),
    },
    staged(Placement::Pipeline),
    staged(Placement::Hybrid),
];

/// The row of a placement that divides layers into stages.
const fn staged(placement: Placement) -> Row {
    Row {
        placement,
        alone: false,
        by_parts: true,
        mixes: false,
        slices: false,
        skips: false,
        moves: false,
        batches: OnBatches::Never,
        relaxations: &[Relaxation::StaleEmbeddings],
        lower: Lower::Stages(pipeline::lower),
    }
}

impl Row {
    /// Whether layers are divided into stages.
    pub fn staged(&self) -> bool {
        matches!(self.lower, Lower::Stages(_))
    }

    /// Whether it trains on sampled batches only.
    pub fn samples(&self) -> bool {
        self.batches == OnBatches::Always
    }

    /// Whether work over all vertices may be cut into chunks, whose rows are dealt out.
    pub fn chunked(&self) -> bool {
        self.slices && !self.by_parts
    }
}

/// The row of a placement, if it has a lowering.
pub fn row(placement: Placement) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.placement == placement)
}

/// Names of the placements that have a lowering.
pub fn names() -> Vec<&'static str> {
    TABLE.iter().map(|row| row.placement.name()).collect()
}

/// Lowers a model on a placement; a placement that needs a relaxation gets the relaxed form.
/// Returns the program of rank 0, whose slices of columns are the widest, or one program per stage.
///
/// # Errors
/// If a program cannot express the model, or the placement has no lowering.
pub fn lower(training: &Training, spec: &PlacementSpec) -> Result<Vec<Program>, LowerError> {
    match row(spec.placement).map(|row| &row.lower) {
        Some(Lower::Stages(_)) if spec.equal_bits() => Err(LowerError::Illegal(format!(
            "placement `{}` reads histories that are as old as there are stages, so it gives other bits on another number of \
             workers; choose another placement, or leave out --equal-bits",
            spec.placement
        ))),
        Some(Lower::Stages(lower)) => {
            let features = Some(training.form.features);
            let programs = lower(training, spec)?;
            let lowered = programs.iter();
            lowered.for_each(|program| check(program, features, None, "lowering"));
            let programs = store(programs, spec.knobs.storage);
            let stored = programs.iter();
            stored.for_each(|program| check(program, features, None, "storage"));
            if spec.wire().is_f32() {
                return Ok(programs);
            }
            let programs = encode(programs, spec.wire())?;
            let encoded = programs.iter();
            encoded.for_each(|program| check(program, features, None, "wire"));
            Ok(programs)
        }
        _ => Ok(vec![on_rank(training, spec, 0)?]),
    }
}

/// The programs of all ranks: a single one, one per rank if slices of columns differ, or one per
/// stage.
///
/// # Errors
/// As [`lower`].
pub fn lower_all(training: &Training, spec: &PlacementSpec) -> Result<Vec<Program>, LowerError> {
    match row(spec.placement) {
        Some(row) if row.slices && (spec.slices() > 1 || spec.samples()) => (0..spec.ranks.max(1))
            .map(|rank| on_rank(training, spec, rank))
            .collect(),
        _ => lower(training, spec),
    }
}

fn on_rank(training: &Training, spec: &PlacementSpec, rank: u32) -> Result<Program, LowerError> {
    if spec.ranks <= 1 && !spec.samples() && !spec.half_batches() {
        let skips = row(spec.placement).is_some_and(|row| row.skips);
        let training = match spec.knobs.skip.filter(|_| skips) {
            Some(skipping) => with_gradients(training, 1, skipping)?,
            None => Cow::Borrowed(training),
        };
        let ranks = Ranks {
            equal_bits: spec.equal_bits(),
            ..Ranks::new(1, 0)
        };
        let program = in_order(one_rank::lower(&training, ranks)?, spec)?;
        return Ok(stored(program, spec.knobs.storage));
    }
    let features = Some(training.form.features);
    let program = checked(in_words(training, spec, rank)?, features, "lowering");
    let slices = row(spec.placement).is_some_and(|row| row.slices);
    let program = match slices && !spec.knobs.storage.is_f32() {
        true => {
            // Slices have one of two widths: the first rank's or the last one's.
            let ends = [0, spec.ranks - 1].map(|rank| in_words(training, spec, rank));
            let [first, last] = ends;
            store_alike(program, &[first?, last?], spec.knobs.storage)
        }
        false => stored(program, spec.knobs.storage),
    };
    let program = checked(program, features, "storage");
    arrange(program, spec, features)
}

/// The program of one rank, with all tensors in 32 bits.
fn in_words(training: &Training, spec: &PlacementSpec, rank: u32) -> Result<Program, LowerError> {
    let ranks = Ranks {
        mesh: spec.mesh(),
        equal_bits: spec.equal_bits(),
        ..Ranks::new(spec.ranks, rank)
    };
    let mut rows = false;
    if let Some(mesh) = ranks.mesh.filter(|_| !spec.samples()) {
        in_groups(mesh, spec.ranks)?;
        // Ranks that have whole rows share no columns.
        rows = mesh.slices == 1;
    }
    let program = match row(spec.placement).map(|row| &row.lower) {
        _ if rows => graph::lower(
            training,
            Ranks {
                mesh: None,
                ..ranks
            },
        ),
        Some(Lower::Rank(lower)) => lower(training, ranks, spec),
        _ => Err(LowerError::Unsupported(format!(
            "placement `{}` (known placements: {})",
            spec.placement,
            names().join(", ")
        ))),
    }?;
    in_order(program, spec)
}

/// A program whose sums are made in the order that is asked for.
fn in_order(program: Program, spec: &PlacementSpec) -> Result<Program, LowerError> {
    if !spec.equal_bits() {
        return Ok(program);
    }
    match spec.unequal() {
        None => equal_bits(program),
        Some(knob) => Err(LowerError::Illegal(format!(
            "equal bits on any number of workers cannot be combined with {knob}; leave one of them out"
        ))),
    }
}

/// Checks that groups of ranks can divide the vertices, and the ranks of a group the columns.
fn in_groups(mesh: Mesh, ranks: u32) -> Result<(), LowerError> {
    if mesh.slices == 0 || !ranks.is_multiple_of(mesh.slices) {
        return Err(LowerError::Illegal(format!(
            "found {} of the columns for {}, expected a number that divides them; with --slices, groups of so many \
             workers divide the vertices",
            counted(mesh.slices, "slice"),
            counted(ranks, "worker")
        )));
    }
    match mesh.apart {
        false => Ok(()),
        true => Err(LowerError::Illegal(format!(
            "found --slices {mesh} on the whole graph, where consecutive workers have the slices of a group; leave out \
             /apart"
        ))),
    }
}

/// A program with its tensors in the given storage.
fn stored(program: Program, storage: Storage) -> Program {
    let mut one = store(vec![program], storage);
    one.pop().unwrap_or_default()
}

/// Lets the halo rows of a program cross once to nodes of so many ranks; a program without such rows stays.
///
/// # Errors
/// A number that does not divide the ranks.
pub(crate) fn on_nodes(mut program: Program, node_ranks: u32) -> Result<Program, LowerError> {
    let ranks = program.ranks;
    if !ranks.is_multiple_of(node_ranks) {
        return Err(LowerError::Illegal(format!(
            "nodes of {node_ranks} ranks do not divide {ranks} ranks; choose a divisor with --node-ranks"
        )));
    }
    let mut phases = Phase::ALL.into_iter();
    let exchanges = phases.any(|phase| has_halo(program.list(phase)));
    program.node_ranks = exchanges.then_some(node_ranks);
    Ok(program)
}

/// Whether halo rows are exchanged.
fn has_halo(instrs: &[Instr]) -> bool {
    instrs.iter().any(|instr| {
        let collective = instr.whole().collective();
        matches!(
            collective,
            Some(Collective::HaloExchange(_) | Collective::HaloReduce(_))
        ) || has_halo(instr.body().unwrap_or_default())
    })
}

/// Applies the cover, node, wire, chunk, interior and overlap passes, and lets batches wait for messages while others are
/// computed.
fn arrange(
    mut program: Program,
    spec: &PlacementSpec,
    features: Option<u32>,
) -> Result<Program, LowerError> {
    if spec.sends_sums() {
        program = checked(cover(program)?, features, "cover");
    }
    if let Some(node_ranks) = spec.node_ranks() {
        program = checked(on_nodes(program, node_ranks)?, features, "nodes");
    }
    if !spec.wire().is_f32() {
        let encoded = encode(vec![program], spec.wire())?;
        program = checked(
            encoded.into_iter().next().unwrap_or_default(),
            features,
            "wire",
        );
    }
    if spec.chunks() > 1 {
        let count = spec.chunks().min(MOST_CHUNKS);
        program = checked(chunks(program, count), features, "chunks");
    }
    if spec.interior() {
        program = checked(interior(program), features, "interior");
    }
    if spec.overlap() {
        program = checked(overlap(program), features, "overlap");
    }
    let mut ahead = Ahead {
        periods: spec.prefetch(),
        late: 0,
    };
    if spec.lazy() {
        ahead.late = spec.delay();
        program = prefetch(program, &Phase::ALL, ahead);
    } else if spec.delay() > 0 {
        program = checked(delayed(program, spec.delay())?, features, "delay");
        program = prefetch(program, &[Phase::Eval], ahead);
    } else {
        program = prefetch(program, &Phase::ALL, ahead);
    }
    if spec.samples() {
        program = checked(program, features, "prefetch");
    }
    Ok(program)
}
