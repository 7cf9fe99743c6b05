//! Facts about a workload and about single values, known before a model is rewritten.

use gnnc_ir::graph::op::Input;
pub use gnnc_ir::words::scalar::Sign;
use gnnc_ir::words::types::{EdgeSet, NamedEdges};
use gnnc_ir::{Binary, Op, Rows, Type, Unary, Workload};
use serde::{Deserialize, Serialize};

/// The numbers of a workload that determine the cost of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Facts {
    /// Number of vertices.
    pub vertices: u64,
    /// Number of stored edges, without self loops.
    pub edges: u64,
    /// Numbers of edges of the named sets.
    pub named_edges: NamedEdges,
    /// Input features per vertex.
    pub features: u32,
    /// Nonzero input features of all vertices.
    pub feature_nonzeros: u64,
    /// Whether features are stored as nonzeros.
    pub sparse_features: bool,
    /// Number of classes.
    pub classes: u32,
    /// Whether to price training epochs (with gradients; values that no parameter changes are
    /// computed once) or a single evaluation.
    pub train: bool,
}

impl Facts {
    /// The facts of a workload.
    pub fn new(workload: &Workload, train: bool) -> Self {
        Self {
            vertices: workload.vertices,
            edges: workload.edges,
            named_edges: workload.named_edges(),
            features: workload.features,
            feature_nonzeros: workload.feature_nonzeros,
            sparse_features: workload.sparse_features(),
            classes: workload.classes,
            train,
        }
    }

    /// Number of rows that `rows` stands for.
    pub fn rows(&self, rows: Rows) -> f64 {
        match rows {
            Rows::Fixed(n) => f64::from(n),
            // Forms are found before batches are drawn.
            Rows::Level(_) | Rows::LevelEdges(..) => 0.0,
            Rows::Vertices | Rows::All => self.vertices as f64,
            Rows::Edges(EdgeSet::Plain) | Rows::AllEdges(EdgeSet::Plain) => self.edges as f64,
            Rows::Edges(EdgeSet::Looped) | Rows::AllEdges(EdgeSet::Looped) => {
                (self.edges + self.vertices) as f64
            }
            Rows::Edges(EdgeSet::Named(set)) | Rows::AllEdges(EdgeSet::Named(set)) => {
                self.named_edges.of(set) as f64
            }
        }
    }
}

/// What is known about a value.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Known {
    /// Sign of its elements.
    pub sign: Sign,
    /// No element can be infinite or NaN on any data graph, as long as parameters and arguments are
    /// finite.
    pub finite: bool,
    /// Depends on no parameter, draw or iteration, so one computation serves all epochs.
    pub invariant: bool,
    /// Depends on a parameter, so training needs its gradient.
    pub needs_grad: bool,
    /// Stored as the nonzeros of the feature matrix.
    pub sparse: bool,
}

/// The facts about a value that costs and conditions use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Value {
    /// Its type.
    pub ty: Type,
    /// What is known about it.
    pub known: Known,
}

impl Known {
    /// A trainable tensor.
    pub const PARAM: Self = Self {
        sign: Sign::Unknown,
        finite: true,
        invariant: false,
        needs_grad: true,
        sparse: false,
    };

    /// Combines the facts from two ways to compute the same value.
    pub fn both(self, other: Self) -> Self {
        Self {
            sign: self.sign.max(other.sign),
            finite: self.finite || other.finite,
            invariant: self.invariant || other.invariant,
            needs_grad: self.needs_grad && other.needs_grad,
            sparse: self.sparse || other.sparse,
        }
    }
}

/// Facts about the result of an operator. Excludes arguments of a scan body and results of a scan,
/// which [`crate::region`] derives from their surroundings.
pub fn known(op: &Op, kids: &[Value], facts: &Facts) -> Known {
    let all = |f: fn(&Known) -> bool| kids.iter().all(|k| f(&k.known));
    let sign = kids.iter().map(|k| k.known.sign).min().unwrap_or_default();
    let any_sign = kids.iter().map(|k| k.known.sign).max().unwrap_or_default();
    let finite = all(|k| k.finite);
    let plain = Known {
        sign: Sign::Unknown,
        finite,
        invariant: all(|k| k.invariant),
        needs_grad: kids.iter().any(|k| k.known.needs_grad),
        sparse: false,
    };
    let leaf = Known {
        finite: true,
        invariant: true,
        ..Known::default()
    };
    match op {
        Op::Input(Input::Features | Input::FeatureSlice(_)) => Known {
            sparse: facts.sparse_features,
            ..leaf
        },
        Op::Input(Input::InDegree(set) | Input::OutDegree(set)) => {
            let sign = match set {
                EdgeSet::Looped => Sign::Positive,
                EdgeSet::Plain | EdgeSet::Named(_) => Sign::NonNegative,
            };
            Known { sign, ..leaf }
        }
        Op::Input(Input::EdgeFeatures(_)) => leaf,
        Op::Input(Input::Relation(_)) => Known {
            sign: Sign::NonNegative,
            ..leaf
        },
        // An edge has at least itself of its type.
        Op::Input(Input::RelationDegree(_)) => Known {
            sign: Sign::Positive,
            ..leaf
        },
        Op::Pick | Op::PickHead => Known {
            sign: kids[0].known.sign,
            ..plain
        },
        Op::Input(Input::History(_)) => Known {
            finite: true,
            ..plain
        },
        Op::Input(Input::Fresh(_) | Input::Drawn(_)) => Known {
            sign: Sign::NonNegative,
            finite: true,
            ..plain
        },
        Op::Param(_) => Known {
            needs_grad: facts.train,
            ..Known::PARAM
        },
        Op::Const(value) => Known {
            sign: Sign::of(f64::from(*value)),
            finite: value.is_finite(),
            ..leaf
        },
        Op::Table(values) => Known {
            finite: values.iter().all(|v| v.is_finite()),
            ..leaf
        },
        Op::Arg(_)
        | Op::Scan(_)
        | Op::Out(_)
        | Op::Redistribute(_)
        | Op::SumRanks
        | Op::Sampled(_)
        | Op::Copies(..)
        | Op::Clip(..)
        | Op::Blend => Known {
            finite: true,
            ..plain
        },
        Op::Unary(function) => {
            let (sign, finite) = function.range(sign, finite);
            let sparse = matches!(function, Unary::Neg | Unary::Relu) && kids[0].known.sparse;
            Known {
                sign,
                finite,
                sparse,
                ..plain
            }
        }
        Op::Binary(function) => {
            let (sign, finite) = match function {
                Binary::Add => (
                    if sign == Sign::Unknown {
                        sign
                    } else {
                        any_sign
                    },
                    finite,
                ),
                Binary::Sub => (Sign::Unknown, finite),
                Binary::Mul => (sign, finite),
                Binary::Div if kids[1].known.finite => {
                    (sign, finite && kids[1].known.sign == Sign::Positive)
                }
                // A number divided by an infinite one is 0.
                Binary::Div => (sign.min(Sign::NonNegative), false),
                Binary::Max => (any_sign, finite),
                Binary::Eq => (Sign::NonNegative, true),
            };
            let scaled = |x: usize, s: usize| kids[x].known.sparse && kids[s].ty.columns() == 1;
            let sparse = match function {
                Binary::Mul => scaled(0, 1) || scaled(1, 0),
                Binary::Div => scaled(0, 1),
                _ => false,
            };
            Known {
                sign,
                finite,
                sparse,
                ..plain
            }
        }
        Op::Dropout { .. } => Known {
            sign: sign.min(Sign::NonNegative),
            invariant: false,
            sparse: kids[0].known.sparse,
            ..plain
        },
        Op::Broadcast(_)
        | Op::Take(..)
        | Op::Reshape { .. }
        | Op::Concat
        | Op::SliceCols { .. }
        | Op::SliceRows { .. }
        | Op::ReduceCols(..) => Known { sign, ..plain },
        // A table may have rows that no edge names.
        Op::PadCols { .. }
        | Op::PadRows { .. }
        | Op::SumRows
        | Op::PickSum(_)
        | Op::PlaceHead(_) => Known {
            sign: sign.min(Sign::NonNegative),
            ..plain
        },
        // With self loops, every vertex has an edge; without them, a neighborhood can be empty.
        Op::Gather(EdgeSet::Looped, ..) | Op::GatherMean(EdgeSet::Looped) => {
            Known { sign, ..plain }
        }
        Op::Gather(EdgeSet::Plain | EdgeSet::Named(_), ..)
        | Op::GatherMean(EdgeSet::Plain | EdgeSet::Named(_)) => Known {
            sign: sign.min(Sign::NonNegative),
            ..plain
        },
        Op::EdgeSoftmax(_) => Known {
            sign: Sign::NonNegative,
            ..plain
        },
        Op::MatMul | Op::MatMulNT | Op::MatMulTN => Known {
            sign: sign.min(Sign::NonNegative),
            ..plain
        },
        Op::Loss(_) | Op::LossGrad(_) => Known {
            sign: Sign::Unknown,
            ..plain
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        named_edges: NamedEdges::NONE,
        vertices: 10,
        edges: 40,
        features: 4,
        feature_nonzeros: 40,
        sparse_features: false,
        classes: 3,
        train: true,
    };

    fn degree(set: EdgeSet) -> Value {
        let known = known(&Op::Input(Input::InDegree(set)), &[], &FACTS);
        Value {
            ty: Type::vertices(1),
            known,
        }
    }

    #[test]
    fn the_inverse_root_of_a_degree_is_finite_only_with_self_loops() {
        let rsqrt = Op::Unary(Unary::Rsqrt);
        assert!(known(&rsqrt, &[degree(EdgeSet::Looped)], &FACTS).finite);
        assert!(!known(&rsqrt, &[degree(EdgeSet::Plain)], &FACTS).finite);
        let recip = Op::Unary(Unary::Recip);
        assert!(known(&recip, &[degree(EdgeSet::Plain)], &FACTS).finite);
    }

    #[test]
    fn the_inverse_of_an_infinite_number_is_not_positive() {
        let value = |op: Op, kids: &[Value]| Value {
            ty: Type::vertices(1),
            known: known(&op, kids, &FACTS),
        };
        let rsqrt = |x: Value| value(Op::Unary(Unary::Rsqrt), &[x]);
        for (set, sign) in [
            (EdgeSet::Looped, Sign::Positive),
            (EdgeSet::Plain, Sign::NonNegative),
        ] {
            let root = rsqrt(degree(set));
            assert_eq!(root.known.sign, Sign::Positive);
            assert_eq!(rsqrt(root).known.sign, sign);
            assert_eq!(value(Op::Unary(Unary::Recip), &[root]).known.sign, sign);
            let one = value(Op::Const(1.0), &[]);
            assert_eq!(
                value(Op::Binary(Binary::Div), &[one, root]).known.sign,
                sign
            );
        }
    }

    #[test]
    fn dropout_and_parameters_are_not_computed_once() {
        let x = degree(EdgeSet::Looped);
        assert!(x.known.invariant);
        assert!(
            !known(
                &Op::Dropout {
                    p: 0.5,
                    site: 0.into(),
                    slice: None
                },
                &[x],
                &FACTS
            )
            .invariant
        );
        let w = Value {
            ty: Type::SCALAR,
            known: Known::PARAM,
        };
        let product = known(&Op::Binary(Binary::Mul), &[x, w], &FACTS);
        assert!(!product.invariant && product.needs_grad);
    }
}
