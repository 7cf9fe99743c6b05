//! Epilogues of dense products that the library computes itself, which saves a launch.

use super::device_rank::DeviceRank;
use super::driver::{Address, ProductEnd};
use gnnc_ir::kernel::expr::{Expr, Value, ValueId};
use gnnc_ir::kernel::{At, Body, Kernel, Operand, Over};
use gnnc_ir::program::{Launch, Matrix, Ref};
use gnnc_ir::words::scalar::{Binary, Unary};

/// Required alignment of a bias in bytes: cuBLASLt's kernels read it in units of 16 bytes, and no
/// preference tells the heuristic of a smaller alignment.
const BIAS: u64 = 16;

/// What a kernel does to a product: add a row to every row, clip at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Simple {
    /// The input that is added to every row.
    bias: Option<u16>,
    relu: bool,
}

impl DeviceRank {
    /// The epilogue of a product if the library can compute it: a [`Simple`] one, in place, in a
    /// single storage (cuBLASLt needs the bias in the storage of the result), with the bias aligned
    /// to [`BIAS`].
    pub(super) fn end(
        &self,
        launch: &Launch,
        out: &Matrix,
        columns: u32,
        iteration: u32,
    ) -> Option<ProductEnd> {
        let kernel = self.own.program.kernels.get(launch.kernel.0 as usize)?;
        let is_out = |at: &Ref, operand: &Operand| {
            let lies = (operand.stride, operand.offset, operand.storage);
            let expected = (out.stride, out.offset, self.storage(out.at));
            *at == out.at && operand.at == At::Row && lies == expected
        };
        let result = launch.inputs.iter().zip(&kernel.inputs);
        let product = result.clone().position(|(at, input)| is_out(at, input))? as u16;
        let in_place = matches!((&launch.outputs[..], &kernel.outputs[..]),
            ([at], [output]) if is_out(at, output));
        let simple =
            simple(kernel, product, columns).filter(|_| in_place && launch.chunk.is_none())?;
        let bias = |n: u16| -> Option<Address> {
            let (at, operand) = (
                launch.inputs.get(n as usize)?,
                kernel.inputs.get(n as usize)?,
            );
            let bytes = operand.storage.bytes() * u64::from(operand.offset);
            let at = self.slot(*at, iteration).plus(bytes);
            at.0.is_multiple_of(BIAS).then_some(at)
        };
        Some(ProductEnd {
            bias: match simple.bias {
                Some(n) => Some(bias(n)?),
                None => None,
            },
            relu: simple.relu,
        })
    }
}

/// Parses a kernel over the rows of a product, which is its input `product`, if it is simple.
fn simple(kernel: &Kernel, product: u16, columns: u32) -> Option<Simple> {
    let Body::Map {
        over: Over::Rows,
        values,
    } = &kernel.body
    else {
        return None;
    };
    let [expr] = &values[..] else {
        return None;
    };
    let whole = |operand: &Operand| {
        let heads = kernel.heads == 1 || operand.head_step == kernel.width;
        operand.column_step == 1 && heads
    };
    let lies = kernel.inputs.get(product as usize)?;
    if kernel.heads * kernel.width != columns || !whole(lies) || !kernel.outputs.iter().all(whole) {
        return None;
    }
    let found = parse(expr, product)?;
    let row = |n: u16| {
        let operand = kernel.inputs.get(n as usize);
        operand.is_some_and(|b| b.at == At::One && whole(b) && b.storage == lies.storage)
    };
    found.bias.is_none_or(row).then_some(found)
}

/// Parses `product`, `product + bias`, and `relu` of either.
fn parse(expr: &Expr, product: u16) -> Option<Simple> {
    let value = |id: ValueId| expr.values.get(id as usize).copied();
    let (relu, inside) = match value(expr.result())? {
        Value::Unary(Unary::Relu, id) => (true, value(id)?),
        other => (false, other),
    };
    let bias = match inside {
        Value::Load(n) if n == product => None,
        Value::Binary(Binary::Add, a, b) => match (value(a)?, value(b)?) {
            (Value::Load(n), Value::Load(bias)) | (Value::Load(bias), Value::Load(n))
                if n == product && bias != product =>
            {
                Some(bias)
            }
            _ => return None,
        },
        _ => return None,
    };
    (relu || bias.is_some()).then_some(Simple { bias, relu })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnnc_ir::words::storage::Storage;

    fn operand(at: At) -> Operand {
        Operand {
            at,
            stride: 8,
            offset: 0,
            head_step: 0,
            column_step: 1,
            storage: Storage::F32,
            picked: None,
        }
    }

    fn kernel(values: Vec<Value>) -> Kernel {
        let expr = Expr { values };
        Kernel {
            body: Body::Map {
                over: Over::Rows,
                values: vec![expr],
            },
            heads: 1,
            width: 8,
            inputs: vec![operand(At::One), operand(At::Row), operand(At::Row)],
            outputs: vec![operand(At::Row)],
            masks: Vec::new(),
            scalars: 0,
        }
    }

    #[test]
    fn a_bias_and_a_relu_are_known() {
        let [bias, product, other] = [0, 1, 2].map(Value::Load);
        let add = Value::Binary(Binary::Add, 0, 1);
        let relu = Value::Unary(Unary::Relu, 2);
        let known = |values: Vec<Value>| simple(&kernel(values), 1, 8);
        let some = |bias, relu| Some(Simple { bias, relu });
        assert_eq!(known(vec![product, bias, add]), some(Some(0), false));
        assert_eq!(known(vec![bias, product, add, relu]), some(Some(0), true));
        let alone = Value::Unary(Unary::Relu, 0);
        assert_eq!(known(vec![product, alone]), some(None, true));
        // Nothing to do, another function, another operand, a bias that is not one row for all.
        for values in [
            vec![product],
            vec![bias, product, Value::Binary(Binary::Mul, 0, 1)],
            vec![bias, product, add, Value::Unary(Unary::Tanh, 2)],
            vec![other, product, add],
            vec![other, bias, add],
            vec![product, Value::Const(1.0), add],
        ] {
            assert_eq!(known(values.clone()), None, "{values:?}");
        }
    }

    #[test]
    fn what_lies_otherwise_is_left_to_a_launch() {
        let values = vec![
            Value::Load(0),
            Value::Load(1),
            Value::Binary(Binary::Add, 0, 1),
        ];
        let changed = |change: &dyn Fn(&mut Kernel)| {
            let mut kernel = kernel(values.clone());
            change(&mut kernel);
            simple(&kernel, 1, 8)
        };
        assert!(changed(&|_| ()).is_some());
        assert!(changed(&|k| k.inputs[0].column_step = 0).is_none());
        assert!(changed(&|k| k.inputs[0].storage = Storage::Bf16).is_none());
        assert!(changed(&|k| k.width = 4).is_none());
        assert!(changed(&|k| (k.heads, k.width) = (2, 4)).is_none());
        let heads = |k: &mut Kernel| {
            (k.heads, k.width) = (2, 4);
            let all = k.inputs.iter_mut().chain(&mut k.outputs);
            all.for_each(|operand| operand.head_step = 4);
        };
        assert!(changed(&heads).is_some());
    }
}
