//! Sends the fewest rows and partial sums that serve all edges between parts (SHIRO, arXiv 2512.20178).
//!
//! An edge from one part into another is served by the row of its source, or by a partial sum: the source's rank adds up
//! what its own vertices give to the target. With [`Halo::Cover`], a rank has both kinds of rows in its halo, sources that
//! it reads and targets of others for which it sums. So a sum over edges into own rows becomes a sum into own rows and
//! targets, whose partial sums then go to their owners; and before a sum over edges out of rows, owners send the rows of
//! targets. Sources are exchanged and reduced as without targets.

use super::kernel::intern;
use crate::error::LowerError;
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, End, Kernel, Operand, Over, Reduce, Walk};
use gnnc_ir::program::instr::{HaloExchange, HaloReduce};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Buffer, BufferId, Extent, Halo, Instr, Launch, Program, Ref, Role};
use gnnc_ir::words::storage::Storage;

/// Lets a program by parts exchange sources and targets.
///
/// # Errors
/// An instruction that needs the rows of all sources, or nothing that sums over edges.
pub fn cover(mut program: Program) -> Result<Program, LowerError> {
    if program.halo != Halo::Boundary || program.pipeline.is_some() {
        return Err(refused("ranks that read whole blocks of rows, or chunks"));
    }
    let mut pass = Pass { sums: 0 };
    for phase in Phase::ALL {
        let instrs = std::mem::take(program.list_mut(phase));
        *program.list_mut(phase) = pass.list(instrs, &mut program)?;
    }
    if pass.sums == 0 {
        return Err(refused(
            "a program that sums nothing over edges between ranks",
        ));
    }
    program.halo = Halo::Cover;
    Ok(program)
}

/// Whether all sums over edges of a program between ranks can be cut into partial sums, and there are some.
pub fn fits(program: &Program) -> bool {
    let mut found = false;
    let boundary = program.halo == Halo::Boundary && program.pipeline.is_none();
    boundary
        && Phase::ALL
            .iter()
            .all(|phase| all_fit(program.list(*phase), program, &mut found))
        && found
}

fn all_fit(instrs: &[Instr], program: &Program, found: &mut bool) -> bool {
    instrs.iter().all(|instr| {
        if let Some(body) = instr.body() {
            return all_fit(body, program, found);
        }
        let launch = instr.launch();
        let Some(launch) = launch.filter(|launch| walks_parts(launch, program)) else {
            return true;
        };
        *found = true;
        // How its rows are cut into chunks does not matter.
        let whole = Launch {
            chunk: None,
            ..launch.clone()
        };
        coverable(program.kernel(launch.kernel), &whole).is_some()
    })
}

fn refused(what: &str) -> LowerError {
    LowerError::Illegal(format!(
        "cover=joint replaces rows by partial sums, but found {what}; leave it out"
    ))
}

struct Pass {
    /// Sums over edges that were found.
    sums: u32,
}

/// A sum over edges.
struct Gather<'a> {
    launch: &'a Launch,
    kernel: &'a Kernel,
    /// What an edge adds.
    value: &'a Expr,
    finish: &'a Expr,
    to: End,
}

impl Pass {
    fn list(
        &mut self,
        instrs: Vec<Instr>,
        program: &mut Program,
    ) -> Result<Vec<Instr>, LowerError> {
        let mut out = Vec::with_capacity(instrs.len());
        for mut instr in instrs {
            if let Instr::Repeat(repeat) = &mut instr {
                repeat.body = self.list(std::mem::take(&mut repeat.body), program)?;
                out.push(instr);
                continue;
            }
            if let Some(launch) = instr.launch()
                && walks_parts(launch, program)
            {
                let (launch, kernel) = (launch.clone(), program.kernel(launch.kernel).clone());
                let Some(gather) = coverable(&kernel, &launch) else {
                    let name = kernel.body.name();
                    return Err(refused(&format!(
                        "{name}, which reads more of an edge than one end, or does not sum"
                    )));
                };
                self.sums += 1;
                match gather.to {
                    End::Dst => gather.sum_into_rows(program, &mut out),
                    End::Src => gather.sum_out_of_rows(program, &mut out),
                }
                continue;
            }
            out.push(instr);
        }
        Ok(out)
    }
}

/// Whether a kernel walks the edges of the rank's own part.
fn walks_parts(launch: &Launch, program: &Program) -> bool {
    let walks = Walk::of(&program.kernel(launch.kernel).body) != Walk::Rows;
    walks && !launch.rows.of_whole_graph()
}

/// The sum that a kernel is, if what an edge adds is a function of the row at its far end.
fn coverable<'a>(kernel: &'a Kernel, launch: &'a Launch) -> Option<Gather<'a>> {
    let Body::Gather {
        to,
        reduce: Reduce::Sum,
        value,
        finish,
        ..
    } = &kernel.body
    else {
        return None;
    };
    let far = match to {
        End::Dst => At::Src,
        End::Src => At::Dst,
    };
    let of_far = |value: &Value| match value {
        Value::Load(n) => {
            let operand = &kernel.inputs[usize::from(*n)];
            operand.picked.is_none() && (operand.at == far || operand.at == At::One)
        }
        Value::Const(_) | Value::Scalar(_) | Value::Unary(..) | Value::Binary(..) => true,
        Value::Acc | Value::Number(_) | Value::Mask(_) => false,
    };
    let whole = launch.chunk.is_none() && launch.lists.is_empty();
    let [output] = &kernel.outputs[..] else {
        return None;
    };
    let fits = whole && output.picked.is_none() && value.values.iter().all(of_far);
    fits.then_some(Gather {
        launch,
        kernel,
        value,
        finish,
        to: *to,
    })
}

impl Gather<'_> {
    /// A sum into rows: also into targets, whose sums go to their owners before the epilogue.
    fn sum_into_rows(&self, program: &mut Program, out: &mut Vec<Instr>) {
        let Self { launch, kernel, .. } = *self;
        let (heads, width) = (kernel.heads, kernel.width);
        let dense = Operand::dense(At::Row, heads, width);
        let at = launch.outputs[0];
        let own = program.buffer(at.buffer);
        let direct = self.finish.is_acc()
            && kernel.outputs[0] == dense
            && own.columns == heads * width
            && own.role == Role::Temp
            && is_by_part(own.extent);
        let sum = match direct {
            true => {
                program.buffers[at.buffer.0 as usize].extent = Extent::Local;
                at
            }
            false => {
                let name = format!("{}.sum", own.name);
                temporary(name, heads * width, program)
            }
        };
        let mut raw = self.with_only(self.value);
        raw.kernel.body = gathered(&kernel.body, raw.expr.clone(), Expr::leaf(Value::Acc));
        raw.kernel.outputs = vec![dense];
        raw.launch.outputs = vec![sum];
        raw.launch.rows = Extent::Local;
        out.push(raw.instr(program));
        out.push(Instr::HaloReduce(HaloReduce {
            end: End::Dst,
            ..HaloReduce::of(sum)
        }));
        if direct {
            return;
        }
        // The epilogue, which reads the sum in place of the result of the reduction.
        let mut finish = self.with_only(self.finish);
        let load = Value::Load(finish.kernel.inputs.len() as u16);
        finish.kernel.inputs.push(dense);
        finish.launch.inputs.push(sum);
        let mut value = finish.expr.clone();
        for part in &mut value.values {
            if *part == Value::Acc {
                *part = load;
            }
        }
        finish.kernel.body = Body::Map {
            over: Over::Rows,
            values: vec![value],
        };
        finish.launch.rows = Extent::Inner;
        out.push(finish.instr(program));
    }

    /// A sum over the edges out of rows: their targets' rows come from their owners before.
    fn sum_out_of_rows(&self, program: &mut Program, out: &mut Vec<Instr>) {
        let Self { launch, kernel, .. } = *self;
        let (heads, width) = (kernel.heads, kernel.width);
        let loaded = match self.value.values[..] {
            [Value::Load(n)] => Some(usize::from(n)),
            _ => None,
        };
        let direct = loaded.filter(|n| {
            let buffer = program.buffer(launch.inputs[*n].buffer);
            // Whole rows travel.
            let whole = buffer.columns == heads * width;
            whole && buffer.role == Role::Temp && is_by_part(buffer.extent)
        });
        let mut sum = launch.clone();
        let mut of_sum = kernel.clone();
        let rows = match direct {
            Some(n) => launch.inputs[n],
            None => {
                // What an edge adds, by target.
                let rows = temporary("targets".to_owned(), heads * width, program);
                let mut value = self.with_only(self.value);
                for operand in &mut value.kernel.inputs {
                    if operand.at == At::Dst {
                        operand.at = At::Row;
                    }
                }
                value.kernel.body = Body::Map {
                    over: Over::Rows,
                    values: vec![value.expr.clone()],
                };
                value.kernel.outputs = vec![Operand::dense(At::Row, heads, width)];
                value.launch.outputs = vec![rows];
                value.launch.rows = Extent::Inner;
                out.push(value.instr(program));
                let mut rest = self.with_only(self.finish);
                let load = Value::Load(rest.kernel.inputs.len() as u16);
                rest.kernel
                    .inputs
                    .push(Operand::dense(At::Dst, heads, width));
                rest.launch.inputs.push(rows);
                rest.kernel.body = gathered(&kernel.body, Expr::leaf(load), rest.expr.clone());
                (sum, of_sum) = (rest.launch, rest.kernel);
                rows
            }
        };
        program.buffers[rows.buffer.0 as usize].extent = Extent::Local;
        out.push(Instr::HaloExchange(HaloExchange {
            end: End::Dst,
            ..HaloExchange::of(rows)
        }));
        sum.kernel = intern(program, of_sum);
        out.push(Instr::Launch(sum));
    }

    /// The kernel with only the inputs and masks that one of its expressions uses.
    fn with_only(&self, expr: &Expr) -> Part {
        let Self { launch, kernel, .. } = *self;
        let uses = |wanted: Value| expr.values.contains(&wanted);
        let keeps = |count: usize, of: fn(u16) -> Value| -> Vec<u16> {
            (0..count as u16).filter(|n| uses(of(*n))).collect()
        };
        let inputs = keeps(kernel.inputs.len(), Value::Load);
        let masks = keeps(kernel.masks.len(), Value::Mask);
        let place = |kept: &[u16], n: u16| kept.iter().position(|k| *k == n).unwrap_or(0) as u16;
        let renamed = |value: &Value| match *value {
            Value::Load(n) => Value::Load(place(&inputs, n)),
            Value::Mask(n) => Value::Mask(place(&masks, n)),
            value => value,
        };
        let pick = |kept: &[u16], from: &[Ref]| -> Vec<Ref> {
            kept.iter().map(|n| from[usize::from(*n)]).collect()
        };
        let of_inputs = inputs.iter().map(|n| kernel.inputs[usize::from(*n)]);
        let of_masks = masks.iter().map(|n| kernel.masks[usize::from(*n)]);
        Part {
            kernel: Kernel {
                inputs: of_inputs.collect(),
                masks: of_masks.collect(),
                ..kernel.clone()
            },
            launch: Launch {
                inputs: pick(&inputs, &launch.inputs),
                sites: masks
                    .iter()
                    .map(|n| launch.sites[usize::from(*n)])
                    .collect(),
                ..launch.clone()
            },
            expr: Expr {
                values: expr.values.iter().map(renamed).collect(),
            },
        }
    }
}

fn is_by_part(extent: Extent) -> bool {
    matches!(extent, Extent::Inner | Extent::Local)
}

/// A buffer of own and halo rows that lives for a part of a list.
fn temporary(name: String, columns: u32, program: &mut Program) -> Ref {
    let id = BufferId(program.buffers.len() as u32);
    program.buffers.push(Buffer {
        name,
        extent: Extent::Local,
        columns,
        slots: 1,
        role: Role::Temp,
        storage: Storage::F32,
    });
    Ref::first(id)
}

/// The same sum of another value, with another epilogue.
fn gathered(body: &Body, value: Expr, finish: Expr) -> Body {
    let mut body = body.clone();
    let mut exprs = body.exprs_mut();
    *exprs[0] = value;
    *exprs[1] = finish;
    body
}

/// A kernel with its launch, while both change.
struct Part {
    kernel: Kernel,
    launch: Launch,
    /// The expression, whose loads and masks are numbered anew.
    expr: Expr,
}

impl Part {
    fn instr(self, program: &mut Program) -> Instr {
        let mut launch = self.launch;
        launch.kernel = intern(program, self.kernel);
        Instr::Launch(launch)
    }
}
