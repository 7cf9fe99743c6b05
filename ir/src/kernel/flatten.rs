//! Canonical form of kernels that differ only in how they spell their columns.

use crate::kernel::{At, Body, Kernel, Operand, Over};

/// The same kernel with irrelevant steps set to 0 and, where every operand and mask allows it,
/// heads and columns joined into a single head.
pub fn flatten(kernel: &Kernel) -> Kernel {
    let mut kernel = kernel.clone();
    let (heads, width) = (kernel.heads, kernel.width);
    for_steps(&mut kernel, |head_step, column_step| {
        if heads == 1 {
            *head_step = 0;
        }
        if width == 1 {
            *column_step = 0;
        }
    });
    let joins = match kernel.body {
        Body::Map { .. } | Body::Gather { .. } | Body::TypeSum { .. } | Body::ColReduce { .. } => {
            heads > 1
        }
        // Their numbers belong to heads.
        Body::RowReduce { .. } | Body::EdgePass(_) => false,
    };
    let mut contiguous = true;
    for_steps(&mut kernel, |head_step, column_step| {
        contiguous &= match (width, *head_step, *column_step) {
            (1, step, _) => step <= 1,
            (_, 0, 0) => true,
            (width, step, 1) => step == width,
            _ => false,
        };
    });
    if joins && contiguous {
        for_steps(&mut kernel, |head_step, column_step| {
            *column_step = u32::from(*head_step != 0);
            *head_step = 0;
        });
        (kernel.heads, kernel.width) = (1, heads * width);
    }
    kernel
}

/// Columns per row if the kernel (flattened) is element-wise on contiguous arrays, so that row
/// boundaries do not matter.
pub fn elementwise(kernel: &Kernel) -> Option<u32> {
    let Body::Map { over, .. } = &kernel.body else {
        return None;
    };
    let rows = |at: At| at == At::Row || (at == At::Edge && matches!(over, Over::Edges(_)));
    let whole = |o: &Operand| {
        let step = u32::from(kernel.width > 1);
        rows(o.at)
            && o.picked.is_none()
            && o.offset == 0
            && o.stride == kernel.width
            && o.column_step == step
    };
    let shared = |o: &Operand| o.at == At::One && o.column_step == 0 && o.picked.is_none();
    let flat = kernel.heads == 1
        && kernel.masks.is_empty()
        && kernel.inputs.iter().all(|o| whole(o) || shared(o))
        && kernel.outputs.iter().all(whole);
    flat.then_some(kernel.width)
}

fn for_steps(kernel: &mut Kernel, mut visit: impl FnMut(&mut u32, &mut u32)) {
    let column = matches!(kernel.body, Body::ColReduce { .. });
    for operand in kernel
        .inputs
        .iter_mut()
        .chain(kernel.outputs.iter_mut().filter(|_| !column))
    {
        visit(&mut operand.head_step, &mut operand.column_step);
    }
    for mask in &mut kernel.masks {
        visit(&mut mask.head_step, &mut mask.column_step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::expr::{Expr, Value};

    fn map(heads: u32, width: u32, input: Operand) -> Kernel {
        Kernel {
            body: Body::Map {
                over: Over::Rows,
                values: vec![Expr::leaf(Value::Load(0))],
            },
            heads,
            width,
            inputs: vec![input],
            outputs: vec![Operand::dense(At::Row, heads, width)],
            masks: vec![],
            scalars: 0,
        }
    }

    #[test]
    fn dense_heads_become_columns() {
        let kernel = flatten(&map(8, 4, Operand::dense(At::Row, 8, 4)));
        assert_eq!((kernel.heads, kernel.width), (1, 32));
        assert_eq!(elementwise(&kernel), Some(32));
        let edge_scalars = flatten(&map(8, 1, Operand::dense(At::Row, 8, 1)));
        assert_eq!((edge_scalars.heads, edge_scalars.width), (1, 8));
        assert_eq!(edge_scalars.inputs[0].column_step, 1);
    }

    #[test]
    fn a_value_for_each_head_keeps_heads_apart() {
        let weight = Operand {
            at: At::Row,
            stride: 8,
            offset: 0,
            head_step: 1,
            column_step: 0,
            storage: Default::default(),
            picked: None,
        };
        let kernel = flatten(&map(8, 4, weight));
        assert_eq!((kernel.heads, kernel.width), (8, 4));
        assert_eq!(elementwise(&kernel), None);
    }

    #[test]
    fn slices_are_not_elementwise() {
        let slice = Operand {
            at: At::Row,
            stride: 40,
            offset: 8,
            head_step: 4,
            column_step: 1,
            storage: Default::default(),
            picked: None,
        };
        let kernel = flatten(&map(8, 4, slice));
        assert_eq!((kernel.heads, kernel.width), (1, 32));
        assert_eq!(elementwise(&kernel), None);
    }
}
