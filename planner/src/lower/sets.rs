//! Trains the sets of a batch one after the other, while their models go from rank to rank (Chen et al.,
//! HopGNN, section 3.1).
//!
//! Each rank has one model at a time, which it trains on those of the model's seeds that it owns; sums of
//! gradients go on with the models. Rows of other ranks that any of its sets need are fetched once a batch.
//!
//! | | |
//! | --- | --- |
//! | before the sets | draws all of them; asks for the rows of their vertices, and gets them; sets the sums to 0 |
//! | for each set | copies its rows; forward and backward; adds its gradients to the sums; these go on |
//! | after the sets | sums are added over all ranks, and the optimizer steps |

use super::kernel::{fixed_elements, flat};
use crate::error::LowerError;
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::program::instr::{AskRows, Batches, FetchRows, ServeRows, Sets, Shift};
use gnnc_ir::program::{Buffer, BufferId, Extent, Instr, Program, Ref, Role};
use gnnc_ir::words::sampling::Migrate;
use gnnc_ir::words::scalar::Binary;
use gnnc_ir::words::types::Level;

/// The program whose ranks train their seeds in sets. It already fetches rows from their owners.
///
/// # Errors
/// A batch whose gradients are not summed.
pub fn in_sets(mut program: Program, migrate: Migrate) -> Result<Program, LowerError> {
    for index in 0..program.step.len() {
        if let Instr::Batches(Batches { body }) = &mut program.step[index] {
            let body = std::mem::take(body);
            let body = apart(body, migrate, &mut program)?;
            program.step[index] = Instr::Batches(Batches { body });
        }
    }
    Ok(program)
}

/// What a batch does before, in and after its sets.
fn apart(
    body: Vec<Instr>,
    migrate: Migrate,
    program: &mut Program,
) -> Result<Vec<Instr>, LowerError> {
    let sums = body
        .iter()
        .position(|instr| matches!(instr, Instr::AllReduce(_)));
    let Some(sums) = sums else {
        let why = "a batch whose gradients are not summed";
        return Err(LowerError::Internal(why.to_owned()));
    };
    let (mut before, mut of_set) = (Vec::new(), Vec::new());
    let mut after = body;
    for instr in after.drain(..sums) {
        if let Instr::AskRows(AskRows { level }) = instr {
            let level = Level::of_sets(level.number);
            before.push(Instr::AskRows(AskRows { level }));
        } else if let Instr::ServeRows(ServeRows {
            from, to, cache, ..
        }) = instr
        {
            let rows = gathered(to, program);
            let serve = ServeRows {
                from,
                to: rows,
                cache,
                renews: false,
                encoded: None,
            };
            before.push(Instr::ServeRows(serve));
            of_set.push(Instr::FetchRows(FetchRows { from: rows, to }));
        } else if matches!(instr, Instr::Sample(_)) {
            before.push(instr);
        } else {
            of_set.push(instr);
        }
    }
    let mut moved = Vec::new();
    for gradient in gradients(&after) {
        let sum = sum_of(gradient, program);
        let value = Value::Const(0.0);
        before.push(launch(program, Expr::leaf(value), vec![], sum));
        let mut added = Expr::default();
        let [so_far, more] = [Value::Load(0), Value::Load(1)].map(|one| added.push(one));
        added.push(Value::Binary(Binary::Add, so_far, more));
        of_set.push(launch(program, added, vec![sum, gradient], sum));
        let summed = &mut |at: &mut Ref| {
            if at.buffer == gradient.buffer {
                at.buffer = sum.buffer;
            }
        };
        after.iter_mut().for_each(|instr| instr.each_ref(summed));
        moved.push(sum);
    }
    if migrate == Migrate::Full {
        moved.extend(weights(program));
    }
    if migrate != Migrate::Off && !moved.is_empty() {
        of_set.push(Instr::Shift(Shift { buffers: moved }));
    }
    before.push(Instr::Sets(Sets { body: of_set }));
    before.append(&mut after);
    Ok(before)
}

/// The buffers that are summed over ranks.
fn gradients(after: &[Instr]) -> Vec<Ref> {
    let mut found = Vec::new();
    for instr in after {
        if let Instr::AllReduce(sum) = instr {
            found.extend(&sum.buffers);
        }
    }
    found
}

/// The weights of a model.
fn weights(program: &Program) -> Vec<Ref> {
    let is_weight = |(_, buffer): &(u32, &Buffer)| matches!(buffer.role, Role::Param(_));
    let weights = (0..).zip(&program.buffers).filter(is_weight);
    weights
        .map(|(number, _)| Ref::first(BufferId(number)))
        .collect()
}

/// A buffer for the rows of all sets' vertices, like that of a level.
fn gathered(to: Ref, program: &mut Program) -> Ref {
    let of = program.buffer(to.buffer).clone();
    let number = of.extent.level().map_or(0, |level| level.number);
    added(
        program,
        Buffer {
            name: format!("{}.sets", of.name),
            extent: Extent::Level(Level::of_sets(number)),
            ..of
        },
    )
}

/// A buffer for the sum of a gradient over sets.
fn sum_of(gradient: Ref, program: &mut Program) -> Ref {
    let of = program.buffer(gradient.buffer).clone();
    added(
        program,
        Buffer {
            name: format!("{}.sum", of.name),
            role: Role::Temp,
            ..of
        },
    )
}

fn added(program: &mut Program, buffer: Buffer) -> Ref {
    program.buffers.push(buffer);
    Ref::first(BufferId(program.buffers.len() as u32 - 1))
}

/// A launch over all floats of buffers with fixed rows.
fn launch(program: &mut Program, value: Expr, inputs: Vec<Ref>, output: Ref) -> Instr {
    let floats = fixed_elements(program.buffer(output.buffer));
    Instr::Launch(flat(program, floats, value, inputs, output))
}
