//! Random kernels of every kind.

use super::{Random, TYPES, expression, mask, operand, output};
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Axis, Body, EdgePass, EdgeResult, End, Kernel};
use gnnc_ir::kernel::{Mask, Operand, Over, Picked, Reduce};
use gnnc_ir::words::scalar::Binary;
use gnnc_ir::words::storage::Storage;
use gnnc_ir::words::types::EdgeSet;

/// Heads and widths.
pub const SHAPES: [(u32, u32); 22] = [
    (1, 1),
    (1, 2),
    (1, 3),
    (1, 4),
    (1, 7),
    (1, 16),
    (1, 41),
    (1, 64),
    (1, 130),
    (1, 602),
    (2, 1),
    (3, 1),
    (4, 1),
    (8, 1),
    (8, 2),
    (3, 5),
    (5, 3),
    (8, 8),
    (20, 9),
    (23, 1),
    (2, 150),
    (3, 64),
];

/// A kind of kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Map(Over),
    Gather(End, Reduce),
    RowReduce(Over, Axis, Reduce),
    ColReduce(Over),
    TypeSum,
    /// A gather whose edges select places in the result.
    Places(End),
    /// Several results of one walk over edges.
    Pass(End),
}

impl Form {
    fn edges(self) -> bool {
        !matches!(
            self,
            Self::Map(Over::Rows) | Self::RowReduce(Over::Rows, ..) | Self::ColReduce(Over::Rows)
        )
    }
}

/// The body of a form; only maps have more than one value.
fn body(form: Form, values: Vec<Expr>, finish: Expr) -> Body {
    let set = EdgeSet::Plain;
    let value = values.first().cloned().unwrap_or_default();
    match form {
        Form::Map(over) => Body::Map { over, values },
        Form::Gather(to, reduce) => Body::Gather {
            set,
            to,
            reduce,
            value,
            finish,
        },
        Form::RowReduce(over, axis, reduce) => Body::RowReduce {
            over,
            axis,
            reduce,
            value,
            finish,
        },
        Form::ColReduce(over) => Body::ColReduce { over, value },
        Form::TypeSum => Body::TypeSum {
            set,
            types: TYPES,
            value,
        },
        Form::Places(to) => Body::Gather {
            set,
            to,
            reduce: Reduce::Sum,
            value,
            finish: Expr::leaf(Value::Acc),
        },
        Form::Pass(to) => Body::EdgePass(EdgePass {
            set,
            to,
            numbers: Vec::new(),
            softmax: None,
            results: vec![EdgeResult::Sum { value, finish }],
        }),
    }
}

/// Every kind of kernel.
pub fn forms() -> Vec<Form> {
    let overs = [Over::Rows, Over::Edges(EdgeSet::Plain)];
    let mut forms = vec![Form::TypeSum];
    forms.extend([End::Dst, End::Src].map(Form::Places));
    forms.extend([End::Dst, End::Src].map(Form::Pass));
    for over in overs {
        forms.extend([Form::Map(over), Form::ColReduce(over)]);
        for axis in [Axis::Width, Axis::Heads] {
            forms.extend(
                [Reduce::Sum, Reduce::Max].map(|reduce| Form::RowReduce(over, axis, reduce)),
            );
        }
    }
    for to in [End::Dst, End::Src] {
        forms.extend([Reduce::Sum, Reduce::Max].map(|reduce| Form::Gather(to, reduce)));
    }
    forms
}

/// Two outputs per number: input 0, a float, in 16 bits; and input 1, stored in 16 bits, as a
/// float.
pub fn rounding(storage: Storage) -> Kernel {
    let float = Operand::dense(At::Row, 1, 1);
    let half = Operand { storage, ..float };
    Kernel {
        body: Body::Map {
            over: Over::Rows,
            values: vec![Expr::leaf(Value::Load(0)), Expr::leaf(Value::Load(1))],
        },
        heads: 1,
        width: 1,
        inputs: vec![float, half],
        outputs: vec![half, float],
        masks: vec![],
        scalars: 0,
    }
}

/// The same kernel with all operands in 16 bits.
pub fn all_halves(mut kernel: Kernel, storage: Storage) -> Kernel {
    let operands = kernel.inputs.iter_mut().chain(&mut kernel.outputs);
    operands.for_each(|operand| operand.storage = storage);
    floats_that_pick(kernel)
}

/// The same kernel with some or all operands in 16 bits.
pub fn in_halves(random: &mut Random, mut kernel: Kernel) -> Kernel {
    let half = random.pick(&[Storage::Bf16, Storage::F16]);
    let all = random.below(2) == 0;
    let keeps = matches!(kernel.body, Body::ColReduce { .. });
    let outputs = kernel.outputs.iter_mut().filter(|_| !keeps);
    for operand in kernel.inputs.iter_mut().chain(outputs) {
        if all || random.below(2) == 0 {
            operand.storage = half;
        }
    }
    floats_that_pick(kernel)
}

/// The same kernel with 32 bits for indices that pick and for results with places.
fn floats_that_pick(mut kernel: Kernel) -> Kernel {
    let operands = kernel.inputs.iter().chain(&kernel.outputs);
    let picked = operands.filter_map(|operand| operand.picked.map(|picked| picked.by));
    let by: Vec<u16> = picked.collect();
    for by in by {
        kernel.inputs[usize::from(by)].storage = Storage::F32;
    }
    for output in kernel
        .outputs
        .iter_mut()
        .filter(|output| output.picked.is_some())
    {
        output.storage = Storage::F32;
    }
    kernel
}

/// A random kernel of a form: all operand layouts, masks, random expressions.
pub fn random_kernel(
    random: &mut Random,
    form: Form,
    heads: u32,
    width: u32,
    size: usize,
) -> Kernel {
    if let Form::Pass(to) = form {
        return super::pass::random_pass(random, to, heads, width, size);
    }
    let edges = form.edges();
    let ats: &[At] = if form == Form::TypeSum {
        &[At::Edge, At::One, At::Row, At::Edge]
    } else if edges {
        &[At::Src, At::Dst, At::Edge, At::One, At::Row, At::Src]
    } else {
        &[At::Row, At::One, At::List, At::Row]
    };
    let mask_ats: &[At] = if form == Form::TypeSum {
        &[]
    } else if edges {
        &[At::Src, At::Dst, At::Edge, At::Row]
    } else {
        &[At::Row]
    };
    let mut inputs: Vec<Operand> = ats
        .iter()
        .map(|&at| operand(random, at, heads, width))
        .collect();
    let mut masks: Vec<_> = mask_ats.iter().map(|&at| mask(random, at, width)).collect();
    let leaves =
        |inputs: std::ops::Range<usize>, masks: std::ops::Range<usize>, random: &mut Random| {
            let mut leaves: Vec<Value> = inputs.map(|n| Value::Load(n as u16)).collect();
            if random.below(3) == 0 {
                leaves.extend(masks.map(|n| Value::Mask(n as u16)));
            }
            if random.below(3) == 0 {
                leaves.push(Value::Scalar(random.below(2) as u16));
            }
            leaves
        };
    let value_leaves = leaves(0..inputs.len(), 0..masks.len(), random);
    let value = expression(random, &value_leaves, size);
    // The finishing expression has its own operands: per row, without the reduced axis.
    let finish_from = (inputs.len(), masks.len());
    let (finish_heads, finish_width) = match form {
        Form::RowReduce(_, Axis::Width, _) => (heads, 1),
        Form::RowReduce(_, Axis::Heads, _) => (1, width),
        _ => (heads, width),
    };
    for at in [At::Row, At::One] {
        let mut finish = operand(random, at, finish_heads, finish_width);
        if finish_width == 1 {
            finish.column_step = 0;
        }
        if finish_heads == 1 {
            finish.head_step = 0;
        }
        inputs.push(finish);
    }
    let mut row_mask = mask(random, At::Row, finish_width);
    if finish_width == 1 {
        row_mask.column_step = 0;
    }
    if finish_heads == 1 {
        row_mask.head_step = 0;
    }
    masks.push(row_mask);
    let mut finish_leaves = leaves(
        finish_from.0..inputs.len(),
        finish_from.1..masks.len(),
        random,
    );
    finish_leaves.push(Value::Acc);
    let finish = if random.below(3) == 0 {
        Expr::leaf(Value::Acc)
    } else {
        expression(random, &finish_leaves, size / 2)
    };
    let mut outputs = vec![output(random, At::Row, finish_heads, finish_width)];
    let mut values = vec![value];
    if let Form::Map(_) = form {
        values = (0..1 + random.below(3))
            .map(|_| expression(random, &value_leaves, size))
            .collect();
        outputs = values
            .iter()
            .map(|_| output(random, At::Row, heads, width))
            .collect();
    }
    if let Form::ColReduce(_) = form {
        outputs[0] = Operand::dense(At::One, heads, width);
    }
    if form == Form::TypeSum {
        masks.clear();
    }
    // Edge types pick places in some operands, and in results with places.
    if edges {
        let by = inputs.len() as u16;
        inputs.push(Operand::dense(At::Edge, 1, 1));
        let read = inputs[..finish_from.0].iter_mut();
        for input in read.filter(|input| matches!(input.at, At::Src | At::One | At::Edge)) {
            let step = random.below(3) as u32 * width;
            let picked = Some(Picked {
                by,
                count: TYPES,
                step,
            });
            input.picked = (random.below(3) == 0).then_some(picked).flatten();
        }
        if let Form::Places(_) = form {
            let step = heads * width;
            outputs[0] = Operand {
                stride: TYPES * step,
                picked: Some(Picked {
                    by,
                    count: TYPES,
                    step,
                }),
                ..Operand::dense(At::Row, heads, width)
            };
        }
    }
    let body = body(form, values, finish);
    Kernel {
        body,
        heads,
        width,
        inputs,
        outputs,
        masks,
        scalars: 2,
    }
}

/// Heads and widths of contiguous operands: all vector sizes, groups that share edges, several
/// tiles and slabs.
pub const DENSE_SHAPES: [(u32, u32); 10] = [
    (1, 1),
    (1, 2),
    (1, 4),
    (1, 6),
    (1, 16),
    (8, 8),
    (4, 1),
    (1, 130),
    (1, 260),
    (3, 400),
];

/// A kernel with contiguous operands, so that it loads vectors: two inputs, a mask, and a bias
/// if it has a finishing expression.
pub fn dense_kernel(form: Form, heads: u32, width: u32) -> Kernel {
    let edges = form.edges();
    let (near, far) = if form == Form::TypeSum {
        (At::Edge, At::Edge)
    } else if edges {
        (At::Dst, At::Src)
    } else {
        (At::Row, At::List)
    };
    let mut value = Expr::default();
    let [a, b] = [0, 1].map(|input| value.push(Value::Load(input)));
    let product = value.push(Value::Binary(Binary::Mul, a, b));
    if form != Form::TypeSum {
        let kept = value.push(Value::Mask(0));
        value.push(Value::Binary(Binary::Mul, product, kept));
    }
    let (shape, bias) = match form {
        Form::RowReduce(_, Axis::Width, _) => ((heads, 1), Operand::dense(At::One, heads, 1)),
        Form::RowReduce(_, Axis::Heads, _) => ((1, width), Operand::dense(At::One, 1, width)),
        _ => ((heads, width), Operand::dense(At::One, heads, width)),
    };
    let mut finish = Expr::default();
    let [acc, bias_value] = [Value::Acc, Value::Load(2)].map(|term| finish.push(term));
    finish.push(Value::Binary(Binary::Add, acc, bias_value));
    let out = match form {
        Form::ColReduce(_) => At::One,
        _ => At::Row,
    };
    let body = body(form, vec![value], finish);
    // Some operands and results have one place per edge type.
    let typed = matches!(form, Form::Places(_) | Form::Gather(End::Dst, _));
    let (step, types) = (heads * width, typed.then(|| Operand::dense(At::Edge, 1, 1)));
    let places = |at: At| match types {
        None => Operand::dense(at, heads, width),
        Some(_) => Operand {
            stride: TYPES * step,
            picked: Some(Picked {
                by: 3,
                count: TYPES,
                step,
            }),
            ..Operand::dense(at, heads, width)
        },
    };
    let output = match form {
        Form::Places(_) => places(At::Row),
        _ => Operand::dense(out, shape.0, shape.1),
    };
    let mut inputs = vec![places(far), Operand::dense(near, heads, width), bias];
    inputs.extend(types);
    Kernel {
        body,
        heads,
        width,
        inputs,
        outputs: vec![output],
        masks: vec![Mask {
            p: 0.25,
            at: if edges { At::Edge } else { At::Row },
            first: 5,
            head_step: if heads > 1 { width } else { 0 },
            column_step: u32::from(width > 1),
        }]
        .into_iter()
        .filter(|_| form != Form::TypeSum)
        .collect(),
        scalars: 0,
    }
}
