//! Result types of operators.

use crate::graph::op::{Clip, Input, Op, Product, Scan};
use crate::graph::{Graph, NodeId};
use crate::kernel::{Axis, End};
use crate::words::types::{EdgeSet, Rows, Type};

/// Operands that do not match an operator.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TypeError {
    /// The wrong number of operands.
    #[error("{op} takes {expected} operand(s), found {found}")]
    Arity {
        /// The operator.
        op: String,
        /// Operands found.
        found: usize,
        /// Operands expected.
        expected: usize,
    },
    /// Two tensors that cannot be combined element by element.
    #[error("{left} and {right} do not match in {op}")]
    Broadcast {
        /// The operator.
        op: String,
        /// Type of the first operand.
        left: Type,
        /// Type of the second operand.
        right: Type,
    },
    /// Rows of a kind that the operator does not accept.
    #[error("{op} works on {expected}, found {found}")]
    Domain {
        /// The operator.
        op: String,
        /// What the operator works on.
        expected: &'static str,
        /// The operand's type.
        found: Type,
    },
    /// Inner sizes of a matrix product that differ.
    #[error("{op} needs equal inner sizes, found {left} and {right}")]
    Inner {
        /// The operator.
        op: String,
        /// Type of the first operand.
        left: Type,
        /// Type of the second operand.
        right: Type,
    },
    /// A slice, pad or reshape that does not fit the operand.
    #[error("{op} does not fit {found}")]
    Range {
        /// The operator.
        op: String,
        /// The operand's type.
        found: Type,
    },
    /// A scan argument, parameter or result that does not exist or has another type.
    #[error("{op}: expected {expected}, found {found}")]
    Mismatch {
        /// The operator.
        op: String,
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
    },
}

/// Infers the type of `op` applied to nodes of `graph`.
///
/// # Errors
/// If the operands do not match the operator.
pub fn infer(graph: &Graph, op: &Op, inputs: &[NodeId]) -> Result<Type, TypeError> {
    let types: Vec<Type> = inputs.iter().map(|id| graph.ty(*id)).collect();
    let arity = |expected: usize| match types.len() {
        found if found == expected => Ok(()),
        found => Err(TypeError::Arity {
            op: op.to_string(),
            found,
            expected,
        }),
    };
    let domain = |expected: &'static str, found: Type| {
        Err(TypeError::Domain {
            op: op.to_string(),
            expected,
            found,
        })
    };
    let range = |found: Type| {
        Err(TypeError::Range {
            op: op.to_string(),
            found,
        })
    };
    let mismatch = |expected: String, found: String| {
        Err(TypeError::Mismatch {
            op: op.to_string(),
            expected,
            found,
        })
    };
    // An edge tensor, beside a whole number for each edge.
    let named = || {
        arity(2)?;
        let [x, index] = [types[0], types[1]];
        match x.rows.edge_set() {
            None => domain("edge rows", x),
            Some(_) if x.stack != 0 || index != Type::new(x.rows, 1, 1) => range(index),
            Some(_) => Ok(x),
        }
    };
    // Logits.
    let logits = || {
        arity(1)?;
        match types[0] {
            ty if (ty.stack, ty.heads) == (0, 1)
                && matches!(ty.rows, Rows::Vertices | Rows::Level(_)) =>
            {
                Ok(ty)
            }
            ty => domain("vertex rows without heads", ty),
        }
    };
    match op {
        Op::Input(input) => {
            arity(0)?;
            Ok(match input {
                Input::Features => Type::vertices(graph.features),
                Input::FeatureSlice(slice) => Type::new(Rows::All, 1, slice.len),
                Input::InDegree(_) | Input::OutDegree(_) => Type::vertices(1),
                Input::History(history) => history.ty(),
                Input::Fresh(set) => Type::new(Rows::Edges(*set), 1, 1),
                Input::Relation(relations) | Input::RelationDegree(relations) => relations.ty(),
                Input::EdgeFeatures(columns) => columns.ty(),
                Input::Drawn(drawn) => drawn.ty(),
            })
        }
        Op::Param(id) => {
            arity(0)?;
            match graph.params.get(id.0 as usize) {
                Some(spec) => Ok(spec.ty),
                None => mismatch("a declared parameter".into(), format!("number {}", id.0)),
            }
        }
        Op::Const(_) => arity(0).map(|()| Type::SCALAR),
        Op::Table(values) => arity(0).map(|()| Type::SCALAR.stacked(values.len() as u32)),
        Op::Arg(n) => {
            arity(0)?;
            match graph.args.get(*n as usize) {
                Some(ty) => Ok(*ty),
                None => mismatch(
                    format!("one of {} arguments", graph.args.len()),
                    n.to_string(),
                ),
            }
        }
        Op::Unary(_) | Op::Dropout { .. } => arity(1).map(|()| types[0]),
        Op::Blend => {
            arity(4)?;
            let [x, old, kept, history] = [types[0], types[1], types[2], types[3]];
            match [x, kept].iter().find(|ty| ty.rows != Rows::Vertices) {
                Some(other) => range(*other),
                None if x != old => mismatch(x.to_string(), old.to_string()),
                None if kept != history => mismatch(kept.to_string(), history.to_string()),
                None => Ok(x),
            }
        }
        Op::Binary(_) => {
            arity(2)?;
            types[0]
                .broadcast(types[1])
                .ok_or_else(|| TypeError::Broadcast {
                    op: op.to_string(),
                    left: types[0],
                    right: types[1],
                })
        }
        Op::Broadcast(to) => {
            arity(1)?;
            if types[0].broadcast(*to) == Some(*to) {
                Ok(*to)
            } else {
                range(types[0])
            }
        }
        Op::Take(set, end) => {
            arity(1)?;
            match types[0].rows.taken(*set, *end) {
                Some(rows) => Ok(Type { rows, ..types[0] }),
                None => domain("vertex rows", types[0]),
            }
        }
        Op::Gather(set, end, _) => {
            arity(1)?;
            gather(*set, *end, types[0]).map_or_else(|| domain(edges(*set, *end), types[0]), Ok)
        }
        Op::GatherMean(set) => {
            arity(1)?;
            gather(*set, End::Dst, types[0])
                .map_or_else(|| domain(edges(*set, End::Dst), types[0]), Ok)
        }
        Op::EdgeSoftmax(set) => {
            arity(1)?;
            match types[0].rows.edge_set() {
                Some(s) if s == *set => Ok(types[0]),
                _ => domain(edges(*set, End::Dst), types[0]),
            }
        }
        Op::Pick => {
            arity(2)?;
            let [table, index] = [types[0], types[1]];
            match (table.rows, index.rows.edge_set()) {
                (_, None) => domain("edge rows that name rows of a table", index),
                (Rows::Fixed(_), _) if table.stack == 0 && index == Type::new(index.rows, 1, 1) => {
                    Ok(Type {
                        rows: index.rows,
                        ..table
                    })
                }
                _ => range(table),
            }
        }
        Op::PickSum(rows) => Ok(Type {
            rows: Rows::Fixed(*rows),
            ..named()?
        }),
        Op::PickHead => Ok(Type {
            heads: 1,
            ..named()?
        }),
        Op::PlaceHead(heads) => match named()? {
            x if x.heads == 1 => Ok(Type { heads: *heads, ..x }),
            x => range(x),
        },
        Op::MatMul | Op::MatMulNT | Op::MatMulTN => {
            arity(2)?;
            matmul(op, types[0], types[1])
        }
        Op::Reshape { heads, width } => {
            arity(1)?;
            let same = u64::from(*heads) * u64::from(*width) == u64::from(types[0].columns());
            let ty = Type {
                heads: *heads,
                width: *width,
                ..types[0]
            };
            if same { Ok(ty) } else { range(types[0]) }
        }
        Op::Concat => {
            let Some(first) = types.first() else {
                return arity(1).map(|()| Type::SCALAR);
            };
            let mut width = 0u32;
            for ty in &types {
                if (ty.stack, ty.rows, ty.heads) != (first.stack, first.rows, first.heads) {
                    let op = op.to_string();
                    return Err(TypeError::Broadcast {
                        op,
                        left: *first,
                        right: *ty,
                    });
                }
                width += ty.width;
            }
            Ok(Type { width, ..*first })
        }
        Op::SliceCols { start, len } => {
            arity(1)?;
            let fits = start
                .checked_add(*len)
                .is_some_and(|end| end <= types[0].width);
            if fits && *len > 0 {
                Ok(Type {
                    width: *len,
                    ..types[0]
                })
            } else {
                range(types[0])
            }
        }
        Op::PadCols { before, after } => {
            arity(1)?;
            Ok(Type {
                width: types[0].width + before + after,
                ..types[0]
            })
        }
        Op::SliceRows { start, len } => {
            arity(1)?;
            match types[0].rows {
                Rows::Fixed(n) if *len > 0 && start.checked_add(*len).is_some_and(|e| e <= n) => {
                    Ok(Type {
                        rows: Rows::Fixed(*len),
                        ..types[0]
                    })
                }
                _ => range(types[0]),
            }
        }
        Op::PadRows { before, after } => {
            arity(1)?;
            match types[0].rows {
                Rows::Fixed(n) => Ok(Type {
                    rows: Rows::Fixed(n + before + after),
                    ..types[0]
                }),
                _ => range(types[0]),
            }
        }
        Op::ReduceCols(axis, _) => {
            arity(1)?;
            Ok(match axis {
                Axis::Width => Type {
                    width: 1,
                    ..types[0]
                },
                Axis::Heads => Type {
                    heads: 1,
                    ..types[0]
                },
            })
        }
        Op::SumRows => arity(1).map(|()| Type {
            rows: Rows::Fixed(1),
            ..types[0]
        }),
        Op::Sampled(sampled) => {
            let Some(first) = types.first() else {
                return arity(1).map(|()| Type::SCALAR);
            };
            sampled.result(&types).map_or_else(|| range(*first), Ok)
        }
        Op::Copies(..) => {
            arity(1)?;
            match types[0].rows {
                Rows::Vertices => Ok(types[0]),
                _ => range(types[0]),
            }
        }
        Op::Clip(what, _) => {
            arity(1)?;
            match (what, types[0]) {
                (Clip::Factor, Type::SCALAR) => Ok(Type::SCALAR),
                (Clip::Factor, found) => domain("one number", found),
                (Clip::Gradient | Clip::Rows, ty) if ty.rows == Rows::Vertices => Ok(ty),
                (Clip::Gradient | Clip::Rows, found) => range(found),
            }
        }
        Op::SumRanks => {
            arity(1)?;
            match types[0].rows {
                Rows::Fixed(_) => Ok(types[0]),
                _ => domain("fixed rows", types[0]),
            }
        }
        Op::Redistribute(how) => {
            arity(1)?;
            how.result(types[0]).map_or_else(|| range(types[0]), Ok)
        }
        Op::Loss(_) => logits().map(|_| Type::SCALAR),
        Op::LossGrad(_) => logits(),
        Op::Scan(scan) => scan_type(op, scan, &types),
        Op::Out(n) => {
            arity(1)?;
            let Op::Scan(scan) = &graph.node(inputs[0]).op else {
                return mismatch("a scan".into(), graph.node(inputs[0]).op.to_string());
            };
            let results = scan.result_types();
            match results.get(*n as usize) {
                Some(ty) => Ok(*ty),
                None => mismatch(format!("one of {} results", results.len()), n.to_string()),
            }
        }
    }
}

fn gather(set: EdgeSet, end: End, ty: Type) -> Option<Type> {
    ty.rows.gathered(set, end).map(|rows| Type { rows, ..ty })
}

fn edges(set: EdgeSet, end: End) -> &'static str {
    match (set, end) {
        (EdgeSet::Plain, _) => "edge rows (edges)",
        (EdgeSet::Looped, _) => "edge rows (edges + loops)",
        (EdgeSet::Named(_), _) => "edge rows of the same named set",
    }
}

fn matmul(op: &Op, a: Type, b: Type) -> Result<Type, TypeError> {
    let inner = || {
        Err(TypeError::Inner {
            op: op.to_string(),
            left: a,
            right: b,
        })
    };
    if a.stack != 0 || b.stack != 0 {
        return inner();
    }
    match (op.product(), b.rows) {
        (Some(Product::Tn), rows) if a.rows == rows => Ok(Type::matrix(a.columns(), b.columns())),
        (Some(Product::Nn), Rows::Fixed(n)) if n == a.columns() => {
            Ok(Type::new(a.rows, 1, b.columns()))
        }
        (Some(Product::Nt), Rows::Fixed(n)) if a.columns() == b.columns() => {
            Ok(Type::new(a.rows, 1, n))
        }
        _ => inner(),
    }
}

fn scan_type(op: &Op, scan: &Scan, types: &[Type]) -> Result<Type, TypeError> {
    let expected = (scan.carries + scan.consts + scan.xs) as usize;
    if types.len() != expected || scan.body.args.len() != expected {
        let found = types.len().min(scan.body.args.len());
        return Err(TypeError::Arity {
            op: op.to_string(),
            found,
            expected,
        });
    }
    let mismatch = |expected: String, found: String| {
        Err(TypeError::Mismatch {
            op: op.to_string(),
            expected,
            found,
        })
    };
    let first_x = (scan.carries + scan.consts) as usize;
    for (i, (outer, inner)) in types.iter().zip(&scan.body.args).enumerate() {
        let wanted = if i < first_x {
            *inner
        } else {
            inner.stacked(scan.count)
        };
        if *outer != wanted {
            return mismatch(format!("{wanted} for argument {i}"), outer.to_string());
        }
    }
    let results = scan.result_types();
    if results.len() < scan.carries as usize {
        return mismatch(
            format!("{} carries", scan.carries),
            results.len().to_string(),
        );
    }
    for (i, (result, arg)) in results.iter().zip(&scan.body.args).enumerate() {
        if i < scan.carries as usize && result != arg {
            return mismatch(format!("carry {i} to stay {arg}"), result.to_string());
        }
    }
    Ok(results.first().copied().unwrap_or(Type::SCALAR))
}
