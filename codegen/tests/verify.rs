//! Meaningless specifications are refused with an explanation and never crash.
#![allow(clippy::unwrap_used)]

use gnnc_codegen::CodegenError;
use gnnc_codegen::args::{ArgsError, Buffer, KernelArgs};
use gnnc_codegen::cpu::Compiler;
use gnnc_codegen::verify::{SpecError, verify};
use gnnc_ir::kernel::Reduce;
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Axis, Body, EdgePass, EdgeResult, End, Kernel, Mask, Operand, Over};
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::words::types::EdgeSet;

fn gather(value: Vec<Value>, finish: Vec<Value>) -> Kernel {
    Kernel {
        body: Body::Gather {
            set: EdgeSet::Plain,
            to: End::Dst,
            reduce: Reduce::Sum,
            value: Expr { values: value },
            finish: Expr { values: finish },
        },
        heads: 2,
        width: 4,
        inputs: vec![Operand::dense(At::Src, 2, 4)],
        outputs: vec![Operand::dense(At::Row, 2, 4)],
        masks: vec![Mask {
            p: 0.5,
            at: At::Edge,
            first: 0,
            head_step: 1,
            column_step: 0,
        }],
        scalars: 1,
    }
}

fn valid() -> Kernel {
    gather(vec![Value::Load(0)], vec![Value::Acc])
}

#[test]
fn each_mistake_has_its_error() {
    assert_eq!(verify(&valid()), Ok(()));
    let unknown = |what, index, count| SpecError::Unknown {
        expr: 0,
        what,
        index,
        count,
    };
    let acc = vec![Value::Acc];
    let cases = [
        (
            gather(vec![Value::Load(1)], acc.clone()),
            unknown("input", 1, 1),
        ),
        (
            gather(vec![Value::Mask(1)], acc.clone()),
            unknown("mask", 1, 1),
        ),
        (
            gather(vec![Value::Scalar(1)], acc.clone()),
            unknown("scalar", 1, 1),
        ),
        (
            gather(vec![Value::Unary(Unary::Neg, 0)], acc.clone()),
            unknown("earlier value", 0, 0),
        ),
        (
            gather(
                vec![Value::Load(0), Value::Binary(Binary::Add, 0, 1)],
                acc.clone(),
            ),
            unknown("earlier value", 1, 1),
        ),
        (gather(vec![], acc.clone()), SpecError::Empty { expr: 0 }),
        (
            gather(vec![Value::Acc], acc.clone()),
            SpecError::Acc { expr: 0 },
        ),
        (
            gather(vec![Value::Load(0)], vec![Value::Load(0)]),
            SpecError::Place {
                what: "input",
                index: 0,
                at: At::Src,
                body: "spmm",
                place: " after its edges are reduced",
            },
        ),
        (
            gather(vec![Value::Load(0)], vec![Value::Mask(0)]),
            SpecError::Place {
                what: "mask",
                index: 0,
                at: At::Edge,
                body: "spmm",
                place: " after its edges are reduced",
            },
        ),
        (
            Kernel {
                width: 0,
                ..valid()
            },
            SpecError::Shape { heads: 2, width: 0 },
        ),
        (
            Kernel {
                heads: u32::MAX,
                width: u32::MAX,
                ..valid()
            },
            SpecError::Shape {
                heads: u32::MAX,
                width: u32::MAX,
            },
        ),
        (
            Kernel {
                outputs: vec![],
                ..valid()
            },
            SpecError::Outputs {
                body: "spmm",
                found: 0,
                expected: 1,
            },
        ),
        (
            Kernel {
                inputs: vec![Operand::dense(At::List, 2, 4)],
                ..valid()
            },
            SpecError::Place {
                what: "input",
                index: 0,
                at: At::List,
                body: "spmm",
                place: "",
            },
        ),
        (
            Kernel {
                outputs: vec![Operand::dense(At::Src, 2, 4)],
                ..valid()
            },
            SpecError::Place {
                what: "output",
                index: 0,
                at: At::Src,
                body: "spmm",
                place: " as a result",
            },
        ),
        (
            Kernel {
                outputs: vec![Operand {
                    head_step: 3,
                    ..Operand::dense(At::Row, 2, 4)
                }],
                ..valid()
            },
            SpecError::Overlap {
                index: 0,
                head_step: 3,
                column_step: 1,
                heads: 2,
                width: 4,
            },
        ),
        (
            Kernel {
                inputs: vec![Operand {
                    column_step: 2,
                    ..Operand::dense(At::Src, 2, 4)
                }],
                ..valid()
            },
            SpecError::Steps {
                what: "input",
                index: 0,
                column_step: 2,
                span: 10,
            },
        ),
        (
            Kernel {
                masks: vec![Mask {
                    p: 1.5,
                    at: At::Src,
                    first: 0,
                    head_step: 0,
                    column_step: 1,
                }],
                ..valid()
            },
            SpecError::Probability { index: 0, p: 1.5 },
        ),
        (
            Kernel {
                body: Body::EdgePass(EdgePass {
                    set: EdgeSet::Plain,
                    to: End::Dst,
                    numbers: Vec::new(),
                    softmax: None,
                    results: vec![EdgeResult::LogSumExp],
                }),
                ..valid()
            },
            SpecError::Pass {
                what: "result",
                index: 0,
                problem: "has one column per head, but its output has more",
            },
        ),
        (
            Kernel {
                body: Body::RowReduce {
                    over: Over::Edges(EdgeSet::Plain),
                    axis: Axis::Width,
                    reduce: Reduce::Sum,
                    value: Expr::leaf(Value::Load(0)),
                    finish: Expr::leaf(Value::Load(0)),
                },
                ..valid()
            },
            SpecError::ReducedAxis { index: 0 },
        ),
    ];
    let compiler = Compiler::new(None).unwrap();
    for (kernel, expected) in cases {
        assert_eq!(verify(&kernel), Err(expected), "{kernel:?}");
        assert!(matches!(
            compiler.compile(&kernel),
            Err(CodegenError::Invalid(_))
        ));
    }
}

#[test]
fn short_arguments_are_found() {
    let kernel = valid();
    let x = [0.0; 24];
    let mut out = [0.0; 16];
    let args = KernelArgs {
        indptr: &[0, 1, 3],
        indices: &[2, 0, 1],
        inputs: vec![Buffer::input(&x)],
        outputs: vec![Buffer::output(&mut out)],
        scalars: &[1.0],
        keys: &[1],
        ids: &[1, 2, 3],
        ..KernelArgs::default()
    };
    assert_eq!(args.check(&kernel, 0..2), Ok(()));
    let missing = |what, needed, found| {
        Err(ArgsError::Missing {
            what,
            needed,
            found,
        })
    };
    let with = |change: &dyn Fn(&mut KernelArgs)| {
        let mut changed = args.clone();
        change(&mut changed);
        changed.check(&kernel, 0..2)
    };
    assert_eq!(args.check(&kernel, 0..3), missing("row offsets", 4, 3));
    assert_eq!(
        with(&|a| a.indices = &[2, 0]),
        missing("neighbor indices", 3, 2)
    );
    assert_eq!(with(&|a| a.ids = &[1, 2]), missing("vertex ids", 3, 2));
    assert_eq!(with(&|a| a.keys = &[]), missing("mask keys", 1, 0));
    assert_eq!(with(&|a| a.scalars = &[]), missing("scalars", 1, 0));
    assert_eq!(with(&|a| a.inputs.clear()), missing("inputs", 1, 0));
    assert_eq!(
        with(&|a| a.indptr = &[0, 3, 1]),
        Err(ArgsError::Offsets { row: 1 })
    );
    let short = ArgsError::Short {
        what: "input",
        index: 0,
        needed: 32,
        found: 24,
    };
    assert_eq!(with(&|a| a.indices = &[2, 0, 3]), Err(short));
    let (begin, end) = (2, 1);
    assert_eq!(
        args.check(&kernel, begin..end),
        Err(ArgsError::Range { begin, end })
    );
}

#[test]
fn the_text_of_a_kernel_is_stable() {
    let compiler = Compiler::new(None).unwrap();
    let text = compiler.clif(&valid()).unwrap();
    assert!(
        text.starts_with("function u0:0(i64, i64, i64, i64)"),
        "{text}"
    );
    assert_eq!(text, Compiler::new(None).unwrap().clif(&valid()).unwrap());
}
