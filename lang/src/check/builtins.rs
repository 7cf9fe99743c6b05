//! The built-in functions of the language, in one table.

use gnnc_ir::Unary;
use gnnc_ir::graph::op::Loss;
use gnnc_ir::words::spelling::one_of;

/// A function that is not written in the language itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Function {
    /// Element by element.
    Unary(Unary),
    /// `max(a, b)`
    Max,
    /// `min(a, b)`
    Min,
    /// `dropout(x, p)`
    Dropout,
    /// `linear(x, width, ..)`
    Linear,
    /// `parameter(width, ..)`
    Parameter,
    /// `uniform(bound)`
    Uniform,
    /// `matmul(x, w)`
    MatMul,
    /// `gather(e, reduce)`
    Gather,
    /// `softmax(e)`
    Softmax,
    /// `aggregate(h, reduce, ..)`
    Aggregate,
    /// `by_relation(t)`
    ByRelation,
    /// `concat(a, b, ..)`
    Concat,
    /// `slice(x, start, len)`
    Slice,
    /// `dot(a, b)`
    Dot,
    /// `sum_cols(x)`
    SumCols,
    /// `mean_cols(x)`
    MeanCols,
    /// `sum_rows(x)`
    SumRows,
    /// `mean_rows(x)`
    MeanRows,
    /// `split_heads(x, heads)`
    SplitHeads,
    /// `merge_heads(x)`
    MergeHeads,
    /// `sum_heads(x)`
    SumHeads,
    /// `mean_heads(x)`
    MeanHeads,
    /// `width(x)`
    Width,
    /// `heads(x)`
    Heads,
    /// `cross_entropy(logits, labels, on)` and the other losses, with their usual numbers
    Loss(Loss),
}

/// An entry of [`BUILTINS`].
#[derive(Clone, Debug)]
pub struct Builtin {
    /// The function.
    pub function: Function,
    /// Its name.
    pub name: &'static str,
    /// Its parameters in order.
    pub params: &'static [Formal],
    /// Whether further arguments may follow.
    pub variadic: bool,
    /// One-line description.
    pub doc: &'static str,
}

/// A parameter of a function.
#[derive(Clone, Copy, Debug)]
pub struct Formal {
    /// Its name.
    pub name: &'static str,
    /// Its default as source text; `None` if it is required.
    pub default: Option<&'static str>,
}

const fn need(name: &'static str) -> Formal {
    Formal {
        name,
        default: None,
    }
}

const fn opt(name: &'static str, default: &'static str) -> Formal {
    Formal {
        name,
        default: Some(default),
    }
}

const fn row(
    name: &'static str,
    function: Function,
    params: &'static [Formal],
    doc: &'static str,
) -> Builtin {
    Builtin {
        function,
        name,
        params,
        variadic: false,
        doc,
    }
}

const X: Formal = need("x");
const LABELS: Formal = need("labels");
const LOGITS: Formal = need("logits");
const WEIGHTS: Formal = opt("weights", "none");
const ON: Formal = opt("on", "train");
const LOSS: &[Formal] = &[LOGITS, LABELS, ON];
const CROSS_ENTROPY: &[Formal] = &[LOGITS, LABELS, ON, opt("smoothing", "0"), WEIGHTS];
const BINARY: &[Formal] = &[LOGITS, LABELS, ON, WEIGHTS];
const HUBER: &[Formal] = &[LOGITS, LABELS, ON, opt("delta", "1")];
const PARAMETER: &[Formal] = &[
    need("width"),
    opt("rows", "1"),
    opt("heads", "1"),
    opt("init", "glorot"),
    opt("fan_in", "rows"),
    opt("fan_out", "heads * width"),
    opt("decay", "none"),
    opt("name", "\"parameter_k\""),
];
const LINEAR: &[Formal] = &[
    X,
    need("width"),
    opt("bias", "true"),
    opt("init", "glorot"),
    opt("decay", "none"),
];
const AGGREGATE: &[Formal] = &[
    need("h"),
    need("reduce"),
    opt("norm", "none"),
    opt("self_loops", "false"),
];

/// Every function, in the order of the language reference.
#[rustfmt::skip]
pub const BUILTINS: &[Builtin] = &[
    row("relu",            Function::Unary(Unary::Relu),      &[X],                            "`max(x, 0)`"),
    row("leaky_relu",      Function::Unary(Unary::LeakyRelu(0.2)), &[X, opt("slope", "0.2")],       "`x` where it is positive, `slope * x` elsewhere"),
    row("elu",             Function::Unary(Unary::Elu),       &[X],                            "`x` where it is positive, `exp(x) - 1` elsewhere"),
    row("exp",             Function::Unary(Unary::Exp),       &[X],                            "the exponential"),
    row("log",             Function::Unary(Unary::Log),       &[X],                            "the natural logarithm"),
    row("sigmoid",         Function::Unary(Unary::Sigmoid),   &[X],                            "`1 / (1 + exp(-x))`"),
    row("tanh",            Function::Unary(Unary::Tanh),      &[X],                            "the hyperbolic tangent"),
    row("sqrt",            Function::Unary(Unary::Sqrt),      &[X],                            "the square root"),
    row("rsqrt",           Function::Unary(Unary::Rsqrt),     &[X],                            "`1 / sqrt(x)`"),
    row("recip",           Function::Unary(Unary::Recip),     &[X],                            "`1 / x`, and 0 where `x` is 0"),
    row("max",             Function::Max,           &[need("a"), need("b")],                               "the larger of two numbers, or of two tensors' elements"),
    row("min",             Function::Min,           &[need("a"), need("b")],                               "the smaller of two numbers"),
    row("dropout",         Function::Dropout,       &[X, need("p")],                                       "zeroes elements with probability `p` in training and scales the others by `1 / (1 - p)`"),
    row("linear",          Function::Linear,        LINEAR,                                                "`x W + b`; with `init = kaiming`, `W` and `b` are uniform within `1 / sqrt(d_in)`"),
    row("parameter",       Function::Parameter,     PARAMETER,                                             "a trainable tensor `[rows x heads x width]`"),
    row("uniform",         Function::Uniform,       &[need("bound")],                                      "an initial value for `init`: uniform within `bound` of 0"),
    row("matmul",          Function::MatMul,        &[X, need("w")],                                       "the matrix product; heads of `x` count as columns"),
    row("gather",          Function::Gather,        &[need("e"), need("reduce")],                          "reduces edge rows into their destinations: `sum`, `mean` or `max`, 0 without edges"),
    row("softmax",         Function::Softmax,       &[need("e")],                                          "softmax over the edges into each vertex, head by head"),
    row("aggregate",       Function::Aggregate,     AGGREGATE,                                             "reduces the rows of all in-neighbors; `norm = sym` scales by `1 / sqrt(out_degree * in_degree)`"),
    row("by_relation",     Function::ByRelation,    &[need("t")],                                          "the row of each edge's type, from `[relations x heads x width]`; from `h@src` or `h@dst` with one head per relation, the head of the edge's type"),
    Builtin { name: "concat", function: Function::Concat, params: &[need("a"), need("b")], variadic: true, doc: "concatenates the columns of several tensors, head by head" },
    row("slice",           Function::Slice,         &[X, need("start"), need("len")],                      "columns `start .. start + len` of each head"),
    row("dot",             Function::Dot,           &[need("a"), need("b")],                               "the inner product of two rows, head by head: one column"),
    row("sum_cols",        Function::SumCols,       &[X],                                                  "the sum of the columns of each head: one column"),
    row("mean_cols",       Function::MeanCols,      &[X],                                                  "the mean of the columns of each head: one column"),
    row("sum_rows",        Function::SumRows,       &[X],                                                  "the sum of all rows: one row, the same on every rank"),
    row("mean_rows",       Function::MeanRows,      &[X],                                                  "the mean of all rows: one row, the same on every rank"),
    row("split_heads",     Function::SplitHeads,    &[X, need("heads")],                                   "splits columns into heads of equal width"),
    row("merge_heads",     Function::MergeHeads,    &[X],                                                  "concatenates the heads as columns"),
    row("sum_heads",       Function::SumHeads,      &[X],                                                  "the sum of the heads"),
    row("mean_heads",      Function::MeanHeads,     &[X],                                                  "the mean of the heads"),
    row("width",           Function::Width,         &[X],                                                  "the number of columns of a head"),
    row("heads",           Function::Heads,         &[X],                                                  "the number of heads"),
    row("cross_entropy",   Function::Loss(Loss::CROSS_ENTROPY), CROSS_ENTROPY,                             "the loss for one class per vertex: mean of `-log softmax(logits)[label]`; with `smoothing = s`, the cross-entropy with a distribution that gives the label `1 - s` and shares `s` equally among all classes; with `weights = [a, b, ..]`, a number for each class, the mean weighted by those of the labels, and with `weights = balanced` by `n / (classes * count)` of the training vertices"),
    row("bce_with_logits", Function::Loss(Loss::BINARY_CROSS_ENTROPY), BINARY,                             "the loss for several labels per vertex: mean binary cross-entropy; with `weights = [a, b, ..]`, a label that a vertex has counts as often as its number says"),
    row("mse",             Function::Loss(Loss::SquaredError), LOSS,                                       "the loss for numbers: mean of `(logits - label)^2`"),
    row("mae",             Function::Loss(Loss::AbsoluteError), LOSS,                                      "the loss for numbers: mean of the absolute error"),
    row("huber",           Function::Loss(Loss::HUBER), HUBER,                                             "the loss for numbers: half the squared error where the absolute error is below `delta`, `delta * (absolute error - delta / 2)` elsewhere"),
];

/// Words with a meaning of their own, unless a variable shadows them.
pub const WORDS: &[&str] = &[
    "sum", "mean", "max", "none", "sym", "glorot", "kaiming", "zeros", "ones", "labels", "train",
    "balanced",
];

/// Values of the data graph that every layer and model can read: `[V x 1]` tensors, `[E x 1]` and
/// `[E x D]` tensors, the number of edge types, and `[V x T]` for types of vertices.
pub const GRAPH_VALUES: &[&str] = &[
    "in_degree",
    "out_degree",
    "relation_degree",
    "edge_features",
    "relations",
    "vertex_types",
];

/// Variables defined in every model: the input features, the number of classes, the number of
/// features.
pub const MODEL_VARIABLES: &[&str] = &["x", "classes", "features"];

/// The names of the losses, for messages.
pub fn losses() -> String {
    let names = BUILTINS
        .iter()
        .filter(|entry| matches!(entry.function, Function::Loss(_)));
    one_of(names.map(|entry| entry.name))
}

/// The function with a name.
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|entry| entry.name == name)
}

impl Builtin {
    /// The signature: `name(a, b = default)`.
    pub fn signature(&self) -> String {
        let mut params: Vec<String> = self
            .params
            .iter()
            .map(|p| {
                p.default
                    .map_or(p.name.to_owned(), |d| format!("{} = {d}", p.name))
            })
            .collect();
        if self.variadic {
            params.push("..".to_owned());
        }
        format!("{}({})", self.name, params.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_have_one_name() {
        for entry in BUILTINS {
            if let Function::Loss(loss) = &entry.function {
                assert_eq!(loss.name(), entry.name);
            }
        }
    }
}
