//! Validates kernel specifications before code is generated.

use gnnc_ir::kernel::Walk;
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, Kernel, Operand, Reduce};
use gnnc_ir::words::storage::Storage;

mod pass;

/// Largest distance in floats from the start of a row to any of its elements, and largest stride:
/// byte offsets must fit a signed 32-bit displacement.
pub const MAX_ROW: u64 = 1 << 28;

/// What is wrong with a kernel specification.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// The iteration space is empty or too large.
    #[error(
        "a kernel of {heads} heads x {width} columns, expected at least 1 of each and a product below {MAX_ROW}"
    )]
    Shape {
        /// Heads.
        heads: u32,
        /// Columns of a head.
        width: u32,
    },
    /// An expression names something that the kernel does not have.
    #[error("expression {expr} names {what} {index}, but the kernel has {count}")]
    Unknown {
        /// Number of the expression in [`Body::exprs`] order.
        expr: usize,
        /// `input`, `mask`, `scalar`, `earlier value` or `earlier number`.
        what: &'static str,
        /// The index that it names.
        index: u16,
        /// How many there are.
        count: usize,
    },
    /// An expression without values.
    #[error("expression {expr} is empty")]
    Empty {
        /// Number of the expression.
        expr: usize,
    },
    /// An expression other than a finishing one uses the reduction's result.
    #[error("expression {expr} uses the reduction's result, which only an epilogue expression may")]
    Acc {
        /// Number of the expression.
        expr: usize,
    },
    /// An operand refers to a row this kernel does not have.
    #[error("{what} {index} is read at {at:?}, which a {body} kernel does not have{place}")]
    Place {
        /// `input`, `mask` or `output`.
        what: &'static str,
        /// Its index.
        index: usize,
        /// The kind of row.
        at: At,
        /// Short name of the body.
        body: &'static str,
        /// Where in the kernel, if it matters.
        place: &'static str,
    },
    /// Steps that are invalid or exceed the limit.
    #[error(
        "{what} {index} has column step {column_step}, expected 0 or 1, and spans {span} floats, expected at most {MAX_ROW}"
    )]
    Steps {
        /// `input`, `mask` or `output`.
        what: &'static str,
        /// Its index.
        index: usize,
        /// Its column step.
        column_step: u32,
        /// Floats from the start of a row to its last element.
        span: u64,
    },
    /// Two elements of a row of an output share an address.
    #[error(
        "output {index} writes several elements to one place: steps {head_step} and {column_step} over {heads} heads x {width} columns"
    )]
    Overlap {
        /// Which output.
        index: usize,
        /// Floats from head to head.
        head_step: u32,
        /// Floats from column to column.
        column_step: u32,
        /// Heads of the result.
        heads: u32,
        /// Columns of the result.
        width: u32,
    },
    /// The finishing expression of a row reduction steps along the reduced axis.
    #[error("input {index} of the epilogue expression steps along the reduced axis")]
    ReducedAxis {
        /// Which input.
        index: usize,
    },
    /// The number of outputs does not fit the body.
    #[error("a {body} kernel has {found} outputs, expected {expected}")]
    Outputs {
        /// Short name of the body.
        body: &'static str,
        /// Outputs given.
        found: usize,
        /// Outputs expected.
        expected: usize,
    },
    /// A 16-bit result that the kernel would have to add to or divide in place.
    #[error(
        "a {body} kernel writes {storage}, expected f32: it keeps sums or scores in its result"
    )]
    Storage {
        /// Short name of the body.
        body: &'static str,
        /// The storage of the result.
        storage: Storage,
    },
    /// A number or a result of an edge pass that does not fit the others.
    #[error("{what} {index} of an edge pass {problem}")]
    Pass {
        /// `number` or `result`.
        what: &'static str,
        /// Its index.
        index: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// An operand is picked by something other than one number per edge.
    #[error(
        "input {index} is picked by input {by}, expected one 32-bit number per edge, and a place"
    )]
    Picked {
        /// Which input.
        index: usize,
        /// The input that should hold the numbers.
        by: u16,
    },
    /// A result with places, in a kernel that is not a plain sum over edges.
    #[error(
        "output {index} of a {body} has places that edges name, expected a 32-bit sum over edges without an epilogue"
    )]
    Places {
        /// Which output.
        index: usize,
        /// What the kernel does.
        body: &'static str,
    },
    /// A dropout probability outside `0 ..= 1`.
    #[error("mask {index} drops with probability {p}, expected 0 to 1")]
    Probability {
        /// Which mask.
        index: usize,
        /// Its probability.
        p: f32,
    },
}

/// Checks a kernel. Code generators and the oracle accept every kernel that passes.
pub fn verify(kernel: &Kernel) -> Result<(), SpecError> {
    let (heads, width) = (kernel.heads, kernel.width);
    if heads == 0 || width == 0 || u64::from(heads) * u64::from(width) >= MAX_ROW {
        return Err(SpecError::Shape { heads, width });
    }
    let body = kernel.body.name();
    let exprs = kernel.body.exprs();
    let expected = match &kernel.body {
        Body::Map { values, .. } => values.len().max(1),
        Body::EdgePass(pass) => pass.results.len().max(1),
        _ => 1,
    };
    if kernel.outputs.len() != expected {
        return Err(SpecError::Outputs {
            body,
            found: kernel.outputs.len(),
            expected,
        });
    }
    if matches!(kernel.body, Body::ColReduce { .. }) && !kernel.outputs[0].storage.is_f32() {
        let storage = kernel.outputs[0].storage;
        return Err(SpecError::Storage { body, storage });
    }
    for (index, expr) in exprs.iter().enumerate() {
        check_expr(kernel, index, expr)?;
    }
    check_operands(kernel)?;
    if let Body::EdgePass(pass) = &kernel.body {
        pass::check(kernel, pass)?;
    }
    if let Body::Gather { finish, .. } = &kernel.body {
        check_gather_finish(kernel, finish)?;
    }
    if let Body::RowReduce { axis, finish, .. } = &kernel.body {
        for value in &finish.values {
            if let Value::Load(input) = *value {
                let operand = &kernel.inputs[usize::from(input)];
                let stepped = match axis {
                    gnnc_ir::kernel::Axis::Width => width > 1 && operand.column_step != 0,
                    gnnc_ir::kernel::Axis::Heads => heads > 1 && operand.head_step != 0,
                };
                if stepped {
                    return Err(SpecError::ReducedAxis {
                        index: input.into(),
                    });
                }
            }
        }
    }
    Ok(())
}

fn check_expr(kernel: &Kernel, at: usize, expr: &Expr) -> Result<(), SpecError> {
    let finish = kernel.body.is_finish(at);
    let numbers = match &kernel.body {
        Body::EdgePass(_) if finish => 0,
        Body::EdgePass(pass) => at.min(pass.numbers.len()),
        _ => 0,
    };
    if expr.values.is_empty() {
        return Err(SpecError::Empty { expr: at });
    }
    let inside = |what, index: u16, count: usize| {
        if usize::from(index) < count {
            Ok(())
        } else {
            Err(SpecError::Unknown {
                expr: at,
                what,
                index,
                count,
            })
        }
    };
    for (position, value) in expr.values.iter().enumerate() {
        match *value {
            Value::Load(input) => inside("input", input, kernel.inputs.len())?,
            Value::Scalar(scalar) => inside("scalar", scalar, kernel.scalars.into())?,
            Value::Mask(mask) => inside("mask", mask, kernel.masks.len())?,
            Value::Unary(_, a) => inside("earlier value", a, position)?,
            Value::Binary(_, a, b) => {
                inside("earlier value", a, position)?;
                inside("earlier value", b, position)?;
            }
            Value::Number(number) => inside("earlier number", number, numbers)?,
            Value::Acc if !finish => return Err(SpecError::Acc { expr: at }),
            Value::Acc | Value::Const(_) => {}
        }
    }
    Ok(())
}

fn check_operands(kernel: &Kernel) -> Result<(), SpecError> {
    let body = kernel.body.name();
    let walk = Walk::of(&kernel.body);
    let edges = walk != Walk::Rows;
    let exists = |at: At| match at {
        At::Row | At::One => true,
        At::Src | At::Dst => edges && walk != Walk::EdgesByType,
        At::Edge => edges,
        At::List => !edges,
    };
    for (index, operand) in kernel.inputs.iter().enumerate() {
        if !exists(operand.at) {
            return Err(SpecError::Place {
                what: "input",
                index,
                at: operand.at,
                body,
                place: "",
            });
        }
        let places = operand.picked.map_or(Some(0), |picked| {
            picked.count.saturating_sub(1).checked_mul(picked.step)
        });
        let offset = places.and_then(|places| places.checked_add(operand.offset));
        check_steps(
            kernel,
            "input",
            index,
            [
                operand.stride,
                offset.unwrap_or(u32::MAX),
                operand.head_step,
                operand.column_step,
            ],
        )?;
        check_picked(kernel, index, operand)?;
    }
    for (index, operand) in kernel.outputs.iter().enumerate() {
        check_picked(kernel, index, operand)?;
        if operand.picked.is_some() && !(sums_alone(&kernel.body) && operand.storage.is_f32()) {
            return Err(SpecError::Places { index, body });
        }
    }
    for (index, mask) in kernel.masks.iter().enumerate() {
        let keyed = !matches!(mask.at, At::One | At::List) && walk != Walk::EdgesByType;
        if !exists(mask.at) || !keyed {
            return Err(SpecError::Place {
                what: "mask",
                index,
                at: mask.at,
                body,
                place: "",
            });
        }
        check_steps(
            kernel,
            "mask",
            index,
            [0, 0, mask.head_step, mask.column_step],
        )?;
        if !(0.0..=1.0).contains(&mask.p) {
            return Err(SpecError::Probability { index, p: mask.p });
        }
    }
    let (heads, width) = gnnc_ir::kernel::result_shape(kernel);
    let column = matches!(kernel.body, Body::ColReduce { .. });
    let passes = matches!(kernel.body, Body::EdgePass(_));
    for (index, operand) in kernel.outputs.iter().enumerate() {
        let place = if column {
            operand.at == At::One
        } else {
            operand.at == At::Row || (operand.at == At::Edge && (walk == Walk::Edges || passes))
        };
        if !place {
            return Err(SpecError::Place {
                what: "output",
                index,
                at: operand.at,
                body,
                place: " as a result",
            });
        }
        check_steps(
            kernel,
            "output",
            index,
            [
                operand.stride,
                operand.offset,
                operand.head_step,
                operand.column_step,
            ],
        )?;
        // Some results of a pass have one column per head.
        let columns_meet = width > 1 && operand.column_step == 0 && !passes;
        let heads_meet = heads > 1 && operand.head_step < (width - 1) * operand.column_step + 1;
        if columns_meet || heads_meet {
            let (head_step, column_step) = (operand.head_step, operand.column_step);
            return Err(SpecError::Overlap {
                index,
                head_step,
                column_step,
                heads,
                width,
            });
        }
    }
    Ok(())
}

/// Whether a kernel only sums over edges.
fn sums_alone(body: &Body) -> bool {
    match body {
        Body::Gather { reduce, finish, .. } => *reduce == Reduce::Sum && finish.is_acc(),
        _ => false,
    }
}

/// Checks that an operand's place is picked by one number per edge.
fn check_picked(kernel: &Kernel, index: usize, operand: &Operand) -> Result<(), SpecError> {
    let Some(picked) = operand.picked else {
        return Ok(());
    };
    let number = |by: &Operand| {
        by.at == At::Edge
            && (by.head_step, by.column_step) == (0, 0)
            && by.storage.is_f32()
            && by.picked.is_none()
    };
    let by = kernel.inputs.get(usize::from(picked.by));
    match by.is_some_and(number) && picked.count > 0 {
        true => Ok(()),
        false => Err(SpecError::Picked {
            index,
            by: picked.by,
        }),
    }
}

/// `steps`: stride, offset, head step, column step.
fn check_steps(
    kernel: &Kernel,
    what: &'static str,
    index: usize,
    steps: [u32; 4],
) -> Result<(), SpecError> {
    let [stride, offset, head_step, column_step] = steps.map(u64::from);
    let reach = offset
        + u64::from(kernel.heads - 1) * head_step
        + u64::from(kernel.width - 1) * column_step;
    let span = reach.max(stride);
    if column_step > 1 || span >= MAX_ROW {
        return Err(SpecError::Steps {
            what,
            index,
            column_step: column_step as u32,
            span,
        });
    }
    Ok(())
}

/// Rejects edge operands in `finish`: once a vertex's edges are reduced, there is no current edge.
pub(crate) fn check_gather_finish(kernel: &Kernel, finish: &Expr) -> Result<(), SpecError> {
    let own = if Walk::of(&kernel.body) == Walk::EdgesBySource {
        At::Src
    } else {
        At::Dst
    };
    let body = kernel.body.name();
    let place = " after its edges are reduced";
    for value in &finish.values {
        let (what, index, at) = match *value {
            Value::Load(input) => {
                let operand = &kernel.inputs[usize::from(input)];
                let at = operand.picked.map_or(operand.at, |_| At::Edge);
                ("input", input, at)
            }
            Value::Mask(mask) => ("mask", mask, kernel.masks[usize::from(mask)].at),
            _ => continue,
        };
        if !(at == At::Row || at == At::One || at == own) {
            return Err(SpecError::Place {
                what,
                index: index.into(),
                at,
                body,
                place,
            });
        }
    }
    Ok(())
}
