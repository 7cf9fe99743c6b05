//! Numbers for evaluating graphs, and their comparison.

use gnnc_ir::graph::eval::{DropoutKey, EvalContext, Tensor, evaluate_with_args};
use gnnc_ir::{EdgeSet, Graph, Rows, Type};

/// Vertices of the data graph; vertex 5 has no out-edge, vertex 6 no edge at all, vertex 0 no
/// in-edge.
const INDPTR: [u64; 8] = [0, 0, 2, 5, 6, 8, 11, 11];
const INDICES: [u32; 11] = [0, 3, 0, 1, 4, 2, 1, 3, 0, 2, 4];

/// Evaluates a graph on fixed numbers. Parameters, arguments and features are between -1 and 1
/// and differ everywhere.
pub fn evaluate(graph: &Graph) -> Vec<Tensor> {
    let tensor = |ty: Type, salt: u32| {
        let rows = rows(ty.rows);
        let len = rows * ty.columns() as usize * ty.stack.max(1) as usize;
        let number = |i: usize| {
            let bits = gnnc_ir::kernel::mix32(i as u32 ^ salt.wrapping_mul(0x9e37_79b9));
            let number = f64::from(bits) / f64::from(u32::MAX) * 2.0 - 1.0;
            if number.abs() < 0.05 {
                number + 0.1
            } else {
                number
            }
        };
        Tensor::new(ty, rows, (0..len).map(number).collect())
    };
    let vertices = INDPTR.len() - 1;
    let context = EvalContext {
        indptr: INDPTR.to_vec(),
        indices: INDICES.to_vec(),
        edge_features: Vec::new(),
        sets: Vec::new(),
        types: (0..INDICES.len()).map(|edge| (edge % 3) as u16).collect(),
        features: tensor(Type::vertices(graph.features), 1),
        labels: (0..vertices).map(|v| (v % 2) as f64).collect(),
        train: (0..vertices).map(|v| v % 3 != 0).collect(),
        params: (0u32..)
            .zip(&graph.params)
            .map(|(i, p)| tensor(p.ty, 100 + i))
            .collect(),
        dropout: Some(DropoutKey { seed: 7, epoch: 3 }),
        histories: Vec::new(),
        order: Vec::new(),
        blocks: Vec::new(),
        batch: None,
    };
    let args: Vec<Tensor> = (0u32..)
        .zip(&graph.args)
        .map(|(i, ty)| tensor(*ty, 200 + i))
        .collect();
    evaluate_with_args(graph, &context, &args, 0).unwrap()
}

fn rows(rows: Rows) -> usize {
    let vertices = INDPTR.len() - 1;
    match rows {
        Rows::Fixed(n) => n as usize,
        Rows::Vertices | Rows::All => vertices,
        Rows::Edges(EdgeSet::Plain) | Rows::AllEdges(EdgeSet::Plain) => INDICES.len(),
        Rows::Edges(_) | Rows::AllEdges(_) => INDICES.len() + vertices,
        Rows::Level(_) | Rows::LevelEdges(..) => 0,
    }
}

/// Whether two graphs compute the same, to 1e-9 of the largest number.
pub fn agree(a: &Graph, b: &Graph) -> bool {
    let (left, right) = (evaluate(a), evaluate(b));
    left.len() == right.len() && left.iter().zip(&right).all(|(x, y)| close(x, y))
}

fn close(a: &Tensor, b: &Tensor) -> bool {
    let scale = a
        .data
        .iter()
        .filter(|x| x.is_finite())
        .fold(1.0f64, |m, x| m.max(x.abs()));
    // A quotient by 0 may be infinite in one order of products and NaN in another.
    let wild = |x: &f64, y: &f64| !x.is_finite() && !y.is_finite();
    let same = |(x, y): (&f64, &f64)| x == y || wild(x, y) || (x - y).abs() <= 1e-9 * scale;
    a.ty == b.ty && a.data.len() == b.data.len() && a.data.iter().zip(&b.data).all(same)
}
